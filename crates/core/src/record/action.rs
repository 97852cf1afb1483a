//! The row of an action, and how each event changes it.
//!
//! Between two records of one step a crash can come. So an event leaves in the
//! row what was known when it was made and has not been acted on yet
//! ([`ActionRow::code`]):
//!
//! | the last record | the row waits with | a restart |
//! | --- | --- | --- |
//! | a result, 201 | `done` | ends it as done, its result lost |
//! | a result, 400 | `failed` | ends it as failed |
//! | a result, 429 | `refused` | withdraws it, or plans its repeat |
//! | a decision, *it happened* | `done` | ends it as done |
//! | a decision, *send a new operation* | `superseded` | makes the child |
//! | a repeat is planned | nothing | lets it wait |

use std::sync::Arc;

use super::Illegal;
use crate::action::outcome::Certainty;
use crate::event::{CancelledBy, Event, Found, Requested};
use crate::id::{AttemptNo, EscalationId};
use crate::time::{Moment, Span};
use crate::word::{Choice, Outcome, State};

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
    /// Whether somebody told it to stop: nothing of it is ever sent again, and
    /// its key is not used again either.
    pub cancelled: bool,
    /// The stable code of how it ended. Before that it says what is known and
    /// has not been acted on yet, so that a restart between two records can:
    /// the word of the last attempt's outcome, or [`SUPERSEDED`]. Empty once the
    /// next step is recorded.
    pub code: String,
}

/// The [`ActionRow::code`] of an action that a person has replaced by another.
pub const SUPERSEDED: &str = "superseded";

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
            // A caller that leaves withdraws its call; its key may come back.
            Event::Cancelled { by, .. } => self.cancelled |= *by != CancelledBy::Caller,
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

    /// Whether a byte of it may have left, as far as the row tells: its attempts know
    /// it better. What was looked up was sent, whatever was found.
    pub fn may_have_left(&self) -> bool {
        self.uncertain
            || self.maybe_arrived
            || 0 < self.lookups
            || self.last_status.is_some()
            || self.state == State::Dispatching
    }

    /// Whether a later call with its key may be sent: it has ended, certainly
    /// without effect, nobody told it to stop, and its last answer was no verdict
    /// on the call but passes with time.
    pub fn may_be_sent_anew(&self) -> bool {
        let passing = |status| matches!(status, 408 | 429 | 500..=599);
        match self.state {
            State::CancelledNotSent | State::Interrupted => !self.cancelled,
            State::FailedDefinite => !self.cancelled && self.last_status.is_none_or(passing),
            _ => false,
        }
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
