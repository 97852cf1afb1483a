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
use http::HeaderMap;
use http_body_util::BodyExt;
use rategov_core::action::breaker::Path;
use rategov_core::action::failure::Failure;
use rategov_core::action::outcome::{AfterUnknown, Body, Evidence, NotSent};
use rategov_core::action::problem::Code;
use rategov_core::engine::{BodyEnd, Grant, Output, Report, TaskAllowance};
use rategov_core::id::{ActionId, EscalationId};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Class, State};
use rategov_store::Attachment;
use tokio::sync::{mpsc, oneshot};

use super::answer::Answer;
use super::evidence::{self, Verdict};
use super::job::Job;
use super::pool;
use super::problem::Problem;
use super::reading::{self, Peeked, Purpose, Tongue};
use super::reply::{Broken, Context, Reply, ReplyBody};
use super::upstream::Sent;
use crate::driver::{Cell, Driver, Mail, Mailbox};
use crate::fail;

/// Frames on their way to a caller; a slow one slows its provider down.
const FRAMES_IN_FLIGHT: usize = 8;
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
    last: Option<Held>,
    /// An answer whose body streams on.
    streaming: Option<(Held, Answer)>,
    /// What a look-up found: the result of a write whose answer was lost.
    pub(super) found: Option<Bytes>,
    attempts: u16,
    waited: Span,
    wait_from: Moment,
    reason: Option<&'static str>,
}

/// The head of an answer and what was read of its body.
struct Held {
    attempt: u16,
    head: http::response::Parts,
    peeked: Peeked,
}

/// What a send ended with.
enum Ended {
    Sent(Sent),
    Aborted(Verdict),
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
        }
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
        while let Some(mail) = self.mailbox.next().await {
            if self.take_in(mail).await {
                return;
            }
        }
    }

    /// Follows one instruction; `true` if the action has ended.
    async fn follow(&mut self, output: Output) -> bool {
        match output {
            Output::Parked(parked) => {
                self.reason = Some(parked.reason.word());
                if self.job.respond_async {
                    self.answer_pending();
                }
                false
            }
            Output::Grant(grant) => {
                self.stop_waiting();
                self.attempt(grant).await;
                false
            }
            Output::Lookup(grant) => {
                self.stop_waiting();
                self.look_up(grant.lookup).await;
                self.wait_from = self.driver.clock().now();
                false
            }
            Output::Continue { .. } => {
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
            // An abort after the wire is closed has nothing left to stop.
            Output::Abort { .. } => false,
            Output::Join { .. }
            | Output::Record(_)
            | Output::ChargeTask { .. }
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

    fn seconds_until(&self, at: Moment) -> u64 {
        at.since(self.driver.clock().now()).as_secs_ceil()
    }

    fn take_joiner(&mut self, caller: Caller) {
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

    // ---- one attempt ---------------------------------------------------------

    async fn attempt(&mut self, grant: Grant) {
        self.attempts = grant.attempt;
        fail::point(fail::GRANT_BEFORE_DIAL);
        let withdrawn = Evidence::NotSent(NotSent::Withdrawn);
        if !self.driver.may_send(&self.job.task) {
            return self.report(grant.attempt, withdrawn, 0, None);
        }
        let Some(request) = self.job.request() else {
            // The body streamed away with the first attempt: nothing is left to send.
            return self.report(grant.attempt, withdrawn, 0, None);
        };
        match self.send(request).await {
            Ended::Aborted(verdict) => {
                let written = u64::from(matches!(verdict, Verdict::Lost(..)));
                self.report(grant.attempt, verdict.evidence(), written, None);
            }
            Ended::Sent(Sent::Head(answer)) => self.judge(grant.attempt, *answer).await,
            Ended::Sent(Sent::NotSent {
                why,
                detail,
                request,
            }) => {
                self.job.give_back(request);
                self.log_failure(detail.word(), 0);
                self.report(grant.attempt, Evidence::NotSent(why), 0, None);
            }
            Ended::Sent(Sent::Lost {
                why,
                detail,
                bytes_written,
            }) => {
                self.log_failure(detail.word(), bytes_written);
                self.report(grant.attempt, Evidence::Lost(why), bytes_written, None);
            }
        }
    }

    fn log_failure(&self, detail: &str, bytes_written: u64) {
        tracing::info!(
            action = %self.id(),
            provider = %self.job.provider,
            endpoint = %self.job.endpoint,
            detail,
            bytes_written,
            "an attempt got no answer"
        );
    }

    /// Dials and sends; mail that arrives meanwhile may stop it.
    async fn send(&mut self, request: http::Request<super::outgoing::Outgoing>) -> Ended {
        let upstream = Arc::clone(&self.job.upstream);
        let (destination, timeouts) = (self.job.destination.clone(), self.job.timeouts);
        let purpose = match self.job.purpose {
            Purpose::Write => pool::Purpose::Write,
            Purpose::Read => pool::Purpose::Read,
        };
        let line = {
            let mut connecting = std::pin::pin!(upstream.connect(&destination, purpose, &timeouts));
            loop {
                tokio::select! {
                    line = &mut connecting => break line,
                    mail = self.mailbox.next() => {
                        if self.meanwhile(mail) {
                            return Ended::Aborted(Verdict::NotSent(
                                NotSent::Withdrawn,
                                evidence::Detail::CallerGone,
                            ));
                        }
                    }
                }
            }
        };
        let line = match line {
            Ok(line) => line,
            Err(verdict) => return Ended::Sent(Sent::of(verdict, 0, Some(Box::new(request)))),
        };
        fail::point(fail::DIALLED_BEFORE_FIRST_BYTE);
        let stopper = line.stopper();
        let (driver, cell, id) = (self.driver.clone(), Arc::clone(&self.cell), self.id());
        let mut sending =
            std::pin::pin!(line.send(request, move || driver.sent(&cell, id), &timeouts));
        loop {
            tokio::select! {
                sent = &mut sending => return Ended::Sent(sent),
                mail = self.mailbox.next() => {
                    if self.meanwhile(mail) {
                        return Ended::Aborted(stopper.stop());
                    }
                }
            }
        }
    }

    /// Mail while something is on the wire; `true` if it must be stopped.
    fn meanwhile(&mut self, mail: Option<Mail>) -> bool {
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

    /// Reads an answer as far as needed, and reports it.
    async fn judge(&mut self, attempt: u16, mut answer: Answer) {
        fail::point(fail::HEAD_RECEIVED_BEFORE_REPORT);
        let arrived = self.driver.clock().wall();
        let hidden = self.job.hidden.clone();
        let hidden: Vec<&str> = hidden.iter().map(String::as_str).collect();
        let settings = Arc::clone(&self.job.settings);
        let purpose = self.job.purpose;
        let read = {
            let tongue = Tongue {
                dialect: &settings.dialect,
                rules: &settings.errors,
                hidden: &hidden,
                arrived,
            };
            let mut reading = std::pin::pin!(reading::read(
                &answer.head,
                &mut answer.body,
                purpose,
                tongue
            ));
            loop {
                tokio::select! {
                    read = &mut reading => break Some(read),
                    mail = self.mailbox.next() => {
                        if self.meanwhile(mail) {
                            break None;
                        }
                    }
                }
            }
        };
        let Some(mut read) = read else {
            // Stopped inside the answer: its head came, its body did not.
            let facts = rategov_core::observe::Facts::bare(
                answer.head.status.as_u16(),
                rategov_core::observe::Meaning::Ok,
            );
            let evidence = evidence::answered(facts, Body::Cut, answer.upload);
            return self.report(attempt, evidence, 1, None);
        };
        if self.job.purpose == Purpose::Write && read.body == Body::Open {
            // An answer to a write that is too large to be kept: its status is
            // known and recorded, and its bytes pass through once.
            tracing::debug!(action = %self.id(), "the answer to a write is too large to be stored");
        }
        let whole = read.peeked.whole();
        read.facts.operation_id = self.job.operation_id(&whole);
        self.note_path(&read.facts, read.body, answer.upload);
        let head = super::headers::for_caller(answer.head.clone());
        let result = (self.job.purpose == Purpose::Write && read.body == Body::Complete)
            .then(|| self.job.result(self.id(), &head, whole));
        let evidence = evidence::answered(read.facts, read.body, answer.upload);
        let held = Held {
            attempt,
            head,
            peeked: read.peeked,
        };
        fail::point(fail::ANSWER_READ_BEFORE_REPORT);
        if read.body == Body::Open {
            self.streaming = Some((held, answer));
        } else {
            self.last = Some(held);
        }
        self.report(attempt, evidence, 1, result);
    }

    /// Tells the breaker of the task how the path did.
    fn note_path(
        &self,
        facts: &rategov_core::observe::Facts,
        body: Body,
        upload: evidence::Upload,
    ) {
        let path = Path {
            account: self.cell.account.clone(),
            endpoint: self.job.endpoint.clone(),
        };
        let seen = evidence::answered(facts.clone(), body, upload);
        let profile = &self.job.rule.profile;
        let failure = Failure::of(&seen, self.job.class, profile, AfterUnknown::No);
        // That something is not there is an answer to a read, not a failure of it: an
        // agent that looks for ten records and finds seven has done nothing wrong.
        let absent = self.job.class == Class::Read && matches!(facts.status, 404 | 410);
        if !absent && (failure.is_some() || facts.status < 400) {
            self.driver
                .note_path(&self.job.task, &path, failure.as_ref());
        }
    }

    fn report(
        &mut self,
        attempt: u16,
        evidence: Evidence,
        bytes_written: u64,
        result: Option<Attachment>,
    ) {
        self.wait_from = self.driver.clock().now();
        let report = Report {
            action: self.id(),
            attempt,
            evidence,
            bytes_written,
            task: TaskAllowance::UNLIMITED,
        };
        self.driver
            .report(&self.cell, &self.job.task, report, result);
    }

    // ---- answers -------------------------------------------------------------

    /// The answer of an attempt is the action's answer.
    async fn deliver(&mut self, attempt: u16, state: State) -> bool {
        if state == State::Dispatching {
            let Some((held, answer)) = self.streaming.take() else {
                return false;
            };
            self.stream(held, answer).await;
            return true;
        }
        if let Some((held, answer)) = self.streaming.take() {
            // Judged to be final although its body has not ended: pass it on.
            self.stream_after_end(held, answer, state).await;
            return true;
        }
        match self.last.take() {
            Some(held) if held.attempt == attempt => {
                let context = self.context(Some(state));
                let body = held.peeked.whole();
                self.answer_all(&held.head, &body, &context);
            }
            _ => {
                // The answer stands, but this process never saw it: say what is known.
                let problem = Problem::of_action(Code::ResultLost);
                self.answer_problem(problem, Some(state.word()));
            }
        }
        true
    }

    /// Passes a body on as it arrives, and says how it ended.
    async fn stream(&mut self, held: Held, answer: Answer) {
        let attempt = held.attempt;
        let end = self.pump(held, answer, None).await;
        self.driver.body_ended(&self.cell, self.id(), attempt, end);
    }

    async fn stream_after_end(&mut self, held: Held, answer: Answer, state: State) {
        self.pump(held, answer, Some(state)).await;
    }

    async fn pump(&mut self, held: Held, mut answer: Answer, state: Option<State>) -> BodyEnd {
        let context = self.context(state);
        let (frames, body) = mpsc::channel(FRAMES_IN_FLIGHT);
        let Held { head, peeked, .. } = held;
        let mut watch = super::stream::Watch::new(&head.headers);
        let reply = Reply::Upstream {
            status: head.status,
            headers: head.headers,
            extensions: head.extensions,
            body: ReplyBody::Streaming(body),
            context,
        };
        if self.callers.is_empty() || self.callers.remove(0).send(reply).is_err() {
            return BodyEnd::CallerGone;
        }
        for frame in peeked.into_frames() {
            watch.see(&frame);
            if self.pass_on(&frames, Ok(frame)).await.is_err() {
                return BodyEnd::CallerGone;
            }
        }
        loop {
            let next = tokio::select! {
                biased;
                next = answer.body.frame() => next,
                () = frames.closed() => return gone(&answer),
                mail = self.mailbox.next() => {
                    if self.meanwhile(mail) {
                        return BodyEnd::CallerGone;
                    }
                    continue;
                }
            };
            match next {
                Some(Ok(frame)) => {
                    watch.see(&frame);
                    if self.pass_on(&frames, Ok(frame)).await.is_err() {
                        return gone(&answer);
                    }
                }
                Some(Err(_)) => {
                    if let Some(event) = watch.broken_event(self.id()) {
                        let _ = self
                            .pass_on(&frames, Ok(http_body::Frame::data(event)))
                            .await;
                    }
                    let _ = self.pass_on(&frames, Err(Broken)).await;
                    return BodyEnd::Cut;
                }
                None if watch.saw_error() => return BodyEnd::ErrorEvent,
                None => return BodyEnd::Complete,
            }
        }
    }

    /// Hands a frame to the caller; one that reads nothing for too long counts as gone.
    async fn pass_on(
        &self,
        frames: &mpsc::Sender<Result<http_body::Frame<Bytes>, Broken>>,
        frame: Result<http_body::Frame<Bytes>, Broken>,
    ) -> Result<(), ()> {
        let sent = tokio::time::timeout(self.job.client_stall, frames.send(frame)).await;
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(()),
        }
    }

    /// The governor's own last word.
    fn finish(
        &mut self,
        state: State,
        code: Code,
        why: &str,
        operation_id: Option<String>,
        escalation: Option<EscalationId>,
        retry_at: Option<Moment>,
    ) {
        if state == State::Succeeded
            && let Some(found) = self.found.take()
        {
            // The answer was lost, but the provider's own record of it is here.
            let mut headers = HeaderMap::new();
            let json = http::HeaderValue::from_static("application/json");
            headers.insert(http::header::CONTENT_TYPE, json);
            let mut head = http::Response::new(()).into_parts().0;
            head.headers = headers;
            let mut context = self.context(Some(state));
            context.terminal = Some("reconciled");
            self.answer_all(&head, &found, &context);
            return;
        }
        let seconds = retry_at.map(|at| self.seconds_until(at));
        let problem = Problem::of_action(code)
            .because(why)
            .retry_after(seconds)
            .with("sent", self.attempts > 0)
            .with("state", state.word())
            .with("operation_id", operation_id)
            .with("escalation", escalation.map(|id| id.to_string()));
        let terminal = if state.is_final() {
            Some(code.word())
        } else {
            None
        };
        self.answer_problem(problem, terminal);
    }

    fn answer_pending(&mut self) {
        self.job.respond_async = false;
        self.answer_problem(Problem::of_action(Code::Pending), None);
    }

    fn answer_problem(&mut self, problem: Problem, terminal: Option<&'static str>) {
        let id = self.id();
        let problem = problem
            .with("action", id.to_string())
            .with("attempts", self.attempts)
            .with("waited_seconds", self.waited.as_secs_f64())
            .with("class", self.job.class.word())
            .with("endpoint", self.job.endpoint.as_str())
            .with("link", format!("/governor/v1/actions/{id}"));
        let mut context = self.context(None);
        context.terminal = terminal;
        fail::point(fail::COMMITTED_BEFORE_REPLY);
        for caller in self.callers.drain(..) {
            let (problem, context) = (problem.clone(), Some(context.clone()));
            let _ = caller.send(Reply::Governor { problem, context });
        }
    }

    fn answer_all(&mut self, head: &http::response::Parts, body: &Bytes, context: &Context) {
        fail::point(fail::COMMITTED_BEFORE_REPLY);
        for caller in self.callers.drain(..) {
            let _ = caller.send(Reply::Upstream {
                status: head.status,
                headers: head.headers.clone(),
                extensions: head.extensions.clone(),
                body: ReplyBody::Whole(body.clone()),
                context: context.clone(),
            });
        }
    }

    fn context(&self, state: Option<State>) -> Context {
        let failed = matches!(state, Some(State::FailedDefinite));
        Context {
            action: self.id(),
            attempts: self.attempts,
            waited: self.waited,
            reason: self.reason,
            terminal: state.filter(|state| state.is_final()).map(State::word),
            next: None,
            // What is final here is not mended by an SDK that sends it again.
            should_retry: failed.then_some(false),
        }
    }
}

/// Nobody reads on: either the caller left, or it has had all there is and its
/// connection did not wait to be told so.
fn gone(answer: &Answer) -> BodyEnd {
    match answer.body.end() {
        Some(evidence::BodyEnd::Complete) => BodyEnd::Complete,
        _ => BodyEnd::CallerGone,
    }
}
