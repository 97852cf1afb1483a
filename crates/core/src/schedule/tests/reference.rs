//! The scheduler beside a plain one that looks at every call each time: whatever
//! happens, both name the same next call.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// An agent's tag, as the rule is written in `fair.rs`.
type Order = (Tag, AskKey, u64);

/// Every waiting call in one list, every agent's tag in another.
#[derive(Default)]
struct Plain {
    waiting: Vec<Waiter>,
    /// Whether a call could already go when this was last looked at.
    woken: BTreeSet<AskKey>,
    tags: BTreeMap<(usize, Agent), Order>,
    now: [Tag; 3],
    newest: [AskKey; 3],
    serial: u64,
}

impl Plain {
    fn able(&self, rank: usize) -> impl Iterator<Item = &Waiter> {
        let here = move |w: &&Waiter| w.priority as usize == rank && self.woken.contains(&w.ask);
        self.waiting.iter().filter(here)
    }

    fn wake(&mut self, now: Moment, floors: &mut Floors) {
        let mut due: Vec<_> = self
            .waiting
            .iter()
            .filter(|w| w.ready_at <= now)
            .cloned()
            .collect();
        due.sort_by_key(|w| (w.ready_at, w.ask));
        for w in due {
            if self.woken.contains(&w.ask) {
                continue;
            }
            let rank = w.priority as usize;
            if self.able(rank).next().is_none() {
                floors.begin(w.priority, w.units());
            }
            if !self.able(rank).any(|other| other.agent == w.agent) {
                self.serial += 1;
                let finish = self
                    .tags
                    .get(&(rank, w.agent.clone()))
                    .map_or(self.now[rank], |t| t.0);
                let order = (finish.max(self.now[rank]), w.seat().place, self.serial);
                self.tags.insert((rank, w.agent.clone()), order);
            }
            self.woken.insert(w.ask);
        }
    }

    fn insert(&mut self, now: Moment, waiter: Waiter, floors: &mut Floors) {
        let rank = waiter.priority as usize;
        self.newest[rank] = self.newest[rank].max(waiter.ask);
        let ready = waiter.ready_at <= now;
        self.waiting.push(waiter);
        if ready {
            self.wake(now, floors);
        }
    }

    fn first(&self, rank: usize, open: impl Fn(Lane) -> bool) -> Option<&Waiter> {
        let open = self.able(rank).filter(|w| open(w.lane));
        open.min_by_key(|w| (self.tags[&(rank, w.agent.clone())], w.seat()))
    }

    fn remove(&mut self, ask: AskKey) -> Option<Waiter> {
        let at = self.waiting.iter().position(|w| w.ask == ask)?;
        let waiter = self.waiting.swap_remove(at);
        self.woken.remove(&ask);
        let rank = waiter.priority as usize;
        if !self.waiting.iter().any(|w| w.priority == waiter.priority) {
            self.tags.retain(|(other, _), _| *other != rank);
        }
        Some(waiter)
    }

    /// Who goes, and which ranks are passed over.
    fn pick(
        &mut self,
        now: Moment,
        floors: &mut Floors,
        way: impl Fn(Lane, Priority) -> Way,
    ) -> Option<(AskKey, Passed)> {
        self.wake(now, floors);
        let open = |p: Priority| self.first(p as usize, |lane| way(lane, p) == Way::Open);
        let owed = Priority::ALL.iter().filter_map(|p| {
            let waiter = self.first(*p as usize, |lane| way(lane, *p) != Way::Blocked)?;
            Some((floors.owed(*p, waiter.units())?, *p, waiter))
        });
        let owed = owed
            .min_by_key(|(deadline, p, _)| (*deadline, *p))
            .map(|(_, _, w)| w);
        let chosen = owed.or_else(|| Priority::ALL.iter().find_map(|p| open(*p)))?;
        let mut passed = Passed::default();
        for other in Priority::ALL.iter().filter(|p| **p != chosen.priority) {
            let mut able = self.able(*other as usize);
            if floors.permille(*other) > 0 && able.any(|w| way(w.lane, *other) != Way::Blocked) {
                passed.note(*other);
            }
        }
        Some((chosen.ask, passed))
    }

    fn take(&mut self, ask: AskKey, passed: Passed, floors: &mut Floors) {
        let waiter = self.waiting.iter().find(|w| w.ask == ask).unwrap();
        let (rank, units, step) = (waiter.priority as usize, waiter.units(), waiter.step());
        floors.serve(waiter.priority, units, passed);
        self.serial += 1;
        let tag = self.tags.get_mut(&(rank, waiter.agent.clone())).unwrap();
        let start = tag.0.max(self.now[rank]);
        *tag = (start.plus(step), self.newest[rank], self.serial);
        self.now[rank] = start;
        self.remove(ask);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask {
        rank: usize,
        agent: usize,
        lane: u32,
        cost: u32,
        delay: u64,
        keeps: Option<u64>,
    },
    Remove {
        nth: usize,
    },
    Pass {
        us: u64,
    },
    Turns {
        count: usize,
        ways: [[Way; 3]; 3],
    },
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![Just(Way::Open), Just(Way::Held), Just(Way::Blocked)]
}

fn step() -> impl Strategy<Value = Step> {
    let ask = (
        0..3_usize,
        0..4_usize,
        0..3_u32,
        prop_oneof![3 => Just(1), 1 => 1..7_u32],
        prop_oneof![4 => Just(0), 1 => 1..50_u64],
        prop_oneof![5 => Just(None), 1 => (1..10_u64).prop_map(Some)],
    );
    prop_oneof![
        8 => ask.prop_map(|(rank, agent, lane, cost, delay, keeps)| {
            Step::Ask { rank, agent, lane, cost, delay, keeps }
        }),
        1 => (0..20_usize).prop_map(|nth| Step::Remove { nth }),
        1 => (1..30_u64).prop_map(|us| Step::Pass { us }),
        4 => (1..5_usize, prop::array::uniform3(prop::array::uniform3(way())))
            .prop_map(|(count, ways)| Step::Turns { count, ways }),
        4 => (1..5_usize).prop_map(|count| Step::Turns { count, ways: [[Way::Open; 3]; 3] }),
    ]
}

proptest! {
    #[test]
    fn the_next_call_is_the_one_that_the_rules_name(
        steps in prop::collection::vec(step(), 1..80),
        floors in prop_oneof![Just([0, 100, 50]), Just([200, 300, 500])],
    ) {
        let (mut schedule, mut plain) = (Schedule::new(floors), Plain::default());
        let (mut credits, mut ask, mut now) = (Floors::new(floors), 100, Moment::START);
        for step in steps {
            match step {
                Step::Ask { rank, agent, lane, cost, delay, keeps } => {
                    ask += 1;
                    let waiter = Waiter {
                        weight: agent as u32 + 1,
                        lane: Lane(lane),
                        cost: Cost::requests(cost),
                        ready_at: now + crate::time::Span::from_micros(delay),
                        place: keeps.map(|back| ask - back),
                        ..call(ask, Priority::ALL[rank], agent)
                    };
                    // Both wake what is due first, so that turns compare.
                    schedule.wake(now);
                    plain.wake(now, &mut credits);
                    schedule.insert(now, waiter.clone());
                    plain.insert(now, waiter, &mut credits);
                }
                Step::Remove { nth } => {
                    let gone = schedule.iter().nth(nth).map(|w| w.ask);
                    if let Some(gone) = gone {
                        prop_assert_eq!(schedule.remove(gone), plain.remove(gone));
                    }
                }
                Step::Pass { us } => now = now + crate::time::Span::from_micros(us),
                Step::Turns { count, ways } => for _ in 0..count {
                    let way = |lane: Lane, p: Priority| ways[lane.0 as usize][p as usize];
                    let pick = schedule.pick(now, way);
                    prop_assert_eq!(schedule.pick(now, way), pick, "asked twice");
                    let named = plain.pick(now, &mut credits, way);
                    prop_assert_eq!(pick.map(|p| (p.ask, p.passed)), named);
                    let Some(pick) = pick else { break };
                    let _ = schedule.take(pick).unwrap();
                    plain.take(pick.ask, pick.passed, &mut credits);
                }
            }
            prop_assert_eq!(schedule.len(), plain.waiting.len());
        }
    }
}
