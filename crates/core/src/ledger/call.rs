//! The words between the ledger and its caller: what is asked, what stands in
//! the way, and what changed.

use std::fmt;

use crate::cost::Cost;
use crate::estimate::Estimate;
use crate::id::Scope;
use crate::time::{Moment, Span};
use crate::word::{Mode, Priority};

/// A call that wants to go.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Every scope it touches, each once; the account's first.
    pub scopes: &'a [Scope],
    /// What it costs, as far as is known before.
    pub cost: Cost,
    /// How far that may be off; `None` if it is certain.
    pub estimate: Option<&'a Estimate>,
    /// Its rank: only interactive calls may take the seats kept for them.
    pub priority: Priority,
    /// Whether it may be the one that finds out whether a closed scope accepts
    /// again: a read, or a write that may be repeated.
    pub probe_safe: bool,
}

/// What stands in the way of a call. Data, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The scope in the way.
    pub scope: Scope,
    /// Why.
    pub reason: Reason,
    /// Not before this; [`Moment::NEVER`] waits for an event, not for a time.
    pub until: Moment,
}

/// Why a scope stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The provider refused; the hold is not over.
    Closed,
    /// The same, because a quota of a long window, or money, is used up.
    Exhausted,
    /// One call is finding out whether the provider accepts again.
    Probing,
    /// Accepted again; starts are spaced while the rate climbs back.
    Ramping,
    /// The window's quota is spent.
    Quota,
    /// Starts are spaced evenly.
    Pacing,
    /// Every seat is taken.
    Concurrency,
    /// The free seats are kept for interactive calls.
    Reserved,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 8] = [
        Reason::Closed,
        Reason::Exhausted,
        Reason::Probing,
        Reason::Ramping,
        Reason::Quota,
        Reason::Pacing,
        Reason::Concurrency,
        Reason::Reserved,
    ];

    /// The word shown to people and programs.
    pub const fn word(self) -> &'static str {
        match self {
            Reason::Closed => "closed",
            Reason::Exhausted => "quota_exhausted",
            Reason::Probing => "probing",
            Reason::Ramping => "ramping",
            Reason::Quota => "quota",
            Reason::Pacing => "pacing",
            Reason::Concurrency => "concurrency",
            Reason::Reserved => "reserved",
        }
    }

    /// The same as a sentence for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Reason::Closed => "the provider refused; nothing is sent until the hold ends",
            Reason::Exhausted => {
                "the provider's quota is used up; nothing is sent until it is back"
            }
            Reason::Probing => "one call is finding out whether the provider accepts again",
            Reason::Ramping => "the provider accepts again; starts are spaced for a moment",
            Reason::Quota => "the quota of the window is used up",
            Reason::Pacing => "starts are spaced evenly to stay below the limit",
            Reason::Concurrency => "as many calls are open as may be",
            Reason::Reserved => "the free seats are kept for interactive calls",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One call's hold on quota and seats. Never used twice by one ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId(pub u64);

/// How fast a scope can be used for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units, at least 1 …
    pub units: u64,
    /// … in this time, greater than zero.
    pub per: Span,
}

impl Rate {
    /// Whether this rate is lower than another.
    pub fn is_slower_than(self, other: Rate) -> bool {
        let own = u128::from(self.units) * u128::from(other.per.as_micros());
        own < u128::from(other.units) * u128::from(self.per.as_micros())
    }
}

/// Where a limit came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The operator declared the quota.
    Declared,
    /// The provider named it in a header.
    Header,
    /// Concluded from refusals.
    Learned,
    /// Only the operator's policy for shared scopes limits it.
    Policy,
}

impl Origin {
    /// The word shown to people.
    pub const fn word(self) -> &'static str {
        match self {
            Origin::Declared => "declared",
            Origin::Header => "header",
            Origin::Learned => "learned",
            Origin::Policy => "policy",
        }
    }
}

/// Something changed that others should know. In the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A scope's mode changed.
    Mode {
        /// The scope.
        scope: Scope,
        /// Its mode before.
        from: Mode,
        /// Its mode now.
        to: Mode,
        /// Why, in words; at most 600 bytes.
        why: String,
        /// Nothing before this; `None` if no hold stands in the way, or nobody
        /// knows when it ends (`to` tells the two apart).
        next_allowed_at: Option<Moment>,
    },
    /// A scope that is closed stays so until another time, or for another reason.
    Held {
        /// The scope.
        scope: Scope,
        /// Why, in words; at most 600 bytes.
        why: String,
        /// Nothing before this; [`Moment::NEVER`] until somebody resumes it.
        until: Moment,
    },
    /// A limit of the provider was learnt, or learnt anew.
    Learned {
        /// The scope.
        scope: Scope,
        /// Units per window.
        limit: u64,
        /// The window.
        window: Span,
        /// Where it came from, in words.
        source: String,
    },
    /// What a header said is left of a limit has halved: a restart should know it.
    Left {
        /// The scope.
        scope: Scope,
    },
    /// How many calls may be open at once was learnt.
    LearnedSeats {
        /// The scope.
        scope: Scope,
        /// Calls open at once.
        max_concurrent: u32,
    },
    /// The provider refused a call for the sake of a limit.
    Refused {
        /// The scope whose limit it was.
        scope: Scope,
        /// The status of the answer.
        status: u16,
        /// Nothing before this; [`Moment::NEVER`] until somebody resumes it.
        until: Moment,
        /// Whether it only repeats a refusal that is known already.
        echo: bool,
    },
    /// The headers show use of the quota that did not pass through here.
    Foreign {
        /// The scope.
        scope: Scope,
        /// Units used by others in the current window, at least.
        units: u64,
        /// Of so many.
        limit: u64,
    },
    /// No wait that anybody would bear helps; a person should know.
    Hopeless {
        /// The scope.
        scope: Scope,
        /// Why, in words.
        why: String,
    },
    /// A header did not match its grammar. Told once per scope and field.
    Malformed {
        /// The scope.
        scope: Scope,
        /// The field's name.
        field: String,
    },
}

impl Change {
    /// The scope that it is about.
    pub fn scope(&self) -> &Scope {
        match self {
            Change::Mode { scope, .. }
            | Change::Held { scope, .. }
            | Change::Learned { scope, .. }
            | Change::Left { scope }
            | Change::LearnedSeats { scope, .. }
            | Change::Refused { scope, .. }
            | Change::Foreign { scope, .. }
            | Change::Hopeless { scope, .. }
            | Change::Malformed { scope, .. } => scope,
        }
    }

    /// Whether [`Ledger::save`](super::Ledger::save) of the scope gives
    /// something that a restart should read back.
    pub const fn is_worth_saving(&self) -> bool {
        matches!(
            self,
            Change::Mode { .. }
                | Change::Held { .. }
                | Change::Learned { .. }
                | Change::Left { .. }
                | Change::LearnedSeats { .. }
        )
    }
}
