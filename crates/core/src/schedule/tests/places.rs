//! Places in the queue: keeping one, losing one to a full queue, seeing one's own.

use proptest::prelude::*;

use super::*;
use Priority::{Background, Interactive, Normal};

#[test]
fn a_caller_that_comes_back_in_time_keeps_its_place() {
    let calls = [(Normal, 1), (Normal, 1), (Normal, 2), (Normal, 3)];
    let mut schedule = waiting(&calls);
    schedule.remove(1);
    schedule.remove(3);
    schedule.insert(
        Moment::START,
        Waiter {
            place: Some(3),
            ..call(5, Normal, 2)
        },
    );
    schedule.insert(
        Moment::START,
        Waiter {
            place: Some(1),
            ..call(6, Normal, 1)
        },
    );
    // As 1, 3, 4, 2 without the detour, but that agent 2 was away when agent 1's
    // place was given up.
    assert_eq!(drain(&mut schedule, Moment::START), [6, 5, 4, 2]);
}

#[test]
fn a_key_that_already_waits_is_replaced() {
    let mut schedule = waiting(&[(Normal, 1), (Normal, 2)]);
    schedule.insert(Moment::START, call(1, Interactive, 3));
    assert_eq!(
        (
            schedule.len(),
            schedule.len_at(Normal),
            schedule.len_of(&agent(1))
        ),
        (2, 1, 0)
    );
    assert_eq!(drain(&mut schedule, Moment::START), [1, 2]);
}

/// What makes room in the queue of these calls for an arriving one of `agent`.
#[track_caller]
fn check_full(
    calls: &[(Priority, usize)],
    arriving: (Priority, usize, Option<AskKey>),
    full: Full,
    evicted: Option<AskKey>,
) {
    let schedule = waiting(calls);
    let (priority, agent, place) = arriving;
    let arriving = Waiter {
        place,
        ..call(100, priority, agent)
    };
    assert_eq!(schedule.evict(&arriving, full), evicted);
}

#[test]
fn a_full_queue_hands_back_its_newest_call_of_the_lowest_rank() {
    let calls = [
        (Background, 1),
        (Background, 2),
        (Normal, 3),
        (Interactive, 4),
    ];
    check_full(&calls, (Interactive, 9, None), Full::Account, Some(2));
    check_full(&calls, (Normal, 9, None), Full::Account, Some(2));
}

#[test]
fn an_arriving_call_of_the_lowest_rank_is_itself_the_newest() {
    let calls = [(Background, 1), (Interactive, 4)];
    check_full(&calls, (Background, 9, None), Full::Account, None);
    check_full(&calls[1..], (Normal, 9, None), Full::Account, None);
    check_full(&[], (Interactive, 9, None), Full::Account, None);
}

#[test]
fn a_caller_that_keeps_an_older_place_is_not_the_newest() {
    let calls = [(Background, 1), (Background, 2), (Background, 3)];
    check_full(&calls, (Background, 9, Some(2)), Full::Account, Some(3));
}

#[test]
fn an_agent_at_its_bound_gives_up_a_call_of_its_own() {
    let calls = [(Background, 1), (Normal, 1), (Background, 2), (Normal, 2)];
    check_full(&calls, (Interactive, 1, None), Full::Agent, Some(1));
    check_full(&calls[1..], (Interactive, 1, None), Full::Agent, Some(1));
    check_full(&calls, (Background, 1, None), Full::Agent, None);
    check_full(&calls, (Background, 7, None), Full::Agent, None);
}

#[test]
fn calls_in_backoff_count_and_can_be_handed_back() {
    let mut schedule = waiting(&[(Background, 1)]);
    schedule.insert(
        at(1),
        Waiter {
            ready_at: at(50),
            ..call(2, Background, 1)
        },
    );
    assert_eq!((schedule.len(), schedule.len_of(&agent(1))), (2, 2));
    assert_eq!(schedule.evict(&call(3, Normal, 2), Full::Account), Some(2));
    assert_eq!(schedule.remove(2).map(|waiter| waiter.ask), Some(2));
    assert_eq!(schedule.next_ready(), Moment::NEVER);
}

#[test]
fn the_list_shows_best_ranks_first_and_oldest_places_first() {
    let mut schedule = waiting(&[(Background, 1), (Interactive, 2), (Normal, 3), (Normal, 1)]);
    schedule.insert(
        Moment::START,
        Waiter {
            place: Some(1),
            ..call(9, Normal, 3)
        },
    );
    let list: Vec<_> = schedule.iter().map(|waiter| waiter.ask).collect();
    assert_eq!(list, [2, 9, 3, 4, 1]);
}

#[test]
fn what_was_taken_and_not_sent_waits_again_where_it_was() {
    let calls = [
        (Normal, 1),
        (Normal, 1),
        (Normal, 2),
        (Normal, 2),
        (Background, 3),
    ];
    let mut schedule = waiting(&calls);
    let pick = schedule.pick(Moment::START, OPEN).unwrap();
    let taken = schedule.take(pick).unwrap();
    assert_eq!(schedule.len(), 4);
    // Another goes meanwhile; it is still next. Then it is agent 2's turn again.
    let pick = schedule.pick(Moment::START, OPEN).unwrap();
    assert_eq!(schedule.take(pick).unwrap().waiter.ask, 3);
    schedule.give_back(Moment::START, taken);
    assert_eq!(drain(&mut schedule, Moment::START), [1, 4, 2, 5]);
}

#[test]
fn giving_one_call_back_does_not_forgive_another() {
    let mut schedule = waiting(&[(Normal, 1)]);
    let cost = Cost::requests(10);
    schedule.insert(
        Moment::START,
        Waiter {
            cost,
            ..call(2, Normal, 1)
        },
    );
    schedule.insert(Moment::START, call(3, Normal, 1));
    (4..=10).for_each(|ask| schedule.insert(Moment::START, call(ask, Normal, 2)));
    let mut taken = [1, 4, 2].map(|ask| {
        let pick = schedule.pick(Moment::START, OPEN).unwrap();
        assert_eq!(pick.ask(), ask);
        schedule.take(pick)
    });
    schedule.give_back(Moment::START, taken[0].take().unwrap());
    assert_eq!(
        drain(&mut schedule, Moment::START),
        [5, 6, 7, 8, 9, 10, 1, 3]
    );
}

#[test]
fn a_call_given_back_with_a_backoff_waits_for_it() {
    let mut schedule = waiting(&[(Normal, 1), (Normal, 2)]);
    let pick = schedule.pick(Moment::START, OPEN).unwrap();
    let mut taken = schedule.take(pick).unwrap();
    taken.waiter.ready_at = at(70);
    schedule.give_back(at(1), taken);
    assert_eq!(schedule.next_ready(), at(70));
    assert_eq!(drain(&mut schedule, at(1)), [2]);
    assert_eq!(drain(&mut schedule, at(70)), [1]);
}

#[test]
fn nothing_is_remembered_of_agents_that_have_gone() {
    let mut schedule = Schedule::new([0; 3]);
    // One agent always waits; a thousand others come and go.
    for ask in 1..=1_000 {
        schedule.insert(Moment::START, call(2 * ask, Normal, 0));
        schedule.insert(Moment::START, call(2 * ask + 1, Normal, ask as usize));
        for _ in 0..2 {
            let pick = schedule.pick(Moment::START, OPEN).unwrap();
            let _ = schedule.take(pick).unwrap();
        }
        schedule.insert(Moment::START, call(10_000 + ask, Normal, 0));
        assert!(
            schedule.ranks[Normal as usize].remembered() <= 4,
            "after {ask}"
        );
    }
    drain(&mut schedule, Moment::START);
    assert!(schedule.ranks.iter().all(|rank| rank.remembered() == 0));
}

#[test]
fn what_is_remembered_of_idle_agents_is_bounded() {
    let mut schedule = waiting(&[(Normal, 0)]);
    for n in 1..=5_000 {
        schedule.correct(Normal, &agent(n), 1, 1 + n as i64);
    }
    assert_eq!(schedule.ranks[Normal as usize].remembered(), 1 + 4_096);
}

fn calls() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..3_usize, 0..6_usize), 1..40)
}

fn filled(calls: &[(usize, usize)], floors: [u32; 3]) -> Schedule {
    let mut schedule = Schedule::new(floors);
    for (ask, (rank, agent)) in (1..).zip(calls) {
        schedule.insert(Moment::START, call(ask, Priority::ALL[*rank], *agent));
    }
    schedule
}

#[test]
fn waking_moves_what_is_due_as_a_pick_does_that_finds_nothing() {
    let mut later = call(2, Normal, 1);
    later.ready_at = at(10);
    let mut woken = waiting(&[(Normal, 0)]);
    woken.insert(Moment::START, later);
    let mut picked = woken.clone();
    woken.wake(at(9));
    assert_eq!(woken.next_ready(), at(10), "not before its time");
    woken.wake(at(10));
    assert_eq!(picked.pick(at(10), |_, _| Way::Blocked), None);
    assert_eq!(woken.next_ready(), Moment::NEVER);
    for schedule in [&mut woken, &mut picked] {
        assert_eq!(schedule.position(2), Some(1));
        assert_eq!(drain(schedule, at(10)), [1, 2]);
    }
}

proptest! {
    #[test]
    fn a_position_is_exact_in_one_rank(calls in calls(), gone in 0..20_usize) {
        let one: Vec<_> = calls.iter().map(|(_, agent)| (1, *agent)).collect();
        let mut schedule = filled(&one, [0, 100, 50]);
        for _ in 0..gone.min(calls.len() - 1) {
            let pick = schedule.pick(Moment::START, OPEN).unwrap();
            let _ = schedule.take(pick).unwrap();
        }
        let stated: BTreeMap<_, _> =
            schedule.iter().map(|w| (w.ask, schedule.position(w.ask).unwrap())).collect();
        for (position, ask) in drain(&mut schedule, Moment::START).into_iter().enumerate() {
            prop_assert_eq!(stated[&ask], position, "call {}", ask);
        }
    }

    #[test]
    fn a_position_is_an_estimate_over_several_ranks(calls in calls()) {
        let mut schedule = filled(&calls, [0, 100, 50]);
        let stated: BTreeMap<_, _> =
            schedule.iter().map(|w| (w.ask, schedule.position(w.ask).unwrap())).collect();
        for (position, ask) in drain(&mut schedule, Moment::START).into_iter().enumerate() {
            prop_assert!(stated[&ask].abs_diff(position) <= 2, "{} for {}", stated[&ask], position);
        }
    }

    #[test]
    fn taking_and_giving_back_changes_nothing(
        calls in calls(),
        gone in 0..20_usize,
        several in 1..4_usize,
    ) {
        let mut schedule = filled(&calls, [0, 100, 50]);
        for _ in 0..gone.min(calls.len() - 1) {
            let pick = schedule.pick(Moment::START, OPEN).unwrap();
            let _ = schedule.take(pick).unwrap();
        }
        let mut other = schedule.clone();
        let mut out = Vec::new();
        for _ in 0..several {
            let Some(pick) = other.pick(Moment::START, OPEN) else { break };
            out.push(other.take(pick).unwrap());
        }
        for taken in out.into_iter().rev() {
            other.give_back(Moment::START, taken);
        }
        prop_assert_eq!(drain(&mut other, Moment::START), drain(&mut schedule, Moment::START));
    }
}
