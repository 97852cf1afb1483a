//! A world around one engine: a clock that only the test moves, a journal that
//! commits late or not at all, a provider with a script, and a runner for each
//! action that does what the engine says.
//!
//! After every step the world checks what must always hold: the books agree,
//! records come in order and can be folded, the fold is what the engine thinks,
//! nothing is sent before its record is durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rategov_core::action::outcome::{Evidence, NotSent};
use rategov_core::engine::{
    BodyEnd, Chance, Decision, DecisionError, Engine, LookupReport, Output, Refusal, Report, Setup,
    TaskAllowance,
};
use rategov_core::event::{CancelledBy, Durability, Event, Record};
use rategov_core::fold::Fold;
use rategov_core::id::{ActionId, AttemptNo, EscalationId, Operator, RecordSeq};
use rategov_core::ledger::Change;
use rategov_core::observe::Facts;
use rategov_core::policy::AccountPolicy;
use rategov_core::record::{ActionRow, EscalationRow};
use rategov_core::time::{Draw, Moment, Span};
use rategov_core::word::{Choice, State};

use super::call::{Call, account, own_scope, secs};
use super::provider::{Arrival, Say, Script, What, in_turn};

/// Where tests begin: not at the start of the clock, so that "a while ago" exists.
pub(crate) const BEGIN: Moment = Moment::from_micros(10_000 * 1_000_000);

/// What is still to come.
#[derive(Debug)]
enum Due {
    Commit(RecordSeq),
    Report(ActionId, AttemptNo, Evidence),
    Head(ActionId, AttemptNo, Facts, Span, BodyEnd),
    BodyEnd(ActionId, AttemptNo, BodyEnd),
    Found(LookupReport),
}

/// The last word that a caller got.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Refused(Refusal),
    Joined(ActionId),
    Answer(AttemptNo, State),
    Own(State, String),
}

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Moment,
    pub(crate) script: Script,
    /// How long the journal takes.
    pub(crate) commit_after: Span,
    /// From this record on nothing is committed.
    pub(crate) lose_from: Option<RecordSeq>,
    /// Every record in order.
    pub(crate) records: Vec<Record>,
    /// What of them is durable.
    pub(crate) durable: Fold,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) replies: BTreeMap<ActionId, Vec<Reply>>,
    pub(crate) outputs: Vec<(Moment, Output)>,
    pub(crate) changes: Vec<Change>,
    pub(crate) task: TaskAllowance,
    pub(crate) faulted: bool,
    policy: AccountPolicy,
    setups: BTreeMap<ActionId, Setup>,
    calls: BTreeMap<ActionId, Call>,
    folded: Fold,
    committed: BTreeSet<RecordSeq>,
    due: BTreeMap<(Moment, u64), Due>,
    aborted: BTreeSet<ActionId>,
    serial: u64,
    random: u64,
    steps: u32,
    /// Checks are made after every so many steps.
    pub(crate) check_every: u32,
}

impl World {
    pub(crate) fn new() -> World {
        World::under(AccountPolicy::default())
    }

    pub(crate) fn under(policy: AccountPolicy) -> World {
        World {
            engine: Engine::new(account(), own_scope(), policy.clone()),
            now: BEGIN,
            script: in_turn(Vec::new()),
            commit_after: Span::from_millis(2),
            lose_from: None,
            records: Vec::new(),
            durable: Fold::new(),
            arrivals: Vec::new(),
            replies: BTreeMap::new(),
            outputs: Vec::new(),
            changes: Vec::new(),
            task: TaskAllowance::UNLIMITED,
            faulted: false,
            policy,
            setups: BTreeMap::new(),
            calls: BTreeMap::new(),
            folded: Fold::new(),
            committed: BTreeSet::new(),
            due: BTreeMap::new(),
            aborted: BTreeSet::new(),
            serial: 0,
            steps: 0,
            check_every: 1,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    pub(crate) fn saying(mut self, script: Script) -> World {
        self.script = script;
        self
    }

    pub(crate) fn seeded(mut self, seed: u64) -> World {
        self.random ^= seed.wrapping_mul(0xd134_2543_de82_ef95);
        self
    }

    // ---- what tests do ---------------------------------------------------------

    pub(crate) fn submit(&mut self, call: &Call) -> ActionId {
        self.serial += 1;
        let id = ActionId(u128::from(self.serial));
        self.submit_as(call, id);
        id
    }

    fn submit_as(&mut self, call: &Call, id: ActionId) {
        self.setups.insert(id, call.setup());
        self.calls.insert(id, call.clone());
        let (now, chance) = (self.now, self.chance());
        let submit = call.submit(now, id);
        self.engine.handle_submit(now, chance, submit);
        self.pump();
    }

    pub(crate) fn cancel(&mut self, id: ActionId) {
        let by = CancelledBy::Operator(operator());
        let (now, chance) = (self.now, self.chance());
        self.engine.handle_cancel(now, chance, id, by);
        self.pump();
    }

    pub(crate) fn hang_up(&mut self, id: ActionId) {
        self.engine.handle_caller_gone(self.now, id);
        self.pump();
    }

    pub(crate) fn decide(&mut self, choice: Choice) -> Result<(), DecisionError> {
        let question = self.question().escalation;
        self.decide_on(question, choice, None)
    }

    pub(crate) fn decide_on(
        &mut self,
        question: EscalationId,
        choice: Choice,
        version: Option<u32>,
    ) -> Result<(), DecisionError> {
        let typed = (choice == Choice::SendNew).then(|| "this may happen twice".to_owned());
        let decision = Decision {
            choice,
            by: operator(),
            note: Some("because".to_owned()),
            version,
            typed,
        };
        let (now, chance) = (self.now, self.chance());
        let decided = self.engine.handle_decision(now, chance, question, decision);
        self.pump();
        decided
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, span: Span) {
        self.drive_to(self.now + span);
    }

    /// Lets time pass until nothing is under way and nothing is due within a day.
    pub(crate) fn settle(&mut self) {
        let end = self.now + secs(23 * 3_600);
        self.drive_to(end);
        assert!(self.due.is_empty(), "still under way: {:?}", self.due);
    }

    pub(crate) fn drive_to(&mut self, end: Moment) {
        for _ in 0..2_000_000 {
            let timeout = self.engine.poll_timeout();
            let next = self.due.keys().next().map_or(Moment::NEVER, |(at, _)| *at);
            let at = timeout.min(next);
            if end < at {
                self.now = end;
                return;
            }
            self.now = self.now.max(at);
            if next <= timeout {
                let (_, due) = self.due.pop_first().unwrap();
                self.happen(due);
            } else {
                let (now, chance) = (self.now, self.chance());
                self.engine.handle_timeout(now, chance);
            }
            self.pump();
        }
        panic!("the world does not come to rest");
    }

    /// Stops the engine here: what is not durable is lost, what was on the wire
    /// goes unheard. A new one is built from the tables.
    pub(crate) fn crash(&mut self) {
        self.crash_with(|_| true);
    }

    /// The same, with a route only for some actions.
    pub(crate) fn crash_with(&mut self, has_route: impl Fn(ActionId) -> bool) {
        self.due.clear();
        self.aborted.clear();
        self.committed.clear();
        self.lose_from = None;
        self.faulted = false;
        self.folded = self.durable.clone();
        let tables = self.durable.tables(self.now, secs(3_600));
        let setups: BTreeMap<ActionId, Setup> = self
            .setups
            .iter()
            .filter(|(id, _)| has_route(**id))
            .map(|(id, setup)| (*id, setup.clone()))
            .collect();
        let (now, chance) = (self.now, self.chance());
        self.engine = Engine::restore(
            account(),
            own_scope(),
            self.policy.clone(),
            now,
            chance,
            tables,
            &setups,
        );
        self.records.clear();
        self.pump();
    }

    pub(crate) fn chance(&mut self) -> Chance {
        // SplitMix64 (public domain).
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        self.serial += 1;
        Chance {
            draw: Draw::from_u32(z as u32),
            id: (1 << 100) + (u128::from(self.serial) << 8),
        }
    }

    // ---- what tests look at ----------------------------------------------------

    /// The only open question.
    pub(crate) fn question(&self) -> EscalationRow {
        let open: Vec<_> = self.engine.escalations().collect();
        assert_eq!(open.len(), 1, "{open:?}");
        open[0].clone()
    }

    pub(crate) fn row(&self, id: ActionId) -> &ActionRow {
        self.folded.action(id).unwrap()
    }

    pub(crate) fn state(&self, id: ActionId) -> State {
        self.row(id).state
    }

    /// What its caller got last.
    pub(crate) fn reply(&self, id: ActionId) -> Option<&Reply> {
        self.replies.get(&id)?.last()
    }

    pub(crate) fn refusal(&self, id: ActionId) -> &Refusal {
        match self.reply(id) {
            Some(Reply::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }

    /// The code that the governor's own last word to it has.
    pub(crate) fn code(&self, id: ActionId) -> &str {
        match self.reply(id) {
            Some(Reply::Own(_, code)) => code,
            other => panic!("{other:?}"),
        }
    }

    /// Sends of an action that reached the provider, look-ups apart.
    pub(crate) fn sends(&self, id: ActionId) -> Vec<Moment> {
        self.arrivals
            .iter()
            .filter(|arrival| arrival.action == id && matches!(arrival.what, What::Attempt(_)))
            .map(|arrival| arrival.at)
            .collect()
    }

    pub(crate) fn lookups(&self, id: ActionId) -> Vec<Moment> {
        self.arrivals
            .iter()
            .filter(|arrival| arrival.action == id && matches!(arrival.what, What::Lookup(_)))
            .map(|arrival| arrival.at)
            .collect()
    }

    /// When each of all attempts reached the provider, since the beginning, in milliseconds.
    pub(crate) fn arrived_ms(&self) -> Vec<u64> {
        let attempts = self
            .arrivals
            .iter()
            .filter(|arrival| matches!(arrival.what, What::Attempt(_)));
        attempts
            .map(|arrival| arrival.at.since(BEGIN).as_millis())
            .collect()
    }

    /// The words of the records about an action, in order.
    pub(crate) fn story(&self, id: ActionId) -> Vec<&'static str> {
        self.records
            .iter()
            .filter(|record| record.event.action() == Some(id))
            .map(|record| record.event.word())
            .collect()
    }

    pub(crate) fn words(&self) -> Vec<&'static str> {
        self.records
            .iter()
            .map(|record| record.event.word())
            .collect()
    }

    pub(crate) fn find(&self, wanted: impl Fn(&Event) -> bool) -> Option<&Record> {
        self.records.iter().find(|record| wanted(&record.event))
    }

    // ---- how it works ----------------------------------------------------------

    fn later(&mut self, span: Span, due: Due) {
        self.serial += 1;
        self.due.insert((self.now + span, self.serial), due);
    }

    fn happen(&mut self, due: Due) {
        let (now, chance) = (self.now, self.chance());
        match due {
            Due::Commit(seq) => {
                if self.lose_from.is_some_and(|from| from <= seq) {
                    self.engine.handle_commit_failed(seq);
                    return;
                }
                let record = self
                    .records
                    .iter()
                    .find(|record| record.seq == seq)
                    .cloned()
                    .unwrap();
                self.durable.apply(Some(&account()), &record).unwrap();
                self.committed.insert(seq);
                self.engine.handle_committed(seq);
            }
            Due::Report(action, attempt, evidence) => {
                let report = Report {
                    action,
                    attempt,
                    bytes_written: u64::from(!matches!(evidence, Evidence::NotSent(_))),
                    evidence,
                    task: self.task,
                };
                self.engine.handle_report(now, chance, report);
            }
            Due::Head(action, attempt, facts, end_after, end) => {
                use rategov_core::action::outcome::{Body, Upload};
                let evidence = Evidence::Answered {
                    facts,
                    body: Body::Open,
                    upload: Upload::Complete,
                };
                let report = Report {
                    action,
                    attempt,
                    evidence,
                    bytes_written: 1,
                    task: self.task,
                };
                self.engine.handle_report(now, chance, report);
                self.later(end_after, Due::BodyEnd(action, attempt, end));
            }
            Due::BodyEnd(action, attempt, end) => {
                self.engine
                    .handle_body_end(now, chance, action, attempt, end);
            }
            Due::Found(report) => self.engine.handle_lookup_report(now, chance, report),
        }
    }

    fn pump(&mut self) {
        let mut queue: VecDeque<Output> = VecDeque::new();
        loop {
            while let Some(output) = self.engine.poll_output() {
                queue.push_back(output);
            }
            let Some(output) = queue.pop_front() else {
                break;
            };
            self.outputs.push((self.now, output.clone()));
            self.obey(output);
        }
        self.check();
    }

    fn obey(&mut self, output: Output) {
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
                self.arrive(grant.action, What::Attempt(grant.attempt));
            }
            Output::Lookup(grant) => self.arrive(grant.action, What::Lookup(grant.lookup)),
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

    fn arrive(&mut self, action: ActionId, what: What) {
        let row = self.folded.action(action).unwrap();
        assert!(
            !row.cancelled
                || matches!(what, What::Lookup(_))
                || self.was_sent_before_cancel(action),
            "a cancelled action was sent"
        );
        if let (What::Attempt(n), true) = (what, self.engine.is_overtaken(action)) {
            let evidence = Evidence::NotSent(NotSent::Withdrawn);
            self.later(Span::ZERO, Due::Report(action, n, evidence));
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
            self.arrivals.push(arrival);
            self.engine.handle_sent(self.now, action);
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

    /// A grant that was under way when the cancellation came.
    fn was_sent_before_cancel(&self, action: ActionId) -> bool {
        let position = |word: &str| {
            self.records.iter().rposition(|record| {
                record.event.action() == Some(action) && record.event.word() == word
            })
        };
        position("action_sent") < position("cancelled")
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

    fn check(&mut self) {
        self.steps += 1;
        if self.faulted || !self.steps.is_multiple_of(self.check_every) {
            return;
        }
        if let Err(what) = self.engine.check_books() {
            panic!("the books disagree: {what}");
        }
        let mut own: Vec<&ActionRow> = self.engine.rows().collect();
        own.sort_by_key(|row| row.requested.action);
        let folded: Vec<&ActionRow> = self
            .folded
            .actions()
            .filter(|row| !row.state.is_final())
            .collect();
        assert_eq!(own, folded, "the engine and its journal disagree");
    }
}

pub(crate) fn operator() -> Operator {
    Operator::new("ana").unwrap()
}
