//! A restart between two calls: what was true of a key, a credential or a scope
//! before it is true after it.

use serde_json::{Value, json};

use crate::support::caller::Call;
use crate::support::governor::Governor;
use crate::support::wait::Wait;
use crate::world::{World, Write};

const ORDER: Write<'_> = Write {
    path: "/orders",
    operation: "order-1",
};

const INVITE: Write<'_> = Write {
    path: "/invites",
    operation: "invite-1",
};

/// Waits until an action is there and as it is wanted.
async fn until(governor: &Governor, key: &str, wanted: impl Fn(&Value) -> bool) {
    let wait = Wait::begin();
    loop {
        match governor.action(key).await {
            Ok(Some(action)) if wanted(&action) => return,
            _ => assert!(wait.pause().await, "{}", governor.log()),
        }
    }
}

#[tokio::test]
async fn a_key_that_was_cancelled_is_not_sent_after_a_restart() {
    let world = World::new().await;
    let refusal =
        json!({ "calls": "POST /orders", "status": 429, "headers": { "retry-after": "2" } });
    world.script(refusal);
    let governor = world.home.governor().up().await;
    let _refused = ORDER.start(&governor).await.unwrap();
    until(&governor, ORDER.operation, |order| {
        order["state"] == "waiting"
    })
    .await;
    let waits = INVITE.start(&governor).await.unwrap();
    until(&governor, INVITE.operation, |_| true).await;
    let cancel = Call {
        method: "DELETE",
        ..Call::get("/governor/v1/actions/invite-1")
    };
    assert_eq!(cancel.to(governor.agents).await.unwrap().status, 202);
    let told = waits.hear().await.unwrap();
    assert_eq!(
        (told.status, &told.json()["code"]),
        (410, &json!("cancelled"))
    );
    governor.killed().await;

    let governor = world.home.governor().up().await;
    let again = INVITE.send(&governor).await.unwrap();
    assert_eq!(
        (again.status, &again.json()["code"]),
        (410, &json!("cancelled"))
    );
    assert_eq!(world.effects_of(INVITE.operation), 0);
}

#[tokio::test]
async fn a_key_with_another_query_is_refused_before_and_after_a_restart() {
    let world = World::new().await;
    let mut governor = world.home.governor().up().await;
    assert_eq!(ORDER.send(&governor).await.unwrap().status, 200);
    let other = Call {
        method: "POST",
        target: "/fake/orders?of=another",
        fields: &[("idempotency-key", ORDER.operation)],
        body: &json!({ "external_ref": ORDER.operation }).to_string(),
    };
    for _life in 0..2 {
        let heard = other.to(governor.agents).await.unwrap();
        assert_eq!(
            (heard.status, &heard.json()["code"]),
            (422, &json!("key_reused"))
        );
        assert_eq!(ORDER.send(&governor).await.unwrap().status, 200);
        governor.killed().await;
        governor = world.home.governor().up().await;
    }
    assert_eq!(world.arrived(), 1);
}
