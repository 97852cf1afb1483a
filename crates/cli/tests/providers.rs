//! `rategov providers` as people run it: every recorded answer of the catalogue,
//! files that say otherwise, secrets that must not come out again, and providers
//! that only a configuration knows.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const RECORDED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../core/tests/data/provider-responses.json"
);

fn rategov(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rategov"))
        .args(arguments)
        .env_remove("RATEGOV_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that refuses its command line has closed its input.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Tests answers from standard input: exit code, meanings, what was said beside.
fn tested(answers: &Value, more: &[&str]) -> (i32, Value, String) {
    let arguments = [&["providers", "test", "-", "--json"], more].concat();
    let output = rategov(&arguments, &answers.to_string());
    let meanings = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (
        output.status.code().unwrap(),
        meanings,
        text(&output.stderr).to_owned(),
    )
}

#[test]
fn every_recorded_answer_means_what_the_record_says() {
    let recorded: Value = serde_json::from_slice(&std::fs::read(RECORDED).unwrap()).unwrap();
    let output = rategov(&["providers", "test", RECORDED, "--json"], "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (recorded, read) = (recorded.as_array().unwrap(), read.as_array().unwrap());
    assert_eq!((recorded.len(), read.len()), (106, 106));
    for (recorded, read) in recorded.iter().zip(read) {
        for key in ["provider", "case"] {
            assert_eq!(recorded[key], read[key]);
        }
        for key in ["kind", "retry"] {
            assert_eq!(recorded["meaning"][key], read["meaning"][key], "{recorded}");
        }
    }
}

#[test]
fn every_recorded_answer_is_read_by_the_standards_alone_without_a_failure() {
    let recorded: Value = serde_json::from_slice(&std::fs::read(RECORDED).unwrap()).unwrap();
    let strangers: Vec<Value> = recorded.as_array().unwrap().iter().map(stranger).collect();
    let (code, meanings, said) = tested(&json!(strangers), &[]);
    assert_eq!(code, 0, "{said}");
    for (case, read) in recorded
        .as_array()
        .unwrap()
        .iter()
        .zip(meanings.as_array().unwrap())
    {
        let (expected, kind) = (&case["meaning"]["kind"], &read["meaning"]["kind"]);
        // Nobody is told that all is well by a refusal.
        if case["status"].as_u64().unwrap() >= 400 {
            assert_ne!(kind, "ok", "{case}");
        }
        if expected == "auth" {
            assert_eq!(kind, "auth", "{case}");
        }
    }
}

/// The same answer of a provider that nobody knows, and no record of its meaning.
fn stranger(case: &Value) -> Value {
    let mut case = case.clone();
    case["provider"] = json!("nobody-knows-it");
    case.as_object_mut().unwrap().remove("meaning");
    case
}

#[test]
fn a_record_that_says_otherwise_is_named_and_ends_with_one() {
    let answer = json!([{
        "provider": "openai", "case": "wrong", "status": 429,
        "headers": {"retry-after": "7"}, "body": null,
        "meaning": {"kind": "auth", "retry_after_seconds": 8, "scope": "prose is not compared"},
    }]);
    let (code, meanings, said) = tested(&answer, &[]);
    assert_eq!(code, 1);
    assert_eq!(meanings[0]["meaning"]["kind"], "burst_limit");
    for line in [
        "openai / wrong: kind: expected \"auth\", got \"burst_limit\"",
        "openai / wrong: retry_after_seconds: expected 8, got 7",
        "1 of 1 answers mean something else",
    ] {
        assert!(said.contains(line), "{said}");
    }
    assert!(!said.contains("prose"), "{said}");
}

#[test]
fn no_secret_that_was_recorded_comes_out_again() {
    let canary = "sk-canary-0123456789abcdef";
    let answers = json!([
        {
            "provider": "openai", "case": "echo", "status": 401,
            "headers": {"authorization": format!("Bearer {canary}"), "set-cookie": format!("s={canary}; Path=/")},
            "body": {"error": {"message": format!("Incorrect API key provided: {canary}"), "code": canary}},
        },
        {
            "provider": "zendesk", "case": "name", "status": 200,
            "headers": {"x-api-key": canary, format!("zendesk-ratelimit-{canary}"): "total=5; remaining=1"},
            "body": canary,
        },
        {
            "provider": "nobody", "case": "malformed", "status": 429,
            "headers": {"retry-after": canary, "x-ratelimit-remaining": canary, "ratelimit": canary},
            "body": canary,
            "meaning": {"kind": "ok"},
        },
    ]);
    for more in [&[][..], &["--json"]] {
        let arguments = [&["providers", "test", "-"], more].concat();
        let output = rategov(&arguments, &answers.to_string());
        let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(all.contains("malformed"), "{all}");
        assert!(!all.contains(canary), "{all}");
    }
}

/// What nobody would write into a place, and a secret where a text can stand.
fn odd_values() -> Vec<Value> {
    let deep = (0..60).fold(json!("sk-canary-0123456789abcdef"), |inner, _| {
        json!([inner])
    });
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(429),
        json!(1e308),
        json!(u64::MAX),
        json!(""),
        json!("\u{1b}[31m\u{0}\n sk-canary-0123456789abcdef"),
        json!("x".repeat(5_000)),
        json!([]),
        json!({}),
        json!({"error": {"code": ["sk-canary-0123456789abcdef"], "message": -1}}),
        json!({"authorization": "sk-canary-0123456789abcdef", "retry-after": ["1", 2, null]}),
        deep,
    ]
}

#[test]
fn whatever_a_file_holds_it_is_read_or_refused_and_repeated_by_nobody() {
    let good = json!({
        "provider": "openai", "case": "c", "status": 429,
        "headers": {"authorization": "sk-canary-0123456789abcdef"}, "body": null,
    });
    let mut answers = Vec::new();
    for key in ["provider", "case", "headers", "body", "meaning"] {
        for value in odd_values() {
            let mut answer = good.clone();
            answer[key] = value;
            answers.push(answer);
        }
    }
    let (code, meanings, said) = tested(&json!(answers), &[]);
    assert!(code == 0 || code == 1, "{said}");
    assert_eq!(
        meanings.as_array().map(Vec::len),
        Some(answers.len()),
        "{said}"
    );
    // What is a name is shown; a secret that is one is nobody's to find.
    let all = format!("{}{said}", without_names(&meanings));
    assert!(
        !all.contains("panicked") && !all.contains('\u{1b}'),
        "{said}"
    );
    for file in [
        json!({}),
        json!([1]),
        json!([{"status": "sk-canary-0123456789abcdef"}]),
    ] {
        let (code, _, said) = tested(&file, &[]);
        assert_eq!(code, 1);
        assert!(
            said.contains("hint: ") && !said.contains("canary"),
            "{said}"
        );
    }
    let broken = rategov(
        &["providers", "test", "-"],
        "[{\"x\":\"sk-canary-0123456789abcdef\"",
    );
    let said = text(&broken.stderr);
    assert_eq!(broken.status.code(), Some(1));
    assert!(
        said.contains("hint: ") && !said.contains("canary"),
        "{said}"
    );
}

/// The meanings without what the file calls its answers.
fn without_names(meanings: &Value) -> String {
    let meanings = meanings.as_array().into_iter().flatten();
    let texts: Vec<String> = meanings.map(|it| it["meaning"].to_string()).collect();
    let all = texts.concat();
    assert!(!all.contains("sk-canary"), "{all}");
    all
}

#[test]
fn a_provider_of_the_configuration_is_read_as_it_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rategov.yaml");
    let config = "
providers:
  billing:
    base_url: https://billing.example.com
    whose: one customer
    fields:
      - { header: x-left-*, key: left, what: remaining, dimension: requests, name: '{name}' }
      - { body: '$.quota.max', what: limit, dimension: requests, name: orders }
    errors:
      - { status: [418, 420], exhausted: orders, meaning: quota_exhausted }
";
    std::fs::write(&file, config).unwrap();
    let answers = json!([{
        "provider": "billing", "case": "c", "status": 420,
        "headers": {"X-Left-Orders": "left=0; other=3"}, "body": {"quota": {"max": 40}},
    }]);
    let expected = json!({
        "kind": "quota_exhausted", "retry_after_seconds": null, "remaining": {"orders": 0},
        "limit": {"orders": 40}, "reset_seconds": {}, "scope": "one customer",
        "retry": "next_window",
    });
    let (code, meanings, said) = tested(&answers, &["--config", file.to_str().unwrap()]);
    assert_eq!((code, &meanings[0]["meaning"]), (0, &expected), "{said}");
    let (_, unconfigured, _) = tested(&answers, &[]);
    assert_eq!(unconfigured[0]["meaning"]["kind"], "invalid_request");

    let show = [
        "providers",
        "show",
        "billing",
        "--json",
        "--config",
        file.to_str().unwrap(),
    ];
    let shown = rategov(&show, "");
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let facts = shown["facts"].as_array().unwrap();
    assert!(
        facts
            .iter()
            .any(|fact| fact["value"] == "https://billing.example.com")
    );
}

#[test]
fn what_is_known_is_listed_and_shown_with_source_and_day() {
    let listed = rategov(&["providers", "list", "--json"], "");
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let names: Vec<&str> = listed["providers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    for name in ["anthropic", "generic", "openai"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for name in names {
        let shown = rategov(&["providers", "show", name, "--json"], "");
        assert!(shown.status.success(), "{name}");
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        for fact in shown["facts"].as_array().unwrap() {
            let is_known = !fact["value"].is_null();
            let is_sourced = fact["source"]
                .as_str()
                .is_some_and(|url| url.starts_with("https://"));
            // What the governor decides itself is no fact of the provider.
            let is_judgement = fact["about"] == "refusals_unprocessed" || fact["about"] == "whose";
            let has_day = fact["verified_on"].is_string();
            assert!(
                !is_known || is_judgement || (is_sourced && has_day),
                "{name}: {fact}"
            );
        }
    }
}

#[test]
fn a_provider_that_nobody_knows_is_shown_as_such() {
    let shown = rategov(&["providers", "show", "nobody"], "");
    assert_eq!(shown.status.code(), Some(1));
    let said = text(&shown.stderr);
    assert!(said.contains("nothing is known of this provider"), "{said}");
    assert!(
        said.contains("hint: there are") && said.contains("openai"),
        "{said}"
    );
}

#[test]
fn a_file_that_holds_no_answers_says_what_it_should_hold() {
    for (input, cause) in [
        ("{}", "is no list of answers"),
        ("[{\"status\":", "is no JSON"),
        (
            "[{\"provider\":\"openai\"}]",
            "answer 1 of the file has no `status`",
        ),
    ] {
        let output = rategov(&["providers", "test", "-"], input);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains(cause) && said.contains("hint:"), "{said}");
    }
}
