//! Moments that outlive the boot they belong to.
//!
//! A [`Moment`] counts on a clock that starts anew with the machine, so every
//! stored row carries a [`Stamp`]: the boot, and one paired reading of both
//! clocks when the row was written. Within the same boot a moment is read back
//! exactly as it was. After another boot it is placed on the new clock:
//!
//! | moment, seen from the stamp | on the new clock |
//! |---|---|
//! | past | as long before now as it was then, plus what the wall clock says has passed |
//! | future, a wait or a deadline | now + span − passed, at least now; the whole span if the wall clock went back |
//! | future, end of a key's safe life | the same, but now if the wall clock went back |
//!
//! A wait that can't be measured is waited whole; a key whose age can't be
//! measured is not used again. Both are the side that harms nobody.
//!
//! An example: a row is written at moment 500 s, wall 12:00:00, and holds "not
//! before 530 s". The machine reboots; it is now moment 20 s, wall 12:00:10. Of
//! the 30 s, 10 have passed: not before 40 s. Had the wall clock shown 11:59,
//! it would be 50 s.

use rategov_core::time::{Moment, Span, WallTime};

/// What a caller reads of the world's clocks, in one paired reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// What tells this boot of the machine from all others, at most 64 bytes.
    pub boot_id: String,
    /// The boot clock.
    pub at: Moment,
    /// The wall clock.
    pub wall: WallTime,
}

/// Number of a boot in one data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootNo(pub i64);

/// When a row was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// During which boot.
    pub boot: BootNo,
    /// The boot clock then.
    pub at: Moment,
    /// The wall clock then.
    pub wall: WallTime,
}

impl Stamp {
    /// The wall time of a moment of the same row: exact but for what the wall
    /// clock was set by in between.
    pub fn wall_of(&self, moment: Moment) -> WallTime {
        if moment >= self.at {
            self.wall + moment.since(self.at)
        } else {
            let before = i64::try_from(self.at.since(moment).as_micros()).unwrap_or(i64::MAX);
            WallTime::from_micros(self.wall.as_micros().saturating_sub(before))
        }
    }
}

/// A stored row with its stamp, so that its moments can be shown as times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped<T> {
    /// The row.
    pub row: T,
    /// When it was written.
    pub stamp: Stamp,
}

/// Places the moments of rows on this boot's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rebase {
    pub(crate) boot: BootNo,
    pub(crate) at: Moment,
    pub(crate) wall: WallTime,
}

impl Rebase {
    /// Whether rows of this stamp are exact as they are.
    pub(crate) fn is_exact(&self, stamp: Stamp) -> bool {
        stamp.boot == self.boot
    }

    /// What a row that is written now carries.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp {
            boot: self.boot,
            at: self.at,
            wall: self.wall,
        }
    }

    /// A past moment, a wait or a deadline.
    pub(crate) fn moment(&self, stamp: Stamp, moment: Moment) -> Moment {
        self.place(stamp, moment, Span::ZERO)
    }

    /// The end of a key's safe life.
    pub(crate) fn key_end(&self, stamp: Stamp, moment: Moment) -> Moment {
        self.place(stamp, moment, Span::MAX)
    }

    fn place(&self, stamp: Stamp, moment: Moment, passed_if_unknown: Span) -> Moment {
        if self.is_exact(stamp) || moment == Moment::NEVER {
            return moment;
        }
        let went_back = self.wall < stamp.wall;
        if moment <= stamp.at {
            return self
                .at
                .back(stamp.at.since(moment) + self.wall.since(stamp.wall));
        }
        let passed = if went_back {
            passed_if_unknown
        } else {
            self.wall.since(stamp.wall)
        };
        self.at + moment.since(stamp.at).saturating_sub(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(s: u64) -> Moment {
        Moment::from_micros(s * 1_000_000)
    }

    const STAMP: Stamp = Stamp {
        boot: BootNo(1),
        at: Moment::from_micros(500_000_000),
        wall: WallTime::from_secs(1_000),
    };

    /// Reads moments of the stamp back at 20 s after a boot, at a wall time.
    fn rebase(boot: i64, wall_s: i64) -> Rebase {
        Rebase {
            boot: BootNo(boot),
            at: moment(20),
            wall: WallTime::from_secs(wall_s),
        }
    }

    #[test]
    fn within_a_boot_a_moment_is_exact_whatever_the_wall_clock_says() {
        for wall in [0, 1_000, 9_999] {
            assert_eq!(rebase(1, wall).moment(STAMP, moment(530)), moment(530));
        }
    }

    #[test]
    fn after_a_boot_a_wait_goes_on_where_the_wall_clock_says() {
        assert_eq!(rebase(2, 1_010).moment(STAMP, moment(530)), moment(40));
        assert_eq!(rebase(2, 1_030).moment(STAMP, moment(530)), moment(20));
        assert_eq!(rebase(2, 9_999).moment(STAMP, moment(530)), moment(20));
    }

    #[test]
    fn a_wall_clock_that_went_back_costs_the_whole_wait_and_ends_the_key() {
        assert_eq!(rebase(2, 900).moment(STAMP, moment(530)), moment(50));
        assert_eq!(rebase(2, 900).key_end(STAMP, moment(530)), moment(20));
        assert_eq!(rebase(2, 1_010).key_end(STAMP, moment(530)), moment(40));
    }

    #[test]
    fn the_past_stays_as_long_ago_as_it_was_and_never_counts_below_zero() {
        let late = Rebase {
            at: moment(5_000),
            ..rebase(2, 1_010)
        };
        assert_eq!(late.moment(STAMP, moment(480)), moment(5_000 - 20 - 10));
        assert_eq!(rebase(2, 1_010).moment(STAMP, moment(400)), Moment::START);
    }

    #[test]
    fn never_stays_never() {
        assert_eq!(rebase(2, 5_000).moment(STAMP, Moment::NEVER), Moment::NEVER);
    }

    #[test]
    fn a_moment_shows_as_a_wall_time() {
        assert_eq!(STAMP.wall_of(moment(530)), WallTime::from_secs(1_030));
        assert_eq!(STAMP.wall_of(moment(490)), WallTime::from_secs(990));
    }
}
