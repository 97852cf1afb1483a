//! Inputs of decisions, for the tests: one that is easy to vary, and all of them.

use proptest::prelude::*;

use super::*;
use crate::action::outcome::Upload;
use crate::policy::{Idempotency, Lookup, Stores};
use crate::time::Span;

/// A decision's input that owns its parts.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) evidence: Evidence,
    pub(super) class: Class,
    pub(super) profile: Profile,
    pub(super) limits: ClassLimits,
    pub(super) backoff: Backoff,
    pub(super) rest: Judged<'static>,
}

pub(super) const NOW: Moment = Moment::from_micros(1_000_000_000);

pub(super) fn secs(s: u64) -> Span {
    Span::from_secs(s)
}

pub(super) fn answered(facts: Facts) -> Evidence {
    Evidence::Answered {
        facts,
        body: Body::Complete,
        upload: Upload::Complete,
    }
}

pub(super) fn limited(status: u16, meaning: Meaning, retry_after: Option<Span>) -> Evidence {
    answered(Facts {
        retry_after,
        ..Facts::bare(status, meaning)
    })
}

impl Case {
    /// A first attempt with generous ceilings.
    pub(super) fn new(class: Class, evidence: Evidence) -> Case {
        static NOTHING: Evidence = Evidence::NotProcessed;
        static PROFILE: Profile = Profile {
            idempotency: None,
            lookup: None,
            refusals_unprocessed: Vec::new(),
            absent_is_success: false,
            hold_after_uncertain: Span::ZERO,
        };
        static LIMITS: ClassLimits = ClassLimits {
            max_attempts: 1,
            max_wait: Span::ZERO,
            retry_statuses: Vec::new(),
            ambiguous_retry: false,
        };
        static BACKOFF: Backoff = Backoff {
            base: Span::ZERO,
            cap: Span::ZERO,
            minimum: Span::ZERO,
        };
        Case {
            evidence,
            class,
            profile: Profile::nothing(),
            limits: ClassLimits {
                max_attempts: 4,
                max_wait: secs(90),
                retry_statuses: vec![408, 429, 500, 502, 503, 504],
                ambiguous_retry: false,
            },
            backoff: Backoff::default(),
            rest: Judged {
                evidence: &NOTHING,
                class,
                profile: &PROFILE,
                limits: &LIMITS,
                backoff: &BACKOFF,
                after_unknown: AfterUnknown::No,
                used: Used {
                    attempts: 1,
                    waited: Span::ZERO,
                },
                lookups_made: 0,
                task: TaskAllowance::UNLIMITED,
                ratio: Ratio::Allows,
                replay: Replay::Kept,
                interest: Interest::Wanted,
                to_agent: ToAgent::Nothing,
                now: NOW,
                gate: Moment::START,
                held_until: Moment::NEVER,
                deadline: Moment::NEVER,
                key_safe_until: Some(NOW + secs(3_600)),
                draw: Draw::ZERO,
            },
        }
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Case)) -> Case {
        change(&mut self);
        self
    }

    pub(super) fn keyed(self, stores: Stores) -> Case {
        self.with(|c| {
            c.profile.idempotency = Some(Idempotency {
                lifetime: secs(86_400),
                stores,
                in_progress: Some(409),
                mismatch: Some(422),
            });
        })
    }

    pub(super) fn with_lookup(self) -> Case {
        self.with(|c| {
            c.profile.lookup = Some(Lookup {
                authoritative: true,
                settle: secs(1),
                max_in_flight: secs(5),
                max_lookups: 3,
            });
        })
    }

    pub(super) fn judged(&self) -> Judged<'_> {
        Judged {
            evidence: &self.evidence,
            class: self.class,
            profile: &self.profile,
            limits: &self.limits,
            backoff: &self.backoff,
            ..self.rest
        }
    }

    pub(super) fn decide(&self) -> Next {
        decide(&self.judged())
    }
}

fn any_meaning() -> impl Strategy<Value = Meaning> {
    proptest::sample::select(vec![
        Meaning::Ok,
        Meaning::RateLimited,
        Meaning::TooManyConcurrent,
        Meaning::QuotaExhausted,
        Meaning::Billing,
        Meaning::Overloaded,
        Meaning::Credential,
        Meaning::TooLarge,
        Meaning::KeyInProgress,
        Meaning::KeyMismatch,
        Meaning::CallerError,
        Meaning::ProviderError,
    ])
}

fn any_evidence() -> impl Strategy<Value = Evidence> {
    let not_sent = proptest::sample::select(vec![
        NotSent::Dns,
        NotSent::Connect,
        NotSent::Tls,
        NotSent::Certificate,
        NotSent::ConnectionClosed,
        NotSent::Withdrawn,
    ]);
    let lost = proptest::sample::select(vec![
        Lost::Closed,
        Lost::TimedOut,
        Lost::UploadCut,
        Lost::Malformed,
        Lost::CallerGone,
        Lost::OwnCrash,
        Lost::Unreported,
    ]);
    let status = prop_oneof![
        9 => proptest::sample::select(vec![
            200_u16, 201, 204, 302, 400, 401, 404, 408, 409, 410, 412, 421, 422, 425, 429, 500,
            501, 502, 503, 504, 529,
        ]),
        1 => 0_u16..1_000,
    ];
    let hint = proptest::option::of(prop_oneof![0_u64..20_000_000, 0_u64..200_000_000]);
    let body = proptest::sample::select(vec![Body::Complete, Body::Open, Body::Cut]);
    let upload = proptest::sample::select(vec![Upload::Complete, Upload::Partial]);
    let answer = (status, any_meaning(), hint, body, upload).prop_map(
        |(status, meaning, hint, body, upload)| {
            let retry_after = hint.map(Span::from_micros);
            let facts = Facts {
                retry_after,
                ..Facts::bare(status, meaning)
            };
            Evidence::Answered {
                facts,
                body,
                upload,
            }
        },
    );
    prop_oneof![
        1 => not_sent.prop_map(Evidence::NotSent),
        1 => Just(Evidence::NotProcessed),
        2 => lost.prop_map(Evidence::Lost),
        6 => answer,
    ]
}

/// True five times out of six: most cases should get as far as a decision.
fn mostly() -> impl Strategy<Value = bool> {
    proptest::bool::weighted(5.0 / 6.0)
}

prop_compose! {
    pub(super) fn any_case()(
        evidence in any_evidence(),
        class in proptest::sample::select(Class::ALL.to_vec()),
        (keyed, blind, sure) in (mostly(), mostly(), mostly()),
        stores in proptest::sample::select(vec![Stores::All, Stores::Successes, Stores::Definite]),
        unprocessed in proptest::sample::subsequence(vec![408_u16, 429, 503], 0..=3),
        statuses in proptest::sample::subsequence(
            vec![400_u16, 404, 408, 409, 429, 500, 502, 503, 504], 3..=9),
        (ambiguous, absent, unknown) in any::<(bool, bool, bool)>(),
        (max_attempts, attempts, lookups) in (2_u16..8, 1_u16..4, 0_u16..5),
        (max_wait, waited, task_wait) in (0_u64..600, 0_u64..100, 0_u64..600),
        (retries, ratio, kept) in (0_u32..6, mostly(), mostly()),
        interest in prop_oneof![
            6 => Just(Interest::Wanted),
            1 => Just(Interest::Gone),
            1 => Just(Interest::Cancelled),
        ],
        nothing_passed in mostly(),
        (gate, held, deadline, safe) in (0_u64..150, 0_u64..1_500, 0_u64..1_500, 0_u64..1_500),
        draw in any::<u32>(),
    ) -> Case {
        let at = |s: u64| NOW + secs(s).saturating_sub(secs(50));
        let mut case = Case::new(class, evidence);
        if keyed { case = case.keyed(stores); }
        if !blind { case = case.with_lookup(); }
        case.profile.refusals_unprocessed = unprocessed;
        case.profile.absent_is_success = absent;
        case.limits = ClassLimits {
            max_attempts,
            max_wait: secs(max_wait),
            retry_statuses: statuses,
            ambiguous_retry: ambiguous,
        };
        let rest = &mut case.rest;
        rest.after_unknown =
            if unknown && class.is_write() { AfterUnknown::Yes } else { AfterUnknown::No };
        rest.used = Used { attempts, waited: secs(waited) };
        rest.lookups_made = lookups;
        rest.task = TaskAllowance { retries, wait: secs(task_wait), stops: 0 };
        rest.ratio = if ratio { Ratio::Allows } else { Ratio::Spent };
        rest.replay = if kept { Replay::Kept } else { Replay::NotKept };
        rest.interest = interest;
        rest.to_agent = if nothing_passed { ToAgent::Nothing } else { ToAgent::Something };
        rest.gate = at(gate);
        rest.held_until = at(held);
        rest.deadline = at(deadline);
        rest.key_safe_until = sure.then(|| at(safe));
        rest.draw = Draw::from_u32(draw);
        case
    }
}
