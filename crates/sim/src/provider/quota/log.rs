//! The exact log behind a sliding window.

use std::collections::VecDeque;

use rategov_core::time::{Moment, Span};

/// Most entries. Beyond it the oldest two become one, as if both were as late.
const ENTRIES_MAX: usize = 1_000_000;

/// What was counted, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<(Moment, u64)>,
    total: u64,
}

impl Log {
    /// Adds units, and drops what can't refuse another call: what has left the
    /// window, and what lies before twice the limit (twice, because a limit can
    /// be raised). Amortised O(1).
    pub(super) fn push(&mut self, now: Moment, units: u64, limit: u64, window: Span) {
        for _ in 0..self.gone(now, window).0 {
            self.pop();
        }
        self.total = self.total.saturating_add(units);
        match self.entries.back_mut() {
            Some((at, counted)) if *at == now => *counted = counted.saturating_add(units),
            _ => self.entries.push_back((now, units)),
        }
        let enough = limit.saturating_mul(2);
        while let Some((_, oldest)) = self.entries.front()
            && enough <= self.total.saturating_sub(*oldest)
        {
            self.pop();
        }
        if ENTRIES_MAX < self.entries.len()
            && let Some((_, oldest)) = self.entries.pop_front()
            && let Some((_, next)) = self.entries.front_mut()
        {
            *next = next.saturating_add(oldest);
        }
    }

    /// Takes units back that were added at `at`.
    pub(super) fn take_back(&mut self, at: Moment, units: u64) {
        let place = self.entries.partition_point(|(entry, _)| *entry < at);
        if let Some((entry, counted)) = self.entries.get_mut(place)
            && *entry == at
        {
            let taken = units.min(*counted);
            *counted -= taken;
            self.total -= taken;
        }
    }

    /// Units in `(now − window, now]`.
    pub(super) fn inside(&self, now: Moment, window: Span) -> u64 {
        self.total.saturating_sub(self.gone(now, window).1)
    }

    /// When no more than `kept` units are left in the window; `None` if that is so already.
    pub(super) fn down_to(&self, kept: u64, now: Moment, window: Span) -> Option<Moment> {
        let (gone, units) = self.gone(now, window);
        let mut used = self.total.saturating_sub(units);
        self.entries.iter().skip(gone).find_map(|(at, units)| {
            let was_more = kept < used;
            used = used.saturating_sub(*units);
            (was_more && used <= kept).then(|| *at + window)
        })
    }

    /// Until the oldest and until the newest unit has left the window.
    pub(super) fn leaving(&self, now: Moment, window: Span) -> (Span, Span) {
        let until = |entry: Option<&(Moment, u64)>| {
            entry.map_or(Span::ZERO, |(at, _)| (*at + window).since(now))
        };
        let oldest = self.entries.get(self.gone(now, window).0);
        (until(oldest), until(self.entries.back()))
    }

    fn pop(&mut self) {
        if let Some((_, units)) = self.entries.pop_front() {
            self.total = self.total.saturating_sub(units);
        }
    }

    /// How many of the oldest entries have left, and their units.
    fn gone(&self, now: Moment, window: Span) -> (usize, u64) {
        let left = |entry: &&(Moment, u64)| now.since(entry.0) >= window;
        let gone = self.entries.iter().take_while(left);
        gone.fold((0, 0), |(count, sum), (_, units)| (count + 1, sum + units))
    }
}
