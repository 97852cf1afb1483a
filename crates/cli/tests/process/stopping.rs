//! Signals and second owners: a stop loses nothing, a bad configuration changes
//! nothing, a folder has one owner.

use rustix::process::Signal;
use serde_json::json;

use crate::support::caller::Call;
use crate::world::{World, Write, rests, said};

const ORDER: Write<'_> = Write {
    path: "/records",
    operation: "order-1",
};

#[tokio::test]
async fn a_stop_lets_an_open_call_end() {
    let world = World::new().await;
    world.script(json!({ "calls": "POST *", "hold": true }));
    let governor = world.home.governor().up().await;
    let open = ORDER.start(&governor).await.unwrap();
    world.provider.handle.arrivals(1).await;
    governor.signal(Signal::TERM);
    said(&governor, "stopping").await;
    world.let_go();
    let heard = open.hear().await.unwrap();
    assert_eq!(heard.status, 201, "{}", governor.log());
    let ended = governor.ended().await;
    assert!(ended.status.success(), "{}\n{}", ended.status, ended.log);

    let governor = world.home.governor().up().await;
    let again = ORDER.send(&governor).await.unwrap();
    assert_eq!((again.status, again.json()), (201, heard.json()));
    assert_eq!(
        world.arrived(),
        1,
        "the result is stored, not fetched again"
    );
    world.home.verify().await.unwrap();
}

#[tokio::test]
async fn a_stop_waits_for_a_write_whose_caller_has_left() {
    let world = World::new().await;
    world.script(json!({ "calls": "POST *", "hold": true }));
    let governor = world.home.governor().up().await;
    let open = ORDER.start(&governor).await.unwrap();
    world.provider.handle.arrivals(1).await;
    drop(open);
    governor.signal(Signal::TERM);
    said(&governor, "stopping").await;
    world.let_go();
    assert!(governor.ended().await.status.success());

    let governor = world.home.governor().up().await;
    let action = rests(&governor, ORDER.operation).await;
    assert_eq!(action["state"], "succeeded");
    assert_eq!(
        action["lookups"], 0,
        "it was settled before the end, not looked up after it"
    );
    assert_eq!(world.arrived(), 1);
}

#[tokio::test]
async fn a_stopping_governor_takes_no_new_call() {
    let world = World::new().await;
    world.script(json!({ "calls": "POST *", "hold": true }));
    let governor = world.home.governor().up().await;
    let open = ORDER.start(&governor).await.unwrap();
    world.provider.handle.arrivals(1).await;
    governor.signal(Signal::TERM);
    said(&governor, "stopping").await;
    let late = Write {
        path: "/records",
        operation: "order-2",
    };
    assert!(late.send(&governor).await.is_err());
    world.let_go();
    assert_eq!(open.hear().await.unwrap().status, 201);
    assert!(governor.ended().await.status.success());
    assert_eq!(world.arrived(), 1);
}

#[tokio::test]
async fn a_folder_has_one_governor() {
    let world = World::new().await;
    let first = world.home.governor().up().await;
    let second = world
        .home
        .governor()
        .start()
        .await
        .err()
        .expect("it must not start");
    assert_eq!(second.status.code(), Some(1), "{}", second.log);
    let owner = format!("in use by process {}", first.process().as_raw_nonzero());
    assert!(second.log.contains(&owner), "{}", second.log);
    assert!(second.log.contains("hint: "), "{}", second.log);
    assert_eq!(
        ORDER.send(&first).await.unwrap().status,
        201,
        "the first is not disturbed"
    );
    first.killed().await;
    let third = world.home.governor().up().await;
    assert_eq!(
        ORDER.send(&third).await.unwrap().status,
        201,
        "a dead owner owns nothing"
    );
}

#[tokio::test]
async fn a_bad_reload_keeps_the_old_policy_and_a_good_one_replaces_it() {
    let world = World::new().await;
    let good = std::fs::read_to_string(world.home.configuration()).unwrap();
    let governor = world.home.governor().up().await;
    world
        .home
        .configure(&good.replace("hold: 20s", "hold: soon"));
    governor.signal(Signal::HUP);
    said(&governor, "the old configuration stays in force").await;
    said(&governor, "rategov.yaml:2").await;
    assert_eq!(ORDER.send(&governor).await.unwrap().status, 201);

    world.home.configure(&good.replace(
        "  fake:",
        "  other:\n    base_url: http://127.0.0.1:1\n  fake:",
    ));
    governor.signal(Signal::HUP);
    said(&governor, "the configuration was read again").await;
    let journal = governor.ask("/api/v1/journal?event=policy_changed").await;
    let records = journal.unwrap().json()["records"].clone();
    assert_eq!(records.as_array().map(Vec::len), Some(1), "{records}");
    let heard = Call::get("/other/x").to(governor.agents).await.unwrap();
    assert_ne!(heard.json()["code"], "unknown_provider");
    let next = Write {
        path: "/records",
        operation: "order-2",
    };
    assert_eq!(next.send(&governor).await.unwrap().status, 201);
    governor.signal(Signal::TERM);
    assert!(governor.ended().await.status.success());
    world.home.verify().await.unwrap();
}

#[tokio::test]
async fn a_reload_says_which_keys_take_a_restart() {
    let world = World::new().await;
    let good = std::fs::read_to_string(world.home.configuration()).unwrap();
    let governor = world.home.governor().up().await;
    let reload = async || {
        let heard = governor.tell("/api/v1/policy/reload", &json!(null)).await;
        heard.unwrap().json()
    };
    assert_eq!(reload().await["warnings"], json!([]), "nothing has changed");
    let elsewhere = "listen: { agents: 127.0.0.1:1 }\nstore: sqlite:elsewhere\n";
    world.home.configure(&format!("{elsewhere}{good}"));
    let told = reload().await;
    let warnings = told["warnings"].to_string();
    for key in ["`listen`", "`store`"] {
        assert!(told["reloaded"] == true && warnings.contains(key), "{told}");
    }
    assert!(!warnings.contains("`spool`"), "{told}");
    assert_eq!(ORDER.send(&governor).await.unwrap().status, 201);
}

#[tokio::test]
async fn a_fail_point_that_does_not_exist_refuses_the_start() {
    let world = World::new().await;
    for wrong in ["befor_commit", "before_commit:0", "before_commit:x"] {
        let ended = world.home.governor().armed(Some(wrong)).start().await;
        let ended = ended
            .err()
            .unwrap_or_else(|| panic!("{wrong} must not start"));
        assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
        assert!(
            ended
                .log
                .contains("before_commit, after_commit_before_sync"),
            "{}",
            ended.log
        );
    }
    assert!(
        !world.home.data().exists(),
        "nothing is made by a start that is refused"
    );
}
