//! Which places of a request and of an answer tell what a call costs.
//!
//! All of it is data of a preset: the rows `sizing` and `usage`, explained in
//! `providers/generic.yaml`. Here they are checked and put in order.
//!
//! | word of `usage` | counts |
//! |---|---|
//! | `input` | tokens in, those from a cache included |
//! | `cached_input` | of these, tokens from a cache |
//! | `output` | tokens out, those that were only thought included |
//! | `total` | both |
//! | `points`, `spend` | the provider's own units, money |
//! | `text` | generated text, by its length |
//!
//! The places of one row, and the rows of one word, are alternatives: the first that
//! is there and not zero counts. So names of several dialects can stand side by side,
//! and an answer that has both of two names isn't counted twice. Within one place
//! the members named in `plus` are added to it: where `input_tokens` leaves out what
//! came from a cache, `plus: [cache_read_input_tokens]` puts it back.
//!
//! Streams repeat themselves: the largest of what one place said counts, as
//! counts that are told again are cumulative wherever they are documented.

use super::amount::Amount;
use super::places::{Leaf, Place, Places};
use super::scan::Listener;

/// Most rows of one kind.
pub const ROWS_MAX: usize = 64;

/// What a request says of its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The most output for each choice.
    MostOutput,
    /// How many choices.
    Choices,
    /// Tokens of the prompt, counted by the caller.
    InputTokens,
    /// The provider's own units, at most.
    Points,
}

/// What an answer says of its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Tokens in.
    Input,
    /// Of these, from a cache.
    CachedInput,
    /// Tokens out.
    Output,
    /// Tokens in and out.
    Total,
    /// The provider's own units.
    Points,
    /// Money.
    Spend,
}

/// One row, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<W> {
    /// What stands there; `None` for text.
    pub what: Option<W>,
    /// Where, in the order in which they are believed.
    pub places: Vec<Place>,
    /// Members beside each, to be added.
    pub plus: Vec<String>,
}

/// Rows, ready to be read by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules<W> {
    places: Places,
    /// Of each alternative what it is, and how many numbers are added up.
    slots: Vec<(W, u16)>,
}

impl<W> Default for Rules<W> {
    fn default() -> Rules<W> {
        Rules {
            places: Places::default(),
            slots: Vec::new(),
        }
    }
}

/// How a provider's calls are metered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterRules {
    /// Of requests.
    pub sizing: Rules<Asked>,
    /// Of answers.
    pub usage: Rules<Told>,
    /// Whether a header, or a field of limits, tells the points of a call.
    pub points_beside: bool,
}

impl MeterRules {
    /// Whether answers say what a call cost in the provider's own units.
    pub fn tell_points(&self) -> bool {
        self.points_beside || self.usage.know(Told::Points)
    }
}

impl<W: Copy + PartialEq> Rules<W> {
    /// Whether any place of one thing is known.
    fn know(&self, what: W) -> bool {
        self.slots.iter().any(|(of, _)| *of == what)
    }

    /// Puts rows in order. Rows beyond [`ROWS_MAX`] are left out.
    pub fn new(rows: &[Row<W>]) -> Rules<W> {
        let mut rules = Rules::default();
        let mut next: u16 = 0;
        for row in rows.iter().take(ROWS_MAX) {
            for place in row.places.iter().take(super::places::STEPS_MAX) {
                let Some(what) = row.what else {
                    rules.places.add(place, Leaf::Text);
                    continue;
                };
                let beside = row.plus.iter().take(4).filter_map(|it| place.beside(it));
                let all: Vec<Place> = std::iter::once(place.clone()).chain(beside).collect();
                rules.slots.push((what, all.len() as u16));
                for place in &all {
                    rules.places.add(place, Leaf::Number(next));
                    next += 1;
                }
            }
        }
        rules
    }

    /// Where to look.
    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// What was found of one thing: of the alternatives the first that is not zero,
    /// else the first that is there.
    pub(super) fn find(&self, found: &Found, what: W) -> Option<Amount> {
        let mut from = 0;
        let mut zero = None;
        for (of, parts) in &self.slots {
            let here = from..from + usize::from(*parts);
            from = here.end;
            if *of != what {
                continue;
            }
            let parts = here.filter_map(|id| *found.numbers.get(id)?);
            let sum = parts.reduce(Amount::and);
            match sum {
                Some(amount) if amount != Amount::default() => return Some(amount),
                Some(amount) => zero = zero.or(Some(amount)),
                None => {}
            }
        }
        zero
    }
}

/// What was found in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    numbers: Vec<Option<Amount>>,
    /// Bytes of text at its places.
    pub(super) text: u64,
}

impl Listener for Found {
    fn number(&mut self, id: u16, amount: Amount) {
        let id = usize::from(id);
        if self.numbers.len() <= id {
            self.numbers.resize(id + 1, None);
        }
        self.numbers[id] = self.numbers[id].max(Some(amount));
    }

    fn text(&mut self, bytes: u64) {
        self.text += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::Scan;
    use super::*;

    fn row(what: Told, places: &[&str], plus: &[&str]) -> Row<Told> {
        Row {
            what: Some(what),
            places: places.iter().map(|it| Place::parse(it).unwrap()).collect(),
            plus: plus.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    fn input(text: &str) -> Option<u64> {
        let rules = Rules::new(&[
            row(Told::Input, &["$.usage.prompt", "$.late.prompt"], &[]),
            row(Told::Output, &["$.usage.out"], &[]),
            row(Told::Input, &["$.usage.input"], &["cached", "written"]),
        ]);
        let (mut scan, mut found) = (Scan::default(), Found::default());
        scan.feed(rules.places(), text.as_bytes(), &mut found);
        rules.find(&found, Told::Input).map(Amount::whole)
    }

    #[test]
    fn alternatives_are_believed_in_their_order_and_parts_are_added() {
        for (text, expected) in [
            (r#"{"usage":{"prompt":7,"input":9}}"#, Some(7)),
            (r#"{"usage":{"input":9,"prompt":0}}"#, Some(9)),
            (
                r#"{"usage":{"input":9,"cached":100,"written":1}}"#,
                Some(110),
            ),
            (r#"{"usage":{"cached":100}}"#, Some(100)),
            (r#"{"usage":{"prompt":0}}"#, Some(0)),
            (r#"{"usage":{"out":3}}"#, None),
            // Told again in a stream: the largest, and never less than before.
            (
                "{\"usage\":{\"prompt\":3}}\n{\"usage\":{\"prompt\":8}}\n{\"usage\":{\"prompt\":0}}",
                Some(8),
            ),
        ] {
            assert_eq!(input(text), expected, "{text}");
        }
    }
}
