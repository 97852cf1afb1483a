//! One attempt of an action: dial, send, read as far as needed, report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rategov_core::action::breaker::Path;
use rategov_core::action::failure::Failure;
use rategov_core::action::outcome::{AfterUnknown, Body, Evidence, NotSent};
use rategov_core::engine::{Grant, Leave, Report, TaskAllowance};
use rategov_core::estimate::Seen;
use rategov_core::observe::{Facts, Meaning};
use rategov_core::word::Class;
use rategov_store::Attachment;

use super::answer::Answer;
use super::evidence::{self, BodyEnd, Verdict};
use super::outgoing::Outgoing;
use super::purpose::Purpose;
use super::reading::{self, Tongue};
use super::run::{Held, OnTheWire, Runner};
use super::upstream::{Sent, Stopper};
use crate::fail;

/// What a send ended with.
enum Ended {
    Sent(Sent),
    Aborted(Verdict),
}

impl Runner {
    pub(super) async fn attempt(&mut self, grant: Grant) {
        self.attempts = grant.attempt;
        let _out = self.job.class.is_write().then(|| self.driver.write_out());
        self.job.take_from_shelf(self.id()).await;
        fail::point(fail::GRANT_BEFORE_DIAL);
        let withdrawn = Evidence::NotSent(NotSent::Withdrawn);
        // A refusal that came since the grant would only be repeated, and nobody
        // waits for what was stopped while its grant was on its way.
        if self
            .driver
            .is_overtaken(&self.cell, &self.job.task, self.id())
        {
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
    async fn send(&mut self, request: http::Request<Outgoing>) -> Ended {
        let upstream = Arc::clone(&self.job.upstream);
        let (destination, timeouts) = (self.job.destination.clone(), self.job.timeouts);
        let purpose = self.job.purpose;
        let line = {
            let mut connecting = std::pin::pin!(upstream.connect(&destination, purpose, &timeouts));
            loop {
                tokio::select! {
                    line = &mut connecting => break line,
                    mail = self.next_mail(OnTheWire::Yes) => {
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
        if self
            .driver
            .is_overtaken(&self.cell, &self.job.task, self.id())
        {
            let verdict = Verdict::NotSent(NotSent::Withdrawn, evidence::Detail::Overtaken);
            return Ended::Sent(Sent::of(verdict, 0, Some(Box::new(request))));
        }
        fail::point(fail::DIALLED_BEFORE_FIRST_BYTE);
        let stopper = line.stopper();
        let called_back = Arc::new(AtomicBool::new(false));
        let last_question = self.last_question(stopper.clone(), Arc::clone(&called_back));
        let mut sending = std::pin::pin!(line.send(request, last_question, &timeouts));
        loop {
            tokio::select! {
                sent = &mut sending => return match sent {
                    Sent::NotSent { request, .. } if called_back.load(Ordering::Acquire) => {
                        let verdict =
                            Verdict::NotSent(NotSent::Withdrawn, evidence::Detail::Withdrawn);
                        Ended::Sent(Sent::of(verdict, 0, request))
                    }
                    sent => Ended::Sent(sent),
                },
                mail = self.next_mail(OnTheWire::Yes) => {
                    if self.meanwhile(mail) {
                        return Ended::Aborted(stopper.stop());
                    }
                }
            }
        }
    }

    /// What is asked just before the first byte: whether it may leave. If not, the
    /// wire is stopped before anything is written.
    fn last_question(
        &self,
        stopper: Stopper,
        called_back: Arc<AtomicBool>,
    ) -> impl FnOnce() + Send + 'static {
        let (driver, cell, id) = (self.driver.clone(), Arc::clone(&self.cell), self.id());
        let task = self.job.task.clone();
        move || {
            if driver.may_leave(&cell, &task, id) == Leave::CalledBack {
                called_back.store(true, Ordering::Release);
                stopper.stop();
            }
        }
    }

    /// Reads an answer as far as needed, and reports it.
    async fn judge(&mut self, attempt: u16, mut answer: Answer) {
        fail::point(fail::HEAD_RECEIVED_BEFORE_REPORT);
        let arrived = self.driver.clock().wall();
        let hidden = self.job.hidden();
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
                    mail = self.next_mail(OnTheWire::Yes) => {
                        if self.meanwhile(mail) {
                            break None;
                        }
                    }
                }
            }
        };
        let Some(mut read) = read else {
            // Stopped inside the answer: its head came, its body did not.
            let facts = Facts::bare(answer.head.status.as_u16(), Meaning::Ok);
            let evidence = evidence::answered(facts, Body::Cut, answer.upload);
            return self.report(attempt, evidence, 1, None);
        };
        if self.job.purpose == Purpose::Write && read.body == Body::Open {
            // An answer to a write that is too large to be kept: its status is
            // known and recorded, and its bytes pass through once.
            tracing::debug!(action = %self.id(), "the answer to a write is too large to be stored");
        }
        let whole = read.peeked.whole();
        let meaning = read.facts.meaning;
        read.facts.operation_id = self.job.operation_id(&whole);
        self.note_path(&read.facts, read.body, answer.upload);
        let head = super::headers::for_caller(answer.head.clone());
        let is_whole = read.body == Body::Complete || read.end == Some(BodyEnd::CloseDelimited);
        let cost = read.facts.asides().figures.cost;
        let tap = self.tap(&answer.head.headers, &read.peeked, cost);
        let seen = if is_whole { Seen::Whole } else { Seen::Part };
        match (read.body, meaning) {
            (Body::Open, Meaning::Ok) => {}
            (_, Meaning::Ok) => self.used(attempt, tap.as_deref(), seen),
            (_, _) => self.used_in_error(attempt, tap.as_deref(), seen),
        }
        let result = (self.job.purpose == Purpose::Write && is_whole)
            .then(|| self.job.result(self.id(), &head, whole));
        let evidence = evidence::answered(read.facts, read.body, answer.upload);
        let held = Held {
            attempt,
            meaning,
            head,
            peeked: read.peeked,
            end: read.end,
            tap,
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
    fn note_path(&self, facts: &Facts, body: Body, upload: evidence::Upload) {
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
            let tripped = self
                .driver
                .note_path(&self.job.task, &path, failure.as_ref());
            if let Some(tripped) = tripped
                && self.job.purpose == Purpose::Write
            {
                let why = tripped.to_string();
                self.driver
                    .path_stopped(&self.cell, &self.job.task, &path.endpoint, &why);
            }
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
        self.was_sent |= !matches!(evidence, Evidence::NotSent(_));
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
}
