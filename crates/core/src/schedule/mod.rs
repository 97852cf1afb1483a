//! Who goes next, of all calls that wait for one account.
//!
//! Three layers, each in its own file:
//!
//! 1. `floors`: the better rank first, save a floor for the others;
//! 2. `fair`: inside a rank agents share by weight, whatever number of calls
//!    each has queued;
//! 3. `queue`: an agent's own calls in order of arrival.
//!
//! Beside them [`Spacing`], one for each scope, keeps lower ranks even while
//! somebody better was about. It is not part of the order: it is a reason for
//! which the caller says that a lane is held for a rank.
//!
//! The scheduler knows nothing of quotas. Calls that touch the same scopes share
//! a [`Lane`], and [`Schedule::pick`] is told which [`Way`] each lane has for each
//! rank. A call is bound to its quota at the last moment: `pick` names it, the
//! ledger is asked, and only then [`Schedule::take`] lets it go.
//!
//! # Example
//! Two interactive calls and a background call arrive. The first three turns go
//! interactive, interactive, background. Had a hundred interactive calls waited,
//! a floor of 50 thousandths would have let the background call go 20th.
//!
//! # Cost
//! With n calls waiting in l lanes (the caller bounds both): insert, remove and
//! take O(log n), moving at most half of one agent's calls; pick O(l), position
//! O(agents). Names are compared at insert only. What is kept is bounded by the
//! calls that wait and by 4,096 agents that have just had a turn.

mod fair;
mod floors;
mod members;
mod queue;
mod spacing;
mod tag;
#[cfg(test)]
mod tests;
mod waiter;

use fair::{Candidate, Rank};
use floors::{Floors, Passed, RANKS};
use members::Place;
use queue::Timers;
pub use spacing::{Pace, SEEN_FOR, Spacing};
use tag::Step;
pub use waiter::{AskKey, Full, Lane, Pick, Taken, Waiter, Way};

use crate::id::Agent;
use crate::recall::Recall;
use crate::time::Moment;
use crate::word::Priority;

#[derive(Clone, Debug)]
struct Entry {
    waiter: Waiter,
    /// Its agent's place in its rank.
    member: Place,
    /// Whether its time has come and it is in its lane.
    ready: bool,
}

/// All calls that wait for one account.
#[derive(Clone, Debug)]
pub struct Schedule {
    floors: Floors,
    ranks: [Rank; RANKS],
    entries: Recall<AskKey, Entry>,
    timers: Timers,
    /// The greatest key that was ever seen: a greater one waits nowhere.
    newest: AskKey,
}

impl Schedule {
    /// An empty queue. `floors_permille` is what each rank is owed, best rank
    /// first, in thousandths of what is handed out; a sum above 1,000 is cut in
    /// proportion.
    pub fn new(floors_permille: [u32; 3]) -> Schedule {
        Schedule {
            floors: Floors::new(floors_permille),
            ranks: Default::default(),
            entries: Recall::default(),
            timers: Timers::default(),
            newest: 0,
        }
    }

    /// Changes the floors. What waits goes on waiting.
    pub fn set_floors(&mut self, floors_permille: [u32; 3]) {
        self.floors.set(floors_permille);
    }

    /// A call waits. If its key already waits it is replaced.
    ///
    /// The caller keeps the bounds: see [`Schedule::evict`].
    pub fn insert(&mut self, now: Moment, waiter: Waiter) {
        if waiter.ask <= self.newest {
            self.remove(waiter.ask);
        }
        self.newest = self.newest.max(waiter.ask);
        let (priority, units) = (waiter.priority, waiter.units());
        if self.seat(waiter, now) && self.ranks[priority as usize].ready() == 1 {
            self.floors.begin(priority, units);
        }
    }

    /// A call waits no longer: cancelled, refused or evicted. Nothing is charged.
    pub fn remove(&mut self, ask: AskKey) -> Option<Waiter> {
        let Entry {
            waiter,
            member,
            ready,
        } = self.entries.remove(&ask)?;
        if !ready {
            self.timers.cancel(waiter.ready_at, ask);
        }
        let lane = ready.then_some(waiter.lane);
        self.ranks[waiter.priority as usize].leave(member, lane, waiter.seat());
        Some(waiter)
    }

    /// Moves calls whose time has come into their lanes, as [`Schedule::pick`] does:
    /// for a caller that knows that none can go.
    pub fn wake(&mut self, now: Moment) {
        while let Some(ask) = self.timers.pop_due(now) {
            let Some(entry) = self.entries.get_mut(&ask) else {
                continue;
            };
            entry.ready = true;
            let waiter = &entry.waiter;
            let rank = &mut self.ranks[waiter.priority as usize];
            rank.wake(entry.member, waiter.lane, waiter.seat());
            if rank.ready() == 1 {
                self.floors.begin(waiter.priority, waiter.units());
            }
        }
    }

    /// The next call that may go, over all lanes.
    ///
    /// Moves calls whose time has come into their lanes, and changes nothing else:
    /// asked twice, it answers the same. `way` must answer the same for the same
    /// lane and rank during one call; it is asked only where the answer matters,
    /// at most twice for each lane and rank in which a call could go.
    ///
    /// A caller that finds out by trying may call a lane open and, when the call
    /// that is named can't go, pick again with that lane blocked. It should know
    /// better of lanes with a scope of their own: a rank that waits in one earns
    /// its floor from every grant elsewhere while its lane is called open, and
    /// would then take more than its floor of that scope.
    pub fn pick(&mut self, now: Moment, way: impl Fn(Lane, Priority) -> Way) -> Option<Pick> {
        self.wake(now);
        let (priority, chosen) = self.owed(&way).or_else(|| self.best(&way))?;
        let mut passed = Passed::default();
        for &other in Priority::ALL {
            if other == priority || self.floors.permille(other) == 0 {
                continue;
            }
            let rank = &self.ranks[other as usize];
            if rank.lanes().any(|lane| way(lane, other) != Way::Blocked) {
                passed.note(other);
            }
        }
        Some(Pick {
            ask: chosen.seat.ask,
            passed,
        })
    }

    /// A turn for a call that the caller chose itself, such as a probe. It is
    /// charged like any other and passes nobody over. `None` if it doesn't wait.
    pub fn pick_out(&self, ask: AskKey) -> Option<Pick> {
        self.entries.contains_key(&ask).then(|| Pick {
            ask,
            passed: Passed::default(),
        })
    }

    /// The call goes: its rank and its agent are charged. `None` if it no longer waits.
    pub fn take(&mut self, pick: Pick) -> Option<Taken> {
        let Entry { waiter, member, .. } = self.entries.get(&pick.ask)?;
        let (priority, units) = (waiter.priority, waiter.units());
        let start = self.ranks[priority as usize].charge(*member, waiter.step())?;
        let spent = self.floors.serve(priority, units, pick.passed);
        let waiter = self.remove(pick.ask)?;
        Some(Taken {
            waiter,
            passed: pick.passed,
            spent,
            start,
        })
    }

    /// It was taken but certainly not sent: the charge is undone, and it waits
    /// again where it was. The next turn is its own again, if nothing else
    /// happened and its `ready_at` has come.
    pub fn give_back(&mut self, now: Moment, taken: Taken) {
        let Taken {
            waiter,
            passed,
            spent,
            start,
        } = taken;
        let (priority, ask) = (waiter.priority, waiter.ask);
        self.remove(ask);
        self.floors.undo(priority, waiter.units(), passed, spent);
        let rank = &self.ranks[priority as usize];
        let order = rank.without(&waiter.agent, waiter.step(), start);
        self.seat(waiter, now);
        if let Some(Entry { member, .. }) = self.entries.get(&ask) {
            self.ranks[priority as usize].rekey(*member, order);
        }
    }

    /// A call turned out to cost more (`more > 0`) or less than was charged, in
    /// units of cost. Its agent's later turns move; credit is never banked.
    pub fn correct(&mut self, priority: Priority, agent: &Agent, weight: u32, more: i64) {
        let units = u32::try_from(more.unsigned_abs()).unwrap_or(u32::MAX);
        let rank = &mut self.ranks[priority as usize];
        match more {
            0 => {}
            1.. => rank.charge_more(agent, Step::of(units, weight)),
            _ => rank.charge_less(agent, Step::of(units, weight)),
        }
    }

    /// Which waiting call makes room for an arriving one: the newest of the
    /// lowest rank. `None` if that is the arriving call itself, which is then
    /// refused; of its own rank it is the newest unless it keeps an older place.
    pub fn evict(&self, arriving: &Waiter, full: Full) -> Option<AskKey> {
        let lowest = Priority::ALL.iter().rev().find_map(|&priority| {
            let rank = &self.ranks[priority as usize];
            let newest = match full {
                Full::Account => rank.waiting().last().copied(),
                Full::Agent => rank.waiting_of(&arriving.agent)?.last(),
            };
            newest.map(|newest| (priority, newest))
        });
        let (priority, newest) = lowest?;
        let worse = (priority, newest) > (arriving.priority, arriving.seat());
        worse.then_some(newest.ask)
    }

    /// How many calls wait, those in backoff included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many calls of an agent wait, over all ranks.
    pub fn len_of(&self, agent: &Agent) -> usize {
        let of = |rank: &Rank| rank.waiting_of(agent).map_or(0, |waiting| waiting.len());
        self.ranks.iter().map(of).sum()
    }

    /// How many calls of a rank wait.
    pub fn len_at(&self, priority: Priority) -> usize {
        self.ranks[priority as usize].waiting().len()
    }

    /// A waiting call.
    pub fn get(&self, ask: AskKey) -> Option<&Waiter> {
        self.entries.get(&ask).map(|entry| &entry.waiter)
    }

    /// When the next call leaves its backoff; not after `now` means "pick again",
    /// [`Moment::NEVER`] that none is in backoff.
    pub fn next_ready(&self) -> Moment {
        self.timers.next()
    }

    /// All that waits: best rank first, oldest place first.
    pub fn iter(&self) -> impl Iterator<Item = &Waiter> {
        let seats = self.ranks.iter().flat_map(|rank| rank.waiting());
        seats.filter_map(|seat| self.get(seat.ask))
    }

    /// How many calls go before this one if all lanes are open and nobody else
    /// comes; `None` if it doesn't wait. A call in backoff is placed as if it
    /// could go now.
    ///
    /// Exact while one rank waits and each agent's calls cost the same; else an
    /// estimate: better ranks go first, but for floors. O(agents).
    pub fn position(&self, ask: AskKey) -> Option<usize> {
        let Entry { waiter, member, .. } = self.entries.get(&ask)?;
        let rank = &self.ranks[waiter.priority as usize];
        let own = rank.ahead_of(*member, waiter.seat());
        let ready = std::array::from_fn(|rank| self.ranks[rank].ready());
        Some(self.floors.before(waiter.priority, own, ready))
    }

    /// Puts a call where it belongs. Whether it may go now.
    fn seat(&mut self, waiter: Waiter, now: Moment) -> bool {
        let (ask, seat, ready) = (waiter.ask, waiter.seat(), waiter.ready_at <= now);
        let rank = &mut self.ranks[waiter.priority as usize];
        let member = rank.add(&waiter.agent, seat, waiter.step());
        if ready {
            rank.wake(member, waiter.lane, seat);
        } else {
            self.timers.set(waiter.ready_at, ask);
        }
        let entry = Entry {
            waiter,
            member,
            ready,
        };
        self.entries.insert(ask, entry);
        ready
    }

    /// The owed rank whose deadline is nearest, and its next call.
    fn owed(&self, way: &impl Fn(Lane, Priority) -> Way) -> Option<(Priority, Candidate)> {
        let owed = Priority::ALL.iter().filter_map(|&priority| {
            // The cheapest call there is: without credit for it, no lane need be asked.
            self.floors.owed(priority, 1)?;
            let not_blocked = |lane| way(lane, priority) != Way::Blocked;
            let candidate = self.ranks[priority as usize].first(not_blocked)?;
            let units = self.get(candidate.seat.ask)?.units();
            let deadline = self.floors.owed(priority, units)?;
            Some((deadline, priority, candidate))
        });
        let nearest = owed.min_by_key(|(deadline, priority, _)| (*deadline, *priority));
        nearest.map(|(_, priority, candidate)| (priority, candidate))
    }

    /// The best rank with a call that may go, and that call.
    fn best(&self, way: &impl Fn(Lane, Priority) -> Way) -> Option<(Priority, Candidate)> {
        Priority::ALL.iter().find_map(|&priority| {
            let open = |lane| way(lane, priority) == Way::Open;
            Some((priority, self.ranks[priority as usize].first(open)?))
        })
    }
}
