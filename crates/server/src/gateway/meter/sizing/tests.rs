//! Requests in the words of each dialect, as the presets understand them.

use std::sync::{Arc, LazyLock};

use http::header;
use proptest::prelude::*;

use super::super::MeterRules;
use super::*;

fn rules() -> Arc<MeterRules> {
    static RULES: LazyLock<Arc<MeterRules>> = LazyLock::new(|| {
        let settings = crate::config::settings::Settings::default();
        Arc::clone(&settings.providers.values().next().unwrap().meter)
    });
    Arc::clone(&RULES)
}

fn headers(kind: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
    headers
}

fn sized(headers: &HeaderMap, pieces: &[&[u8]], length: Option<u64>) -> Sizing {
    let rules = rules();
    let mut sizer = Sizer::new(headers, &rules.sizing, &Room::default());
    pieces.iter().for_each(|piece| sizer.see(piece));
    sizer.sizing(length)
}

fn json(body: &str) -> Sizing {
    sized(&headers("application/json"), &[body.as_bytes()], None)
}

#[test]
fn every_dialect_says_its_most_and_its_choices() {
    for (body, most, choices) in [
        (
            r#"{"model":"m","messages":[],"max_completion_tokens":500,"n":2}"#,
            Some(500),
            2,
        ),
        (r#"{"messages":[],"max_tokens":400}"#, Some(400), 1),
        (
            r#"{"prompt":"x","max_tokens":16,"n":1,"best_of":3}"#,
            Some(16),
            3,
        ),
        (r#"{"input":"x","max_output_tokens":64}"#, Some(64), 1),
        (
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":800,"candidateCount":2}}"#,
            Some(800),
            2,
        ),
        (
            r#"{"messages":[],"inferenceConfig":{"maxTokens":300}}"#,
            Some(300),
            1,
        ),
        (r#"{"input":["a","b"]}"#, None, 1),
        (
            r#"{"messages":[{"content":"\"max_tokens\":9"}],"n":0,"max_tokens":null}"#,
            None,
            1,
        ),
    ] {
        let sizing = json(body);
        assert_eq!(
            (sizing.most_output, sizing.choices),
            (most, choices),
            "{body}"
        );
        assert_eq!(sizing.prompt_bytes, body.len() as u64);
    }
}

#[test]
fn a_picture_counts_as_a_picture_and_a_long_text_as_a_text() {
    let picture = format!("data:image/png;base64,{}", "iVBORw0KGgoAAAA".repeat(20_000));
    let body = format!(r#"{{"messages":[{{"image_url":{{"url":"{picture}"}}}}],"max_tokens":9}}"#);
    let sizing = json(&body);
    assert_eq!(
        sizing.prompt_bytes,
        (body.len() - picture.len()) as u64 + MEDIA_BYTES
    );
    assert_eq!(sizing.most_output, Some(9));
    let text = "a word and another one. ".repeat(1_000);
    let body = format!(r#"{{"prompt":"{text}"}}"#);
    assert_eq!(json(&body).prompt_bytes, body.len() as u64);
    let escaped = format!(r#"{{"data":"{}"}}"#, "ab\\/c".repeat(2_000));
    assert!(json(&escaped).prompt_bytes < 3 * MEDIA_BYTES);
}

#[test]
fn what_is_no_json_is_sized_by_its_bytes_and_what_is_no_text_by_its_kind() {
    let plain = sized(&headers("text/plain"), &[b"hello"], None);
    assert_eq!(plain.prompt_bytes, 5);
    let odd = json("{\"max_tokens\": 5");
    assert_eq!((odd.prompt_bytes, odd.most_output), (16, None));
    let form = headers("multipart/form-data; boundary=x");
    assert_eq!(sized(&form, &[&[0; 100]], None).prompt_bytes, MEDIA_BYTES);
    let recording = sized(&form, &[], Some(25 << 20));
    assert_eq!(recording.prompt_bytes, 25 * MEDIA_BYTES);
    assert_eq!(
        sized(&headers("application/json"), &[b"{}"], Some(9_000)).prompt_bytes,
        9_000
    );
}

#[test]
fn a_compressed_request_is_sized_by_what_is_in_it() {
    let body = format!(
        r#"{{"input":"{}","max_output_tokens":70}}"#,
        "so ".repeat(3_000)
    );
    let packed = zstd::encode_all(body.as_bytes(), 3).unwrap();
    let mut head = headers("application/json");
    head.insert(header::CONTENT_ENCODING, "zstd".parse().unwrap());
    let sizing = sized(&head, &[&packed], None);
    assert_eq!(
        (sizing.prompt_bytes, sizing.most_output),
        (body.len() as u64, Some(70))
    );
}

proptest! {
    #[test]
    fn any_bytes_are_sized_however_they_are_cut(
        bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b'{'), Just(b'\\'), any::<u8>()], 0..200),
        cut in 0usize..200,
    ) {
        let head = headers("application/json");
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        let sizing = sized(&head, &[first, second], None);
        prop_assert_eq!(sizing, sized(&head, &[&bytes], None));
        prop_assert!(sizing.prompt_bytes <= bytes.len() as u64);
    }
}
