//! Bodies in the one form by which calls are compared.

use rategov_core::action::canonical;
use rategov_core::action::fingerprint::{Call, request};
use rategov_core::id::Account;
use serde_json::Value;

use crate::Target;
use crate::input::Input;

/// The canonical form of JSON.
pub(super) const CANONICAL: Target = Target {
    name: "canonical",
    holds: "what is JSON and nothing else has a form, the form is its own form, means the same, and white space doesn't change it",
    check: check_canonical,
    seeds: || {
        [
            r#"{ "b": [1, 2],  "a": "\u0041\ud83d\ude00\ud800" }"#,
            r#"{"a":1,"a":2,"A":-0.0e+1,"":[[]],"\u0061":null}"#,
            "[1e5, 1E5, 01]",
            "\"\\/\u{7f}\u{2028}\"",
            " 12 ",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    },
};

fn check_canonical(bytes: &[u8]) {
    let text = Input::new(bytes).rest();
    let form = canonical::json(text);
    let is_json = serde_json::from_slice::<&serde_json::value::RawValue>(text).is_ok();
    let Some(form) = form else {
        // Depth and size are bounds of the form only.
        let is_deep = text
            .iter()
            .filter(|byte| matches!(byte, b'[' | b'{'))
            .count()
            > canonical::DEPTH_MAX;
        assert!(!is_json || is_deep, "JSON without a form");
        return;
    };
    assert!(is_json, "something else has a form");
    assert_eq!(
        canonical::json(&form).as_ref(),
        Some(&form),
        "the form has another form"
    );
    let padded = [b" \r\n\t", text, b"\n "].concat();
    assert_eq!(canonical::json(&padded).as_ref(), Some(&form));
    let meant = |text: &[u8]| serde_json::from_slice::<Value>(text).ok();
    if let (Some(before), Some(after)) = (meant(text), meant(&form)) {
        assert_eq!(before, after, "the form means something else");
    }
    // Six bytes for one that must be escaped.
    assert!(form.len() <= 6 * text.len());
}

/// What a fingerprint is taken over.
pub(super) const FINGERPRINT: Target = Target {
    name: "fingerprint",
    holds: "calls that differ in anything but the spelling of their JSON feed different bytes to the hash",
    check: check_fingerprint,
    seeds: || {
        [
            "GET\n%%\n/a\n%%\nb=1\n%%\n{\"a\":1}\n%%\nGET\n%%\n/a\n%%\nb=1\n%%\n{ \"a\": 1 }",
            "GET\n%%\n/a\n%%\n\n%%\n\n%%\nGE\n%%\nT/a\n%%\n\n%%\n",
        ]
        .map(|text| [&[3][..], text.as_bytes()].concat())
        .to_vec()
    },
};

fn check_fingerprint(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flags = input.byte();
    let account = Account::new("billing/ops").expect("a name");
    let mut parts: Vec<&[u8]> = Vec::new();
    for _ in 0..8 {
        parts.push(input.part());
    }
    let texts: Vec<_> = parts
        .iter()
        .map(|part| String::from_utf8_lossy(part))
        .collect();
    let call = |at: usize, has_query: bool| Call {
        account: &account,
        method: &texts[at],
        path: &texts[at + 1],
        query: has_query.then_some(&*texts[at + 2]),
        payload: parts[at + 3],
    };
    let (one, other) = (call(0, flags & 1 == 0), call(4, flags & 2 == 0));
    let fed = |call: &Call<'_>| {
        let mut bytes = Vec::new();
        request(call, &mut |piece: &[u8]| bytes.extend_from_slice(piece));
        bytes
    };
    let form = |call: &Call<'_>| canonical::json(call.payload).ok_or_else(|| call.payload.to_vec());
    let are_equal = (one.method, one.path, one.query) == (other.method, other.path, other.query)
        && form(&one) == form(&other);
    assert_eq!(fed(&one) == fed(&other), are_equal, "{one:?} {other:?}");
}
