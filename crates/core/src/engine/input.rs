//! What happened outside, as the engine is told.

use std::sync::Arc;

use crate::action::budget::{TaskAllowance, Used};
use crate::action::outcome::Evidence;
use crate::cost::Cost;
use crate::estimate::Sizing;
use crate::event::{Found, Requested};
use crate::id::{ActionId, AttemptNo, Operator, Scope};
use crate::observe::Facts;
use crate::policy::{ClassLimits, Profile};
use crate::record::ActionRow;
use crate::time::{Draw, Moment, Span};
use crate::word::Choice;

/// What chance gives to one call of the engine: a draw for jitter, and an id
/// for a question that it may have to ask.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// A uniform draw.
    pub draw: Draw,
    /// A fresh id (a UUID version 7).
    pub id: u128,
}

impl Chance {
    /// A draw; the next one differs.
    pub(super) fn draw(&mut self) -> Draw {
        let draw = self.draw;
        self.draw = draw.again();
        draw
    }

    /// An id; the next one differs in its last bits.
    pub(super) fn id(&mut self) -> u128 {
        let id = self.id;
        self.id = id.wrapping_add(1);
        id
    }
}

/// How the action is to be treated, as its route and the policy say. Not
/// journalled: after a restart the route says it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What the endpoint promises about repeats.
    pub profile: Arc<Profile>,
    /// Every scope it touches; the account's first, at most 8.
    pub scopes: Arc<[Scope]>,
    /// What it costs as far as its endpoint says.
    pub cost: Cost,
    /// What its request says about the rest; `None` if nothing of it is a guess.
    pub sizing: Option<Box<Sizing>>,
    /// Its limits: the class's, perhaps tightened by the agent.
    pub limits: Arc<ClassLimits>,
    /// The agent's share inside a rank.
    pub weight: u32,
    /// Most of the agent's calls open at once.
    pub agent_concurrent_max: Option<u32>,
    /// Longest time one attempt may take, from its first byte to the head of its answer.
    pub attempt_timeout: Span,
    /// Whether a person may choose to send a new operation.
    pub may_send_new: bool,
}

/// How an action goes on that a restart found.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// How it is to be treated, as its route says now; `None` if it has none any more.
    pub setup: Option<Setup>,
    /// What its task still allows; `None` if that was told to stop since.
    pub task: Option<TaskAllowance>,
}

/// A call that asks to be sent.
#[derive(Clone, Debug)]
pub struct Submit {
    /// What is asked for.
    pub requested: Arc<Requested>,
    /// How it is to be treated.
    pub setup: Setup,
    /// Its caller is let go then.
    pub hold_until: Moment,
    /// What its task still allows.
    pub task: TaskAllowance,
    /// Whether the agent's library says that it repeats a call.
    pub marker: Marker,
    /// The latest action of its key that the tables have, if that may be sent anew.
    pub earlier: Option<Earlier>,
}

/// An ended action whose key comes back: what it used up stays used, whether or
/// not the engine remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// The action.
    pub action: ActionId,
    /// What its key has used up.
    pub used: Used,
}

impl Earlier {
    /// What a row of the tables says of its key.
    pub fn of(row: &ActionRow) -> Earlier {
        Earlier {
            action: row.requested.action,
            used: row.used(),
        }
    }
}

/// What a call says of itself about being a repeat (R-RETRY-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Nothing: an equal call is another action.
    None,
    /// An SDK's retry counter is above zero: it repeats the equal call that is
    /// in hand, if there is one.
    SdkRetry,
}

/// The end of an attempt, or the head of an answer whose body streams on.
#[derive(Clone, Debug)]
pub struct Report {
    /// The action.
    pub action: ActionId,
    /// The attempt.
    pub attempt: AttemptNo,
    /// What was seen.
    pub evidence: Evidence,
    /// Bytes of the request that left.
    pub bytes_written: u64,
    /// What its task still allows.
    pub task: TaskAllowance,
}

/// How a body that streamed on ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// To its end.
    Complete,
    /// The provider's side broke.
    Cut,
    /// The provider put an error into it.
    ErrorEvent,
    /// The caller left.
    CallerGone,
}

/// The end of a look-up.
#[derive(Clone, Debug)]
pub struct LookupReport {
    /// The action.
    pub action: ActionId,
    /// The look-up's number.
    pub lookup: u16,
    /// What it found.
    pub found: Found,
    /// The answer's facts, if one came.
    pub facts: Option<Facts>,
    /// The operation it found.
    pub operation_id: Option<String>,
    /// Whether any byte of it left.
    pub sent: bool,
    /// What the action's task still allows.
    pub task: TaskAllowance,
}

/// A person's answer.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What was chosen.
    pub choice: Choice,
    /// By whom: the authenticated operator.
    pub by: Operator,
    /// What the person noted, at most 500 bytes.
    pub note: Option<String>,
    /// The version that was shown, if the interface passed it on.
    pub version: Option<u32>,
    /// What the person typed where a choice must be confirmed.
    pub typed: Option<String>,
}
