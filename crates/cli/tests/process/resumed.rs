//! What a restart takes up goes on as it was begun: the same scopes, the same bytes.

use rategov_store::Reader;
use serde_json::{Value, json};

use crate::support::caller::Call;
use crate::support::governor::Governor;
use crate::support::wait::Wait;
use crate::world::{World, rests};

/// Changes one place of the configuration.
fn configure(world: &World, place: &str, by: &str) {
    let text = std::fs::read_to_string(world.home.configuration()).unwrap();
    assert!(text.contains(place), "{place}");
    world.home.configure(&text.replace(place, by));
}

const ACCOUNT: &str = "      ops: { credential: env:FAKE_KEY }\n";

#[tokio::test]
async fn an_action_draws_on_all_of_its_scopes_after_a_restart() {
    let world = World::new().await;
    let each = |scope| {
        format!("          - {{ scope: {scope}, dimension: requests, limit: 1000, window: 1s }}\n")
    };
    let quotas: String = ["model", "endpoint", "credential"].map(each).concat();
    let account =
        format!("      ops:\n        credential: env:FAKE_KEY\n        quotas:\n{quotas}");
    configure(&world, ACCOUNT, &account);
    world.script(json!({ "calls": "POST *", "hold": true }));
    let governor = world.home.governor().up().await;
    let order = Call {
        method: "POST",
        target: "/fake/orders",
        fields: &[("idempotency-key", "order-1")],
        body: &json!({ "model": "m-large", "external_ref": "order-1" }).to_string(),
    };
    let _open = order.start(governor.agents).await.unwrap();
    world.provider.handle.arrivals(1).await;
    governor.killed().await;

    let governor = world.home.governor().up().await;
    let action = rests(&governor, "order-1").await;
    assert_eq!(action["state"], "succeeded", "{action}");
    let reader = Reader::open(world.home.data()).unwrap();
    let found = reader.actions_with_key("order-1").unwrap();
    let attempts = reader.attempts(found[0].row.requested.action).unwrap();
    let scopes = attempts.iter().map(|it| {
        let names = it.row.scopes.iter().map(|scope| scope.as_str());
        names.collect::<Vec<_>>()
    });
    let all = vec![
        "account:ops",
        "endpoint:POST /orders",
        "model:m-large",
        "credential:fake/ops#1",
    ];
    assert_eq!(scopes.collect::<Vec<_>>(), [all.clone(), all]);
}

/// A call that goes on without its caller, which is told so. Gives its id.
async fn let_go(governor: &Governor, call: &Call<'_>) -> String {
    let heard = call.to(governor.agents).await.unwrap();
    assert_eq!(heard.status, 202, "{}", heard.text());
    heard.header("rategov-action").unwrap().to_owned()
}

/// What a call is, as its provider saw it.
fn arrivals(world: &World) -> Vec<Value> {
    let ledger = world.provider.handle.ledger();
    let seen = |arrival| {
        let all = serde_json::to_value(arrival).unwrap();
        let of = |field: &str| all[field].clone();
        json!([
            of("method"),
            of("target"),
            of("credential"),
            of("body_sha256")
        ])
    };
    ledger.arrivals().map(seen).collect()
}

const SEARCH: Call<'_> = Call {
    method: "POST",
    target: "/fake/search?limit=7",
    fields: &[
        ("prefer", "respond-async"),
        ("content-type", "application/json"),
    ],
    body: "{\"for\":\"invoices\"}",
};

/// Lets the governor die with the call open or waiting, as its first answer has it.
async fn is_sent_again_as_it_was(class: &str, first: Value, state: &str) {
    let world = World::new().await;
    let rule = format!("      - match: POST /search\n        class: {class}\n");
    let place = "      - match: POST /invites\n";
    configure(&world, place, &format!("{rule}{place}"));
    world.script(first);
    world.script(json!({ "calls": "POST /search*", "status": 200, "body": { "found": 3 }, "times": "always" }));
    let governor = world.home.governor().up().await;
    let id = let_go(&governor, &SEARCH).await;
    world.provider.handle.arrivals(1).await;
    let wait = Wait::begin();
    while governor.action(&id).await.unwrap().unwrap()["state"] != state {
        assert!(wait.pause().await, "{}", governor.log());
    }
    governor.killed().await;

    let governor = world.home.governor().up().await;
    let action = rests(&governor, &id).await;
    assert_eq!(action["state"], "succeeded", "{action}");
    let arrivals = arrivals(&world);
    assert_eq!(arrivals.len(), 2, "{arrivals:?}");
    assert_eq!(arrivals[0], arrivals[1]);
    let path = format!("/governor/v1/actions/{id}/result");
    let result = Call::get(&path).to(governor.agents).await.unwrap();
    assert_eq!((result.status, &result.json()["found"]), (200, &json!(3)));
}

#[tokio::test]
async fn a_read_that_its_caller_will_fetch_is_sent_whole_after_a_restart() {
    let hold = json!({ "calls": "POST /search*", "hold": true });
    is_sent_again_as_it_was("read", hold, "dispatching").await;
}

#[tokio::test]
async fn a_generation_that_waits_for_its_repeat_is_sent_whole_after_a_restart() {
    let refusal =
        json!({ "calls": "POST /search*", "status": 429, "headers": { "retry-after": "3" } });
    is_sent_again_as_it_was("generation", refusal, "waiting").await;
}
