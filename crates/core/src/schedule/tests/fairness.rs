//! Agents of one rank share it: measured against the definition, not against
//! the tags.

use proptest::prelude::*;

use super::*;
use Priority::Normal;

const AGENTS: usize = 4;
const COST_MAX: u32 = 9;

/// What happens before each turn.
#[derive(Clone, Debug)]
enum Step {
    /// An agent queues calls in a lane.
    Ask {
        agent: usize,
        lane: u32,
        costs: Vec<u32>,
    },
    /// From now on only these lanes are open.
    Open { lanes: [bool; 2] },
    /// Turns are taken.
    Turns { count: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let costs = prop::collection::vec(1..=COST_MAX, 1..30);
    prop_oneof![
        3 => (0..AGENTS, 0..2_u32, costs)
            .prop_map(|(agent, lane, costs)| Step::Ask { agent, lane, costs }),
        1 => any::<[bool; 2]>().prop_map(|lanes| Step::Open { lanes }),
        4 => (1..25_usize).prop_map(|count| Step::Turns { count }),
    ]
}

/// Of one pair of agents, over one stretch in which both could go: the extremes
/// of what the first got per weight less what the second got.
#[derive(Clone, Copy, Default)]
struct Gap {
    now: i64,
    least: i64,
    most: i64,
}

/// Runs the steps; fails as soon as, over any stretch in which two agents both
/// had a call in an open lane, what they got per weight differs by more than one
/// largest call of each.
fn check(steps: &[Step], weights: [u32; AGENTS]) -> Result<(), TestCaseError> {
    // Shares are counted in 1/840, which every weight up to 8 divides.
    let per = |units: u32, agent: usize| i64::from(units) * 840 / i64::from(weights[agent]);
    let mut schedule = Schedule::new([0; 3]);
    let mut queued = [[0; 2]; AGENTS];
    let mut gaps = [[Gap::default(); AGENTS]; AGENTS];
    let (mut open, mut ask) = ([true; 2], 0);
    for step in steps {
        match step {
            Step::Ask {
                agent: n,
                lane,
                costs,
            } => {
                for requests in costs {
                    ask += 1;
                    let (weight, lane, cost) =
                        (weights[*n], Lane(*lane), Cost::requests(*requests));
                    let waiter = Waiter {
                        weight,
                        lane,
                        cost,
                        ..call(ask, Normal, *n)
                    };
                    schedule.insert(Moment::START, waiter);
                    queued[*n][lane.0 as usize] += 1;
                }
            }
            Step::Open { lanes } => open = *lanes,
            Step::Turns { count } => {
                for _ in 0..*count {
                    let able = |n: usize| (0..2).any(|lane| open[lane] && queued[n][lane] > 0);
                    let both: Vec<_> = (0..AGENTS).map(able).collect();
                    let pick =
                        schedule.pick(Moment::START, except(|lane, _| !open[lane.0 as usize]));
                    prop_assert_eq!(pick.is_some(), both.contains(&true), "quota left idle");
                    let Some(pick) = pick else { break };
                    let Waiter {
                        agent: who,
                        lane,
                        cost,
                        ..
                    } = schedule.take(pick).unwrap().waiter;
                    let who = (0..AGENTS).find(|n| agent(*n) == who).unwrap();
                    queued[who][lane.0 as usize] -= 1;
                    for i in 0..AGENTS {
                        for j in 0..AGENTS {
                            let gap = &mut gaps[i][j];
                            if i == j || !both[i] || !both[j] {
                                *gap = Gap::default();
                                continue;
                            }
                            if who == i {
                                gap.now += per(cost.calls(), i);
                            }
                            if who == j {
                                gap.now -= per(cost.calls(), j);
                            }
                            gap.least = gap.least.min(gap.now);
                            gap.most = gap.most.max(gap.now);
                            let bound = per(COST_MAX, i) + per(COST_MAX, j);
                            prop_assert!(gap.most - gap.least <= bound, "agents {} and {}", i, j);
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn two_agents_that_both_wait_never_drift_apart(
        steps in prop::collection::vec(step(), 1..40),
        weights in prop::array::uniform4(1..=8_u32),
    ) {
        check(&steps, weights)?;
    }
}

#[test]
fn one_greedy_agent_of_two_hundred_slows_nobody_down() {
    let mut schedule = Schedule::new([0, 100, 50]);
    for ask in 1..=10_000 {
        schedule.insert(Moment::START, call(ask, Normal, 0));
    }
    for round in 0..5 {
        for n in 1..200 {
            schedule.insert(
                Moment::START,
                call(10_000 + round * 200 + n, Normal, n as usize),
            );
        }
    }
    let mut got = vec![0_u32; 200];
    for turn in 1..=1_000 {
        let pick = schedule.pick(Moment::START, OPEN).unwrap();
        let who = schedule.take(pick).unwrap().waiter.agent;
        got[(0..200).find(|n| agent(*n) == who).unwrap()] += 1;
        let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
        assert!(most - least <= 1, "after {turn} turns");
    }
    assert_eq!(got, vec![5; 200]);
    assert_eq!(schedule.len_of(&agent(0)), 9_995);
}
