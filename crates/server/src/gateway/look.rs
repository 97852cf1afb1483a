//! Asking the provider what became of a write.

use bytes::Bytes;
use http_body_util::BodyExt;
use rategov_core::engine::{LookupReport, TaskAllowance};
use rategov_core::event::Found;
use rategov_core::observe::{Facts, Meaning};

use super::outgoing::Outgoing;
use super::purpose::Purpose;
use super::reading::{self, Tongue};
use super::run::Runner;
use super::upstream::Sent;
use crate::fail;
use crate::route::lookup::Known;

/// Largest answer to a look-up that is read.
const LOOKUP_BYTES_MAX: usize = 4 << 20;

impl Runner {
    /// Makes look-up number `lookup` and reports what it found.
    pub(super) async fn look_up(&mut self, lookup: u16) {
        let action = self.id();
        let report = |found, facts, operation_id, sent| LookupReport {
            action,
            lookup,
            found,
            facts,
            operation_id,
            sent,
            task: TaskAllowance::UNLIMITED,
        };
        let Some(request) = self.lookup_request() else {
            // The values that it needs are not known: it can't be asked, and the
            // engine will put it to a person when its look-ups are used up.
            let report = report(Found::NoAnswer, None, None, false);
            self.driver
                .looked_up(&self.cell, &self.job.task, report, None);
            return;
        };
        fail::point(fail::LOOKUP_BEFORE_SEND);
        let upstream = std::sync::Arc::clone(&self.job.upstream);
        let (driver, cell, id) = (
            self.driver.clone(),
            std::sync::Arc::clone(&self.cell),
            self.id(),
        );
        let sent = upstream
            .send(
                &self.job.destination,
                Purpose::Read,
                request,
                move || driver.lookup_sent(&cell, id),
                &self.job.timeouts,
            )
            .await;
        let report = match sent {
            Sent::NotSent { .. } => report(Found::NoAnswer, None, None, false),
            Sent::Lost { .. } => report(Found::NoAnswer, None, None, true),
            Sent::Head(answer) => {
                let (found, facts, operation_id, body) = self.understand(*answer).await;
                if found == Found::Done {
                    self.found = body;
                }
                report(found, Some(facts), operation_id, true)
            }
        };
        fail::point(fail::LOOKUP_ANSWER_BEFORE_REPORT);
        // Nobody may be waiting any more: whoever asks later gets what was found.
        let result = self.found.clone().map(|body| {
            let mut head = http::Response::new(()).into_parts().0;
            let json = http::HeaderValue::from_static("application/json");
            head.headers.insert(http::header::CONTENT_TYPE, json);
            self.job.result(self.id(), &head, body)
        });
        self.driver
            .looked_up(&self.cell, &self.job.task, report, result);
    }

    fn lookup_request(&self) -> Option<http::Request<Outgoing>> {
        let plan = self.job.rule.reconcile.as_ref()?;
        let known = Known {
            idempotency_key: self.job.key.as_deref(),
            operation_id: self.job.known_operation.as_deref(),
            external_ref: self.job.external_ref.as_deref(),
            parameters: &self.job.parameters,
        };
        let target = plan.target(&known).ok()?;
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target.as_str(), None),
        };
        let target = self.job.destination.join(path, query).ok()?;
        // A look-up carries the credential and what identifies the caller's
        // version of the API, and nothing that describes the write's body.
        let mut request = http::Request::new(Outgoing::empty());
        *request.uri_mut() = target.into();
        for (name, value) in &self.job.head.headers {
            let about_the_body = name.as_str().starts_with("content-")
                || name == http::header::TRANSFER_ENCODING
                || name == http::header::EXPECT
                || name == http::header::ACCEPT_ENCODING
                || Some(name) == self.job.rule.idempotency_header.as_ref();
            if !about_the_body {
                request.headers_mut().append(name.clone(), value.clone());
            }
        }
        Some(request)
    }

    /// What the answer to a look-up says.
    async fn understand(
        &self,
        mut answer: super::answer::Answer,
    ) -> (Found, Facts, Option<String>, Option<Bytes>) {
        let hidden: Vec<&str> = self.job.hidden.iter().map(String::as_str).collect();
        let tongue = Tongue {
            dialect: &self.job.settings.dialect,
            rules: &self.job.settings.errors,
            hidden: &hidden,
            arrived: self.driver.clock().wall(),
        };
        let read = reading::read(&answer.head, &mut answer.body, Purpose::Read, tongue).await;
        let status = answer.head.status.as_u16();
        let mut body = Vec::from(read.peeked.whole());
        while let Some(Ok(frame)) = answer.body.frame().await {
            if let Ok(data) = frame.into_data() {
                body.extend_from_slice(&data);
            }
            if LOOKUP_BYTES_MAX < body.len() {
                return (Found::NoAnswer, read.facts, None, None);
            }
        }
        let complete = answer
            .body
            .end()
            .is_some_and(|end| matches!(end, super::evidence::BodyEnd::Complete));
        let found_path = self.job.rule.reconcile.as_ref().map(|plan| &plan.found);
        match (
            status,
            serde_json::from_slice::<serde_json::Value>(&body),
            found_path,
        ) {
            (200..=299, Ok(value), Some(path)) if complete && read.facts.meaning == Meaning::Ok => {
                match path.find_id(&value) {
                    Some(operation) => {
                        let result = path.object_of(&value).unwrap_or(&value);
                        let bytes = Bytes::from(result.to_string());
                        (Found::Done, read.facts, Some(operation), Some(bytes))
                    }
                    None if path.shows_absence(&value) => (Found::Nothing, read.facts, None, None),
                    None => (Found::NoAnswer, read.facts, None, None),
                }
            }
            // "There is none" by status; anything else is no answer.
            (404 | 410, _, _) => (Found::Nothing, read.facts, None, None),
            _ => (Found::NoAnswer, read.facts, None, None),
        }
    }
}
