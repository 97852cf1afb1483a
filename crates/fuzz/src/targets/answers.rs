//! Whole answers, in the dialect of each preset: bounded, decided, and without the
//! credential that the provider repeats in them.

use rategov_core::observe::{
    CODE_BYTES_MAX, MALFORMED_MAX, MESSAGE_BYTES_MAX, Meaning, READINGS_MAX,
};
use rategov_server::gateway::error_body::{self, Look};
use rategov_server::gateway::reading::Tongue;
use rategov_server::gateway::understand::understand;

use crate::Target;
use crate::input::{Input, NOON, head_and_body};
use crate::words::{SECRET, answers, shows_secret, speech_of, with_secret};

/// An answer as the gateway would understand it.
pub(super) const ANSWER: Target = Target {
    name: "answer",
    holds: "whatever a provider says is understood within bounds, a refusal is never taken for success, and a credential in it is not repeated",
    check: check_answer,
    seeds: answers,
};

fn check_answer(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let speech = speech_of(input.byte());
    let status = 100 + (u16::from(input.byte()) << 8 | u16::from(input.byte())) % 500;
    let Some(text) = with_secret(input.rest()) else {
        return;
    };
    let (fields, body) = head_and_body(&text);
    let tongue = Tongue {
        dialect: &speech.dialect,
        rules: &speech.errors,
        hidden: &[SECRET],
        arrived: NOON,
    };
    let facts = understand(status, &fields, body, tongue);
    assert!(facts.readings.len() + facts.asides().limits.len() <= READINGS_MAX);
    assert!(facts.malformed.len() <= MALFORMED_MAX);
    assert!(
        facts
            .error_code
            .as_ref()
            .is_none_or(|code| code.len() <= CODE_BYTES_MAX)
    );
    let message = facts.error_message.as_ref();
    assert!(message.is_none_or(|text| text.len() <= MESSAGE_BYTES_MAX));
    let texts = [facts.error_code.as_ref(), message];
    let shown = texts.into_iter().flatten();
    assert!(
        !shown.clone().any(|text| text.contains(char::is_control)),
        "{facts:?}"
    );
    assert_eq!(facts.retry_after.is_some(), facts.retry_source.is_some());
    assert!(status < 400 || facts.meaning != Meaning::Ok, "{facts:?}");
    assert!(
        facts
            .readings
            .iter()
            .all(|reading| reading.limit != Some(0))
    );
    let all = facts.readings.iter().chain(&facts.asides().limits);
    for reading in all {
        assert!(reading.label().len() <= 100, "{reading:?}");
    }
    assert!(
        !shows_secret(&format!("{facts:?}")),
        "a credential is repeated: {facts:?}"
    );
}

/// The body of an error.
pub(super) const ERROR_BODY: Target = Target {
    name: "error_body",
    holds: "what is found in a body is bounded, holds no credential, and is shown to nobody by `Debug`",
    check: check_error_body,
    seeds: || {
        [
            r#"{"error":{"type":"rate_limit_error","code":"slow_down","message":"Incorrect key $KEY$"}}"#,
            r#"{"errors":[{"extensions":{"code":"THROTTLED"},"message":"a"}],"data":null}"#,
            r#"{"message":"API rate limit exceeded","documentation_url":"https://x/"}"#,
            r#"{"fault":{"faultstring":"no","detail":{"errorcode":"policies.ratelimit.x"}}}"#,
            r#"{"retry_after":0.25,"global":false,"code":0,"message":"$KEY$"}"#,
            r#"{"responses":[{"id":"1","status":429,"headers":{"Retry-After":"7"}}]}"#,
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12.5s"}]}}"#,
            "upstream connect error or disconnect, key $KEY$",
            "<html><body>502</body></html>",
        ]
        .iter()
        .enumerate()
        .map(|(at, text)| [&[at as u8 * 5, 1, 173], text.as_bytes()].concat())
        .collect()
    },
};

fn check_error_body(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let speech = speech_of(input.byte());
    let status = 100 + (u16::from(input.byte()) << 8 | u16::from(input.byte())) % 500;
    let Some(body) = with_secret(input.rest()) else {
        return;
    };
    let look = Look {
        dialect: &speech.dialect,
        hidden: &[SECRET],
    };
    let said = error_body::read(status, &body, look);
    if let Some(error) = &said.error {
        let texts = [&error.code, &error.kind, &error.message];
        for text in texts.into_iter().flatten() {
            assert!(
                text.len() <= error_body::TEXT_BYTES_MAX && !shows_secret(text),
                "{text}"
            );
        }
        if let Some(message) = error.message.as_ref().filter(|message| 20 < message.len()) {
            let others = [&error.code, &error.kind].into_iter().flatten();
            let is_elsewhere = others
                .into_iter()
                .any(|text| text.contains(message.as_str()));
            assert!(is_elsewhere || !format!("{said:?}").contains(message.as_str()));
        }
    }
    for value in &said.values {
        assert!(value.text.len() <= error_body::TEXT_BYTES_MAX && !shows_secret(&value.text));
        assert!(value.rule < speech.dialect.body_fields().len());
    }
}
