//! What operators, and agents about their own, are told of what they do: the state
//! of things, and not what they hoped for.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

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
    assert_eq!(
        rests(&governor, RECORD.operation).await["state"],
        "succeeded"
    );
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
    assert_eq!(
        (heard.status, &heard.json()["cancelled"]),
        (200, &json!(true))
    );
    assert_eq!(open.hear().await.unwrap().status, 410);
}

#[tokio::test]
async fn an_action_is_found_by_a_key_that_looks_like_an_id() {
    let world = World::new().await;
    let governor = world.home.governor().up().await;
    let key = "5d2ac5b2-6c1e-4c7e-9a50-0d8c3c1f7a11";
    let write = Write {
        path: "/records",
        operation: key,
    };
    assert_eq!(write.send(&governor).await.unwrap().status, 201);
    let action = rests(&governor, key).await;
    let id = action["action"].as_str().unwrap();
    assert_ne!(id, key);
    for name in [key, id] {
        let heard = governor
            .ask(&format!("/api/v1/actions/{name}"))
            .await
            .unwrap();
        assert_eq!((heard.status, &heard.json()["action"]), (200, &json!(id)));
        let mut show = world.home.command(&["audit", "show", "--action", name]);
        let shown = show
            .stdout(std::process::Stdio::piped())
            .output()
            .await
            .unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("action_requested"), "{name}: {shown:?}");
    }
}

#[tokio::test]
async fn a_decision_about_an_action_is_about_the_version_that_was_shown() {
    let world = World::new().await;
    world.script(json!({ "calls": "POST /invites", "fault": "reset_after_effect" }));
    let governor = world.home.governor().up().await;
    let write = Write {
        path: "/invites",
        operation: "invite-1",
    };
    let heard = write.send(&governor).await.unwrap();
    let asked = heard.json()["escalation"].as_str().unwrap().to_owned();
    let target = format!("/api/v1/escalations/{asked}");
    let shown = governor.ask(&target).await.unwrap().json();
    let version = shown["version"].as_u64().unwrap();
    let decide = async |body: Value| {
        let heard = governor.tell(&format!("{target}/decide"), &body).await;
        let heard = heard.unwrap();
        (heard.status, heard.json())
    };
    for (version, status, says) in [
        (Value::Null, 400, "`version` is missing"),
        (json!("3"), 400, "a whole number"),
        (json!(version - 1), 409, "has changed since"),
    ] {
        let body = json!({ "choice": "it_happened", "version": version });
        let (told, problem) = decide(body).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(told == status && detail.contains(says), "{told} {problem}");
    }
    let body = json!({ "choice": "it_happened", "version": version });
    assert_eq!(decide(body).await.0, 200);
    assert_eq!(
        rests(&governor, write.operation).await["state"],
        "succeeded"
    );
    assert_eq!(world.effects_of(write.operation), 1);
}

#[tokio::test]
async fn a_scope_is_resumed_at_the_account_that_is_meant_and_nowhere_else() {
    let world = World::new().await;
    let file = world.home.configuration();
    let text = std::fs::read_to_string(file).unwrap();
    let other = format!(
        "  other:\n    base_url: http://{}\n    accounts:\n      ops: {{ credential: env:FAKE_KEY }}\n  fake:",
        world.provider.addr
    );
    world.home.configure(&text.replace("  fake:", &other));
    let governor = world.home.governor().up().await;
    let mut open = Vec::new();
    for target in ["/fake/records", "/other/records"] {
        world.script(json!({
            "calls": "GET *", "status": 429, "headers": { "retry-after": "60" }
        }));
        open.push(Call::get(target).start(governor.agents).await.unwrap());
        world.provider.handle.arrivals(open.len() as u64).await;
    }
    let closed = async || {
        let scopes = governor.ask("/api/v1/scopes").await.unwrap().json();
        let scopes = scopes["scopes"].as_array().unwrap().clone();
        let is_closed = |it: &&Value| it["scope"] == "account:ops" && it["mode"] == "closed";
        let closed = scopes.iter().filter(is_closed);
        closed.map(|it| it["provider"].clone()).collect::<Vec<_>>()
    };
    let wait = crate::support::wait::Wait::begin();
    while closed().await.len() < 2 {
        assert!(wait.pause().await, "they never close:\n{}", governor.log());
    }
    let resume = async |body: Value| {
        let heard = governor.tell("/api/v1/scopes/resume", &body).await.unwrap();
        (heard.status, heard.json())
    };
    let (status, problem) = resume(json!({ "scope": "account:ops" })).await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        status == 400 && detail.contains("fake/ops, other/ops"),
        "{status} {detail}"
    );
    assert_eq!(closed().await.len(), 2, "nothing is reopened by mistake");
    let unknown = resume(json!({ "scope": "account:ops", "account": "fake/nobody" })).await;
    assert_eq!(unknown.0, 404);
    let meant = json!({ "scope": "account:ops", "account": "fake/ops" });
    let (status, told) = resume(meant).await;
    assert_eq!((status, &told["account"]), (200, &json!("fake/ops")));
    assert_eq!(closed().await, ["other"], "the other's hold stands");
}

#[tokio::test]
async fn a_program_is_not_started_for_a_task_that_has_ended() {
    let world = World::new().await;
    let governor = world.home.governor().up().await;
    let run = |task: &str| json!({ "agent": "nightly", "task": task });
    let begin = async |task| governor.tell("/api/v1/runs", &run(task)).await.unwrap();
    assert_eq!(begin("reindex").await.status, 201);
    let again = begin("reindex").await;
    assert_eq!(again.status, 201, "two may share a task while it goes on");
    let cancelled = governor.tell("/api/v1/tasks/cancel", &run("reindex")).await;
    assert_eq!(cancelled.unwrap().status, 200);
    let late = begin("reindex").await;
    assert_eq!(
        (late.status, late.json()["code"].as_str()),
        (409, Some("conflict"))
    );
    let detail = late.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.contains("the task reindex of nightly has ended"),
        "{detail}"
    );
    assert_eq!(begin("reindex-2").await.status, 201);
}

#[tokio::test]
async fn a_journal_that_is_not_there_is_not_called_changed() {
    let world = World::new().await;
    let nowhere = world.home.configuration().with_file_name("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    // No governor has made the folder yet.
    for (arguments, says) in [
        (&["audit", "verify"][..], "--data"),
        (&["audit", "verify", nowhere][..], nowhere),
    ] {
        let mut verify = world.home.command(arguments);
        let ended = verify
            .stderr(std::process::Stdio::piped())
            .output()
            .await
            .unwrap();
        assert_eq!(ended.status.code(), Some(3), "nothing to verify");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(said.contains(says), "{said}");
    }
}

#[tokio::test]
async fn who_cancels_a_default_task_is_told_that_it_goes_on() {
    let world = World::new().await;
    let governor = world.home.governor().up().await;
    let cancel = async |task: &str| {
        let told = json!({ "agent": "nightly", "task": task });
        let heard = governor.tell("/api/v1/tasks/cancel", &told).await.unwrap();
        (
            heard.json()["cancelled"].clone(),
            heard.json()["goes_on"].clone(),
        )
    };
    assert_eq!(cancel("default").await, (json!("in_hand"), json!(true)));
    assert_eq!(cancel("reindex").await, (json!(true), json!(false)));
    let tasks = governor.ask("/api/v1/tasks").await.unwrap().json();
    let states: Vec<_> = tasks["tasks"].as_array().unwrap().iter().collect();
    for task in states {
        let is_default = task["task"] == "default";
        let state = if is_default { "open" } else { "cancelled" };
        assert_eq!(task["state"], state, "{task}");
        assert_eq!(task["renews_at"].is_string(), is_default, "{task}");
        assert_eq!(
            (&task["retries_max"], &task["spent"]),
            (&json!(20), &Value::Null)
        );
    }
}

/// What a command that ends by itself says on both ways out, and its exit code.
async fn says(world: &World, arguments: &[&str], env: &[(&str, &str)]) -> (String, String, i32) {
    let mut command = world.home.command(arguments);
    command.env_remove("FAKE_KEY").envs(env.iter().copied());
    let ended = command
        .stdout(std::process::Stdio::piped())
        .output()
        .await
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = ended.status.code().unwrap();
    (text(&ended.stdout), text(&ended.stderr), code)
}

#[tokio::test]
async fn a_check_names_the_variables_that_are_not_set() {
    let world = World::new().await;
    let file = world.home.configuration();
    let file = file.to_str().unwrap();
    let check = ["policy", "check", file];
    let (said, noted, code) = says(&world, &check, &[]).await;
    let text = std::fs::read_to_string(file).unwrap();
    let line = 1 + text
        .lines()
        .position(|it| it.contains("env:FAKE_KEY"))
        .unwrap();
    let named = format!("warning: {file}:{line}:");
    assert!(said.contains(&named), "{named} in {said}");
    assert!(said.contains("`FAKE_KEY` is not set"), "{said}");
    assert!(noted.contains("does not start without"), "{noted}");
    assert_eq!(code, 0, "a warning is no mistake");
    let (said, noted, _) = says(&world, &check, &[("FAKE_KEY", "sk-canary-0123456789")]).await;
    assert!(
        !said.contains("not set") && !said.contains("canary"),
        "{said}"
    );
    assert!(noted.ends_with("is valid\n"), "{noted}");
}

#[tokio::test]
async fn a_log_in_json_has_no_other_line_even_if_nothing_starts() {
    let world = World::new().await;
    let file = world.home.configuration();
    let serve = ["serve", "--log", "json", "--config", file.to_str().unwrap()];
    // Without its key it does not start.
    let (said, log, code) = says(&world, &serve, &[]).await;
    assert_eq!((said.as_str(), code), ("", 1));
    assert!(
        log.contains("FAKE_KEY") && log.contains("can't start"),
        "{log}"
    );
    for line in log.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
}

#[tokio::test]
async fn a_log_in_json_says_where_it_listens_and_no_token() {
    let world = World::new().await;
    let any = "127.0.0.1:0";
    let file = world.home.configuration();
    let serve = [
        "serve",
        "--log",
        "json",
        "--agents",
        any,
        "--operators-listen",
        any,
    ];
    let mut command = world.home.command(&serve);
    command.arg("--config").arg(file);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    loop {
        let line = lines.next_line().await.unwrap().expect("it runs");
        let value: Value = serde_json::from_str(&line).expect(&line);
        let fields = &value["fields"];
        if fields["message"] == "the governor runs" {
            let token_file = fields["token_file"].as_str().unwrap();
            let token = std::fs::read_to_string(token_file).unwrap();
            assert!(!line.contains(token.trim()), "a log is kept");
            assert!(fields["agents"].is_string() && fields["operators"].is_string());
            break;
        }
    }
}

#[tokio::test]
async fn a_file_in_place_of_the_data_folder_is_called_one() {
    let world = World::new().await;
    let file = world.home.configuration();
    let file = file.to_str().unwrap();
    std::fs::write(world.home.data(), "not a folder").unwrap();
    let key = [("FAKE_KEY", "sk-canary-0123456789")];
    for arguments in [&["status"][..], &["serve", "--config", file][..]] {
        let (_, said, code) = says(&world, arguments, &key).await;
        assert!(said.contains("is a file\nhint: "), "{said}");
        assert!(said.contains("--data") && code == 1, "{code} {said}");
    }
}
