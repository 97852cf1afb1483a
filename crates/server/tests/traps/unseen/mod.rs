//! Answers that nobody recorded: the grammars of the twelve providers that are used
//! most, with other numbers, other names of limits, other cases of letters, halves that
//! are missing, several limits at once, and dates where seconds are usual.
//!
//! `others` and `services` hold a few of each of the rest.
//!
//! A row is a status, header fields, a body, and what it means in a line of
//! [`super::meaning`]; `ok: requests 59/60 1s` is a success that tells one limit.

mod anthropic;
mod atlassian;
mod bedrock;
mod forms;
mod github;
mod google;
mod groq;
mod microsoft;
mod openai;
mod openrouter;
mod others;
mod services;
mod slack;
mod stripe;

use super::{facts, meaning};

/// Status, header fields, body, meaning.
pub(crate) type Row = (
    u16,
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

/// Reads every row, and names all that mean something else.
#[track_caller]
pub(crate) fn table(provider: &str, rows: &[Row]) {
    assert!(6 <= rows.len(), "{} rows", rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(status, fields, body, expected)| {
            let facts = facts(provider, *status, fields, body);
            let got = meaning(&facts);
            let is_it = got == *expected && facts.malformed.is_empty();
            let malformed = facts.malformed;
            (!is_it).then(|| {
                format!(
                    "{status} {fields:?} {body}\n  means {expected}\n  not   {got} {malformed:?}"
                )
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{provider}\n{}", wrong.join("\n"));
}
