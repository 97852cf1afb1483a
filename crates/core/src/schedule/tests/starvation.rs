//! Nothing starves: the bound of invariant 17, in work handed out.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// An agent's calls: a rank, and a cost that all of them have.
#[derive(Clone, Debug)]
struct Load {
    rank: usize,
    cost: u32,
    /// Calls still to come, each when the one before has gone, after a pause.
    calls: usize,
    /// Grants of others between its call and its next.
    pause: usize,
}

fn load() -> impl Strategy<Value = Load> {
    (
        0..3_usize,
        1..=20_u32,
        1..30_usize,
        prop_oneof![Just(0), 0..40_usize],
    )
        .prop_map(|(rank, cost, calls, pause)| Load {
            rank,
            cost,
            calls,
            pause,
        })
}

fn floors() -> impl Strategy<Value = [u32; 3]> {
    prop_oneof![
        Just([0, 100, 50]),
        Just([0, 0, 50]),
        Just([200, 300, 500]),
        (0..=300_u32, 1..=300_u32, 1..=300_u32).prop_map(|(a, b, c)| [a, b, c]),
    ]
}

/// Every agent has at most one call waiting, so each call is the head of its agent.
/// Between its arrival and the end of its grant no more is handed out than
/// (Σ largest of its rank's other agents + own) / floor + one largest + one of each
/// other rank with a floor. If costs differ inside the rank, an agent that has
/// just had a call also lets each other agent catch up with what it got.
fn check(floors: [u32; 3], loads: &[Load]) -> Result<(), TestCaseError> {
    let mut schedule = Schedule::new(floors);
    let largest = loads.iter().map(|load| load.cost).max().unwrap_or(1);
    let of = |rank: usize| loads.iter().filter(move |load| load.rank == rank);
    let mut left: Vec<_> = loads.iter().map(|load| load.calls).collect();
    // By the number of the grant before which they arrive.
    let mut arrivals: BTreeSet<_> = (0..loads.len()).map(|n| (n % 7, n)).collect();
    let mut since = BTreeMap::new();
    let (mut work, mut ask) = (0_u64, 0);
    for grant in 0.. {
        while let Some(&(when, n)) = arrivals.first()
            && (when <= grant || schedule.is_empty())
        {
            arrivals.pop_first();
            ask += 1;
            let Load {
                rank,
                cost: requests,
                ..
            } = loads[n];
            let cost = Cost::requests(requests);
            let waiter = Waiter {
                cost,
                ..call(ask, Priority::ALL[rank], n)
            };
            schedule.insert(Moment::START, waiter);
            since.insert(ask, (work, n));
        }
        let Some(pick) = schedule.pick(Moment::START, OPEN) else {
            break;
        };
        let _ = schedule.take(pick).unwrap();
        let (arrived, n) = since[&pick.ask()];
        let Load {
            rank, cost, pause, ..
        } = loads[n];
        work += u64::from(cost);
        let mut sum: u32 = of(rank).map(|load| load.cost).sum();
        if left[n] < loads[n].calls && of(rank).any(|load| load.cost != cost) {
            sum += (of(rank).count() as u32 - 1) * cost;
        }
        let others = (0..3).filter(|other| *other != rank && floors[*other] > 0);
        let others: u32 = others
            .map(|other| of(other).map(|load| load.cost).max().unwrap_or(0))
            .sum();
        if floors[rank] > 0 {
            let bound = u64::from(sum) * 1_000 / u64::from(floors[rank])
                + u64::from(largest)
                + u64::from(others);
            prop_assert!(
                work - arrived <= bound,
                "{} > {bound}, {:?}",
                work - arrived,
                loads[n]
            );
        }
        left[n] -= 1;
        if left[n] > 0 {
            arrivals.insert((grant + 1 + pause, n));
        }
    }
    prop_assert!(left.iter().all(|calls| *calls == 0), "calls were left over");
    Ok(())
}

proptest! {
    #[test]
    fn no_call_waits_longer_than_its_floor_allows(
        floors in floors(),
        loads in prop::collection::vec(load(), 1..12),
    ) {
        check(floors, &loads)?;
    }
}

#[test]
fn with_equal_costs_the_bound_holds_as_it_is_written() {
    // 5 background agents, floor 50: (4 + 1) / 0.05 + 1 = 101 grants.
    let mut schedule = Schedule::new([0, 100, 50]);
    let mut ask = 0;
    let mut insert = |schedule: &mut Schedule, priority, n| {
        ask += 1;
        schedule.insert(Moment::START, call(ask, priority, n));
        ask
    };
    for n in 0..10 {
        insert(&mut schedule, Priority::Interactive, n);
        insert(&mut schedule, Priority::Normal, 10 + n);
    }
    let mut since = BTreeMap::new();
    for n in 20..25 {
        since.insert(insert(&mut schedule, Priority::Background, n), 0);
    }
    let mut longest = 0;
    for grant in 1..=2_000_usize {
        let pick = schedule.pick(Moment::START, OPEN).unwrap();
        let Waiter {
            priority,
            agent: who,
            ..
        } = schedule.take(pick).unwrap().waiter;
        let n = (0..25).find(|n| agent(*n) == who).unwrap();
        let next = insert(&mut schedule, priority, n);
        if let Some(arrived) = since.remove(&pick.ask()) {
            longest = longest.max(grant - arrived);
            since.insert(next, grant);
        }
    }
    assert!((100..=101).contains(&longest), "{longest}");
}
