//! The presets under `providers/` say what the built-in tables say, and where
//! every fact comes from.
//!
//! The tables are what the simulator and the tests use; the presets are what an
//! operator reads and what the server loads. A difference between them is a
//! mistake in one of the two.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use rategov_core::observe::dialect::{Dialect, FieldRule, MessageClock, Place, Unit, What};
use rategov_core::observe::errors::ErrorRule;
use rategov_core::observe::tables::{
    anthropic, anthropic_rules, generic, generic_rules, openai, openai_rules,
};
use rategov_core::observe::{Kind, Reach};
use rategov_core::time::{Span, WallTime};
use serde_json::Value;

fn preset(name: &str) -> Value {
    let path = format!("{}/../../providers/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

/// Every preset, by its name.
fn names() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../providers");
    let files = std::fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names
        .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    assert!(names.len() >= 3, "{names:?}");
    names
}

fn text(row: &Value, key: &str) -> Option<String> {
    row.get(key).map(|value| value.as_str().unwrap().to_owned())
}

fn rows<'a>(preset: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    preset[key].as_array().into_iter().flatten()
}

/// `60s`, the only form that the presets need.
fn span(row: &Value, key: &str) -> Option<Span> {
    let seconds = text(row, key)?.strip_suffix('s').unwrap().parse().unwrap();
    Some(Span::from_secs(seconds))
}

fn reach(row: &Value) -> Option<Reach> {
    text(row, "scope").map(|word| Reach::parse(&word).unwrap())
}

fn place(row: &Value) -> Place {
    match text(row, "header") {
        Some(header) => Place::header(&header),
        None => Place::Body(text(row, "body").unwrap()),
    }
}

fn field(row: &Value) -> FieldRule {
    FieldRule {
        dimension: text(row, "dimension").unwrap_or_default(),
        name: text(row, "name"),
        unit: text(row, "unit").map_or(Unit::Auto, |word| Unit::parse(&word).unwrap()),
        reach: reach(row).unwrap_or(Reach::Account),
        window: span(row, "window"),
        ..FieldRule::new(
            place(row),
            What::parse(&text(row, "what").unwrap()).unwrap(),
        )
    }
}

fn error(row: &Value) -> ErrorRule {
    ErrorRule {
        status: row
            .get("status")
            .map(|status| status.as_u64().unwrap().try_into().unwrap()),
        code: text(row, "code"),
        message: text(row, "message"),
        reach: reach(row),
        wait: span(row, "wait"),
        ..ErrorRule::of(Kind::parse(&text(row, "meaning").unwrap()).unwrap())
    }
}

/// What a rule means for those that do not count time: the unit says nothing.
fn comparable(dialect: &Dialect) -> Vec<FieldRule> {
    let counts = |what| !matches!(what, What::Reset | What::Full | What::Retry | What::Window);
    let fields = dialect.fields().iter().cloned();
    fields
        .map(|rule| {
            if counts(rule.what) {
                FieldRule {
                    unit: Unit::Auto,
                    ..rule
                }
            } else {
                rule
            }
        })
        .collect()
}

#[track_caller]
fn check(name: &str, dialect: &Dialect, rules: &[ErrorRule]) {
    let preset = preset(name);
    let clock = MessageClock::parse(preset["message_clock"].as_str().unwrap()).unwrap();
    let written = Dialect::new(rows(&preset, "fields").map(field).collect(), clock).unwrap();
    assert_eq!(written.message_clock(), dialect.message_clock(), "{name}");
    assert_eq!(comparable(&written), comparable(dialect), "{name}: fields");
    let errors: Vec<_> = rows(&preset, "errors").map(error).collect();
    assert_eq!(errors, rules, "{name}: errors");
}

#[test]
fn the_presets_say_what_the_built_in_tables_say() {
    check("generic", &generic(), &generic_rules());
    check("openai", &openai(), &openai_rules());
    check("anthropic", &anthropic(), &anthropic_rules());
}

#[test]
fn every_fact_names_a_source_and_every_source_has_a_day() {
    for name in &names() {
        let preset = preset(name);
        let sources = preset["sources"].as_object().unwrap();
        let mut unused: Vec<&str> = sources.keys().map(String::as_str).collect();
        for (id, source) in sources {
            let (url, day) = (
                text(source, "url").unwrap(),
                text(source, "verified_on").unwrap(),
            );
            assert!(url.starts_with("https://"), "{name}: {id} is at {url}");
            let is_digit =
                |(at, b): (usize, u8)| b.is_ascii_digit() || (at == 4 || at == 7) && b == b'-';
            assert!(
                day.len() == 10 && day.bytes().enumerate().all(is_digit),
                "{name}: {id} on {day}"
            );
        }
        let sdk = rows(&preset["sdk"], "base_url");
        let cited = ["endpoints", "fields", "errors", "sizing", "usage"]
            .iter()
            .flat_map(|key| rows(&preset, key));
        let charge = preset.get("charge");
        let cited = cited.chain(sdk).chain(charge);
        let cited = cited.map(|row| row["source"].as_str());
        let facts = preset
            .get("facts")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        for source in cited.chain(facts.map(|(_, source)| source.as_str())) {
            let source = source.unwrap_or_else(|| panic!("{name}: a fact without a source"));
            assert!(sources.contains_key(source), "{name}: no source {source}");
            unused.retain(|id| *id != source);
        }
        assert!(unused.is_empty(), "{name}: nothing cites {unused:?}");
        for key in [
            "base_url",
            "path_prefix",
            "credential_header",
            "credential_scheme",
        ] {
            let is_cited = preset
                .get("facts")
                .is_some_and(|facts| facts.get(key).is_some());
            assert_eq!(
                preset.get(key).is_some(),
                is_cited,
                "{name}: the source of {key}"
            );
        }
    }
}

#[test]
fn a_reset_of_openai_read_by_its_preset_is_a_duration_and_nothing_else() {
    let preset = preset("openai");
    let dialect = Dialect::new(
        rows(&preset, "fields").map(field).collect(),
        MessageClock::Unknown,
    )
    .unwrap();
    let headers: [(&str, &[u8]); 2] = [
        ("x-ratelimit-remaining-requests", b"0"),
        ("x-ratelimit-reset-requests", b"1796126412"),
    ];
    let now = WallTime::from_secs(1_796_126_400);
    let facts = rategov_core::observe::read(429, &headers, None, &dialect, &[], now);
    assert_eq!(facts.malformed, ["x-ratelimit-reset-requests"]);
}
