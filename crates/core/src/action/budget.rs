//! Hard ceilings on extra work: attempts and waited time of an action, what its
//! task still allows, and the two budgets that a whole scope shares.
//!
//! Worked example of the ratio budget (100 ‰, burst 10): a scope starts with 10
//! repeats saved. In an outage in which each of 100 calls fails three times,
//! the first attempts earn 100 × 0.1 = 10 more, so at most 20 repeats are sent
//! for 100 calls, not 300. Source of the idea: Finagle's retry budget and the
//! token bucket of gRPC proposal A6.

use std::collections::VecDeque;

use crate::policy::{ClassLimits, RefusalBudget, RetryBudget};
use crate::time::{Moment, Span};

/// What one action has used so far. It only grows, and it survives a restart
/// with the action: a restart is no reason for more attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Sends, whoever caused them: policy, a person, the agent's SDK.
    pub attempts: u16,
    /// Waiting since the first attempt.
    pub waited: Span,
}

impl Used {
    /// Counts one send.
    pub fn attempt(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Counts a wait that follows a first attempt; waiting before it is bounded
    /// by hold, deadline and queue instead, and is not counted here.
    pub fn wait(&mut self, span: Span) {
        if self.attempts > 0 {
            self.waited += span;
        }
    }

    /// Sends that the class still allows.
    pub fn attempts_left(&self, limits: &ClassLimits) -> u16 {
        limits.max_attempts.saturating_sub(self.attempts)
    }

    /// Waiting that the class still allows.
    pub fn wait_left(&self, limits: &ClassLimits) -> Span {
        limits.max_wait.saturating_sub(self.waited)
    }
}

/// What the action's task still allows, over all its actions and accounts; asked from
/// the task book. Its deadline is a bound of each of its actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskAllowance {
    /// Repeats.
    pub retries: u32,
    /// Waiting after first attempts.
    pub wait: Span,
    /// How often it was told to stop so far.
    pub stops: u32,
}

impl TaskAllowance {
    /// No task stands above the action.
    pub const UNLIMITED: TaskAllowance = TaskAllowance {
        retries: u32::MAX,
        wait: Span::MAX,
        stops: 0,
    };
}

/// One repeat, in thousandths.
const REPEAT: u64 = 1_000;

/// The ratio budget of a scope: first attempts earn, repeats after ambiguous
/// failures, 5xx and time-outs spend. All operations O(1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatioBudget {
    earn: u64,
    cap: u64,
    saved: u64,
}

impl RatioBudget {
    /// A new scope's budget: full, so that a first failure can be repeated.
    pub fn new(policy: RetryBudget) -> RatioBudget {
        let cap = u64::from(policy.burst) * REPEAT;
        RatioBudget {
            earn: u64::from(policy.ratio_permille),
            cap,
            saved: cap,
        }
    }

    /// A budget as it was saved; more than the policy allows is cut off.
    pub fn restored(policy: RetryBudget, saved_permille: u64) -> RatioBudget {
        let full = RatioBudget::new(policy);
        RatioBudget {
            saved: saved_permille.min(full.cap),
            ..full
        }
    }

    /// Another policy is in force; what is saved beyond its burst is cut off.
    pub fn set_policy(&mut self, policy: RetryBudget) {
        *self = RatioBudget::restored(policy, self.saved);
    }

    /// What is saved, in thousandths of a repeat: the form to store.
    pub const fn saved_permille(&self) -> u64 {
        self.saved
    }

    /// A first attempt was sent.
    pub fn earn(&mut self) {
        self.saved = self.saved.saturating_add(self.earn).min(self.cap);
    }

    /// Whether a repeat may be spent now.
    pub const fn allows(&self) -> bool {
        self.saved >= REPEAT
    }

    /// Spends one repeat; changes nothing and says `false` if there is none.
    #[must_use]
    pub fn spend(&mut self) -> bool {
        if !self.allows() {
            return false;
        }
        self.saved -= REPEAT;
        true
    }
}

/// Most refusal events that are remembered, whatever the policy says.
pub const REFUSALS_MAX: usize = 1_000;

/// The refusal budget of a scope: 429 events in a sliding time. One event is one
/// epoch of refusals, not each echo of it; the ledger tells them apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalWindow {
    events: usize,
    per: Span,
    seen: VecDeque<Moment>,
}

impl RefusalWindow {
    /// An empty window. A policy of zero events means that the first one asks.
    pub fn new(policy: RefusalBudget) -> RefusalWindow {
        let events = usize::try_from(policy.events).unwrap_or(REFUSALS_MAX);
        let events = events.clamp(1, REFUSALS_MAX);
        RefusalWindow {
            events,
            per: policy.per,
            seen: VecDeque::new(),
        }
    }

    /// Another policy is in force; what was seen still counts.
    pub fn set_policy(&mut self, policy: RefusalBudget) {
        let seen = std::mem::take(&mut self.seen);
        *self = RefusalWindow::new(policy);
        let too_many = seen.len().saturating_sub(self.events);
        self.seen.extend(seen.into_iter().skip(too_many));
    }

    /// Takes note of a refusal event, and says whether the budget is spent: that
    /// many events (or more) within its time, so that a person is asked whether
    /// the limit is right. O(1) amortised, at most [`REFUSALS_MAX`] moments kept.
    pub fn event(&mut self, now: Moment) -> bool {
        if self.seen.len() == self.events {
            self.seen.pop_front();
        }
        self.seen.push_back(now);
        self.is_spent(now)
    }

    /// Whether the budget is spent now.
    pub fn is_spent(&mut self, now: Moment) -> bool {
        while self
            .seen
            .front()
            .is_some_and(|first| now.since(*first) >= self.per)
        {
            self.seen.pop_front();
        }
        self.seen.len() >= self.events
    }

    /// Forgets what was seen: a person answered, or the limit was changed.
    pub fn clear(&mut self) {
        self.seen.clear();
    }

    /// The remembered moments, oldest first: the form to store.
    pub fn moments(&self) -> impl Iterator<Item = Moment> + '_ {
        self.seen.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::ClassTable;

    fn at(seconds: u64) -> Moment {
        Moment::START + Span::from_secs(seconds)
    }

    #[test]
    fn waiting_before_the_first_attempt_is_not_counted() {
        let mut used = Used::default();
        used.wait(Span::from_secs(50));
        assert_eq!(used.waited, Span::ZERO);
        used.attempt();
        used.wait(Span::from_secs(30));
        let read = ClassTable::default().read;
        assert_eq!(used.wait_left(&read), Span::from_secs(60));
        assert_eq!(used.attempts_left(&read), 3);
    }

    #[test]
    fn what_is_used_saturates_and_never_wraps_into_more() {
        let mut used = Used {
            attempts: u16::MAX,
            waited: Span::MAX,
        };
        used.attempt();
        used.wait(Span::from_secs(1));
        let read = ClassTable::default().read;
        assert_eq!(
            (used.attempts_left(&read), used.wait_left(&read)),
            (0, Span::ZERO)
        );
    }

    #[test]
    fn an_outage_of_a_hundred_calls_sends_twenty_repeats() {
        let mut budget = RatioBudget::new(RetryBudget::default());
        let mut repeats = 0;
        for _ in 0..100 {
            budget.earn();
            repeats += (0..3).filter(|_| budget.spend()).count();
        }
        // The first earning meets a full budget and is lost.
        assert_eq!(repeats, 19);
    }

    #[test]
    fn a_budget_survives_a_restart_and_never_grows_by_one() {
        let policy = RetryBudget::default();
        let mut budget = RatioBudget::new(policy);
        assert!(budget.spend());
        let restored = RatioBudget::restored(policy, budget.saved_permille());
        assert_eq!(restored, budget);
        assert_eq!(
            RatioBudget::restored(policy, u64::MAX),
            RatioBudget::new(policy)
        );
    }

    #[test]
    fn a_budget_of_nothing_allows_nothing() {
        let mut none = RatioBudget::new(RetryBudget {
            ratio_permille: 1_000,
            burst: 0,
        });
        none.earn();
        assert!(!none.spend());
    }

    #[test]
    fn the_fifth_refusal_in_ten_minutes_asks_a_person() {
        let mut window = RefusalWindow::new(RefusalBudget::default());
        let asked: Vec<_> = (0..5).map(|n| window.event(at(n * 100))).collect();
        assert_eq!(asked, [false, false, false, false, true]);
        assert!(window.is_spent(at(599)));
        assert!(!window.is_spent(at(600)), "the first has left the window");
    }

    #[test]
    fn another_policy_keeps_what_was_seen() {
        let mut window = RefusalWindow::new(RefusalBudget {
            events: 4,
            per: Span::from_secs(60),
        });
        for n in 0..3 {
            window.event(at(n));
        }
        window.set_policy(RefusalBudget {
            events: 2,
            per: Span::from_secs(60),
        });
        assert!(window.is_spent(at(3)));
        window.set_policy(RefusalBudget {
            events: 9,
            per: Span::from_secs(60),
        });
        assert!(!window.is_spent(at(3)));
        let mut budget = RatioBudget::new(RetryBudget {
            ratio_permille: 100,
            burst: 10,
        });
        budget.set_policy(RetryBudget {
            ratio_permille: 100,
            burst: 2,
        });
        assert_eq!(budget.saved_permille(), 2_000);
    }

    #[test]
    fn a_persons_answer_starts_the_count_anew() {
        let mut window = RefusalWindow::new(RefusalBudget {
            events: 2,
            per: Span::from_secs(60),
        });
        window.event(at(1));
        assert!(window.event(at(2)));
        window.clear();
        assert!(!window.event(at(3)));
    }

    proptest! {
        #[test]
        fn repeats_never_exceed_what_was_saved_and_earned(
            ratio in 0_u32..2_000,
            burst in 0_u32..20,
            steps in proptest::collection::vec(any::<bool>(), 0..300),
        ) {
            let mut budget = RatioBudget::new(RetryBudget { ratio_permille: ratio, burst });
            let (mut earned, mut spent) = (u64::from(burst) * 1_000, 0_u64);
            for first in steps {
                if first {
                    budget.earn();
                    earned += u64::from(ratio);
                } else if budget.spend() {
                    spent += 1_000;
                }
                prop_assert!(spent <= earned);
                prop_assert!(budget.saved_permille() <= u64::from(burst) * 1_000);
            }
        }

        #[test]
        fn the_refusal_window_agrees_with_counting_by_hand(
            gaps in proptest::collection::vec(0_u64..200, 1..60),
            events in 1_u32..8,
        ) {
            let per = Span::from_secs(300);
            let mut window = RefusalWindow::new(RefusalBudget { events, per });
            let (mut now, mut all) = (at(0), Vec::new());
            for gap in gaps {
                now = now + Span::from_secs(gap);
                all.push(now);
                let recent = all.iter().filter(|t| now.since(**t) < per).count();
                let spent = recent >= events as usize;
                prop_assert_eq!(window.event(now), spent);
                prop_assert!(window.moments().count() <= events as usize);
            }
        }
    }
}
