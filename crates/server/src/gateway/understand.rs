//! A whole answer in one piece becomes facts, as the gateway would understand it.
//!
//! The gateway reads a body only as far as its decision needs; whoever has all of
//! it, such as `rategov providers test`, gets the same facts here, and those of an
//! error that came late in a stream.

use rategov_core::observe::{Answer, Facts, read_answer};

use super::error_body::{self, ErrorText, Look, Said, clean};
use super::reading::Tongue;
use super::sse_opening;

/// What a head and what its body said amount to.
pub(super) fn understood(
    status: u16,
    headers: &[(&str, &[u8])],
    said: &Said,
    tongue: Tongue<'_>,
) -> Facts {
    let answer = Answer {
        status,
        headers,
        error: said.error.as_ref().map(ErrorText::lend),
        values: &said.values,
        arrived: tongue.arrived,
    };
    let mut facts = read_answer(&answer, tongue.dialect, tongue.rules);
    let asides = facts.beside.iter_mut().flat_map(|it| &mut it.limits);
    let names = facts.readings.iter_mut().chain(asides);
    let texts = [&mut facts.error_code, &mut facts.error_message];
    // Bodies came without them; names and codes may stand in headers, too.
    for text in names.map(|it| &mut it.name).chain(texts).flatten() {
        clean(text, tongue.hidden);
    }
    facts
}

/// What an error means that came late, as an event of a stream that had begun well.
/// The head said nothing of it.
pub(super) fn late(data: &str, tongue: Tongue<'_>) -> Option<Facts> {
    let look = Look {
        dialect: tongue.dialect,
        hidden: tongue.hidden,
    };
    let said = error_body::of_event("error", data, look)?;
    Some(understood(200, &[], &said, tongue))
}

/// What an answer means whose decoded body is here as a whole. Cost: one parse.
pub fn understand(
    status: u16,
    headers: &[(&str, &[u8])],
    body: &[u8],
    tongue: Tongue<'_>,
) -> Facts {
    let look = Look {
        dialect: tongue.dialect,
        hidden: tongue.hidden,
    };
    let said = match is_stream(headers, body) && status < 400 {
        true => sse_opening::first_error(body, look).unwrap_or_default(),
        false => error_body::read(status, body, look),
    };
    understood(status, headers, &said, tongue)
}

/// An event stream by its media type, or where none is told by its first line.
fn is_stream(headers: &[(&str, &[u8])], body: &[u8]) -> bool {
    let mut types = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    match types.next() {
        Some((_, value)) => value
            .get(..17)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"text/event-stream")),
        None => [&b"data:"[..], b"event:", b":"]
            .iter()
            .any(|start| body.starts_with(start)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rategov_core::observe::dialect::{Dialect, FieldRule, MessageClock, Place, What};
    use rategov_core::observe::{Kind, tables};
    use rategov_core::time::WallTime;

    #[track_caller]
    fn check(status: u16, content_type: Option<&str>, body: &str, expected: Kind) {
        let (dialect, rules) = (tables::generic(), tables::generic_rules());
        let tongue = Tongue {
            dialect: &dialect,
            rules: &rules,
            hidden: &[],
            arrived: WallTime::from_secs(1_796_126_400),
        };
        let headers: Vec<(&str, &[u8])> = content_type
            .iter()
            .map(|value| ("Content-Type", value.as_bytes()))
            .collect();
        let facts = understand(status, &headers, body.as_bytes(), tongue);
        assert_eq!(facts.kind, expected, "{body}");
    }

    #[test]
    fn an_error_counts_wherever_in_a_stream_it_stands() {
        let late = "data: {\"choices\":[]}\n\ndata: {\"error\":{\"code\":429}}\n\n";
        let stream = Some("text/event-stream; charset=utf-8");
        check(200, stream, late, Kind::RateLimited);
        check(200, None, late, Kind::RateLimited);
        check(200, stream, "data: {}\n\n", Kind::Ok);
        check(200, Some("text/plain"), late, Kind::Ok);
    }

    #[test]
    fn a_credential_in_the_name_of_a_limit_is_cut_out() {
        let name = Some("{x-bucket}".to_owned());
        let rule = FieldRule {
            dimension: "requests".to_owned(),
            name,
            ..FieldRule::new(Place::header("x-left"), What::Remaining)
        };
        let dialect = Dialect::new(vec![rule], MessageClock::Unknown).unwrap();
        let tongue = Tongue {
            dialect: &dialect,
            rules: &[],
            hidden: &["sk-canary"],
            arrived: WallTime::from_secs(1_796_126_400),
        };
        let headers: [(&str, &[u8]); 2] = [("x-left", b"3"), ("x-bucket", b"of-sk-canary")];
        let facts = understand(200, &headers, b"", tongue);
        assert_eq!(facts.readings[0].label(), "of-[credential]");
    }

    #[test]
    fn an_error_status_is_read_as_a_body_whatever_its_type() {
        let body = r#"{"error":{"type":"overloaded_error"}}"#;
        check(429, Some("text/event-stream"), body, Kind::Overloaded);
        check(503, Some("text/html"), "<html>", Kind::Overloaded);
    }
}
