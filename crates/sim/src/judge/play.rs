//! A trial as it runs: callers, the engine, the way there and back, the provider.
//!
//! As in [`crate::world`], time is a number and the earliest thing that is due
//! comes next. Nothing breaks here: the journal commits within a millisecond and
//! connections are warm, so that all that varies is the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use rategov_core::action::outcome::{Body, Evidence, NotSent, Upload};
use rategov_core::cost::Cost;
use rategov_core::engine::{Engine, Leave, Marker, Output, Report, Setup, Submit, TaskAllowance};
use rategov_core::estimate::{Seen, Usage};
use rategov_core::event::Requested;
use rategov_core::id::{
    Account, ActionId, Agent, AttemptNo, Credential, Endpoint, Fingerprint, Provider as Name,
    RecordSeq, Scope,
};
use rategov_core::observe::Facts;
use rategov_core::policy::{AccountPolicy, ClassTable, Profile, ScopeLimits};
use rategov_core::time::{Moment, Span, WallTime};
use rategov_core::word::{Class, Priority};
use serde_json::Value;

use super::count::{Count, Frame, Met, Verdict};
use super::trial::{Happening, Trial};
use super::work::{WAY, Work};
use crate::provider::config::Config;
use crate::provider::draw::Seed;
use crate::provider::ledger::{ArrivalNo, Finish};
use crate::provider::{Provider, Ticket};
use crate::world::random::Random;
use crate::world::scenario::BEGIN;
use crate::world::wire::facts_of;

/// Callers, each with one call at a time: enough to ask for ten times what the
/// largest limit allows, and to spend a window's limit in a few seconds.
const CALLERS: usize = 60;
/// Until the journal has a record.
const COMMIT: Span = Span::from_millis(1);
/// A caller that was turned away comes back after this.
const COMES_BACK: Span = Span::from_secs(1);

/// What the governor's wall clock shows when the provider's clock begins.
const WALL: WallTime = WallTime::from_secs(1_767_225_600);

/// What is going to happen.
#[derive(Debug)]
enum Due {
    Call(usize),
    Committed(RecordSeq),
    FirstByte(ActionId, AttemptNo),
    Arrive(ActionId, AttemptNo, Moment),
    Answer(ActionId, AttemptNo, Box<Answer>),
    Finish(Ticket),
    Foreign,
    Change,
}

/// What an answer says.
#[derive(Debug)]
struct Answer {
    facts: Facts,
    usage: Option<Usage>,
}

/// See the module.
pub(super) struct Play<'t> {
    trial: &'t Trial,
    now: Moment,
    begin: Moment,
    engine: Engine,
    site: Provider,
    setup: Setup,
    template: Requested,
    /// Which of those that were met an arrival is.
    arrivals: BTreeMap<ArrivalNo, usize>,
    due: BTreeMap<(Moment, u64), Due>,
    serial: u64,
    callers: BTreeMap<ActionId, usize>,
    count: Count,
    way: Random,
    chance: Random,
    foreign: Random,
}

impl<'t> Play<'t> {
    pub(super) fn new(trial: &'t Trial) -> Play<'t> {
        let (account, scope) = names();
        let work = trial.work;
        let known = (trial.knowledge).declared(trial.shape, trial.size, work.dimension());
        let charge = (!known.is_empty()).then(|| work.charge(trial.refusals));
        let limits = ScopeLimits {
            quotas: known,
            max_concurrent: None,
        };
        let policy = AccountPolicy {
            scopes: vec![(scope.clone(), limits)],
            charge: charge.unwrap_or_default(),
            ..AccountPolicy::default()
        };
        let config = Config {
            seed: Seed(trial.seed),
            quotas: trial.rules(),
            limit_fields: trial.knowledge.fields(),
            service: work.service(),
            length: work.length(),
            // As many as can be open, and some more.
            ledger_capacity: 4 * CALLERS,
            wall_at_start: match trial.happening {
                Happening::Late(seconds) => {
                    WallTime::from_micros(WALL.as_micros() - micros(seconds))
                }
                Happening::Early(seconds) => WALL + Span::from_secs(seconds),
                _ => WALL,
            },
            ..Config::default()
        };
        // Where in its window the provider is when the trial begins is chance.
        let mut way = Random::new(trial.seed, "ways");
        let begin = BEGIN + way.millis(0, trial.size.window.as_millis());
        Play {
            trial,
            now: begin,
            begin,
            engine: Engine::new(account, scope.clone(), policy),
            site: Provider::new(config),
            setup: Setup {
                profile: Arc::new(Profile::nothing()),
                scopes: Arc::from([scope]),
                cost: Cost::ONE,
                sizing: work.sizing(),
                limits: Arc::new(ClassTable::default().of(work.class()).clone()),
                weight: 1,
                agent_concurrent_max: None,
                attempt_timeout: Span::from_secs(60),
                may_send_new: false,
            },
            template: Requested {
                class: work.class(),
                ..template()
            },
            arrivals: BTreeMap::new(),
            due: BTreeMap::new(),
            serial: 0,
            callers: BTreeMap::new(),
            count: Count::default(),
            way,
            chance: Random::new(trial.seed, "engine"),
            foreign: Random::new(trial.seed, "foreign"),
        }
    }

    pub(super) fn run(mut self) -> Verdict {
        let frame = Frame {
            begin: self.begin,
            window: self.trial.size.window,
            left: self.trial.happening.left(self.trial.size.limit),
        };
        let (happens, ends) = (frame.judged().from(), frame.judged().to());
        for caller in 0..CALLERS {
            self.later(Span::ZERO, Due::Call(caller));
        }
        match self.trial.happening {
            Happening::Nothing | Happening::Late(_) | Happening::Early(_) => {}
            Happening::Foreign(_) => self.at(happens, Due::Foreign),
            Happening::Halved | Happening::Doubled => self.at(happens, Due::Change),
        }
        while let Some(at) = self.next().filter(|at| *at < ends) {
            self.now = self.now.max(at);
            let outside = self.due.keys().next().map(|(at, _)| *at);
            if outside.is_some_and(|outside| outside <= self.now)
                && let Some((_, due)) = self.due.pop_first()
            {
                self.happen(due);
            } else {
                let chance = self.draw();
                self.engine.handle_timeout(self.now, chance);
            }
            self.follow();
        }
        let (trial, begin) = (self.trial, self.begin);
        let is_on = |at| trial.demand.is_on(begin, at, trial.size.window);
        self.count.verdict(frame, &is_on)
    }

    fn next(&self) -> Option<Moment> {
        let outside = self.due.keys().next().map_or(Moment::NEVER, |(at, _)| *at);
        Some(outside.min(self.engine.poll_timeout())).filter(|at| *at < Moment::NEVER)
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Call(caller) => self.call(caller),
            Due::Committed(seq) => self.engine.handle_committed(seq),
            Due::FirstByte(action, attempt) => self.first_byte(action, attempt),
            Due::Arrive(action, attempt, left) => self.arrive(action, attempt, left),
            Due::Answer(action, attempt, answer) => {
                let Answer { facts, usage } = *answer;
                if let Some(usage) = usage {
                    self.engine.handle_usage(self.now, action, attempt, &usage);
                }
                let evidence = Evidence::Answered {
                    facts,
                    body: Body::Complete,
                    upload: Upload::Complete,
                };
                self.report(action, attempt, evidence);
            }
            Due::Finish(ticket) => self.finish(ticket),
            Due::Foreign => self.somebody_else(),
            Due::Change => {
                if let Some(rules) = self.trial.changed_rules() {
                    self.site.amend_quotas(rules);
                }
            }
        }
    }

    /// Carries out what the engine says.
    fn follow(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Record(record) => self.later(COMMIT, Due::Committed(record.seq)),
                Output::Grant(grant) => {
                    let dial = Span::from_micros(self.way.below(2_000));
                    self.later(dial, Due::FirstByte(grant.action, grant.attempt));
                }
                Output::Deliver { action, .. } => self.again(action, Span::ZERO),
                Output::Finish { action, state, .. } => {
                    self.count.turned_away += 1;
                    debug_assert!(state.is_final(), "a read that is let go has ended");
                    self.again(action, COMES_BACK);
                }
                Output::Refuse { action, .. } => {
                    self.count.turned_away += 1;
                    self.again(action, COMES_BACK);
                }
                Output::Asked { .. } => self.count.asked += 1,
                _ => {}
            }
        }
    }

    // ---- callers ----------------------------------------------------------------

    fn call(&mut self, caller: usize) {
        let window = self.trial.size.window;
        let on = self.trial.demand.next_on(self.begin, self.now, window);
        if self.now < on {
            return self.at(on, Due::Call(caller));
        }
        self.serial += 1;
        let action = ActionId(u128::from(self.serial));
        self.callers.insert(action, caller);
        let requested = Requested {
            action,
            agent: Agent::new(&format!("agent-{}", caller % 10)).expect("short printable ASCII"),
            fingerprint: Fingerprint(action.0.to_be_bytes()),
            ..self.template.clone()
        };
        let submit = Submit {
            requested: Arc::new(requested),
            setup: self.setup.clone(),
            hold_until: Moment::NEVER,
            task: TaskAllowance::UNLIMITED,
            marker: Marker::None,
            earlier: None,
        };
        let chance = self.draw();
        self.engine.handle_submit(self.now, chance, submit);
    }

    /// The caller of an action has its answer, and asks for the next thing.
    fn again(&mut self, action: ActionId, after: Span) {
        if let Some(caller) = self.callers.remove(&action) {
            self.later(after, Due::Call(caller));
        }
    }

    // ---- the way ----------------------------------------------------------------

    fn first_byte(&mut self, action: ActionId, attempt: AttemptNo) {
        let stays = self.engine.is_overtaken(action)
            || self.engine.handle_sent(self.now, action) == Leave::CalledBack;
        if stays {
            return self.report(action, attempt, Evidence::NotSent(NotSent::Withdrawn));
        }
        let way = way(&mut self.way, self.trial.jitter);
        self.later(way, Due::Arrive(action, attempt, self.now));
    }

    fn arrive(&mut self, action: ActionId, attempt: AttemptNo, left: Moment) {
        let number = u64::try_from(action.0).unwrap_or(u64::MAX);
        let plan = self.site.arrive(self.now, &self.trial.work.request(number));
        let seen = plan.seen();
        self.later(seen.last, Due::Finish(plan.ticket));
        self.arrivals.insert(plan.ticket.no, self.count.met.len());
        let back = seen.last + WAY;
        let Some(head) = &seen.head else {
            debug_assert!(false, "nothing breaks in a trial");
            return;
        };
        self.count.met.push(Met {
            left,
            arrived: self.now,
            heard: self.now + back,
            accepted: head.status != 429,
            units: 0,
        });
        // By the governor's own clock, whatever the provider's says.
        let wall = WALL + (self.now + back).since(Moment::START);
        let facts = facts_of(head, &seen.body, wall);
        let usage = usage_of(self.trial.work, head.status, &seen.body);
        let answer = Box::new(Answer { facts, usage });
        self.later(back, Due::Answer(action, attempt, answer));
    }

    /// The provider is done with a call, and says what it charged it.
    fn finish(&mut self, ticket: Ticket) {
        self.site.finish(self.now, ticket, Finish::Answered);
        let Some(place) = self.arrivals.remove(&ticket.no) else {
            return;
        };
        let mut listed = self.site.ledger().arrivals().rev();
        let charged = listed.find(|arrival| arrival.no == ticket.no);
        let units = charged.and_then(|one| one.charged.get(self.trial.work.word()));
        self.count.met[place].units = units.copied().unwrap_or(0);
    }

    fn report(&mut self, action: ActionId, attempt: AttemptNo, evidence: Evidence) {
        let report = Report {
            action,
            attempt,
            bytes_written: u64::from(!matches!(evidence, Evidence::NotSent(_))),
            evidence,
            task: TaskAllowance::UNLIMITED,
        };
        let chance = self.draw();
        self.engine.handle_report(self.now, chance, report);
    }

    /// A call of somebody else, at even distances but for a tenth.
    fn somebody_else(&mut self) {
        let Happening::Foreign(percent) = self.trial.happening else {
            return;
        };
        self.serial += 1;
        let request = self.trial.work.request(self.serial);
        let plan = self.site.arrive(self.now, &request);
        let accepted = plan.seen().head.is_some_and(|head| head.status != 429);
        self.count.foreign += u64::from(accepted);
        self.site.finish(self.now, plan.ticket, Finish::Answered);
        let size = self.trial.size;
        let apart = size.window.scale(100, size.limit * percent.max(1));
        let tenth = apart.as_micros() / 10;
        let off = self.foreign.below(2 * tenth + 1);
        self.later(
            Span::from_micros(apart.as_micros() - tenth + off),
            Due::Foreign,
        );
    }

    // ---- small things -----------------------------------------------------------

    fn draw(&mut self) -> rategov_core::engine::Chance {
        self.serial += 1;
        self.chance.chance(self.serial)
    }

    fn later(&mut self, span: Span, due: Due) {
        self.at(self.now + span, due);
    }

    fn at(&mut self, at: Moment, due: Due) {
        self.serial += 1;
        self.due.insert((at, self.serial), due);
    }
}

/// How long a call is on its way: half of them within the first tenth of the
/// jitter, the rest anywhere in it. Calls overtake each other.
fn way(random: &mut Random, jitter: Span) -> Span {
    let most = match random.happens(500) {
        true => jitter.scale(1, 10),
        false => jitter,
    };
    WAY + Span::from_micros(random.below(most.as_micros() + 1))
}

/// What the answer of a model call says that it took.
fn usage_of(work: Work, status: u16, body: &[u8]) -> Option<Usage> {
    if work == Work::Calls || status != 200 {
        return None;
    }
    let json: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let tokens = |name: &str| json["usage"][name].as_u64();
    Some(Usage {
        input: tokens("prompt_tokens"),
        output: tokens("completion_tokens"),
        total: tokens("total_tokens"),
        output_bytes: body.len() as u64,
        seen: Seen::Whole,
        ..Usage::default()
    })
}

fn micros(seconds: u64) -> i64 {
    i64::try_from(Span::from_secs(seconds).as_micros()).unwrap_or(i64::MAX)
}

fn names() -> (Account, Scope) {
    (
        Account::new("judge/judge").expect("short printable ASCII"),
        Scope::new("account:judge").expect("short printable ASCII"),
    )
}

fn template() -> Requested {
    let plain = "short printable ASCII";
    Requested {
        action: ActionId(0),
        provider: Name::new("judge").expect(plain),
        account: names().0,
        credential: Credential::new("judge#1").expect(plain),
        agent: Agent::new("agent").expect(plain),
        task: None,
        task_stops: 0,
        goal: None,
        priority: Priority::Normal,
        class: Class::Read,
        method: "GET".to_owned(),
        endpoint: Endpoint::new("GET /records").expect(plain),
        model: None,
        path: "/records".to_owned(),
        fingerprint: Fingerprint([0; 16]),
        payload_digest: [0; 32],
        payload_bytes: 0,
        replayable: true,
        key: None,
        earlier: None,
        deadline: Moment::NEVER,
        detached: false,
        authorised_by: "simulated".to_owned(),
        parent: None,
    }
}
