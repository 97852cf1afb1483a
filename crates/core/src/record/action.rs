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
use crate::action::budget::Used;
use crate::action::choices::Applied;
use crate::action::machine::{self, Step};
use crate::action::outcome::Certainty;
use crate::event::{CancelledBy, Event, Found, Requested};
use crate::id::{AttemptNo, EscalationId};
use crate::time::{Moment, Span};
use crate::word::{Cause, Choice, Outcome, State};

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
    /// Those among them that count against no budget: called back before they left,
    /// or allowed by a person.
    pub uncounted: u16,
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

/// The word in a result for an attempt that was called back before it left.
pub const WITHDRAWN: &str = "withdrawn";

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
            uncounted: 0,
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

    /// Changes the row as the event says, if the table of [`machine`] allows it there.
    ///
    /// # Errors
    /// [`Illegal`] if the event can't follow the row's state.
    pub fn apply(&mut self, event: &Event, at: Moment) -> Result<(), Illegal> {
        // What a call cost is its attempt's business; its state stays.
        if matches!(event, Event::Joined { .. } | Event::Settled { .. }) {
            return Ok(());
        }
        let state = step_of(event)
            .filter(|_| self.is_next(event))
            .and_then(|step| machine::step(self.state, step, self.applied()))
            .ok_or_else(|| self.illegal(event))?;
        self.learn(event, at);
        self.state = state;
        self.version += 1;
        Ok(())
    }

    /// Whether an attempt of it may have had its effect.
    fn applied(&self) -> Applied {
        match self.uncertain {
            true => Applied::Maybe,
            false => Applied::No,
        }
    }

    /// Whether the number in the event is the one that follows. Look-ups are counted
    /// when they go out: a crash does not give a number away again.
    fn is_next(&self, event: &Event) -> bool {
        match event {
            Event::ActionSent { attempt, .. } => *attempt == self.attempts + 1,
            Event::ActionResult { attempt, .. } => *attempt == self.attempts,
            Event::LookupSent { lookup, .. } => *lookup == self.lookups + 1,
            Event::LookedUp { lookup, .. } => *lookup == self.lookups,
            _ => true,
        }
    }

    /// What the row knows after the event, its state apart.
    fn learn(&mut self, event: &Event, at: Moment) {
        match event {
            Event::ActionSent {
                attempt,
                cause,
                waited,
                key_safe_until,
                ..
            } => {
                self.attempts = *attempt;
                self.uncounted += u16::from(*cause == Cause::Person);
                self.last_sent_at = Some(at);
                self.waited = *waited;
                self.key_safe_until = *key_safe_until;
                self.code.clear();
            }
            Event::ActionResult {
                certainty,
                outcome,
                status,
                operation_id,
                error_code,
                ..
            } => {
                let never_left = *certainty == Certainty::NotSent;
                let withdrawn = never_left && error_code.as_deref() == Some(WITHDRAWN);
                self.uncounted += u16::from(withdrawn);
                self.last_status = status.or(self.last_status);
                if operation_id.is_some() {
                    self.operation_id.clone_from(operation_id);
                }
                if !never_left {
                    self.maybe_arrived = true;
                    self.last_sent_at = Some(at);
                }
                outcome.word().clone_into(&mut self.code);
                self.uncertain |= self.requested.class.is_write() && is_lost(*certainty);
                if *certainty == Certainty::Definite && *outcome == Outcome::Done {
                    // The provider's own word about this key settles what came before.
                    self.uncertain = false;
                }
            }
            Event::RetryScheduled { due, waited, .. } => {
                self.not_before = *due;
                self.waited = *waited;
                self.code.clear();
            }
            Event::ReconciliationRequired { not_before, .. } => {
                self.not_before = *not_before;
                // That it was done stays known: only its result is looked for.
                if self.code != Outcome::Done.word() {
                    self.code.clear();
                }
            }
            Event::LookupSent { lookup, .. } => self.lookups = *lookup,
            Event::LookedUp {
                next,
                operation_id,
                found,
                ..
            } => {
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
                self.maybe_arrived &= *applied;
                let known = match applied {
                    true => Outcome::Done,
                    false => Outcome::Failed,
                };
                known.word().clone_into(&mut self.code);
            }
            Event::Escalated { escalation, .. } => {
                self.escalation = Some(*escalation);
                self.code.clear();
            }
            Event::Decided { choice, .. } => self.decide(*choice, at),
            // A caller that leaves withdraws its call; its key may come back.
            Event::Cancelled { by, .. } => self.cancelled |= *by != CancelledBy::Caller,
            Event::Terminal { code, .. } => self.code.clone_from(code),
            _ => {}
        }
    }

    /// What counts against the budgets of its key: its own, and what earlier
    /// calls with it used up.
    pub fn used(&self) -> Used {
        let earlier = self.requested.earlier.unwrap_or_default();
        let counted = self.attempts.saturating_sub(self.uncounted);
        Used {
            attempts: counted.saturating_add(earlier.attempts),
            waited: self.waited + earlier.waited,
        }
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
        self.code.clear();
        match choice {
            // It waits, and is looked up or sent when its turn comes.
            Choice::Query | Choice::RetrySameKey | Choice::Wait | Choice::RaiseQuota => {
                self.not_before = at;
            }
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

/// Whether nobody knows what an attempt did, or its result was lost.
fn is_lost(certainty: Certainty) -> bool {
    matches!(certainty, Certainty::Unknown | Certainty::CommittedBodyLost)
}

/// What an event means for the state of its action; `None` if it is not about one
/// that exists.
fn step_of(event: &Event) -> Option<Step> {
    Some(match event {
        Event::ActionSent { .. } => Step::Sent,
        Event::ActionResult { certainty, .. } => match is_lost(*certainty) {
            true => Step::Lost,
            false => Step::Answered,
        },
        Event::RetryScheduled { .. } => Step::Repeat,
        Event::ReconciliationRequired { .. } => Step::FindOut,
        Event::LookupSent { .. } | Event::LookedUp { .. } => Step::LookUp,
        Event::Reconciled { .. } => Step::FoundOut,
        Event::Escalated { .. } => Step::Asked,
        Event::Decided { choice, .. } => match choice {
            Choice::Query => Step::LookUpChosen,
            _ => Step::Chosen,
        },
        Event::Cancelled { .. } => Step::Stopped,
        Event::Terminal { state, .. } => Step::Ends(*state),
        _ => return None,
    })
}
