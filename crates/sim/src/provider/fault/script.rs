//! The script: steps in order, and which of them a call meets.
//!
//! 1. Steps whose time has passed leave.
//! 2. Of the steps with a condition, the first that fits acts.
//! 3. Otherwise the first fitting step without one acts; a step that still
//!    has calls to skip counts this one and lets it look further.
//! 4. A call that no step wants gets ordinary service.
//!
//! Worked example: `[429 twice, 200 always]`. Three calls get 429, 429, 200; a
//! step `429 when 2 are in flight` placed anywhere would answer before either
//! whenever two calls are open.

use std::collections::VecDeque;

use rategov_core::time::{Moment, Span};
use serde::Serialize;

use super::{Condition, Conduct, Step, Times};
use crate::provider::message::Fields;

/// Most steps that wait in a script.
pub const STEPS_MAX: usize = 10_000;
/// Most arrivals that are remembered for conditions on starts.
const STARTS_MAX: usize = 100_000;

/// The script can take no more steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the script holds {STEPS_MAX} steps and takes no more\nhint: reset it, or use times")]
pub struct ScriptFull;

/// A call, as far as steps ask about it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Method and path.
    pub call: (&'a str, &'a str),
    /// The header fields.
    pub fields: &'a Fields,
    /// The body.
    pub body: &'a [u8],
    /// Other calls that are open.
    pub in_flight: u64,
}

/// What the script wants done with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// What to do.
    pub conduct: Conduct,
    /// How long the step still stays, zero if it has no end.
    pub remaining: Span,
}

/// A step that has not acted as often as it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The calls it waits for.
    pub calls: String,
    /// How often it acted.
    pub acted: u32,
    /// How often it should still act; null if for ever.
    pub times_left: Option<u32>,
}

#[derive(Clone, Debug)]
struct Entry {
    step: Step,
    until: Option<Moment>,
    acted: u32,
}

/// Steps that wait for their calls.
#[derive(Clone, Debug, Default)]
pub struct Script {
    entries: Vec<Entry>,
    missed: Vec<Left>,
    starts: VecDeque<Moment>,
}

impl Script {
    /// Adds steps at the end.
    ///
    /// # Errors
    /// If the script would hold more than [`STEPS_MAX`]; then none is added.
    pub fn push(&mut self, now: Moment, steps: Vec<Step>) -> Result<(), ScriptFull> {
        if self.entries.len() + steps.len() > STEPS_MAX {
            return Err(ScriptFull);
        }
        self.entries.extend(steps.into_iter().map(|step| {
            let until = step.until.map(|span| now + span);
            Entry {
                step,
                until,
                acted: 0,
            }
        }));
        Ok(())
    }

    /// Forgets every step.
    pub fn clear(&mut self) {
        *self = Script::default();
    }

    /// A call arrives: counts it, and says what is to be done with it, if
    /// anything is.
    pub fn take(&mut self, now: Moment, asked: &Asked<'_>) -> Option<Chosen> {
        if self.starts.len() >= STARTS_MAX {
            self.starts.pop_front();
        }
        self.starts.push_back(now);
        self.expire(now);
        let conditional = |e: &Entry| e.step.condition.is_some();
        let place = self
            .place(now, asked, conditional)
            .or_else(|| self.place(now, asked, |e| !conditional(e)))?;
        let entry = &mut self.entries[place];
        entry.acted += 1;
        let remaining = entry.until.map_or(Span::ZERO, |until| until.since(now));
        let chosen = Chosen {
            conduct: entry.step.conduct.clone(),
            remaining,
        };
        if let Times::Count(left) = &mut entry.step.times {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.entries.remove(place);
            }
        }
        Some(chosen)
    }

    /// The step that would be the next to act on the call, before its body is
    /// read; changes nothing. Only steps that ask neither about the body nor
    /// about other calls can be known then.
    pub fn peek(&self, now: Moment, call: (&str, &str), fields: &Fields) -> Option<&Conduct> {
        let asked = Asked {
            call,
            fields,
            body: &[],
            in_flight: 0,
        };
        self.entries
            .iter()
            .filter(|e| e.step.condition.is_none() && e.step.body_has.is_none())
            .find(|e| e.until.is_none_or(|until| now < until) && fits(&e.step, &asked))
            .filter(|e| e.step.skip == 0)
            .map(|e| &e.step.conduct)
    }

    /// Steps that were meant to act and have not, or not often enough; those
    /// that left because their time was over without ever acting included.
    pub fn left(&self) -> Vec<Left> {
        let waiting = self.entries.iter().filter(|e| match e.step.times {
            Times::Count(_) => e.until.is_none() || e.acted == 0,
            Times::Always => e.acted == 0,
        });
        self.missed
            .iter()
            .cloned()
            .chain(waiting.map(as_left))
            .collect()
    }

    fn expire(&mut self, now: Moment) {
        let missed = &mut self.missed;
        self.entries.retain(|e| {
            let stays = e.until.is_none_or(|until| now < until);
            if !stays && e.acted == 0 {
                missed.push(as_left(e));
            }
            stays
        });
    }

    fn place(
        &mut self,
        now: Moment,
        asked: &Asked<'_>,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Option<usize> {
        for place in 0..self.entries.len() {
            let entry = &self.entries[place];
            let holds = entry
                .step
                .condition
                .is_none_or(|c| self.holds(now, c, asked));
            if !(wanted(entry) && holds && fits(&entry.step, asked)) {
                continue;
            }
            match &mut self.entries[place].step.skip {
                0 => return Some(place),
                skip => *skip -= 1,
            }
        }
        None
    }

    fn holds(&self, now: Moment, condition: Condition, asked: &Asked<'_>) -> bool {
        match condition {
            Condition::InFlight(n) => asked.in_flight >= n,
            Condition::StartsAbove(n, span) => {
                let old = self.starts.partition_point(|at| now.since(*at) >= span);
                (self.starts.len() - old) as u64 > n
            }
        }
    }
}

fn as_left(entry: &Entry) -> Left {
    let times_left = match entry.step.times {
        Times::Count(left) => Some(left),
        Times::Always => None,
    };
    Left {
        calls: entry.step.calls.to_string(),
        acted: entry.acted,
        times_left,
    }
}

fn fits(step: &Step, asked: &Asked<'_>) -> bool {
    let field = |(name, text): &(String, String)| {
        asked
            .fields
            .iter()
            .any(|(n, v)| n.eq_ignore_ascii_case(name) && v.contains(text.as_str()))
    };
    let body = |text: &String| {
        text.is_empty() || asked.body.windows(text.len()).any(|w| w == text.as_bytes())
    };
    step.calls.matches(asked.call)
        && step.field.as_ref().is_none_or(field)
        && step.body_has.as_ref().is_none_or(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(n: u16) -> Conduct {
        Conduct::status(n)
    }

    /// The statuses that calls (at ms, call, in flight) meet; 0 is ordinary service.
    fn check(steps: Vec<Step>, calls: &[(u64, &str, u64)], expected: &[u16]) -> Script {
        let mut script = Script::default();
        script.push(Moment::START, steps).expect("few steps");
        let fields = Fields::new();
        let got: Vec<u16> = calls
            .iter()
            .map(|(ms, call, in_flight)| {
                let call = call.split_once(' ').expect("METHOD PATH");
                let asked = Asked {
                    call,
                    fields: &fields,
                    body: b"",
                    in_flight: *in_flight,
                };
                let chosen = script.take(Moment::from_micros(ms * 1_000), &asked);
                chosen
                    .and_then(|c| c.conduct.answer)
                    .map_or(0, |a| a.status)
            })
            .collect();
        assert_eq!(got, expected);
        script
    }

    #[test]
    fn steps_are_used_in_order_and_then_service_is_ordinary() {
        let steps = vec![
            Step::once("GET /a", status(429)).times(Times::Count(2)),
            Step::once("*", status(500)),
        ];
        let calls = [
            (0, "GET /a", 0),
            (1, "GET /b", 0),
            (2, "GET /a", 0),
            (3, "GET /a", 0),
        ];
        let script = check(steps, &calls, &[429, 500, 429, 0]);
        assert!(script.left().is_empty());
    }

    #[test]
    fn the_nth_call_is_met_and_the_others_pass() {
        let steps = vec![Step::once("POST /r", status(503)).after(2)];
        let calls = [
            (0, "POST /r", 0),
            (1, "GET /r", 0),
            (2, "POST /r", 0),
            (3, "POST /r", 0),
        ];
        check(steps, &calls, &[0, 0, 0, 503]);
    }

    #[test]
    fn a_condition_is_checked_first_and_only_while_it_holds() {
        let steps = vec![
            Step::once("*", status(200)).times(Times::Always),
            Step::once("*", status(429))
                .times(Times::Always)
                .when(Condition::InFlight(2)),
        ];
        let calls = [(0, "GET /a", 1), (0, "GET /a", 2), (0, "GET /a", 1)];
        check(steps, &calls, &[200, 429, 200]);
    }

    #[test]
    fn starts_are_counted_with_this_one_in_a_rolling_span() {
        let above = Condition::StartsAbove(2, Span::from_millis(1_000));
        let steps = vec![
            Step::once("*", status(429))
                .times(Times::Always)
                .when(above),
        ];
        let calls = [
            (0, "GET /a", 0),
            (1, "GET /a", 0),
            (999, "GET /a", 0),
            (1_001, "GET /a", 0),
        ];
        check(steps, &calls, &[0, 0, 429, 0]);
    }

    #[test]
    fn a_step_leaves_when_its_time_is_over_and_says_if_it_never_acted() {
        let until = |step: Step| Step {
            until: Some(Span::from_millis(100)),
            ..step
        };
        let steps = vec![
            until(Step::once("GET /a", status(429)).times(Times::Always)),
            until(Step::once("GET /never", status(500))),
            Step::once("*", status(200)).times(Times::Always),
        ];
        let script = check(
            steps,
            &[(0, "GET /a", 0), (99, "GET /a", 0), (100, "GET /a", 0)],
            &[429, 429, 200],
        );
        let left = script.left();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(left[0].calls, "GET /never");
    }

    #[test]
    fn a_full_script_takes_no_step_at_all() {
        let mut script = Script::default();
        let steps = vec![Step::once("*", status(200)); STEPS_MAX + 1];
        assert_eq!(script.push(Moment::START, steps), Err(ScriptFull));
        assert!(script.left().is_empty());
    }
}
