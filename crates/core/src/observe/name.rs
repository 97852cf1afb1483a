//! How a limit is called, where one field name stands for many limits.
//!
//! ```text
//! template = *( literal / "{" part "}" )
//! part     = "name"             ; what the `*` of a header matched, or a policy's name
//!          / header-name        ; the value of that header field of the same answer
//!          / key                ; in a body: the value beside the limit
//! ```
//!
//! Worked: `bucket:{x-ratelimit-bucket}` is `bucket:b7f0e1` in an answer that
//! names its bucket; `zendesk-ratelimit-*` with `{name}` is `tickets-index` for
//! the field `Zendesk-RateLimit-tickets-index`. A template whose part is missing
//! gives no name, never half a one.
//!
//! Names come from providers and end in records, so they are bounded and hold
//! visible ASCII only.

/// Longest name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 80;

/// The name that a template makes of an answer. `part` gives a part's value.
pub fn fill<'v>(template: &str, part: impl Fn(&str) -> Option<&'v str>) -> Option<String> {
    let mut name = String::new();
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('{') {
        let (asked, behind) = after.split_once('}')?;
        name.push_str(literal);
        name.push_str(part(asked).filter(|value| !value.is_empty())?);
        rest = behind;
    }
    name.push_str(rest);
    let visible = |b: u8| b.is_ascii_graphic() || b == b' ';
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    (fits && name.bytes().all(visible)).then_some(name)
}

/// Whether a template is well-formed: its braces pair up and hold something.
pub fn is_template(template: &str) -> bool {
    fill(template, |part| (!part.is_empty()).then_some("x")).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str) -> Option<String> {
        fill(template, |part| match part {
            "name" => Some("tickets"),
            "x-bucket" => Some("b7"),
            "odd" => Some("a\nb"),
            "empty" => Some(""),
            _ => None,
        })
    }

    #[test]
    fn parts_are_filled_and_a_missing_one_gives_no_name() {
        assert_eq!(filled("core").as_deref(), Some("core"));
        assert_eq!(filled("{name}").as_deref(), Some("tickets"));
        assert_eq!(filled("bucket:{x-bucket}").as_deref(), Some("bucket:b7"));
        assert_eq!(filled("{name}/{x-bucket}!").as_deref(), Some("tickets/b7!"));
        for none in ["{other}", "a{empty}", "{odd}", "{name", ""] {
            assert_eq!(filled(none), None, "{none}");
        }
        assert_eq!(filled(&"x".repeat(NAME_BYTES_MAX + 1)), None);
    }

    #[test]
    fn a_template_with_a_brace_left_open_is_none() {
        assert!(is_template("bucket:{x-bucket}"));
        for wrong in ["{", "{}", "a{b", ""] {
            assert!(!is_template(wrong), "{wrong}");
        }
    }
}
