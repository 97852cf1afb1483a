//! What reads bodies as they pass: cut into whatever pieces they mean the same, and
//! nothing is found that isn't there.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::{Arc, LazyLock};

use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::{HeaderMap, HeaderValue, header};
use rategov_core::estimate::{MEDIA_BYTES, Seen, Usage};
use rategov_server::config::settings::Settings;
use rategov_server::gateway::meter::decode::{Coding, Decoder, Limits, Room, whole};
use rategov_server::gateway::meter::{MeterRules, Sizer, Tap};

use crate::Target;
use crate::input::{Input, pieces};

/// Most bytes that come out of a compressed copy here.
const PLAIN_MAX: u64 = 1 << 20;
/// The codings, by their names in a head.
const CODINGS: [&str; 6] = ["identity", "gzip", "deflate", "br", "zstd", "x-unknown"];

/// Bodies that are compressed, or say that they are.
pub(super) const DECODE: Target = Target {
    name: "decode",
    holds: "what was compressed comes out as it was, in whatever pieces, and no claim makes a copy larger than its bound",
    check: check_decode,
    seeds: || {
        let plain = br#"{"usage":{"input_tokens":7,"output_tokens":9},"x":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}"#;
        let mut seeds: Vec<Vec<u8>> = (0..5_u8)
            .map(|form| seed(form + 1, &compressed(form, plain)))
            .collect();
        // `aaaaaaaaaaaaaaaa…`, as the brotli tool of RFC 7932 writes it.
        seeds.push(seed(
            3,
            &[0x1b, 0x3f, 0x00, 0x00, 0x24, 0xc2, 0x08, 0x5a, 0x00],
        ));
        seeds
    },
};

fn seed(coding: u8, body: &[u8]) -> Vec<u8> {
    [&[coding], &[7; 8][..], body].concat()
}

fn compressed(form: u8, plain: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::fast();
    let made = match form % 5 {
        0 => {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            encoder.write_all(plain).and_then(|()| encoder.finish())
        }
        1 => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(plain).and_then(|()| encoder.finish())
        }
        2 => {
            let mut encoder = DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(plain).and_then(|()| encoder.finish())
        }
        3 => zstd::encode_all(plain, 1),
        _ => Ok(plain.to_vec()),
    };
    made.expect("memory takes everything")
}

fn coded(coding: &'static str, kind: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if coding != "identity" {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    headers
}

/// What a copy is, and whether it was read to here.
fn decoded(coding: Coding, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let limits = Limits {
        plain_max: PLAIN_MAX,
    };
    let mut decoder = Decoder::new(coding, Vec::new(), limits, &Room::default());
    pieces.iter().for_each(|piece| decoder.feed(piece));
    (
        decoder.sink().cloned().unwrap_or_default(),
        decoder.is_read(),
    )
}

fn check_decode(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let cuts = input.number();
    let body = input.rest();
    let headers = coded(
        CODINGS[usize::from(choice) % CODINGS.len()],
        "application/json",
    );
    let coding = Coding::of(&headers);
    let (plain, is_read) = decoded(coding, &[body]);
    assert!(plain.len() as u64 <= PLAIN_MAX);
    let (in_pieces, still_read) = decoded(coding, &pieces(body, cuts));
    assert_eq!(
        still_read, is_read,
        "{coding:?}: pieces are read as the whole is"
    );
    if is_read {
        assert!(in_pieces == plain, "{coding:?}: pieces mean something else");
    }
    match whole(&headers, body, PLAIN_MAX) {
        None => assert_eq!(coding, Coding::Unknown),
        Some(Cow::Borrowed(same)) => assert!(coding == Coding::Plain && same == body),
        Some(Cow::Owned(copy)) => assert!(!is_read || copy == plain),
    }

    let form = choice / 6 % 5;
    let coding = Coding::of(&coded(
        ["gzip", "deflate", "deflate", "zstd", "identity"][usize::from(form)],
        "",
    ));
    let body = &body[..body.len().min(16 << 10)];
    let (back, is_read) = decoded(coding, &pieces(&compressed(form, body), cuts));
    // Bare deflate whose first byte looks like a zlib header is taken for zlib.
    let is_ambiguous = form == 2;
    assert!(
        is_ambiguous || (is_read && back == body),
        "{coding:?} takes something away"
    );
}

fn rules() -> &'static Arc<MeterRules> {
    static RULES: LazyLock<Arc<MeterRules>> = LazyLock::new(|| {
        let settings = Settings::default();
        let mut providers = settings.providers.values();
        let first = providers.next().expect("presets are built in");
        Arc::clone(&first.meter)
    });
    &RULES
}

/// The size of a request.
pub(super) const SIZER: Target = Target {
    name: "sizer",
    holds: "a request weighs the same in whatever pieces, plain JSON never more than its bytes but for media, and compressed as plain",
    check: check_sizer,
    seeds: || {
        [
            r#"{"model":"m","max_tokens":4096,"n":2,"messages":[{"role":"user","content":"hello \"x\" \u0041"}]}"#,
            r#"{"generationConfig":{"maxOutputTokens":1e3,"candidateCount":-1},"contents":[{}]}"#,
            r#"{"max_tokens":18446744073709551616,"n":1e308,"max_output_tokens":NaN}"#,
            r#"[{"max_tokens":1},{"max_tokens":2}] {"max_tokens":3"#,
        ]
        .map(|text| seed(0, text.as_bytes()))
        .to_vec()
    },
};

fn check_sizer(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let cuts = input.number();
    let body = input.rest();
    let kind = ["application/json", "text/plain", "image/png"][usize::from(choice) % 3];
    let size = |headers: &HeaderMap, pieces: &[&[u8]]| {
        let room = Room::default();
        let mut sizer = Sizer::new(headers, &rules().sizing, &room);
        pieces.iter().for_each(|piece| sizer.see(piece));
        sizer.sizing(None)
    };
    let plain = coded("identity", kind);
    let sizing = size(&plain, &[body]);
    assert_eq!(
        size(&plain, &pieces(body, cuts)),
        sizing,
        "pieces weigh otherwise"
    );
    let media = (body.len() as u64).div_ceil(1 << 20).max(1) * MEDIA_BYTES;
    assert!(
        sizing.prompt_bytes <= (body.len() as u64).max(media),
        "{sizing:?}"
    );
    assert!(1 <= sizing.choices);
    if kind == "application/json" && !body.is_empty() {
        let sized = size(&coded("gzip", kind), &pieces(&compressed(0, body), cuts));
        assert_eq!(sized.most_output, sizing.most_output);
        assert_eq!(sized.choices, sizing.choices);
    }
}

/// What an answer reports of its cost.
pub(super) const TAP: Target = Target {
    name: "tap",
    holds: "an answer costs the same in whatever pieces, never more text than it has, and nothing where it is no text",
    check: check_tap,
    seeds: || {
        let texts = [
            (
                0,
                r#"{"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16}}"#,
            ),
            (
                1,
                "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\r\n\r\ndata: {\"usage\":{\"output_tokens\":3}}\n\ndata: [DONE]\n\n",
            ),
            (
                1,
                "event: message_delta\ndata: {\"usage\":\ndata: {\"output_tokens\":15}}\n\n: c\n",
            ),
            (3, "plain words"),
            (
                0,
                r#"{"usage":{"input_tokens":1e48,"output_tokens":-1,"total_tokens":0.5}}"#,
            ),
        ];
        let mut seeds: Vec<Vec<u8>> = texts
            .iter()
            .map(|(kind, text)| seed(*kind, text.as_bytes()))
            .collect();
        let payload = br#"{"bytes":"eyJ1c2FnZSI6eyJvdXRwdXRfdG9rZW5zIjo5fX0=","p":"a"}"#;
        seeds.push(seed(
            2,
            &[framed(payload), framed(b"{}"), vec![0; 12]].concat(),
        ));
        seeds
    },
};

/// A message of an AWS event stream.
fn framed(payload: &[u8]) -> Vec<u8> {
    let total = (payload.len() + 16) as u32;
    [&total.to_be_bytes()[..], &[0; 8], payload, &[0; 4]].concat()
}

fn check_tap(bytes: &[u8]) {
    const KINDS: [&str; 5] = [
        "application/json",
        "text/event-stream",
        "application/vnd.amazon.eventstream",
        "text/plain",
        "image/png",
    ];
    let mut input = Input::new(bytes);
    let choice = usize::from(input.byte());
    let cuts = input.number();
    let body = input.rest();
    let kind = KINDS[choice % KINDS.len()];
    let coding = CODINGS[choice / KINDS.len() % CODINGS.len()];
    let usage = |headers: &HeaderMap, pieces: &[&[u8]]| {
        let mut tap = Tap::new(headers, rules(), &Room::default());
        pieces.iter().for_each(|piece| tap.see(piece));
        tap.usage(Seen::Whole)
    };
    let plain = coded("identity", kind);
    let whole = usage(&plain, &[body]);
    assert_eq!(
        usage(&plain, &pieces(body, cuts)),
        whole,
        "pieces cost otherwise"
    );
    check_usage(&whole, body);
    if kind == "image/png" {
        let nothing = Usage {
            seen: Seen::Whole,
            ..Usage::default()
        };
        assert_eq!(whole, nothing, "a picture tells nothing");
    }
    let squeezed = usage(&coded("zstd", kind), &pieces(&compressed(3, body), cuts));
    assert_eq!(squeezed, whole, "compressed it costs otherwise");
    // Whatever it claims to be, it is read to its end or left.
    let _ = usage(&coded(coding, kind), &pieces(body, cuts));
}

fn check_usage(usage: &Usage, body: &[u8]) {
    assert!(usage.output_bytes <= 2 * body.len() as u64, "{usage:?}");
    let counts = [usage.input, usage.output, usage.total, usage.points];
    let has_digit = body.iter().any(u8::is_ascii_digit);
    // In an event stream of messages digits may stand in base64.
    let may_hide = body.windows(8).any(|part| part == b"{\"bytes\"");
    for count in counts.into_iter().flatten() {
        assert!(count <= 4 << 48, "{usage:?}");
        assert!(has_digit || may_hide, "a count without a digit: {usage:?}");
    }
}
