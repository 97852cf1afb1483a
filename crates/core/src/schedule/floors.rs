//! Floors over strict rank: the better rank goes first, but each rank is owed a
//! share of what is handed out, so nothing starves for ever.
//!
//! # The rule
//! Each rank has a credit, in thousandths of a unit of cost.
//!
//! | when | credit |
//! |---|---|
//! | a call of cost `c` of another rank goes where this rank could have gone | `+ floor · c` |
//! | a call of cost `c` of this rank goes, for whatever reason | `+ floor · c − 1000 · c`, not below 0 |
//! | its first call, of cost `c`, arrives after it had none | at most `1000 · c` is kept |
//!
//! A rank is *owed* its next call, of cost `c`, when `credit ≥ (1000 − floor) · c`:
//! the call itself earns the rest. Of several owed ranks the one goes whose
//! deadline is nearest: it has earned its call in full after another
//! `(1000 · c − credit) / floor` units. If no rank is owed, the best rank goes.
//! So no quota is kept idle, a rank alone gets everything, and clocks play no part.
//!
//! "Could have gone" matters where an account has several scopes. While
//! `model:b` is used up, what `model:a` hands out passes nobody over who waits
//! for `model:b`; if it counted, background calls would come out of that wait
//! with credit enough to shut interactive ones out of the smaller model. A rank
//! that is only *held* for the sake of better ones (spacing, throttling) could
//! have gone: it earns, and when it is owed its call it goes. A floor that
//! spacing could take away would be none.
//!
//! # Example
//! Floors 0, 100 and 50 thousandths, all costs 1, every rank has calls waiting.
//! Normal gains 100 a grant: after 9 grants it has 900 = (1000 − 100) · 1, so
//! the 10th is its own, and 900 + 100 − 1000 = 0 is left. Background gains 50:
//! after 19 it has 950 and would get the 20th, but normal is owed that one too
//! and was owed it first; background gets the 21st and keeps the 50 it earned
//! meanwhile. Of 1,000 grants normal gets 100, background 50, interactive 850.
//!
//! # Bound
//! Let R units be handed out each second where a call waits, and let the floors
//! sum to 1000 at most. The call at the head of an agent's queue, of cost c, then
//! waits at most
//!
//! ```text
//! (Σ largest cost of its rank's other agents + c) / (floor · R)
//!   + (one largest cost of all + Σ one call of each other rank with a floor) / R
//! ```
//!
//! With 6 calls a second, a floor of 50, five background agents and normal ones:
//! (4 + 1) / (0.05 · 6) + (1 + 1) / 6 = 17 s.
//!
//! Why: count work in units handed out, not in seconds. Fair queueing lets each
//! other agent of the rank go at most once before a head that has just arrived
//! ([`super::fair`]; an agent that has just had a call also lets the others catch
//! up with it, which with equal costs is the same one call each). Credit is never
//! negative and a call takes at most 1000 times its cost, so after (Σ + c) / floor
//! units the rank has earned all of them, and it was owed the head before that.
//! From then on the head waits for the call that was just going, and, as floors
//! sum to no more than 1000 and the nearest deadline goes first, for one call of
//! each other rank that is owed at the same time.
//!
//! Sources: the reservation of mClock (Gulati, Merchant, Varman, OSDI 2010),
//! counted in service as in deficit round robin (Shreedhar, Varghese 1995).

use crate::word::Priority;

/// Ranks, as many as [`Priority::ALL`].
pub(super) const RANKS: usize = 3;

/// A whole, in the unit of floors.
const WHOLE: u64 = 1_000;

/// Which ranks could have gone where a call went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed([bool; RANKS]);

impl Passed {
    /// Notes that a rank was passed over.
    pub(super) fn note(&mut self, priority: Priority) {
        self.0[priority as usize] = true;
    }
}

/// What a call's turn took from its rank's credit, to be able to undo it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent(u64);

#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    permille: u64,
    /// Thousandths of a unit of cost.
    credit: u64,
}

/// The credits of one account's ranks.
#[derive(Clone, Debug)]
pub(super) struct Floors {
    ranks: [Floor; RANKS],
}

impl Floors {
    /// Floors in thousandths, best rank first; see [`Floors::set`].
    pub(super) fn new(permille: [u32; RANKS]) -> Floors {
        let mut floors = Floors {
            ranks: [Floor::default(); RANKS],
        };
        floors.set(permille);
        floors
    }

    /// Changes the floors; what was earned stays earned. If they sum to more than
    /// 1,000 nobody could keep them, and they are cut in proportion.
    pub(super) fn set(&mut self, permille: [u32; RANKS]) {
        let sum = permille
            .iter()
            .map(|floor| u64::from(*floor))
            .sum::<u64>()
            .max(WHOLE);
        for (floor, permille) in self.ranks.iter_mut().zip(permille) {
            floor.permille = u64::from(permille) * WHOLE / sum;
            if floor.permille == 0 {
                floor.credit = 0;
            }
        }
    }

    /// Thousandths that a rank is owed.
    pub(super) fn permille(&self, priority: Priority) -> u64 {
        self.ranks[priority as usize].permille
    }

    /// A rank's first call arrived after it had none.
    ///
    /// What it earned by waiting it keeps, so that a caller who is handed back at
    /// the end of its hold and returns does not wait for the floor anew; but what
    /// it earned for a dear call that was withdrawn doesn't buy many cheap ones.
    pub(super) fn begin(&mut self, priority: Priority, units: u32) {
        let credit = &mut self.ranks[priority as usize].credit;
        *credit = (*credit).min(WHOLE * u64::from(units));
    }

    /// How far a rank's deadline for a call is away, in thousandths of a unit of
    /// work (negative: missed); `None` if it is not owed that call.
    pub(super) fn owed(&self, priority: Priority, units: u32) -> Option<i64> {
        let Floor { permille, credit } = self.ranks[priority as usize];
        if permille == 0 || credit < (WHOLE - permille) * u64::from(units) {
            return None;
        }
        // A rank that could go and is owed goes, so a credit is at most a call's price
        // and what it earns during a few calls of others: far inside 63 bits.
        let missing = (WHOLE * u64::from(units)) as i64 - credit as i64;
        Some(missing * WHOLE as i64 / permille as i64)
    }

    /// A call of `priority` goes. Returns what its rank pays.
    pub(super) fn serve(&mut self, priority: Priority, units: u32, passed: Passed) -> Spent {
        for (rank, floor) in self.ranks.iter_mut().enumerate() {
            if passed.0[rank] || rank == priority as usize {
                floor.credit += floor.permille * u64::from(units);
            }
        }
        let credit = &mut self.ranks[priority as usize].credit;
        let spent = (*credit).min(WHOLE * u64::from(units));
        *credit -= spent;
        Spent(spent)
    }

    /// How many calls go before one that has `own` of its rank before it, if
    /// `ready` calls of each rank may go and all cost the same: the better ones,
    /// but no more than its floor lets by, and what floors give to worse ones.
    pub(super) fn before(&self, priority: Priority, own: usize, ready: [usize; RANKS]) -> usize {
        let rank = priority as usize;
        let better: usize = ready[..rank].iter().sum();
        let better = match self.ranks[rank].permille as usize {
            0 => better,
            // Its floor alone gives it one turn in 1000 / floor.
            floor => better.min((own + 1) * (WHOLE as usize - floor) / floor),
        };
        let worse = (rank + 1..RANKS).map(|worse| {
            let floor = self.ranks[worse].permille as usize;
            let share = (own + better) * floor / (WHOLE as usize - floor).max(1);
            share.min(ready[worse])
        });
        own + better + worse.sum::<usize>()
    }

    /// The call did not go after all.
    pub(super) fn undo(&mut self, priority: Priority, units: u32, passed: Passed, spent: Spent) {
        self.ranks[priority as usize].credit += spent.0;
        for (rank, Floor { permille, credit }) in self.ranks.iter_mut().enumerate() {
            if passed.0[rank] || rank == priority as usize {
                *credit = credit.saturating_sub(*permille * u64::from(units));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{Background, Interactive, Normal};

    /// Grants `n` calls of cost 1 while every rank has calls waiting.
    fn grants(floors: &mut Floors, n: usize) -> Vec<Priority> {
        let everybody = Passed([true; RANKS]);
        let mut order = Vec::new();
        for _ in 0..n {
            let owed = |p: &&Priority| floors.owed(**p, 1).is_some();
            let nearest = |p: &&Priority| floors.owed(**p, 1);
            let next = Priority::ALL
                .iter()
                .filter(owed)
                .min_by_key(nearest)
                .copied();
            let next = next.unwrap_or(Interactive);
            floors.serve(next, 1, everybody);
            order.push(next);
        }
        order
    }

    #[test]
    fn the_example_of_the_module_holds() {
        let order = grants(&mut Floors::new([0, 100, 50]), 1_021);
        let of = |p| order[21..].iter().filter(|o| **o == p).count();
        assert_eq!(
            [of(Interactive), of(Normal), of(Background)],
            [850, 100, 50]
        );
        assert_eq!(order[9], Normal);
        assert_eq!(order[19..21], [Normal, Background]);
    }

    #[test]
    fn undoing_a_turn_restores_every_credit() {
        let mut floors = Floors::new([0, 100, 50]);
        grants(&mut floors, 30);
        let before = floors.ranks.map(|floor| floor.credit);
        let passed = Passed([true, false, true]);
        let spent = floors.serve(Normal, 3, passed);
        assert_ne!(floors.ranks.map(|floor| floor.credit), before);
        floors.undo(Normal, 3, passed, spent);
        assert_eq!(floors.ranks.map(|floor| floor.credit), before);
    }

    #[test]
    fn floors_that_nobody_could_keep_are_cut_in_proportion() {
        let floors = Floors::new([0, 3_000, 1_000]);
        assert_eq!(
            Priority::ALL
                .iter()
                .map(|p| floors.permille(*p))
                .collect::<Vec<_>>(),
            [0, 750, 250]
        );
        let floors = Floors::new([u32::MAX; RANKS]);
        assert_eq!(floors.permille(Normal), 333);
    }

    #[test]
    fn the_dearest_calls_do_not_overflow() {
        let mut floors = Floors::new([200, 300, 500]);
        for _ in 0..100 {
            floors.serve(Background, u32::MAX, Passed([true; RANKS]));
        }
        assert!(floors.owed(Interactive, u32::MAX).is_some());
        assert!(floors.before(Normal, usize::MAX / 4_000, [10; RANKS]) > 0);
    }
}
