//! A caller that comes back with its key, as an SDK does after a time-out: it
//! joins what is under way, hears what comes of it, and causes no second send.

use serde_json::json;

use crate::world::{World, Write, rests};

const INVITE: Write<'_> = Write {
    path: "/invites",
    operation: "invite-1",
};

#[tokio::test]
async fn a_repeat_is_told_when_a_person_is_asked_though_the_first_caller_has_left() {
    let world = World::new().await;
    world.script(json!({ "calls": "POST *", "fault": "silence_after_effect" }));
    let governor = world.home.governor().up().await;
    let first = INVITE.start(&governor).await.unwrap();
    world.provider.handle.arrivals(1).await;
    drop(first);
    let heard = INVITE.send(&governor).await.unwrap();
    let problem = heard.json();
    assert_eq!((heard.status, &problem["code"]), (424, &json!("escalated")));
    let action = rests(&governor, INVITE.operation).await;
    assert_eq!(problem["escalation"], action["escalation"]);
    assert_eq!(world.arrived(), 1);
}

#[tokio::test]
async fn a_repeat_of_what_is_with_a_person_is_told_whom_to_wait_for() {
    let world = World::new().await;
    world.script(json!({ "calls": "POST *", "fault": "reset_after_effect" }));
    let governor = world.home.governor().up().await;
    let first = INVITE.send(&governor).await.unwrap();
    assert_eq!(first.status, 424);
    for _ in 0..2 {
        let again = INVITE.send(&governor).await.unwrap();
        let told = (again.status, again.json()["escalation"].clone());
        assert_eq!(told, (424, first.json()["escalation"].clone()));
    }
    assert_eq!(world.arrived(), 1);
}
