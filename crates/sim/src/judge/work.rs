//! What is asked for in a trial: plain calls, or model calls of very different
//! length, of which the provider limits the tokens.
//!
//! Model calls have 100 tokens in and a heavy-tailed number out. They all allow
//! 16,000, which says nothing about how long they are.

use std::fmt;

use rategov_core::cost;
use rategov_core::estimate::{self, Charging, Rejects, Sizing};
use rategov_core::time::Span;
use rategov_core::word::Class;

use crate::provider::config::ServiceTime;
use crate::provider::draw::Seed;
use crate::provider::message::Request;
use crate::provider::quota::{Charge, Dimension, Price, Refusals};
use crate::provider::usage::Length;

/// Most output that each call allows.
const MOST: u64 = 16_000;
/// Bytes of a model call's body.
const BYTES: usize = 400;
/// The shortest way there, and every way back.
pub(super) const WAY: Span = Span::from_millis(20);
/// Half of the answers are shorter.
const MEDIAN: u64 = 400;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reads, each of which counts as one.
    Calls,
    /// Model calls, whose tokens count.
    Tokens {
        /// When output is charged.
        charge: Charge,
        /// How much lengths vary, in percent of their mean.
        variation: u64,
    },
}

impl Work {
    /// The name of the limit.
    pub const fn word(self) -> &'static str {
        match self {
            Work::Calls => "requests",
            Work::Tokens { .. } => "tokens",
        }
    }

    /// What the provider's limit counts.
    pub fn price(self) -> Price {
        match self {
            Work::Calls => Price::default(),
            Work::Tokens { charge, .. } => Price {
                dimension: Dimension::Tokens,
                charge,
                cached_is_free: false,
            },
        }
    }

    /// The same in the core's words.
    pub const fn dimension(self) -> cost::Dimension {
        match self {
            Work::Calls => cost::Dimension::Requests,
            Work::Tokens { .. } => cost::Dimension::Tokens,
        }
    }

    /// How the provider charges, as an operator declares it.
    pub fn charge(self, refusals: Refusals) -> estimate::Charge {
        let charging = match self {
            Work::Calls => Charging::Actual,
            Work::Tokens { charge, .. } => match charge {
                Charge::Actual => Charging::Actual,
                Charge::Most => Charging::Most,
                Charge::MostThenRefund => Charging::MostThenRefund,
            },
        };
        estimate::Charge {
            tokens: charging,
            rejects: match refusals {
                Refusals::Free => Rejects::Free,
                Refusals::Counted => Rejects::Counted,
            },
            ..estimate::Charge::default()
        }
    }

    /// The class of its calls.
    pub const fn class(self) -> Class {
        match self {
            Work::Calls => Class::Read,
            Work::Tokens { .. } => Class::Generation,
        }
    }

    /// What the request of the `n`-th call says.
    pub fn request(self, n: u64) -> Request {
        match self {
            Work::Calls => Request::of("GET", "/records?limit=1", &[], ""),
            Work::Tokens { .. } => {
                let open = format!(r#"{{"model":"m","max_tokens":{MOST},"call":{n},"text":""#);
                let text = "x".repeat(BYTES.saturating_sub(open.len() + 2));
                let body = format!(r#"{open}{text}"}}"#);
                Request::of("POST", "/v1/chat/completions", &[], &body)
            }
        }
    }

    /// What the governor reads in it.
    pub fn sizing(self) -> Option<Box<Sizing>> {
        match self {
            Work::Calls => None,
            Work::Tokens { .. } => Some(Box::new(Sizing {
                prompt_bytes: BYTES as u64,
                most_output: Some(MOST),
                ..Sizing::default()
            })),
        }
    }

    /// How long its answers are.
    pub fn length(self) -> Length {
        match self {
            Work::Calls => Length::Short,
            Work::Tokens { variation, .. } => Length::varied(MEDIAN, variation * 10),
        }
    }

    /// Ten-thousandths of a limit that are not held by what is open, if that holds
    /// the most it may cost.
    pub fn kept_free(self, window: Span, jitter: Span) -> u64 {
        let Work::Tokens {
            charge: Charge::MostThenRefund,
            ..
        } = self
        else {
            return 10_000;
        };
        let service = self.service();
        let work = (service.min + service.max).scale(1, 2);
        let lasts = (work + WAY + WAY + jitter).as_micros();
        let window = window.as_micros();
        let (input, output) = (BYTES as u64 / 4, self.mean_output());
        let held = lasts * (input + MOST) / (input + output).max(1);
        10_000 * window / (window + held)
    }

    /// How long its answers are on the mean.
    fn mean_output(self) -> u64 {
        const DRAWS: u64 = 10_000;
        let draw = |n| self.length().draw(Seed(0), n, 0).min(MOST);
        (0..DRAWS).map(draw).sum::<u64>() / DRAWS
    }

    /// How long the provider works.
    pub const fn service(self) -> ServiceTime {
        match self {
            Work::Calls => ServiceTime {
                min: Span::from_millis(50),
                max: Span::from_millis(150),
            },
            Work::Tokens { .. } => ServiceTime {
                min: Span::from_millis(500),
                max: Span::from_millis(3_000),
            },
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Calls => f.write_str("calls"),
            Work::Tokens { charge, variation } => {
                write!(f, "tokens-{}-cv{variation}%", charge.word())
            }
        }
    }
}
