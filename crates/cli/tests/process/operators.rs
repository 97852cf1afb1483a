//! What operators, and agents about their own, are told of what they do: the state
//! of things, and not what they hoped for.

use serde_json::{Value, json};

use crate::support::caller::{Call, Heard};
use crate::support::governor::Governor;
use crate::world::{World, Write, rests};

const RECORD: Write<'_> = Write {
    path: "/records",
    operation: "order-1",
};

/// Cancels as an agent and as an operator; both are told the same.
async fn cancelled(governor: &Governor, name: &str) -> (Heard, Heard) {
    let target = format!("/governor/v1/actions/{name}");
    let call = Call {
        method: "DELETE",
        target: &target,
        fields: &[],
        body: "",
    };
    let agent = call.to(governor.agents).await.unwrap();
    let target = format!("/api/v1/actions/{name}/cancel");
    let operator = governor.tell(&target, &Value::Null).await.unwrap();
    (agent, operator)
}

/// Lets answers take their time, so that what is out stays out while a test looks.
fn patient(world: &World) {
    let file = world.home.configuration();
    let text = std::fs::read_to_string(file).unwrap();
    let text = text.replace("response_timeout: 400ms", "response_timeout: 60s");
    world.home.configure(&text);
}

#[tokio::test]
async fn who_cancels_what_has_ended_is_told_how_it_ended() {
    let world = World::new().await;
    let governor = world.home.governor().up().await;
    assert_eq!(RECORD.send(&governor).await.unwrap().status, 201);
    rests(&governor, RECORD.operation).await;
    let (agent, operator) = cancelled(&governor, RECORD.operation).await;
    for heard in [agent, operator] {
        let problem = heard.json();
        assert_eq!(
            (heard.status, &problem["code"], &problem["state"]),
            (409, &json!("conflict"), &json!("succeeded")),
            "{problem}"
        );
        assert_eq!(problem["terminal"]["next"], "use_result", "{problem}");
    }
}

#[tokio::test]
async fn who_cancels_a_write_that_is_out_is_told_that_it_goes_on() {
    let world = World::new().await;
    patient(&world);
    world.script(json!({ "calls": "POST *", "hold": true }));
    let governor = world.home.governor().up().await;
    let open = RECORD.start(&governor).await.unwrap();
    world.provider.handle.arrivals(1).await;
    let (agent, operator) = cancelled(&governor, RECORD.operation).await;
    for heard in [agent, operator] {
        let told = (heard.status, heard.json()["cancelled"].clone());
        assert_eq!(told, (202, json!("after_this_attempt")));
    }
    world.let_go();
    assert_eq!(open.hear().await.unwrap().status, 201);
    assert_eq!(rests(&governor, RECORD.operation).await["state"], "succeeded");
}

#[tokio::test]
async fn who_cancels_what_waits_is_told_that_nothing_happened() {
    let world = World::new().await;
    let refusal = json!({
        "calls": "POST *", "status": 429, "headers": { "retry-after": "10" }
    });
    world.script(refusal);
    let governor = world.home.governor().up().await;
    let open = RECORD.start(&governor).await.unwrap();
    world.provider.handle.arrivals(1).await;
    let wait = crate::support::wait::Wait::begin();
    while governor.action(RECORD.operation).await.unwrap().unwrap()["state"] != "waiting" {
        assert!(wait.pause().await, "it never waits:\n{}", governor.log());
    }
    let target = format!("/api/v1/actions/{}/cancel", RECORD.operation);
    let heard = governor.tell(&target, &Value::Null).await.unwrap();
    assert_eq!((heard.status, &heard.json()["cancelled"]), (200, &json!(true)));
    assert_eq!(open.hear().await.unwrap().status, 410);
}
