//! A world around one engine: a clock that only the test moves, a journal that
//! commits late or not at all, a provider with a script, and a runner for each
//! action that does what the engine says.
//!
//! After every step the world checks what must always hold: the books agree,
//! records come in order and can be folded, the fold is what the engine thinks,
//! nothing is sent before its record is durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rategov_core::action::outcome::Evidence;
use rategov_core::engine::{
    BodyEnd, Chance, Decision, DecisionError, Earlier, Engine, LookupReport, Output, Refusal,
    Report, Resumption, Setup, TaskAllowance,
};
use rategov_core::event::{CancelledBy, Record, Requested};
use rategov_core::fold::Fold;
use rategov_core::id::{ActionId, AttemptNo, EscalationId, Operator, RecordSeq};
use rategov_core::ledger::Change;
use rategov_core::observe::Facts;
use rategov_core::policy::AccountPolicy;
use rategov_core::record::ActionRow;
use rategov_core::time::{Draw, Moment, Span};
use rategov_core::word::{Choice, State};

use super::call::{Call, account, own_scope, secs};
use super::provider::{Arrival, Script, What, in_turn};

/// Where tests begin: not at the start of the clock, so that "a while ago" exists.
pub(crate) const BEGIN: Moment = Moment::from_micros(10_000 * 1_000_000);

/// What is still to come.
#[derive(Debug)]
pub(super) enum Due {
    Commit(RecordSeq),
    FirstByte(ActionId, What),
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
    /// How long a connection takes.
    pub(crate) dial: Span,
    /// From this record on nothing is committed.
    pub(crate) lose_from: Option<RecordSeq>,
    /// Every record in order.
    pub(crate) records: Vec<Record>,
    /// What of them is durable.
    pub(crate) durable: Fold,
    pub(crate) arrivals: Vec<Arrival>,
    /// Attempts that were granted and called back before their first byte.
    pub(crate) withdrawn: BTreeMap<ActionId, u16>,
    pub(crate) replies: BTreeMap<ActionId, Vec<Reply>>,
    pub(crate) outputs: Vec<(Moment, Output)>,
    pub(crate) changes: Vec<Change>,
    pub(crate) task: TaskAllowance,
    /// Whether a restart finds that the task of every call was told to stop.
    pub(crate) task_stopped: bool,
    pub(crate) faulted: bool,
    policy: AccountPolicy,
    pub(super) setups: BTreeMap<ActionId, Setup>,
    pub(super) calls: BTreeMap<ActionId, Call>,
    pub(super) folded: Fold,
    pub(super) committed: BTreeSet<RecordSeq>,
    due: BTreeMap<(Moment, u64), Due>,
    pub(super) aborted: BTreeSet<ActionId>,
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
            dial: Span::ZERO,
            lose_from: None,
            records: Vec::new(),
            durable: Fold::new(),
            arrivals: Vec::new(),
            withdrawn: BTreeMap::new(),
            replies: BTreeMap::new(),
            outputs: Vec::new(),
            changes: Vec::new(),
            task: TaskAllowance::UNLIMITED,
            task_stopped: false,
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
        let mut submit = call.submit(now, id);
        submit.earlier = self.earlier(&submit.requested);
        self.engine.handle_submit(now, chance, submit);
        self.pump();
    }

    /// What the tables say of the last call with its key.
    fn earlier(&self, requested: &Requested) -> Option<Earlier> {
        let same_key = |row: &&ActionRow| row.requested.key == requested.key;
        requested.key.as_ref()?;
        let latest = self.durable.actions().filter(same_key).last()?;
        let may = latest.may_be_sent_anew() && requested.repeats(&latest.requested);
        may.then(|| Earlier::of(latest))
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
        let resumptions: BTreeMap<ActionId, Resumption> = self
            .setups
            .iter()
            .map(|(id, setup)| {
                let setup = has_route(*id).then(|| setup.clone());
                let task = (!self.task_stopped).then_some(self.task);
                (*id, Resumption { setup, task })
            })
            .collect();
        let (now, chance) = (self.now, self.chance());
        self.engine = Engine::restore(
            account(),
            own_scope(),
            self.policy.clone(),
            now,
            chance,
            tables,
            &resumptions,
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

    // ---- how it works ----------------------------------------------------------

    pub(super) fn later(&mut self, span: Span, due: Due) {
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
            Due::FirstByte(action, what) => self.arrive(action, what),
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
