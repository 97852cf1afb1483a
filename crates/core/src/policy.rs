//! The operator's rules as the core uses them: plain values, already checked.
//!
//! The server turns the configuration as written into these; the core trusts
//! them. Spans are bounded by the configuration's own checks.

use crate::cost::Dimension;
use crate::estimate::Charge;
use crate::id::{Agent, Scope};
use crate::time::Span;
use crate::word::{Class, Priority};

/// Limits that bind one action of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassLimits {
    /// Sends in all, the first included; at least 1.
    pub max_attempts: u16,
    /// Waiting after the first attempt, in all.
    pub max_wait: Span,
    /// Statuses after which a repeat may follow, where its certainty allows it.
    pub retry_statuses: Vec<u16>,
    /// Whether a generation may repeat after an ambiguous failure ("possibly billed").
    pub ambiguous_retry: bool,
}

/// The limits of every class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassTable {
    /// Of reads.
    pub read: ClassLimits,
    /// Of writes that a key makes repeatable.
    pub idempotent_write: ClassLimits,
    /// Of writes that nothing makes repeatable.
    pub uncertain_write: ClassLimits,
    /// Of model inference.
    pub generation: ClassLimits,
}

impl ClassTable {
    /// The limits of one class.
    pub fn of(&self, class: Class) -> &ClassLimits {
        match class {
            Class::Read => &self.read,
            Class::IdempotentWrite => &self.idempotent_write,
            Class::UncertainWrite => &self.uncertain_write,
            Class::Generation => &self.generation,
        }
    }
}

impl Default for ClassTable {
    /// The table of the specification (R-RETRY-1).
    fn default() -> ClassTable {
        let read = ClassLimits {
            max_attempts: 4,
            max_wait: Span::from_secs(90),
            retry_statuses: vec![408, 429, 500, 502, 503, 504],
            ambiguous_retry: false,
        };
        ClassTable {
            generation: read.clone(),
            idempotent_write: ClassLimits {
                max_attempts: 3,
                max_wait: Span::from_secs(120),
                retry_statuses: vec![408, 429, 502, 503, 504],
                ambiguous_retry: false,
            },
            uncertain_write: ClassLimits {
                max_attempts: 1,
                max_wait: Span::ZERO,
                retry_statuses: Vec::new(),
                ambiguous_retry: false,
            },
            read,
        }
    }
}

/// Full jitter (R-RETRY-4): uniform in `[minimum, max(minimum, min(cap, base·2ⁿ))]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The step that is doubled.
    pub base: Span,
    /// The largest step.
    pub cap: Span,
    /// The smallest delay, also for hints that are zero or past.
    pub minimum: Span,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff {
            base: Span::from_secs(1),
            cap: Span::from_secs(60),
            minimum: Span::from_millis(250),
        }
    }
}

/// How a provider counts a declared limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// At most `limit` in any window's length.
    Sliding,
    /// Counted in windows that start anew.
    Fixed,
    /// A bucket that refills evenly; holds `burst`.
    TokenBucket {
        /// Capacity in units.
        burst: u64,
    },
    /// Weighted sum of the current and the previous fixed window.
    SlidingCounter,
    /// Not known; the universal pacer is safe for all of the above.
    Unknown,
}

/// A declared limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// What it counts; not [`Dimension::Concurrent`], which has no window.
    pub dimension: Dimension,
    /// Units per window, at least 1.
    pub limit: u64,
    /// The window, greater than zero.
    pub window: Span,
    /// How it is counted.
    pub kind: WindowKind,
}

/// What is declared of one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeLimits {
    /// Quotas, of whatever dimension; all must agree.
    pub quotas: Vec<Quota>,
    /// Most calls open at once, if declared.
    pub max_concurrent: Option<u32>,
}

/// Rules of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountPolicy {
    /// Declared limits by scope; a scope that is not here is unlimited until it is learnt.
    pub scopes: Vec<(Scope, ScopeLimits)>,
    /// How the provider charges what a call uses.
    pub charge: Charge,
    /// Most calls waiting for the account.
    pub max_waiting: usize,
    /// Most calls of one agent waiting for the account.
    pub max_waiting_per_agent: usize,
    /// Calls that only interactive work may hold open, of `max_concurrent`.
    pub reserve_interactive: u32,
    /// Kept free below a declared limit, in thousandths, beside the margin for jitter.
    pub headroom_permille: u32,
    /// Share of the quota a rank is owed in any case, in thousandths.
    pub floors_permille: [u32; 3],
    /// Class limits.
    pub classes: ClassTable,
    /// Backoff.
    pub backoff: Backoff,
    /// Repeats of the whole scope after ambiguous failures, 5xx and time-outs.
    pub retry_budget: RetryBudget,
    /// 429 events before a person is asked.
    pub refusal_budget: RefusalBudget,
    /// Undecided escalations end after this.
    pub escalation_expires: Span,
}

impl AccountPolicy {
    /// The floor of a rank in thousandths.
    pub fn floor_permille(&self, priority: Priority) -> u32 {
        self.floors_permille[priority as usize]
    }
}

impl Default for AccountPolicy {
    /// Nothing declared: never stricter than the provider.
    fn default() -> AccountPolicy {
        AccountPolicy {
            scopes: Vec::new(),
            charge: Charge::default(),
            max_waiting: 10_000,
            max_waiting_per_agent: 256,
            reserve_interactive: 0,
            headroom_permille: 0,
            floors_permille: [0, 100, 50],
            classes: ClassTable::default(),
            backoff: Backoff::default(),
            retry_budget: RetryBudget::default(),
            refusal_budget: RefusalBudget::default(),
            escalation_expires: Span::from_secs(24 * 3600),
        }
    }
}

/// A ratio budget: each first attempt earns `ratio`, each repeat after an
/// ambiguous failure, a 5xx or a time-out spends one; `burst` is the most that
/// can be saved, and what a new scope starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// Earned by each first attempt, in thousandths of a repeat.
    pub ratio_permille: u32,
    /// Most that can be saved, in repeats.
    pub burst: u32,
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget {
            ratio_permille: 100,
            burst: 10,
        }
    }
}

/// At most `events` refusal events in `per`; beyond it a person is asked
/// whether the limit is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalBudget {
    /// Events.
    pub events: u32,
    /// In this time.
    pub per: Span,
}

impl Default for RefusalBudget {
    fn default() -> RefusalBudget {
        RefusalBudget {
            events: 5,
            per: Span::from_secs(600),
        }
    }
}

/// What one task may cost in all, over all accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLimits {
    /// Repeats of all its actions together.
    pub max_retries: u32,
    /// Waiting after first attempts, all its actions together.
    pub max_wait: Span,
    /// From its first call.
    pub deadline: Span,
    /// Identical failures before that path stops.
    pub breaker_failures: u32,
}

impl Default for TaskLimits {
    fn default() -> TaskLimits {
        TaskLimits {
            max_retries: 20,
            max_wait: Span::from_secs(600),
            deadline: Span::from_secs(3600),
            breaker_failures: 3,
        }
    }
}

/// What the core needs to know of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLimits {
    /// Who.
    pub agent: Agent,
    /// The best rank it may ask for.
    pub ceiling: Priority,
    /// Its share inside a rank, at least 1.
    pub weight: u32,
    /// Most of its calls open at once.
    pub max_concurrent: Option<u32>,
}

/// What a provider's endpoint promises about repeats (R-IDEM-1 to -3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// How the key travels and what it is worth; `None` where the endpoint honours none.
    pub idempotency: Option<Idempotency>,
    /// How to find out what happened; `None` where there is no look-up.
    pub lookup: Option<Lookup>,
    /// Statuses among 429 and 503 that surely mean "not processed".
    pub refusals_unprocessed: Vec<u16>,
    /// Whether "already absent" (404, 410) is success, for deletions.
    pub absent_is_success: bool,
    /// How long after a write whose outcome is unknown its agent's other writes to
    /// the endpoint are held off: they may be the same in other words.
    pub hold_after_uncertain: Span,
}

impl Profile {
    /// Nothing is promised: the safe default.
    pub fn nothing() -> Profile {
        Profile {
            idempotency: None,
            lookup: None,
            refusals_unprocessed: vec![429],
            absent_is_success: false,
            hold_after_uncertain: Span::ZERO,
        }
    }
}

/// A key that the endpoint is known to honour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// How long the provider remembers a key.
    pub lifetime: Span,
    /// Which results are replayed to a repeat under the same key.
    pub stores: Stores,
    /// The status that says "this key is being processed".
    pub in_progress: Option<u16>,
    /// The status that says "this key came with another payload".
    pub mismatch: Option<u16>,
}

/// Which results a provider stores under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// All of them, also 500s: a repeat after a 500 only replays it.
    All,
    /// Only 2xx; anything else is processed again.
    Successes,
    /// All but 429 and 5xx.
    Definite,
}

/// A look-up that tells what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Whether "not found" proves absence once nothing can be in flight any more.
    pub authoritative: bool,
    /// The provider's own consistency delay.
    pub settle: Span,
    /// The longest time a sent copy can still be on its way.
    pub max_in_flight: Span,
    /// Look-ups in all; they have a budget of their own.
    pub max_lookups: u16,
}
