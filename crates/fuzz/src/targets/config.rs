//! Configurations and presets: whatever is written, each mistake has its line, and no
//! credential that was pasted into one is repeated.

use rategov_core::time::Span;
use rategov_server::config::mistake::Mistake;
use rategov_server::config::read;
use rategov_server::config::units::{PercentText, SizeText, SpanText};
use rategov_server::doors;

use crate::Target;
use crate::input::Input;
use crate::words::{shows_secret, with_secret};

const EXAMPLE: &str = include_str!("../../../../examples/rategov.yaml");
const GENERIC: &str = include_str!("../../../../providers/generic.yaml");
const DISCORD: &str = include_str!("../../../../providers/discord.yaml");

/// A configuration.
pub(super) const CONFIG: Target = Target {
    name: "config",
    holds: "every mistake is bounded, printable and on a line of the file, and a file without one gives settings",
    check: check_config,
    seeds: || {
        let small = [
            "providers:\n  x:\n    base_url: http://127.0.0.1:1\n    accounts:\n      a: { credential: $KEY$, quotas: [{ limit: 60, window: 10s }] }\n",
            "request_classes:\n  read: { max_attempts: 4, max_wait_seconds: 90, retry_statuses: [408, 429] }\n",
            "agents:\n  a: { token: $KEY$, ceiling: normal, accounts: [x/y] }\n",
            "hold: &a 60s\nbackoff: { base: *a, cap: 1e400, minimum: -9 }\n<<: ~\n? [1]\n: 2\n",
            "task: {max_retries: 20, deadline: 1h}\nshared_scope: {max_delayed_requests: 25}\nhold: 60\n---\nx: 1\n",
        ];
        let mut seeds: Vec<Vec<u8>> = small.iter().map(|text| text.as_bytes().to_vec()).collect();
        // The example in parts: a mutation of all of it takes long to read.
        let sections = EXAMPLE
            .split("# ──")
            .map(|text| format!("# {text}").into_bytes());
        seeds.extend(sections);
        seeds
    },
};

fn check_config(bytes: &[u8]) {
    let Some(text) = with_secret(Input::new(bytes).rest()) else {
        return;
    };
    let text = String::from_utf8_lossy(&text);
    match read("rategov.yaml", &text) {
        Ok(loaded) => check_mistakes(&text, &loaded.notices),
        Err(mistakes) => {
            assert!(!mistakes.0.is_empty());
            check_mistakes(&text, &mistakes.0);
        }
    }
}

fn check_mistakes(text: &str, mistakes: &[Mistake]) {
    // YAML ends a line at CR, LF, or both.
    let lines = text.matches(['\r', '\n']).count() + 1;
    assert!(mistakes.len() <= 100);
    for mistake in mistakes {
        let shown = mistake.to_string();
        assert!(
            !mistake.cause.is_empty() && shown.len() < 8 << 10,
            "{shown}"
        );
        assert!(
            !shown.contains(|c: char| c.is_control() && c != '\n'),
            "{shown:?}"
        );
        let line = mistake.mark.line as usize;
        assert!(
            (1..=lines).contains(&line),
            "line {line} of {lines}: {shown}"
        );
        check_shows_none(text, &shown);
    }
}

/// Where a credential belongs, no message repeats what stands there.
fn check_shows_none(text: &str, shown: &str) {
    let is_credential = |line: &str| {
        let line = line.trim_start();
        line.starts_with("credential: sk-") || line.starts_with("token: sk-")
    };
    let lines = text.lines().filter(|line| shows_secret(line));
    let all_belong = lines.clone().all(is_credential);
    if all_belong && lines.count() > 0 {
        assert!(!shows_secret(shown), "{shown}");
    }
}

/// A preset.
pub(super) const PRESET: Target = Target {
    name: "preset",
    holds: "a preset with mistakes names them, each on a line of the file",
    check: check_preset,
    seeds: || {
        let mut seeds: Vec<Vec<u8>> = [
            "fields:\n- { header: x-a-limit, what: limit, dimension: requests }\n- { body: '$.a[*].b', what: retry, unit: millis }\n",
            "errors:\n- { status: 429, code: slow, kind: rate_limited, reach: model, wait: 1s }\n- { message: a, kind: nonsense }\n",
            "usage:\n- { what: input, places: ['$.usage.a', '$.b[*].c'], plus: [d] }\nsizing: [{what: choices, places: $}]\n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec();
        seeds.extend([GENERIC, DISCORD].map(|text| text.as_bytes().to_vec()));
        seeds
    },
};

fn check_preset(bytes: &[u8]) {
    let text = Input::new(bytes).text();
    check_mistakes(&text, &doors::preset_mistakes(&text));
}

/// Times, sizes and shares as people write them.
pub(super) const UNITS: Target = Target {
    name: "config_units",
    holds: "what is written with its unit is read exactly, what is refused says why in a short sentence",
    check: check_units,
    seeds: || {
        [
            "60s",
            "250 ms",
            "90d",
            "3660d",
            "999999999999999d",
            "256MB",
            "1TiB",
            "12.5%",
            "100",
            "\u{661}s",
            "-1s",
        ]
        .map(|text| [&[4; 9], text.as_bytes()].concat())
        .to_vec()
    },
};

fn check_units(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (kind, number) = (usize::from(input.byte()), input.number());
    let text = input.text();
    let errors = [
        SpanText::parse(&text).err(),
        SizeText::parse(&text).err(),
        PercentText::parse(&text).err(),
    ];
    for error in errors.into_iter().flatten() {
        assert!(
            error.len() < 1_000 && !error.contains(|c: char| c.is_control() && c != '\n'),
            "{error:?}"
        );
        assert!(error.contains("\nhint: "), "{error:?}");
    }
    const TIMES: [(&str, u64); 6] = [
        ("us", 1),
        ("ms", 1_000),
        ("s", 1_000_000),
        ("m", 60_000_000),
        ("h", 3_600_000_000),
        ("d", 86_400_000_000),
    ];
    let (unit, micros) = TIMES[kind % TIMES.len()];
    let most = 3_660 * 86_400_000_000 / micros;
    let count = number % (most + most / 8 + 1);
    let span = SpanText::parse(&format!("{count}{unit}"));
    let meant = (count <= most && count < 1_000_000_000_000_000)
        .then_some(SpanText(Span::from_micros(count * micros)));
    assert_eq!(span.ok(), meant, "{count}{unit}");
    let size = number % 1_000_000_000_000_000;
    assert_eq!(SizeText::parse(&format!("{size}B")), Ok(SizeText(size)));
    let share = number % 100_000;
    let permille =
        PercentText::parse(&format!("{}.{}%", share / 10, share % 10)).map(|it| it.permille);
    assert_eq!(permille, Ok(share as u32));
}
