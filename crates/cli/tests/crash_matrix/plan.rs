//! The two dimensions of a governor's life: what kind of write it gets, and at
//! which points of its first and second run it is killed.

use std::fmt;

use rategov_server::fail;
use rategov_store::fail::Point;

use super::fault::Fault;

/// A kind of write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An idempotent write that can be looked up.
    LookedUp,
    /// An idempotent write whose key the provider honours, without a look-up.
    Keyed,
    /// A write with neither.
    Uncertain,
}

impl Kind {
    /// Each.
    pub(crate) const ALL: [Kind; 3] = [Kind::LookedUp, Kind::Keyed, Kind::Uncertain];

    /// Where such a write goes.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Kind::LookedUp => "/records",
            Kind::Keyed => "/orders",
            Kind::Uncertain => "/invites",
        }
    }

    /// Attempts that its class allows.
    pub(crate) fn attempts_max(self) -> u64 {
        match self {
            Kind::LookedUp | Kind::Keyed => 4,
            Kind::Uncertain => 3,
        }
    }

    /// The header in which its caller names the operation. An uncertain write
    /// has no key at its provider; the governor's own name for it stays here.
    pub(crate) fn key_header(self) -> &'static str {
        match self {
            Kind::LookedUp | Kind::Keyed => "idempotency-key",
            Kind::Uncertain => "rategov-action",
        }
    }
}

/// A point, and the pass of it that kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kill {
    /// The point.
    pub(crate) point: Point,
    pass: u32,
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.point, self.pass)
    }
}

impl Kill {
    /// At a pass of a point.
    pub(crate) fn at(point: Point, pass: u32) -> Kill {
        Kill { point, pass }
    }

    /// Where a governor dies while a person decides: its engine, its writer, and
    /// the send that a decision can bring.
    pub(crate) fn around_a_decision() -> Vec<Kill> {
        let passes = |point: Point| match point.name {
            "decision_before_engine" | "decided_before_commit" => Some(1..=1),
            "record_before_queue" => Some(1..=4),
            // The first pass is that of the start's own record.
            "before_commit" | "after_commit_before_sync" | "after_sync_before_ack" => Some(2..=4),
            "after_ack" => Some(2..=3),
            "grant_before_dial" | "first_byte_written" => Some(1..=1),
            "answer_read_before_report" | "reported_before_commit" => Some(1..=1),
            // Points of a call that comes in, of look-ups and of waits.
            _ => None,
        };
        let points = fail::TABLES.iter().copied().flatten().copied();
        let kills = points.filter_map(|point| Some((point, passes(point)?)));
        let kills = kills.flat_map(|(point, all)| all.map(move |pass| Kill { point, pass }));
        kills.collect()
    }

    /// Whether every decision that leads to a send passes it.
    pub(crate) fn is_certain_around_a_decision(self) -> bool {
        self.pass <= 2
    }
}

/// What is armed in the first run and in the second. The third has nothing armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// While the call comes in.
    pub(crate) first: Kill,
    /// While what the first run left is taken up.
    pub(crate) second: Kill,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} then {}", self.first, self.second)
    }
}

/// What a point means for a matrix of writes.
enum Use {
    /// The first run is killed at each of these passes, the second at the first.
    Passes(std::ops::RangeInclusive<u32>),
    /// The same, where there are look-ups.
    LookUps(std::ops::RangeInclusive<u32>),
    /// Passed by a restart: the first run is killed with its request on the wire.
    Restart,
    /// Passed when a person decides, which has a matrix of its own.
    Person,
}

/// The passes at which a write's life differs: the first pass of the writer's
/// points belongs to the record of the start, for instance, and an engine makes
/// up to eight records of a write that is lost, looked up and sent again. A new
/// point must be given its place here.
fn use_of(point: Point) -> Use {
    match point.name {
        "submit_before_engine" | "submitted_before_runner" => Use::Passes(1..=1),
        "record_before_queue" => Use::Passes(1..=8),
        "before_commit" | "after_commit_before_sync" | "after_sync_before_ack" => {
            Use::Passes(2..=5)
        }
        "after_ack" => Use::Passes(2..=4),
        "grant_before_dial"
        | "dialled_before_first_byte"
        | "first_byte_written"
        | "head_received_before_report"
        | "answer_read_before_report"
        | "reported_before_commit" => Use::Passes(1..=2),
        "wait_over_before_engine" => Use::Passes(1..=2),
        "committed_before_reply" | "reply_half_written" => Use::Passes(1..=1),
        "lookup_before_send" => Use::LookUps(1..=2),
        "lookup_answer_before_report" => Use::LookUps(1..=2),
        "lookup_reported_before_commit" => Use::LookUps(1..=2),
        "restart_before_take_up" | "restart_before_records" | "restart_after_take_up" => {
            Use::Restart
        }
        "decision_before_engine" | "decided_before_commit" => Use::Person,
        name => panic!("the matrix does not know what to do with the point {name}"),
    }
}

/// The fault under which a plan's first run is certain to come to its point;
/// `None` for a later pass of a point, which few lives have.
pub(crate) fn certain(plan: Plan) -> Option<Fault> {
    let first = match use_of(plan.first.point) {
        Use::Passes(passes) | Use::LookUps(passes) => *passes.start(),
        Use::Restart | Use::Person => return None,
    };
    let fault = match plan.first.point.name {
        "wait_over_before_engine" => Fault::Refused429,
        name if name.starts_with("lookup_") => Fault::ResetAfterEffect,
        // The second run is killed while it looks up or sends again.
        "first_byte_written" => Fault::SilenceBeforeEffect,
        _ => Fault::Nothing,
    };
    (plan.first.pass == first).then_some(fault)
}

/// Every plan for a kind of write.
pub(crate) fn plans(kind: Kind) -> Vec<Plan> {
    let mut plans = Vec::new();
    for point in fail::TABLES.iter().copied().flatten().copied() {
        let kill = |pass| Kill { point, pass };
        match use_of(point) {
            Use::LookUps(_) if kind != Kind::LookedUp => {}
            Use::Passes(passes) | Use::LookUps(passes) => {
                // A restart's first pass of the writer's points is its own record again.
                let second = kill(*passes.start());
                plans.extend(passes.map(|pass| Plan {
                    first: kill(pass),
                    second,
                }));
            }
            Use::Restart => {
                let wire = Kill {
                    point: fail::FIRST_BYTE_WRITTEN,
                    pass: 1,
                };
                plans.push(Plan {
                    first: wire,
                    second: kill(1),
                });
            }
            Use::Person => {}
        }
    }
    plans
}
