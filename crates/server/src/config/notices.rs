//! Keys that are accepted and don't act yet.
//!
//! Each is checked like any other key and then named, at start and by `policy
//! check`: an operator must never believe in a limit that nobody keeps. A feature
//! that lands removes its row here, and a test fails as long as a row names a key
//! that doesn't exist.

use super::mistake::Collector;
use super::place::Place;

/// One key, the values for which it doesn't act, and what happens instead.
pub struct NotActing {
    /// Path of the key; `*` is any name, `[]` any item.
    pub key: &'static str,
    /// Which values don't act.
    pub values: Values,
    /// What happens instead. Lower case, no full stop.
    pub instead: &'static str,
}

/// Values of a key.
pub enum Values {
    /// Whatever is written.
    All,
    /// Only these words.
    Words(&'static [&'static str]),
    /// Only these words, and only where a key beside it is absent or has this word.
    WordsBeside(&'static [&'static str], &'static str, &'static str),
    /// All but these words, which say that the feature is off.
    AllBut(&'static [&'static str]),
    /// Lists with more than this many items.
    LongerThan(usize),
}

/// The table.
pub const NOT_ACTING_YET: &[NotActing] = &[
    NotActing {
        key: "sse_keepalive",
        values: Values::AllBut(&["0s"]),
        instead: "no comment lines are sent while a stream's first event is awaited",
    },
    NotActing {
        key: "predict",
        values: Values::All,
        instead: "lower priorities are spaced evenly, without a forecast",
    },
    NotActing {
        key: "retention",
        values: Values::All,
        instead: "records are kept for ever",
    },
    NotActing {
        key: "providers.*.accounts.*.credentials",
        values: Values::LongerThan(1),
        instead: "only the first credential is used",
    },
    NotActing {
        key: "providers.*.endpoints.[].coalesce",
        values: Values::AllBut(&["0s"]),
        instead: "equal reads are separate calls",
    },
    NotActing {
        key: "agents.*.approve",
        values: Values::All,
        instead: "these calls are not held for approval; keep such credentials out of reach until they are",
    },
];

/// Adds a notice for every key of the file that doesn't act yet.
pub(crate) fn not_acting(root: Place<'_>, out: &mut Collector) {
    for row in NOT_ACTING_YET {
        let path: Vec<&str> = row.key.split('.').collect();
        visit(root, root, &path, row, &mut String::new(), out);
    }
}

fn visit(
    place: Place<'_>,
    parent: Place<'_>,
    path: &[&str],
    row: &NotActing,
    name: &mut String,
    out: &mut Collector,
) {
    let Some((step, rest)) = path.split_first() else {
        if row.values.cover(place, parent) {
            let shown = super::units::shown(name);
            let value = match (&row.values, place.text()) {
                (Values::Words(_) | Values::WordsBeside(..), Some(word)) => format!(": {word}"),
                _ => String::new(),
            };
            out.add(
                place.mark(),
                format!("`{shown}{value}` does not act yet: {}", row.instead),
            );
        }
        return;
    };
    let mut into = |child: Place<'_>, part: &str| {
        let before = name.len();
        if !(before == 0 || part.starts_with('[')) {
            name.push('.');
        }
        name.push_str(part);
        visit(child, place, rest, row, name, out);
        name.truncate(before);
    };
    match *step {
        "*" => {
            for key in place.keys() {
                into(place.key(key), key);
            }
        }
        "[]" => {
            for index in 0..place.items() {
                into(place.item(index), &format!("[{index}]"));
            }
        }
        key if place.has(key) => into(place.key(key), key),
        _ => {}
    }
}

impl Values {
    fn cover(&self, place: Place<'_>, parent: Place<'_>) -> bool {
        let is_one_of = |words: &[&str]| place.text().is_some_and(|text| words.contains(&text));
        match self {
            Values::All => true,
            Values::Words(words) => is_one_of(words),
            Values::WordsBeside(words, key, word) => {
                let beside = parent.key(key).text();
                is_one_of(words) && (!parent.has(key) || beside == Some(word))
            }
            Values::AllBut(words) => !is_one_of(words),
            Values::LongerThan(most) => place.items() > *most,
        }
    }
}
