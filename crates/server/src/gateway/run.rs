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

use std::sync::Arc;

use bytes::Bytes;
use rategov_core::action::problem::Code;
use rategov_core::engine::{ActionView, Following, Output, WaitReason};
use rategov_core::id::ActionId;
use rategov_core::observe::Meaning;
use rategov_core::time::{Moment, Span};
use rategov_core::word::State;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::answer::Answer;
use super::evidence::BodyEnd;
use super::job::Job;
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
    pub(super) waited: Span,
    pub(super) wait_from: Moment,
    pub(super) reason: Option<&'static str>,
    /// A person is asked what is to be done. That is durable, and takes as long as
    /// people do: nobody is kept waiting for it.
    pub(super) with_person: bool,
    /// When its callers are let go, sent or not.
    patience: Option<Instant>,
    /// The grant that is on its way is not to be sent: nobody wants it.
    pub(super) aborted: bool,
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
            waited: Span::ZERO,
            wait_from,
            reason: None,
            with_person: false,
            patience: None,
            aborted: false,
            withdrawn: false,
        }
    }

    /// The same for an action that a restart found, as its row has it.
    pub fn resumed(
        driver: Driver,
        cell: Arc<Cell>,
        mailbox: Mailbox,
        job: Job,
        state: State,
    ) -> Runner {
        let mut runner = Runner::new(driver, cell, mailbox, job, None);
        runner.with_person = state == State::Escalated;
        runner
    }

    pub(super) fn id(&self) -> ActionId {
        self.mailbox.action()
    }

    /// Runs until the action has ended, beginning with mail that is there already.
    pub async fn run_from(mut self, first: Vec<Mail>) {
        for mail in first {
            if self.take_in(mail).await {
                return;
            }
        }
        self.run().await;
    }

    async fn take_in(&mut self, mail: Mail) -> bool {
        // With the first mail the action exists for certain: before that nothing may
        // be promised.
        if let Some(patience) = self.job.patience.take() {
            self.patience = Some(Instant::now() + patience);
        }
        match mail {
            Mail::Joiner(caller) => {
                self.take_joiner(caller);
                false
            }
            Mail::Output(output) => self.follow(output).await,
        }
    }

    /// Runs until the action has ended.
    pub async fn run(mut self) {
        while let Some(mail) = self.next_mail(OnTheWire::No).await {
            if self.take_in(mail).await {
                return;
            }
        }
        self.answer_after_fault();
    }

    /// The engine lost a commit and will say no more: what it had decided about
    /// this write is not in the journal, so nobody may hear it as decided.
    fn answer_after_fault(&mut self) {
        self.stop_waiting();
        let code = match self.attempts {
            0 => Code::AuditUnavailable,
            _ => Code::OutcomeUnknown,
        };
        let why = "the journal can't be written, so what came of the write can't be recorded";
        let problem = Problem::of_action(code)
            .because(why)
            .with("sent", 0 < self.attempts);
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
            // With nothing on the wire it stops what may still be granted: a grant
            // waits for its record, an abort overtakes it.
            Output::Abort { .. } => {
                self.aborted = true;
                false
            }
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
        if let Some(until) = self.patience {
            tokio::select! {
                biased;
                mail = self.mail() => return mail,
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
        self.mail().await
    }

    /// `None` ends the runner: its engine has lost a commit, and
    /// the write belongs to whoever takes it up from the tables. A read has
    /// nothing to lose and is passed on to its end.
    async fn mail(&mut self) -> Option<Mail> {
        let is_write = self.job.class.is_write();
        loop {
            let waits = !self.callers.is_empty() && !self.withdrawn;
            tokio::select! {
                // What the engine said before it ended is heard first.
                biased;
                mail = self.mailbox.next() => return mail,
                () = self.cell.closed(), if is_write => return None,
                () = self.driver.stop_over(), if waits => {}
            }
            self.answer_at_stop();
        }
    }

    /// The governor ends with this action open. What was sent goes on, or is settled at
    /// the next start; what was not is withdrawn, and its end is told when it is recorded.
    fn answer_at_stop(&mut self) {
        let row = |view: ActionView| (view.row.state, view.row.attempts);
        let seen = self.driver.look(&self.cell, |engine, now| {
            engine.action(now, self.id()).map(row)
        });
        let Some((state, 1..)) = seen else {
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

    /// Mail while something is on the wire; `true` if it must be stopped.
    pub(super) fn meanwhile(&mut self, mail: Option<Mail>) -> bool {
        match mail {
            Some(Mail::Joiner(caller)) => {
                self.take_joiner(caller);
                false
            }
            Some(Mail::Output(Output::Abort { .. })) | None => true,
            Some(Mail::Output(Output::Finish {
                state,
                code,
                why,
                operation_id,
                escalation,
                retry_at,
                ..
            })) => {
                self.finish(state, code, &why, operation_id, escalation, retry_at);
                false
            }
            Some(Mail::Output(_)) => false,
        }
    }
}
