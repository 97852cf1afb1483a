//! The shipped example, the specification's example, and no file at all.

use std::collections::BTreeSet;

use rategov_core::cost::Dimension;
use rategov_core::id::{Agent, Provider, Scope};
use rategov_core::policy::{AccountPolicy, Quota, ScopeLimits, Stores, WindowKind};
use rategov_core::time::Span;
use rategov_core::word::{Class, Priority};

use super::loaded;
use crate::config::notices::NOT_ACTING_YET;
use crate::config::presets::Presets;
use crate::config::settings::{AccountRight, ScopedCall, Settings};
use crate::config::tree::{self, Node, Value};
use crate::route::RouteTable;

/// The example of the specification, as it is.
const SPECIFIED: &str = include_str!("../../../tests/data/example.yaml");

/// The example that is shipped.
const SHIPPED: &str = include_str!("../../../../../examples/rategov.yaml");

/// The part of it that the specification shows on its own (R-RETRY-1).
const EXTRACT: &str = "
request_classes:
  read:             { max_attempts: 4, max_wait_seconds: 90,  retry_statuses: [408, 429, 500, 502, 503, 504] }
  idempotent_write: { max_attempts: 3, max_wait_seconds: 120, retry_statuses: [408, 429, 502, 503, 504] }
  uncertain_write:  { max_attempts: 1, max_wait_seconds: 0,   retry_statuses: [] }
shared_scope:       { max_delayed_requests: 25, max_concurrent_requests: 2 }
";

fn provider(settings: &Settings, name: &str) -> super::super::settings::ProviderSettings {
    settings.providers[&Provider::new(name).unwrap()].clone()
}

#[test]
fn the_specified_example_means_what_it_says() {
    let settings = loaded(SPECIFIED).settings;
    assert_eq!(settings.listen.agents.to_string(), "127.0.0.1:7878");
    assert_eq!(settings.hold, Span::from_secs(60));
    assert_eq!(settings.spool.disk_bytes, 4_000_000_000);
    assert_eq!(settings.task.deadline, Span::from_secs(3600));

    let billing = provider(&settings, "billing-api");
    assert_eq!(billing.preset.as_deref(), Some("generic"));
    let ops = &billing.accounts[0];
    let policy = ops.rules.policy(&ops.name).unwrap();
    let sliding = Quota {
        dimension: Dimension::Requests,
        limit: 60,
        window: Span::from_secs(10),
        kind: WindowKind::Sliding,
    };
    let limits = ScopeLimits {
        quotas: vec![sliding],
        max_concurrent: Some(2),
    };
    let tokens = Quota {
        dimension: Dimension::Tokens,
        limit: 40_000,
        window: Span::from_secs(60),
        kind: WindowKind::TokenBucket { burst: 40_000 },
    };
    let of_each_model = ScopeLimits {
        quotas: vec![tokens],
        max_concurrent: None,
    };
    assert_eq!(
        policy.scopes,
        [
            (Scope::new("account:ops-team").unwrap(), limits),
            (Scope::new("model:*").unwrap(), of_each_model)
        ]
    );
    assert_eq!((policy.max_waiting, policy.reserve_interactive), (25, 1));
    assert_eq!(policy.floors_permille, [0, 100, 50]);

    let routes = RouteTable::new(&settings);
    let create = routes.resolve("billing-api", "POST", "/records").unwrap();
    assert_eq!(create.class, Class::IdempotentWrite);
    let idempotency = create.rule.profile.idempotency.clone().unwrap();
    assert_eq!(idempotency.stores, Stores::All);
    assert_eq!(
        (idempotency.in_progress, idempotency.mismatch),
        (Some(409), Some(422))
    );
    assert!(create.rule.profile.lookup.as_ref().unwrap().authoritative);
    let invite = routes.resolve("billing-api", "POST", "/invites").unwrap();
    assert_eq!(invite.class, Class::UncertainWrite);

    let bot = &settings.agents[&Agent::new("sync-bot").unwrap()];
    assert_eq!(
        (bot.limits.ceiling, bot.limits.max_concurrent),
        (Priority::Background, Some(1))
    );
    let right = AccountRight::Account(ops.account.clone());
    assert_eq!(bot.rights.accounts.as_deref(), Some(&[right][..]));
}

#[test]
fn what_of_the_specified_example_does_not_act_yet_is_named() {
    let notices = loaded(SPECIFIED).notices;
    let shown = notices
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n");
    insta::assert_snapshot!(shown, @r"
    rategov.yaml:31:19: `providers.billing-api.endpoints[0].coalesce` does not act yet: equal reads are separate calls
    rategov.yaml:84:1: `predict` does not act yet: lower priorities are spaced evenly, without a forecast
    rategov.yaml:87:1: `retention` does not act yet: records are kept for ever
    rategov.yaml:99:14: `agents.desk.approve` does not act yet: these calls are not held for approval; keep such credentials out of reach until they are
    ");
}

#[test]
fn the_extract_of_the_specification_loads_alone() {
    let settings = loaded(EXTRACT).settings;
    let openai = provider(&settings, "openai");
    assert_eq!(openai.undeclared.max_concurrent, Some(2));
    assert_eq!(openai.undeclared.policy.max_waiting, 25);
    assert_eq!(settings.classes.generation, settings.classes.read);
}

#[test]
fn without_a_configuration_nothing_is_stricter_than_a_provider() {
    let settings = Settings::default();
    let names: Vec<&str> = settings.providers.keys().map(Provider::as_str).collect();
    let callable: Vec<&str> = Presets::built_in().callable().collect();
    assert_eq!(names, callable);
    assert!(names.contains(&"anthropic") && names.contains(&"openai"));
    for provider in settings.providers.values() {
        // How a provider charges is its own; no account is held to more.
        let plain = AccountPolicy {
            charge: provider.undeclared.policy.charge,
            ..AccountPolicy::default()
        };
        assert_eq!(provider.undeclared.policy, plain, "{}", provider.name);
        assert_eq!(provider.undeclared.max_concurrent, None);
        assert!(
            provider.accounts.is_empty(),
            "callers bring their own credentials"
        );
    }
    assert_eq!(loaded("").settings, settings);
    assert_eq!(settings.agents.len(), 0);
}

#[test]
fn the_presets_are_without_a_mistake() {
    for name in Presets::built_in().names() {
        let text = std::fs::read_to_string(format!(
            "{}/../../providers/{name}.yaml",
            env!("CARGO_MANIFEST_DIR")
        ))
        .unwrap();
        let base = if text.contains("\nbase_url:") {
            ""
        } else {
            "    base_url: https://x.example\n"
        };
        let indented: String = text.lines().map(|line| format!("    {line}\n")).collect();
        loaded(&format!("providers:\n  {name}:\n{base}{indented}"));
    }
}

#[test]
fn every_fact_of_a_preset_has_its_source() {
    for name in Presets::built_in().names() {
        let preset = Presets::built_in().get(name).unwrap();
        let sources = preset.sources.as_ref().unwrap();
        let fields = preset
            .fields
            .iter()
            .flatten()
            .map(|row| row.source.as_deref());
        let errors = preset
            .errors
            .iter()
            .flatten()
            .map(|row| row.source.as_deref());
        let endpoints = preset
            .endpoints
            .iter()
            .flatten()
            .map(|row| row.source.as_deref());
        let facts = preset
            .facts
            .iter()
            .flat_map(|facts| facts.iter().map(|(_, source)| Some(source.as_str())));
        for source in fields.chain(errors).chain(endpoints).chain(facts) {
            let source = source.unwrap_or_else(|| panic!("{name}: a row without source"));
            assert!(
                sources.get(source).is_some(),
                "{name}: there is no source `{source}`"
            );
        }
        for (source, it) in sources.iter() {
            assert!(
                it.url.is_some() && it.verified_on.is_some(),
                "{name}: {source}"
            );
        }
    }
}

#[test]
fn the_shipped_example_loads() {
    let settings = loaded(SHIPPED).settings;
    assert_eq!(settings.providers.len(), 3);
    let specified = loaded(SPECIFIED).settings;
    let routes =
        |settings: &Settings| RouteTable::new(settings).resolve("billing-api", "POST", "/records");
    assert_eq!(
        routes(&settings).unwrap().rule.profile,
        routes(&specified).unwrap().rule.profile
    );
}

#[test]
fn every_key_of_the_schema_stands_in_the_shipped_example() {
    let node = tree::parse(SHIPPED).unwrap();
    let mut written = BTreeSet::new();
    keys(&node, &mut written);
    let schema = crate::config::schema();
    let mut known = BTreeSet::new();
    properties(&schema, &mut known);
    let missing: Vec<_> = known.iter().filter(|key| !written.contains(*key)).collect();
    assert!(
        missing.is_empty(),
        "not in examples/rategov.yaml: {missing:?}"
    );
    assert!(known.len() > 80, "the schema lists the keys");
}

fn keys(node: &Node, found: &mut BTreeSet<String>) {
    match &node.value {
        Value::Map(entries) => entries.iter().for_each(|entry| {
            found.insert(entry.key.clone());
            keys(&entry.node, found);
        }),
        Value::List(nodes) => nodes.iter().for_each(|node| keys(node, found)),
        _ => {}
    }
}

fn properties(schema: &serde_json::Value, found: &mut BTreeSet<String>) {
    match schema {
        serde_json::Value::Object(object) => {
            if let Some(serde_json::Value::Object(own)) = object.get("properties") {
                found.extend(own.keys().cloned());
            }
            object.values().for_each(|value| properties(value, found));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| properties(item, found)),
        _ => {}
    }
}

#[test]
fn every_key_that_does_not_act_yet_exists() {
    let node = tree::parse(SHIPPED).unwrap();
    let mut written = BTreeSet::new();
    keys(&node, &mut written);
    for row in NOT_ACTING_YET {
        for step in row
            .key
            .split('.')
            .filter(|step| !matches!(*step, "*" | "[]"))
        {
            assert!(
                written.contains(step),
                "{}: there is no key `{step}`",
                row.key
            );
        }
    }
}

#[test]
fn a_user_stands_over_a_preset_key_by_key() {
    let settings = loaded(
        "
providers:
  openai:
    base_url: http://127.0.0.1:9100/v1
    endpoints:
      - { match: POST /v1/embeddings, class: read }
    fields:
      - { header: X-RateLimit-Limit-Requests, what: limit, dimension: requests }
    errors:
      - { status: 429, meaning: overloaded }
",
    )
    .settings;
    let openai = provider(&settings, "openai");
    assert_eq!(
        (openai.base.port, openai.base.path.as_str()),
        (9100, ""),
        "the prefix is not said twice"
    );
    assert_eq!(openai.slot.scheme.as_deref(), Some("Bearer"));
    let (fields, _) = openai.dialect.rules("x-ratelimit-limit-requests");
    assert_eq!(fields.len(), 1, "the user's row stands over the preset's");
    assert_eq!(fields[0].reach, rategov_core::observe::Reach::Account);
    assert_eq!(openai.dialect.rules("retry-after-ms").0.len(), 1);
    assert_eq!(openai.errors[0].code, None);

    let routes = RouteTable::new(&settings);
    let own = routes.resolve("openai", "POST", "/v1/embeddings").unwrap();
    assert_eq!(own.class, Class::Read);
    let preset = routes
        .resolve("openai", "POST", "/chat/completions")
        .unwrap();
    assert_eq!(preset.class, Class::Generation);
}

#[test]
fn a_call_touches_the_scopes_that_are_declared_for_it() {
    let settings = loaded(SHIPPED).settings;
    let billing = provider(&settings, "billing-api");
    let ops = &billing.accounts[0];
    let routes = RouteTable::new(&settings);
    let scopes = |method: &str, path: &str, model: Option<&str>| {
        let route = routes.resolve("billing-api", method, path).unwrap();
        let call = ScopedCall {
            endpoint: &route.endpoint,
            model,
            credential: None,
        };
        ops.rules
            .scopes(&ops.name, &call)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let account = "account:ops-team";
    assert_eq!(
        scopes("GET", "/records/7", None),
        [account, "endpoint:GET /records/{id}"]
    );
    assert_eq!(
        scopes("POST", "/jobs", None),
        [account, "endpoint:POST /jobs"]
    );
    assert_eq!(
        scopes("POST", "/jobs", Some("gpt-4o")),
        [account, "endpoint:POST /jobs", "model:gpt-4o"]
    );
    // OpenAI's answers speak of models, declared or not.
    let openai = provider(&settings, "openai");
    let route = routes.resolve("openai", "POST", "/responses").unwrap();
    let call = ScopedCall {
        endpoint: &route.endpoint,
        model: Some("gpt-4o"),
        credential: None,
    };
    let names = openai.undeclared.scopes("key-1", &call);
    let names: Vec<&str> = names.iter().map(Scope::as_str).collect();
    assert_eq!(
        names,
        [
            "account:key-1",
            "endpoint:POST /v1/responses",
            "model:gpt-4o"
        ]
    );
    let policy = ops.rules.policy(&ops.name).unwrap();
    let jobs = policy
        .scopes
        .iter()
        .find(|(scope, _)| scope.as_str() == "endpoint:POST /jobs");
    assert_eq!(jobs.unwrap().1.max_concurrent, Some(4));
}

#[test]
fn a_declared_model_is_a_scope_of_its_own() {
    let settings = loaded(
        "
providers:
  models:
    base_url: https://x.example
    accounts:
      lab:
        quotas:
          - { scope: 'model:big', limit: 10, window: 60s, kind: sliding }
          - { scope: credential, dimension: concurrent, limit: 3 }
",
    )
    .settings;
    let models = provider(&settings, "models");
    let rules = &models.accounts[0].rules;
    let endpoint = rategov_core::id::Endpoint::new("POST /run").unwrap();
    let credential = rategov_core::id::Credential::new("models/lab#1").unwrap();
    let scopes = |model, credential| {
        let call = ScopedCall {
            endpoint: &endpoint,
            model,
            credential,
        };
        rules
            .scopes("lab", &call)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let usual = ["account:lab", "endpoint:POST /run"];
    assert_eq!(scopes(Some("small"), None), usual);
    assert_eq!(scopes(Some("big"), None)[2..], ["model:big"]);
    assert_eq!(
        scopes(None, Some(&credential))[2..],
        ["credential:models/lab#1"]
    );
    let policy = rules.policy("lab").unwrap();
    let declared: Vec<&str> = policy
        .scopes
        .iter()
        .map(|(scope, _)| scope.as_str())
        .collect();
    assert_eq!(declared, ["model:big", "credential:*"]);
}
