//! The facts worth keeping: what the journal records, in the order of decisions.
//!
//! An event says what was decided or seen, never what to do. Folding all
//! events of an engine, in order, gives the tables that a restart reads
//! ([`crate::record`]); the journal therefore commits both together.
//!
//! Texts inside events are bounded by whoever makes them ([`TEXT_BYTES_MAX`])
//! and hold no header value, query value or body.

use std::sync::Arc;

use crate::action::budget::Used;
use crate::action::outcome::Certainty;
use crate::cost::Cost;
use crate::id::{
    Account, ActionId, Agent, AttemptNo, Credential, Endpoint, EscalationId, Fingerprint, Operator,
    Provider, RecordSeq, Scope, Task,
};
use crate::time::{Moment, Span};
use crate::word::{Cause, Choice, Class, Mode, Outcome, Priority, State, Trigger};

/// Longest free text inside an event, in bytes.
pub const TEXT_BYTES_MAX: usize = 600;

/// Cuts a text to [`TEXT_BYTES_MAX`] at a character's border and replaces control characters.
pub fn bounded_text(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end]
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// What a record must survive before anything may rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing relies on it: the journal takes it with the next record that
    /// something relies on, or within milliseconds. If the process dies before, a
    /// restart finds the send open and counts it as spent, which errs on the safe side.
    Soon,
    /// The death of the process (kill -9).
    Process,
    /// The loss of power.
    Power,
}

/// One event with its place in its engine's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number, without gaps, from 1 at each start of the engine.
    pub seq: RecordSeq,
    /// When it was decided.
    pub at: Moment,
    /// What must hold before anything relies on it.
    pub durability: Durability,
    /// What happened.
    pub event: Event,
}

/// What was asked for when an action was admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    /// The action.
    pub action: ActionId,
    /// At which provider.
    pub provider: Provider,
    /// On whose quota.
    pub account: Account,
    /// With which credential (its name).
    pub credential: Credential,
    /// Who calls.
    pub agent: Agent,
    /// On behalf of which goal; `None` is the agent's default task.
    pub task: Option<Task>,
    /// How often its task had been told to stop when it was admitted.
    pub task_stops: u32,
    /// The goal in the agent's words, if it gave any.
    pub goal: Option<String>,
    /// Its rank.
    pub priority: Priority,
    /// What a repeat could do.
    pub class: Class,
    /// The HTTP method.
    pub method: String,
    /// The endpoint's template.
    pub endpoint: Endpoint,
    /// The model that it names, in its path or body.
    pub model: Option<String>,
    /// The path without query.
    pub path: String,
    /// Hash of what is asked, for look-alikes.
    pub fingerprint: Fingerprint,
    /// SHA-256 of the body's bytes; of one that is not kept, of its beginning.
    pub payload_digest: [u8; 32],
    /// Length of the body in bytes.
    pub payload_bytes: u64,
    /// Whether the body is kept, so that the call can be repeated.
    pub replayable: bool,
    /// The idempotency key, taken from the agent or made for it.
    pub key: Option<String>,
    /// What earlier calls with its key used up of the budgets that they share;
    /// `None` if there were none.
    pub earlier: Option<Used>,
    /// Nothing of it is sent after this.
    pub deadline: Moment,
    /// Whether it goes on when its caller is gone (`respond-async`, or a write once sent).
    pub detached: bool,
    /// Which rule allowed the action (R-AUDIT-5).
    pub authorised_by: String,
    /// The action that a person replaced with this one.
    pub parent: Option<ActionId>,
}

/// Who ended an action before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelledBy {
    /// Its task ended or was cancelled.
    Task,
    /// The agent said so.
    Agent(Agent),
    /// Its caller's connection dropped while it waited.
    Caller,
    /// An operator.
    Operator(Operator),
}

/// Who made a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decider {
    /// An authenticated operator.
    Operator(Operator),
    /// Nobody in time.
    Expiry,
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Found {
    /// It was done.
    Done,
    /// It failed for good.
    Failed,
    /// It is still running.
    Running,
    /// There is no trace of it.
    Nothing,
    /// The look-up itself failed.
    NoAnswer,
}

impl Found {
    /// The word used in records.
    pub const fn word(self) -> &'static str {
        match self {
            Found::Done => "done",
            Found::Failed => "failed",
            Found::Running => "running",
            Found::Nothing => "nothing",
            Found::NoAnswer => "no_answer",
        }
    }
}

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An action was admitted.
    ActionRequested(Arc<Requested>),
    /// An attempt is open: from now on bytes may leave.
    ActionSent {
        /// Of this action.
        action: ActionId,
        /// Which one.
        attempt: AttemptNo,
        /// Why it is made.
        cause: Cause,
        /// Every scope it draws on; the account's first.
        scopes: Vec<Scope>,
        /// What it was reserved for.
        cost: Cost,
        /// Time waited after the first attempt so far.
        waited: Span,
        /// From here on the key must not be used again; `None` without a key.
        key_safe_until: Option<Moment>,
    },
    /// A look-up goes out. It draws on the quota but is not an attempt.
    LookupSent {
        /// Of this action.
        action: ActionId,
        /// Its number, from 1.
        lookup: u16,
        /// Every scope it draws on; the account's first.
        scopes: Vec<Scope>,
        /// What it was reserved for.
        cost: Cost,
    },
    /// What came of an attempt.
    ActionResult {
        /// Of this action.
        action: ActionId,
        /// Which one.
        attempt: AttemptNo,
        /// How sure its effect is.
        certainty: Certainty,
        /// What is known now.
        outcome: Outcome,
        /// The provider's status, if a head came.
        status: Option<u16>,
        /// The wait it asked for.
        retry_after: Option<Span>,
        /// The scope that refused, if it was refused.
        scope: Option<Scope>,
        /// The provider's identifier of what was created.
        operation_id: Option<String>,
        /// The provider's error code, or the transport's word (`connection_reset`).
        error_code: Option<String>,
        /// Bytes of the request that left.
        bytes_written: u64,
        /// When its first byte may have left; `None` if none did.
        sent_at: Option<Moment>,
    },
    /// What an attempt used is known, and is not what was reserved for it.
    Settled {
        /// Of this action.
        action: ActionId,
        /// Which one.
        attempt: AttemptNo,
        /// What it used.
        cost: Cost,
        /// Whether some of it is still a guess: its answer did not say.
        estimated: bool,
    },
    /// Another attempt will follow.
    RetryScheduled {
        /// Of this action.
        action: ActionId,
        /// Which one it will be.
        attempt: AttemptNo,
        /// Not before this.
        due: Moment,
        /// Waited time booked so far, this wait included.
        waited: Span,
        /// Why a repeat is allowed.
        why: String,
    },
    /// The outcome is unknown and is looked up before anything else.
    ReconciliationRequired {
        /// Of this action.
        action: ActionId,
        /// What is unknown, in words.
        why: String,
        /// The first look-up not before this.
        not_before: Moment,
    },
    /// A look-up was made.
    LookedUp {
        /// Of this action.
        action: ActionId,
        /// Its number, from 1.
        lookup: u16,
        /// What it found.
        found: Found,
        /// The look-up's status, if it had an answer.
        status: Option<u16>,
        /// The operation it found.
        operation_id: Option<String>,
        /// The next one not before this, if another follows.
        next: Option<Moment>,
    },
    /// What happened is known now.
    Reconciled {
        /// Of this action.
        action: ActionId,
        /// Whether it had its effect.
        applied: bool,
        /// How it is known: `lookup`, `person`, `replay`.
        by: String,
        /// The operation that was found.
        operation_id: Option<String>,
    },
    /// A person is asked.
    Escalated {
        /// The question.
        escalation: EscalationId,
        /// About this action, if it is about one.
        action: Option<ActionId>,
        /// About this scope.
        scope: Scope,
        /// Why.
        trigger: Trigger,
        /// What may be answered, the safest first.
        choices: Vec<Choice>,
        /// The cause in words.
        why: String,
        /// The version of the action that was shown.
        version: u32,
        /// Without an answer it ends then.
        expires: Moment,
    },
    /// A question was answered, or ran out.
    Decided {
        /// The question.
        escalation: EscalationId,
        /// The action it was about.
        action: Option<ActionId>,
        /// The answer; for an expiry, [`Choice::Cancel`].
        choice: Choice,
        /// By whom.
        by: Decider,
        /// What the person noted.
        note: Option<String>,
    },
    /// A caller came back for an action that exists: the repeat joined it.
    Joined {
        /// The action.
        action: ActionId,
        /// How the repeat was recognised: `key`, `action`, `sdk_retry`.
        by: String,
    },
    /// An action was told to stop.
    Cancelled {
        /// The action.
        action: ActionId,
        /// By whom.
        by: CancelledBy,
    },
    /// The governor is finished with an action.
    Terminal {
        /// The action.
        action: ActionId,
        /// How it ended.
        state: State,
        /// The stable code of the reason.
        code: String,
        /// Attempts made.
        attempts: AttemptNo,
        /// Time waited after the first attempt.
        waited: Span,
    },
    /// A call was turned away before it became an action.
    TurnedAway {
        /// Who called.
        agent: Agent,
        /// The stable code of the reason.
        code: String,
        /// The scope that stood in the way.
        scope: Scope,
        /// Come back then.
        retry_at: Option<Moment>,
    },
    /// A scope changed.
    Scope(Box<ScopeChange>),
    /// An operator reopened a scope.
    Resumed {
        /// The scope.
        scope: Scope,
        /// By whom.
        by: Operator,
    },
    /// A task was first heard of.
    TaskOpened {
        /// The task.
        task: Task,
        /// Of this agent.
        agent: Agent,
        /// What it is for.
        goal: Option<String>,
        /// Nothing of it is sent after this.
        deadline: Moment,
        /// How often a task of this name was told to stop, as far as is known.
        stops: u32,
    },
    /// A task spent some of its budget.
    TaskCharged {
        /// The task.
        task: Task,
        /// Of this agent.
        agent: Agent,
        /// Repeats so far.
        retries: u32,
        /// Waited time so far.
        waited: Span,
    },
    /// A task was told to stop: nothing that it has in hand is ever sent again, and
    /// it ends, if it has a name.
    TaskCancelled {
        /// The task.
        task: Task,
        /// Of this agent.
        agent: Agent,
        /// By whom.
        by: CancelledBy,
    },
    /// The governor started.
    Started {
        /// Its version.
        version: String,
        /// SHA-256 of the configuration in force.
        policy_digest: [u8; 32],
    },
    /// Another configuration is in force.
    PolicyChanged {
        /// SHA-256 of the configuration in force.
        policy_digest: [u8; 32],
    },
}

/// A scope's new state, and what a restart needs of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeChange {
    /// The scope.
    pub scope: Scope,
    /// Its mode before.
    pub from: Mode,
    /// Its mode now.
    pub to: Mode,
    /// Why, in words.
    pub why: String,
    /// The status that caused it, if an answer did.
    pub status: Option<u16>,
    /// What a restart reads back.
    pub saved: crate::record::ScopeRow,
}

impl Event {
    /// The word that names the event in records, exports and `audit show`.
    pub fn word(&self) -> &'static str {
        match self {
            Event::ActionRequested(_) => "action_requested",
            Event::ActionSent { .. } => "action_sent",
            Event::LookupSent { .. } => "lookup_sent",
            Event::ActionResult { .. } => "action_result",
            Event::Settled { .. } => "settled",
            Event::RetryScheduled { .. } => "retry_scheduled",
            Event::ReconciliationRequired { .. } => "reconciliation_required",
            Event::LookedUp { .. } => "looked_up",
            Event::Reconciled { .. } => "reconciled",
            Event::Escalated { .. } => "escalated",
            Event::Decided { .. } => "decided",
            Event::Joined { .. } => "joined",
            Event::Cancelled { .. } => "cancelled",
            Event::Terminal { .. } => "terminal",
            Event::TurnedAway { .. } => "turned_away",
            Event::Scope(_) => "scope_changed",
            Event::Resumed { .. } => "resumed",
            Event::TaskOpened { .. } => "task_opened",
            Event::TaskCharged { .. } => "task_charged",
            Event::TaskCancelled { .. } => "task_cancelled",
            Event::Started { .. } => "started",
            Event::PolicyChanged { .. } => "policy_changed",
        }
    }

    /// The action it is about, if it is about one.
    pub fn action(&self) -> Option<ActionId> {
        match self {
            Event::ActionRequested(requested) => Some(requested.action),
            Event::ActionSent { action, .. }
            | Event::LookupSent { action, .. }
            | Event::ActionResult { action, .. }
            | Event::Settled { action, .. }
            | Event::RetryScheduled { action, .. }
            | Event::ReconciliationRequired { action, .. }
            | Event::LookedUp { action, .. }
            | Event::Reconciled { action, .. }
            | Event::Joined { action, .. }
            | Event::Cancelled { action, .. }
            | Event::Terminal { action, .. } => Some(*action),
            Event::Escalated { action, .. } | Event::Decided { action, .. } => *action,
            Event::TurnedAway { .. }
            | Event::Scope(_)
            | Event::Resumed { .. }
            | Event::TaskOpened { .. }
            | Event::TaskCharged { .. }
            | Event::TaskCancelled { .. }
            | Event::Started { .. }
            | Event::PolicyChanged { .. } => None,
        }
    }
}
