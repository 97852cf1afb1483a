//! Answers in the words of each dialect, as the presets understand them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::LazyLock;

use super::super::frames::message;
use super::*;

fn rules() -> Arc<MeterRules> {
    static RULES: LazyLock<Arc<MeterRules>> = LazyLock::new(|| {
        let settings = crate::config::settings::Settings::default();
        Arc::clone(&settings.providers.values().next().unwrap().meter)
    });
    Arc::clone(&RULES)
}

fn headers(kind: &str, coding: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
    if let Some(coding) = coding {
        headers.insert(header::CONTENT_ENCODING, coding.parse().unwrap());
    }
    headers
}

fn read(kind: &str, coding: Option<&str>, pieces: &[&[u8]], seen: Seen) -> Usage {
    let mut tap = Tap::new(&headers(kind, coding), &rules(), &Room::default());
    pieces.iter().for_each(|piece| tap.see(piece));
    tap.usage(seen)
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// What an answer says, in one line: `in 12 (cached 3) out 4 total 16 text 20`.
fn line(usage: &Usage) -> String {
    let mut line = String::new();
    for (word, amount) in [
        ("in", usage.input),
        ("cached", usage.cached_input),
        ("out", usage.output),
        ("total", usage.total),
        ("points", usage.points),
        ("spend", usage.spend),
        (
            "text",
            (0 < usage.output_bytes).then_some(usage.output_bytes),
        ),
    ] {
        if let Some(amount) = amount {
            let gap = if line.is_empty() { "" } else { " " };
            write!(line, "{gap}{word} {amount}").unwrap();
        }
    }
    line
}

/// The same however it is cut, and compressed.
#[track_caller]
fn check(kind: &str, body: &[u8], expected: &str) {
    let whole = read(kind, None, &[body], Seen::Whole);
    assert_eq!(line(&whole), expected);
    for cut in 0..=body.len() {
        let (first, second) = body.split_at(cut);
        assert_eq!(
            read(kind, None, &[first, second], Seen::Whole),
            whole,
            "cut at {cut}"
        );
    }
    let single: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(read(kind, None, &single, Seen::Whole), whole);
    let packed = gzip(body);
    for size in [1, 7, 4_096] {
        let pieces: Vec<&[u8]> = packed.chunks(size).collect();
        assert_eq!(
            read(kind, Some("gzip"), &pieces, Seen::Whole),
            whole,
            "{size}"
        );
    }
    let packed = zstd::encode_all(body, 3).unwrap();
    assert_eq!(read(kind, Some("zstd"), &[&packed], Seen::Whole), whole);
    // Of a part no more is said than of the whole.
    for cut in 0..body.len() {
        let part = read(kind, None, &[&body[..cut]], Seen::Part);
        assert!(
            part.output.unwrap_or(0) <= whole.output.unwrap_or(0),
            "{cut}"
        );
    }
}

const JSON: &str = "application/json; charset=utf-8";
const EVENTS: &str = "text/event-stream";

#[test]
fn a_chat_completion() {
    let body = br#"{"id":"c-1","object":"chat.completion","model":"m","choices":[{"index":0,
        "message":{"role":"assistant","content":"Two words.","refusal":null},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,
        "prompt_tokens_details":{"cached_tokens":16,"audio_tokens":0},
        "completion_tokens_details":{"reasoning_tokens":8}}}"#;
    check(JSON, body, "in 19 cached 16 out 10 total 29 text 10");
}

#[test]
fn a_chat_stream_with_its_usage_and_one_without() {
    let mut stream = String::new();
    for piece in ["Hel", "lo", " \\u00e9\\n"] {
        write!(
            stream,
            "data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{piece}\"}}}}],\"usage\":null}}\n\n"
        )
        .unwrap();
    }
    let end = "data: [DONE]\n\n";
    check(EVENTS, format!("{stream}{end}").as_bytes(), "text 10");
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,\"total_tokens\":12}}\n\n";
    check(
        EVENTS,
        format!("{stream}{usage}{end}").as_bytes(),
        "in 7 out 5 total 12 text 10",
    );
}

#[test]
fn tool_calls_are_generated_too() {
    let stream = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\":1}\"}}]}}]}\n\n";
    check(EVENTS, stream.as_bytes(), "text 7");
}

#[test]
fn a_response_and_its_stream() {
    let body =
        br#"{"object":"response","output":[{"type":"reasoning","summary":[]},{"type":"message",
        "content":[{"type":"output_text","text":"Four"}]}],"usage":{"input_tokens":36,
        "input_tokens_details":{"cached_tokens":4},"output_tokens":87,
        "output_tokens_details":{"reasoning_tokens":80},"total_tokens":123}}"#;
    check(JSON, body, "in 36 cached 4 out 87 total 123 text 4");
    let stream = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"output\":[],\"usage\":null}}\n\n\
        event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Fo\"}\n\n\
        event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"ur\"}\n\n\
        event: response.output_text.done\ndata: {\"type\":\"response.output_text.done\",\"text\":\"Four\"}\n\n\
        event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"content\":[{\"text\":\"Four\"}]}],\"usage\":{\"input_tokens\":36,\"input_tokens_details\":{\"cached_tokens\":4},\"output_tokens\":87,\"total_tokens\":123}}}\n\n";
    check(
        EVENTS,
        stream.as_bytes(),
        "in 36 cached 4 out 87 total 123 text 4",
    );
}

#[test]
fn embeddings_have_no_output() {
    let body = br#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.0023,-0.009,1e-5]}],
        "model":"e","usage":{"prompt_tokens":8,"total_tokens":8}}"#;
    check(JSON, body, "in 8 total 8");
}

#[test]
fn a_message_and_its_stream_count_what_came_from_a_cache() {
    let body = br#"{"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"x"},
        {"type":"text","text":"Hi"},{"type":"tool_use","id":"t","name":"f","input":{"a":1}}],
        "usage":{"input_tokens":2095,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":503}}"#;
    // `"a:1}`: an object counts without its first brace and last quotation marks.
    check(JSON, body, "in 3195 cached 1000 out 503 text 9");
    let stream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],\"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":10,\"output_tokens\":1}}}\n\n\
        event: ping\ndata: {\"type\": \"ping\"}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n\
        event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    check(EVENTS, stream.as_bytes(), "in 35 cached 10 out 15 text 7");
    let broken = stream.split("event: message_delta").next().unwrap();
    let part = read(EVENTS, None, &[broken.as_bytes()], Seen::Part);
    assert_eq!(line(&part), "in 35 cached 10 out 1 text 7");
}

#[test]
fn generated_content_in_all_its_framings() {
    let chunk = |text: &str, out: u64| {
        format!(
            "{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}],\"role\":\"model\"}}}}],\
             \"usageMetadata\":{{\"promptTokenCount\":11,\"candidatesTokenCount\":{out},\"thoughtsTokenCount\":40,\"totalTokenCount\":{}}}}}",
            51 + out
        )
    };
    let (first, second) = (chunk("Hel", 1), chunk("lo", 2));
    check(JSON, second.as_bytes(), "in 11 out 42 total 53 text 2");
    let events = format!("data: {first}\r\n\r\ndata: {second}\r\n\r\n");
    check(EVENTS, events.as_bytes(), "in 11 out 42 total 53 text 5");
    check(
        JSON,
        format!("[{first}\n,\n{second}]").as_bytes(),
        "in 11 out 42 total 53 text 5",
    );
}

#[test]
fn converse_and_its_stream_of_messages() {
    let body = br#"{"output":{"message":{"role":"assistant","content":[{"text":"Hello"}]}},"stopReason":"end_turn",
        "usage":{"inputTokens":30,"outputTokens":628,"totalTokens":658},"metrics":{"latencyMs":1275}}"#;
    check(JSON, body, "in 30 out 628 total 658 text 5");
    let stream = [
        message(br#"{"role":"assistant","p":"ab"}"#),
        message(br#"{"contentBlockIndex":0,"delta":{"text":"Hello"},"p":"abcd"}"#),
        message(br#"{"usage":{"inputTokens":30,"cacheReadInputTokens":5,"outputTokens":628,"totalTokens":663}}"#),
    ]
    .concat();
    check(
        "application/vnd.amazon.eventstream",
        &stream,
        "in 35 cached 5 out 628 total 663 text 5",
    );
}

#[test]
fn the_events_of_a_model_inside_of_a_stream_of_messages() {
    use base64::Engine as _;
    let event = |text: &str| {
        let inside = base64::engine::general_purpose::STANDARD.encode(text);
        message(format!("{{\"bytes\":\"{inside}\",\"p\":\"abcdef\"}}").as_bytes())
    };
    let stream = [
        event(
            r#"{"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}"#,
        ),
        event(r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hello"}}"#),
        event(r#"{"type":"message_delta","usage":{"output_tokens":15}}"#),
    ]
    .concat();
    check(
        "application/vnd.amazon.eventstream",
        &stream,
        "in 25 out 15 text 5",
    );
}

#[test]
fn cohere_and_its_stream() {
    let body = br#"{"id":"x","message":{"role":"assistant","content":[{"type":"text","text":"Hi"}]},
        "usage":{"billed_units":{"input_tokens":5,"output_tokens":418},"tokens":{"input_tokens":71.0,"output_tokens":418.0}}}"#;
    check(JSON, body, "in 71 out 418 text 2");
    let stream = "event: content-delta\ndata: {\"type\":\"content-delta\",\"delta\":{\"message\":{\"content\":{\"text\":\"Hi\"}}}}\n\n\
        event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\"usage\":{\"tokens\":{\"input_tokens\":71,\"output_tokens\":418}}}}\n\n";
    check(EVENTS, stream.as_bytes(), "in 71 out 418 text 2");
}

#[test]
fn money_is_read_exactly() {
    let body = br#"{"usage":{"prompt_tokens":194,"completion_tokens":2,"cost":1.4e-05}}"#;
    check(JSON, body, "in 194 out 2 spend 14");
}

#[test]
fn what_a_model_writes_is_not_taken_for_what_it_cost() {
    let body = br#"{"choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":1}}"}}],
        "metadata":{"usage":{"prompt_tokens":2}},"usage":{"prompt_tokens":7,"completion_tokens":3}}"#;
    check(JSON, body, "in 7 out 3 text 29");
}

#[test]
fn a_body_that_reports_nothing_counts_by_its_length() {
    check(JSON, br#"{"answer":"forty-two"}"#, "text 22");
    check("text/plain", b"forty-two", "text 9");
    check("audio/mpeg", &[0; 50], "");
    let kind = "application/json";
    assert_eq!(
        line(&read(kind, Some("compress"), &[b"abcdef"], Seen::Whole)),
        "text 6"
    );
}

#[test]
fn hostile_bodies_cost_one_step_a_byte_and_report_nothing() {
    let deep = "[".repeat(200_000) + &"{\"usage\":".repeat(200_000);
    let huge = format!(
        "{{\"usage\":{{\"prompt_tokens\":{}}}}}",
        "9".repeat(100_000)
    );
    let negative = r#"{"usage":{"prompt_tokens":-5,"completion_tokens":1e300}}"#;
    for body in [deep.as_str(), huge.as_str(), negative] {
        let usage = read(JSON, None, &[body.as_bytes()], Seen::Whole);
        assert!(!usage.is_reported(), "{usage:?}");
    }
    // A gigabyte of zeros in a megabyte: it is left alone, and counts by its wire length.
    let bomb = gzip(&vec![b'0'; 64 << 20]).repeat(16);
    let usage = read(JSON, Some("gzip"), &[&bomb], Seen::Whole);
    assert_eq!(usage.output_bytes, bomb.len() as u64);
}

#[test]
fn nothing_of_a_body_is_shown() {
    let mut tap = Tap::new(&headers(JSON, None), &rules(), &Room::default());
    tap.see(br#"{"key":"sk-secret-1"}"#);
    assert!(!format!("{tap:?}").contains("secret"));
}
