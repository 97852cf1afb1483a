//! How a report is covered: what is set up besides, what is judged by hand, and
//! what is left for later, each with its reason.

use crate::judge::{self, Verdict};
use crate::played::{Play, Played};
use crate::report::Report;

/// Whether a report is covered.
pub(crate) enum Coverage {
    /// It is played and judged.
    Covered(Cover),
    /// It can't be yet.
    NotYet(&'static str),
}

/// Judges what was seen.
pub(crate) type Judge = fn(&Played) -> Verdict;

/// Plays a changed scenario of its own.
pub(crate) type Variant = fn(&Report) -> Verdict;

/// A text of a report, and what the specification makes of it.
pub(crate) struct Instead {
    /// As the report has it.
    pub(crate) text: &'static str,
    /// As it is judged.
    pub(crate) here: &'static str,
    /// Why.
    pub(crate) because: &'static str,
    judge: Option<Judge>,
}

/// How it is played and judged.
pub(crate) struct Cover {
    prepare: fn(&mut Play),
    hand: Vec<(&'static str, Judge)>,
    instead: Vec<Instead>,
    apart: Vec<(&'static str, &'static str)>,
    variants: Vec<(&'static str, Variant)>,
    alone: Option<fn(&Report) -> Vec<String>>,
}

/// It is played as it is written, by the base policy and its own.
pub(crate) fn covered() -> Cover {
    Cover {
        prepare: |_| {},
        hand: Vec::new(),
        instead: Vec::new(),
        apart: Vec::new(),
        variants: Vec::new(),
        alone: None,
    }
}

impl Cover {
    /// Sets something up besides.
    pub(crate) fn with(mut self, prepare: fn(&mut Play)) -> Cover {
        self.prepare = prepare;
        self
    }

    /// A text of the report, or a variant's own, that this judges.
    pub(crate) fn judge(mut self, text: &'static str, judge: Judge) -> Cover {
        self.hand.push((text, judge));
        self
    }

    /// A text that another stands in for, because the specification says otherwise.
    pub(crate) fn instead(
        mut self,
        text: &'static str,
        other: &'static str,
        because: &'static str,
    ) -> Cover {
        self.instead.push(Instead {
            text,
            here: other,
            because,
            judge: None,
        });
        self
    }

    /// The same, judged by hand.
    pub(crate) fn instead_by(
        mut self,
        text: &'static str,
        here: &'static str,
        because: &'static str,
        judge: Judge,
    ) -> Cover {
        self.instead.push(Instead {
            text,
            here,
            because,
            judge: Some(judge),
        });
        self
    }

    /// A text that can't be judged yet.
    pub(crate) fn later(mut self, text: &'static str, because: &'static str) -> Cover {
        self.apart.push((text, because));
        self
    }

    /// A variant of the scenario, played on its own.
    pub(crate) fn variant(mut self, text: &'static str, play: Variant) -> Cover {
        self.variants.push((text, play));
        self
    }

    /// It has a player of its own.
    pub(crate) fn alone(mut self, play: fn(&Report) -> Vec<String>) -> Cover {
        self.alone = Some(play);
        self
    }

    /// Parts of it that can't be judged yet, with the reasons.
    pub(crate) fn left(&self) -> &[(&'static str, &'static str)] {
        &self.apart
    }

    /// Parts that are judged by the specification's words, with the reasons.
    pub(crate) fn reworded(&self) -> &[Instead] {
        &self.instead
    }

    /// Plays the report and its variants, and gives what is wrong.
    pub(crate) fn check(&self, report: &Report) -> Vec<String> {
        let mut wrong = self.unknown_texts(report);
        match self.alone {
            Some(play) => wrong.extend(play(report)),
            None => {
                let mut play = Play::of(report);
                (self.prepare)(&mut play);
                let played = play.run();
                wrong.extend(self.judged(report, &played));
            }
        }
        for text in &report.scenario.variants {
            match self.variants.iter().find(|(own, _)| own == text) {
                Some((_, play)) => {
                    let verdict = play(report).err();
                    wrong.extend(verdict.map(|cause| format!("variant {text:?}: {cause}")));
                }
                None if self.apart.iter().any(|(own, _)| own == text) => {}
                None => wrong.push(format!("variant {text:?}: nobody plays this")),
            }
        }
        // Texts of `also` that are variants of their own.
        for (text, play) in &self.variants {
            if !report.scenario.variants.iter().any(|own| own == text) {
                let verdict = play(report).err();
                wrong.extend(verdict.map(|cause| format!("{text:?}: {cause}")));
            }
        }
        wrong
    }

    fn judged(&self, report: &Report, played: &Played) -> Vec<String> {
        let covers = |text: &str| {
            let text = text.trim_matches('"');
            self.hand.iter().any(|(own, _)| *own == text)
                || self.instead.iter().any(|it| it.text == text)
                || self.apart.iter().any(|(own, _)| *own == text)
                || self.variants.iter().any(|(own, _)| *own == text)
        };
        let mut wrong = judge::all(report, played, &covers);
        for (text, judge) in &self.hand {
            let verdict = judge(played).err();
            wrong.extend(verdict.map(|cause| format!("{text:?}: {cause}")));
        }
        for Instead {
            text,
            here: other,
            judge,
            ..
        } in &self.instead
        {
            let verdict = judge
                .map(|judge| judge(played))
                .or_else(|| judge::calls(&(*other).into(), played))
                .or_else(|| judge::result(other, played))
                .or_else(|| judge::text(other, played))
                .unwrap_or_else(|| Err("nobody judges what stands in for it".to_owned()));
            wrong.extend(
                verdict
                    .err()
                    .map(|cause| format!("{text:?}, here {other:?}: {cause}")),
            );
        }
        if !wrong.is_empty() {
            wrong.push(story(played));
        }
        wrong
    }

    /// A text of the table that the report does not have is a mistake of the table.
    fn unknown_texts(&self, report: &Report) -> Vec<String> {
        let expected = &report.expected;
        let count = expected.upstream_calls.to_string();
        let known = |text: &str| {
            count.trim_matches('"') == text
                || expected.result == text
                || [&expected.timing, &expected.also, &report.scenario.variants]
                    .into_iter()
                    .any(|list| list.iter().any(|own| own == text))
        };
        let texts = self.hand.iter().map(|(text, _)| *text);
        let texts = texts.chain(self.instead.iter().map(|it| it.text));
        let texts = texts.chain(self.apart.iter().map(|(text, _)| *text));
        let texts = texts.chain(self.variants.iter().map(|(text, _)| *text));
        texts
            .filter(|text| !known(text))
            .map(|text| format!("{text:?} stands in the table and not in the report"))
            .collect()
    }
}

/// What happened, for whoever must find out why a judgement failed.
pub(crate) fn story(played: &Played) -> String {
    let mut lines = vec!["what happened:".to_owned()];
    for (at, arrival) in played.arrivals.iter().take(40) {
        let ended = arrival
            .ended
            .map(|end| end.at.since(arrival.at).as_millis());
        lines.push(format!(
            "  {at:>8.0} ms  {} {} -> {:?} {:?} after {ended:?} ms",
            arrival.method, arrival.target, arrival.status, arrival.verdict
        ));
    }
    for seen in played.seen.iter().take(30) {
        lines.push(format!("  {}", seen.shown()));
    }
    for (event, text) in played.journal.iter().rev().take(60) {
        lines.push(format!("  {event}: {text}"));
    }
    lines.join("\n")
}
