//! Calls of one kind use about as much as each other; what a new kind uses is taken
//! from its relatives.
//!
//! | asked of | learnt from |
//! |---|---|
//! | agent, model and endpoint | what this agent asks of it |
//! | model and endpoint | what all agents do |
//! | model | whatever the endpoint |
//!
//! Each quantity is asked for on its own: the first level that has been told enough
//! of it answers. What a call used is told to all three.
//!
//! Bounds: [`KINDS_MAX`] levels of, as a rule, under 2 KiB each. Beyond them the one
//! that was told nothing for longest is forgotten, and its calls fall back to
//! their relatives. Cost: O(log n).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::figure::{Figure, Guess};
use crate::id::{Agent, Endpoint};

/// Levels that are kept.
pub const KINDS_MAX: usize = 1_024;

/// A kind of call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Whose.
    pub agent: Agent,
    /// Of which model, if it names one.
    pub model: Option<Arc<str>>,
    /// To what.
    pub endpoint: Endpoint,
}

/// Whom something was learnt from: what is `None` could be anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level {
    /// Whose calls.
    pub agent: Option<Agent>,
    /// To what.
    pub endpoint: Option<Endpoint>,
    /// Of which model.
    pub model: Option<Arc<str>>,
}

impl Kind {
    /// Its levels, the closest first.
    fn levels(&self) -> impl Iterator<Item = Level> {
        let own = Level {
            agent: Some(self.agent.clone()),
            endpoint: Some(self.endpoint.clone()),
            model: self.model.clone(),
        };
        let shared = Level {
            agent: None,
            ..own.clone()
        };
        let model = self.model.clone().map(|model| Level {
            agent: None,
            endpoint: None,
            model: Some(model),
        });
        [Some(own), Some(shared), model].into_iter().flatten()
    }
}

/// A quantity that is learnt of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Tokens in for 1,024 bytes of the prompt.
    Input,
    /// Tokens out for each choice.
    Output,
    /// Tokens out as a share of the declared most: [`SHARE_WHOLE`] is all of it.
    Share,
    /// Tokens out for 1,024 bytes of generated text.
    Text,
    /// Points.
    Points,
    /// Money.
    Spend,
}

/// The whole that [`Quantity::Share`] is a part of.
pub const SHARE_WHOLE: u64 = 1 << 20;

/// What was learnt of one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Habits {
    figures: BTreeMap<Quantity, Figure>,
    told: u64,
}

/// What was learnt of one level, to be saved: a plain row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Of whom.
    pub level: Level,
    /// What of.
    pub quantity: Quantity,
    /// Buckets of the distribution and their counts.
    pub held: Vec<(u8, u16)>,
    /// Sum of the amounts.
    pub sum: u64,
    /// Sum of their squares.
    pub squares: u128,
}

/// All kinds of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    levels: BTreeMap<Level, Habits>,
    /// The levels by when they were told last.
    by_told: BTreeMap<u64, Level>,
    clock: u64,
}

impl Kinds {
    /// What was saved; rows beyond the bound are left out.
    pub(super) fn of(rows: impl IntoIterator<Item = Row>) -> Kinds {
        let mut kinds = Kinds::default();
        for row in rows {
            if KINDS_MAX <= kinds.levels.len() && !kinds.levels.contains_key(&row.level) {
                continue;
            }
            let figure = Figure::of(super::sketch::Sketch::of(row.held), row.sum, row.squares);
            let habits = kinds.touch(row.level);
            habits.figures.insert(row.quantity, figure);
        }
        kinds
    }

    /// What is to be saved, the level first that was told nothing for longest.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        self.by_told.values().flat_map(|level| {
            let figures = self
                .levels
                .get(level)
                .into_iter()
                .flat_map(|it| &it.figures);
            figures.map(move |(quantity, figure)| {
                let (sketch, sum, squares) = figure.parts();
                Row {
                    level: level.clone(),
                    quantity: *quantity,
                    held: sketch.held().to_vec(),
                    sum,
                    squares,
                }
            })
        })
    }

    /// What the closest level that knows says of a quantity, and how widely it varies.
    pub(super) fn guess(&self, kind: &Kind, quantity: Quantity) -> Option<(Guess, u8)> {
        kind.levels().find_map(|level| {
            let figure = self.levels.get(&level)?.figures.get(&quantity)?;
            Some((figure.guess()?, figure.spread()))
        })
    }

    /// Tells all levels of a kind what a call used.
    pub(super) fn tell(&mut self, kind: &Kind, told: &[(Quantity, u64)]) {
        if told.is_empty() {
            return;
        }
        for level in kind.levels() {
            let habits = self.touch(level);
            for (quantity, amount) in told {
                habits.figures.entry(*quantity).or_default().add(*amount);
            }
        }
        while KINDS_MAX < self.levels.len() {
            let Some((_, level)) = self.by_told.pop_first() else {
                return;
            };
            self.levels.remove(&level);
        }
    }

    /// A level, which is the one told last from now on.
    fn touch(&mut self, level: Level) -> &mut Habits {
        self.clock += 1;
        let habits = self.levels.entry(level.clone()).or_default();
        self.by_told.remove(&habits.told);
        self.by_told.insert(self.clock, level);
        habits.told = self.clock;
        habits
    }
}
