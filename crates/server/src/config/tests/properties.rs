//! Whatever is written, reading it ends, and says something useful.

use proptest::prelude::*;

use crate::config::mistake::MISTAKES_MAX;
use crate::config::read;

const EXAMPLE: &str = include_str!("../../../../../examples/rategov.yaml");

/// Pieces that a configuration is made of, right and wrong.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("hold: "),
        Just("providers:\n"),
        Just("  openai: "),
        Just("agents:\n"),
        Just("60s"),
        Just("{ "),
        Just(" }"),
        Just("[ "),
        Just(" ]"),
        Just("\n"),
        Just("- "),
        Just("&a "),
        Just("*a"),
        Just("<<: "),
        Just("!!int "),
        Just("quotas:"),
        Just("limit: 0"),
        Just("\t"),
        Just("match: GET /{a}"),
        Just("? "),
        Just(": "),
        Just("'"),
        Just("\""),
        Just("|\n"),
        Just("1e400"),
        Just("-9"),
        Just("null"),
        Just("\u{feff}"),
        Just("# "),
        Just("---\n"),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn check(text: &str) -> Result<(), TestCaseError> {
    if let Err(mistakes) = read("rategov.yaml", text) {
        prop_assert!(!mistakes.0.is_empty());
        prop_assert!(mistakes.0.len() <= MISTAKES_MAX);
        for mistake in &mistakes.0 {
            prop_assert!(!mistake.cause.is_empty());
            let shown = mistake.to_string();
            prop_assert!(
                !shown.chars().any(|c| c.is_control() && c != '\n'),
                "{:?}",
                shown
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        check(&text)?;
    }

    #[test]
    fn arbitrary_bytes_of_text_never_panic(text in any::<String>()) {
        check(&text)?;
    }

    #[test]
    fn misplaced_pieces_never_panic(text in pieces()) {
        check(&text)?;
    }
}

proptest! {
    // Each case reads the whole example.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_damaged_example_never_panics(
        at in 0..EXAMPLE.chars().count(), removed in 0..40_usize, put in "[ -~\n]{0,6}",
    ) {
        let mut text: String = EXAMPLE.chars().take(at).collect();
        text.push_str(&put);
        text.extend(EXAMPLE.chars().skip(at + removed));
        check(&text)?;
    }
}

#[test]
fn a_misspelt_key_is_found_on_its_line() {
    // Names of providers, accounts, agents and sources are free.
    let free = [
        "ops-team",
        "reports",
        "sync-bot",
        "desk",
        "openai",
        "local-models",
        "billing-api",
        "manual",
    ];
    let mut found = 0;
    for (number, target) in EXAMPLE.lines().enumerate() {
        let Some((key, _)) = target.split_once(':') else {
            continue;
        };
        let key = key.trim_start_matches([' ', '-']);
        let plain = key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        if key.is_empty() || !plain || free.contains(&key) {
            continue;
        }
        let broken = target.replacen(key, &format!("{key}x"), 1);
        let lines = EXAMPLE.lines().enumerate();
        let lines: Vec<&str> = lines
            .map(|(n, it)| if n == number { &broken } else { it })
            .collect();
        let mistakes = read("rategov.yaml", &lines.join("\n")).unwrap_err();
        let hint = format!("did you mean `{key}`?");
        let named = mistakes.0.iter().any(|mistake| {
            mistake.mark.line as usize == number + 1 && mistake.hint.as_deref() == Some(&hint)
        });
        assert!(named, "{key}: {mistakes}");
        found += 1;
    }
    assert!(found > 80, "only {found} keys were tried");
}
