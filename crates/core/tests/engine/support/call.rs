//! Calls as the tests describe them.

use std::sync::Arc;

use rategov_core::cost::Cost;
use rategov_core::engine::{Marker, Setup, Submit, TaskAllowance};
use rategov_core::event::Requested;
use rategov_core::id::{
    Account, ActionId, Agent, Credential, Endpoint, Fingerprint, Provider, Scope, Task,
};
use rategov_core::policy::{ClassLimits, ClassTable, Idempotency, Lookup, Profile, Stores};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Class, Priority};

pub(crate) const ACCOUNT: &str = "billing/ops";

pub(crate) fn account() -> Account {
    Account::new(ACCOUNT).unwrap()
}

pub(crate) fn scope(name: &str) -> Scope {
    Scope::new(name).unwrap()
}

pub(crate) fn own_scope() -> Scope {
    scope("account:ops")
}

pub(crate) fn secs(s: u64) -> Span {
    Span::from_secs(s)
}

pub(crate) fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// A call that has not been made yet.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) agent: String,
    pub(crate) task: Option<String>,
    pub(crate) class: Class,
    pub(crate) priority: Priority,
    pub(crate) key: Option<String>,
    pub(crate) body: u8,
    pub(crate) path: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) hold: Span,
    pub(crate) deadline: Option<Span>,
    pub(crate) detached: bool,
    pub(crate) replayable: bool,
    pub(crate) profile: Profile,
    pub(crate) limits: Option<ClassLimits>,
    pub(crate) concurrent: Option<u32>,
    pub(crate) may_send_new: bool,
    pub(crate) marker: Marker,
    pub(crate) task_allows: TaskAllowance,
}

pub(crate) fn read(agent: &str) -> Call {
    Call {
        agent: agent.to_owned(),
        task: None,
        class: Class::Read,
        priority: Priority::Normal,
        key: None,
        body: 0,
        path: format!("/records/{agent}"),
        scopes: vec!["account:ops".to_owned()],
        hold: secs(60),
        deadline: None,
        detached: false,
        replayable: true,
        profile: Profile::nothing(),
        limits: None,
        concurrent: None,
        may_send_new: false,
        marker: Marker::None,
        task_allows: TaskAllowance::UNLIMITED,
    }
}

/// A write that its endpoint promises nothing about.
pub(crate) fn write(agent: &str) -> Call {
    Call {
        class: Class::UncertainWrite,
        ..read(agent)
    }
}

/// A write with a key that the endpoint honours for a day.
pub(crate) fn keyed(agent: &str, key: &str) -> Call {
    Call {
        class: Class::IdempotentWrite,
        key: Some(key.to_owned()),
        profile: Profile {
            idempotency: Some(Idempotency {
                lifetime: secs(24 * 3_600),
                stores: Stores::Successes,
                in_progress: Some(409),
                mismatch: Some(422),
            }),
            ..Profile::nothing()
        },
        ..read(agent)
    }
}

pub(crate) fn generation(agent: &str) -> Call {
    Call {
        class: Class::Generation,
        ..read(agent)
    }
}

impl Call {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Call)) -> Call {
        change(&mut self);
        self
    }

    pub(crate) fn at(self, priority: Priority) -> Call {
        self.with(|call| call.priority = priority)
    }

    pub(crate) fn held(self, hold: Span) -> Call {
        self.with(|call| call.hold = hold)
    }

    /// With a look-up: settle 1 s, in flight 5 s, five look-ups.
    pub(crate) fn with_lookup(self) -> Call {
        self.with(|call| {
            call.profile.lookup = Some(Lookup {
                authoritative: true,
                settle: secs(1),
                max_in_flight: secs(5),
                max_lookups: 5,
            });
        })
    }

    pub(crate) fn setup(&self) -> Setup {
        let limits = self
            .limits
            .clone()
            .unwrap_or_else(|| ClassTable::default().of(self.class).clone());
        Setup {
            profile: Arc::new(self.profile.clone()),
            scopes: self.scopes.iter().map(|name| scope(name)).collect(),
            cost: Cost::ONE,
            sizing: None,
            limits: Arc::new(limits),
            weight: 1,
            agent_concurrent_max: self.concurrent,
            attempt_timeout: secs(60),
            may_send_new: self.may_send_new,
        }
    }

    pub(crate) fn submit(&self, now: Moment, id: ActionId) -> Submit {
        let mut fingerprint = [0_u8; 16];
        for (n, byte) in self.path.bytes().chain([self.body]).enumerate() {
            fingerprint[n % 16] = fingerprint[n % 16].wrapping_mul(31) ^ byte;
        }
        let requested = Requested {
            action: id,
            provider: Provider::new("billing").unwrap(),
            account: account(),
            credential: Credential::new("billing/ops#1").unwrap(),
            agent: Agent::new(&self.agent).unwrap(),
            task: self.task.as_deref().map(|task| Task::new(task).unwrap()),
            task_stops: 0,
            goal: None,
            priority: self.priority,
            class: self.class,
            method: if self.class.is_write() { "POST" } else { "GET" }.to_owned(),
            endpoint: Endpoint::new("GET /records/{id}").unwrap(),
            model: None,
            path: self.path.clone(),
            fingerprint: Fingerprint(fingerprint),
            payload_digest: [self.body; 32],
            payload_bytes: 10,
            replayable: self.replayable,
            key: self.key.clone(),
            earlier: None,
            deadline: self.deadline.map_or(Moment::NEVER, |span| now + span),
            detached: self.detached,
            authorised_by: "agent token".to_owned(),
            parent: None,
        };
        Submit {
            requested: Arc::new(requested),
            setup: self.setup(),
            hold_until: now + self.hold,
            task: self.task_allows,
            marker: self.marker,
            earlier: None,
        }
    }
}
