//! What the engine tells its caller to do.

use std::sync::Arc;

use crate::action::breaker::Path;
use crate::action::problem::Code;
use crate::event::{Record, Requested};
use crate::id::{ActionId, AttemptNo, EscalationId, Scope};
use crate::ledger::{Change, Reason};
use crate::tasks::TaskKey;
use crate::time::{Moment, Span};
use crate::word::{Cause, State};

/// One instruction. The caller carries them out in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Append this to the journal.
    Record(Record),
    /// The action was admitted and waits for its turn.
    Parked(Parked),
    /// Send the action now.
    Grant(Grant),
    /// Look up what the action did, now.
    Lookup(LookupGrant),
    /// The call never became an action, or ended before anything was sent.
    Refuse {
        /// The action.
        action: ActionId,
        /// Why, and when to come back.
        refusal: Refusal,
    },
    /// The call is a repeat of an action that exists: wait for that one, or take its result.
    Join {
        /// The call that was handed in.
        action: ActionId,
        /// The action that exists.
        existing: ActionId,
    },
    /// The answer of this attempt is the action's answer: pass it on unchanged.
    Deliver {
        /// The action.
        action: ActionId,
        /// The attempt whose answer it is.
        attempt: AttemptNo,
        /// How the action ended, or `Dispatching` while its body streams on.
        state: State,
    },
    /// The answer of this attempt is not the last word; another attempt, a
    /// look-up or a person follows. A body that streams on is to be dropped: its
    /// seat is given up.
    Continue {
        /// The action.
        action: ActionId,
        /// What follows.
        next: Following,
        /// Not before this.
        due: Moment,
    },
    /// The governor's own last word on an action.
    Finish {
        /// The action.
        action: ActionId,
        /// How it ended; not final if only its caller is let go.
        state: State,
        /// Why.
        code: Code,
        /// The cause in words.
        why: String,
        /// The provider's identifier of what was created, if known.
        operation_id: Option<String>,
        /// The open question about it.
        escalation: Option<EscalationId>,
        /// Come back then.
        retry_at: Option<Moment>,
    },
    /// Stop the wire of an open attempt, and report what it had come to.
    Abort {
        /// The action.
        action: ActionId,
    },
    /// A person replaced an action by a new one, which this engine has admitted
    /// already: its payload is the parent's. Comes before anything else about the child.
    Child {
        /// The action that was replaced.
        parent: ActionId,
        /// The new one, with its own key.
        child: Arc<Requested>,
    },
    /// Book this on the task.
    ChargeTask {
        /// The task.
        task: TaskKey,
        /// Repeats.
        retries: u32,
        /// Waited time.
        waited: Span,
    },
    /// A person gives a path that the breaker stopped a new chance.
    OpenPath {
        /// The task that it was stopped for.
        task: TaskKey,
        /// The path.
        path: Path,
    },
    /// A person is asked; tell the operators.
    Asked {
        /// The question.
        escalation: EscalationId,
    },
    /// A scope changed; tell everybody.
    Changed(Change),
    /// A commit was lost: drop this engine and rebuild it from the tables.
    Faulted,
}

/// An action that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// The action.
    pub action: ActionId,
    /// What it waits for.
    pub reason: WaitReason,
    /// The scope that stands in the way.
    pub scope: Scope,
    /// How many calls go before it.
    pub position: usize,
    /// When it is expected to start; `None` if nobody can say.
    pub expected_start: Option<Moment>,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// A scope of it stands in the way.
    Scope(Reason),
    /// Its own backoff.
    Backoff,
    /// A better or earlier call goes first.
    Turn,
    /// Even spacing of lower priorities while better ones are about.
    Spacing,
    /// Its agent has as many calls open as it may.
    AgentLimit,
}

impl WaitReason {
    /// The word shown to people.
    pub fn word(self) -> &'static str {
        match self {
            WaitReason::Scope(reason) => reason.word(),
            WaitReason::Backoff => "backoff",
            WaitReason::Turn => "turn",
            WaitReason::Spacing => "spacing",
            WaitReason::AgentLimit => "agent_limit",
        }
    }
}

/// Permission for one attempt. Durable before it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The action.
    pub action: ActionId,
    /// Which attempt it is.
    pub attempt: AttemptNo,
    /// Why it is made.
    pub cause: Cause,
}

/// Permission for one look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupGrant {
    /// The action.
    pub action: ActionId,
    /// Its number, from 1.
    pub lookup: u16,
}

/// What follows an attempt that was not the last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// Another attempt.
    Attempt,
    /// A look-up.
    Lookup,
    /// A person's decision.
    Decision,
}

/// A refusal is data: what stood in the way, and when to come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// The scope that stood in the way.
    pub scope: Scope,
    /// The cause in words.
    pub why: String,
    /// Come back then; `None` if no time helps.
    pub retry_at: Option<Moment>,
}
