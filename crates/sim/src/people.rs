//! The people of a world: they look at a question after a while, look at the
//! provider, and choose something that is offered. Some never answer; some
//! answer twice.

use rategov_core::engine::Decision;
use rategov_core::id::Operator;
use rategov_core::record::EscalationRow;
use rategov_core::time::Span;
use rategov_core::word::Choice;

use crate::world::random::Random;

/// What a person sees at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It happened.
    Happened,
    /// It did not, and no copy can be on its way any more.
    DidNot,
    /// A copy may still arrive.
    TooEarly,
}

/// After how long a question is answered; `None` if never.
pub fn answers_after(random: &mut Random) -> Option<Span> {
    let (ever, span) = (random.happens(900), random.millis(500, 60_000));
    ever.then_some(span)
}

/// What a person who sees this chooses; `None` to look again later.
pub fn choose(row: &EscalationRow, sight: Sight, random: &mut Random) -> Option<Decision> {
    let honest = |choice: &&Choice| match choice {
        Choice::ItHappened => sight == Sight::Happened,
        Choice::ItDidNot => sight == Sight::DidNot,
        _ => true,
    };
    let choices: Vec<Choice> = row.choices.iter().filter(honest).copied().collect();
    if choices.is_empty() || (sight == Sight::TooEarly && random.happens(500)) {
        return None;
    }
    let choice = *random.pick(&choices);
    Some(Decision {
        choice,
        by: Operator::new("ana").expect("short printable ASCII"),
        note: random.happens(300).then(|| "looked at it".to_owned()),
        version: random.happens(500).then_some(row.version),
        typed: (choice == Choice::SendNew).then(|| "this may happen twice".to_owned()),
    })
}
