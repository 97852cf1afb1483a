//! Steps with a name and a time: what runs, how long it took, where it stopped.
//!
//! The first failure ends the run: what comes after it would be noise. Whatever
//! happens, a summary is printed at the end, so that the last lines of a long log
//! say what to look for.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It did what it should.
    Done,
    /// It did not apply, and why.
    Skipped(String),
}

/// One finished step.
#[derive(Debug)]
struct Line {
    name: String,
    end: Result<End, String>,
    took: Duration,
}

/// The steps of a run, in order.
#[derive(Debug, Default)]
pub struct Steps {
    lines: Vec<Line>,
}

impl Steps {
    /// A run without steps.
    pub fn new() -> Steps {
        Steps::default()
    }

    /// Runs one step. An error is remembered for the summary and handed on.
    pub fn step(
        &mut self,
        name: &str,
        work: impl FnOnce() -> anyhow::Result<End>,
    ) -> anyhow::Result<()> {
        eprintln!("\n==> {name}");
        let begun = Instant::now();
        let result = work();
        let took = begun.elapsed();
        let end = match &result {
            Ok(end) => Ok(end.clone()),
            Err(cause) => Err(first_line(&format!("{cause:#}"))),
        };
        let line = Line {
            name: name.to_owned(),
            end,
            took,
        };
        eprintln!("<== {}", line.shown());
        self.lines.push(line);
        result
            .map(drop)
            .map_err(|cause| cause.context(format!("step `{name}` failed")))
    }

    /// Every step with its time, one a line, and the sum.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let mut sum = Duration::ZERO;
        for line in &self.lines {
            sum += line.took;
            let _ = writeln!(text, "  {}", line.shown());
        }
        let failed = self.lines.iter().any(|line| line.end.is_err());
        let verdict = if failed { "FAILED" } else { "all passed" };
        let _ = write!(text, "  {verdict} after {}", seconds(sum));
        text
    }
}

impl Line {
    fn shown(&self) -> String {
        let (mark, note) = match &self.end {
            Ok(End::Done) => ("ok", String::new()),
            Ok(End::Skipped(why)) => ("skipped", format!("  ({why})")),
            Err(cause) => ("FAILED", format!("  ({cause})")),
        };
        format!("{mark:<8}{:<28}{:>9}{note}", self.name, seconds(self.took))
    }
}

fn seconds(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_failing_step_is_handed_on_and_named_in_the_summary() {
        let mut steps = Steps::new();
        steps.step("first", || Ok(End::Done)).unwrap();
        steps
            .step("second", || Ok(End::Skipped("nothing to do".to_owned())))
            .unwrap();
        let error = steps
            .step("third", || bail!("the reason\nand more"))
            .unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "step `third` failed: the reason\nand more"
        );
        let summary = steps.summary();
        assert!(summary.contains("ok      first"), "{summary}");
        assert!(summary.contains("(nothing to do)"), "{summary}");
        assert!(summary.contains("FAILED  third"), "{summary}");
        assert!(
            summary.contains("(the reason)") && !summary.contains("and more"),
            "{summary}"
        );
        assert!(summary.contains("  FAILED after"), "{summary}");
    }

    #[test]
    fn times_are_shown_in_tenths_of_a_second() {
        assert_eq!(seconds(Duration::from_millis(0)), "0.0 s");
        assert_eq!(seconds(Duration::from_millis(61_999)), "61.9 s");
    }
}
