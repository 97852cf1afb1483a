//! The runner of all actions: it does what the engine says, and checks that
//! nothing leaves before its record is durable.

use rategov_core::action::outcome::{Evidence, NotSent};
use rategov_core::engine::{Leave, LookupReport, Output};
use rategov_core::event::{Durability, Event};
use rategov_core::id::{ActionId, AttemptNo};
use rategov_core::time::Span;

use super::call::account;
use super::provider::{Arrival, Say, What};
use super::world::{Due, Reply, World};

impl World {
    pub(super) fn obey(&mut self, output: Output) {
        match output {
            Output::Record(record) => {
                let last = self.records.last().map_or(0, |last| last.seq.0);
                assert_eq!(record.seq.0, last + 1, "a gap in the records");
                self.folded
                    .apply(Some(&account()), &record)
                    .unwrap_or_else(|illegal| panic!("{illegal}"));
                self.records.push(record.clone());
                self.later(self.commit_after, Due::Commit(record.seq));
            }
            Output::Grant(grant) => {
                let sent = |event: &Event| {
                    matches!(event, Event::ActionSent { action, attempt, .. }
                        if *action == grant.action && *attempt == grant.attempt)
                };
                self.assert_durable("a grant", sent);
                let requested = |event: &Event| {
                    matches!(event, Event::ActionRequested(requested)
                        if requested.action == grant.action)
                };
                if grant.attempt == 1 && self.find(requested).is_some() {
                    self.assert_durable("a grant", requested);
                }
                self.dial(grant.action, What::Attempt(grant.attempt));
            }
            Output::Lookup(grant) => self.dial(grant.action, What::Lookup(grant.lookup)),
            Output::Refuse { action, refusal } => self.answer(action, Reply::Refused(refusal)),
            Output::Join { action, existing } => self.answer(action, Reply::Joined(existing)),
            Output::Deliver {
                action,
                attempt,
                state,
            } => self.answer(action, Reply::Answer(attempt, state)),
            Output::Finish {
                action,
                state,
                code,
                ..
            } => self.answer(action, Reply::Own(state, code.word().to_owned())),
            Output::Child { parent, child } => {
                let setup = self.setups[&parent].clone();
                self.setups.insert(child.action, setup);
                let call = self.calls[&parent].clone();
                self.calls.insert(child.action, call);
            }
            Output::Abort { action } => {
                self.aborted.insert(action);
            }
            Output::Changed(change) => self.changes.push(change),
            Output::Faulted => self.faulted = true,
            Output::OpenPath { .. }
            | Output::Parked(_)
            | Output::Continue { .. }
            | Output::ChargeTask { .. }
            | Output::Asked { .. } => {}
        }
    }

    fn assert_durable(&self, what: &str, wanted: impl Fn(&Event) -> bool) {
        let record = self
            .records
            .iter()
            .rev()
            .find(|record| wanted(&record.event));
        let record = record.unwrap_or_else(|| panic!("{what} without its record"));
        assert!(
            self.committed.contains(&record.seq),
            "{what} before its record is durable"
        );
        let action = record.event.action().and_then(|id| self.folded.action(id));
        if action.is_some_and(|row| row.requested.class.is_write()) {
            assert_eq!(record.durability, Durability::Power, "{what} of a write");
        }
    }

    fn answer(&mut self, action: ActionId, reply: Reply) {
        self.replies.entry(action).or_default().push(reply);
    }

    fn dial(&mut self, action: ActionId, what: What) {
        match self.dial {
            Span::ZERO => self.arrive(action, what),
            dial => self.later(dial, Due::FirstByte(action, what)),
        }
    }

    /// The first byte is about to leave.
    pub(super) fn arrive(&mut self, action: ActionId, what: What) {
        let row = self.folded.action(action).unwrap();
        let is_cancelled = row.cancelled;
        if let (What::Attempt(n), true) = (what, self.engine.is_overtaken(action)) {
            self.withdraw(action, n);
            return;
        }
        let arrival = Arrival {
            at: self.now,
            action,
            what,
            key: row.requested.key.clone(),
            agent: row.requested.agent.to_string(),
        };
        let say = (self.script)(&arrival);
        let left = !matches!(
            say,
            Say::Evidence(_, Evidence::NotSent(_)) | Say::LookupNotSent
        );
        if left {
            let leave = self.engine.handle_sent(self.now, action);
            match (leave, what) {
                (Leave::CalledBack, What::Attempt(n)) => return self.withdraw(action, n),
                (Leave::CalledBack, What::Lookup(_)) => return,
                (Leave::Free, What::Attempt(_)) => {
                    assert!(!is_cancelled, "a cancelled action was sent");
                }
                (Leave::Free, What::Lookup(_)) => {}
            }
            self.arrivals.push(arrival);
        }
        match (say, what) {
            (Say::Evidence(span, evidence), What::Attempt(n)) => {
                self.later(span, Due::Report(action, n, evidence));
            }
            (Say::Stream(span, facts, end_after, end), What::Attempt(n)) => {
                self.later(span, Due::Head(action, n, facts, end_after, end));
            }
            (Say::Found(span, found), What::Lookup(lookup)) => {
                let report = self.lookup_report(action, lookup, found);
                self.later(span, Due::Found(report));
            }
            (Say::LookupNotSent, What::Lookup(lookup)) => {
                let found = rategov_core::event::Found::NoAnswer;
                let report = LookupReport {
                    sent: false,
                    ..self.lookup_report(action, lookup, found)
                };
                self.later(Span::from_millis(10), Due::Found(report));
            }
            (Say::Silence, _) => {}
            (say, what) => panic!("{say:?} is no answer to {what:?}"),
        }
    }

    fn withdraw(&mut self, action: ActionId, attempt: AttemptNo) {
        *self.withdrawn.entry(action).or_default() += 1;
        let evidence = Evidence::NotSent(NotSent::Withdrawn);
        self.later(Span::ZERO, Due::Report(action, attempt, evidence));
    }

    fn lookup_report(
        &self,
        action: ActionId,
        lookup: u16,
        found: rategov_core::event::Found,
    ) -> LookupReport {
        LookupReport {
            action,
            lookup,
            found,
            facts: None,
            operation_id: None,
            sent: true,
            task: self.task,
        }
    }
}
