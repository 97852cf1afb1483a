//! A whole answer in one piece becomes facts, as the gateway would understand it.
//!
//! The gateway reads a body only as far as its decision needs; whoever has all of
//! it, such as `rategov providers test`, gets the same facts here, and those of an
//! error that came late in a stream.

use rategov_core::observe::{Answer, Facts, read_answer};

use super::error_body::{self, ErrorText, Look, SECRET_BYTES_MIN, Said, clean};
use super::reading::Tongue;
use super::sse_opening;

/// What a head and what its body said amount to.
pub(super) fn understood(
    status: u16,
    headers: &[(&str, &[u8])],
    said: &Said,
    tongue: Tongue<'_>,
) -> Facts {
    let shown = without(tongue.hidden, headers);
    let shown: Option<Vec<(&str, &[u8])>> = shown.as_ref().map(|fields| {
        fields
            .iter()
            .map(|(name, value)| (*name, &value[..]))
            .collect()
    });
    let answer = Answer {
        status,
        headers: shown.as_deref().unwrap_or(headers),
        error: said.error.as_ref().map(ErrorText::lend),
        values: &said.values,
        arrived: tongue.arrived,
    };
    let mut facts = read_answer(&answer, tongue.dialect, tongue.rules);
    let asides = facts.beside.iter_mut().flat_map(|it| &mut it.limits);
    let names = facts.readings.iter_mut().chain(asides);
    let texts = [&mut facts.error_code, &mut facts.error_message];
    // Fields and bodies came without them; the name of a field may hold one, too.
    for text in names.map(|it| &mut it.name).chain(texts).flatten() {
        clean(text, tongue.hidden);
    }
    facts
}

/// The fields with what must not be shown cut out of their values; `None` if nothing of
/// it is in any. A code is read in lower case and cut to its length, so that nobody
/// would find a credential in it afterwards.
fn without<'h>(hidden: &[&str], headers: &[(&'h str, &[u8])]) -> Option<Vec<(&'h str, Vec<u8>)>> {
    let holds = |value: &[u8], secret: &str| {
        SECRET_BYTES_MIN <= secret.len()
            && value
                .windows(secret.len())
                .any(|part| part == secret.as_bytes())
    };
    let is_in = |value: &[u8]| hidden.iter().any(|secret| holds(value, secret));
    if !headers.iter().any(|(_, value)| is_in(value)) {
        return None;
    }
    let cut = |value: &[u8]| {
        let mut text = String::from_utf8_lossy(value).into_owned();
        clean(&mut text, hidden);
        text.into_bytes()
    };
    let fields = headers.iter().map(|(name, value)| match is_in(value) {
        true => (*name, cut(value)),
        false => (*name, value.to_vec()),
    });
    Some(fields.collect())
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
    fn a_credential_in_a_field_is_cut_out_before_it_is_changed_or_cut() {
        let rules = [What::Code, What::Message].map(|what| {
            let place = Place::header(&format!("x-{}", what.word()));
            FieldRule::new(place, what)
        });
        let dialect = Dialect::new(rules.to_vec(), MessageClock::Unknown).unwrap();
        let tongue = Tongue {
            dialect: &dialect,
            rules: &[],
            hidden: &["sk-CANARY-0123456789"],
            arrived: WallTime::from_secs(1_796_126_400),
        };
        let long = format!("{} sk-CANARY-0123456789", "x".repeat(290));
        let headers: [(&str, &[u8]); 2] = [
            ("x-code", b"no-sk-CANARY-0123456789"),
            ("x-message", long.as_bytes()),
        ];
        let facts = understand(400, &headers, b"", tongue);
        assert_eq!(facts.error_code.as_deref(), Some("no-[credential]"));
        let shown = format!("{facts:?}").to_ascii_lowercase();
        assert!(!shown.contains("sk-canary"), "{shown}");
    }

    #[test]
    fn an_error_status_is_read_as_a_body_whatever_its_type() {
        let body = r#"{"error":{"type":"overloaded_error"}}"#;
        check(429, Some("text/event-stream"), body, Kind::Overloaded);
        check(503, Some("text/html"), "<html>", Kind::Overloaded);
    }
}
