//! What a call did cost, by what its answer reports.
//!
//! | rule of the provider | charged |
//! |---|---|
//! | `Actual`, `MostThenRefund` | what was used |
//! | `Most` | what was reserved on arrival, or what was used if that is more |
//!
//! # When something is not reported
//!
//! | missing | taken instead | marked |
//! |---|---|---|
//! | input | total − output, else the likely input | estimated |
//! | output, whole answer | total − input, else bytes of text × learnt ratio | estimated |
//! | output, part of an answer | the larger of what was reported and bytes × ratio | estimated |
//! | all of it | what was likely | estimated |
//!
//! Estimates are never learnt from: they would confirm themselves.

use super::charge::{CachedInput, Charge, Charging};
use super::kinds::{Kind, Quantity, SHARE_WHOLE};
use super::sketch::VALUE_MAX;
use super::usage::{Seen, Sizing, Usage};
use super::{Estimator, KIB, declared_most, most};
use crate::cost::{Cost, Dimension};

/// Whether a settlement rests on what the provider reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// All of it.
    Reported,
    /// Some of it is a guess.
    Estimated,
}

/// What a call cost in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The amounts.
    pub cost: Cost,
    /// Where they come from.
    pub basis: Basis,
}

/// Tokens in and out of a call, as they count for quotas.
struct Used {
    input: u64,
    output: u64,
    total: u64,
    basis: Basis,
}

impl Estimator {
    /// What a call that was sent cost, and learns from it.
    pub fn settle(
        &mut self,
        kind: &Kind,
        sizing: &Sizing,
        usage: &Usage,
        charge: &Charge,
    ) -> Settled {
        let settled = self.settled(kind, sizing, usage, charge);
        self.learn(kind, sizing, usage, charge);
        settled
    }

    /// What a call costs by what is known of it until now, for a call that goes on.
    pub fn settled(&self, kind: &Kind, sizing: &Sizing, usage: &Usage, charge: &Charge) -> Settled {
        let used = self.used(kind, sizing, usage, charge);
        let reserved = self.estimate(kind, sizing, charge);
        let most = most(sizing, charge, self.output(kind, sizing));
        let kept = |rule, output: u64| match rule {
            Charging::Actual | Charging::MostThenRefund => output,
            Charging::Most => output.max(most),
        };
        let tokens = match (sizing.tokens, charge.tokens) {
            (Some(declared), _) => declared.min(VALUE_MAX),
            (None, Charging::Actual | Charging::MostThenRefund) => used.total,
            (None, Charging::Most) => used.input + kept(charge.tokens, used.output),
        };
        let of_unit = |dimension, told: Option<u64>, rule| {
            let reserved = reserved.cost.of(dimension);
            let told = told.unwrap_or(reserved).min(VALUE_MAX);
            match rule {
                Charging::Actual | Charging::MostThenRefund => told,
                Charging::Most => told.max(reserved),
            }
        };
        let points = of_unit(Dimension::Points, usage.points, charge.points);
        let spend = of_unit(Dimension::Spend, usage.spend, charge.spend);
        let cost = Cost::ONE
            .with(Dimension::Requests, sizing.requests.max(1))
            .with(Dimension::Tokens, tokens)
            .with(Dimension::InputTokens, used.input)
            .with(
                Dimension::OutputTokens,
                kept(charge.output_tokens, used.output),
            )
            .with(Dimension::Points, points)
            .with(Dimension::Spend, spend);
        Settled {
            cost,
            basis: used.basis,
        }
    }

    fn used(&self, kind: &Kind, sizing: &Sizing, usage: &Usage, charge: &Charge) -> Used {
        let total = usage.total.map(|total| total.min(VALUE_MAX));
        let told_input = usage.told_input();
        let cached = match charge.cached_input {
            CachedInput::Counted => 0,
            CachedInput::Excluded => usage.cached_input.unwrap_or(0),
        };
        let input = match told_input {
            Some(input) => input.min(VALUE_MAX).saturating_sub(cached),
            None => self.input(kind, sizing).likely,
        };
        let told_output = usage
            .told_output()
            .or_else(|| Some(total?.saturating_sub(input)));
        let by_bytes = (0 < usage.output_bytes).then(|| self.by_text(kind, usage.output_bytes));
        let output = match (usage.seen, told_output, by_bytes) {
            (Seen::Whole, Some(told), _) => told,
            (Seen::Part, told, bytes) if told.max(bytes).is_some_and(|it| 0 < it) => {
                told.max(bytes).unwrap_or(0)
            }
            (Seen::Whole, None, Some(bytes)) => bytes,
            (Seen::Whole, None, None) | (Seen::Part, ..) => self.output(kind, sizing).likely,
        };
        let output = output.min(VALUE_MAX);
        let is_final = usage.seen == Seen::Whole && told_input.is_some() && told_output.is_some();
        let total = match (usage.seen, total) {
            (Seen::Whole, Some(total)) => total.saturating_sub(cached),
            (Seen::Whole | Seen::Part, _) => input + output,
        };
        let basis = match is_final {
            true => Basis::Reported,
            false => Basis::Estimated,
        };
        Used {
            input,
            output,
            total,
            basis,
        }
    }

    /// Tokens that a text of this length is.
    fn by_text(&self, kind: &Kind, bytes: u64) -> u64 {
        let bytes = bytes.min(VALUE_MAX);
        match self.kinds.guess(kind, Quantity::Text) {
            Some((guess, _)) => guess.scaled(bytes, KIB).mean.max(1),
            None => bytes.div_ceil(4),
        }
    }

    fn learn(&mut self, kind: &Kind, sizing: &Sizing, usage: &Usage, charge: &Charge) {
        let mut told = Vec::with_capacity(6);
        let cached = match charge.cached_input {
            CachedInput::Counted => 0,
            CachedInput::Excluded => usage.cached_input.unwrap_or(0),
        };
        if let Some(input) = usage.input
            && 0 < sizing.prompt_bytes
            && sizing.input_counted.is_none()
        {
            let counts = input.min(VALUE_MAX).saturating_sub(cached);
            let per_kib = counts.saturating_mul(KIB).div_ceil(sizing.prompt_bytes);
            told.push((Quantity::Input, per_kib));
        }
        if let Some(output) = usage.told_output()
            && usage.seen == Seen::Whole
        {
            let output = output.min(VALUE_MAX);
            told.push((Quantity::Output, output.div_ceil(sizing.choices.max(1))));
            if let Some(most) = declared_most(sizing) {
                let share = output.saturating_mul(SHARE_WHOLE).div_ceil(most.max(1));
                told.push((Quantity::Share, share));
            }
            if 0 < usage.output_bytes {
                let per_kib = output.saturating_mul(KIB).div_ceil(usage.output_bytes);
                told.push((Quantity::Text, per_kib));
            }
        }
        told.extend(usage.points.map(|points| (Quantity::Points, points)));
        told.extend(usage.spend.map(|spend| (Quantity::Spend, spend)));
        self.kinds.tell(kind, &told);
    }
}
