//! The tables that a restart reads, and how each event changes them.
//!
//! The functions here are the only description of that change: the store calls
//! them inside the transaction that appends the event, and the tests fold whole
//! histories with them. So the journal and the tables can't disagree.

mod action;

pub use action::{ActionRow, SUPERSEDED, WITHDRAWN};

use crate::action::outcome::Certainty;
use crate::cost::{Cost, Dimension};
use crate::event::Event;
use crate::id::{Account, Agent};
use crate::id::{ActionId, AttemptNo, EscalationId, Scope, Task};
use crate::tasks::DEFAULT_TASK;
use crate::time::{Moment, Span};
use crate::word::{Choice, Mode, Outcome, Trigger};

/// What a send is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SendKind {
    /// An attempt of the action itself.
    Attempt,
    /// A look-up of what an attempt did.
    Lookup,
}

/// One send: an attempt, or a look-up. Its key is (action, kind, number).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    /// Of this action.
    pub action: ActionId,
    /// What it is for.
    pub kind: SendKind,
    /// Which one of its kind, from 1.
    pub attempt: AttemptNo,
    /// When it was opened.
    pub opened_at: Moment,
    /// Every scope it draws on.
    pub scopes: Vec<Scope>,
    /// What it drew: as reserved, and as it was once that is known.
    pub cost: Cost,
    /// When its first byte may have left, once that is known.
    pub sent_at: Option<Moment>,
    /// How it ended; `None` while it is open.
    pub certainty: Option<Certainty>,
    /// What is known; `None` while it is open.
    pub outcome: Option<Outcome>,
    /// The status of its answer.
    pub status: Option<u16>,
}

/// One question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscalationRow {
    /// The question.
    pub escalation: EscalationId,
    /// About this action.
    pub action: Option<ActionId>,
    /// About this scope.
    pub scope: Scope,
    /// Why it is asked.
    pub trigger: Trigger,
    /// What may be answered.
    pub choices: Vec<Choice>,
    /// The cause in words.
    pub why: String,
    /// The version of the action that was shown.
    pub version: u32,
    /// When it was asked.
    pub opened_at: Moment,
    /// Without an answer it ends then.
    pub expires: Moment,
    /// The answer, once there is one.
    pub chosen: Option<Choice>,
    /// Who answered: an operator's name, or `expiry`.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<Moment>,
    /// What the person noted.
    pub note: Option<String>,
}

/// One scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeRow {
    /// The scope.
    pub scope: Scope,
    /// Its mode.
    pub mode: Mode,
    /// Nothing before this.
    pub next_allowed_at: Option<Moment>,
    /// Units left, as far as known.
    pub remaining: Option<u64>,
    /// Units per window, declared or learnt.
    pub limit: Option<u64>,
    /// The window's length.
    pub window: Option<Span>,
    /// When more is back.
    pub reset_at: Option<Moment>,
    /// Learnt distance between two starts.
    pub spacing: Option<Span>,
    /// Learnt number of calls open at once.
    pub max_concurrent: Option<u32>,
    /// Counts the refusal events.
    pub epoch: u64,
    /// How many holds in a row found it still closed.
    pub hold_level: u32,
    /// Whether it was found not to have its declared shape.
    pub misdeclared: bool,
    /// Whether what it is closed for is a used-up quota, and no rate.
    pub exhausted: bool,
    /// Where this came from, in words.
    pub source: String,
    /// The limits that headers told, at most 8.
    pub told: Vec<ToldRow>,
}

/// A limit that headers told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldRow {
    /// How the provider calls it.
    pub name: String,
    /// What it counts.
    pub dimension: Dimension,
    /// Units per window.
    pub limit: u64,
    /// The window.
    pub window: Span,
    /// Whether its length was stated, and not concluded.
    pub named: bool,
    /// What the bucket holds, if it is one.
    pub burst: Option<u64>,
    /// Units left when it was saved, as far as known.
    pub left: Option<u64>,
    /// When more is back.
    pub reset_at: Option<Moment>,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// The task.
    pub task: Task,
    /// Of this agent.
    pub agent: Agent,
    /// What it is for.
    pub goal: Option<String>,
    /// When it was first heard of.
    pub opened_at: Moment,
    /// Nothing of it is sent after this.
    pub deadline: Moment,
    /// Repeats so far.
    pub retries: u32,
    /// Waited time so far.
    pub waited: Span,
    /// How often what it had in hand was told to stop.
    pub stops: u32,
    /// Whether it ended.
    pub cancelled: bool,
}

/// An event that can't follow what is there. A bug, or a journal of another install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Illegal {
    /// The event.
    pub event: &'static str,
    /// What it met.
    pub why: String,
}

impl std::fmt::Display for Illegal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "event {} can't follow: {}", self.event, self.why)
    }
}

impl std::error::Error for Illegal {}

impl AttemptRow {
    /// The row that an event opens, if it opens one.
    pub fn open(event: &Event, at: Moment) -> Option<AttemptRow> {
        match event {
            Event::ActionSent {
                action,
                attempt,
                scopes,
                cost,
                ..
            } => Some(AttemptRow::new(
                *action,
                SendKind::Attempt,
                *attempt,
                scopes,
                *cost,
                at,
            )),
            Event::LookupSent {
                action,
                lookup,
                scopes,
                cost,
            } => Some(AttemptRow::new(
                *action,
                SendKind::Lookup,
                *lookup,
                scopes,
                *cost,
                at,
            )),
            _ => None,
        }
    }

    fn new(
        action: ActionId,
        kind: SendKind,
        attempt: AttemptNo,
        scopes: &[Scope],
        cost: Cost,
        at: Moment,
    ) -> AttemptRow {
        AttemptRow {
            action,
            kind,
            attempt,
            opened_at: at,
            scopes: scopes.to_vec(),
            cost,
            sent_at: None,
            certainty: None,
            outcome: None,
            status: None,
        }
    }

    /// Closes the row with its result, or notes what it used; other events leave it
    /// alone.
    pub fn apply(&mut self, event: &Event, at: Moment) {
        match event {
            Event::ActionResult {
                action,
                attempt,
                certainty,
                outcome,
                status,
                sent_at,
                ..
            } if self.is(*action, SendKind::Attempt, *attempt) => {
                self.certainty = Some(*certainty);
                self.outcome = Some(*outcome);
                self.status = *status;
                self.sent_at = *sent_at;
            }
            Event::Settled {
                action,
                attempt,
                cost,
                ..
            } if self.is(*action, SendKind::Attempt, *attempt) => self.cost = *cost,
            Event::LookedUp {
                action,
                lookup,
                status,
                ..
            } if self.is(*action, SendKind::Lookup, *lookup) => {
                self.certainty = Some(Certainty::Definite);
                self.outcome = Some(Outcome::Done);
                self.status = *status;
                self.sent_at = Some(at);
            }
            _ => {}
        }
    }

    fn is(&self, action: ActionId, kind: SendKind, attempt: AttemptNo) -> bool {
        (self.action, self.kind, self.attempt) == (action, kind, attempt)
    }
}

impl EscalationRow {
    /// The row that an event opens, if it opens one.
    pub fn open(event: &Event, at: Moment) -> Option<EscalationRow> {
        match event {
            Event::Escalated {
                escalation,
                action,
                scope,
                trigger,
                choices,
                why,
                version,
                expires,
            } => Some(EscalationRow {
                escalation: *escalation,
                action: *action,
                scope: scope.clone(),
                trigger: *trigger,
                choices: choices.clone(),
                why: why.clone(),
                version: *version,
                opened_at: at,
                expires: *expires,
                chosen: None,
                decided_by: None,
                decided_at: None,
                note: None,
            }),
            _ => None,
        }
    }

    /// Closes the row with the decision.
    ///
    /// # Errors
    /// [`Illegal`] if it was decided before.
    pub fn apply(&mut self, event: &Event, at: Moment) -> Result<(), Illegal> {
        if let Event::Decided {
            choice, by, note, ..
        } = event
        {
            if self.chosen.is_some() {
                return Err(Illegal {
                    event: event.word(),
                    why: format!("escalation {} is decided", self.escalation),
                });
            }
            self.chosen = Some(*choice);
            self.decided_by = Some(match by {
                crate::event::Decider::Operator(operator) => operator.to_string(),
                crate::event::Decider::Expiry => "expiry".to_owned(),
            });
            self.decided_at = Some(at);
            self.note.clone_from(note);
        }
        Ok(())
    }
}

impl TaskRow {
    /// The row that an event opens, if it opens one.
    pub fn open(event: &Event, at: Moment) -> Option<TaskRow> {
        match event {
            Event::TaskOpened {
                task,
                agent,
                goal,
                deadline,
                stops,
            } => Some(TaskRow {
                task: task.clone(),
                agent: agent.clone(),
                goal: goal.clone(),
                opened_at: at,
                deadline: *deadline,
                retries: 0,
                waited: Span::ZERO,
                stops: *stops,
                cancelled: false,
            }),
            _ => None,
        }
    }

    /// Changes the row as the event says; other events leave it alone.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::TaskCharged {
                retries, waited, ..
            } => {
                self.retries = *retries;
                self.waited = *waited;
            }
            Event::TaskCancelled { .. } => {
                self.stops = self.stops.saturating_add(1);
                self.cancelled = !self.is_default();
            }
            _ => {}
        }
    }

    /// Whether it is its agent's default task: a cancel stops what that has in
    /// hand, and it goes on.
    pub fn is_default(&self) -> bool {
        self.task.as_str() == DEFAULT_TASK
    }

    /// Whether a call that it admitted after so many stops may be sent.
    pub fn may_send(&self, stops: u32) -> bool {
        !self.cancelled && self.stops <= stops
    }
}

/// Everything that a restart needs, read from the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Actions that are not final.
    pub actions: Vec<ActionRow>,
    /// Attempts opened so lately that a window may still hold them, and all open ones.
    pub attempts: Vec<AttemptRow>,
    /// Undecided escalations.
    pub escalations: Vec<EscalationRow>,
    /// Scopes by account.
    pub scopes: Vec<(Account, ScopeRow)>,
    /// Tasks.
    pub tasks: Vec<TaskRow>,
}
