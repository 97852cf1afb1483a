//! Random histories: calls, answers, decisions, lost commits and crashes in any
//! order. After every step the world itself compares the engine with the fold of
//! its records; at the end the provider's own count is what matters.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use rategov_core::action::outcome::{Body, Evidence, Lost, NotSent, Upload};
use rategov_core::engine::BodyEnd;
use rategov_core::event::Found;
use rategov_core::id::{ActionId, RecordSeq};
use rategov_core::observe::{Facts, Meaning};
use rategov_core::word::{Choice, Class, Priority, State};

use super::support::call::{Call, generation, keyed, ms, read, secs, write};
use super::support::provider::{Arrival, Say, Script, What, limited};
use super::support::world::World;

#[derive(Clone, Debug)]
enum Step {
    Call(u8, u8),
    Repeat(u8),
    Pass(u32),
    Cancel(u8),
    HangUp(u8),
    Decide(u8),
    LoseCommit(u8),
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<u8>(), any::<u8>()).prop_map(|(kind, agent)| Step::Call(kind, agent)),
        2 => any::<u8>().prop_map(Step::Repeat),
        8 => (0_u32..4_000).prop_map(Step::Pass),
        1 => any::<u8>().prop_map(Step::Cancel),
        1 => any::<u8>().prop_map(Step::HangUp),
        2 => any::<u8>().prop_map(Step::Decide),
        1 => (0_u8..6).prop_map(Step::LoseCommit),
        1 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..60)
}

/// What the provider did, by its own count.
#[derive(Debug, Default)]
struct Effects {
    /// By key, or by action where there is none.
    done: BTreeMap<String, u32>,
    /// Effects that were to happen later, when a late copy arrives.
    late: Vec<(rategov_core::time::Moment, String, bool)>,
}

impl Effects {
    fn name(arrival: &Arrival) -> String {
        match &arrival.key {
            Some(key) => key.clone(),
            None => arrival.action.to_string(),
        }
    }

    fn happen(&mut self, name: &str, deduplicated: bool) {
        let count = self.done.entry(name.to_owned()).or_default();
        if !deduplicated || *count == 0 {
            *count += 1;
        }
    }

    fn come(&mut self, now: rategov_core::time::Moment) {
        let late = std::mem::take(&mut self.late);
        for (at, name, deduplicated) in late {
            match at <= now {
                true => self.happen(&name, deduplicated),
                false => self.late.push((at, name, deduplicated)),
            }
        }
    }
}

fn answered(status: u16, meaning: Meaning, body: Body) -> Evidence {
    Evidence::Answered {
        facts: Facts::bare(status, meaning),
        body,
        upload: Upload::Complete,
    }
}

/// A provider that takes every turn there is, by a fixed sequence of bytes. It
/// remembers keys, and its look-up tells the truth about what has arrived.
fn provider(turns: Vec<u8>, effects: Rc<RefCell<Effects>>) -> Script {
    let mut turns = turns.into_iter().cycle();
    Box::new(move |arrival: &Arrival| {
        let turn = turns.next().unwrap_or(0);
        let mut effects = effects.borrow_mut();
        effects.come(arrival.at);
        let name = Effects::name(arrival);
        let keyed = arrival.key.is_some();
        if let What::Lookup(_) = arrival.what {
            let known = effects.done.get(&name).copied().unwrap_or(0);
            return Say::found(match (turn % 8, known) {
                (0, _) => Found::NoAnswer,
                (1, 1..) => Found::Running,
                (_, 0) => Found::Nothing,
                (_, _) => Found::Done,
            });
        }
        let lost = Evidence::Lost(Lost::Closed);
        match turn % 16 {
            0 => Say::Evidence(ms(10), Evidence::NotSent(NotSent::Connect)),
            1 => Say::facts(limited(Some(u64::from(turn / 16) % 4))),
            2 => Say::Evidence(ms(30), answered(503, Meaning::Overloaded, Body::Complete)),
            3 => Say::Evidence(ms(30), answered(400, Meaning::CallerError, Body::Complete)),
            // Lost before its effect, or the effect comes with a late copy.
            4 => Say::Evidence(ms(200), lost),
            5 => {
                let at = arrival.at + ms(u64::from(turn) * 15);
                effects.late.push((at, name, keyed));
                Say::Evidence(ms(200), lost)
            }
            // Lost after its effect.
            6 | 7 => {
                effects.happen(&name, keyed);
                Say::Evidence(ms(200), lost)
            }
            8 => {
                effects.happen(&name, keyed);
                Say::Evidence(ms(50), answered(201, Meaning::Ok, Body::Cut))
            }
            9 => Say::Evidence(
                ms(60),
                answered(500, Meaning::ProviderError, Body::Complete),
            ),
            10 => {
                effects.happen(&name, keyed);
                let facts = Facts::bare(200, Meaning::Ok);
                let end = match turn / 16 % 3 {
                    0 => BodyEnd::Cut,
                    1 => BodyEnd::CallerGone,
                    _ => BodyEnd::Complete,
                };
                Say::Stream(ms(40), facts, ms(700), end)
            }
            11 => Say::facts(Facts::bare(503, Meaning::Overloaded)).after(secs(3)),
            _ => {
                effects.happen(&name, keyed);
                Say::ok().after(ms(20 + u64::from(turn) * 3))
            }
        }
    })
}

fn call(kind: u8, agent: u8, n: usize) -> Call {
    let agent = format!("agent-{}", agent % 3);
    let key = format!("key-{n}");
    let call = match kind % 8 {
        0 | 1 => read(&agent),
        2 => generation(&agent),
        3 => write(&agent),
        4 => write(&agent).with_lookup(),
        5 => keyed(&agent, &key),
        _ => keyed(&agent, &key).with_lookup(),
    };
    call.with(|call| {
        call.path = format!("/{n}");
        call.priority = Priority::ALL[usize::from(kind / 8) % 3];
        call.detached = (kind / 32).is_multiple_of(3);
        call.may_send_new = false;
        call.concurrent = (kind / 64 == 1).then_some(1);
        if kind / 64 == 2 {
            call.deadline = Some(secs(20));
        }
        call.hold = secs(30);
    })
}

fn run(history: &[Step], turns: Vec<u8>) -> Result<(), TestCaseError> {
    let effects = Rc::new(RefCell::new(Effects::default()));
    let mut world = World::new().saying(provider(turns, Rc::clone(&effects)));
    let mut calls: Vec<(ActionId, Call)> = Vec::new();
    // Sends that a person allowed beyond the class's.
    let mut allowed: BTreeMap<ActionId, u16> = BTreeMap::new();
    let pick = |calls: &[(ActionId, Call)], n: u8| {
        let n = usize::from(n).checked_rem(calls.len())?;
        calls.get(n).cloned()
    };
    for step in history {
        match step {
            Step::Call(kind, agent) => {
                let call = call(*kind, *agent, calls.len());
                let id = world.submit(&call);
                calls.push((id, call));
            }
            Step::Repeat(n) => {
                if let Some((_, call)) = pick(&calls, *n) {
                    let id = world.submit(&call);
                    calls.push((id, call));
                }
            }
            Step::Pass(span) => world.pass(ms(u64::from(*span))),
            Step::Cancel(n) => {
                if let Some((id, _)) = pick(&calls, *n) {
                    world.cancel(id);
                }
            }
            Step::HangUp(n) => {
                if let Some((id, _)) = pick(&calls, *n) {
                    world.hang_up(id);
                }
            }
            Step::Decide(n) => {
                // Whoever decides has looked at the provider, late copies included.
                let open: Vec<_> = world.engine.escalations().cloned().collect();
                let question = open.get(usize::from(*n).checked_rem(open.len()).unwrap_or(0));
                if let Some(question) = question {
                    let choices: Vec<Choice> = question
                        .choices
                        .iter()
                        .copied()
                        .filter(|choice| *choice != Choice::ItDidNot)
                        .collect();
                    let choice = choices[usize::from(n / 16) % choices.len()];
                    let taken = world.decide_on(question.escalation, choice, None).is_ok();
                    if let (true, Choice::RetrySameKey, Some(id)) = (taken, choice, question.action)
                    {
                        *allowed.entry(id).or_default() += 1;
                    }
                }
            }
            Step::LoseCommit(n) => {
                let last = world.records.last().map_or(0, |record| record.seq.0);
                world.lose_from = Some(RecordSeq(last + u64::from(*n)));
            }
            Step::Crash => world.crash(),
        }
        if world.faulted {
            world.crash();
        }
    }
    for _ in 0..3 {
        world.lose_from = None;
        world.pass(secs(1_000));
        if world.faulted {
            world.crash();
        }
    }
    verdict(&world, &calls, &allowed, &effects.borrow())
}

fn verdict(
    world: &World,
    calls: &[(ActionId, Call)],
    allowed: &BTreeMap<ActionId, u16>,
    effects: &Effects,
) -> Result<(), TestCaseError> {
    for row in world.durable.actions() {
        let id = row.requested.action;
        let is_write = row.requested.class.is_write();
        let name = row.requested.key.clone().unwrap_or_else(|| id.to_string());
        let happened = effects.done.get(&name).copied().unwrap_or(0);
        if is_write {
            prop_assert!(happened <= 1, "{name} happened {happened} times");
        }
        prop_assert!(
            row.state.is_final() || row.state == State::Escalated,
            "{id} is {}",
            row.state
        );
        // What is called failed or not sent did not happen; what is called done did.
        // A key can be used by several actions, one after the other.
        let alone = calls
            .iter()
            .filter(|(_, call)| call.key == row.requested.key)
            .count()
            == 1;
        let unkeyed = row.requested.key.is_none();
        if is_write && (alone || unkeyed) {
            match row.state {
                State::FailedDefinite | State::CancelledNotSent => {
                    prop_assert_eq!(happened, 0, "{} is {}", id, row.state);
                }
                State::Succeeded if row.code != "result_lost" => {
                    prop_assert_eq!(happened, 1, "{} is {}", id, row.state);
                }
                _ => {}
            }
        }
        let by_class = match row.requested.class {
            Class::UncertainWrite => 1,
            Class::IdempotentWrite => 3,
            Class::Read | Class::Generation => 4,
        };
        // What was called back before its first byte has a number and costs nothing.
        let extra = [allowed.get(&id), world.withdrawn.get(&id)];
        let most = by_class + extra.into_iter().flatten().sum::<u16>();
        prop_assert!(row.attempts <= most, "{id} was sent {} times", row.attempts);
        prop_assert!(row.waited <= secs(120), "{id} waited {}", row.waited);
    }
    prop_assert_eq!(world.engine.on_the_wire(), 0);
    prop_assert_eq!(world.engine.waiting(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn no_history_makes_a_write_happen_twice_or_the_journal_lie(
        history in steps(),
        turns in proptest::collection::vec(any::<u8>(), 24),
    ) {
        run(&history, turns)?;
    }
}
