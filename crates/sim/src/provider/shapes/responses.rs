//! OpenAI's responses, whole and as the numbered events of a stream.

use serde_json::{Value, json};

use super::{Ask, event};

pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({
        "type": "error", "code": kind, "message": message, "param": null, "sequence_number": 0
    })
}

/// A completed `response`.
pub(super) fn response(ask: &Ask<'_>) -> Value {
    let mut response = in_progress(ask);
    response["status"] = status(ask).into();
    if ask.usage.is_capped {
        response["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    response["output"] = json!([item(ask, status(ask))]);
    response["usage"] = json!({
        "input_tokens": ask.usage.input,
        "input_tokens_details": {"cached_tokens": ask.usage.cached, "cache_write_tokens": 0},
        "output_tokens": ask.usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": ask.usage.input + ask.usage.output
    });
    response
}

/// The events of a streamed response, numbered from 0.
pub(super) fn stream(ask: &Ask<'_>) -> Vec<String> {
    let place = json!({"item_id": item_id(ask), "output_index": 0, "content_index": 0});
    let with = |name: &str, value: Value| {
        let mut event = place.clone();
        event[name] = value;
        event
    };
    let mut started = item(ask, "in_progress");
    started["content"] = json!([]);
    let mut events: Vec<(&str, Value)> = vec![
        ("response.created", json!({"response": in_progress(ask)})),
        (
            "response.in_progress",
            json!({"response": in_progress(ask)}),
        ),
        (
            "response.output_item.added",
            json!({"output_index": 0, "item": started}),
        ),
        ("response.content_part.added", with("part", part(""))),
    ];
    for word in &ask.words {
        let mut delta = with("delta", word.as_str().into());
        delta["logprobs"] = json!([]);
        events.push(("response.output_text.delta", delta));
    }
    let last = match ask.usage.is_capped {
        true => "response.incomplete",
        false => "response.completed",
    };
    let mut whole = with("text", ask.text().into());
    whole["logprobs"] = json!([]);
    events.extend([
        ("response.output_text.done", whole),
        (
            "response.content_part.done",
            with("part", part(&ask.text())),
        ),
        (
            "response.output_item.done",
            json!({"output_index": 0, "item": item(ask, status(ask))}),
        ),
        (last, json!({"response": response(ask)})),
    ]);
    events
        .into_iter()
        .enumerate()
        .map(|(number, (name, mut json))| {
            json["type"] = name.into();
            json["sequence_number"] = number.into();
            event(name, &json)
        })
        .collect()
}

/// A response that has begun: everything but its output.
fn in_progress(ask: &Ask<'_>) -> Value {
    json!({
        "id": format!("resp_{}", ask.id),
        "object": "response",
        "created_at": ask.created,
        "status": "in_progress",
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": ask.json["instructions"],
        "max_output_tokens": ask.json["max_output_tokens"],
        "model": ask.model,
        "output": [],
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null},
        "store": true,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": null,
        "user": null,
        "metadata": {}
    })
}

/// How it ended.
fn status(ask: &Ask<'_>) -> &'static str {
    match ask.usage.is_capped {
        true => "incomplete",
        false => "completed",
    }
}

fn item_id(ask: &Ask<'_>) -> String {
    format!("msg_{}", ask.id)
}

fn item(ask: &Ask<'_>, status: &str) -> Value {
    json!({
        "type": "message",
        "id": item_id(ask),
        "status": status,
        "role": "assistant",
        "content": [part(&ask.text())]
    })
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}
