//! The verdicts of many trials as text.

use super::bounds::{ceiling, missed, percent, used_min};
use super::trial::Trial;
use super::{Verdict, judge};

/// One trial, judged.
#[derive(Clone, Debug)]
pub struct Row {
    /// The trial.
    pub trial: Trial,
    /// What it showed.
    pub verdict: Verdict,
    /// What it missed.
    pub missed: Vec<String>,
}

impl Row {
    /// Plays a trial.
    pub fn of(trial: &Trial) -> Row {
        let verdict = judge(trial);
        Row {
            trial: *trial,
            missed: missed(trial, &verdict),
            verdict,
        }
    }

    /// One line.
    pub fn line(&self) -> String {
        let v = &self.verdict;
        let regained = match self.trial.happening.is_event() {
            false => "-".to_owned(),
            true => percent(v.regained),
        };
        let word = if self.missed.is_empty() {
            "ok  "
        } else {
            "MISS"
        };
        format!(
            "{word} {:<90} used {:>7} of {:>7} (≥ {}) regained {:>7} refusals {:>5} ({:>3} late) events {:>3} late {:>3} asked {} away {} calls {} {}",
            self.trial.to_string(),
            percent(v.used),
            percent(ceiling(&self.trial)),
            percent(used_min(&self.trial)),
            regained,
            v.refusals,
            v.late_refusals,
            v.events,
            v.late_events,
            v.asked,
            v.turned_away,
            v.calls,
            self.missed.join("; "),
        )
    }
}
