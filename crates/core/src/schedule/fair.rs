//! One rank: its agents share it by weight, whatever number of calls each has
//! queued (start-time fair queueing).
//!
//! # The rule
//! The rank keeps a virtual time V, each agent a finish tag F. The agent with
//! the least F that has a call in an open lane goes; its call starts at
//! S = max(V, F), then V = S and F = S + cost / weight. An agent that comes back
//! from idleness starts at V: it banks nothing and owes nothing that the others
//! have caught up with. At equal tags the one goes that got its tag first, which
//! makes equal agents take turns, and newcomers go in order of arrival.
//!
//! Tags are kept per agent over all lanes. One whose calls wait in a blocked
//! lane still goes in an open one; one that has calls in blocked lanes only is
//! passed over, and when a lane opens it starts at V like anybody who comes back.
//!
//! # Example
//! Agents A (weight 1, 10,000 calls) and B (weight 2, 4 calls), all of cost 2.
//! Both start at 0; A was first. A goes and gets F = 2; B goes at 0 and at 1 and
//! gets F = 2, later than A did; A at 2, B at 2 and 3; then B is empty, V = 3,
//! and A goes on alone. A new agent C would now start at V, not at 0.
//!
//! # Bounds
//! Over any time in which agents i and j both have a call that can go, what they
//! got differs by `|Wᵢ/wᵢ − Wⱼ/wⱼ| ≤ cᵢ/wᵢ + cⱼ/wⱼ`, c the largest cost of each,
//! at whatever speed the quota runs. A head of a newly arrived agent waits for at
//! most one call of each other agent. Work per turn: O(open lanes + lanes of the
//! agent · log agents).
//!
//! Source: Goyal, Vin, Cheng, *Start-time Fair Queueing*, IEEE/ACM ToN 5(5), 1997.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use super::members::{Member, Members, Place};
use super::queue::{Fifo, Seat};
use super::tag::{Order, Step, Tag, Turn};
use super::waiter::{AskKey, Lane};
use crate::id::Agent;

/// Most agents whose tag is remembered while none of their calls waits. Past it
/// the one that is nearest to being even is forgotten, which forgives it at most
/// its last call.
const IDLE_MAX: usize = 4_096;

/// The call of a rank that goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) seat: Seat,
    pub(super) lane: Lane,
}

/// The calls of one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Rank {
    /// V: the start tag of the latest turn.
    now: Tag,
    /// The newest call seen.
    newest: AskKey,
    serial: u64,
    members: Members,
    /// Agents with a call that may go, per lane.
    lanes: BTreeMap<Lane, BTreeMap<Order, Place>>,
    /// Agents without waiting calls that are still ahead of V.
    idle: BTreeMap<Order, Place>,
    /// All that waits, newest place last.
    waiting: BTreeSet<Seat>,
    ready: usize,
}

impl Rank {
    /// The call that goes next among lanes that are open. O(lanes).
    ///
    /// `open` is asked only about lanes that could change the answer.
    pub(super) fn first(&self, open: impl Fn(Lane) -> bool) -> Option<Candidate> {
        let mut best: Option<(Order, Candidate)> = None;
        for (&lane, orders) in &self.lanes {
            let Some((&order, &place)) = orders.first_key_value() else {
                continue;
            };
            if best.is_some_and(|(least, _)| least < order) || !open(lane) {
                continue;
            }
            let fifo = self
                .members
                .get(place)
                .and_then(|m| m.calls.lanes.get(&lane));
            let Some(seat) = fifo.and_then(Fifo::first) else {
                continue;
            };
            // The same agent in two open lanes: the call that waits longer.
            if best.is_none_or(|(least, c)| (order, seat) < (least, c.seat)) {
                best = Some((order, Candidate { seat, lane }));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// Lanes in which a call may go.
    pub(super) fn lanes(&self) -> impl Iterator<Item = Lane> {
        self.lanes.keys().copied()
    }

    /// How many calls may go.
    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    /// All that waits, by place.
    pub(super) fn waiting(&self) -> &BTreeSet<Seat> {
        &self.waiting
    }

    /// All of one agent that waits, by place.
    pub(super) fn waiting_of(&self, agent: &Agent) -> Option<&Fifo> {
        let member = self.members.get(self.members.place(agent)?)?;
        Some(&member.calls.waiting)
    }

    /// A call waits; it may not go yet. `step` is what it will add to its agent's
    /// tag. Gives the agent's place, which is its own while the call waits.
    pub(super) fn add(&mut self, agent: &Agent, seat: Seat, step: Step) -> Place {
        self.newest = self.newest.max(seat.ask);
        self.waiting.insert(seat);
        let place = match self.members.place(agent) {
            Some(place) => place,
            None => {
                let order = Order {
                    finish: self.now,
                    turn: self.turn(seat.place),
                };
                self.members.insert(Member::new(agent, order, step))
            }
        };
        if let Some(member) = self.members.get_mut(place) {
            if member.calls.waiting.is_empty() {
                self.idle.remove(&member.order);
            }
            member.calls.waiting.insert(seat);
            member.step = step;
        }
        place
    }

    /// A call that waits may go now. An agent that had none comes back at V.
    pub(super) fn wake(&mut self, place: Place, lane: Lane, seat: Seat) {
        let turn = self.turn(seat.place);
        let Some(member) = self.members.get_mut(place) else {
            return;
        };
        if member.ready == 0 {
            let finish = member.order.finish.max(self.now);
            member.order = Order { finish, turn };
        }
        member.ready += 1;
        self.ready += 1;
        let fifo = member.calls.lanes.entry(lane).or_default();
        if fifo.is_empty() {
            self.lanes
                .entry(lane)
                .or_default()
                .insert(member.order, place);
        }
        fifo.insert(seat);
    }

    /// A call waits no longer. `lane` is its lane if it could go, else `None`.
    pub(super) fn leave(&mut self, place: Place, lane: Option<Lane>, seat: Seat) {
        self.waiting.remove(&seat);
        let Some(member) = self.members.get_mut(place) else {
            return;
        };
        member.calls.waiting.remove(seat);
        if let Some(lane) = lane
            && let Some(fifo) = member.calls.lanes.get_mut(&lane)
            && fifo.remove(seat)
        {
            member.ready -= 1;
            self.ready -= 1;
            if fifo.is_empty() {
                member.calls.lanes.remove(&lane);
                self.close(lane, place);
            }
        }
        self.rest(place);
    }

    /// An agent takes its turn. Returns the tag at which it started, to be able
    /// to undo it.
    pub(super) fn charge(&mut self, place: Place, step: Step) -> Option<Order> {
        let turn = self.turn(self.newest);
        let Order {
            finish,
            turn: before,
        } = self.members.get(place)?.order;
        let start = finish.max(self.now);
        self.now = start;
        self.rekey(
            place,
            Order {
                finish: start.plus(step),
                turn,
            },
        );
        while let Some(even) = self.idle.first_entry().filter(|e| e.key().finish <= start) {
            self.members.remove(even.remove());
        }
        Some(Order {
            finish: start,
            turn: before,
        })
    }

    /// The tag that an agent has without a turn that started at `start`. One that
    /// was forgotten meanwhile was even, so where it started is not too low.
    pub(super) fn without(&self, agent: &Agent, step: Step, start: Order) -> Order {
        let member = self
            .members
            .place(agent)
            .and_then(|at| self.members.get(at));
        Order {
            finish: member.map_or(start.finish, |m| m.order.finish.minus(step)),
            turn: start.turn,
        }
    }

    /// A call cost more than was charged. It is charged as soon as it is known,
    /// also to an agent that has gone idle.
    pub(super) fn charge_more(&mut self, agent: &Agent, more: Step) {
        let place = match self.members.place(agent) {
            Some(place) => place,
            None => {
                let order = Order {
                    finish: self.now,
                    turn: self.turn(self.newest),
                };
                let place = self.members.insert(Member::new(agent, order, more));
                self.idle.insert(order, place);
                place
            }
        };
        let Some(Member { order, .. }) = self.members.get(place) else {
            return;
        };
        let (finish, turn) = (order.finish.max(self.now).plus(more), order.turn);
        self.rekey(place, Order { finish, turn });
        self.trim();
    }

    /// A call cost less than was charged. This banks nothing, even if F falls
    /// behind V: a turn starts at V at the earliest.
    pub(super) fn charge_less(&mut self, agent: &Agent, less: Step) {
        if let Some(place) = self.members.place(agent)
            && let Some(Member { order, .. }) = self.members.get(place)
        {
            let (finish, turn) = (order.finish.minus(less), order.turn);
            self.rekey(place, Order { finish, turn });
        }
    }

    /// How many calls of the rank go before this place of this agent, if all
    /// lanes are open, nobody else comes, and each agent's calls cost what its
    /// latest did. O(agents + lanes of the agent · log n).
    pub(super) fn ahead_of(&self, place: Place, seat: Seat) -> usize {
        let Some(member) = self.members.get(place) else {
            return 0;
        };
        let own: usize = member
            .calls
            .lanes
            .values()
            .map(|fifo| fifo.before(seat))
            .sum();
        let lead_of = |member: &Member| member.order.finish.lead(self.now);
        let (lead, turn, step) = (lead_of(member), member.order.turn, member.step);
        let near = step.around(lead);
        // Its own agent is one of them: as many as it has before it.
        let of_all = self.members.iter().filter(|m| m.ready > 0).map(|other| {
            let off = lead_of(other);
            if other.step != step || !near.contains(&off) {
                return self.ahead_on_grid(member, own, other);
            }
            // Agents that step alike and are at most a step apart go in turns.
            let is_first = off < lead || (off == lead && other.order.turn < turn);
            let ahead = (own + usize::from(is_first)).min(other.ready);
            debug_assert_eq!(ahead, self.ahead_on_grid(member, own, other));
            ahead
        });
        of_all.sum()
    }

    /// How many calls of an agent go before the one of a member that has `own` of
    /// its own before it.
    #[inline(never)]
    fn ahead_on_grid(&self, member: &Member, own: usize, other: &Member) -> usize {
        let start = member.order.finish.max(self.now).after(own, member.step);
        let grid = start.on_grid(other.order.finish.max(self.now), other.step);
        // At equal tags the earlier turn goes: of calls that far behind in both
        // queues, the one whose agent has the earlier turn now.
        let tie = (grid.before, other.order.turn) < (own as u128, member.order.turn);
        let ahead = grid.before.saturating_add(u128::from(grid.hit && tie));
        usize::try_from(ahead)
            .unwrap_or(usize::MAX)
            .min(other.ready)
    }

    /// How many agents are remembered; never more than wait, and [`IDLE_MAX`].
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.members.len()
    }

    fn turn(&mut self, since: AskKey) -> Turn {
        self.serial += 1;
        Turn {
            since,
            serial: self.serial,
        }
    }

    /// Gives an agent another tag wherever it is listed.
    pub(super) fn rekey(&mut self, place: Place, to: Order) {
        let Some(member) = self.members.get_mut(place) else {
            return;
        };
        let from = mem::replace(&mut member.order, to);
        for lane in member.calls.lanes.keys() {
            if let Some(orders) = self.lanes.get_mut(lane)
                && orders.remove(&from).is_some()
            {
                orders.insert(to, place);
            }
        }
        if self.idle.remove(&from).is_some() {
            self.idle.insert(to, place);
        }
    }

    /// An agent has no more calls that may go in a lane.
    fn close(&mut self, lane: Lane, place: Place) {
        let Some(member) = self.members.get(place) else {
            return;
        };
        if let Some(orders) = self.lanes.get_mut(&lane) {
            orders.remove(&member.order);
            if orders.is_empty() {
                self.lanes.remove(&lane);
            }
        }
    }

    /// Keeps of an agent without calls only what the others have not caught up
    /// with. When nobody waits at all, every tag is forgotten: the next busy time
    /// starts even.
    fn rest(&mut self, place: Place) {
        let Some(member) = self.members.get(place) else {
            return;
        };
        if member.calls.waiting.is_empty() {
            if member.order.finish > self.now {
                self.idle.insert(member.order, place);
            } else {
                self.members.remove(place);
            }
        }
        if self.waiting.is_empty() {
            self.idle.clear();
            self.members.clear();
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.idle.len() > IDLE_MAX
            && let Some((_, even)) = self.idle.pop_first()
        {
            self.members.remove(even);
        }
    }
}
