//! Two shared budgets, and leases that give back what they took.
//!
//! A lease never waits: it grows at once or not at all, so that a full budget
//! is an answer and not a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in use against a bound.
#[derive(Debug)]
pub(super) struct Gauge {
    used: AtomicU64,
    bound: u64,
}

/// The budgets of all kept bodies: in memory, and in spill files.
#[derive(Clone, Debug)]
pub struct SpoolBudget {
    pub(super) memory: Arc<Gauge>,
    pub(super) disk: Arc<Gauge>,
}

/// A share of a budget; returned when dropped.
#[derive(Debug)]
pub(super) struct Lease {
    gauge: Arc<Gauge>,
    bytes: u64,
}

impl SpoolBudget {
    /// Budgets in bytes.
    pub fn new(memory: u64, disk: u64) -> SpoolBudget {
        let gauge = |bound| {
            Arc::new(Gauge {
                used: AtomicU64::new(0),
                bound,
            })
        };
        SpoolBudget {
            memory: gauge(memory),
            disk: gauge(disk),
        }
    }

    /// Bytes of memory in use.
    pub fn memory_used(&self) -> u64 {
        self.memory.used.load(Ordering::Relaxed)
    }

    /// Bytes of spill files in use.
    pub fn disk_used(&self) -> u64 {
        self.disk.used.load(Ordering::Relaxed)
    }
}

impl Default for SpoolBudget {
    /// 256 MB of memory, 4 GB of disk.
    fn default() -> SpoolBudget {
        SpoolBudget::new(256 << 20, 4 << 30)
    }
}

impl Lease {
    /// A lease of nothing, to be grown.
    pub(super) fn none(gauge: &Arc<Gauge>) -> Lease {
        Lease {
            gauge: Arc::clone(gauge),
            bytes: 0,
        }
    }

    /// Takes `bytes` more; `false`, and nothing taken, if the budget has no room.
    pub(super) fn grow(&mut self, bytes: u64) -> bool {
        let bound = self.gauge.bound;
        let taken = self
            .gauge
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= bound)
            });
        if taken.is_ok() {
            self.bytes += bytes;
        }
        taken.is_ok()
    }

    /// What it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let before = self.gauge.used.fetch_sub(self.bytes, Ordering::AcqRel);
        debug_assert!(before >= self.bytes, "a lease returns only what it took");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_takes_all_or_nothing_and_returns_it() {
        let budget = SpoolBudget::new(100, 0);
        let mut first = Lease::none(&budget.memory);
        assert!(first.grow(60));
        let mut second = Lease::none(&budget.memory);
        assert!(!second.grow(41));
        assert!(second.grow(40));
        assert!(!first.grow(1));
        assert!(!second.grow(u64::MAX));
        assert_eq!(budget.memory_used(), 100);
        drop(first);
        assert_eq!(budget.memory_used(), 40);
        assert!(second.grow(60));
        drop(second);
        assert_eq!(budget.memory_used(), 0);
        assert!(!Lease::none(&budget.disk).grow(1));
    }
}
