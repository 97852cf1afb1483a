//! What a call is, from the settings to the route.

use super::*;

const TEXT: &str = "
providers:
  openai: {}
  billing:
    base_url: https://x.example
    endpoints:
      - { match: GET /records/*, class: uncertain_write }
      - { match: 'PUT /records/{id}', class: idempotent_write }
      - { match: 'GET /records/{id}', class: read }
      - { match: GET /records/latest, class: read, cost: { requests: 2 } }
      - { match: POST /invites, class: uncertain_write }
      - { match: 'POST /models/{model}:run', class: generation }
";

fn table() -> RouteTable {
    RouteTable::new(&crate::config::read("test.yaml", TEXT).unwrap().settings)
}

#[track_caller]
fn check(provider: &str, call: &str, endpoint: &str, class: Class) -> Route {
    let (method, path) = call.split_once(' ').unwrap();
    let route = table().resolve(provider, method, path).unwrap();
    assert_eq!(
        (route.endpoint.as_str(), route.class),
        (endpoint, class),
        "{call}"
    );
    route
}

#[test]
fn the_most_specific_rule_says_what_a_call_is() {
    let latest = check(
        "billing",
        "GET /records/latest",
        "GET /records/latest",
        Class::Read,
    );
    assert_eq!(latest.rule.cost.calls(), 2);
    let one = check(
        "billing",
        "GET /records/7",
        "GET /records/{id}",
        Class::Read,
    );
    assert_eq!(one.parameters, [("id".to_owned(), "7".to_owned())]);
    check(
        "billing",
        "GET /records/7/lines",
        "GET /records/*",
        Class::UncertainWrite,
    );
    check(
        "billing",
        "PUT /records/7",
        "PUT /records/{id}",
        Class::IdempotentWrite,
    );
}

#[test]
fn what_no_rule_matches_is_taken_for_the_worst_it_can_be() {
    let read = check("billing", "GET /other/7", "GET /other/{id}", Class::Read);
    assert_eq!(read.matched, Matched::Nothing);
    check(
        "billing",
        "DELETE /records/7",
        "DELETE /records/{id}",
        Class::UncertainWrite,
    );
    check(
        "billing",
        "POST /v1/messages",
        "POST /v1/messages",
        Class::UncertainWrite,
    );
    check(
        "billing",
        "POST /chat/completions",
        "POST /chat/completions",
        Class::Generation,
    );
    check(
        "openai",
        "POST /v1/unheard/of",
        "POST /v1/unheard/of",
        Class::UncertainWrite,
    );
}

#[test]
fn a_prefix_is_put_in_front_where_it_lacks() {
    let name = "POST /v1/chat/completions";
    for call in ["POST /v1/chat/completions", "POST /chat/completions"] {
        check("openai", call, name, Class::Generation);
    }
    check("openai", "GET /v10/x", "GET /v1/v10/x", Class::Read);
    let settings = crate::config::read("test.yaml", TEXT).unwrap().settings;
    let full = |provider: &str, path: &str| {
        settings.providers[&Provider::new(provider).unwrap()].full_path(path)
    };
    assert_eq!(full("openai", "/v1/models"), "/v1/models");
    assert_eq!(full("openai", "/models"), "/v1/models");
    assert_eq!(full("openai", ""), "/v1");
    assert_eq!(full("openai", "/v10"), "/v1/v10");
    assert_eq!(full("billing", "/a%2Fb//"), "/a%2Fb//");
    assert_eq!(full("billing", ""), "");
}

#[test]
fn a_provider_that_is_not_configured_is_nowhere() {
    for provider in ["anthropic", "", "BILLING", "billing/..", "\n"] {
        assert_eq!(
            table().resolve(provider, "GET", "/records"),
            None,
            "{provider:?}"
        );
    }
}

#[test]
fn an_agent_tightens_and_never_loosens() {
    let order = [
        Class::Read,
        Class::Generation,
        Class::IdempotentWrite,
        Class::UncertainWrite,
    ];
    let route = check(
        "billing",
        "POST /models/m:run",
        "POST /models/{model}:run",
        Class::Generation,
    );
    for (rank, asked) in order.into_iter().enumerate() {
        let found = route
            .clone()
            .tightened(Some(asked))
            .map(|route| route.class);
        let expected = match rank {
            0 => Err(ClassLoosened {
                own: Class::Generation,
                asked,
            }),
            _ => Ok(asked),
        };
        assert_eq!(found, expected, "{asked}");
    }
    assert_eq!(route.clone().tightened(None), Ok(route));
}

#[test]
fn a_model_is_named_by_the_path_or_by_the_body() {
    let path = vec![("model".to_owned(), "gemini-pro".to_owned())];
    let of = |body: &str| model_of(&Parameters::new(), body.as_bytes());
    assert_eq!(model_of(&path, b"{}").as_deref(), Some("gemini-pro"));
    assert_eq!(
        of(r#"{"messages":[{"model":"no"}],"model":"gpt\u002d4o"}"#).as_deref(),
        Some("gpt-4o")
    );
    for body in [
        "",
        "[]",
        "{",
        r#"{"model":7}"#,
        r#"{"model":""}"#,
        r#"{"model":"a b"}"#,
        r#"{"model":null}"#,
    ] {
        assert_eq!(of(body), None, "{body}");
    }
    assert_eq!(of(&format!(r#"{{"model":"{}"}}"#, "x".repeat(161))), None);
}
