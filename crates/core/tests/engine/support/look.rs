//! What tests look at in their world.

use rategov_core::engine::{Output, Refusal};
use rategov_core::event::{Event, Record};
use rategov_core::id::ActionId;
use rategov_core::record::{ActionRow, EscalationRow};
use rategov_core::time::Moment;
use rategov_core::word::State;

use super::provider::What;
use super::world::{BEGIN, Reply, World};

impl World {
    /// The only open question.
    pub(crate) fn question(&self) -> EscalationRow {
        let open: Vec<_> = self.engine.escalations().collect();
        assert_eq!(open.len(), 1, "{open:?}");
        open[0].clone()
    }

    pub(crate) fn row(&self, id: ActionId) -> &ActionRow {
        self.folded.action(id).unwrap()
    }

    pub(crate) fn state(&self, id: ActionId) -> State {
        self.row(id).state
    }

    /// What its caller got last.
    pub(crate) fn reply(&self, id: ActionId) -> Option<&Reply> {
        self.replies.get(&id)?.last()
    }

    pub(crate) fn refusal(&self, id: ActionId) -> &Refusal {
        match self.reply(id) {
            Some(Reply::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }

    /// What the governor itself said last about an action.
    pub(crate) fn told(&self, id: ActionId) -> &str {
        let last = self
            .outputs
            .iter()
            .rev()
            .find_map(|(_, output)| match output {
                Output::Finish { action, why, .. } if *action == id => Some(why.as_str()),
                _ => None,
            });
        last.unwrap_or_else(|| panic!("{id} was told nothing"))
    }

    /// The code that the governor's own last word to it has.
    pub(crate) fn code(&self, id: ActionId) -> &str {
        match self.reply(id) {
            Some(Reply::Own(_, code)) => code,
            other => panic!("{other:?}"),
        }
    }

    /// Sends of an action that reached the provider, look-ups apart.
    pub(crate) fn sends(&self, id: ActionId) -> Vec<Moment> {
        self.arrivals
            .iter()
            .filter(|arrival| arrival.action == id && matches!(arrival.what, What::Attempt(_)))
            .map(|arrival| arrival.at)
            .collect()
    }

    pub(crate) fn lookups(&self, id: ActionId) -> Vec<Moment> {
        self.arrivals
            .iter()
            .filter(|arrival| arrival.action == id && matches!(arrival.what, What::Lookup(_)))
            .map(|arrival| arrival.at)
            .collect()
    }

    /// When each of all attempts reached the provider, since the beginning, in milliseconds.
    pub(crate) fn arrived_ms(&self) -> Vec<u64> {
        let attempts = self
            .arrivals
            .iter()
            .filter(|arrival| matches!(arrival.what, What::Attempt(_)));
        attempts
            .map(|arrival| arrival.at.since(BEGIN).as_millis())
            .collect()
    }

    /// The words of the records about an action, in order.
    pub(crate) fn story(&self, id: ActionId) -> Vec<&'static str> {
        self.records
            .iter()
            .filter(|record| record.event.action() == Some(id))
            .map(|record| record.event.word())
            .collect()
    }

    pub(crate) fn words(&self) -> Vec<&'static str> {
        self.records
            .iter()
            .map(|record| record.event.word())
            .collect()
    }

    pub(crate) fn find(&self, wanted: impl Fn(&Event) -> bool) -> Option<&Record> {
        self.records.iter().find(|record| wanted(&record.event))
    }
}
