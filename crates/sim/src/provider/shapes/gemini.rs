//! Gemini's `generateContent`, whole and streamed, and its errors.
//!
//! The model is named in the path. Every chunk of a stream carries the usage so
//! far, the last one all of it. A refusal says in its details when to come back;
//! there are no fields about limits.

use rategov_core::time::Span;
use serde_json::{Value, json};

use super::{Ask, data};

pub(super) fn error(status: u16, message: &str, wait: Option<Span>) -> Value {
    let word = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    };
    let mut error = json!({"code": status, "message": message, "status": word});
    if let Some(wait) = wait {
        error["details"] = json!([{
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{}s", wait.as_secs_ceil())
        }]);
    }
    json!({ "error": error })
}

/// A whole answer.
pub(super) fn response(ask: &Ask<'_>) -> Value {
    chunk(ask, &ask.text(), ask.usage.output, true)
}

/// The chunks of a streamed answer, one for each word.
pub(super) fn stream(ask: &Ask<'_>) -> Vec<String> {
    let words = ask.words.len() as u64;
    let parts = ask.words.iter().zip(1_u64..).map(|(word, n)| {
        let so_far = ask.usage.output * n / words.max(1);
        data(&chunk(ask, word, so_far, n == words))
    });
    parts.collect()
}

fn chunk(ask: &Ask<'_>, text: &str, output: u64, is_last: bool) -> Value {
    let mut candidate = json!({
        "content": {"role": "model", "parts": [{"text": text}]}, "index": 0
    });
    if is_last {
        candidate["finishReason"] = match ask.usage.is_capped {
            true => "MAX_TOKENS".into(),
            false => "STOP".into(),
        };
    }
    let mut usage = json!({
        "promptTokenCount": ask.usage.input,
        "candidatesTokenCount": output,
        "totalTokenCount": ask.usage.input + output
    });
    if 0 < ask.usage.cached {
        usage["cachedContentTokenCount"] = ask.usage.cached.into();
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": ask.model,
        "responseId": ask.id
    })
}
