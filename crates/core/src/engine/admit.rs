//! A call arrives: it joins, is turned away, or gets a place in the queue.
//!
//! | it | becomes |
//! | --- | --- |
//! | has the key of an action in hand, same payload | a repeat: joins it |
//! | has the key of an ended action that had an effect, or may not be sent any more | a repeat: takes its result |
//! | has the key of an ended action that certainly had none | a new action, within what is left of the budgets; a repeat if no attempt is |
//! | has a key of another agent, or with another resource or payload | refused (R-IDEM-5) |
//! | says that it is an SDK's repeat, and an equal call is in hand | a repeat: joins it |
//! | is a write equal to one whose outcome is unknown | held off (R-RETRY-3) |
//! | is another write of the agent to an endpoint where one is in doubt that holds others off | held off for a time |
//! | is none of these | a new action, if the bounds of [`super::room`] allow it |

use std::sync::Arc;

use super::Engine;
use super::input::{Chance, Marker, Submit};
use super::live::{Caller, Live, Turn};
use super::output::{Output, Refusal};
use super::timers::Timer;
use crate::action::budget::Used;
use crate::action::problem::Code;
use crate::event::{Durability, Event, Requested};
use crate::id::{ActionId, Agent, RecordSeq};
use crate::record::ActionRow;
use crate::time::{Moment, Span};
use crate::word::Cause;

/// What is remembered of a finished key.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    /// Counts the ends, to forget the oldest first.
    pub(super) order: u64,
    pub(super) action: ActionId,
    pub(super) payload: Payload,
    /// What its attempts used up, if a later call may send it anew.
    pub(super) again: Option<Used>,
}

/// What must be the same when a key comes back. The agent, or one would be given
/// another's result; the bytes; and the resource with its query, which only the
/// fingerprint tells apart where endpoint and bytes are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    agent: Agent,
    endpoint: crate::id::Endpoint,
    fingerprint: crate::id::Fingerprint,
    digest: [u8; 32],
}

impl Payload {
    pub(super) fn of(requested: &Requested) -> Payload {
        Payload {
            agent: requested.agent.clone(),
            endpoint: requested.endpoint.clone(),
            fingerprint: requested.fingerprint,
            digest: requested.payload_digest,
        }
    }
}

impl Requested {
    /// Whether a call with the key of an earlier one is that call again. If not,
    /// its key is refused (R-IDEM-5).
    pub fn repeats(&self, earlier: &Requested) -> bool {
        Payload::of(self) == Payload::of(earlier)
    }

    /// What is said beside `key_reused` to whoever asks with the key of `earlier`.
    pub fn why_reused(&self, earlier: &Requested) -> String {
        why_reused(&self.agent, &earlier.agent, earlier.action)
    }
}

/// Another agent's action is nobody else's business: that the key is taken is all
/// that is said of it.
fn why_reused(asks: &Agent, owns: &Agent, action: ActionId) -> String {
    match asks == owns {
        true => format!("the idempotency key belongs to action {action}, which is another call"),
        false => String::new(),
    }
}

/// How a call stands to what is known already.
enum Kinship {
    /// It is new.
    New,
    /// It is new, but its key has used up some of its budgets before.
    Anew(Used),
    /// It repeats this action.
    Repeats(ActionId, &'static str),
    /// It is refused.
    Refused(Refusal),
}

impl Engine {
    /// A call asks to be sent. What comes of it leaves through the outputs:
    /// `Join`, `Refuse`, or `Grant` after an optional `Parked`.
    ///
    /// Cost: O(log n) in the calls that wait.
    pub fn handle_submit(&mut self, now: Moment, mut chance: Chance, submit: Submit) {
        let mut requested = Arc::clone(&submit.requested);
        match self.kinship(now, &submit) {
            Kinship::New => {}
            Kinship::Anew(used) => Arc::make_mut(&mut requested).earlier = Some(used),
            Kinship::Repeats(existing, by) => return self.join(now, existing, by, &submit),
            Kinship::Refused(refusal) => return self.turn_away(now, &requested, refusal),
        }
        let ask = self.next_ask;
        self.next_ask += 1;
        let place = self.places.take(now, &requested);
        let lane = self.lanes.of(&submit.setup.scopes);
        let mut live = Live::new(ActionRow::open(&requested, now), submit.setup, ask, lane);
        live.place = place;
        live.estimate = self.estimated(&live);
        // Who is not held at all is refused what must wait, and nothing else: the
        // hold ends after the call had its chance.
        let had_its_chance = now + Span::from_micros(1);
        live.caller = Caller::Held(submit.hold_until.max(had_its_chance));
        live.task = submit.task;
        if let Err(refusal) = self.admissible(now, &live) {
            self.keep_place(&live, refusal.retry_at);
            self.consider_refusal(now, &mut chance, &refusal);
            return self.turn_away(now, &requested, refusal);
        }
        let seq = self.admit(now, live);
        let id = requested.action;
        self.dispatch(now);
        self.announce_wait(now, id, seq);
        self.consider_waits(now, &mut chance);
    }

    /// Takes a new action in hand: its record, its timers, its place in the
    /// queue. Gives the record's number.
    pub(super) fn admit(&mut self, now: Moment, live: Live) -> RecordSeq {
        let requested = Arc::clone(&live.row.requested);
        let id = requested.action;
        for scope in live.setup.scopes.iter() {
            self.note_seen(now, scope, requested.priority);
        }
        if let Some(key) = &requested.key {
            self.forget_finished(key);
            self.keys.insert(key.clone(), id);
        }
        self.equals.insert((requested.fingerprint, id));
        if let Caller::Held(until) = live.caller {
            self.timers.arm(until, Timer::Hold(id));
        }
        self.timers.arm(requested.deadline, Timer::Deadline(id));
        self.pulse.arrived(now, requested.priority);
        self.actions.insert(id, live);
        let seq = self.record(now, id, Event::ActionRequested(requested));
        self.enqueue(now, id, Turn::Attempt(Cause::First), now);
        seq
    }

    /// The first row of the table above that fits.
    fn kinship(&self, now: Moment, submit: &Submit) -> Kinship {
        let requested = &submit.requested;
        if let Some(key) = &requested.key {
            if let Some((existing, live)) = self.by_key(key) {
                return match requested.repeats(&live.row.requested) {
                    true => Kinship::Repeats(existing, "key"),
                    false => {
                        let why = requested.why_reused(&live.row.requested);
                        Kinship::Refused(self.refusal(Code::KeyReused, why, None))
                    }
                };
            }
            let left = |used: &Used| 0 < used.attempts_left(&submit.setup.limits);
            if let Some(finished) = self.finished.get(key) {
                let owner = &finished.payload.agent;
                return match (finished.payload == Payload::of(requested), finished.again) {
                    (false, _) => {
                        let why = why_reused(&requested.agent, owner, finished.action);
                        Kinship::Refused(self.refusal(Code::KeyReused, why, None))
                    }
                    (true, Some(used)) if left(&used) => Kinship::Anew(used),
                    (true, _) => Kinship::Repeats(finished.action, "key"),
                };
            }
            if let Some(earlier) = submit.earlier {
                return match left(&earlier.used) {
                    true => Kinship::Anew(earlier.used),
                    false => Kinship::Repeats(earlier.action, "key"),
                };
            }
        }
        if submit.marker == Marker::None && !requested.class.is_write() {
            return Kinship::New;
        }
        let of = |id| (requested.fingerprint, ActionId(id));
        for (_, id) in self.equals.range(of(0)..=of(u128::MAX)) {
            let Some(live) = self.actions.get(id) else {
                continue;
            };
            if submit.marker == Marker::SdkRetry && *live.agent() == requested.agent {
                return Kinship::Repeats(*id, "sdk_retry");
            }
            if requested.class.is_write() && live.row.uncertain {
                let why = match *live.agent() == requested.agent {
                    true => format!("it equals the write {id}, which may have happened"),
                    false => String::new(),
                };
                return Kinship::Refused(self.refusal(Code::LookalikeHeld, why, None));
            }
        }
        match self.held_off(now, submit) {
            Some(refusal) => Kinship::Refused(refusal),
            None => Kinship::New,
        }
    }

    /// A write that may be one in doubt in other words (R-IDEM-4): an agent that got no
    /// answer tends to say it again differently.
    fn held_off(&self, now: Moment, submit: &Submit) -> Option<Refusal> {
        let requested = &submit.requested;
        let hold = submit.setup.profile.hold_after_uncertain;
        if hold == Span::ZERO || !requested.class.is_write() {
            return None;
        }
        let of = |id| (requested.endpoint.clone(), ActionId(id));
        let doubts = self.doubts.range(of(0)..=of(u128::MAX));
        let own = doubts
            .filter_map(|(_, id)| self.actions.get(id))
            .filter(|live| *live.agent() == requested.agent);
        let (until, id) = own
            .map(|live| (live.row.last_sent_at.unwrap_or(now) + hold, live.id()))
            .max()?;
        let why = format!("the write {id} to the same endpoint may have happened");
        (now < until).then(|| self.refusal(Code::LookalikeHeld, why, Some(until)))
    }

    fn by_key(&self, key: &str) -> Option<(ActionId, &Live)> {
        let id = *self.keys.get(key)?;
        Some((id, self.actions.get(&id)?))
    }

    /// A repeat joins its action, which is wanted again for as long as the
    /// repeat is held.
    fn join(&mut self, now: Moment, existing: ActionId, by: &str, submit: &Submit) {
        if let Some(live) = self.actions.get_mut(&existing) {
            let until = match live.caller {
                Caller::Held(until) => until.max(submit.hold_until),
                Caller::Gone => submit.hold_until,
            };
            if let Caller::Held(before) = live.caller {
                self.timers.disarm(before, Timer::Hold(existing));
            }
            live.caller = Caller::Held(until);
            self.timers.arm(until, Timer::Hold(existing));
            let by = by.to_owned();
            let event = Event::Joined {
                action: existing,
                by,
            };
            self.record(now, existing, event);
        }
        self.outbox.free(Output::Join {
            action: submit.requested.action,
            existing,
        });
    }

    /// Turns a call away before it became an action.
    pub(super) fn turn_away(&mut self, now: Moment, requested: &Requested, refusal: Refusal) {
        self.outbox.record(
            now,
            Durability::Process,
            Event::TurnedAway {
                agent: requested.agent.clone(),
                code: refusal.code.word().to_owned(),
                scope: refusal.scope.clone(),
                retry_at: refusal.retry_at,
            },
        );
        self.outbox.free(Output::Refuse {
            action: requested.action,
            refusal,
        });
    }
}
