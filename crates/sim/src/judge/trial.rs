//! What a trial is made of, and the words for it.

use std::fmt;

use rategov_core::cost;
use rategov_core::policy::{Quota, WindowKind};
use rategov_core::time::{Moment, Span};

use super::work::Work;
use crate::provider::limit_fields::LimitFields;
use crate::provider::quota::{Level, Reach, Refusals, Rule};

/// Windows that nobody judges, at the start.
pub const WARM_UP: u64 = 5;
/// Windows that are judged.
pub const JUDGED: u64 = 20;

/// How the provider counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Windows that start anew, at a phase that nobody knows.
    Fixed,
    /// An exact log.
    SlidingLog,
    /// The weighted sum of two windows.
    SlidingCounter,
    /// Two exact logs: the limit, and a tenth of it in a thirtieth of the window.
    Double,
    /// A bucket that holds the whole limit.
    FullBucket,
    /// A bucket that holds a tenth of it.
    SmallBucket,
    /// A bucket that holds one call.
    TinyBucket,
}

impl Shape {
    /// Every shape.
    pub const ALL: [Shape; 7] = [
        Shape::Fixed,
        Shape::SlidingLog,
        Shape::SlidingCounter,
        Shape::Double,
        Shape::FullBucket,
        Shape::SmallBucket,
        Shape::TinyBucket,
    ];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Shape::Fixed => "fixed",
            Shape::SlidingLog => "sliding",
            Shape::SlidingCounter => "counter",
            Shape::Double => "double",
            Shape::FullBucket => "bucket-full",
            Shape::SmallBucket => "bucket-small",
            Shape::TinyBucket => "bucket-tiny",
        }
    }

    /// Units that a bucket of this shape holds; `None` for windows.
    pub const fn capacity(self, size: Size) -> Option<u64> {
        match self {
            Shape::FullBucket => Some(size.limit),
            Shape::SmallBucket => Some(size.limit / 10),
            Shape::TinyBucket => Some(1),
            Shape::Fixed | Shape::SlidingLog | Shape::SlidingCounter | Shape::Double => None,
        }
    }

    /// The provider's limits of this shape.
    pub fn levels(self, size: Size) -> Vec<Level> {
        match self {
            Shape::Double => vec![self.level(size), self.level(size.burst())],
            _ => vec![self.level(size)],
        }
    }

    fn level(self, size: Size) -> Level {
        let Size { limit, window } = size;
        // A phase that is no round fraction of anything.
        let phase = window.scale(37, 100);
        match (self, self.capacity(size)) {
            (_, Some(capacity)) => Level::Bucket {
                capacity,
                refill: limit,
                per: window,
            },
            (Shape::SlidingLog | Shape::Double, _) => Level::SlidingLog { limit, window },
            (Shape::SlidingCounter, _) => Level::SlidingCounter {
                limit,
                window,
                phase,
            },
            (_, None) => Level::Fixed {
                limit,
                window,
                phase,
            },
        }
    }

    /// The words by which an operator declares it.
    pub const fn kind(self, size: Size) -> WindowKind {
        match (self, self.capacity(size)) {
            (_, Some(burst)) => WindowKind::TokenBucket { burst },
            (Shape::SlidingLog | Shape::Double, _) => WindowKind::Sliding,
            (Shape::SlidingCounter, _) => WindowKind::SlidingCounter,
            (_, None) => WindowKind::Fixed,
        }
    }
}

/// Limit and window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Units a window.
    pub limit: u64,
    /// The window.
    pub window: Span,
}

impl Size {
    /// 600 a minute.
    pub const MINUTE: Size = Size {
        limit: 600,
        window: Span::from_secs(60),
    };
    /// 800,000 a minute, for tokens: as 586 calls of the usual length.
    pub const TOKENS: Size = Size {
        limit: 800_000,
        window: Span::from_secs(60),
    };
    /// A tenth of it in a thirtieth of its window: three times as fast.
    fn burst(self) -> Size {
        Size {
            limit: (self.limit / 10).max(1),
            window: self.window.scale(1, 30),
        }
    }

    /// 100 per ten seconds.
    pub const TEN_SECONDS: Size = Size {
        limit: 100,
        window: Span::from_secs(10),
    };
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}s", self.limit, self.window.as_secs_ceil())
    }
}

/// What the governor knows of the limit at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Limit, window and shape; headers say nothing.
    Declared,
    /// The same, and every answer tells, in this dialect.
    Both(LimitFields),
    /// Nothing; every answer tells, in this dialect.
    Told(LimitFields),
    /// Nothing; only a refusal says when to come back.
    Hinted,
    /// Nothing; nothing is ever said.
    Silent,
    /// Limit and window, but another shape; headers say nothing.
    Wrong(Shape),
}

impl Knowledge {
    /// Its word.
    pub fn word(self) -> String {
        match self {
            Knowledge::Declared => "declared".to_owned(),
            Knowledge::Both(fields) => format!("declared+{}", fields.word()),
            Knowledge::Told(fields) => format!("told-{}", fields.word()),
            Knowledge::Hinted => "hinted".to_owned(),
            Knowledge::Silent => "silent".to_owned(),
            Knowledge::Wrong(shape) => format!("as-{}", shape.word()),
        }
    }

    /// What the operator declared.
    pub fn declared(self, shape: Shape, size: Size, dimension: cost::Dimension) -> Vec<Quota> {
        let kind = match self {
            Knowledge::Declared | Knowledge::Both(_) => shape.kind(size),
            Knowledge::Wrong(other) => other.kind(size),
            Knowledge::Told(_) | Knowledge::Hinted | Knowledge::Silent => return Vec::new(),
        };
        let quota = |size: Size| Quota {
            dimension,
            limit: size.limit,
            window: size.window,
            kind,
        };
        match (self, shape) {
            (Knowledge::Declared | Knowledge::Both(_), Shape::Double) => {
                vec![quota(size), quota(size.burst())]
            }
            _ => vec![quota(size)],
        }
    }

    /// What the provider tells.
    pub fn fields(self) -> LimitFields {
        match self {
            Knowledge::Told(fields) | Knowledge::Both(fields) => fields,
            Knowledge::Silent => LimitFields::None,
            Knowledge::Declared | Knowledge::Wrong(_) | Knowledge::Hinted => {
                LimitFields::RetryAfterOnly
            }
        }
    }
}

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Always more than the limit.
    Saturated,
    /// More than the limit for one and a half windows, then nothing as long.
    OnOff,
}

impl Demand {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Demand::Saturated => "saturated",
            Demand::OnOff => "on-off",
        }
    }

    /// Whether something is asked for at `now`, counted from `begin`.
    pub fn is_on(self, begin: Moment, now: Moment, window: Span) -> bool {
        let half = window.scale(3, 2).as_micros();
        match self {
            Demand::Saturated => true,
            Demand::OnOff => (now.since(begin).as_micros() / half).is_multiple_of(2),
        }
    }

    /// When it is next on, not before `now`.
    pub fn next_on(self, begin: Moment, now: Moment, window: Span) -> Moment {
        if self.is_on(begin, now, window) {
            return now;
        }
        let half = window.scale(3, 2).as_micros();
        let begun = now.since(begin).as_micros() / half + 1;
        begin + Span::from_micros(begun * half)
    }
}

/// What happens during a trial without notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// Nothing.
    Nothing,
    /// Somebody else uses so many percent of the limit with the same account.
    Foreign(u64),
    /// The limit is halved.
    Halved,
    /// The limit is doubled.
    Doubled,
    /// The provider's clock is late by so many seconds, all the time.
    Late(u64),
    /// The provider's clock is early by so many seconds, all the time.
    Early(u64),
}

impl Happening {
    /// Its word.
    pub fn word(self) -> String {
        match self {
            Happening::Nothing => "calm".to_owned(),
            Happening::Foreign(percent) => format!("foreign-{percent}%"),
            Happening::Halved => "halved".to_owned(),
            Happening::Doubled => "doubled".to_owned(),
            Happening::Late(seconds) => format!("late-{seconds}s"),
            Happening::Early(seconds) => format!("early-{seconds}s"),
        }
    }

    /// Whether it happens at one moment, and a governor may be surprised by it.
    pub const fn is_event(self) -> bool {
        matches!(
            self,
            Happening::Foreign(_) | Happening::Halved | Happening::Doubled
        )
    }

    /// Calls a window that are left for the governor after it happened.
    pub const fn left(self, limit: u64) -> u64 {
        match self {
            Happening::Nothing | Happening::Late(_) | Happening::Early(_) => limit,
            Happening::Foreign(percent) => limit * (100 - percent) / 100,
            Happening::Halved => limit / 2,
            Happening::Doubled => limit * 2,
        }
    }
}

/// One trial. Its display is its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// How the provider counts.
    pub shape: Shape,
    /// How much it allows.
    pub size: Size,
    /// What is asked for, and what of it is limited.
    pub work: Work,
    /// What the governor knows.
    pub knowledge: Knowledge,
    /// Whether refused calls use quota.
    pub refusals: Refusals,
    /// How much is asked for.
    pub demand: Demand,
    /// The spread of the way to the provider.
    pub jitter: Span,
    /// What happens at the end of the warm-up.
    pub happening: Happening,
    /// The seed of the ways and of chance.
    pub seed: u64,
}

impl Trial {
    /// The provider's rules. Where headers tell a limit that a smaller bucket
    /// enforces, they tell the limit a window, as real providers do.
    pub fn rules(&self) -> Vec<Rule> {
        self.rules_of(self.size)
    }

    /// The rules once a happening has changed the limit; `None` if it does not.
    pub fn changed_rules(&self) -> Option<Vec<Rule>> {
        matches!(self.happening, Happening::Halved | Happening::Doubled).then(|| {
            self.rules_of(Size {
                limit: self.happening.left(self.size.limit),
                ..self.size
            })
        })
    }

    fn rules_of(&self, size: Size) -> Vec<Rule> {
        let rule = |shape: Shape, is_told| Rule {
            reach: Reach::Account,
            refusals: self.refusals,
            is_told,
            name: self.work.word().to_owned(),
            price: self.work.price(),
            levels: shape.levels(size),
            ..Rule::account(shape.level(size))
        };
        let tells = matches!(self.knowledge, Knowledge::Told(_) | Knowledge::Both(_));
        match self.shape {
            Shape::SmallBucket | Shape::TinyBucket if tells => {
                vec![rule(Shape::Fixed, true), rule(self.shape, false)]
            }
            shape => vec![rule(shape, true)],
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refusals = match self.refusals {
            Refusals::Free => "free",
            Refusals::Counted => "counted",
        };
        write!(
            f,
            "{} {} {} {} {refusals} {} J={}ms {} seed={}",
            self.shape.word(),
            self.size,
            self.work,
            self.knowledge.word(),
            self.demand.word(),
            self.jitter.as_millis(),
            self.happening.word(),
            self.seed,
        )
    }
}
