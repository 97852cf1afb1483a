//! What a restart takes up goes on as it was begun.

use rategov_store::Reader;
use serde_json::json;

use crate::support::caller::Call;
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
