//! The order in which waiting calls go: ranks, floors, turns, lanes, backoff.

use super::*;
use Priority::{Background, Interactive, Normal};

/// Calls arrive in this order with keys 1, 2, …; they go in that order.
fn check(calls: &[(Priority, usize)], order: &[AskKey]) {
    assert_eq!(drain(&mut waiting(calls), Moment::START), order);
}

#[test]
fn better_ranks_go_first() {
    check(
        &[
            (Background, 1),
            (Normal, 1),
            (Interactive, 1),
            (Normal, 2),
            (Interactive, 2),
        ],
        &[3, 5, 2, 4, 1],
    );
}

#[test]
fn agents_take_turns_whatever_number_of_calls_each_has() {
    let calls = [
        (Normal, 1),
        (Normal, 1),
        (Normal, 1),
        (Normal, 1),
        (Normal, 2),
        (Normal, 3),
    ];
    check(&calls, &[1, 5, 6, 2, 3, 4]);
}

#[test]
fn a_weight_of_two_gets_two_turns_for_one() {
    let mut schedule = Schedule::new([0; 3]);
    for ask in 1..=12 {
        let weight = if ask % 2 == 0 { 2 } else { 1 };
        let waiter = Waiter {
            weight,
            ..call(ask, Normal, weight as usize)
        };
        schedule.insert(Moment::START, waiter);
    }
    assert_eq!(
        drain(&mut schedule, Moment::START)[..9],
        [1, 2, 4, 3, 6, 8, 5, 10, 12]
    );
}

#[test]
fn an_agent_that_was_idle_banks_nothing() {
    let mut schedule = Schedule::new([0; 3]);
    for ask in 1..=50 {
        schedule.insert(Moment::START, call(ask, Normal, 1));
    }
    for _ in 0..40 {
        let pick = schedule.pick(Moment::START, OPEN).unwrap();
        let _ = schedule.take(pick).unwrap();
    }
    for ask in 51..=60 {
        schedule.insert(Moment::START, call(ask, Normal, 2));
    }
    // One turn for having come later, then one each, not ten in a row.
    let order = drain(&mut schedule, Moment::START);
    assert_eq!(order[..6], [51, 41, 52, 42, 53, 43]);
}

#[test]
fn the_floor_lets_a_background_call_go_twentieth() {
    let mut schedule = Schedule::new([0, 0, 50]);
    schedule.insert(Moment::START, call(1, Background, 1));
    for ask in 2..=101 {
        schedule.insert(Moment::START, call(ask, Interactive, 2));
    }
    assert_eq!(
        drain(&mut schedule, Moment::START)
            .iter()
            .position(|ask| *ask == 1),
        Some(19)
    );
}

#[test]
fn without_a_floor_the_lowest_rank_goes_last() {
    let mut schedule = Schedule::new([0; 3]);
    schedule.insert(Moment::START, call(1, Background, 1));
    for ask in 2..=101 {
        schedule.insert(Moment::START, call(ask, Interactive, 2));
    }
    assert_eq!(drain(&mut schedule, Moment::START).last(), Some(&1));
}

#[test]
fn a_floor_is_a_share_of_the_work_whatever_a_call_costs() {
    let mut schedule = Schedule::new([0, 0, 50]);
    for ask in 1..=2_000 {
        schedule.insert(Moment::START, call(ask, Interactive, 1));
        let cost = Cost::requests(7);
        schedule.insert(
            Moment::START,
            Waiter {
                cost,
                ..call(ask + 10_000, Background, 2)
            },
        );
    }
    let mut work = [0; 3];
    while schedule.len_at(Interactive) > 0 {
        let pick = schedule.pick(Moment::START, OPEN).unwrap();
        let taken = schedule.take(pick).unwrap();
        work[taken.waiter.priority as usize] += taken.waiter.cost.calls();
    }
    assert_eq!(work, [2_000, 0, 15 * 7]);
}

#[test]
fn a_caller_that_is_handed_back_and_returns_keeps_what_its_floor_earned() {
    let mut schedule = Schedule::new([0, 0, 50]);
    for ask in 1..=100 {
        schedule.insert(Moment::START, call(ask, Interactive, 1));
    }
    let mut went = Vec::new();
    for turn in 1..=40 {
        schedule.insert(Moment::START, call(100 + turn, Background, 2));
        let pick = schedule.pick(Moment::START, OPEN).unwrap();
        went.extend((pick.ask() > 100).then_some(turn));
        let _ = schedule.take(pick).unwrap();
        schedule.remove(100 + turn);
    }
    assert_eq!(went, [20, 40]);
}

#[test]
fn what_a_dear_call_earned_does_not_buy_many_cheap_ones() {
    let mut schedule = Schedule::new([0, 0, 50]);
    let cost = Cost::requests(100);
    schedule.insert(
        Moment::START,
        Waiter {
            cost,
            ..call(1, Background, 1)
        },
    );
    for ask in 2..=2_000 {
        schedule.insert(Moment::START, call(ask, Interactive, 2));
    }
    for _ in 0..1_500 {
        let pick = schedule.pick(Moment::START, OPEN).unwrap();
        let _ = schedule.take(pick).unwrap();
    }
    schedule.remove(1);
    for ask in 3_000..3_100 {
        schedule.insert(Moment::START, call(ask, Background, 1));
    }
    let order = drain(&mut schedule, Moment::START);
    let turns: Vec<_> = (1..=60).filter(|turn| order[turn - 1] >= 3_000).collect();
    assert_eq!(turns, [1, 20, 40, 60]);
}

#[test]
fn an_idle_rank_earns_no_floor() {
    let mut schedule = Schedule::new([0, 0, 50]);
    for ask in 1..=100 {
        schedule.insert(Moment::START, call(ask, Interactive, 1));
    }
    for _ in 0..50 {
        let pick = schedule.pick(Moment::START, OPEN).unwrap();
        let _ = schedule.take(pick).unwrap();
    }
    schedule.insert(Moment::START, call(101, Background, 2));
    assert_eq!(
        drain(&mut schedule, Moment::START)
            .iter()
            .position(|ask| *ask == 101),
        Some(19)
    );
}

#[test]
fn what_another_lane_hands_out_earns_no_floor_while_ones_own_is_shut() {
    // Lane 0 is wide and always open; lane 1 opens for every tenth grant. Were
    // all grants counted, background would be owed each of them.
    let mut schedule = Schedule::new([0, 0, 50]);
    for ask in 1..=1_000 {
        schedule.insert(Moment::START, call(ask, Interactive, 1));
    }
    for ask in 1_001..=1_100 {
        let lane = Lane(1);
        schedule.insert(
            Moment::START,
            Waiter {
                lane,
                ..call(ask, Interactive, 2)
            },
        );
        schedule.insert(
            Moment::START,
            Waiter {
                lane,
                ..call(ask + 100, Background, 3)
            },
        );
    }
    let mut through = [0; 3];
    for n in 0..1_000 {
        let way = except(|lane, _| (lane == Lane(1)) == (n % 10 != 0));
        let pick = schedule.pick(Moment::START, way).unwrap();
        let taken = schedule.take(pick).unwrap();
        if taken.waiter.lane == Lane(1) {
            through[taken.waiter.priority as usize] += 1;
        }
    }
    assert_eq!(through, [95, 0, 5]);
}

/// Background calls are held or blocked while 60 interactive ones go: which of
/// the grants are theirs.
fn check_floor(way: Way, turns: &[usize]) {
    let mut schedule = Schedule::new([0, 0, 50]);
    for ask in 1..=100 {
        schedule.insert(Moment::START, call(ask, Interactive, 1));
        schedule.insert(Moment::START, call(ask + 100, Background, 2));
    }
    let ways = |_, priority| {
        if priority == Background {
            way
        } else {
            Way::Open
        }
    };
    let mut went = Vec::new();
    for turn in 1..=60 {
        let pick = schedule.pick(Moment::START, ways).unwrap();
        if schedule.take(pick).unwrap().waiter.priority == Background {
            went.push(turn);
        }
    }
    assert_eq!(went, turns);
    // Being kept away stores no credit: the next is interactive in any case.
    assert!(
        schedule
            .pick(Moment::START, OPEN)
            .is_some_and(|pick| pick.ask() <= 100)
    );
}

#[test]
fn a_rank_that_is_held_has_its_floor_all_the_same() {
    check_floor(Way::Held, &[20, 40, 60]);
}

#[test]
fn a_rank_that_is_blocked_neither_goes_nor_earns() {
    check_floor(Way::Blocked, &[]);
}

#[test]
fn a_rank_that_is_held_waits_even_if_nobody_else_does() {
    let mut schedule = Schedule::new([0, 0, 50]);
    schedule.insert(Moment::START, call(1, Background, 1));
    assert_eq!(schedule.pick(Moment::START, |_, _| Way::Held), None);
}

#[test]
fn a_blocked_lane_stops_neither_other_lanes_nor_its_agent() {
    let mut schedule = Schedule::new([0; 3]);
    schedule.insert(Moment::START, call(1, Normal, 1));
    schedule.insert(
        Moment::START,
        Waiter {
            lane: Lane(1),
            ..call(2, Normal, 1)
        },
    );
    schedule.insert(Moment::START, call(3, Normal, 2));
    let way = except(|lane, _| lane == Lane(0));
    assert_eq!(schedule.pick(Moment::START, way).map(|p| p.ask()), Some(2));
    assert_eq!(schedule.pick(Moment::START, OPEN).map(|p| p.ask()), Some(1));
    assert_eq!(schedule.pick(Moment::START, |_, _| Way::Blocked), None);
}

#[test]
fn an_agent_whose_lanes_were_all_blocked_does_not_come_back_with_a_claim() {
    let mut schedule = Schedule::new([0; 3]);
    for ask in 1..=20 {
        schedule.insert(
            Moment::START,
            Waiter {
                lane: Lane(1),
                ..call(ask, Normal, 1)
            },
        );
    }
    for ask in 21..=60 {
        schedule.insert(Moment::START, call(ask, Normal, 2));
    }
    for _ in 0..30 {
        let pick = schedule
            .pick(Moment::START, except(|lane, _| lane == Lane(1)))
            .unwrap();
        let _ = schedule.take(pick).unwrap();
    }
    assert_eq!(drain(&mut schedule, Moment::START)[..5], [1, 51, 2, 52, 3]);
}

#[test]
fn a_call_in_backoff_goes_when_its_time_has_come_and_holds_up_nobody() {
    let mut schedule = Schedule::new([0; 3]);
    schedule.insert(
        at(5),
        Waiter {
            ready_at: at(100),
            ..call(1, Interactive, 1)
        },
    );
    schedule.insert(at(5), call(2, Interactive, 1));
    schedule.insert(at(5), call(3, Background, 2));
    assert_eq!(schedule.next_ready(), at(100));
    assert_eq!(drain(&mut schedule, at(99)), [2, 3]);
    assert_eq!(schedule.len(), 1);
    assert_eq!(drain(&mut schedule, at(100)), [1]);
    assert_eq!(schedule.next_ready(), Moment::NEVER);
}

#[test]
fn a_call_without_a_moment_waits_for_its_removal() {
    let mut schedule = Schedule::new([0; 3]);
    schedule.insert(
        at(5),
        Waiter {
            ready_at: Moment::NEVER,
            ..call(1, Normal, 1)
        },
    );
    assert_eq!(schedule.pick(at(u64::MAX - 1), OPEN), None);
    assert!(schedule.remove(1).is_some() && schedule.is_empty());
    assert_eq!(schedule.next_ready(), Moment::NEVER);
}

#[test]
fn a_call_that_was_picked_out_is_charged_like_any_other() {
    let mut schedule = waiting(&[(Normal, 1), (Normal, 1), (Normal, 2), (Normal, 2)]);
    let pick = schedule.pick_out(2).unwrap();
    assert_eq!(schedule.take(pick).unwrap().waiter.ask, 2);
    assert_eq!(drain(&mut schedule, Moment::START), [3, 1, 4]);
    assert_eq!(schedule.pick_out(2), None);
    assert_eq!(schedule.take(pick), None);
}

#[test]
fn a_call_that_cost_more_than_was_charged_is_paid_for_later() {
    let mut schedule = waiting(&[(Normal, 1), (Normal, 2)]);
    let pick = schedule.pick(Moment::START, OPEN).unwrap();
    let _ = schedule.take(pick).unwrap();
    schedule.correct(Normal, &agent(1), 1, 3);
    for ask in 3..=8 {
        schedule.insert(Moment::START, call(ask, Normal, 1 + ask as usize % 2));
    }
    // Agent 1 is 4 ahead: agent 2 has its three others, then it is agent 1's turn.
    assert_eq!(drain(&mut schedule, Moment::START), [2, 3, 5, 7, 4, 6, 8]);
}

#[test]
fn a_correction_also_reaches_an_agent_that_waits_in_backoff() {
    let mut schedule = waiting(&[
        (Normal, 1),
        (Normal, 2),
        (Normal, 2),
        (Normal, 2),
        (Normal, 2),
    ]);
    schedule.insert(
        Moment::START,
        Waiter {
            ready_at: at(9),
            ..call(6, Normal, 1)
        },
    );
    assert_eq!(drain(&mut schedule, at(8)), [1, 2, 3, 4, 5]);
    schedule.correct(Normal, &agent(1), 1, 2);
    for ask in 7..=10 {
        schedule.insert(at(8), call(ask, Normal, 3));
    }
    // V is 3; agent 1 starts at 5, after agent 3's turns at 3 and 4.
    assert_eq!(drain(&mut schedule, at(9)), [7, 8, 6, 9, 10]);
}

#[test]
fn a_call_that_cost_less_banks_nothing() {
    let mut schedule = waiting(&[(Normal, 1), (Normal, 1), (Normal, 2), (Normal, 2)]);
    schedule.correct(Normal, &agent(1), 1, -1_000_000);
    schedule.correct(Normal, &agent(3), 1, -1);
    assert_eq!(drain(&mut schedule, Moment::START), [1, 3, 2, 4]);
}
