//! Words and answers to begin with: the fields of every preset, hostile numbers, and
//! the one secret of all targets.

use std::sync::LazyLock;

use rategov_core::observe::dialect::Place;
use rategov_server::config::presets::Presets;
use rategov_server::config::speech::Speech;

/// A credential that no output may show. It belongs to nobody.
pub(crate) const SECRET: &str = "sk-CANARY-5b1f7e09d3c2a8";
/// What stands for it in an input, so that a part of it never comes from elsewhere.
const MARK: &[u8] = b"$KEY$";
/// So many bytes of it in a row are a part of it.
const SHOWN_BYTES: usize = 12;

/// Values that are nearly right, and those that are very wrong.
pub(crate) const HOSTILE: [&str; 24] = [
    "0",
    "-1",
    "1",
    "1e308",
    "NaN",
    "inf",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "999999999999999",
    "253402300799",
    "1796126400",
    "1796126401000",
    "99999999999999999999999999",
    "0.0000001",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "9999-12-31T23:59:59Z",
    "100%",
    "2540400h",
    "0s",
    "\"a\";r=0;t=999999999999999",
    "\"a\";q=1;w=999999999999999",
    "0/0",
];

/// The input with its marks replaced; `None` if it holds a part of the secret already.
pub(crate) fn with_secret(bytes: &[u8]) -> Option<Vec<u8>> {
    if shows_secret(&String::from_utf8_lossy(bytes)) {
        return None;
    }
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(MARK.len()).position(|part| part == MARK) {
        text.extend_from_slice(&rest[..at]);
        text.extend_from_slice(SECRET.as_bytes());
        rest = &rest[at + MARK.len()..];
    }
    text.extend_from_slice(rest);
    Some(text)
}

/// Whether a text shows the secret or a good part of it, in whatever case.
pub(crate) fn shows_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let secret = SECRET.to_ascii_lowercase();
    let mut parts = secret.as_bytes().windows(SHOWN_BYTES);
    parts.any(|part| {
        text.as_bytes()
            .windows(SHOWN_BYTES)
            .any(|other| other == part)
    })
}

/// How the answers of a preset are understood.
pub(crate) fn speech_of(number: u8) -> &'static Speech {
    static ALL: LazyLock<Vec<Speech>> = LazyLock::new(|| {
        let names = Presets::built_in().names();
        names.map(|name| Speech::of(name, None)).collect()
    });
    &ALL[usize::from(number) % ALL.len()]
}

fn presets() -> usize {
    Presets::built_in().names().count()
}

/// The header fields that a preset reads, and those that everybody does.
pub(crate) fn fields_of(speech: &Speech) -> Vec<String> {
    let named = speech
        .dialect
        .fields()
        .iter()
        .filter_map(|rule| match &rule.place {
            Place::Header(name) => Some(name.clone()),
            Place::OpenHeader(prefix) => Some(format!("{prefix}tickets")),
            Place::Body(_) => None,
        });
    let usual = ["retry-after", "date", "age", "content-type"];
    named.chain(usual.map(str::to_owned)).collect()
}

/// For each preset a refusal and a success with all of its fields.
pub(crate) fn answers() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for number in 0..presets() {
        let number = number as u8;
        let fields = fields_of(speech_of(number));
        for (turn, status) in [429_u16, 200].into_iter().enumerate() {
            let mut seed = vec![number];
            seed.extend_from_slice(&(status - 100).to_be_bytes());
            for (at, name) in fields.iter().enumerate() {
                let value = HOSTILE[(usize::from(number) + turn * 7 + at) % HOSTILE.len()];
                seed.extend_from_slice(format!("{name}: {value}\n").as_bytes());
            }
            seed.extend_from_slice(b"x-echo: $KEY$\n\n");
            seed.extend_from_slice(
                br#"{"error":{"code":"$KEY$","type":"x","message":"try again in 7s, $KEY$"}}"#,
            );
            seeds.push(seed);
        }
    }
    seeds
}

/// Streams: content, errors at once and later, and what is neither.
pub(crate) fn streams() -> Vec<Vec<u8>> {
    let streams = [
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"$KEY$\"}}\n\n",
        ": ping\r\n\r\nevent: ping\r\ndata: {}\r\n\r\ndata: {\"error\": {\"code\": 429}}\r\n\r\n",
        "\u{feff}data: {\"choices\":[{\"delta\":{\"content\":\"\u{20ac}\"}}]}\n\ndata: [DONE]\n\n",
        "event: message_start\rdata: {}\r\revent: error\rdata:{\"error\":\rdata:\"x\"}\r\r",
        "data",
        "id: 7\nretry: 5\n\ndata:\n\ndata: {\"error\":null}\n\n",
    ];
    let seed = |(at, text): (usize, &str)| [&[at as u8; 9], text.as_bytes()].concat();
    streams.into_iter().enumerate().map(seed).collect()
}

/// The words that a mutation may put in, in the format of libFuzzer's dictionaries.
pub fn dictionary() -> String {
    let fields = (0..presets()).flat_map(|number| fields_of(speech_of(number as u8)));
    let mut words: Vec<String> = fields.map(|name| format!("\n{name}: ")).collect();
    words.extend(HOSTILE.map(str::to_owned));
    words.push("$KEY$".to_owned());
    words.push("\n%%\n".to_owned());
    words.sort();
    words.dedup();
    let quoted = words.iter().map(|word| {
        let bytes = word.bytes().map(|byte| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            other => format!("\\x{other:02x}"),
        });
        format!("\"{}\"\n", bytes.collect::<String>())
    });
    quoted.collect()
}
