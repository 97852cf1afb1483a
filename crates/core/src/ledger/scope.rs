//! What is known of one scope: its quotas, its gate, its seats, and what they
//! learn from each answer.
//!
//! Conservation, for every quota: `cap = available + reserved + spent`, where
//! spent includes what others used. What goes beyond the cap is a debt.

use std::collections::BTreeSet;

use super::call::{Change, Origin, PermitId, Rate, Reason};
use super::gate::{Gate, Hold, Turn};
use super::headers::{OVERTAKES, Word};
use super::learn::{Discovery, History, Proof};
use super::limiter::{Limiter, Margins, Verdict};
use super::ramp::Target;
use super::seats::Seats;
use super::window::Log;
use crate::id::Scope;
use crate::observe::Reading;
use crate::policy::{Backoff, Quota, ScopeLimits, WindowKind};
use crate::time::{Draw, Moment, Span};
use crate::word::{Mode, Priority};

/// Quotas that headers may add to one scope.
const HEADER_LIMITS_MAX: usize = 4;
/// Field names that are remembered as malformed.
const MALFORMED_MAX: usize = 16;
/// Refusals that follow each other within this are a row.
const ROW_WITHIN: Span = Span::from_secs(60);
/// How the operator's own limits are called.
pub(super) const POLICY: &str = "policy";

/// What one permit holds of one scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) place: usize,
    pub(super) turn: Turn,
    /// Units of the scope that surely arrived before the call, and its own.
    pub(super) mark: u64,
}

/// A refusal that waits for the moment at which the scope accepts again.
#[derive(Clone, Copy, Debug)]
struct Lesson {
    refused_at: Moment,
    opens: Moment,
    /// Whether the provider named the time.
    hinted: bool,
    /// Refusals before it in a row.
    nth: usize,
}

/// A refusal for the sake of a limit, as the gate sees it.
#[derive(Clone, Debug)]
pub(super) struct Refusal<'a> {
    pub(super) hold: Hold,
    pub(super) status: u16,
    /// Where the hold's length came from, in words.
    pub(super) source: &'a str,
    /// Whether the rate is what was refused, so that it teaches something.
    pub(super) is_rate: bool,
    pub(super) readings: &'a [Reading],
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct ScopeLedger {
    pub(super) name: Scope,
    pub(super) declared: bool,
    pub(super) gate: Gate,
    pub(super) seats: Seats,
    pub(super) limiters: Vec<Limiter>,
    pub(super) discovery: Option<Discovery>,
    history: History,
    lesson: Option<Lesson>,
    /// Units granted and not sent.
    pub(super) reserved: u64,
    /// Units ever sent.
    sent: u64,
    /// Those that may still be overtaken.
    recent: Log,
    pub(super) refusals: u64,
    pub(super) echoes: u64,
    refused_at: Option<Moment>,
    row: usize,
    /// Where the last hold came from.
    pub(super) held_by: String,
    /// Why the mode is what it is.
    pub(super) why: String,
    /// The mode that was last made known.
    pub(super) announced: Mode,
    /// When it changes by itself, as the map has it.
    pub(super) armed: Moment,
    pub(super) last_used: Moment,
    malformed: BTreeSet<String>,
    margins: Margins,
}

impl ScopeLedger {
    /// A scope of which nothing is known: unlimited.
    pub(super) fn new(name: Scope) -> ScopeLedger {
        ScopeLedger {
            name,
            declared: false,
            gate: Gate::default(),
            seats: Seats::default(),
            limiters: Vec::new(),
            discovery: None,
            history: History::default(),
            lesson: None,
            reserved: 0,
            sent: 0,
            recent: Log::new(OVERTAKES, u64::MAX),
            refusals: 0,
            echoes: 0,
            refused_at: None,
            row: 0,
            held_by: String::new(),
            why: String::new(),
            announced: Mode::Normal,
            armed: Moment::NEVER,
            last_used: Moment::START,
            malformed: BTreeSet::new(),
            margins: Margins::default(),
        }
    }

    /// The operator's rules for it. What is spent, open or learnt stays.
    pub(super) fn set_policy(&mut self, limits: &ScopeLimits, reserve: u32, margins: Margins) {
        self.margins = margins;
        self.seats.set_policy(limits.max_concurrent, reserve);
        let (mut old, told): (Vec<Limiter>, Vec<Limiter>) = std::mem::take(&mut self.limiters)
            .into_iter()
            .partition(|limiter| limiter.origin() == Origin::Declared);
        let declared_before = old.iter().map(Limiter::quota);
        if !declared_before.eq(&limits.requests) {
            // The operator's new word counts more than what refusals taught of the old one.
            self.discovery = None;
            self.lesson = None;
        }
        for quota in &limits.requests {
            let known = old
                .iter()
                .position(|limiter| limiter.quota().window == quota.window);
            let limiter = match known {
                Some(index) => {
                    let mut limiter = old.swap_remove(index);
                    limiter.set(quota.clone(), margins);
                    limiter
                }
                None => self.seeded(quota, margins, old.iter().chain(&told)),
            };
            self.limiters.push(limiter);
        }
        for mut limiter in told {
            let is_declared = |quota: &Quota| quota.window == limiter.quota().window;
            if !limits.requests.iter().any(is_declared) {
                limiter.set(limiter.quota().clone(), margins);
                self.limiters.push(limiter);
            }
        }
    }

    /// A limiter that knows what was sent, from whoever remembers most.
    fn seeded<'a>(
        &'a self,
        quota: &Quota,
        margins: Margins,
        others: impl Iterator<Item = &'a Limiter>,
    ) -> Limiter {
        let mut limiter = Limiter::new(quota.clone(), Origin::Declared, margins);
        let longest = others
            .chain(&self.limiters)
            .max_by_key(|other| other.span());
        match longest {
            Some(other) => limiter.seed(other.sends()),
            None => limiter.seed(self.history.iter()),
        }
        limiter
    }

    /// What stands in the way of a call; of several things the one that lasts longest.
    pub(super) fn block(
        &self,
        now: Moment,
        cost: u64,
        priority: Priority,
        probe_safe: bool,
    ) -> Option<(Reason, Moment)> {
        let taken = self.sent + self.reserved;
        let quotas = self
            .limiters
            .iter()
            .filter_map(|limiter| limiter.block(now, cost, self.reserved, taken));
        let learnt = self
            .discovery
            .as_ref()
            .map(Discovery::free_at)
            .filter(|at| now < *at)
            .map(|at| (Reason::Pacing, at));
        self.gate
            .block(now, probe_safe)
            .into_iter()
            .chain(self.seats.block(priority))
            .chain(quotas)
            .chain(learnt)
            .reduce(|first, next| if first.1 < next.1 { next } else { first })
    }

    /// Grants a call that nothing blocks.
    pub(super) fn grant(
        &mut self,
        now: Moment,
        permit: PermitId,
        cost: u64,
        priority: Priority,
    ) -> Turn {
        self.last_used = now;
        self.reserved += cost;
        self.seats.take(now, priority);
        for limiter in &mut self.limiters {
            limiter.grant(now, cost, permit);
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.grant(now, cost, permit);
        }
        self.gate.grant(now, permit)
    }

    /// A granted call leaves: from now on its units count as spent. Returns the mark.
    pub(super) fn left(&mut self, now: Moment, permit: PermitId, cost: u64) -> u64 {
        debug_assert!(cost <= self.reserved, "what leaves was reserved");
        let mark = self.sent - self.recent.used(now) + cost;
        self.recent.push(now, cost);
        self.reserved = self.reserved.saturating_sub(cost);
        self.sent += cost;
        self.history.push(now, cost);
        for limiter in &mut self.limiters {
            limiter.left(now, cost, permit);
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.left(now, cost, permit);
        }
        mark
    }

    /// A granted call certainly never left: everything back.
    pub(super) fn take_back(
        &mut self,
        permit: PermitId,
        (cost, priority): (u64, Priority),
        sent_at: Option<Moment>,
        turn: Turn,
    ) {
        match sent_at {
            None => self.reserved = self.reserved.saturating_sub(cost),
            Some(at) => {
                self.sent = self.sent.saturating_sub(cost);
                self.recent.take_back(at, cost);
                self.history.remove(at, cost);
            }
        }
        for limiter in &mut self.limiters {
            limiter.take_back(sent_at, cost, permit);
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.take_back(cost, permit);
        }
        self.gate.take_back(permit, turn);
        self.seats.free(priority);
    }

    /// A reading of this scope's requests. `accepted` says whether its call was.
    pub(super) fn read(
        &mut self,
        now: Moment,
        word: &Word,
        reading: &Reading,
        accepted: bool,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let known = self.limiter_of(reading);
        let Some(index) = known.or_else(|| self.add_told(now, reading)) else {
            return changes;
        };
        let limiter = &mut self.limiters[index];
        let retold = limiter.hear(now, word, reading.limit);
        limiter.told.set_source(reading.source);
        let (limit, window) = (limiter.cap(), limiter.quota().window);
        let is_told = limiter.origin() == Origin::Header || retold;
        if is_told && limiter.told.is_worth_naming(limit, window) {
            changes.push(Change::Learned {
                scope: self.name.clone(),
                limit,
                window,
                source: reading.source.to_owned(),
            });
        }
        if accepted
            && limiter.window_is_named()
            && let Some(units) = limiter.told.announce(now, limit)
        {
            changes.push(Change::Foreign {
                scope: self.name.clone(),
                units,
                limit,
            });
        }
        changes
    }

    /// The limiter that a reading is about.
    fn limiter_of(&self, reading: &Reading) -> Option<usize> {
        let named = |limiter: &Limiter| {
            limiter.window_is_named() && Some(limiter.quota().window) == reading.window
        };
        let same_limit = |limiter: &Limiter| {
            reading.window.is_none() && Some(limiter.quota().limit) == reading.limit
        };
        let nameless = |limiter: &Limiter| reading.window.is_none() && !limiter.window_is_named();
        let find = |fits: &dyn Fn(&Limiter) -> bool| self.limiters.iter().position(fits);
        find(&named)
            .or_else(|| find(&same_limit))
            .or_else(|| find(&nameless))
            .or_else(|| {
                let says_which = reading.window.is_some() || reading.limit.is_some();
                (!says_which && self.limiters.len() == 1).then_some(0)
            })
    }

    /// A limiter for a quota that only the headers know. A limit without its
    /// window beside declared quotas is not taken up: nobody could tell what it is.
    fn add_told(&mut self, now: Moment, reading: &Reading) -> Option<usize> {
        let told = self
            .limiters
            .iter()
            .filter(|limiter| limiter.origin() == Origin::Header);
        if HEADER_LIMITS_MAX <= told.count() {
            return None;
        }
        let limit = reading.limit.filter(|limit| 0 < *limit)?;
        let limiter = match (reading.window, reading.reset_after) {
            (Some(window), _) if !window.is_zero() => {
                let quota = Quota {
                    limit,
                    window,
                    kind: WindowKind::Unknown,
                };
                Limiter::new(quota, Origin::Header, self.margins)
            }
            (None, Some(reset)) if !reset.is_zero() && !self.has_declared() => {
                Limiter::without_window(limit, reset, self.margins)
            }
            _ => return None,
        };
        self.limiters.push(limiter);
        let index = self.limiters.len() - 1;
        self.limiters[index].seed(self.history.iter());
        self.limiters[index].settle_from(now);
        Some(index)
    }

    fn has_declared(&self) -> bool {
        self.limiters
            .iter()
            .any(|limiter| limiter.origin() == Origin::Declared)
    }

    /// A refusal for the sake of a limit. It closes the scope before anybody
    /// decides anything else.
    pub(super) fn refuse(
        &mut self,
        now: Moment,
        draw: Draw,
        backoff: &Backoff,
        (turn, sent_at, cost): (Turn, Moment, u64),
        refusal: &Refusal<'_>,
    ) -> Change {
        self.history.remove(sent_at, cost);
        let echo = self.gate.is_echo(turn);
        if echo {
            self.echoes += 1;
            let hint = match refusal.hold {
                Hold::Hinted(hint) => Some(hint),
                Hold::Ladder | Hold::Exhausted | Hold::Person => None,
            };
            self.gate.echo(now, draw, hint);
        } else {
            if refusal.is_rate && !turn.probe {
                self.conclude(now, sent_at, refusal.readings);
            }
            self.refusals += 1;
            self.refused_at = Some(now);
            self.gate.refuse(now, draw, backoff, refusal.hold, turn);
            self.held_by.clear();
            self.held_by.push_str(refusal.source);
            self.why = format!("HTTP {}: {}", refusal.status, refusal.source);
        }
        if let (Some(lesson), Some(opens)) = (&mut self.lesson, self.gate.opens()) {
            lesson.opens = opens;
            lesson.hinted |= matches!(refusal.hold, Hold::Hinted(_));
        }
        Change::Refused {
            scope: self.name.clone(),
            status: refusal.status,
            until: self.gate.held_until(now),
            echo,
        }
    }

    /// What a refusal says about the limits: it was foreign use, or late on its
    /// way, or the declared shape is wrong, or the rate is unknown or too high.
    fn conclude(&mut self, now: Moment, sent_at: Moment, readings: &[Reading]) {
        if self.is_explained(now, readings) {
            return;
        }
        let verdicts: Vec<Verdict> = self
            .limiters
            .iter_mut()
            .filter_map(|limiter| limiter.judge(now, sent_at))
            .collect();
        if verdicts.contains(&Verdict::Weather) {
            return;
        }
        if verdicts.contains(&Verdict::Wrong) {
            for limiter in &mut self.limiters {
                limiter.distrust(now);
            }
            return;
        }
        self.history.cut_after(sent_at);
        let soon = |before| now.since(before) < ROW_WITHIN;
        self.row = if self.refused_at.is_some_and(soon) {
            self.row + 1
        } else {
            0
        };
        self.lesson = Some(Lesson {
            refused_at: sent_at,
            opens: now,
            hinted: false,
            nth: self.row,
        });
    }

    /// Whether the refusal's own headers show that others used what is missing.
    fn is_explained(&mut self, now: Moment, readings: &[Reading]) -> bool {
        let stated = readings
            .iter()
            .filter(|reading| reading.limit.is_some() && reading.remaining.is_some());
        let about: Vec<usize> = stated
            .filter_map(|reading| self.limiter_of(reading))
            .collect();
        about.into_iter().any(|index| {
            let limiter = &mut self.limiters[index];
            let told = limiter.told.remaining() == Some(0) && limiter.origin() == Origin::Header;
            told || 0 < limiter.told.foreign(now).units && limiter.told.explains()
        })
    }

    /// A call was accepted. If it was the probe, the scope opens, and what the
    /// refusals taught is known now.
    pub(super) fn accept(&mut self, now: Moment, draw: Draw, turn: Turn) -> Vec<Change> {
        if !self.gate.would_open(turn) {
            return Vec::new();
        }
        let learned = self.learn(now);
        let target = self.target();
        self.gate.open(now, draw, target);
        self.history.clear();
        "the probe was accepted".clone_into(&mut self.why);
        learned.into_iter().collect()
    }

    /// Draws the lesson from the last refusals, now that they are over.
    fn learn(&mut self, now: Moment) -> Option<Change> {
        let lesson = self.lesson.take()?;
        let proof = match self.discovery {
            Some(_) => Proof::Known,
            None => Proof::Row {
                refused_at: lesson.refused_at,
                nth: lesson.nth,
            },
        };
        let measured = self.history.measure(lesson.opens, proof);
        match (&mut self.discovery, measured) {
            (Some(discovery), measured) => {
                discovery.lose(now, lesson.refused_at, measured, lesson.hinted);
            }
            (discovery @ None, Some(measured)) => *discovery = Some(Discovery::new(now, measured)),
            (None, None) => return None,
        }
        let discovery = self.discovery.as_ref()?;
        Some(Change::Learned {
            scope: self.name.clone(),
            limit: discovery.limit(),
            window: discovery.window(),
            source: Origin::Learned.word().to_owned(),
        })
    }

    /// What the scope climbs back to.
    fn target(&self) -> Target {
        let known = self.limiters.iter().map(Limiter::safe_spacing).max();
        let learnt = self.discovery.as_ref().map(Discovery::spacing);
        match (known, learnt) {
            (Some(known), Some(learnt)) if known < learnt => Target::Learnt(learnt),
            (Some(known), _) => Target::Known(known),
            (None, Some(learnt)) => Target::Learnt(learnt),
            (None, None) => Target::Blind,
        }
    }

    /// The slowest rate that binds it for long; `None` if nothing is known.
    pub(super) fn rate(&self) -> Option<Rate> {
        let learnt = self.discovery.as_ref().map(|discovery| {
            let (units, per) = discovery.rate();
            Rate { units, per }
        });
        self.limiters
            .iter()
            .map(Limiter::rate)
            .chain(learnt)
            .reduce(|slowest, next| {
                if next.is_slower_than(slowest) {
                    next
                } else {
                    slowest
                }
            })
    }

    /// A field that did not match its grammar; `None` if it was told before.
    pub(super) fn malformed(&mut self, field: &str) -> Option<Change> {
        let known = self.malformed.contains(field) || MALFORMED_MAX <= self.malformed.len();
        if known {
            return None;
        }
        let mut field = field.to_owned();
        field.truncate(field.floor_char_boundary(crate::id::NAME_BYTES_MAX));
        self.malformed.insert(field.clone());
        Some(Change::Malformed {
            scope: self.name.clone(),
            field,
        })
    }

    /// Whether nothing of it is in use, so that its place may be given away.
    pub(super) fn is_idle(&self, now: Moment) -> bool {
        !self.declared && self.seats.open() == 0 && self.gate.is_calm(now)
    }

    /// Whether something would be forgotten with it.
    pub(super) fn has_learnt(&self) -> bool {
        !self.limiters.is_empty() || self.discovery.is_some() || self.seats.learnt().is_some()
    }

    /// Whether a declared quota turned out to have another shape.
    pub(super) fn is_misdeclared(&self) -> bool {
        self.limiters.iter().any(Limiter::is_misdeclared)
    }

    /// The margins in force.
    pub(super) fn margins(&self) -> Margins {
        self.margins
    }

    /// Units ever granted.
    pub(super) fn taken(&self) -> u64 {
        self.sent + self.reserved
    }

    /// Sends that were made before a restart.
    pub(super) fn seed(&mut self, sends: &[(Moment, u64)]) {
        for limiter in &mut self.limiters {
            limiter.seed(sends.iter().copied());
        }
    }
}
