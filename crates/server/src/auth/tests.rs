//! Who a caller is, in every combination of agents, runs and headers.

use std::path::Path;

use rategov_core::id::Provider;
use secrecy::ExposeSecret;

use super::*;
use crate::config::secret::Environment;

const DESK: &str = "desk-token-canary-0123456789";
const BOT: &str = "bot-token-canary-0123456789";

struct Tokens;

impl Environment for Tokens {
    fn variable(&self, name: &str) -> Option<SecretString> {
        match name {
            "DESK_TOKEN" => Some(SecretString::from(DESK)),
            "BOT_TOKEN" => Some(SecretString::from(BOT)),
            _ => None,
        }
    }
    fn file(&self, _: &Path) -> std::io::Result<SecretString> {
        Err(std::io::Error::other("no files here"))
    }
}

const CONFIGURED: &str = "
agents:
  desk: { token: env:DESK_TOKEN, priority: interactive }
  bot: { token: env:BOT_TOKEN, priority: background, accounts: [openai/*], classes: [read] }
  tool: { priority: normal }
";

fn agents(text: &str) -> Agents {
    let settings = crate::config::read("test.yaml", text).unwrap().settings;
    let opened = Keyring::open("test.yaml", &settings, &Tokens).unwrap();
    Agents::new(&settings, Arc::new(opened.keyring), Arc::default())
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(*name, value.parse().unwrap());
    }
    map
}

fn identify(agents: &Agents, pairs: &[(&'static str, &str)]) -> Result<Caller, AuthRefusal> {
    let headers = headers(pairs);
    agents.identify(&headers, None, &Asked::read(&headers).unwrap())
}

#[track_caller]
fn check(pairs: &[(&'static str, &str)], expected: Result<&str, AuthRefusal>) {
    let found = identify(&agents(CONFIGURED), pairs);
    assert_eq!(
        found
            .as_ref()
            .map(|caller| caller.agent().as_str())
            .map_err(|it| *it),
        expected,
        "{pairs:?}"
    );
}

#[test]
fn a_token_is_accepted_wherever_an_sdk_puts_its_key() {
    check(&[("authorization", &format!("Bearer {DESK}"))], Ok("desk"));
    check(&[("authorization", &format!("bearer {DESK}"))], Ok("desk"));
    for name in ["x-api-key", "x-goog-api-key", "api-key"] {
        check(&[(name, BOT)], Ok("bot"));
    }
    check(
        &[
            ("x-api-key", BOT),
            ("authorization", "Bearer something-else"),
        ],
        Ok("bot"),
    );
    check(
        &[
            ("x-api-key", BOT),
            ("authorization", &format!("Bearer {BOT}")),
        ],
        Ok("bot"),
    );
}

#[test]
fn whoever_proves_nothing_is_not_heard() {
    check(&[], Err(AuthRefusal::TokenMissing));
    check(
        &[("authorization", "Basic dXNlcjpwYXNz")],
        Err(AuthRefusal::TokenMissing),
    );
    check(
        &[("authorization", "Bearer ")],
        Err(AuthRefusal::TokenMissing),
    );
    check(&[("x-api-key", "")], Err(AuthRefusal::TokenMissing));
    check(
        &[("x-api-key", "sk-a-provider-key")],
        Err(AuthRefusal::TokenUnknown),
    );
    check(&[("rategov-agent", "desk")], Err(AuthRefusal::TokenMissing));
    check(
        &[
            ("x-api-key", BOT),
            ("authorization", &format!("Bearer {DESK}")),
        ],
        Err(AuthRefusal::TokenAmbiguous),
    );
}

#[test]
fn without_agents_a_caller_is_who_it_says() {
    let open = agents("");
    let page = identify(&open, &[("origin", "https://evil.example")]);
    assert_eq!(page.unwrap_err(), AuthRefusal::ForeignPage);
    let named = identify(
        &open,
        &[
            ("rategov-agent", "mine"),
            ("authorization", "Bearer sk-own"),
        ],
    )
    .unwrap();
    assert_eq!(named.agent().as_str(), "mine");
    assert_eq!(named.own_credential(), OwnCredential::Forwardable);
    assert_eq!(named.authority().word(), "open_listener");
    assert_eq!(
        identify(&open, &[]).unwrap().agent().as_str(),
        DEFAULT_AGENT
    );
}

#[test]
fn an_agent_can_ask_for_less_than_its_ceiling_and_never_for_more() {
    use Priority::{Background, Interactive, Normal};
    let (configured, open) = (agents(CONFIGURED), agents(""));
    let desk = identify(&configured, &[("x-api-key", DESK)]).unwrap();
    let bot = identify(&configured, &[("x-api-key", BOT)]).unwrap();
    let anybody = identify(&open, &[]).unwrap();
    for (caller, asked, expected) in [
        (&desk, None, Interactive),
        (&desk, Some(Background), Background),
        (&bot, None, Background),
        (&bot, Some(Interactive), Background),
        (&anybody, None, Normal),
        (&anybody, Some(Interactive), Interactive),
    ] {
        assert_eq!(
            caller.priority(asked),
            expected,
            "{} asking {asked:?}",
            caller.agent()
        );
    }
}

#[test]
fn a_run_is_its_agent_with_its_task_and_no_better_rank() {
    let agents = agents(CONFIGURED);
    let start = |agent: &str, priority| {
        let request = RunRequest {
            agent: Agent::new(agent).unwrap(),
            task: Task::new("sync-482").ok(),
            priority,
        };
        agents.start_run(request)
    };
    let (_, token) = start("desk", Some(Priority::Normal)).unwrap();
    let asked = Asked {
        task: Task::new("other").ok(),
        ..Asked::default()
    };
    let headers = headers(&[("authorization", "Bearer sk-own")]);
    let caller = agents
        .identify(&headers, Some(token.expose_secret()), &asked)
        .unwrap();
    assert_eq!(caller.agent().as_str(), "desk");
    assert_eq!(caller.task(&asked), Task::new("sync-482").ok().as_ref());
    assert_eq!(caller.priority(None), Priority::Normal);
    assert_eq!(
        caller.priority(Some(Priority::Interactive)),
        Priority::Normal
    );
    assert_eq!(caller.own_credential(), OwnCredential::Forwardable);

    let (_, token) = start("bot", Some(Priority::Interactive)).unwrap();
    let caller = agents
        .identify(&headers, Some(token.expose_secret()), &asked)
        .unwrap();
    assert_eq!(caller.priority(None), Priority::Background);
    assert!(
        start("tool", None).is_ok(),
        "an agent without a token can be started"
    );

    let open = self::agents("");
    let request = RunRequest {
        agent: Agent::new("mine").unwrap(),
        task: None,
        priority: Some(Priority::Interactive),
    };
    let (_, token) = open.start_run(request).unwrap();
    let caller = open
        .identify(&headers, Some(token.expose_secret()), &asked)
        .unwrap();
    assert_eq!(caller.priority(None), Priority::Interactive);

    let nobody = Agent::new("nobody").unwrap();
    assert_eq!(
        start("nobody", None).unwrap_err(),
        RunRefusal::UnknownAgent(nobody)
    );
    let unknown = agents.identify(&headers, Some("guess"), &asked);
    assert_eq!(unknown.unwrap_err(), AuthRefusal::RunUnknown);
}

#[test]
fn an_agents_token_is_never_forwarded_to_a_provider() {
    let agents = agents(CONFIGURED);
    let asked = Asked::default();
    let request = RunRequest {
        agent: Agent::new("bot").unwrap(),
        task: None,
        priority: None,
    };
    let (_, token) = agents.start_run(request).unwrap();
    for headers in [
        headers(&[("x-api-key", DESK)]),
        headers(&[("authorization", &format!("Bearer {BOT}"))]),
        headers(&[("x-api-key", "sk-own"), ("api-key", BOT)]),
    ] {
        let caller = agents
            .identify(&headers, Some(token.expose_secret()), &asked)
            .unwrap();
        assert_eq!(
            caller.own_credential(),
            OwnCredential::Withheld,
            "{headers:?}"
        );
    }
}

#[test]
fn rights_are_what_was_configured() {
    let agents = agents(CONFIGURED);
    let bot = identify(&agents, &[("x-api-key", BOT)]).unwrap();
    let account = |name: &str| rategov_core::id::Account::new(name).unwrap();
    let provider = |name: &str| Provider::new(name).unwrap();
    assert!(
        bot.rights()
            .allow_account(&provider("openai"), &account("openai/key-1"))
    );
    assert!(
        !bot.rights()
            .allow_account(&provider("anthropic"), &account("anthropic/key-1"))
    );
    assert!(bot.rights().allow_class(rategov_core::word::Class::Read));
    assert!(
        !bot.rights()
            .allow_class(rategov_core::word::Class::Generation)
    );
}

#[test]
fn no_token_is_shown() {
    let agents = agents(CONFIGURED);
    let caller = identify(&agents, &[("x-api-key", BOT)]).unwrap();
    let shown = format!("{agents:?} {caller:?}");
    assert!(!shown.contains("canary"), "{shown}");
}
