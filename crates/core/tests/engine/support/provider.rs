//! What a scripted provider says to what arrives.

use rategov_core::action::outcome::{Body, Evidence, Lost, NotSent, Upload};
use rategov_core::engine::BodyEnd;
use rategov_core::event::Found;
use rategov_core::id::{ActionId, AttemptNo};
use rategov_core::observe::{Facts, Meaning, Reach};
use rategov_core::time::{Moment, Span};

use super::call::ms;

/// What reached the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Moment,
    pub(crate) action: ActionId,
    /// Which attempt, or which look-up.
    pub(crate) what: What,
    pub(crate) key: Option<String>,
    pub(crate) agent: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Attempt(AttemptNo),
    Lookup(u16),
}

/// How an arrival ends.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// This, after so long. Whether it had an effect is the script's business.
    Evidence(Span, Evidence),
    /// A head after the first span, its body's end after the second.
    Stream(Span, Facts, Span, BodyEnd),
    /// A look-up's answer.
    Found(Span, Found),
    /// A look-up that never left.
    LookupNotSent,
    /// Nothing ever comes back.
    Silence,
}

impl Say {
    pub(crate) fn status(status: u16) -> Say {
        let meaning = match status {
            200..=399 => Meaning::Ok,
            429 => Meaning::RateLimited,
            503 | 529 => Meaning::Overloaded,
            401 => Meaning::Credential,
            402 => Meaning::Billing,
            400..=499 => Meaning::CallerError,
            _ => Meaning::ProviderError,
        };
        Say::facts(Facts::bare(status, meaning))
    }

    pub(crate) fn facts(facts: Facts) -> Say {
        let evidence = Evidence::Answered {
            facts,
            body: Body::Complete,
            upload: Upload::Complete,
        };
        Say::Evidence(ms(100), evidence)
    }

    pub(crate) fn ok() -> Say {
        Say::status(200)
    }

    pub(crate) fn wait(seconds: u64) -> Say {
        Say::facts(limited(Some(seconds)))
    }

    pub(crate) fn lost() -> Say {
        Say::Evidence(ms(100), Evidence::Lost(Lost::Closed))
    }

    pub(crate) fn not_sent(why: NotSent) -> Say {
        Say::Evidence(ms(10), Evidence::NotSent(why))
    }

    pub(crate) fn found(found: Found) -> Say {
        Say::Found(ms(50), found)
    }

    pub(crate) fn after(self, span: Span) -> Say {
        match self {
            Say::Evidence(_, evidence) => Say::Evidence(span, evidence),
            Say::Found(_, found) => Say::Found(span, found),
            Say::Stream(_, facts, end, how) => Say::Stream(span, facts, end, how),
            other => other,
        }
    }
}

pub(crate) fn limited(seconds: Option<u64>) -> Facts {
    Facts {
        retry_after: seconds.map(Span::from_secs),
        retry_source: seconds.map(|_| "HTTP 429 Retry-After"),
        ..Facts::bare(429, Meaning::RateLimited)
    }
}

pub(crate) fn limited_model(seconds: u64) -> Facts {
    Facts {
        reach: Reach::Model,
        ..limited(Some(seconds))
    }
}

/// The script of a provider.
pub(crate) type Script = Box<dyn FnMut(&Arrival) -> Say>;

/// Says one thing after the other, then 200.
pub(crate) fn in_turn(says: Vec<Say>) -> Script {
    let mut says = says.into_iter();
    Box::new(move |_| says.next().unwrap_or_else(Say::ok))
}

pub(crate) fn always(say: Say) -> Script {
    Box::new(move |_| say.clone())
}
