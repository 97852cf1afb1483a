//! What comes back: answers, losses, ends, and the passing of time.
//!
//! | meaning of the answer | what the ledger does |
//! | --- | --- |
//! | rate limited | closes the scope that it concerns; learns |
//! | too many concurrent | learns the number of seats; holds if a time is named |
//! | quota exhausted | closes until the named reset, else rare probes; a person is told |
//! | billing | closes until somebody resumes; a person is told |
//! | overloaded | holds the endpoint (else the account) for the named time; learns nothing |
//! | credential | nothing; a probe finds out later |
//! | anything else | the limiter let it pass: a probe opens the scope |

use super::call::{Change, PermitId};
use super::feedback::Refusal;
use super::gate::Hold;
use super::headers::Word;
use super::scope::{ScopeLedger, Seat};
use super::{Ledger, Permit};
use crate::cost::{Cost, Dimension};
use crate::estimate::Rejects;
use crate::event::bounded_text;
use crate::id::Scope;
use crate::observe::{DOCUMENTED, Facts, Kind, Meaning, Reach, Reading};
use crate::time::{Draw, Moment, Span};

/// Beyond this a hold is for a person to know.
const HOPELESS_FROM: Span = Span::from_secs(3_600);

impl Ledger {
    /// The head of an answer arrived. Its readings correct the ledger, a
    /// refusal closes what it concerns, the success of a probe opens it. The
    /// units stay spent and the seat stays taken.
    pub fn answered(
        &mut self,
        now: Moment,
        draw: Draw,
        id: PermitId,
        facts: &Facts,
    ) -> Vec<Change> {
        let Some((sent_at, calls, seats)) = self.settle(now, id) else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        let failed = is_refusal(facts.meaning) || 400 <= facts.status;
        if failed && self.policy.charge.rejects == Rejects::Free {
            // Nothing was carried out, so nothing of it was used.
            self.used(now, id, &Cost::ONE);
        }
        self.hear(now, sent_at, &seats, facts, &mut changes);
        let Some(concerned) = self.concerned(&seats, facts) else {
            return changes;
        };
        let call = (sent_at, calls);
        match facts.meaning {
            Meaning::RateLimited | Meaning::QuotaExhausted | Meaning::Billing => {
                self.refused(now, draw, concerned, call, facts, &mut changes);
                self.lose_probes(now, draw, id, &seats);
            }
            Meaning::TooManyConcurrent => {
                self.seats_refused(now, draw, id, concerned, facts, &mut changes);
                self.lose_probes(now, draw, id, &seats);
            }
            Meaning::Overloaded => {
                self.hold(now, draw, concerned, facts);
                self.lose_probes(now, draw, id, &seats);
            }
            Meaning::Credential => self.lose_probes(now, draw, id, &seats),
            Meaning::Ok
            | Meaning::TooLarge
            | Meaning::KeyInProgress
            | Meaning::KeyMismatch
            | Meaning::CallerError
            | Meaning::ProviderError => {
                for seat in &seats {
                    if let Some(ledger) = self.scopes.at_mut(seat.place) {
                        changes.extend(ledger.accept(now, draw.again(), seat.turn));
                    }
                }
            }
        }
        for seat in &seats {
            self.publish(now, seat.place, &mut changes);
        }
        changes
    }

    /// Nobody knows what became of a permit's call. It counts as spent; if it
    /// was a probe, the next one goes later. The seat stays taken.
    pub fn lost(&mut self, now: Moment, draw: Draw, id: PermitId) -> Vec<Change> {
        let Some((_, _, seats)) = self.settle(now, id) else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        let cost = self.permits.get(&id).map(|permit| permit.cost);
        for seat in &seats {
            if let (Some(ledger), Some(cost)) = (self.scopes.at_mut(seat.place), &cost) {
                ledger.lose(cost);
            }
        }
        self.lose_probes(now, draw, id, &seats);
        for seat in &seats {
            self.publish(now, seat.place, &mut changes);
        }
        changes
    }

    /// The upstream stream of a permit's call is over: ends the permit and
    /// frees its seats. One that was neither answered nor lost counts as lost.
    pub fn finished(&mut self, now: Moment, id: PermitId) -> Vec<Change> {
        let settled = self.permits.get(&id).is_none_or(|permit| permit.settled);
        let changes = if settled {
            Vec::new()
        } else {
            self.lost(now, Draw::ZERO, id)
        };
        self.version += 1;
        let Some(permit) = self.permits.get(&id) else {
            debug_assert!(false, "{id:?} is not open");
            return changes;
        };
        // Nobody said what it used: what was reserved is the best guess.
        let held = permit.held;
        self.forget_estimate(id);
        for (dimension, units) in held.iter() {
            self.correct(now, id, dimension, units);
        }
        let Some(permit) = self.permits.remove(&id) else {
            return changes;
        };
        for seat in &permit.seats {
            if let Some(ledger) = self.scopes.at_mut(seat.place) {
                ledger.seats.free(permit.priority);
            }
        }
        changes
    }

    /// Time has come to [`Ledger::next_change`].
    pub fn handle_timeout(&mut self, now: Moment, draw: Draw) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut draw = draw;
        while let Some(place) = self.scopes.due(now) {
            self.version += 1;
            let backoff = self.policy.backoff;
            if let Some(ledger) = self.scopes.at_mut(place) {
                if ledger.gate.pass(now, draw, &backoff) {
                    "the probe got no answer".clone_into(&mut ledger.why);
                } else if ledger.gate.mode(now) != ledger.announced {
                    "the hold is over".clone_into(&mut ledger.why);
                }
                draw = draw.again();
            }
            self.publish(now, place, &mut changes);
        }
        changes
    }

    /// An operator reopens a scope: its hold is over, what it had climbed is
    /// forgotten, and one call goes first. Nothing happens if it is not closed.
    pub fn resume(&mut self, now: Moment, scope: &Scope) -> Vec<Change> {
        let mut changes = Vec::new();
        let Some(place) = self.scopes.place(scope) else {
            return changes;
        };
        self.version += 1;
        if let Some(ledger) = self.scopes.at_mut(place)
            && ledger.gate.resume(now)
        {
            "an operator resumed it".clone_into(&mut ledger.why);
        }
        self.publish(now, place, &mut changes);
        changes
    }

    /// A permit's outcome is in. Gives when its call left, as how many calls it
    /// counts, and its seats.
    fn settle(&mut self, now: Moment, id: PermitId) -> Option<(Moment, u64, Vec<Seat>)> {
        self.version += 1;
        let Some(permit) = self.permits.get(&id) else {
            debug_assert!(false, "{id:?} is not open");
            return None;
        };
        if permit.sent_at.is_none() {
            // Nobody said when it left; now is the latest that it can have been.
            self.sent(now, id);
        }
        let permit: &mut Permit = self.permits.get_mut(&id)?;
        if !std::mem::replace(&mut permit.settled, true) {
            for seat in &permit.seats {
                if let Some(ledger) = self.scopes.at_mut(seat.place) {
                    ledger.settle(&permit.cost);
                }
            }
        }
        let sent_at = permit.sent_at.unwrap_or(now);
        let calls = permit.cost.of(Dimension::Requests);
        Some((sent_at, calls, permit.seats.clone()))
    }

    /// What the headers tell, each reading to the scope that it is about.
    fn hear(
        &mut self,
        now: Moment,
        sent_at: Moment,
        seats: &[Seat],
        facts: &Facts,
        changes: &mut Vec<Change>,
    ) {
        let accepted = !is_refusal(facts.meaning);
        for reading in &facts.readings {
            let Some(seat) = self.seat_of(seats, reading.reach) else {
                continue;
            };
            let Some(ledger) = self.scopes.at_mut(seat.place) else {
                continue;
            };
            match Dimension::parse(&reading.dimension) {
                Some(Dimension::Concurrent) => {
                    if let Some(cap) = reading.limit.and_then(|cap| u32::try_from(cap).ok())
                        && 0 < cap
                        && ledger.seats.learn(now, cap)
                    {
                        changes.push(Change::LearnedSeats {
                            scope: ledger.name.clone(),
                            max_concurrent: cap,
                        });
                    }
                }
                Some(dimension) => {
                    let word = Word {
                        sent_at,
                        mark: seat.marks.of(dimension),
                        remaining: reading.remaining,
                        reset_after: reading.reset_after,
                        refills: reading.refills,
                    };
                    changes.extend(ledger.read(now, dimension, &word, reading, accepted));
                }
                // Nobody knows what that counts; its reset still counts when it is
                // what refused.
                None => {}
            }
        }
        if let Some(first) = seats.first()
            && let Some(ledger) = self.scopes.at_mut(first.place)
        {
            let told = facts.malformed.iter();
            changes.extend(told.filter_map(|field| ledger.malformed(field)));
        }
    }

    /// The seat that a refusal concerns; `None` only for a call without scopes.
    fn concerned(&self, seats: &[Seat], facts: &Facts) -> Option<Seat> {
        let reach = match (facts.meaning, facts.reach) {
            (Meaning::Overloaded, Reach::Account) => Reach::Endpoint,
            (_, reach) => reach,
        };
        self.seat_of(seats, reach)
    }

    /// The seat of a reach: its own scope, or else the account's.
    fn seat_of(&self, seats: &[Seat], reach: Reach) -> Option<Seat> {
        let kind = match reach {
            Reach::Account => return seats.first().copied(),
            Reach::Model => "model:",
            Reach::Endpoint => "endpoint:",
            Reach::Credential => "credential:",
        };
        let named = seats.iter().find(|seat| {
            self.scopes
                .at(seat.place)
                .is_some_and(|ledger| ledger.name.as_str().starts_with(kind))
        });
        named.or_else(|| seats.first()).copied()
    }

    /// A refusal for the sake of rate or quota.
    fn refused(
        &mut self,
        now: Moment,
        draw: Draw,
        seat: Seat,
        (sent_at, cost): (Moment, u64),
        facts: &Facts,
        changes: &mut Vec<Change>,
    ) {
        let hint = hint(facts, self.scopes.at(seat.place));
        let hold = match (facts.meaning, hint) {
            // What is not granted is not granted later either, whatever wait is named.
            (Meaning::Billing, _) if facts.kind == Kind::NoAllowance => Hold::Person,
            (_, Some((hint, DOCUMENTED))) => Hold::Documented(hint),
            (_, Some((hint, _))) => Hold::Hinted(hint),
            (Meaning::Billing, None) => Hold::Person,
            (Meaning::QuotaExhausted, None) => Hold::Exhausted,
            (_, None) => Hold::Ladder,
        };
        let refusal = Refusal {
            hold,
            status: facts.status,
            source: hint.map_or("refused without a time to wait", |(_, source)| source),
            is_rate: facts.meaning == Meaning::RateLimited,
            readings: &facts.readings,
        };
        let backoff = self.policy.backoff;
        let Some(ledger) = self.scopes.at_mut(seat.place) else {
            return;
        };
        let call = (seat.turn, sent_at, cost);
        let change = ledger.refuse(now, draw, &backoff, call, &refusal);
        let is_news = matches!(change, Change::Refused { echo: false, .. });
        let scope = ledger.name.clone();
        changes.push(change);
        if let Some(why) = hopeless(facts, hint.map(|(hint, _)| hint)).filter(|_| is_news) {
            changes.push(Change::Hopeless {
                scope,
                why: bounded_text(&why),
            });
        }
    }

    /// Too many calls are open.
    fn seats_refused(
        &mut self,
        now: Moment,
        draw: Draw,
        id: PermitId,
        seat: Seat,
        facts: &Facts,
        changes: &mut Vec<Change>,
    ) {
        let newest = self.last_permit;
        let backoff = self.policy.backoff;
        self.hold(now, draw, seat, facts);
        let Some(ledger) = self.scopes.at_mut(seat.place) else {
            return;
        };
        let (cap, echo) = ledger.seats.refused(now, id.0, newest);
        if !echo && ledger.seats.cap() == Some(1) && facts.retry_after.is_none() {
            // Even one alone is too many: somebody else holds the seats.
            ledger
                .gate
                .refuse(now, draw, &backoff, Hold::Ladder, seat.turn);
            "too many concurrent, with one call open".clone_into(&mut ledger.held_by);
            ledger.why = format!("HTTP {}: {}", facts.status, ledger.held_by);
        }
        if echo {
            ledger.echoes += 1;
        } else {
            ledger.refusals += 1;
        }
        changes.push(Change::Refused {
            scope: ledger.name.clone(),
            status: facts.status,
            until: ledger.gate.held_until(now),
            echo,
        });
        changes.extend(cap.map(|max_concurrent| Change::LearnedSeats {
            scope: ledger.name.clone(),
            max_concurrent,
        }));
    }

    /// Holds a scope for as long as the answer says, if it says, and concludes nothing.
    fn hold(&mut self, now: Moment, draw: Draw, seat: Seat, facts: &Facts) {
        let backoff = self.policy.backoff;
        let Some(ledger) = self.scopes.at_mut(seat.place) else {
            return;
        };
        if let Some(hint) = facts.retry_after {
            let before = ledger.gate.held_until(now);
            ledger.gate.overload(now, draw, &backoff, hint);
            // A longer hold that stands keeps its reason; a new one has its own.
            ledger.exhausted &= ledger.gate.held_until(now) == before;
            let source = facts.retry_source.unwrap_or("Retry-After");
            source.clone_into(&mut ledger.held_by);
            ledger.why = format!("HTTP {}: {source}", facts.status);
        }
    }

    /// If the call was the probe of scopes about which it found nothing out, the
    /// next one goes later. A scope that it closed waits for no probe any more.
    fn lose_probes(&mut self, now: Moment, draw: Draw, id: PermitId, seats: &[Seat]) {
        let backoff = self.policy.backoff;
        for seat in seats {
            if let Some(ledger) = self.scopes.at_mut(seat.place)
                && ledger.gate.lose_probe(now, draw, &backoff, id)
            {
                "the probe found nothing out".clone_into(&mut ledger.why);
            }
        }
    }

    /// Makes a changed mode or hold known, and sets the timer anew.
    fn publish(&mut self, now: Moment, place: usize, changes: &mut Vec<Change>) {
        if let Some(ledger) = self.scopes.at_mut(place) {
            let (mode, hold) = (ledger.gate.mode(now), ledger.hold(now));
            let held_before = std::mem::replace(&mut ledger.announced_hold, hold);
            if mode != ledger.announced {
                changes.push(Change::Mode {
                    scope: ledger.name.clone(),
                    from: ledger.announced,
                    to: mode,
                    why: bounded_text(&ledger.why),
                    next_allowed_at: ledger.gate.next_allowed_at(now),
                });
                ledger.announced = mode;
            } else if let Some(hold) = hold
                && held_before != Some(hold)
            {
                changes.push(Change::Held {
                    scope: ledger.name.clone(),
                    why: bounded_text(&ledger.why),
                    until: hold.until,
                });
            }
        }
        self.rearm(now, place);
    }
}

fn is_refusal(meaning: Meaning) -> bool {
    matches!(
        meaning,
        Meaning::RateLimited
            | Meaning::QuotaExhausted
            | Meaning::Billing
            | Meaning::TooManyConcurrent
            | Meaning::Overloaded
    )
}

/// How long the answer says to wait, and where it says so: the later of its
/// `Retry-After` and the reset of a limit of which nothing is left. A limit
/// with something left is not what refused.
fn hint(facts: &Facts, ledger: Option<&ScopeLedger>) -> Option<(Span, &'static str)> {
    // The reset of a bucket says when all of it is back, and not when more is.
    let is_of_bucket = |reading: &Reading| {
        reading.refills || ledger.is_some_and(|ledger| ledger.is_bucket(reading))
    };
    let more_is_back = |reading: &Reading| {
        let reset = reading.reset_after?;
        match (is_of_bucket(reading), reading.limit) {
            (true, limit) if facts.retry_after.is_none() => {
                Some(reset.scale(1, limit.unwrap_or(1).max(1)))
            }
            (true, _) => None,
            (false, _) => Some(reset),
        }
    };
    let exhausted = |reading: &&Reading| reading.remaining == Some(0);
    let reset = facts
        .readings
        .iter()
        .filter(exhausted)
        .filter_map(|reading| Some((more_is_back(reading)?, reading.source)))
        .max_by_key(|(reset, _)| *reset);
    let named = facts
        .retry_after
        .map(|wait| (wait, facts.retry_source.unwrap_or("Retry-After")));
    match (named, reset) {
        (Some(named), Some(reset)) if named.0 < reset.0 => Some(reset),
        (named, reset) => named.or(reset),
    }
}

/// Why a person should know of a refusal; `None` if a wait mends it.
fn hopeless(facts: &Facts, hint: Option<Span>) -> Option<String> {
    let said = facts.error_message.as_deref().unwrap_or_default();
    let code = facts.error_code.as_deref().unwrap_or("no code");
    let what = match facts.meaning {
        Meaning::Billing if facts.kind == Kind::NoAllowance => {
            "the provider grants nothing of this".to_owned()
        }
        Meaning::Billing => "the provider asks for payment".to_owned(),
        Meaning::QuotaExhausted => "the provider says that the quota is used up".to_owned(),
        _ => format!(
            "the provider asks to wait for {}",
            hint.filter(|hint| HOPELESS_FROM < *hint)?
        ),
    };
    Some(format!("{what} (HTTP {}, {code}) {said}", facts.status))
}
