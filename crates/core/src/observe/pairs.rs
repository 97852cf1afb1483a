//! Several values in one field, each behind its key.
//!
//! ```text
//! pairs = pair *( ( ";" / "," ) pair ) [ ";" ]
//! pair  = OWS key OWS "=" OWS value OWS [ "(" comment ")" ]
//! ```
//!
//! Worked (Zendesk): in `total=100; remaining=99; resets=41` the value of
//! `remaining` is `99`. Worked (Salesforce): in
//! `api-usage=18/5000, per-app-api-usage=17/250(appName=sync)` the value of
//! `api-usage` is `18/5000`, and the other key, which ends in it, is not it.

/// Longest field that is taken apart, in pairs; what is behind them is not read.
const PAIRS_MAX: usize = 32;

/// The value of a key, whatever the key's case. `None` if the key is not there.
pub(crate) fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let pairs = text.split([';', ',']).take(PAIRS_MAX);
    pairs
        .filter_map(|pair| pair.split_once('='))
        .find(|(known, _)| known.trim().eq_ignore_ascii_case(key))
        .map(|(_, value)| value.split('(').next().unwrap_or("").trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_key_gives_its_own_value() {
        let zendesk = "total=100; remaining=99; resets=41";
        assert_eq!(value(zendesk, "total"), Some("100"));
        assert_eq!(value(zendesk, "Remaining"), Some("99"));
        assert_eq!(value(zendesk, "resets"), Some("41"));
        assert_eq!(value(zendesk, "reset"), None);
        let salesforce = "api-usage=18/5000; per-app-api-usage=17/250(appName=sync)";
        assert_eq!(value(salesforce, "api-usage"), Some("18/5000"));
        assert_eq!(value(salesforce, "per-app-api-usage"), Some("17/250"));
    }

    #[test]
    fn what_is_no_pair_gives_nothing() {
        for text in ["", ";;", "remaining", "remaining 5", "=5"] {
            assert_eq!(value(text, "remaining"), None, "{text:?}");
        }
        assert_eq!(value("remaining=", "remaining"), Some(""));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,80}", key in "[a-z=;]{0,5}") {
            let _ = value(&text, &key);
        }
    }
}
