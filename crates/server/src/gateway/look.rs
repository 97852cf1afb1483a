//! Asking the provider what became of a write.

use bytes::Bytes;
use http_body_util::BodyExt;
use rategov_core::engine::{LookupReport, TaskAllowance};
use rategov_core::event::Found;
use rategov_core::observe::{Facts, Meaning};

use super::job::Credentials;
use super::outgoing::Outgoing;
use super::purpose::Purpose;
use super::reading::{self, Tongue};
use super::run::Runner;
use super::upstream::Sent;
use crate::fail;
use crate::route::json_path::JsonPath;
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
            // The values or the credential that it needs are not known: it can't be
            // asked, and the engine will put it to a person when its look-ups are
            // used up.
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
        if self.job.credentials == Credentials::Missing {
            // What a provider tells a stranger is no answer about this write.
            return None;
        }
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
        let hidden = self.job.hidden();
        let hidden: Vec<&str> = hidden.iter().map(String::as_str).collect();
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
        let complete = matches!(answer.body.end(), Some(super::evidence::BodyEnd::Complete));
        let heard = Heard {
            status,
            meaning: read.facts.meaning,
            body: complete.then_some(&body[..]),
        };
        let found = self.job.rule.reconcile.as_ref().map(|plan| &plan.found);
        match found.map_or(Said::Unclear, |path| heard.says(path)) {
            Said::Done(operation, result) => (
                Found::Done,
                read.facts,
                Some(operation),
                Some(Bytes::from(result)),
            ),
            Said::Nothing => (Found::Nothing, read.facts, None, None),
            Said::Unclear => (Found::NoAnswer, read.facts, None, None),
        }
    }
}

/// An answer to a look-up.
struct Heard<'b> {
    status: u16,
    meaning: Meaning,
    /// `None` if it did not come whole.
    body: Option<&'b [u8]>,
}

/// What it says of the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    /// Its identifier, and the provider's record of it.
    Done(String, String),
    /// That there is none.
    Nothing,
    /// Nothing that could be relied on.
    Unclear,
}

impl Heard<'_> {
    /// | answer, come whole | `$.items[0].id` | `$.id` |
    /// | --- | --- | --- |
    /// | 2xx that shows an identifier | done | done |
    /// | 2xx with a list that is too short | nothing | |
    /// | 404, 410 | unclear: the list itself is not there | nothing |
    /// | anything else | unclear | unclear |
    ///
    /// Providers answer 404 to whom they don't let in as well. So it counts only
    /// where it is the way to say that this one thing is not there, and only if
    /// the provider's error rules see no more in it.
    fn says(&self, path: &JsonPath) -> Said {
        let Some(body) = self.body else {
            return Said::Unclear;
        };
        match (self.status, self.meaning) {
            (200..=299, Meaning::Ok) => {
                let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else {
                    return Said::Unclear;
                };
                match path.find_id(&value) {
                    Some(operation) => {
                        let record = path.object_of(&value).unwrap_or(&value);
                        Said::Done(operation, record.to_string())
                    }
                    None if path.shows_absence(&value) => Said::Nothing,
                    None => Said::Unclear,
                }
            }
            (404 | 410, Meaning::CallerError) if !path.is_in_a_list() => Said::Nothing,
            _ => Said::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_A_LIST: &str = "$.items[0].id";
    const ALONE: &str = "$.id";

    fn check(path: &str, answer: (u16, Meaning, Option<&str>), said: Said) {
        let (status, meaning, body) = answer;
        let heard = Heard {
            status,
            meaning,
            body: body.map(str::as_bytes),
        };
        let path = JsonPath::parse(path).unwrap();
        assert_eq!(heard.says(&path), said, "{path}: {answer:?}");
    }

    #[test]
    fn a_404_says_absent_only_where_one_thing_was_asked_for() {
        for status in [404, 410] {
            let answer = (status, Meaning::CallerError, Some("{}"));
            check(ALONE, answer, Said::Nothing);
            check(IN_A_LIST, answer, Said::Unclear);
        }
    }

    #[test]
    fn a_404_that_may_mean_something_else_says_nothing() {
        check(ALONE, (404, Meaning::CallerError, None), Said::Unclear);
        check(ALONE, (404, Meaning::Credential, Some("{}")), Said::Unclear);
        check(
            ALONE,
            (403, Meaning::CallerError, Some("{}")),
            Said::Unclear,
        );
    }

    #[test]
    fn only_a_whole_success_shows_an_operation_or_an_empty_list() {
        let done = Said::Done("r1".to_owned(), r#"{"id":"r1"}"#.to_owned());
        let shown = r#"{"items":[{"id":"r1"}]}"#;
        check(IN_A_LIST, (200, Meaning::Ok, Some(shown)), done);
        let none = r#"{"items":[]}"#;
        check(IN_A_LIST, (200, Meaning::Ok, Some(none)), Said::Nothing);
        check(IN_A_LIST, (200, Meaning::Ok, None), Said::Unclear);
        check(
            IN_A_LIST,
            (200, Meaning::Overloaded, Some(none)),
            Said::Unclear,
        );
        check(
            IN_A_LIST,
            (500, Meaning::ProviderError, Some(none)),
            Said::Unclear,
        );
    }
}
