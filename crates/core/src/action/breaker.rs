//! The breaker of a task (R-CLASS-4): a call that fails identically, several
//! times in a row, is not sent again for this task.
//!
//! A path is an account and an endpoint template (which names the method). Per
//! path the consecutive failures with the same normalised code are counted; the
//! payload is not looked at, so white space, field order and reworded arguments
//! don't evade it. Only [failures](super::failure) that a repeat can't mend count.
//!
//! Worked example (N = 3): `POST /jobs` answers 400 `invalid_model`, 400
//! `invalid_model`, 429, 400 `Invalid_Model ` → tripped: the 429 between them
//! neither counts nor resets. A 200 after the second would have reset it.

use std::collections::BTreeMap;
use std::fmt;

use super::failure::Failure;
use crate::id::{Account, Endpoint};
use crate::time::Moment;

/// Most paths that are counted for one task. The one that failed longest ago
/// makes room for a new one.
pub const PATHS_MAX: usize = 256;

/// Where calls go, as far as a breaker tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// Whose quota, at which provider.
    pub account: Account,
    /// The endpoint template, method included.
    pub endpoint: Endpoint,
}

/// The failures of one path, in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// With this code, and saying this.
    pub failure: Failure,
    /// How many.
    pub count: u32,
    /// The last one.
    pub last: Moment,
}

/// Why a path is stopped: what the agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The endpoint template.
    pub endpoint: Endpoint,
    /// What kept coming.
    pub failure: Failure,
    /// How many times in a row.
    pub count: u32,
}

impl fmt::Display for Constraint {
    /// The constraint in one sentence that an agent can follow.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Constraint {
            endpoint,
            failure,
            count,
        } = self;
        let Failure { code, sentence } = failure;
        write!(f, "{endpoint} failed {count} times in a row with `{code}`")?;
        if let Some(sentence) = sentence {
            write!(f, ": {sentence}")?;
        }
        f.write_str(
            "; it will not be sent again for this task until an operator resets it or the \
             policy changes",
        )
    }
}

/// Failures of one task by path. A value; it knows no clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    limit: u32,
    rows: BTreeMap<Path, Row>,
}

impl Breaker {
    /// Nothing has failed. A path stops after `limit` identical failures; 0
    /// switches the breaker off.
    pub const fn new(limit: u32) -> Breaker {
        Breaker {
            limit,
            rows: BTreeMap::new(),
        }
    }

    /// A breaker as it was stored; of more than [`PATHS_MAX`] rows the latest are kept.
    pub fn restored(limit: u32, rows: impl IntoIterator<Item = (Path, Row)>) -> Breaker {
        let mut breaker = Breaker::new(limit);
        for (path, row) in rows {
            breaker.make_room(&path);
            breaker.rows.insert(path, row);
        }
        breaker
    }

    /// Counts a failure, and says what the agent is told if this one stopped the
    /// path. O(log n); making room is O(n), n ≤ [`PATHS_MAX`].
    pub fn failed(&mut self, now: Moment, path: &Path, failure: &Failure) -> Option<Constraint> {
        if self.limit == 0 {
            return None;
        }
        self.make_room(path);
        let limit = self.limit;
        let fresh = || Row {
            failure: failure.clone(),
            count: 0,
            last: now,
        };
        let row = self.rows.entry(path.clone()).or_insert_with(fresh);
        if row.failure.code != failure.code {
            // "In a row": another failure begins a new row, unless the path has
            // stopped; then only a late answer can bring one, and it stays stopped.
            if row.count >= limit {
                return None;
            }
            row.count = 0;
        }
        row.failure = failure.clone();
        row.count = row.count.saturating_add(1);
        row.last = now;
        if row.count == limit {
            self.constraint(path)
        } else {
            None
        }
    }

    /// A success on a path: its failures were not so certain after all.
    pub fn succeeded(&mut self, path: &Path) {
        self.rows.remove(path);
    }

    /// An operator gives a path a new chance.
    pub fn reset(&mut self, path: &Path) {
        self.rows.remove(path);
    }

    /// An operator reopens an account: each of its paths gets a new chance.
    pub fn reset_account(&mut self, account: &Account) {
        self.rows.retain(|path, _| path.account != *account);
    }

    /// The policy changed: what failed under the old one may pass under the new.
    pub fn reset_all(&mut self, limit: u32) {
        *self = Breaker::new(limit);
    }

    /// Why a path is stopped, if it is.
    pub fn constraint(&self, path: &Path) -> Option<Constraint> {
        let row = self
            .rows
            .get(path)
            .filter(|row| 0 < self.limit && self.limit <= row.count)?;
        Some(Constraint {
            endpoint: path.endpoint.clone(),
            failure: row.failure.clone(),
            count: row.count,
        })
    }

    /// What was counted: the form to store.
    pub fn rows(&self) -> impl Iterator<Item = (&Path, &Row)> {
        self.rows.iter()
    }

    fn make_room(&mut self, path: &Path) {
        if self.rows.len() < PATHS_MAX || self.rows.contains_key(path) {
            return;
        }
        let oldest = self
            .rows
            .iter()
            .min_by_key(|(_, row)| row.last)
            .map(|(path, _)| path.clone());
        if let Some(oldest) = oldest {
            self.rows.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::failure::ErrorCode;
    use crate::time::Span;

    const LIMIT: u32 = 3;

    fn path(template: &str) -> Path {
        Path {
            account: Account::new("billing-api/ops").unwrap(),
            endpoint: Endpoint::new(template).unwrap(),
        }
    }

    fn failure(code: &str) -> Failure {
        let code = ErrorCode::normalised(code).unwrap();
        Failure {
            code,
            sentence: Some("no such model: m-old".to_owned()),
        }
    }

    fn at(seconds: usize) -> Moment {
        Moment::START + Span::from_secs(seconds as u64)
    }

    /// Feeds what a path answers ("ok", or the code of a failure) and says after
    /// which answer it stopped.
    fn check(answers: &[&str], stopped_at: Option<usize>) {
        let (mut breaker, jobs) = (Breaker::new(LIMIT), path("POST /jobs"));
        let mut seen = None;
        for (n, answer) in answers.iter().enumerate() {
            if *answer == "ok" {
                breaker.succeeded(&jobs);
            } else if breaker.failed(at(n), &jobs, &failure(answer)).is_some() {
                assert_eq!(seen.replace(n + 1), None, "a path stops once");
            }
        }
        assert_eq!(seen, stopped_at, "{answers:?}");
        assert_eq!(breaker.constraint(&jobs).is_some(), stopped_at.is_some());
    }

    #[test]
    fn the_third_identical_failure_in_a_row_stops_the_path() {
        check(&["a", "a"], None);
        check(&["a", "a", "a", "a"], Some(3));
        check(&["a", " A", "A "], Some(3));
    }

    #[test]
    fn a_success_or_another_failure_begins_a_new_row() {
        check(&["a", "a", "ok", "a", "a"], None);
        check(&["a", "a", "b", "a", "a"], None);
        check(&["a", "a", "b", "b", "b"], Some(5));
    }

    #[test]
    fn a_late_answer_does_not_open_a_stopped_path_but_a_success_does() {
        let (mut breaker, jobs) = (Breaker::new(1), path("POST /jobs"));
        breaker.failed(at(0), &jobs, &failure("a"));
        breaker.failed(at(1), &jobs, &failure("b"));
        assert_eq!(breaker.constraint(&jobs).unwrap().failure, failure("a"));
        breaker.succeeded(&jobs);
        assert_eq!(breaker.constraint(&jobs), None);
    }

    #[test]
    fn an_operator_opens_one_path_and_a_policy_change_all() {
        let (jobs, other) = (path("POST /jobs"), path("GET /jobs"));
        let mut breaker = Breaker::new(1);
        for path in [&jobs, &other] {
            assert!(breaker.failed(at(0), path, &failure("a")).is_some());
        }
        breaker.reset(&jobs);
        assert_eq!(breaker.constraint(&jobs), None);
        assert!(breaker.constraint(&other).is_some(), "only that path");
        breaker.reset_all(5);
        assert_eq!(breaker, Breaker::new(5));
    }

    #[test]
    fn the_same_template_of_another_account_is_another_path() {
        let (mut breaker, ops) = (Breaker::new(1), path("POST /jobs"));
        let dev = Path {
            account: Account::new("billing-api/dev").unwrap(),
            ..ops.clone()
        };
        breaker.failed(at(0), &ops, &failure("a"));
        assert_eq!(breaker.constraint(&dev), None);
    }

    #[test]
    fn the_agent_gets_the_error_as_a_constraint() {
        let (mut breaker, jobs) = (Breaker::new(2), path("POST /jobs"));
        breaker.failed(at(0), &jobs, &failure("invalid_model"));
        let constraint = breaker
            .failed(at(1), &jobs, &failure("invalid_model"))
            .unwrap();
        insta::assert_snapshot!(constraint.to_string().replace("; ", "\n; "), @r"
        POST /jobs failed 2 times in a row with `invalid_model`: no such model: m-old
        ; it will not be sent again for this task until an operator resets it or the policy changes
        ");
    }

    #[test]
    fn a_restart_forgets_no_failure() {
        let mut breaker = Breaker::new(LIMIT);
        for n in 0..5 {
            breaker.failed(at(n), &path(&format!("GET /{n}")), &failure("x"));
        }
        let rows: Vec<_> = breaker
            .rows()
            .map(|(p, r)| (p.clone(), r.clone()))
            .collect();
        assert_eq!(Breaker::restored(LIMIT, rows), breaker);
    }

    #[test]
    fn the_path_that_failed_longest_ago_makes_room() {
        let mut breaker = Breaker::new(1);
        for n in 0..=PATHS_MAX {
            breaker.failed(at(n), &path(&format!("GET /{n}")), &failure("x"));
        }
        assert_eq!(breaker.rows().count(), PATHS_MAX);
        assert_eq!(breaker.constraint(&path("GET /0")), None);
        assert!(breaker.constraint(&path("GET /1")).is_some());
        let more = breaker.rows().map(|(p, r)| (p.clone(), r.clone())).chain([(
            path("GET /new"),
            Row {
                failure: failure("x"),
                count: 1,
                last: at(0),
            },
        )]);
        let restored = Breaker::restored(1, more.collect::<Vec<_>>());
        assert_eq!(restored.rows().count(), PATHS_MAX);
        assert!(restored.constraint(&path("GET /new")).is_some());
    }

    #[test]
    fn a_breaker_of_zero_failures_is_off() {
        let (mut breaker, jobs) = (Breaker::new(0), path("POST /jobs"));
        assert_eq!(breaker.failed(at(0), &jobs, &failure("a")), None);
        assert_eq!(breaker.constraint(&jobs), None);
        assert_eq!(breaker.rows().count(), 0);
    }
}
