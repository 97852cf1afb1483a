//! OpenAI's chat completions, embeddings, models and errors.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Ask, data};
use crate::provider::ledger::sha256;

/// Most inputs of one embedding call.
const INPUTS_MAX: usize = 128;
/// Numbers of one embedding; real models have hundreds more and nothing new.
const DIMENSIONS: usize = 8;

pub(super) fn error(kind: &str, message: &str) -> Value {
    let class = match kind {
        "rate_limit_exceeded" => "requests",
        "server_is_overloaded" => "service_unavailable_error",
        other => other,
    };
    json!({"error": {"message": message, "type": class, "param": null, "code": kind}})
}

pub(super) fn model(name: &str, created: i64) -> Value {
    json!({"id": name, "object": "model", "created": created, "owned_by": "fake-provider"})
}

/// A `chat.completion`, with as many choices as `n` asks for.
pub(super) fn completion(ask: &Ask<'_>) -> Value {
    let choices: Vec<Value> = (0..ask.choices)
        .map(|index| {
            json!({
                "index": index,
                "message": {
                    "role": "assistant", "content": ask.text(), "refusal": null, "annotations": []
                },
                "logprobs": null,
                "finish_reason": reason(ask)
            })
        })
        .collect();
    json!({
        "id": format!("chatcmpl-{}", ask.id),
        "object": "chat.completion",
        "created": ask.created,
        "model": ask.model,
        "choices": choices,
        "usage": usage(ask),
        "service_tier": "default",
        "system_fingerprint": "fp_fake_provider"
    })
}

/// The chunks of a streamed completion, the usage chunk if asked for, `[DONE]`.
pub(super) fn stream(ask: &Ask<'_>) -> Vec<String> {
    let mut events = vec![role(ask)];
    events.extend(ask.words.iter().map(|word| delta(ask, word)));
    events.push(finish(ask));
    if with_usage(ask) {
        let mut last = chunk(ask, &json!([]));
        last["usage"] = usage(ask);
        events.push(data(&last));
    }
    events.push(done());
    events
}

/// The events of one scripted word.
pub(super) fn scripted(ask: &Ask<'_>, word: &str, text: &str) -> Vec<String> {
    match word {
        "message_start" => vec![role(ask)],
        "delta" => vec![delta(ask, if text.is_empty() { "word" } else { text })],
        "message_stop" => vec![finish(ask), done()],
        other => vec![format!(": {other}\n\n")],
    }
}

/// One embedding for each input, as numbers or in base64 as the SDKs ask.
pub(super) fn embeddings(ask: &Ask<'_>) -> Value {
    let input = &ask.json["input"];
    let inputs: Vec<String> = match input.as_array() {
        Some(list) if list.iter().all(Value::is_string) => {
            list.iter().take(INPUTS_MAX).map(Value::to_string).collect()
        }
        _ => vec![input.to_string()],
    };
    let coded = ask.json["encoding_format"] == "base64";
    let list: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let numbers = vector(text);
            let embedding = if coded {
                let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
                Value::from(STANDARD.encode(bytes))
            } else {
                Value::from(numbers.to_vec())
            };
            json!({"object": "embedding", "index": index, "embedding": embedding})
        })
        .collect();
    json!({
        "object": "list",
        "data": list,
        "model": ask.model,
        "usage": {"prompt_tokens": ask.usage.input, "total_tokens": ask.usage.input}
    })
}

/// Numbers in [-1, 1) that follow from the text.
fn vector(text: &str) -> [f32; DIMENSIONS] {
    let digest = sha256(text.as_bytes());
    std::array::from_fn(|n| {
        let byte = u8::from_str_radix(&digest[2 * n..2 * n + 2], 16).unwrap_or(0);
        f32::from(byte) / 128.0 - 1.0
    })
}

/// Why an answer ended.
fn reason(ask: &Ask<'_>) -> &'static str {
    match ask.usage.is_capped {
        true => "length",
        false => "stop",
    }
}

fn with_usage(ask: &Ask<'_>) -> bool {
    ask.json["stream_options"]["include_usage"] == true
}

fn usage(ask: &Ask<'_>) -> Value {
    let usage = &ask.usage;
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0
        }
    })
}

fn chunk(ask: &Ask<'_>, choices: &Value) -> Value {
    let mut chunk = json!({
        "id": format!("chatcmpl-{}", ask.id),
        "object": "chat.completion.chunk",
        "created": ask.created,
        "model": ask.model,
        "service_tier": "default",
        "system_fingerprint": "fp_fake_provider",
        "choices": choices
    });
    if with_usage(ask) {
        chunk["usage"] = Value::Null;
    }
    chunk
}

fn choice(ask: &Ask<'_>, delta: Value, finish: Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
    data(&chunk(ask, &json!([choice])))
}

fn role(ask: &Ask<'_>) -> String {
    choice(
        ask,
        json!({"role": "assistant", "content": "", "refusal": null}),
        Value::Null,
    )
}

fn delta(ask: &Ask<'_>, text: &str) -> String {
    choice(ask, json!({"content": text}), Value::Null)
}

fn finish(ask: &Ask<'_>) -> String {
    choice(ask, json!({}), reason(ask).into())
}

fn done() -> String {
    "data: [DONE]\n\n".to_owned()
}
