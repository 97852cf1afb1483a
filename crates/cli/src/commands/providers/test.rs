//! `providers test`: recorded answers, and what each of them means.
//!
//! ```text
//! file = list of { provider, case, status, headers, body [, meaning] }
//! body = null / text, as it came / any other JSON, which came as JSON
//! ```
//!
//! Each answer is read as the gateway would read it, through the dialect of its
//! provider; a provider that nobody knows is read by the standards. The output
//! holds what was understood and nothing of the answer itself, so that no secret
//! that was recorded comes out again.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context as _;
use rategov_core::observe::Facts;
use rategov_core::time::WallTime;
use rategov_server::config::settings::Settings;
use rategov_server::config::speech::Speech;
use rategov_server::gateway::reading::Tongue;
use rategov_server::gateway::understand::understand;
use serde_json::{Value, json};

use super::{configuration, meaning};
use crate::output;

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Longest name of a case or provider that is printed, in bytes.
const NAME_BYTES_MAX: usize = 100;
/// Shorter parts of them are attributes of cookies and names of schemes.
const SECRET_BYTES_MIN: usize = 12;
/// Header fields whose values are secrets. They are cut out of every text.
const SECRET_HEADERS: [&str; 9] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "private-token",
    "x-shopify-access-token",
];

/// Exit code 1 if the file says otherwise.
pub(crate) fn run(file: &Path, config: Option<&Path>, as_json: bool) -> anyhow::Result<ExitCode> {
    let loaded = configuration(config)?;
    let settings = loaded.as_ref().map(|loaded| &loaded.settings);
    let cases = read(file)?;
    let now = now();
    let read: Vec<Tested> = cases
        .iter()
        .enumerate()
        .map(|(at, case)| tested(at, case, settings, now))
        .collect::<anyhow::Result<_>>()?;
    print(&read, as_json);
    let differing = read.iter().filter(|it| !it.differences.is_empty());
    let mut count = 0;
    for it in differing {
        count += 1;
        for difference in &it.differences {
            output::note(&output::printable(&format!(
                "{} / {}: {difference}",
                it.provider, it.case
            )));
        }
    }
    if count == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    output::note(&format!(
        "{count} of {} answers mean something else",
        read.len()
    ));
    Ok(ExitCode::FAILURE)
}

/// One answer that was read.
struct Tested {
    provider: String,
    case: String,
    meaning: Value,
    /// Fields whose value was no value.
    malformed: Vec<String>,
    differences: Vec<String>,
}

fn print(read: &[Tested], as_json: bool) {
    if as_json {
        let cases = read
            .iter()
            .map(|it| json!({ "provider": it.provider, "case": it.case, "meaning": it.meaning }));
        output::json(&cases.collect());
        return;
    }
    let columns = [
        "provider",
        "case",
        "kind",
        "wait",
        "remaining",
        "reset",
        "retry",
        "scope",
        "not understood",
    ];
    let cells = |it: &Tested| {
        let all = |key: &str| {
            let map = it.meaning[key].as_object().into_iter().flatten();
            let parts: Vec<String> = map.map(|(name, value)| format!("{name} {value}")).collect();
            parts.join(", ")
        };
        vec![
            it.provider.clone(),
            it.case.clone(),
            output::field(&it.meaning, "kind"),
            output::field(&it.meaning, "retry_after_seconds"),
            all("remaining"),
            all("reset_seconds"),
            output::field(&it.meaning, "retry"),
            output::field(&it.meaning, "scope"),
            it.malformed.join(", "),
        ]
    };
    output::table(&columns, read.iter().map(cells));
}

/// The answers of a file.
fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let mut bytes = Vec::new();
    let source: Box<dyn std::io::Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => {
            let opened = std::fs::File::open(file);
            Box::new(opened.with_context(|| format!("{} can't be opened", file.display()))?)
        }
    };
    source
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("{} can't be read", file.display()))?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        anyhow::bail!(
            "{} is longer than {FILE_BYTES_MAX} bytes\n  hint: test it in parts",
            file.display()
        );
    }
    let hint =
        "hint: write a JSON list of { \"provider\", \"case\", \"status\", \"headers\", \"body\" }";
    match serde_json::from_slice(&bytes) {
        Ok(Value::Array(cases)) => Ok(cases),
        Ok(_) => anyhow::bail!("{} is no list of answers\n  {hint}", file.display()),
        // The error says where, and shows nothing of the file.
        Err(cause) => anyhow::bail!("{} is no JSON: {cause}\n  {hint}", file.display()),
    }
}

fn tested(
    at: usize,
    case: &Value,
    settings: Option<&Settings>,
    now: WallTime,
) -> anyhow::Result<Tested> {
    let status = case["status"].as_u64().and_then(|n| u16::try_from(n).ok());
    let status = status.filter(|status| (100..=599).contains(status));
    let Some(status) = status else {
        anyhow::bail!(
            "answer {} of the file has no `status`\n  hint: write `\"status\": 429`",
            at + 1
        );
    };
    let name = |key: &str| {
        let text = case[key].as_str().unwrap_or("");
        text[..text.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
    };
    let (provider, case_name) = (name("provider"), name("case"));
    let speech = Speech::of(&provider, settings);
    let facts = facts(status, case, &speech, now);
    let meaning = meaning::of(&facts, speech.whose.as_deref());
    let recorded = case.get("meaning").filter(|recorded| recorded.is_object());
    let differences = recorded.map(|recorded| meaning::differences(recorded, &meaning));
    Ok(Tested {
        provider,
        case: case_name,
        meaning,
        malformed: facts.malformed,
        differences: differences.unwrap_or_default(),
    })
}

fn facts(status: u16, case: &Value, speech: &Speech, now: WallTime) -> Facts {
    let fields: Vec<(&str, String)> = case["headers"]
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(name, value)| match value {
            Value::Array(values) => values.iter().map(|it| (name.as_str(), text(it))).collect(),
            value => vec![(name.as_str(), text(value))],
        })
        .collect();
    let headers: Vec<(&str, &[u8])> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()))
        .collect();
    let is_secret = |name: &str| {
        let mut known = SECRET_HEADERS.iter();
        known.any(|secret| secret.eq_ignore_ascii_case(name))
    };
    // The secret may be a part: what stands behind `Bearer`, or in a cookie.
    let secrets = fields.iter().filter(|(name, _)| is_secret(name));
    let hidden: Vec<&str> = secrets
        .flat_map(|(_, value)| std::iter::once(value.as_str()).chain(value.split([' ', '=', ';'])))
        .filter(|part| SECRET_BYTES_MIN <= part.len())
        .collect();
    let body = match &case["body"] {
        Value::Null => String::new(),
        body => text(body),
    };
    let tongue = Tongue {
        dialect: &speech.dialect,
        rules: &speech.errors,
        hidden: &hidden,
        arrived: now,
    };
    understand(status, &headers, body.as_bytes(), tongue)
}

/// A text as it is, any other JSON as it would be sent.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The wall clock, for answers without a `Date`.
fn now() -> WallTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    WallTime::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX / 1_000_000))
}
