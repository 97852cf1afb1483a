//! How commands speak: tables and JSON to standard output, the rest to standard error.

use std::io::{IsTerminal, Write};

use comfy_table::Table;
use serde_json::Value;

/// Prints a value as JSON.
pub(crate) fn json(value: &Value) {
    line(&serde_json::to_string_pretty(value).unwrap_or_default());
}

/// Prints one line of data. A closed pipe ends the output, not the program.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A message for a person.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// An error for a person: the cause, then what helps.
pub(crate) fn complain(error: &anyhow::Error) {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let label = if colour {
        "\u{1b}[31merror:\u{1b}[0m"
    } else {
        "error:"
    };
    eprintln!("{label} {}", printable(&format!("{error:#}")));
}

/// A table with a head.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_header(head.to_vec());
    let mut empty = true;
    for row in rows {
        empty = false;
        table.add_row(row.iter().map(|cell| printable(cell)).collect::<Vec<_>>());
    }
    if empty {
        note("nothing");
    } else {
        line(&table.to_string());
    }
}

/// A text that can't move the cursor or colour the terminal, whoever wrote it.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control() && c != '\n';
            let plain = (!escaped).then_some(c);
            escaped
                .then(|| c.escape_default())
                .into_iter()
                .flatten()
                .chain(plain)
        })
        .collect()
}

/// A field of a JSON object as text: strings bare, null as a dash.
pub(crate) fn field(value: &Value, name: &str) -> String {
    match &value[name] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_can_not_write_to_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(printable("a\nb é"), "a\nb é");
    }
}
