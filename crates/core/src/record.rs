//! The tables that a restart reads, and how each event changes them.
//!
//! The functions here are the only description of that change: the store calls
//! them inside the transaction that appends the event, and the tests fold whole
//! histories with them. So the journal and the tables can't disagree.

use std::sync::Arc;

use crate::action::outcome::Certainty;
use crate::cost::Cost;
use crate::event::{Event, Found, Requested};
use crate::id::{Account, Agent};
use crate::id::{ActionId, AttemptNo, EscalationId, Scope, Task};
use crate::time::{Moment, Span};
use crate::word::{Choice, Mode, Outcome, State, Trigger};

/// One action as a restart needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRow {
    /// What was asked for.
    pub requested: Arc<Requested>,
    /// When it was admitted.
    pub requested_at: Moment,
    /// Where it is.
    pub state: State,
    /// Counts every change; a decision binds to it.
    pub version: u32,
    /// Attempts opened so far.
    pub attempts: AttemptNo,
    /// Look-ups made so far.
    pub lookups: u16,
    /// Time booked as waited after the first attempt.
    pub waited: Span,
    /// Its next send or look-up not before this.
    pub not_before: Moment,
    /// The last moment at which a byte of any attempt may have left.
    pub last_sent_at: Option<Moment>,
    /// Its key must not be sent again from here on.
    pub key_safe_until: Option<Moment>,
    /// Whether an attempt of a write may have had its effect, and nobody has
    /// found out yet. Never so for what changes nothing.
    pub uncertain: bool,
    /// Whether any attempt may have arrived.
    pub maybe_arrived: bool,
    /// The provider's identifier of what was created.
    pub operation_id: Option<String>,
    /// The status of the last answer.
    pub last_status: Option<u16>,
    /// The open question about it.
    pub escalation: Option<EscalationId>,
    /// Whether it was told to stop.
    pub cancelled: bool,
    /// The stable code of how it ended. Before that it says what is known and
    /// has not been acted on yet, so that a restart between two records can:
    /// the word of the last attempt's outcome, or [`SUPERSEDED`]. Empty once the
    /// next step is recorded.
    pub code: String,
}

/// The [`ActionRow::code`] of an action that a person has replaced by another.
pub const SUPERSEDED: &str = "superseded";

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
    /// What it drew, in requests.
    pub requests: u32,
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
    /// Where this came from, in words.
    pub source: String,
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

impl ActionRow {
    /// The row of a newly admitted action.
    pub fn open(requested: &Arc<Requested>, at: Moment) -> ActionRow {
        ActionRow {
            requested: Arc::clone(requested),
            requested_at: at,
            state: State::Admitted,
            version: 1,
            attempts: 0,
            lookups: 0,
            waited: Span::ZERO,
            not_before: at,
            last_sent_at: None,
            key_safe_until: None,
            uncertain: false,
            maybe_arrived: false,
            operation_id: None,
            last_status: None,
            escalation: None,
            cancelled: false,
            code: String::new(),
        }
    }

    /// Changes the row as the event says.
    ///
    /// # Errors
    /// [`Illegal`] if the event can't follow the row's state.
    pub fn apply(&mut self, event: &Event, at: Moment) -> Result<(), Illegal> {
        if self.state.is_final() && !matches!(event, Event::Joined { .. }) {
            return Err(self.illegal(event));
        }
        match event {
            Event::ActionSent {
                attempt,
                waited,
                key_safe_until,
                ..
            } => {
                if self.state == State::Dispatching || *attempt != self.attempts + 1 {
                    return Err(self.illegal(event));
                }
                self.attempts = *attempt;
                self.last_sent_at = Some(at);
                self.waited = *waited;
                self.key_safe_until = *key_safe_until;
                self.state = State::Dispatching;
                self.code.clear();
            }
            Event::ActionResult {
                attempt,
                certainty,
                outcome,
                status,
                operation_id,
                ..
            } => {
                if self.state != State::Dispatching || *attempt != self.attempts {
                    return Err(self.illegal(event));
                }
                self.last_status = status.or(self.last_status);
                if operation_id.is_some() {
                    self.operation_id.clone_from(operation_id);
                }
                if *certainty != Certainty::NotSent {
                    self.maybe_arrived = true;
                    self.last_sent_at = Some(at);
                }
                outcome.word().clone_into(&mut self.code);
                self.uncertain |= self.requested.class.is_write()
                    && matches!(certainty, Certainty::Unknown | Certainty::CommittedBodyLost);
                if *certainty == Certainty::Definite && *outcome == Outcome::Done {
                    // The provider's own word about this key settles what came before.
                    self.uncertain = false;
                }
                self.state = match certainty {
                    Certainty::Unknown | Certainty::CommittedBodyLost => State::Unknown,
                    _ => State::Waiting,
                };
            }
            Event::RetryScheduled { due, waited, .. } => {
                self.not_before = *due;
                self.waited = *waited;
                self.state = State::Waiting;
                self.code.clear();
            }
            Event::ReconciliationRequired { not_before, .. } => {
                self.not_before = *not_before;
                self.state = State::Reconciling;
                // That it was done stays known: only its result is looked for.
                if self.code != Outcome::Done.word() {
                    self.code.clear();
                }
            }
            // Counted when it goes out: a crash does not give its number away again.
            Event::LookupSent { lookup, .. } => {
                if self.state != State::Reconciling || *lookup != self.lookups + 1 {
                    return Err(self.illegal(event));
                }
                self.lookups = *lookup;
            }
            Event::LookedUp {
                lookup,
                next,
                operation_id,
                found,
                ..
            } => {
                if *lookup != self.lookups {
                    return Err(self.illegal(event));
                }
                if let Some(next) = next {
                    self.not_before = *next;
                }
                if operation_id.is_some() && *found != Found::Nothing {
                    self.operation_id.clone_from(operation_id);
                }
            }
            Event::Reconciled {
                applied,
                operation_id,
                ..
            } => {
                self.uncertain = false;
                if operation_id.is_some() {
                    self.operation_id.clone_from(operation_id);
                }
                let known = if *applied {
                    Outcome::Done
                } else {
                    self.maybe_arrived = false;
                    Outcome::Failed
                };
                self.state = State::Waiting;
                known.word().clone_into(&mut self.code);
            }
            Event::Escalated { escalation, .. } => {
                self.escalation = Some(*escalation);
                self.state = State::Escalated;
                self.code.clear();
            }
            Event::Decided { choice, .. } => self.decide(*choice, at),
            Event::Cancelled { .. } => self.cancelled = true,
            Event::Terminal { state, code, .. } => {
                if !state.is_final() {
                    return Err(self.illegal(event));
                }
                self.state = *state;
                self.code.clone_from(code);
            }
            Event::Joined { .. } => return Ok(()),
            _ => return Err(self.illegal(event)),
        }
        self.version += 1;
        Ok(())
    }

    /// What a decision means, so that a restart right after it carries it out.
    fn decide(&mut self, choice: Choice, at: Moment) {
        self.escalation = None;
        self.state = State::Waiting;
        self.code.clear();
        match choice {
            Choice::Query => {
                self.state = State::Reconciling;
                self.not_before = at;
            }
            // It waits, and is sent when its turn comes.
            Choice::RetrySameKey | Choice::Wait | Choice::RaiseQuota => self.not_before = at,
            Choice::ItHappened => {
                self.uncertain = false;
                Outcome::Done.word().clone_into(&mut self.code);
            }
            Choice::ItDidNot => {
                self.uncertain = false;
                self.maybe_arrived = false;
                Outcome::Failed.word().clone_into(&mut self.code);
            }
            Choice::SendNew => SUPERSEDED.clone_into(&mut self.code),
            Choice::Cancel | Choice::ChangePlan => self.cancelled = true,
        }
    }

    fn illegal(&self, event: &Event) -> Illegal {
        Illegal {
            event: event.word(),
            why: format!("action {} is {}", self.requested.action, self.state),
        }
    }
}

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
            requests: cost.requests,
            sent_at: None,
            certainty: None,
            outcome: None,
            status: None,
        }
    }

    /// Closes the row with its result; other events leave it alone.
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
            } => Some(TaskRow {
                task: task.clone(),
                agent: agent.clone(),
                goal: goal.clone(),
                opened_at: at,
                deadline: *deadline,
                retries: 0,
                waited: Span::ZERO,
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
            Event::TaskCancelled { .. } => self.cancelled = true,
            _ => {}
        }
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
