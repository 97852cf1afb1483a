//! The only reader of clocks.
//!
//! Everything else takes the time as an argument. The core's moments are
//! microseconds of the boot clock: it keeps counting while the machine sleeps
//! and never goes back, so a stored moment is exact as long as the machine was
//! not restarted, which the boot id tells.

use std::time::Duration;

use rategov_core::time::{Moment, Span, WallTime};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// The clocks.
#[derive(Clone, Debug)]
pub struct Clock {
    boot_id: String,
    source: Source,
}

/// Where the time comes from.
#[derive(Clone, Debug)]
enum Source {
    /// The machine.
    Machine,
    /// The timers of a runtime, from these readings on.
    Timers {
        runtime: Handle,
        start: Instant,
        at: Moment,
        wall: WallTime,
    },
}

impl Clock {
    /// Reads which boot this is.
    pub fn new() -> Clock {
        // Without the file (not Linux) each start counts as another boot: stored
        // waits are then rebuilt from the wall clock, the cautious way.
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_else(|_| uuid::Uuid::now_v7().to_string());
        Clock {
            boot_id,
            source: Source::Machine,
        }
    }

    /// A clock that goes as the timers of this runtime go, and shows `at` and
    /// `wall` now. Where the runtime's time is paused (in tests) the governor
    /// then lives in virtual time. Not for service: it stands still while the
    /// machine sleeps.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn of_timers(at: Moment, wall: WallTime) -> Clock {
        let source = Source::Timers {
            runtime: Handle::current(),
            start: Instant::now(),
            at,
            wall,
        };
        Clock {
            boot_id: "timers".to_owned(),
            source,
        }
    }

    /// Which boot of the machine this is.
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Now, on the boot clock.
    pub fn now(&self) -> Moment {
        if let Some((at, _, passed)) = self.timers() {
            return at + passed;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Moment::from_micros(seconds * 1_000_000 + nanos / 1_000)
    }

    /// Now, on the wall.
    pub fn wall(&self) -> WallTime {
        if let Some((_, wall, passed)) = self.timers() {
            return wall + passed;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        WallTime::from_micros(time.tv_sec * 1_000_000 + time.tv_nsec / 1_000)
    }

    /// The readings at the start of a clock of timers, and what has passed since.
    fn timers(&self) -> Option<(Moment, WallTime, Span)> {
        let Source::Timers {
            runtime,
            start,
            at,
            wall,
        } = &self.source
        else {
            return None;
        };
        // Also the journal's thread asks, which is outside the runtime.
        let _inside = runtime.enter();
        let passed = start.elapsed().as_micros();
        Some((
            *at,
            *wall,
            Span::from_micros(u64::try_from(passed).unwrap_or(u64::MAX)),
        ))
    }

    /// Both clocks, read together, for the store.
    pub fn paired(&self) -> rategov_store::Now {
        rategov_store::Now {
            boot_id: self.boot_id.clone(),
            at: self.now(),
            wall: self.wall(),
        }
    }

    /// The wall time of a moment, by one paired reading.
    pub fn wall_of(&self, at: Moment) -> WallTime {
        let (now, wall) = (self.now(), self.wall());
        if now <= at {
            wall + at.since(now)
        } else {
            let back = i64::try_from(now.since(at).as_micros()).unwrap_or(i64::MAX);
            WallTime::from_micros(wall.as_micros().saturating_sub(back))
        }
    }

    /// Waits until a moment has come. The runtime's timer may be a millisecond
    /// late and is never early; a moment far away is approached in steps, since
    /// the machine may sleep meanwhile.
    pub async fn sleep_until(&self, at: Moment) {
        const STEP: Duration = Duration::from_secs(60);
        loop {
            let left = at.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(Duration::from_micros(left.as_micros()).min(STEP)).await;
        }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// A time for people and machines: RFC 3339 in UTC with milliseconds.
pub fn rfc3339(at: WallTime) -> String {
    let stamp = jiff::Timestamp::from_microsecond(at.as_micros()).unwrap_or(jiff::Timestamp::MIN);
    format!("{stamp:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_rfc_3339_in_utc() {
        let at = WallTime::from_micros(1_796_126_400_250_000);
        assert_eq!(rfc3339(at), "2026-12-01T12:00:00.250Z");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_of_timers_goes_as_the_runtime_goes_on_every_thread() {
        let clock = Clock::of_timers(Moment::from_micros(5), WallTime::from_secs(7));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(clock.now(), Moment::from_micros(2_000_005));
        let elsewhere = clock.clone();
        let wall = std::thread::spawn(move || elsewhere.wall()).join().unwrap();
        assert_eq!(wall, WallTime::from_secs(9));
    }

    #[test]
    fn a_moment_maps_to_the_wall_and_back() {
        let clock = Clock::new();
        let now = clock.now();
        let wall = clock.wall_of(now);
        let drift = clock.wall().as_micros().abs_diff(wall.as_micros());
        assert!(drift < 1_000_000, "drifted by {drift} us");
    }
}
