//! What is decided, what is committed, and what may leave.
//!
//! Every record leaves at once, in the order of decisions. An output that
//! relies on a record waits here until the journal has it:
//!
//! ```text
//! record 7: action_requested          → leaves now
//! record 8: action_sent               → leaves now
//! grant, relies on 8                  → held
//! handle_committed(7)                 → nothing relied on it
//! handle_committed(8)                 → the grant leaves
//! ```
//!
//! If a commit fails, what relied on it never leaves. The engine then counts
//! as crashed ([`Outbox::poison`]): later records could only tell a story that
//! the journal does not know, so none leaves any more, and the owner rebuilds
//! the engine from the tables.

use std::collections::{BTreeSet, VecDeque};

use super::output::Output;
use crate::event::{Durability, Event, Record};
use crate::id::{ActionId, RecordSeq};
use crate::time::Moment;

/// The gate between decisions and the world.
#[derive(Debug)]
pub(super) struct Outbox {
    last: RecordSeq,
    /// The last record that the journal has; it answers in order.
    committed: RecordSeq,
    ready: VecDeque<Output>,
    /// In the order of the records; what relies on the same one, in its own.
    held: VecDeque<(RecordSeq, Output)>,
    poisoned: bool,
}

impl Outbox {
    pub(super) fn new() -> Outbox {
        Outbox {
            last: RecordSeq(0),
            committed: RecordSeq(0),
            ready: VecDeque::new(),
            held: VecDeque::new(),
            poisoned: false,
        }
    }

    /// Appends a record and returns its number.
    pub(super) fn record(&mut self, at: Moment, durability: Durability, event: Event) -> RecordSeq {
        let seq = RecordSeq(self.last.0 + 1);
        self.last = seq;
        if !self.poisoned {
            self.ready.push_back(Output::Record(Record {
                seq,
                at,
                durability,
                event,
            }));
        }
        seq
    }

    /// Lets an output leave once the record is committed, which is then urgent.
    pub(super) fn after(&mut self, seq: RecordSeq, output: Output) {
        debug_assert!(
            RecordSeq(0) < seq && seq <= self.last,
            "a record that was never made"
        );
        if !self.poisoned {
            self.hurry(seq);
            let at = self.held.partition_point(|(held, _)| *held <= seq);
            self.held.insert(at, (seq, output));
        }
    }

    /// Something relies on a record that has not left yet.
    fn hurry(&mut self, seq: RecordSeq) {
        let records = self
            .ready
            .iter_mut()
            .rev()
            .filter_map(|output| match output {
                Output::Record(record) => Some(record),
                _ => None,
            });
        for record in records.take_while(|record| seq <= record.seq) {
            if record.seq == seq {
                record.durability = record.durability.max(Durability::Process);
            }
        }
    }

    /// Lets an output leave once everything that was recorded so far is committed.
    pub(super) fn after_all(&mut self, output: Output) {
        self.after(self.last, output);
    }

    /// Lets an output leave that relies on nothing.
    pub(super) fn free(&mut self, output: Output) {
        self.ready.push_back(output);
    }

    /// The journal has the record. O(log n) where commits come in order.
    pub(super) fn committed(&mut self, seq: RecordSeq) {
        self.committed = self.committed.max(seq);
        let at = self.held.partition_point(|(held, _)| *held < seq);
        while self.held.get(at).is_some_and(|(held, _)| *held == seq) {
            let held = self.held.remove(at);
            self.ready.extend(held.map(|(_, output)| output));
        }
    }

    /// The journal lost a record: nothing that is held leaves, no record follows.
    /// Gives the actions whose grant never left: nobody will report on them.
    pub(super) fn poison(&mut self) -> BTreeSet<ActionId> {
        self.poisoned = true;
        self.ready
            .retain(|output| !matches!(output, Output::Record(_)));
        let held = std::mem::take(&mut self.held);
        let granted = |(_, output): &(RecordSeq, Output)| match output {
            Output::Grant(grant) => Some(grant.action),
            _ => None,
        };
        held.iter().filter_map(granted).collect()
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Whether the journal has everything, and nothing is still to leave.
    pub(super) fn is_settled(&self) -> bool {
        self.committed == self.last && self.ready.is_empty() && !self.poisoned
    }

    pub(super) fn poll(&mut self) -> Option<Output> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Agent, EscalationId, Scope};

    fn event() -> Event {
        Event::TurnedAway {
            agent: Agent::new("a").unwrap(),
            code: "queue_full".to_owned(),
            scope: Scope::new("account:x").unwrap(),
            retry_at: None,
        }
    }

    fn drain(outbox: &mut Outbox) -> Vec<&'static str> {
        std::iter::from_fn(|| outbox.poll())
            .map(|output| match output {
                Output::Record(_) => "record",
                Output::Faulted => "effect",
                _ => "other",
            })
            .collect()
    }

    #[test]
    fn an_effect_waits_for_its_own_record_only() {
        let mut outbox = Outbox::new();
        let first = outbox.record(Moment::START, Durability::Power, event());
        let second = outbox.record(Moment::START, Durability::Process, event());
        outbox.after(second, Output::Faulted);
        assert_eq!(drain(&mut outbox), ["record", "record"]);
        outbox.committed(first);
        assert_eq!(drain(&mut outbox), Vec::<&str>::new());
        outbox.committed(second);
        assert_eq!(drain(&mut outbox), ["effect"]);
    }

    #[test]
    fn a_record_that_something_relies_on_is_urgent() {
        let mut outbox = Outbox::new();
        outbox.record(Moment::START, Durability::Soon, event());
        let relied_on = outbox.record(Moment::START, Durability::Soon, event());
        outbox.record(Moment::START, Durability::Power, event());
        outbox.after(relied_on, Output::Faulted);
        let durabilities: Vec<Durability> = std::iter::from_fn(|| outbox.poll())
            .filter_map(|output| match output {
                Output::Record(record) => Some(record.durability),
                _ => None,
            })
            .collect();
        assert_eq!(
            durabilities,
            [Durability::Soon, Durability::Process, Durability::Power]
        );
    }

    #[test]
    fn commits_in_any_order_let_out_what_relied_on_each_in_its_own() {
        let mut outbox = Outbox::new();
        let seqs: Vec<RecordSeq> = (0..3)
            .map(|_| outbox.record(Moment::START, Durability::Process, event()))
            .collect();
        drain(&mut outbox);
        let asked = |escalation| Output::Asked {
            escalation: EscalationId(escalation),
        };
        // Told in another order than the records were made.
        for (seq, escalation) in [(2, 30), (0, 10), (2, 31), (1, 20), (0, 11)] {
            outbox.after(seqs[seq], asked(escalation));
        }
        let mut out = Vec::new();
        for seq in [1, 0, 2] {
            outbox.committed(seqs[seq]);
            out.extend(std::iter::from_fn(|| outbox.poll()));
        }
        assert_eq!(out, [20, 10, 11, 30, 31].map(asked));
    }

    #[test]
    fn a_lost_commit_lets_nothing_out() {
        let mut outbox = Outbox::new();
        let seq = outbox.record(Moment::START, Durability::Power, event());
        outbox.after(seq, Output::Faulted);
        outbox.poison();
        outbox.committed(seq);
        outbox.record(Moment::START, Durability::Power, event());
        assert_eq!(drain(&mut outbox), Vec::<&str>::new());
    }
}
