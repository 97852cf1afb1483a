//! An action while the engine has it in hand.

use super::input::Setup;
use crate::action::budget::{TaskAllowance, Used};
use crate::action::next_step::{self, NextStep, WAIT_EXHAUSTED};
use crate::action::problem::Code;
use crate::estimate::Estimate;
use crate::id::{ActionId, Agent, AttemptNo};
use crate::ledger::PermitId;
use crate::observe::Meaning;
use crate::record::ActionRow;
use crate::schedule::{AskKey, Lane};
use crate::tasks::{TaskKey, task_key};
use crate::time::Moment;
use crate::word::{Cause, Outcome, Priority};

/// What an action queues for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its next attempt.
    Attempt(Cause),
    /// Its next look-up.
    Lookup,
}

/// What is out on the wire for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// An attempt whose answer is awaited.
    Attempt(AttemptNo),
    /// An attempt whose answer was judged at its head; its body streams on.
    Body(AttemptNo),
    /// A look-up.
    Lookup(u16),
}

/// A send that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnWire {
    pub(super) what: Open,
    /// The permit that it holds.
    pub(super) permit: PermitId,
    /// When it was granted.
    pub(super) since: Moment,
    /// When its first byte may have left; `None` while nobody said so.
    pub(super) sent_at: Option<Moment>,
    /// Whether it may still leave if it has not.
    pub(super) leave: Leave,
}

/// Whether the first byte of a send may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what must not leave is reported as withdrawn"]
pub enum Leave {
    /// It may.
    Free,
    /// It must not: the send is over, and is reported as withdrawn.
    CalledBack,
}

/// What became of the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Waits for the answer until then.
    Held(Moment),
    /// Was let go, or left; the result is fetched by id if at all.
    Gone,
}

/// How an action ends whose next send is not made after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastWord {
    /// Nothing was sent yet.
    Nothing,
    /// The answer of this attempt is the last word.
    Answer(AttemptNo),
    /// No answer came; the governor says this.
    Own(Code),
}

/// One action in hand.
#[derive(Debug)]
pub(super) struct Live {
    /// The same row that the store folds.
    pub(super) row: ActionRow,
    pub(super) setup: Setup,
    /// What it will use, as it was last reckoned; `None` if nothing of it is a guess.
    pub(super) estimate: Option<Box<Estimate>>,
    pub(super) ask: AskKey,
    /// The place of an earlier call that it keeps.
    pub(super) place: Option<AskKey>,
    pub(super) lane: Lane,
    /// What it queues for, if it does.
    pub(super) turn: Option<Turn>,
    pub(super) open: Option<OnWire>,
    pub(super) caller: Caller,
    /// Its waiting after the first attempt must end by then.
    pub(super) wait_until: Moment,
    /// What its task allowed when it was last asked.
    pub(super) task: TaskAllowance,
    /// Look-ups made before a person asked for new ones.
    pub(super) lookups_before: u16,
    pub(super) last_word: LastWord,
    /// What the last attempt proved.
    pub(super) last_outcome: Option<Outcome>,
    /// What the last answer means, if one came.
    pub(super) last_meaning: Option<Meaning>,
}

impl Live {
    /// An action that has just been taken in hand, with nothing going on.
    pub(super) fn new(row: ActionRow, setup: Setup, ask: AskKey, lane: Lane) -> Live {
        Live {
            row,
            setup,
            estimate: None,
            ask,
            place: None,
            lane,
            turn: None,
            open: None,
            caller: Caller::Gone,
            wait_until: Moment::NEVER,
            task: TaskAllowance::UNLIMITED,
            lookups_before: 0,
            last_word: LastWord::Nothing,
            last_outcome: None,
            last_meaning: None,
        }
    }

    pub(super) fn id(&self) -> ActionId {
        self.row.requested.action
    }

    /// The code of an end with the last answer, which is no success. `waits` says
    /// whether it only ends because its wait would be too long.
    pub(super) fn code_of_answer(&self, waits: bool) -> &'static str {
        let meaning = self.last_meaning.unwrap_or(Meaning::ProviderError);
        let code = next_step::code_of_answer(meaning);
        let class = self.row.requested.class;
        match next_step::after_code_of_answer(code, class) {
            Some(NextStep::SendLater) if waits => WAIT_EXHAUSTED,
            _ => code,
        }
    }

    pub(super) fn agent(&self) -> &Agent {
        &self.row.requested.agent
    }

    /// Its rank and lane: what it shares its way with.
    pub(super) fn group(&self) -> (Priority, Lane) {
        (self.row.requested.priority, self.lane)
    }

    /// The task that it belongs to.
    pub(super) fn task_key(&self) -> TaskKey {
        let requested = &self.row.requested;
        task_key(&requested.agent, requested.task.as_ref())
    }

    /// Whether nothing of it ever left, as far as anybody knows.
    pub(super) fn never_sent(&self) -> bool {
        self.row.attempts == 0
    }

    /// What counts against the limits of its class.
    pub(super) fn used(&self) -> Used {
        self.row.used()
    }

    /// Look-ups that count against their budget.
    pub(super) fn lookups(&self) -> u16 {
        self.row.lookups.saturating_sub(self.lookups_before)
    }

    /// Whether its answer need not wait for the disk. A write's result is stored
    /// before its caller sees it; and what runs without its caller is sent again
    /// after a crash, so nobody may have its answer before the journal has it.
    pub(super) fn answers_at_once(&self) -> bool {
        !self.row.requested.class.is_write() && !self.row.requested.detached
    }

    /// Whether somebody waits for it, or will fetch it.
    pub(super) fn is_wanted(&self) -> bool {
        self.row.requested.detached || matches!(self.caller, Caller::Held(_))
    }
}
