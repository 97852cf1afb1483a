//! What one field of an answer carries: a row of a preset.
//!
//! A field is a header field, or a value in a JSON body. Most rows describe a
//! part of a limit; those of one limit have the same dimension, reach and name
//! in common. The others say something about the answer itself.

use super::Reach;
use super::unit::Unit;
use crate::time::Span;

words! {
    /// What a field carries.
    What {
        /// Units per window. Also `100, 100;w=60`, the form of the first IETF drafts.
        Limit = "limit",
        /// Units left.
        Remaining = "remaining",
        /// Units used in this window.
        Used = "used",
        /// Until the window ends and new units come.
        Reset = "reset",
        /// Until *all* units are back, as a bucket refills; the first are back much earlier.
        Full = "full",
        /// Length of the window.
        Window = "window",
        /// Units used and units per window in one value: `32/40`.
        UsedOfLimit = "used_of_limit",
        /// Units that come back each second.
        Restore = "restore",
        /// Units that this call asks for.
        Asked = "asked",
        /// `RateLimit` of the IETF drafts, with its limits inside.
        State = "state",
        /// `RateLimit-Policy` of the IETF drafts.
        Policy = "policy",
        /// How long to stay away.
        Retry = "retry",
        /// The share of the limit that is used: `0.85`, `85%`.
        Share = "share",
        /// Whether a limit is nearly used up.
        NearLimit = "near_limit",
        /// What this call used up.
        Cost = "cost",
        /// Calls that are open now.
        InFlight = "in_flight",
        /// Whether this is the stored answer to an earlier call with the same key.
        Replayed = "replayed",
        /// The error's code.
        Code = "code",
        /// The error's wider type.
        Type = "type",
        /// A further code that rules can ask for.
        Reason = "reason",
        /// The error's sentence.
        Message = "message",
        /// A status that the body names.
        Status = "status",
        /// The status of one member of a batch.
        PartStatus = "part_status",
    }
}

impl What {
    /// Whether it is a part of a limit, so that a dimension is counted.
    pub const fn is_of_a_limit(self) -> bool {
        matches!(
            self,
            What::Limit
                | What::Remaining
                | What::Used
                | What::Reset
                | What::Full
                | What::Window
                | What::UsedOfLimit
                | What::Restore
                | What::Asked
                | What::State
                | What::Policy
        )
    }
}

/// Where a value stands in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the header field of this name, in lower case.
    Header(String),
    /// In header fields whose names begin like this and go on, in lower case.
    OpenHeader(String),
    /// In the JSON body. The way to it, `$.error.details[*].retryDelay`; whoever
    /// reads bodies knows the grammar.
    Body(String),
}

impl Place {
    /// A header by its name as a preset writes it; a last `*` leaves the rest open.
    pub fn header(name: &str) -> Place {
        match name.strip_suffix('*') {
            Some(prefix) => Place::OpenHeader(prefix.to_ascii_lowercase()),
            None => Place::Header(name.to_ascii_lowercase()),
        }
    }

    /// What is named when the value is malformed.
    pub fn label(&self) -> &str {
        match self {
            Place::Header(name) | Place::OpenHeader(name) | Place::Body(name) => name,
        }
    }
}

/// Whether a provider refuses for the sake of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It does.
    Enforced,
    /// It announces a limit that it does not hold anybody to.
    Announced,
}

/// What one field carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// Where the value stands.
    pub place: Place,
    /// What else must be so: other header fields, or keys beside the value in its
    /// body, and a piece that each of them holds, whatever the case.
    pub beside: Vec<(String, String)>,
    /// The value is that of this key in `key=value; key=value`.
    pub key: Option<String>,
    /// What is counted: `requests`, `tokens`, `input_tokens`, … Empty where
    /// [`What::is_of_a_limit`] is false.
    pub dimension: String,
    /// How the limit is called, a template; `None`: by its dimension.
    pub name: Option<String>,
    /// What the value says about it.
    pub what: What,
    /// How a time is written.
    pub unit: Unit,
    /// Whose limit it is.
    pub reach: Reach,
    /// The length of the window, where the provider documents it and sends none.
    pub window: Option<Span>,
    /// Whether the limit is enforced.
    pub standing: Standing,
}

impl FieldRule {
    /// Whether what must be so is so. `other` gives the value of a name.
    pub fn applies<'v>(&self, other: impl Fn(&str) -> Option<&'v str>) -> bool {
        let holds = |(name, piece): &(String, String)| {
            let (value, piece) = (other(name).unwrap_or_default(), piece.as_bytes());
            let mut parts = value.as_bytes().windows(piece.len().max(1));
            parts.any(|part| part.eq_ignore_ascii_case(piece))
        };
        self.beside.iter().all(holds)
    }

    /// Whether two rows of one place read the same from it, so that only the
    /// first of them that applies is meant.
    pub(crate) fn reads_what(&self, other: &FieldRule) -> bool {
        self.what == other.what && self.key == other.key
    }

    /// A row that says nothing but this; the rest is to be set.
    pub fn new(place: Place, what: What) -> FieldRule {
        FieldRule {
            place,
            beside: Vec::new(),
            key: None,
            dimension: String::new(),
            name: None,
            what,
            unit: Unit::Auto,
            reach: Reach::Account,
            window: None,
            standing: Standing::Enforced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_names_its_variant() {
        for what in What::ALL {
            assert_eq!(What::parse(what.word()), Some(*what));
        }
    }

    #[test]
    fn a_star_at_the_end_leaves_a_name_open() {
        assert_eq!(Place::header("X-A"), Place::Header("x-a".into()));
        assert_eq!(Place::header("X-A-*"), Place::OpenHeader("x-a-".into()));
    }
}
