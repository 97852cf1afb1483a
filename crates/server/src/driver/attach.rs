//! What is stored beside a record: the payload of a call, and its result.
//!
//! It is handed in before the engine is told, and picked up when the record it
//! belongs to leaves: the payload with `action_requested`, the result with
//! `terminal`. So both commit in the transaction of their record.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rategov_core::event::Event;
use rategov_core::id::ActionId;
use rategov_store::Attachment;

use super::lock;

/// Attachments on their way. Each lives for one call of an engine.
#[derive(Default)]
pub struct Attachments(Mutex<BTreeMap<ActionId, Attachment>>);

impl Attachments {
    pub(super) fn put(&self, action: ActionId, attachment: Attachment) {
        lock(&self.0).insert(action, attachment);
    }

    pub(super) fn forget(&self, action: ActionId) {
        lock(&self.0).remove(&action);
    }

    /// What belongs to this record.
    pub(super) fn for_record(&self, event: &Event) -> Vec<Attachment> {
        let fits = |attachment: &Attachment| {
            matches!(
                (event, attachment),
                (Event::ActionRequested(_), Attachment::Payload(_))
                    | (Event::Terminal { .. }, Attachment::Result(_))
            )
        };
        let Some(action) = event.action() else {
            return Vec::new();
        };
        let mut waiting = lock(&self.0);
        match waiting.get(&action) {
            Some(attachment) if fits(attachment) => waiting.remove(&action).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}
