//! What the world knows of a call beside what the engine is told: which
//! operation it is, how it looks on the wire, and how it is to be treated.

use std::sync::Arc;

use rategov_core::cost::Cost;
use rategov_core::engine::Setup;
use rategov_core::estimate::Sizing;
use rategov_core::event::Requested;
use rategov_core::id::Scope;
use rategov_core::policy::{ClassLimits, Idempotency, Lookup, Profile, Stores};
use rategov_core::time::Span;
use rategov_core::word::Class;

use crate::provider::message::Request;

/// The longest time that a sent copy is on its way in this world, work included.
pub const IN_FLIGHT: Span = Span::from_secs(6);
/// How much later than it is made a record can be seen, at most.
pub const SETTLE: Span = Span::from_secs(1);
/// How long an answer is awaited.
pub const ATTEMPT_TIMEOUT: Span = Span::from_secs(10);

/// Most tokens that a generation allows, about twice what it takes.
const MOST: u64 = 24;
/// About as long as a generation's body is.
const PROMPT_BYTES: u64 = 130;

/// What kind of call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Changes nothing.
    Read,
    /// Costs money, changes nothing; streams.
    Generation,
    /// A write under a key, which can be looked up.
    Keyed,
    /// A write under a key, without look-up.
    KeyedBlind,
    /// A write without key that can be looked up by the agent's own reference.
    Searchable,
    /// A write without key and look-up.
    Invite,
}

impl Kind {
    /// Every kind, the more frequent ones more than once.
    pub const MIX: [Kind; 10] = [
        Kind::Read,
        Kind::Read,
        Kind::Generation,
        Kind::Keyed,
        Kind::Keyed,
        Kind::Keyed,
        Kind::KeyedBlind,
        Kind::KeyedBlind,
        Kind::Searchable,
        Kind::Invite,
    ];

    /// What a repeat could do.
    pub const fn class(self) -> Class {
        match self {
            Kind::Read => Class::Read,
            Kind::Generation => Class::Generation,
            Kind::Keyed | Kind::KeyedBlind => Class::IdempotentWrite,
            Kind::Searchable | Kind::Invite => Class::UncertainWrite,
        }
    }

    /// Whether it has a key.
    pub const fn has_key(self) -> bool {
        matches!(self, Kind::Keyed | Kind::KeyedBlind)
    }

    /// Method and path.
    pub const fn line(self) -> (&'static str, &'static str) {
        match self {
            Kind::Read => ("GET", "/records?limit=1"),
            Kind::Generation => ("POST", "/v1/chat/completions"),
            Kind::Keyed | Kind::KeyedBlind | Kind::Searchable => ("POST", "/records"),
            Kind::Invite => ("POST", "/invites"),
        }
    }

    /// What the endpoint promises.
    pub fn profile(self, keys: KeyNature) -> Profile {
        let idempotency = self.has_key().then_some(Idempotency {
            lifetime: keys.lifetime,
            stores: keys.stores,
            in_progress: Some(409),
            mismatch: Some(422),
        });
        let lookup = matches!(self, Kind::Keyed | Kind::Searchable).then_some(Lookup {
            authoritative: true,
            settle: SETTLE,
            max_in_flight: IN_FLIGHT,
            max_lookups: 5,
        });
        Profile {
            idempotency,
            lookup,
            ..Profile::nothing()
        }
    }
}

/// How a provider treats keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyNature {
    /// For how long it remembers one.
    pub lifetime: Span,
    /// Which answers it gives again.
    pub stores: Stores,
}

/// One action as the world knows it.
#[derive(Clone, Debug)]
pub struct Order {
    /// Which of the agents' operations it is.
    pub op: u32,
    /// At which site.
    pub site: usize,
    /// Of what kind.
    pub kind: Kind,
    /// What the engine was asked.
    pub requested: Arc<Requested>,
    /// How it is to be treated.
    pub setup: Setup,
}

impl Order {
    /// The agent's own reference of its operation.
    pub fn reference(&self) -> String {
        format!("op-{}", self.op)
    }

    /// An attempt as it looks on the wire: the same bytes each time.
    pub fn request(&self) -> Request {
        let (method, target) = self.kind.line();
        let key = self.requested.key.as_deref();
        let fields: Vec<(&str, &str)> = key.iter().map(|key| ("idempotency-key", *key)).collect();
        let body = match self.kind {
            Kind::Read => String::new(),
            // Some ask for the usage at the end of the stream, some don't.
            Kind::Generation => format!(
                r#"{{"model":"gpt-sim","stream":true,"max_tokens":{MOST},"stream_options":{{"include_usage":{}}},"messages":[{{"role":"user","content":"hi"}}]}}"#,
                self.op.is_multiple_of(2)
            ),
            _ => format!(r#"{{"external_ref":"{}"}}"#, self.reference()),
        };
        Request::of(method, target, &fields, &body)
    }

    /// A look-up as it looks on the wire.
    pub fn look_up(&self) -> Request {
        let target = match &self.requested.key {
            Some(key) => format!("/records?key={key}"),
            None => format!("/records?external_ref={}", self.reference()),
        };
        Request::of("GET", &target, &[], "")
    }
}

/// How a call of this kind is to be treated.
pub fn setup(kind: Kind, scopes: Vec<Scope>, limits: ClassLimits, keys: KeyNature) -> Setup {
    Setup {
        profile: Arc::new(kind.profile(keys)),
        scopes: scopes.into(),
        cost: Cost::ONE,
        sizing: (kind == Kind::Generation).then(|| {
            Box::new(Sizing {
                prompt_bytes: PROMPT_BYTES,
                most_output: Some(MOST),
                ..Sizing::default()
            })
        }),
        limits: Arc::new(limits),
        weight: 1,
        agent_concurrent_max: None,
        attempt_timeout: ATTEMPT_TIMEOUT,
        may_send_new: true,
    }
}
