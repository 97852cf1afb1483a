//! Anthropic's messages, models and errors.

use serde_json::{Value, json};

use super::{Ask, event};
use crate::provider::fault::Form;
use rategov_core::time::WallTime;

pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": null})
}

pub(super) fn model(name: &str, created: i64) -> Value {
    let created = Form::Rfc3339.write(WallTime::from_secs(created));
    json!({"type": "model", "id": name, "display_name": name, "created_at": created})
}

/// A whole message.
pub(super) fn message(ask: &Ask<'_>) -> Value {
    let mut message = begun(ask);
    message["content"] = json!([{"type": "text", "text": ask.text(), "citations": null}]);
    message["stop_reason"] = reason(ask).into();
    message["usage"]["output_tokens"] = ask.usage.output.into();
    message
}

/// The events of a streamed message.
pub(super) fn stream(ask: &Ask<'_>) -> Vec<String> {
    let mut events = start(ask);
    events.push(ping());
    events.extend(ask.words.iter().map(|word| delta(word)));
    events.extend(stop(ask));
    events
}

/// The events of one scripted word.
pub(super) fn scripted(ask: &Ask<'_>, word: &str, text: &str) -> Vec<String> {
    match word {
        "message_start" => start(ask),
        "delta" => vec![delta(if text.is_empty() { "word" } else { text })],
        "message_stop" => stop(ask),
        "ping" => vec![ping()],
        other => vec![format!(": {other}\n\n")],
    }
}

/// A message of which nothing is written yet.
fn begun(ask: &Ask<'_>) -> Value {
    json!({
        "id": format!("msg_{}", ask.id),
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": ask.fresh(),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": ask.usage.cached,
            "output_tokens": 1,
            "service_tier": "standard"
        }
    })
}

/// Why an answer ended.
fn reason(ask: &Ask<'_>) -> &'static str {
    match ask.usage.is_capped {
        true => "max_tokens",
        false => "end_turn",
    }
}

fn start(ask: &Ask<'_>) -> Vec<String> {
    let block = json!({"type": "text", "text": ""});
    vec![
        event(
            "message_start",
            &json!({"type": "message_start", "message": begun(ask)}),
        ),
        event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": 0, "content_block": block}),
        ),
    ]
}

fn ping() -> String {
    event("ping", &json!({"type": "ping"}))
}

fn delta(text: &str) -> String {
    let delta = json!({"type": "text_delta", "text": text});
    let json = json!({"type": "content_block_delta", "index": 0, "delta": delta});
    event("content_block_delta", &json)
}

fn stop(ask: &Ask<'_>) -> Vec<String> {
    let delta = json!({"stop_reason": reason(ask), "stop_sequence": null});
    let usage = json!({"output_tokens": ask.usage.output});
    vec![
        event(
            "content_block_stop",
            &json!({"type": "content_block_stop", "index": 0}),
        ),
        event(
            "message_delta",
            &json!({"type": "message_delta", "delta": delta, "usage": usage}),
        ),
        event("message_stop", &json!({"type": "message_stop"})),
    ]
}
