//! What a scope makes of its answers: readings, refusals, and the lessons of both.
//!
//! | a call that fitted is refused, and | then |
//! | --- | --- |
//! | its headers show that others used the quota | what is left is adopted; twice, then accepted calls must show it, too |
//! | a declared quota was full up to the spread | weather: it was late on its way; a second one in 10 minutes is not |
//! | a declared quota had room | the shape is wrong: starts are spaced from now on |
//! | starts are spaced already, or nothing is known | the rate is measured once the scope accepts again |

use super::call::{Change, Origin};
use super::discovery::Discovery;
use super::gate::{Hold, Turn};
use super::headers::Word;
use super::history::Proof;
use super::limiter::{Limiter, Verdict};
use super::ramp::Target;
use super::scope::ScopeLedger;
use super::tally::Tally;
use crate::cost::Dimension;
use crate::observe::Reading;
use crate::policy::{Backoff, Quota, WindowKind};
use crate::time::{Draw, Moment, Span};

/// Quotas that headers may add to one scope.
const HEADER_LIMITS_MAX: usize = 8;
/// Field names that are remembered as malformed.
const MALFORMED_MAX: usize = 16;
/// Refusals that follow each other within this are a row.
const ROW_WITHIN: Span = Span::from_secs(60);

/// A refusal that waits for the moment at which the scope accepts again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lesson {
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

/// How a reading calls its limit: two of one dimension are two limits.
fn label_of(reading: &Reading) -> &str {
    reading.name.as_deref().unwrap_or(&reading.dimension)
}

impl ScopeLedger {
    /// A reading of what this scope has left of a dimension. `accepted` says whether
    /// its call was.
    pub(super) fn read(
        &mut self,
        now: Moment,
        dimension: Dimension,
        word: &Word,
        reading: &Reading,
        accepted: bool,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let known = self.limiter_of(reading);
        let Some(index) = known.or_else(|| self.add_told(now, dimension, reading)) else {
            return changes;
        };
        let in_flight = match dimension.is_estimated() {
            true => self.tally(dimension).map_or(0, Tally::reserved),
            false => 0,
        };
        let limiter = &mut self.limiters[index];
        let retold = limiter.hear(now, word, reading.limit, in_flight);
        limiter.told.set_source(reading.source);
        limiter.told.set_name(label_of(reading));
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
        if limiter.origin() == Origin::Header && limiter.told.has_halved(limit) {
            changes.push(Change::Left {
                scope: self.name.clone(),
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
        let label = label_of(reading);
        // What is declared has no name but what it counts and its window.
        let is_declared = |limiter: &Limiter| {
            limiter.origin() == Origin::Declared
                && limiter.dimension().word() == reading.dimension
                && reading
                    .window
                    .is_none_or(|window| window == limiter.quota().window)
        };
        let alike = |limiter: &&Limiter| limiter.label() == label || is_declared(limiter);
        let named = |limiter: &Limiter| {
            limiter.window_is_named() && Some(limiter.quota().window) == reading.window
        };
        let same_limit = |limiter: &Limiter| {
            reading.window.is_none() && Some(limiter.quota().limit) == reading.limit
        };
        // A declared limit that was told under this name before has changed.
        let same_name =
            |limiter: &Limiter| reading.window.is_none() && limiter.told.is_called(label);
        let nameless = |limiter: &Limiter| reading.window.is_none() && !limiter.window_is_named();
        let find = |fits: &dyn Fn(&Limiter) -> bool| {
            self.limiters
                .iter()
                .position(|limiter| alike(&limiter) && fits(limiter))
        };
        find(&named)
            .or_else(|| find(&same_limit))
            .or_else(|| find(&same_name))
            .or_else(|| find(&nameless))
            .or_else(|| {
                let says_which = reading.window.is_some() || reading.limit.is_some();
                let only = self.limiters.iter().filter(alike).count() == 1;
                (!says_which && only).then(|| find(&|_| true)).flatten()
            })
    }

    /// Whether what a reading is about was found to refill evenly.
    pub(super) fn is_bucket(&self, reading: &Reading) -> bool {
        self.limiter_of(reading)
            .is_some_and(|index| self.limiters[index].bucket_is_told())
    }

    /// A limiter for a quota that only the headers know. A limit without its
    /// window beside declared quotas is not taken up: nobody could tell what it is.
    fn add_told(&mut self, now: Moment, dimension: Dimension, reading: &Reading) -> Option<usize> {
        let told = self
            .limiters
            .iter()
            .filter(|limiter| limiter.origin() == Origin::Header);
        if HEADER_LIMITS_MAX <= told.count() {
            return None;
        }
        let limit = reading.limit.filter(|limit| 0 < *limit)?;
        let quota = |window| Quota {
            dimension,
            limit,
            window,
            kind: match reading.refills {
                true => WindowKind::TokenBucket { burst: limit },
                false => WindowKind::Unknown,
            },
        };
        let limiter = match (reading.window, reading.reset_after) {
            (Some(window), _) if !window.is_zero() => {
                Limiter::new(quota(window), Origin::Header, self.margins)
            }
            (None, Some(reset)) if !reset.is_zero() && !self.has_declared(dimension) => {
                // A guess that is far too short would forget what was sent before it.
                let used = reading.remaining.map(|left| limit.saturating_sub(left));
                let window = match used.filter(|used| reading.refills && 0 < *used) {
                    Some(used) => reset.scale(limit, used),
                    None => reset,
                };
                Limiter::without_window(quota(window), self.margins)
            }
            _ => return None,
        };
        self.limiters.push(limiter.labelled(label_of(reading)));
        let index = self.limiters.len() - 1;
        if dimension == Dimension::Requests {
            self.limiters[index].seed(now, self.history.iter());
        }
        self.limiters[index].settle_from(now);
        Some(index)
    }

    fn has_declared(&self, dimension: Dimension) -> bool {
        self.limiters
            .iter()
            .any(|limiter| limiter.origin() == Origin::Declared && limiter.dimension() == dimension)
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
                Hold::Hinted(hint) | Hold::Documented(hint) => Some(hint),
                Hold::Ladder | Hold::Exhausted | Hold::Person => None,
            };
            self.gate.echo(now, draw, hint);
        } else {
            if refusal.is_rate && !turn.probe {
                self.conclude(now, sent_at, refusal.readings);
            }
            self.refusals += 1;
            self.refused_at = Some(now);
            self.exhausted = !refusal.is_rate;
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
        if self.is_explained(now, sent_at, readings) {
            return;
        }
        for limiter in self.of_mut(Dimension::Requests) {
            if limiter.origin() == Origin::Header && limiter.told.remaining() != Some(0) {
                limiter.contradict();
            }
        }
        let verdicts: Vec<Verdict> = self
            .limiters
            .iter_mut()
            .filter(|limiter| limiter.dimension() == Dimension::Requests)
            .filter_map(|limiter| limiter.judge(now, sent_at))
            .collect();
        if verdicts.contains(&Verdict::Weather) {
            return;
        }
        if verdicts.contains(&Verdict::Wrong) {
            let of_calls = |limiter: &&mut Limiter| limiter.dimension() == Dimension::Requests;
            for limiter in self.limiters.iter_mut().filter(of_calls) {
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
    fn is_explained(&mut self, now: Moment, sent_at: Moment, readings: &[Reading]) -> bool {
        let stated = readings
            .iter()
            .filter(|reading| reading.limit.is_some() && reading.remaining.is_some());
        let about: Vec<usize> = stated
            .filter_map(|reading| self.limiter_of(reading))
            .collect();
        about.into_iter().any(|index| {
            let limiter = &mut self.limiters[index];
            let is_empty = limiter.told.remaining() == Some(0);
            let told = is_empty && limiter.origin() == Origin::Header;
            // Of a full quota nobody can say whether others took the last of it.
            let others = 0 < limiter.told.foreign(now).units
                || is_empty && limiter.may_have_bunched(now, sent_at);
            let explained = told || others && limiter.told.explains();
            if explained {
                let (limit, window) = (limiter.cap(), limiter.quota().window);
                limiter.told.widen_keep(now, limit, window);
            }
            explained
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
        // A person may have opened it earlier than the provider said.
        let measured = self.history.measure(lesson.opens.min(now), proof);
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
        let known = self.of_calls().map(Limiter::safe_spacing).max();
        let learnt = self.discovery.as_ref().map(Discovery::spacing);
        match (known, learnt) {
            (Some(known), Some(learnt)) if known < learnt => Target::Learnt(learnt),
            (Some(known), _) => Target::Known(known),
            (None, Some(learnt)) => Target::Learnt(learnt),
            (None, None) => Target::Blind,
        }
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
}
