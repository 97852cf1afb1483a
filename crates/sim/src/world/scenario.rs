//! What a seed decides before anything happens: accounts and their providers,
//! rules, how bad the network, the disk and the process are, and for how long.
//!
//! The bad times end ([`Scenario::calm_from`]); after that everybody behaves, so
//! that what is still open then must come to an end by itself.

use rategov_core::policy::{
    AccountPolicy, ClassTable, Quota, RefusalBudget, RetryBudget, ScopeLimits, Stores, TaskLimits,
    WindowKind,
};
use rategov_core::time::{Moment, Span};

use super::metered;
use super::node::scope_of;
use super::order::{KeyNature, SETTLE};
use super::random::Random;
use crate::provider::config::{Config, ServiceTime};
use crate::provider::draw::Seed;
use crate::provider::fault::{Conduct, Effect, Ending, Fault, Framing, Step, Times};
use crate::provider::idempotency::{self, Honour, KeyRules};
use crate::provider::limit_fields::LimitFields;
use crate::provider::quota::Rule;

/// When the world begins: late enough that "an hour ago" exists.
pub const BEGIN: Moment = Moment::from_micros(7_200_000_000);

/// One account and the provider behind it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The provider's nature.
    pub config: Config,
    /// How it treats keys.
    pub keys: KeyNature,
    /// What its script spoils.
    pub script: Vec<Step>,
    /// The rules of the account.
    pub policy: AccountPolicy,
}

/// How often things go wrong, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// A connection can't be made, or is found dead before a byte.
    pub no_connection: u64,
    /// A request is lost on its way.
    pub request_lost: u64,
    /// A request's connection breaks, and its copy arrives later.
    pub late_copy: u64,
    /// An answer is lost on its way.
    pub answer_lost: u64,
    /// A batch of the journal is lost.
    pub commit_lost: u64,
}

impl Trouble {
    /// None at all.
    pub const NONE: Trouble = Trouble {
        no_connection: 0,
        request_lost: 0,
        late_copy: 0,
        answer_lost: 0,
        commit_lost: 0,
    };
}

/// A world before it begins.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The accounts.
    pub places: Vec<Place>,
    /// Agents, and operations of each.
    pub agents: usize,
    /// Operations of each agent.
    pub operations: usize,
    /// What a task may cost.
    pub tasks: TaskLimits,
    /// How often things go wrong, until it is calm.
    pub trouble: Trouble,
    /// When the process dies.
    pub deaths: Vec<Moment>,
    /// From when on nothing goes wrong any more.
    pub calm_from: Moment,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn of(seed: u64) -> Scenario {
        let random = &mut Random::new(seed, "scenario");
        let calm_from = BEGIN + random.millis(60_000, 180_000);
        let lasts = calm_from.since(BEGIN).as_millis();
        let deaths = match random.below(4) {
            0 => 0,
            1 | 2 => 1 + random.below(2),
            _ => 3 + random.below(4),
        };
        let mut deaths: Vec<Moment> = (0..deaths)
            .map(|_| BEGIN + random.millis(200, lasts))
            .collect();
        deaths.sort_unstable();
        let often = |random: &mut Random, most: u64| match random.below(3) {
            0 => 0,
            1 => random.below(most / 4 + 1),
            _ => random.below(most + 1),
        };
        Scenario {
            places: (0..1 + random.index(3))
                .map(|site| place(random, site, seed ^ site as u64))
                .collect(),
            agents: 1 + random.index(5),
            operations: 4 + random.index(9),
            tasks: TaskLimits {
                max_retries: 3 + random.below(20) as u32,
                max_wait: random.millis(20_000, 600_000),
                deadline: random.millis(30_000, 900_000),
                breaker_failures: 3,
            },
            trouble: Trouble {
                no_connection: often(random, 150),
                request_lost: often(random, 150),
                late_copy: often(random, 150),
                answer_lost: often(random, 200),
                commit_lost: often(random, 20),
            },
            deaths,
            calm_from,
        }
    }
}

fn place(random: &mut Random, site: usize, seed: u64) -> Place {
    let (mut rules, mut declared) = limits(random);
    let metered = metered::limit(seed);
    let charge = metered.as_ref().map(|metered| metered.charge);
    if let Some(metered) = metered {
        rules.push(metered.rule);
        declared.quotas.extend(metered.declared);
    }
    let stores_all = random.happens(500);
    let lifetime = match random.below(3) {
        0 => Span::from_secs(60),
        1 => Span::from_secs(600),
        _ => Span::from_secs(24 * 3_600),
    };
    let dialects = [
        LimitFields::None,
        LimitFields::RetryAfterOnly,
        LimitFields::XRateLimit,
        LimitFields::Ietf,
    ];
    let config = Config {
        seed: Seed(seed),
        quotas: rules,
        limit_fields: *random.pick(&dialects),
        service: ServiceTime {
            min: random.millis(5, 100),
            max: random.millis(100, 900),
        },
        keys: KeyRules {
            honour: Honour::Compared,
            stores: match stores_all {
                true => idempotency::Stores::All,
                false => idempotency::Stores::Successes,
            },
            lifetime,
        },
        lag: Span::from_micros(random.below(SETTLE.as_micros())),
        ..Config::default()
    };
    let keys = KeyNature {
        lifetime,
        stores: match stores_all {
            true => Stores::All,
            false => Stores::Successes,
        },
    };
    Place {
        config,
        keys,
        script: script(random, keys.stores),
        policy: AccountPolicy {
            charge: charge.unwrap_or_default(),
            ..policy(random, site, declared)
        },
    }
}

/// What the provider enforces, and what of it is declared: the truth, nothing,
/// or another shape of it.
fn limits(random: &mut Random) -> (Vec<Rule>, ScopeLimits) {
    let (text, limit, window) = match random.below(6) {
        0 | 1 => ("", 0, 1),
        2 => ("sliding:20/5s", 20, 5),
        3 => ("fixed:20/5s", 20, 5),
        4 => ("bucket:10+4/s", 20, 5),
        _ => ("sliding:30/5s,count-refusals", 30, 5),
    };
    let mut rules: Vec<Rule> = text.parse::<Rule>().into_iter().collect();
    let seats = match random.below(4) {
        0 => Some(1 + random.below(4) as u32),
        _ => None,
    };
    if let Some(seats) = seats
        && let Ok(rule) = format!("concurrent:{seats},name=seats").parse::<Rule>()
    {
        rules.push(rule);
    }
    let kind = match random.below(3) {
        0 => WindowKind::Sliding,
        1 => WindowKind::Fixed,
        _ => WindowKind::Unknown,
    };
    let quota = Quota {
        dimension: rategov_core::cost::Dimension::Requests,
        limit,
        window: Span::from_secs(window),
        kind,
    };
    let told = random.happens(600);
    let declared = ScopeLimits {
        quotas: (told && 0 < limit).then_some(quota).into_iter().collect(),
        max_concurrent: seats.filter(|_| told),
    };
    (rules, declared)
}

fn policy(random: &mut Random, site: usize, declared: ScopeLimits) -> AccountPolicy {
    let mut classes = ClassTable::default();
    if random.happens(300) {
        // An operator who lets definite refusals of uncertain writes be repeated.
        classes.uncertain_write = classes.idempotent_write.clone();
    }
    classes.generation.ambiguous_retry = random.happens(300);
    let small = random.happens(300);
    AccountPolicy {
        scopes: vec![(scope_of(site), declared)],
        max_waiting: if small { 6 } else { 10_000 },
        max_waiting_per_agent: if small { 3 } else { 256 },
        classes,
        retry_budget: RetryBudget {
            ratio_permille: 100,
            burst: 2 + random.below(10) as u32,
        },
        refusal_budget: RefusalBudget::default(),
        escalation_expires: random.millis(30_000, 900_000),
        ..AccountPolicy::default()
    }
}

fn script(random: &mut Random, stores: Stores) -> Vec<Step> {
    let calls = [
        "POST /records",
        "POST /records",
        "POST /invites",
        "GET /records*",
        "POST /v1/chat/completions",
        "*",
    ];
    let steps = random.below(14);
    (0..steps)
        .map(|_| {
            let conduct = conduct(random, stores);
            let calls = *random.pick(&calls);
            Step::once(calls, conduct)
                .after(random.below(6) as u32)
                .times(Times::Count(1 + random.below(3) as u32))
        })
        .collect()
}

fn conduct(random: &mut Random, stores: Stores) -> Conduct {
    if random.happens(30) {
        // Somebody has to pay: closed until a person reopens it.
        return Conduct::status(402);
    }
    let effect = match random.happens(500) {
        true => Effect::Applied,
        false => Effect::Skipped,
    };
    // Who forgets a key after a failure has undone what failed.
    let with_failure = match stores {
        Stores::Successes => Effect::Skipped,
        _ => effect,
    };
    let ending = *random.pick(&[Ending::Fin, Ending::Rst, Ending::Silence]);
    let framing = *random.pick(&[Framing::Length, Framing::Chunked]);
    let wait = random.below(8).to_string();
    match random.below(12) {
        0 => hinted(429, &wait),
        1 => Conduct::status(429),
        2 => hinted(503, &wait),
        3 => Conduct::status(500).effect(with_failure),
        4 => Conduct::status(502).effect(with_failure),
        5 => Conduct::status(*random.pick(&[400, 401, 403, 404, 422])),
        6 => Conduct::fault(Fault::HalfBody { framing, ending }),
        7 => Conduct::fault(Fault::Malformed { effect }),
        8 => Conduct::fault(Fault::StreamCut { after: 1, ending }),
        9 => Conduct {
            delay: random.millis(100, 1_500),
            ..Conduct::default()
        },
        _ => Conduct::fault(Fault::NoAnswer { effect, ending }),
    }
}

/// A refusal that names a wait.
fn hinted(status: u16, seconds: &str) -> Conduct {
    let plain = Conduct::status(status);
    plain.clone().field("retry-after", seconds).unwrap_or(plain)
}
