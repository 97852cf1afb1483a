//! The runner of one action: it does what the engine says, and decides nothing.
//!
//! Each action has one runner, a task that outlives its caller: a write that was
//! sent goes on when its caller hangs up. It waits for mail from the engine,
//! sends when it is told to, reports what was seen, and answers whoever asked.
//!
//! ```text
//! mail     Parked ─▶ remember why it waits
//!          Grant  ─▶ dial, send, read as far as needed, report
//!          Lookup ─▶ ask the provider what happened, report
//!          Deliver, Finish, Refuse ─▶ answer the caller, and all that joined
//!          Abort  ─▶ stop the wire
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use rategov_core::action::problem::Code;
use rategov_core::engine::{ActionView, Following, Output, WaitReason};
use rategov_core::id::ActionId;
use rategov_core::observe::Meaning;
use rategov_core::record::ActionRow;
use rategov_core::time::{Moment, Span};
use rategov_core::word::State;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::answer::Answer;
use super::evidence::BodyEnd;
use super::job::Job;
use super::meter::Tap;
use super::problem::Problem;
use super::purpose::Purpose;
use super::reading::Peeked;
use super::reply::Reply;
use crate::driver::{Cell, Driver, Mail, Mailbox};

/// Callers that may wait for one action beside the first.
const JOINERS_MAX: usize = 64;

/// Whoever waits for the answer.
pub type Caller = oneshot::Sender<Reply>;

/// One action's runner.
pub struct Runner {
    pub(super) driver: Driver,
    pub(super) cell: Arc<Cell>,
    pub(super) mailbox: Mailbox,
    pub(super) job: Job,
    pub(super) callers: Vec<Caller>,
    /// The last answer, read whole, in case it turns out to be the last word.
    pub(super) last: Option<Held>,
    /// An answer whose body streams on.
    pub(super) streaming: Option<(Held, Answer)>,
    /// What a look-up found: the result of a write whose answer was lost.
    pub(super) found: Option<Bytes>,
    pub(super) attempts: u16,
    /// Whether a byte of any attempt may have left.
    pub(super) was_sent: bool,
    pub(super) waited: Span,
    pub(super) wait_from: Moment,
    pub(super) reason: Option<&'static str>,
    /// A person is asked what is to be done. That is durable, and takes as long as
    /// people do: nobody is kept waiting for it.
    pub(super) with_person: bool,
    /// When its callers are let go, sent or not.
    patience: Option<Instant>,
    /// Mail that came while something was on the wire, to be followed after it.
    kept: VecDeque<Output>,
    /// It was taken back because the governor stops.
    pub(super) withdrawn: bool,
}

/// Whether something of an action is on its way to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnTheWire {
    /// It is.
    Yes,
    /// It waits.
    No,
}

/// The head of an answer and what was read of its body.
pub(super) struct Held {
    pub(super) attempt: u16,
    pub(super) meaning: Meaning,
    pub(super) head: http::response::Parts,
    pub(super) peeked: Peeked,
    /// How its body ended, if it has.
    pub(super) end: Option<BodyEnd>,
    /// What reads its cost, if it has any but itself.
    pub(super) tap: Option<Box<Tap>>,
}

impl Held {
    /// The connection's end was the body's, and nothing speaks against it. That proves
    /// too little to count on, but it is what a direct call would have got.
    pub(super) fn ends_with_connection(&self) -> bool {
        self.end == Some(BodyEnd::CloseDelimited)
    }
}

impl Runner {
    /// A runner for an action that was just submitted or taken up.
    pub fn new(
        driver: Driver,
        cell: Arc<Cell>,
        mailbox: Mailbox,
        job: Job,
        caller: Option<Caller>,
    ) -> Runner {
        let wait_from = driver.clock().now();
        Runner {
            driver,
            cell,
            mailbox,
            job,
            callers: caller.into_iter().collect(),
            last: None,
            streaming: None,
            found: None,
            attempts: 0,
            was_sent: false,
            waited: Span::ZERO,
            wait_from,
            reason: None,
            with_person: false,
            patience: None,
            kept: VecDeque::new(),
            withdrawn: false,
        }
    }

    /// The same for an action that a restart found, as its row has it.
    pub fn resumed(
        driver: Driver,
        cell: Arc<Cell>,
        mailbox: Mailbox,
        job: Job,
        row: &ActionRow,
    ) -> Runner {
        let mut runner = Runner::new(driver, cell, mailbox, job, None);
        runner.with_person = row.state == State::Escalated;
        runner.attempts = row.attempts;
        runner.waited = row.waited;
        runner.was_sent = row.may_have_left();
        runner
    }

    pub(super) fn id(&self) -> ActionId {
        self.mailbox.action()
    }

    /// Runs until the action has ended, beginning with mail that is there already.
    pub async fn run(mut self, first: Vec<Mail>) {
        let mut first = first.into_iter();
        loop {
            let mail = match first.next() {
                Some(mail) => Some(mail),
                None => self.next_mail(OnTheWire::No).await,
            };
            let Some(mail) = mail else {
                return self.answer_after_fault();
            };
            // With the first mail the action exists for certain: before that nothing may
            // be promised.
            if let Some(patience) = self.job.patience.take() {
                self.patience = Some(Instant::now() + patience);
            }
            match mail {
                Mail::Joiner(caller) => self.take_joiner(caller),
                Mail::Output(output) => {
                    if self.follow(output).await {
                        return;
                    }
                }
            }
        }
    }

    /// The engine lost a commit and will say no more: what it had decided about
    /// this call is not in the journal, so nobody may hear it as decided.
    fn answer_after_fault(&mut self) {
        self.stop_waiting();
        // An open attempt is in the journal, and counts as unknown there.
        let maybe_sent = self.was_sent || 0 < self.attempts;
        let code = match (maybe_sent, self.job.class.is_write()) {
            (false, _) => Code::AuditUnavailable,
            (true, true) => Code::OutcomeUnknown,
            (true, false) => Code::Interrupted,
        };
        let why = "the journal can't be written, so what came of the call can't be recorded";
        let problem = Problem::of_action(code)
            .because(why)
            .with("sent", self.was_sent);
        self.answer_problem(problem, None);
    }

    /// Follows one instruction; `true` if the action has ended.
    async fn follow(&mut self, output: Output) -> bool {
        match output {
            Output::Parked(parked) => {
                self.with_person = false;
                self.reason = Some(parked.reason.word());
                false
            }
            Output::Grant(grant) => {
                self.with_person = false;
                self.stop_waiting();
                self.attempt(grant).await;
                false
            }
            Output::Lookup(grant) => {
                self.with_person = false;
                self.stop_waiting();
                self.look_up(grant.lookup).await;
                self.wait_from = self.driver.clock().now();
                false
            }
            Output::Continue { next, .. } => {
                self.with_person &= next == Following::Decision;
                self.reason = Some(match next {
                    Following::Attempt => WaitReason::Backoff.word(),
                    Following::Lookup => "reconciliation",
                    Following::Decision => "decision",
                });
                self.wait_from = self.driver.clock().now();
                false
            }
            Output::Deliver { attempt, state, .. } => self.deliver(attempt, state).await,
            Output::Refuse { refusal, .. } => {
                self.stop_waiting();
                let seconds = refusal.retry_at.map(|at| self.seconds_until(at));
                let problem = Problem::of_action(refusal.code)
                    .because(&refusal.why)
                    .retry_after(seconds)
                    .with("scope", refusal.scope.as_str())
                    .with("sent", false);
                self.answer_problem(problem, Some(refusal.code.word()));
                true
            }
            Output::Finish {
                state,
                code,
                why,
                operation_id,
                escalation,
                retry_at,
                ..
            } => {
                self.stop_waiting();
                self.finish(state, code, &why, operation_id, escalation, retry_at);
                state.is_final()
            }
            // An abort overtakes a grant, which waits for its record. With nothing on
            // the wire there is nothing to stop: the engine remembers what it called
            // back, and is asked before a byte leaves.
            Output::Abort { .. }
            | Output::Join { .. }
            | Output::Record(_)
            | Output::ChargeTask { .. }
            | Output::OpenPath { .. }
            | Output::Child { .. }
            | Output::Asked { .. }
            | Output::Changed(_)
            | Output::Faulted => false,
        }
    }

    fn stop_waiting(&mut self) {
        self.waited += self.driver.clock().now().since(self.wait_from);
        self.wait_from = self.driver.clock().now();
    }

    pub(super) fn seconds_until(&self, at: Moment) -> u64 {
        at.since(self.driver.clock().now()).as_secs_ceil()
    }

    fn take_joiner(&mut self, caller: Caller) {
        if self.with_person {
            // Dropped: the caller gets what the tables say about the action.
            return;
        }
        if self.callers.len() < JOINERS_MAX && self.job.purpose == Purpose::Write {
            self.callers.push(caller);
            return;
        }
        let problem = Problem::of_action(Code::StillOpen).with("action", self.id().to_string());
        let _ = caller.send(Reply::Governor {
            problem,
            context: None,
        });
    }

    /// The next mail. Lets the callers go meanwhile if their patience ends: with the
    /// promise of a result to fetch, and only where one will be kept. A call that was
    /// never sent ends by the engine's own word, and a read that was sent is waited for.
    pub(super) async fn next_mail(&mut self, on_the_wire: OnTheWire) -> Option<Mail> {
        if on_the_wire == OnTheWire::No
            && let Some(kept) = self.kept.pop_front()
        {
            return Some(Mail::Output(kept));
        }
        if let Some(until) = self.patience {
            tokio::select! {
                biased;
                mail = self.mail(on_the_wire) => return mail,
                () = tokio::time::sleep_until(until) => self.patience = None,
            }
            if self.job.respond_async {
                self.answer_pending();
            } else if on_the_wire == OnTheWire::Yes && self.job.purpose == Purpose::Write {
                let problem = Problem::of_action(Code::StillOpen)
                    .with("sent", true)
                    .with("state", State::Dispatching.word());
                self.answer_problem(problem, None);
            }
        }
        self.mail(on_the_wire).await
    }

    /// `None` ends the runner: its engine has lost a commit, and the action belongs
    /// to whoever takes it up from the tables. A read that is on the wire, and that
    /// nobody will send again, has nothing to lose and is passed on to its end.
    async fn mail(&mut self, on_the_wire: OnTheWire) -> Option<Mail> {
        let passes_on = on_the_wire == OnTheWire::Yes && self.job.purpose == Purpose::Read;
        loop {
            let waits = !self.callers.is_empty() && !self.withdrawn;
            tokio::select! {
                biased;
                mail = self.mailbox.next() => return mail,
                // What the engine said before it ended is heard first, also if it came
                // since the line above looked.
                () = self.cell.closed(), if !passes_on => return self.mailbox.try_next(),
                () = self.driver.stop_over(), if waits => {}
            }
            self.answer_at_stop();
        }
    }

    /// The governor ends with this action open. What was sent goes on, or is settled at
    /// the next start; what was not is withdrawn, and its end is told when it is recorded.
    fn answer_at_stop(&mut self) {
        let seen = self
            .driver
            .look(&self.cell, |engine, now| engine.action(now, self.id()));
        // An attempt that was called back, or never got through, is no reason to stay.
        let is_open = |view: &ActionView| self.was_sent || view.on_the_wire;
        let Some(state) = seen.filter(is_open).map(|view| view.row.state) else {
            self.withdrawn = true;
            self.driver.caller_gone(&self.cell, self.id());
            return;
        };
        let (code, why) = match self.job.class.is_write() {
            true => (
                Code::StillOpen,
                "the governor stops; it settles the write when it runs again",
            ),
            false => (Code::Interrupted, ""),
        };
        let problem = Problem::of_action(code)
            .because(why)
            .with("sent", true)
            .with("state", state.word());
        self.answer_problem(problem, None);
    }

    /// Mail while something is on the wire; `true` if it must be stopped. Nothing
    /// is thrown away: what has to wait for the wire is followed after it.
    pub(super) fn meanwhile(&mut self, mail: Option<Mail>) -> bool {
        let output = match mail {
            None => return true,
            Some(Mail::Joiner(caller)) => {
                self.take_joiner(caller);
                return false;
            }
            Some(Mail::Output(output)) => output,
        };
        match output {
            Output::Abort { .. } => true,
            // The action is over, and with it what is on the wire.
            Output::Refuse { .. } => {
                self.kept.push_back(output);
                true
            }
            Output::Finish { state, .. } if state.is_final() => {
                self.kept.push_back(output);
                true
            }
            // Its callers are let go, the wire is not.
            Output::Finish {
                state,
                code,
                why,
                operation_id,
                escalation,
                retry_at,
                ..
            } => {
                self.finish(state, code, &why, operation_id, escalation, retry_at);
                false
            }
            Output::Grant(_)
            | Output::Lookup(_)
            | Output::Deliver { .. }
            | Output::Continue { .. }
            | Output::Parked(_) => {
                self.kept.push_back(output);
                false
            }
            // Not about a send, or not to a runner.
            Output::Join { .. }
            | Output::Record(_)
            | Output::ChargeTask { .. }
            | Output::OpenPath { .. }
            | Output::Child { .. }
            | Output::Asked { .. }
            | Output::Changed(_)
            | Output::Faulted => false,
        }
    }
}
