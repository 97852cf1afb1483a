//! What the scheduler promises, said as tests. Time is virtual throughout.

// A test that can't go on has failed.
#![allow(clippy::unwrap_used)]

mod fairness;
mod order;
mod places;
mod reference;
mod starvation;
mod world;

use std::collections::BTreeMap;

use super::tag::Tag;
use super::*;
use crate::cost::Cost;
use crate::id::Agent;

/// Every lane is open to every rank.
const OPEN: fn(Lane, Priority) -> Way = |_, _| Way::Open;

/// These lanes are blocked for these ranks, all others open.
fn except(blocked: impl Fn(Lane, Priority) -> bool) -> impl Fn(Lane, Priority) -> Way {
    move |lane, priority| {
        if blocked(lane, priority) {
            Way::Blocked
        } else {
            Way::Open
        }
    }
}

fn agent(n: usize) -> Agent {
    Agent::new(&format!("agent-{n}")).unwrap()
}

fn at(us: u64) -> Moment {
    Moment::from_micros(us)
}

/// A call of cost 1 in lane 0 that may go at once.
fn call(ask: AskKey, priority: Priority, n: usize) -> Waiter {
    Waiter {
        ask,
        priority,
        agent: agent(n),
        weight: 1,
        lane: Lane(0),
        cost: Cost::ONE,
        ready_at: Moment::START,
        arrived: Moment::START,
        place: None,
    }
}

/// A schedule without floors in which these calls wait; the first key is 1.
fn waiting(calls: &[(Priority, usize)]) -> Schedule {
    let mut schedule = Schedule::new([0; 3]);
    for (ask, (priority, agent)) in (1..).zip(calls) {
        schedule.insert(Moment::START, call(ask, *priority, *agent));
    }
    schedule
}

/// Lets calls go until none can, in lanes that are open.
fn drain(schedule: &mut Schedule, now: Moment) -> Vec<AskKey> {
    let mut order = Vec::new();
    while let Some(pick) = schedule.pick(now, OPEN) {
        let taken = schedule.take(pick).unwrap();
        order.push(taken.waiter.ask);
    }
    order
}
