//! The journal's compact text form: a line a record.
//!
//! ```text
//! 14:11:02 action_requested  task=sync-482 method=POST route=/records
//! 14:11:02 action_sent       attempt=1 idempotency=rec-91f2
//! 14:11:03 action_result     status=429 retry_after=30 scope=account:ops
//! 14:11:03 retry_scheduled   attempt=2 due=14:11:33 budget_wait=30
//! ```
//!
//! Names and texts that callers or providers chose are quoted where they hold
//! white space or control characters, which are escaped: nobody forges a line.

use std::fmt::Write as _;

use rategov_core::event::{CancelledBy, Decider, Event};
use rategov_core::time::{Moment, Span, WallTime};
use rategov_core::word::Cause;
use rategov_store::codec::Fact;

/// Width of the column of event words.
const WORD_WIDTH: usize = 17;

/// One record as one line. `key` is the idempotency key of its action, where the
/// reader knows it.
pub fn line_with_key(fact: &Fact, key: Option<&str>) -> String {
    let mut line = format!("{} {:<WORD_WIDTH$}", clock(fact.wall), fact.event.word());
    let mut text = Text {
        out: &mut line,
        fact,
    };
    text.event(key);
    line.truncate(line.trim_end().len());
    line
}

/// One record as one line.
pub fn line(fact: &Fact) -> String {
    line_with_key(fact, None)
}

struct Text<'t> {
    out: &'t mut String,
    fact: &'t Fact,
}

impl Text<'_> {
    fn pair(&mut self, name: &str, value: impl std::fmt::Display) {
        let value = value.to_string();
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == '"';
        let quoted = value.is_empty() || value.contains(is_odd);
        let _ = if quoted {
            write!(self.out, " {name}={value:?}")
        } else {
            write!(self.out, " {name}={value}")
        };
    }

    fn maybe(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.pair(name, value);
        }
    }

    fn due(&mut self, name: &str, at: Moment) {
        if at < Moment::NEVER {
            let wall = self.fact.wall + at.since(self.fact.at);
            self.pair(name, clock(wall));
        }
    }

    fn event(&mut self, key: Option<&str>) {
        match &self.fact.event {
            Event::ActionRequested(requested) => {
                self.maybe("task", requested.task.as_ref());
                self.pair("method", &requested.method);
                self.pair("route", &requested.path);
                self.pair("class", requested.class);
                self.pair("agent", &requested.agent);
                self.pair("priority", requested.priority);
                self.pair("account", &requested.account);
                self.maybe("idempotency", requested.key.as_ref());
                self.pair("by", &requested.authorised_by);
                self.maybe("parent", requested.parent);
                self.pair("action", requested.action);
            }
            Event::ActionSent { attempt, cause, .. } => {
                self.pair("attempt", attempt);
                self.maybe("idempotency", key);
                if *cause != Cause::First {
                    self.pair("cause", cause);
                }
            }
            Event::LookupSent { lookup, .. } => self.pair("lookup", lookup),
            Event::ActionResult {
                certainty,
                outcome,
                status,
                retry_after,
                scope,
                operation_id,
                error_code,
                bytes_written,
                ..
            } => {
                self.maybe("status", *status);
                self.maybe("retry_after", retry_after.map(seconds));
                self.maybe("scope", scope.as_ref());
                self.maybe("provider_id", operation_id.as_ref());
                self.maybe("error", error_code.as_ref());
                self.pair("outcome", outcome);
                if status.is_none() {
                    self.pair("certainty", certainty.word());
                    self.pair("bytes_written", bytes_written);
                }
            }
            Event::Settled {
                attempt,
                cost,
                estimated,
                ..
            } => {
                self.pair("attempt", attempt);
                for (dimension, amount) in cost.iter() {
                    self.pair(dimension.word(), amount);
                }
                if *estimated {
                    self.pair("estimated", "yes");
                }
            }
            Event::RetryScheduled {
                attempt,
                due,
                waited,
                why,
                ..
            } => {
                self.pair("attempt", attempt);
                self.due("due", *due);
                self.pair("budget_wait", seconds(*waited));
                self.pair("why", why);
            }
            Event::ReconciliationRequired {
                why, not_before, ..
            } => {
                self.due("not_before", *not_before);
                self.pair("why", why);
            }
            Event::LookedUp {
                lookup,
                found,
                status,
                operation_id,
                next,
                ..
            } => {
                self.pair("lookup", lookup);
                self.pair("found", found.word());
                self.maybe("status", *status);
                self.maybe("provider_id", operation_id.as_ref());
                if let Some(next) = next {
                    self.due("next", *next);
                }
            }
            Event::Reconciled {
                applied,
                by,
                operation_id,
                ..
            } => {
                self.pair("applied", applied);
                self.pair("by", by);
                self.maybe("provider_id", operation_id.as_ref());
            }
            Event::Escalated {
                escalation,
                scope,
                trigger,
                choices,
                why,
                ..
            } => {
                self.pair("trigger", trigger);
                self.pair("scope", scope);
                let words: Vec<&str> = choices.iter().map(|choice| choice.word()).collect();
                self.pair("choices", words.join(","));
                self.pair("why", why);
                self.pair("escalation", escalation);
            }
            Event::Decided {
                escalation,
                choice,
                by,
                note,
                ..
            } => {
                self.pair("choice", choice);
                match by {
                    Decider::Operator(operator) => self.pair("by", operator),
                    Decider::Expiry => self.pair("by", "expiry"),
                }
                self.maybe("note", note.as_ref());
                self.pair("escalation", escalation);
            }
            Event::Joined { by, .. } => self.pair("by", by),
            Event::Cancelled { by, .. } => self.cancelled_by(by),
            Event::Terminal {
                state,
                code,
                attempts,
                waited,
                ..
            } => {
                self.pair("state", state);
                self.pair("code", code);
                self.pair("attempts", attempts);
                self.pair("waited", seconds(*waited));
            }
            Event::TurnedAway {
                agent,
                code,
                scope,
                retry_at,
            } => {
                self.pair("agent", agent);
                self.pair("code", code);
                self.pair("scope", scope);
                if let Some(at) = retry_at {
                    self.due("retry_at", *at);
                }
            }
            Event::Scope(change) => {
                self.pair("scope", &change.scope);
                self.pair("from", change.from);
                self.pair("to", change.to);
                if let Some(at) = change.saved.next_allowed_at {
                    self.due("next_allowed_at", at);
                }
                self.pair("why", &change.why);
            }
            Event::Resumed { scope, by } => {
                self.pair("scope", scope);
                self.pair("by", by);
            }
            Event::TaskOpened {
                task, agent, goal, ..
            } => {
                self.pair("task", task);
                self.pair("agent", agent);
                self.maybe("goal", goal.as_ref());
            }
            Event::TaskCharged {
                task,
                agent,
                retries,
                waited,
            } => {
                self.pair("task", task);
                self.pair("agent", agent);
                self.pair("retries", retries);
                self.pair("waited", seconds(*waited));
            }
            Event::TaskCancelled { task, agent, by } => {
                self.pair("task", task);
                self.pair("agent", agent);
                self.cancelled_by(by);
            }
            Event::Started {
                version,
                policy_digest,
            } => {
                self.pair("version", version);
                self.pair("policy", crate::wire::hex(&policy_digest[..8]));
            }
            Event::PolicyChanged { policy_digest } => {
                self.pair("policy", crate::wire::hex(&policy_digest[..8]));
            }
        }
    }

    fn cancelled_by(&mut self, by: &CancelledBy) {
        match by {
            CancelledBy::Task => self.pair("by", "task"),
            CancelledBy::Agent(agent) => self.pair("by", agent),
            CancelledBy::Caller => self.pair("by", "caller"),
            CancelledBy::Operator(operator) => self.pair("by", operator),
        }
    }
}

/// The time of day in UTC.
fn clock(at: WallTime) -> String {
    let seconds = at.as_micros().div_euclid(1_000_000).rem_euclid(86_400);
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Seconds, with a fraction only where there is one.
fn seconds(span: Span) -> String {
    match span.as_micros() % 1_000_000 {
        0 => span.as_secs_ceil().to_string(),
        _ => format!("{:.3}", span.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rategov_core::id::{ActionId, RecordSeq};
    use rategov_store::Source;

    #[track_caller]
    fn check(by: &str, expected: &str) {
        let joined = Event::Joined {
            action: ActionId(7),
            by: by.to_owned(),
        };
        let fact = Fact {
            source: Source::Tasks,
            seq: RecordSeq(1),
            at: Moment::START,
            wall: WallTime::from_secs(0),
            event: joined,
        };
        let expected = format!("00:00:00 {:<WORD_WIDTH$} by={expected}", "joined");
        assert_eq!(line(&fact), expected);
    }

    #[test]
    fn what_could_forge_a_line_or_paint_a_terminal_is_escaped() {
        check("key", "key");
        check("a key", "\"a key\"");
        check("a\n00:00:00 decided", "\"a\\n00:00:00 decided\"");
        check("\u{1b}[31m", "\"\\u{1b}[31m\"");
        check("\u{9b}31m", "\"\\u{9b}31m\"");
    }
}
