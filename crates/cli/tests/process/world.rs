//! A provider and a governor's folder, and the calls that the tests make.

use rategov_core::time::Span;
use rategov_sim::fake_provider::{self, Options, Running};
use rategov_sim::provider::config::{Config, ServiceTime};
use rategov_sim::provider::fault::WrittenStep;
use serde_json::Value;

use crate::support::caller::{Call, Heard, Open, Unheard};
use crate::support::governor::Governor;
use crate::support::home::Home;
use crate::support::wait::Wait;

/// Both.
pub(crate) struct World {
    pub(crate) provider: Running,
    pub(crate) home: Home,
}

impl World {
    /// A provider that serves, and a fresh folder.
    pub(crate) async fn new() -> World {
        let service = ServiceTime::constant(Span::from_millis(10));
        let config = Config {
            service,
            ..Config::default()
        };
        let options = Options {
            control: None,
            ..Options::new(config)
        };
        let provider = fake_provider::serve(options).await.expect("a free port");
        let home = Home::new(provider.addr);
        World { provider, home }
    }

    /// Adds a step to the provider's script.
    pub(crate) fn script(&self, step: Value) {
        let written: WrittenStep = serde_json::from_value(step).expect("the keys are known");
        let step = written.step().unwrap_or_else(|cause| panic!("{cause}"));
        self.provider
            .handle
            .push_steps(vec![step])
            .expect("a short script");
    }

    /// Lets the answer go that the provider holds, or is about to hold.
    pub(crate) fn let_go(&self) {
        let provider = self.provider.handle.clone();
        tokio::spawn(async move {
            let wait = Wait::begin();
            while provider.read(|provider| provider.in_flight()) > 0 && wait.pause().await {
                provider.release();
            }
        });
    }

    /// Requests that arrived at the provider.
    pub(crate) fn arrived(&self) -> u64 {
        self.provider.handle.ledger().totals().arrived
    }

    /// Effects of an operation there.
    pub(crate) fn effects_of(&self, operation: &str) -> u64 {
        self.provider
            .handle
            .ledger()
            .effects_of_operation(operation)
    }
}

/// A write of an operation, under its name as key.
pub(crate) struct Write<'a> {
    /// `/records`, `/orders` or `/invites`.
    pub(crate) path: &'a str,
    /// Its name, which is its key.
    pub(crate) operation: &'a str,
}

impl Write<'_> {
    /// Sends it without waiting for the answer.
    pub(crate) async fn start(&self, governor: &Governor) -> Result<Open, Unheard> {
        let header = match self.path {
            "/invites" => "rategov-action",
            _ => "idempotency-key",
        };
        let call = Call {
            method: "POST",
            target: &format!("/fake{}", self.path),
            fields: &[(header, self.operation)],
            body: &serde_json::json!({ "external_ref": self.operation }).to_string(),
        };
        call.start(governor.agents).await
    }

    /// Sends it and hears the answer.
    pub(crate) async fn send(&self, governor: &Governor) -> Result<Heard, Unheard> {
        self.start(governor).await?.hear().await
    }
}

/// Waits until the governor has said something.
pub(crate) async fn said(governor: &Governor, words: &str) {
    let wait = Wait::begin();
    while !governor.log().contains(words) {
        assert!(
            wait.pause().await,
            "{words:?} was never said:\n{}",
            governor.log()
        );
    }
}

/// Waits until an action has come to rest, and gives it.
pub(crate) async fn rests(governor: &Governor, key: &str) -> Value {
    let wait = Wait::begin();
    let mut last = Value::Null;
    loop {
        if let Ok(Some(action)) = governor.action(key).await {
            if action["final"] == true || action["state"] == "escalated" {
                return action;
            }
            last = action;
        }
        assert!(
            wait.pause().await,
            "it never rests: {last}\n{}",
            governor.log()
        );
    }
}
