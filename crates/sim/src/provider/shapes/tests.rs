//! The shapes against what the SDKs' types name, as JSON.

use super::*;
use crate::provider::message::Body;
use crate::provider::usage::load_of;

fn maker() -> Maker {
    Maker {
        seed: Seed(7),
        created: WallTime::from_secs(1_767_225_600),
        pause: Span::ZERO,
        stream: false,
        length: Length::Short,
        cached_permille: 0,
    }
}

fn ask(target: &str, fields: &[(&str, &str)], body: Value) -> Reply {
    let method = if body.is_null() { "GET" } else { "POST" };
    let request = Request::of(method, target, fields, &body.to_string());
    let api = Api::of(&request.head).expect("it is an API");
    maker().answer(api, &request)
}

fn json_of(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body.bytes()).expect("it is JSON")
}

/// The names of all fields, nested ones by their path, arrays by their first item.
fn names(json: &Value, path: &str, into: &mut Vec<String>) {
    match json {
        Value::Object(map) => {
            for (name, value) in map {
                names(value, &format!("{path}.{name}"), into);
            }
        }
        Value::Array(list) if !list.is_empty() => names(&list[0], &format!("{path}[]"), into),
        _ => into.push(path.trim_start_matches('.').to_owned()),
    }
}

fn check(json: &Value, expected: &str) {
    let mut got = Vec::new();
    names(json, "", &mut got);
    assert_eq!(
        got.join(" "),
        expected.split_whitespace().collect::<Vec<_>>().join(" ")
    );
}

/// The data of each event, and its name where it has one.
fn events(reply: &Reply) -> Vec<(String, Value)> {
    let Body::Pieces(pieces) = &reply.body else {
        panic!("it is a stream")
    };
    let parse = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).expect("it is text").to_owned();
        assert!(text.ends_with("\n\n"), "{text:?}");
        let line = |prefix| {
            text.lines()
                .find_map(|l| l.strip_prefix(prefix))
                .unwrap_or("")
        };
        let data = line("data: ");
        (
            line("event: ").to_owned(),
            serde_json::from_str(data).unwrap_or_else(|_| data.into()),
        )
    };
    pieces.iter().map(|p| parse(&p.bytes)).collect()
}

fn chat(extra: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in extra.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

#[test]
fn a_chat_completion_has_the_fields_of_its_type() {
    let reply = ask("/v1/chat/completions", &[], chat(json!({"n": 2})));
    let json = json_of(&reply);
    check(
        &json,
        "choices[].finish_reason choices[].index choices[].logprobs choices[].message.annotations
         choices[].message.content choices[].message.refusal choices[].message.role created id model
         object service_tier system_fingerprint
         usage.completion_tokens usage.completion_tokens_details.accepted_prediction_tokens
         usage.completion_tokens_details.audio_tokens usage.completion_tokens_details.reasoning_tokens
         usage.completion_tokens_details.rejected_prediction_tokens usage.prompt_tokens
         usage.prompt_tokens_details.audio_tokens usage.prompt_tokens_details.cached_tokens
         usage.total_tokens",
    );
    assert_eq!(json["object"], "chat.completion");
    assert_eq!(json["choices"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_streamed_completion_ends_with_its_usage_and_the_done_mark() {
    let body = chat(json!({"stream": true, "stream_options": {"include_usage": true}}));
    let reply = ask("/v1/chat/completions", &[], body);
    let events: Vec<Value> = events(&reply).into_iter().map(|(_, data)| data).collect();
    let count = events.len();
    assert_eq!(events[count - 1], "[DONE]");
    assert_eq!(events[count - 2]["choices"], json!([]));
    assert!(events[count - 2]["usage"]["total_tokens"].as_u64() > Some(0));
    assert_eq!(events[count - 3]["choices"][0]["finish_reason"], "stop");
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(
        events[..count - 1]
            .iter()
            .all(|e| e["object"] == "chat.completion.chunk")
    );
    let plain = ask("/v1/chat/completions", &[], chat(json!({"stream": true})));
    let without = self::events(&plain);
    assert!(without.iter().all(|(_, data)| data.get("usage").is_none()));
}

#[test]
fn a_response_and_its_stream_agree() {
    let body = |stream| json!({"model": "m", "input": "hi", "stream": stream});
    let whole = json_of(&ask("/v1/responses", &[], body(false)));
    assert_eq!(
        (&whole["object"], &whole["status"]),
        (&"response".into(), &"completed".into())
    );
    check(
        &whole["output"],
        "[].content[].annotations [].content[].logprobs [].content[].text [].content[].type
         [].id [].role [].status [].type",
    );
    let events = events(&ask("/v1/responses", &[], body(true)));
    let numbers: Vec<_> = events
        .iter()
        .map(|(_, e)| e["sequence_number"].as_u64())
        .collect();
    assert_eq!(
        numbers,
        (0..events.len() as u64).map(Some).collect::<Vec<_>>()
    );
    assert!(
        events
            .iter()
            .all(|(name, data)| data["type"] == name.as_str())
    );
    assert_eq!(events[0].0, "response.created");
    let last = &events[events.len() - 1];
    assert_eq!(last.0, "response.completed");
    let text: String = events
        .iter()
        .filter(|(name, _)| name == "response.output_text.delta")
        .filter_map(|(_, data)| data["delta"].as_str())
        .collect();
    assert_eq!(
        last.1["response"]["output"][0]["content"][0]["text"],
        text.as_str()
    );
}

#[test]
fn a_message_and_its_stream_have_the_fields_and_events_of_their_types() {
    let body = |stream| chat(json!({"max_tokens": 64, "stream": stream}));
    let version = [("anthropic-version", "2023-06-01")];
    check(
        &json_of(&ask("/v1/messages", &version, body(false))),
        "content[].citations content[].text content[].type id model role stop_reason stop_sequence type
         usage.cache_creation_input_tokens usage.cache_read_input_tokens usage.input_tokens
         usage.output_tokens usage.service_tier",
    );
    let stream = events(&ask("/v1/messages", &version, body(true)));
    let mut kinds: Vec<&str> = stream.iter().map(|(name, _)| name.as_str()).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    assert!(
        stream
            .iter()
            .all(|(name, data)| data["type"] == name.as_str())
    );
    let count = json_of(&ask("/v1/messages/count_tokens", &version, body(false)));
    check(&count, "input_tokens");
}

#[test]
fn embeddings_come_as_numbers_or_in_base64() {
    let body =
        |format: Value| json!({"model": "m", "input": ["a", "b"], "encoding_format": format});
    let json = json_of(&ask("/v1/embeddings", &[], body("float".into())));
    let list = json["data"].as_array().expect("a list");
    assert_eq!(list.len(), 2);
    assert_eq!(list[0]["embedding"].as_array().map(Vec::len), Some(8));
    let json = json_of(&ask("/v1/embeddings", &[], body("base64".into())));
    let coded = json["data"][1]["embedding"].as_str().expect("a text");
    assert_eq!(coded.len(), (8_usize * 4).div_ceil(3) * 4);
}

#[test]
fn an_embedding_is_charged_what_it_reports() {
    let body = json!({"model": "m", "input": "twenty bytes of text"});
    let sent = Request::of("POST", "/v1/embeddings", &[], &body.to_string());
    let (maker, load) = (maker(), load_of(Some(Api::Embeddings), &sent, 0));
    let usage = maker.usage(&sent);
    let json = json_of(&maker.answer(Api::Embeddings, &sent));
    assert_eq!(json["usage"]["total_tokens"], usage.input);
    assert_eq!((load.input, load.most), (usage.input, 0));
    assert_eq!((usage.output, usage.is_capped), (0, false));
}

#[test]
fn models_are_listed_in_the_words_of_the_caller() {
    check(
        &json_of(&ask("/v1/models", &[], Value::Null)),
        "data[].created data[].id data[].object data[].owned_by object",
    );
    let version = [("anthropic-version", "2023-06-01")];
    check(
        &json_of(&ask("/v1/models", &version, Value::Null)),
        "data[].created_at data[].display_name data[].id data[].type first_id has_more last_id",
    );
    assert_eq!(json_of(&ask("/models/any", &[], Value::Null))["id"], "any");
}

#[test]
fn equal_requests_get_equal_bodies_and_others_do_not() {
    let one = ask("/v1/chat/completions", &[], chat(json!({})));
    assert_eq!(one, ask("/v1/chat/completions", &[], chat(json!({}))));
    assert_ne!(
        one,
        ask("/v1/chat/completions", &[], chat(json!({"user": "u"})))
    );
}

#[test]
fn a_request_without_a_model_is_400_in_the_dialect_of_its_endpoint() {
    let reply = ask("/v1/messages", &[], json!({"messages": []}));
    assert_eq!(reply.status, 400);
    check(&json_of(&reply), "error.message error.type request_id type");
    let reply = ask("/v1/chat/completions", &[], json!([]));
    assert_eq!(json_of(&reply)["error"]["type"], "invalid_request_error");
}

#[test]
fn an_answer_is_no_longer_than_it_may_be() {
    let reply = ask("/v1/messages", &[], chat(json!({"max_tokens": 2})));
    assert_eq!(json_of(&reply)["usage"]["output_tokens"], 2);
}
