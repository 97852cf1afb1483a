//! The rules of the account as a whole: classes, budgets, floors, tasks.

use rategov_core::estimate::Charge;
use rategov_core::policy::{
    AccountPolicy, Backoff, ClassLimits, ClassTable, RefusalBudget, RetryBudget, TaskLimits,
};
use rategov_core::time::Span;
use rategov_core::word::Class;

use super::above_zero;
use crate::config::mistake::Collector;
use crate::config::options::{
    BackoffOptions, ClassOptions, Options, PredictOptions, RefusalBudgetOptions,
    RetryBudgetOptions, SharedScopeOptions, TaskOptions,
};
use crate::config::place::Place;

/// Longest time that an action or a task can be allowed to wait: a year.
const WAIT_SECS_MAX: u64 = 366 * 24 * 3600;

/// Most calls that may wait for one account.
const WAITING_MAX: u64 = 1_000_000;

/// What every account shares.
pub(super) struct Policy {
    /// Everything but the scopes.
    pub(super) account: AccountPolicy,
    /// Most calls of an account open at once.
    pub(super) max_concurrent: Option<u32>,
    /// Tasks.
    pub(super) task: TaskLimits,
}

pub(super) fn policy(options: &Options, place: Place<'_>, out: &mut Collector) -> Policy {
    let shared_place = place.key("shared_scope");
    let shared = options.shared_scope.clone().unwrap_or_default();
    let backoff = backoff(options.backoff.as_ref(), place.key("backoff"), out);
    predict(options.predict.as_ref(), place.key("predict"), out);
    let expires = options.escalation.as_ref().and_then(|it| it.expires);
    let defaults = AccountPolicy::default();
    let (max_waiting, max_waiting_per_agent) = waiting(&shared, shared_place, out);
    let account = AccountPolicy {
        charge: Charge::default(),
        scopes: Vec::new(),
        max_waiting,
        max_waiting_per_agent,
        reserve_interactive: shared.reserve_interactive.unwrap_or(0),
        headroom_permille: headroom(&shared, shared_place, out),
        floors_permille: floors(options, place.key("priorities"), out),
        classes: classes(options, place.key("request_classes"), backoff.minimum, out),
        backoff,
        retry_budget: retry_budget(
            shared.retry_budget.as_ref(),
            shared_place.key("retry_budget"),
            out,
        ),
        refusal_budget: refusal_budget(
            shared.refusal_budget.as_ref(),
            shared_place.key("refusal_budget"),
            out,
        ),
        escalation_expires: above_zero(
            expires,
            defaults.escalation_expires,
            place.key("escalation").key("expires"),
            out,
        ),
    };
    let max_concurrent = shared.max_concurrent_requests;
    if max_concurrent == Some(0) {
        out.add(
            shared_place.key("max_concurrent_requests").mark(),
            "no call could ever be open\nhint: at least 1, or leave the key out for the provider's own limit",
        );
    }
    Policy {
        account,
        max_concurrent,
        task: task(options, place, out),
    }
}

fn backoff(options: Option<&BackoffOptions>, place: Place<'_>, out: &mut Collector) -> Backoff {
    let default = Backoff::default();
    let options = options.cloned().unwrap_or_default();
    let backoff = Backoff {
        base: above_zero(options.base, default.base, place.key("base"), out),
        cap: above_zero(options.cap, default.cap, place.key("cap"), out),
        minimum: above_zero(options.minimum, default.minimum, place.key("minimum"), out),
    };
    if backoff.base > backoff.cap {
        out.add(
            place.key("base").mark(),
            format!(
                "`base` ({}) is longer than `cap` ({})\nhint: `base` is the first step, `cap` the longest",
                backoff.base, backoff.cap
            ),
        );
    } else if backoff.minimum > backoff.cap {
        out.add(
            place.key("minimum").mark(),
            format!(
                "`minimum` ({}) is longer than `cap` ({})",
                backoff.minimum, backoff.cap
            ),
        );
    }
    backoff
}

fn classes(options: &Options, place: Place<'_>, minimum: Span, out: &mut Collector) -> ClassTable {
    let default = ClassTable::default();
    let written = options.request_classes.clone().unwrap_or_default();
    let mut limits = |class: Class, options: Option<&ClassOptions>, default: &ClassLimits| {
        class_limits(
            class,
            options,
            default,
            place.key(class.word()),
            minimum,
            out,
        )
    };
    let read = limits(Class::Read, written.read.as_ref(), &default.read);
    ClassTable {
        idempotent_write: limits(
            Class::IdempotentWrite,
            written.idempotent_write.as_ref(),
            &default.idempotent_write,
        ),
        uncertain_write: limits(
            Class::UncertainWrite,
            written.uncertain_write.as_ref(),
            &default.uncertain_write,
        ),
        generation: limits(Class::Generation, written.generation.as_ref(), &read),
        read,
    }
}

fn class_limits(
    class: Class,
    options: Option<&ClassOptions>,
    default: &ClassLimits,
    place: Place<'_>,
    minimum: Span,
    out: &mut Collector,
) -> ClassLimits {
    let Some(options) = options else {
        return default.clone();
    };
    let max_attempts = options.max_attempts.unwrap_or(default.max_attempts);
    let wait_secs = options
        .max_wait_seconds
        .unwrap_or(default.max_wait.as_secs_ceil());
    let statuses = options.retry_statuses.clone();
    if max_attempts == 0 {
        out.add(
            place.key("max_attempts").mark(),
            "the first send is an attempt\nhint: `max_attempts: 1` sends once and never again",
        );
    }
    if wait_secs > WAIT_SECS_MAX {
        out.add(
            place.key("max_wait_seconds").mark(),
            "this is more than a year",
        );
    }
    for (index, status) in statuses.iter().flatten().enumerate() {
        let at = place.key("retry_statuses").item(index).mark();
        match status {
            400..=599 if class == Class::UncertainWrite && !matches!(status, 429 | 503) => out.add(
                at,
                format!("a write that nothing makes repeatable is never repeated after {status}\nhint: only 429 and 503 can be definite refusals; for more give the endpoint a key or a look-up"),
            ),
            400..=599 => {}
            _ => out.add(at, format!("{status} is not the status of a failure\nhint: 400 to 599")),
        }
    }
    let repeats = statuses.as_ref().is_some_and(|list| !list.is_empty());
    if max_attempts == 1 && repeats && options.max_attempts.is_some() {
        out.add(
            place.key("retry_statuses").mark(),
            "these can't be used: `max_attempts: 1` allows no repeat\nhint: raise `max_attempts`, or write `retry_statuses: []`",
        );
    }
    // A repeat always waits, at least `backoff.minimum`.
    let wait = Span::from_secs(wait_secs.min(WAIT_SECS_MAX));
    if max_attempts > 1
        && wait < minimum
        && (options.max_attempts.is_some() || options.max_wait_seconds.is_some())
    {
        out.add(
            place.key("max_wait_seconds").mark(),
            format!("{max_attempts} attempts can't be used: a repeat waits at least {minimum}\nhint: raise `max_wait_seconds`, or write `max_attempts: 1`"),
        );
    }
    if class != Class::Generation && options.ambiguous_retry == Some(true) {
        out.add(
            place.key("ambiguous_retry").mark(),
            "only generations may be repeated when nobody knows whether they ran\nhint: reads are repeated anyway; writes need a key or a look-up",
        );
    }
    ClassLimits {
        max_attempts: max_attempts.max(1),
        max_wait: wait,
        retry_statuses: statuses.unwrap_or_else(|| default.retry_statuses.clone()),
        ambiguous_retry: options.ambiguous_retry.unwrap_or(default.ambiguous_retry),
    }
}

fn waiting(shared: &SharedScopeOptions, place: Place<'_>, out: &mut Collector) -> (usize, usize) {
    let default = AccountPolicy::default();
    let mut bounded = |value: Option<u64>, default: usize, key: &str| match value {
        None => default,
        Some(value) if value <= WAITING_MAX => usize::try_from(value).unwrap_or(default),
        Some(_) => {
            out.add(place.key(key).mark(), format!("at most {WAITING_MAX} calls can wait\nhint: back-pressure is kinder than a deep queue"));
            default
        }
    };
    let all = bounded(
        shared.max_delayed_requests,
        default.max_waiting,
        "max_delayed_requests",
    );
    let key = "max_delayed_requests_per_agent";
    let each = bounded(
        shared.max_delayed_requests_per_agent,
        default.max_waiting_per_agent,
        key,
    );
    // A written bound above the account's own could never be reached; the default
    // one just follows it.
    if each > all && shared.max_delayed_requests_per_agent.is_some() {
        out.add(
            place.key(key).mark(),
            format!("one agent can't have more calls waiting than the account ({all})"),
        );
    }
    (all, each.min(all))
}

fn headroom(shared: &SharedScopeOptions, place: Place<'_>, out: &mut Collector) -> u32 {
    let permille = shared.headroom.map_or(0, |share| share.permille);
    if permille >= 1_000 {
        out.add(
            place.key("headroom").mark(),
            "nothing of the quota would be left\nhint: a few percent is plenty; the margin for jitter comes on top",
        );
        return 0;
    }
    permille
}

fn floors(options: &Options, place: Place<'_>, out: &mut Collector) -> [u32; 3] {
    let written = options.priorities.clone().unwrap_or_default();
    let floor = |options: Option<_>, default: u32| {
        let options: Option<crate::config::options::PriorityOptions> = options;
        options
            .and_then(|it| it.floor)
            .map_or(default, |share| share.permille)
    };
    let default = AccountPolicy::default().floors_permille;
    let floors = [
        floor(written.interactive, default[0]),
        floor(written.normal, default[1]),
        floor(written.background, default[2]),
    ];
    let sum: u32 = floors.iter().sum();
    if sum > 1_000 {
        out.add(
            place.mark(),
            format!("the floors add up to {}%, which is more than there is\nhint: a few percent each keep a rank from starving", f64::from(sum) / 10.0),
        );
        return default;
    }
    floors
}

fn retry_budget(
    options: Option<&RetryBudgetOptions>,
    place: Place<'_>,
    out: &mut Collector,
) -> RetryBudget {
    let default = RetryBudget::default();
    let options = options.cloned().unwrap_or_default();
    let ratio_permille = match options.ratio {
        None => default.ratio_permille,
        Some(ratio) if (0.0..=1.0).contains(&ratio) => (ratio * 1_000.0).round() as u32,
        Some(_) => {
            out.add(place.key("ratio").mark(), "the ratio of repeats to first attempts is from 0 to 1\nhint: `0.1` allows one repeat for ten first attempts");
            default.ratio_permille
        }
    };
    RetryBudget {
        ratio_permille,
        burst: options.burst.unwrap_or(default.burst),
    }
}

fn refusal_budget(
    options: Option<&RefusalBudgetOptions>,
    place: Place<'_>,
    out: &mut Collector,
) -> RefusalBudget {
    let default = RefusalBudget::default();
    let options = options.cloned().unwrap_or_default();
    let events = options.events.unwrap_or(default.events);
    if !(1..=1_000).contains(&events) {
        out.add(
            place.key("events").mark(),
            "from 1 to 1000 refusal events can be counted",
        );
    }
    RefusalBudget {
        events: events.clamp(1, 1_000),
        per: above_zero(options.per, default.per, place.key("per"), out),
    }
}

fn task(options: &Options, place: Place<'_>, out: &mut Collector) -> TaskLimits {
    let default = TaskLimits::default();
    let task: TaskOptions = options.task.clone().unwrap_or_default();
    let at = place.key("task");
    let wait_secs = task
        .max_wait_seconds
        .unwrap_or(default.max_wait.as_secs_ceil());
    if wait_secs > WAIT_SECS_MAX {
        out.add(
            at.key("max_wait_seconds").mark(),
            "this is more than a year",
        );
    }
    let failures = options.breaker.as_ref().and_then(|it| it.failures);
    if failures == Some(0) {
        out.add(
            place.key("breaker").key("failures").mark(),
            "a path can't stop before its first failure\nhint: at least 1; a large number switches the breaker off",
        );
    }
    TaskLimits {
        max_retries: task.max_retries.unwrap_or(default.max_retries),
        max_wait: Span::from_secs(wait_secs.min(WAIT_SECS_MAX)),
        deadline: above_zero(task.deadline, default.deadline, at.key("deadline"), out),
        breaker_failures: failures.unwrap_or(default.breaker_failures).max(1),
    }
}

fn predict(options: Option<&PredictOptions>, place: Place<'_>, out: &mut Collector) {
    let Some(options) = options else { return };
    above_zero(
        options.window,
        Span::from_secs(10),
        place.key("window"),
        out,
    );
    if options
        .threshold
        .is_some_and(|share| !(1..=1_000).contains(&share.permille))
    {
        out.add(
            place.key("threshold").mark(),
            "the threshold is a share of the quota, above 0% and up to 100%",
        );
    }
}
