//! What an action's callers get, and how a body streams on to one of them.

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use rategov_core::action::next_step::{NextStep, after_answer};
use rategov_core::action::problem::Code;
use rategov_core::engine::BodyEnd;
use rategov_core::estimate::Seen;
use rategov_core::id::EscalationId;
use rategov_core::observe::Meaning;
use rategov_core::time::Moment;
use rategov_core::word::{Outcome, State};
use tokio::sync::mpsc;

use super::answer::Answer;
use super::evidence;
use super::meter::Tap;
use super::problem::Problem;
use super::reading::Tongue;
use super::refusals::STOPPED_SECONDS;
use super::reply::{Broken, Context, Reply, ReplyBody};
use super::run::{Held, Runner};
use super::stream::Watch;
use super::understand;
use crate::fail;

/// Frames on their way to a caller; a slow one slows its provider down.
const FRAMES_IN_FLIGHT: usize = 8;

/// The way of a body to its caller.
type Frames = mpsc::Sender<Result<http_body::Frame<Bytes>, Broken>>;

impl Runner {
    /// The answer of an attempt is the action's answer.
    pub(super) async fn deliver(&mut self, attempt: u16, state: State) -> bool {
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
                let mut context = self.context(Some(state));
                if state == State::FailedDefinite {
                    context.reason = Some(held.meaning.word());
                    context.next =
                        Some(after_answer(held.meaning, Outcome::Failed, self.job.class).word());
                }
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
    async fn stream(&mut self, mut held: Held, answer: Answer) {
        let attempt = held.attempt;
        let mut tap = held.tap.take();
        let end = self.pump(held, answer, None, tap.as_deref_mut()).await;
        let seen = match end {
            BodyEnd::Complete => Seen::Whole,
            BodyEnd::Cut | BodyEnd::CallerGone | BodyEnd::ErrorEvent => Seen::Part,
        };
        self.used(attempt, tap.as_deref(), seen);
        self.driver.body_ended(&self.cell, self.id(), attempt, end);
    }

    async fn stream_after_end(&mut self, held: Held, answer: Answer, state: State) {
        self.pump(held, answer, Some(state), None).await;
    }

    async fn pump(
        &mut self,
        held: Held,
        mut answer: Answer,
        state: Option<State>,
        mut tap: Option<&mut Tap>,
    ) -> BodyEnd {
        let context = self.context(state);
        let (frames, body) = mpsc::channel(FRAMES_IN_FLIGHT);
        let Held {
            head,
            peeked,
            attempt,
            ..
        } = held;
        let mut watch = Watch::new(&head.headers);
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
            self.hear_late(attempt, &mut watch);
            if self.pass_on(&frames, Ok(frame)).await.is_err() {
                return BodyEnd::CallerGone;
            }
        }
        loop {
            let next = tokio::select! {
                biased;
                () = self.driver.stop_over() => {
                    self.say_broken(&frames, &watch).await;
                    return BodyEnd::Cut;
                }
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
                    self.hear_late(attempt, &mut watch);
                    if let (Some(tap), Some(piece)) = (tap.as_deref_mut(), frame.data_ref()) {
                        tap.see(piece);
                    }
                    if self.pass_on(&frames, Ok(frame)).await.is_err() {
                        return gone(&answer);
                    }
                }
                Some(Err(_)) => {
                    self.say_broken(&frames, &watch).await;
                    return BodyEnd::Cut;
                }
                None if watch.saw_error() => return BodyEnd::ErrorEvent,
                None => return BodyEnd::Complete,
            }
        }
    }

    /// A refusal that a stream carries after its beginning holds its scope before the
    /// caller has it, who would come back at once.
    fn hear_late(&self, attempt: u16, watch: &mut Watch) {
        let Some(said) = watch.take_said() else {
            return;
        };
        let hidden = self.job.hidden();
        let hidden: Vec<&str> = hidden.iter().map(String::as_str).collect();
        let tongue = Tongue {
            dialect: &self.job.settings.dialect,
            rules: &self.job.settings.errors,
            hidden: &hidden,
            arrived: self.driver.clock().wall(),
        };
        let Some(facts) = understand::late(&said, tongue) else {
            return;
        };
        let meaning = facts.meaning;
        if meaning.is_limit() || matches!(meaning, Meaning::Billing | Meaning::Overloaded) {
            self.driver
                .late_refusal(&self.cell, self.id(), attempt, &facts);
        }
    }

    /// The last of a body that breaks off: said in its own words if it has any, and by
    /// a framing that never ends.
    async fn say_broken(&self, frames: &Frames, watch: &Watch) {
        if let Some(event) = watch.broken_event(self.id()) {
            let _ = self
                .pass_on(frames, Ok(http_body::Frame::data(event)))
                .await;
        }
        let _ = self.pass_on(frames, Err(Broken)).await;
    }

    /// Hands a frame to the caller; one that reads nothing for too long counts as gone.
    async fn pass_on(
        &self,
        frames: &Frames,
        frame: Result<http_body::Frame<Bytes>, Broken>,
    ) -> Result<(), ()> {
        let sent = tokio::time::timeout(self.job.client_stall, frames.send(frame)).await;
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(()),
        }
    }

    /// The governor's own last word.
    pub(super) fn finish(
        &mut self,
        state: State,
        code: Code,
        why: &str,
        operation_id: Option<String>,
        escalation: Option<EscalationId>,
        retry_at: Option<Moment>,
    ) {
        self.with_person = state == State::Escalated;
        if self.with_person {
            self.job.shelve();
        }
        if let Some(held) = self.received_all_the_same(state, code) {
            let context = self.context(Some(state));
            self.answer_all(&held.head, &held.peeked.whole(), &context);
            return;
        }
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
        let (code, why, seconds) = match code {
            // Nobody cancelled it: it may be sent again to the next governor.
            Code::Cancelled if self.withdrawn => (Code::ShuttingDown, "", Some(STOPPED_SECONDS)),
            code => (code, why, seconds),
        };
        let problem = Problem::of_action(code)
            .because(why)
            .retry_after(seconds)
            .with("sent", self.was_sent)
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

    /// The last attempt's answer where it counts as broken off only because the
    /// connection's end was its body's end: its bytes are the caller's.
    fn received_all_the_same(&mut self, state: State, code: Code) -> Option<Held> {
        let is_about_it = state == State::Succeeded || code == Code::UpstreamLost;
        self.last.take_if(|held| {
            is_about_it
                && held.attempt == self.attempts
                && held.ends_with_connection()
                && held.head.status.as_u16() < 400
        })
    }

    pub(super) fn answer_pending(&mut self) {
        self.job.respond_async = false;
        self.answer_problem(Problem::of_action(Code::Pending), None);
    }

    pub(super) fn answer_problem(&mut self, problem: Problem, terminal: Option<&'static str>) {
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
            next: (state == Some(State::Succeeded)).then(|| NextStep::UseResult.word()),
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
