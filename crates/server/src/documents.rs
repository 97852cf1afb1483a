//! The documents of the error codes, as the binary carries them.
//!
//! Every sentence of the governor has a number, and every number a document
//! under `docs/errors/`: what happened, whether anything was sent, what to do.
//! They are compiled in, so that `rategov explain` and the agents' interface say
//! the same offline as the repository does.

/// Number, word and text of a document.
pub type Document = (&'static str, &'static str, &'static str);

/// Lists the documents: the number and the word of each, its text from its file.
macro_rules! documents {
    ($($id:literal $word:literal,)*) => {
        &[$((
            $id,
            $word,
            include_str!(concat!("../../../docs/errors/", $id, ".md")),
        ),)*]
    };
}

/// All of them, in the order of their numbers.
const DOCUMENTS: &[Document] = documents! {
    "RG1001" "queue_full",
    "RG1002" "agent_queue_full",
    "RG1003" "hold_exceeded",
    "RG1004" "quota_exhausted",
    "RG1005" "deadline_passed",
    "RG1006" "breaker_tripped",
    "RG1007" "key_reused",
    "RG1008" "lookalike_held",
    "RG1009" "audit_unavailable",
    "RG1010" "shutting_down",
    "RG1011" "cancelled",
    "RG2001" "upstream_unreachable",
    "RG2002" "upstream_certificate",
    "RG2003" "upstream_refused",
    "RG2004" "upstream_lost",
    "RG2005" "upstream_timeout",
    "RG2006" "possibly_billed",
    "RG2007" "stream_broken",
    "RG2008" "outcome_unknown",
    "RG2009" "escalated",
    "RG2010" "still_open",
    "RG2011" "pending",
    "RG2012" "result_lost",
    "RG2013" "not_applied",
    "RG2014" "superseded",
    "RG2015" "interrupted",
    "RG3001" "unknown_provider",
    "RG3002" "bad_target",
    "RG3003" "bad_header",
    "RG3004" "bad_framing",
    "RG3005" "unauthenticated",
    "RG3006" "forbidden",
    "RG3007" "spool_full",
    "RG3008" "body_cut",
    "RG3009" "class_loosened",
    "RG3010" "not_found",
    "RG3011" "method_not_allowed",
    "RG3012" "upgrade_refused",
    "RG3013" "invalid_request",
    "RG3014" "conflict",
    "RG3015" "wrong_host",
    "RG3016" "credential_missing",
    "RG3017" "internal",
    "RG3018" "head_too_large",
    "RG3019" "too_many_accounts",
    "RG3020" "store_unavailable",
};

/// The document of a code, by number (`RG1003`, in any case) or by word (`hold_exceeded`).
pub fn find(code: &str) -> Option<&'static str> {
    all()
        .find(|(id, word, _)| id.eq_ignore_ascii_case(code) || *word == code)
        .map(|(_, _, text)| text)
}

/// Every document, in the order of their numbers.
pub fn all() -> impl Iterator<Item = Document> {
    DOCUMENTS.iter().copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rategov_core::action::next_step::after_problem;
    use rategov_core::action::problem::{Code, ShouldRetry};
    use serde_json::Value;

    use super::*;
    use crate::gateway::problem::RequestCode;

    /// What a table says about a code.
    struct Said {
        word: &'static str,
        status: u16,
        title: &'static str,
        detail: &'static str,
        later: bool,
        next: Option<&'static str>,
    }

    /// Both tables, by number.
    fn tables() -> BTreeMap<&'static str, Said> {
        let actions = Code::ALL.iter().map(|code| {
            let row = code.problem();
            let said = Said {
                word: row.word,
                status: row.status,
                title: row.title,
                detail: row.detail,
                later: row.should_retry == ShouldRetry::Later,
                next: Some(after_problem(*code).word()),
            };
            (row.id, said)
        });
        let requests = RequestCode::ALL.iter().map(|code| {
            let (id, word, status, title) = code.row();
            let later = code.passes();
            (
                id,
                Said {
                    word,
                    status,
                    title,
                    detail: "",
                    later,
                    next: None,
                },
            )
        });
        actions.chain(requests).collect()
    }

    /// The JSON between the fences of a document.
    fn example(text: &str) -> Value {
        let (_, rest) = text.split_once("```json\n").expect("there is an example");
        let (json, _) = rest.split_once("\n```\n").expect("the example ends");
        serde_json::from_str(json).expect("the example is JSON")
    }

    #[test]
    fn every_code_has_its_document_and_every_document_its_code() {
        let tables: Vec<_> = tables().iter().map(|(id, said)| (*id, said.word)).collect();
        let documents: Vec<_> = all().map(|(id, word, _)| (id, word)).collect();
        assert_eq!(documents, tables);
    }

    #[test]
    fn a_document_says_what_its_code_says() {
        let tables = tables();
        for (id, word, text) in all() {
            let said = &tables[id];
            assert!(text.starts_with(&format!("# {id} {word}\n")), "{id}");
            assert!(text.contains(&format!(" Status {}, ", said.status)), "{id}");
            let title = format!("\n\n{}. status", said.title.to_lowercase());
            assert!(text.to_lowercase().contains(&title), "{id}");
            let repeats = text.contains("`x-should-retry: true`, with `Retry-After`");
            assert_eq!(repeats, said.later, "{id}");
        }
    }

    #[test]
    fn a_document_answers_the_four_questions() {
        for (id, _, text) in all() {
            let parts = [
                "\n## What happened\n",
                "\n## Was anything sent\n",
                "\n## What to do\n\n**As an agent.** ",
                "\n**As an operator.** ",
                "\n## Example\n",
            ];
            let places: Vec<_> = parts.iter().map(|part| text.find(part)).collect();
            assert!(
                places.iter().all(Option::is_some) && places.is_sorted(),
                "{id}: {places:?}"
            );
        }
    }

    #[test]
    fn an_example_is_a_body_that_the_code_could_have() {
        let tables = tables();
        for (id, word, text) in all() {
            let (said, body) = (&tables[id], example(text));
            assert_eq!(body["type"], format!("/governor/v1/errors/{id}"));
            assert_eq!(body["code"], word, "{id}");
            assert_eq!(body["status"], said.status, "{id}");
            assert_eq!(body["title"], said.title, "{id}");
            assert_eq!(body["next"].as_str(), said.next, "{id}");
            assert_eq!(
                body["retry_after_seconds"].is_u64(),
                said.next == Some("send_later") || said.later || id == "RG2010",
                "{id}"
            );
            let detail = body["detail"].as_str().unwrap_or_default();
            assert!(
                !detail.is_empty() && detail.ends_with(said.detail),
                "{id}: {detail}"
            );
        }
    }

    #[test]
    fn a_document_is_found_by_number_and_by_word() {
        assert!(find("RG1003").is_some_and(|text| text.starts_with("# RG1003 hold_exceeded\n")));
        assert_eq!(find("rg1003"), find("RG1003"));
        assert_eq!(find("hold_exceeded"), find("RG1003"));
        assert_eq!(find("teapot"), None);
        assert_eq!(find(""), None);
    }
}
