//! Where the outputs about an action arrive: its runner's mailbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rategov_core::engine::Output;
use rategov_core::id::ActionId;
use tokio::sync::{mpsc, oneshot};

use super::lock;
use crate::gateway::reply::Reply;

/// What arrives in a mailbox.
#[derive(Debug)]
pub enum Mail {
    /// The engine says something about the action.
    Output(Output),
    /// Another caller wants the action's answer too.
    Joiner(oneshot::Sender<Reply>),
}

/// The receiving end. Dropping it closes the mailbox.
pub struct Mailbox {
    action: ActionId,
    receiver: mpsc::UnboundedReceiver<Box<Mail>>,
    registry: Registry,
}

impl Mailbox {
    /// The action it belongs to.
    pub fn action(&self) -> ActionId {
        self.action
    }

    /// The next mail; `None` can't happen while the mailbox is open.
    pub async fn next(&mut self) -> Option<Mail> {
        self.receiver.recv().await.map(|mail| *mail)
    }

    /// A mail that is there already.
    pub fn try_next(&mut self) -> Option<Mail> {
        self.receiver.try_recv().ok().map(|mail| *mail)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.registry.close(self.action);
    }
}

/// All mailboxes. Bounded by the actions in hand: an engine says at most a few
/// things about an action between two reports of its runner. Mails travel boxed:
/// a channel makes room for 32 of them at once, and most actions get two.
#[derive(Clone, Default)]
pub(super) struct Registry(Arc<Mutex<BTreeMap<ActionId, mpsc::UnboundedSender<Box<Mail>>>>>);

impl Registry {
    pub(super) fn open(&self, action: ActionId) -> Option<Mailbox> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut boxes = lock(&self.0);
        if boxes.contains_key(&action) {
            return None;
        }
        boxes.insert(action, sender);
        drop(boxes);
        Some(Mailbox {
            action,
            receiver,
            registry: self.clone(),
        })
    }

    /// Hands mail over; `false` if nobody runs this action any more. The mail is
    /// dropped then, and with it whatever waits for an answer to it.
    pub(super) fn send(&self, action: ActionId, mail: Mail) -> bool {
        lock(&self.0)
            .get(&action)
            .is_some_and(|sender| sender.send(Box::new(mail)).is_ok())
    }

    pub(super) fn deliver(&self, output: Output) {
        let Some(action) = addressee(&output) else {
            return;
        };
        if !self.send(action, Mail::Output(output)) {
            tracing::debug!(%action, "nobody waits for this action any more");
        }
    }

    fn close(&self, action: ActionId) {
        lock(&self.0).remove(&action);
    }
}

fn addressee(output: &Output) -> Option<ActionId> {
    match output {
        Output::Parked(parked) => Some(parked.action),
        Output::Grant(grant) => Some(grant.action),
        Output::Lookup(grant) => Some(grant.action),
        Output::Refuse { action, .. }
        | Output::Join { action, .. }
        | Output::Deliver { action, .. }
        | Output::Continue { action, .. }
        | Output::Finish { action, .. }
        | Output::Abort { action } => Some(*action),
        Output::Record(_)
        | Output::ChargeTask { .. }
        | Output::OpenPath { .. }
        | Output::Child { .. }
        | Output::Asked { .. }
        | Output::Changed(_)
        | Output::Faulted => None,
    }
}

/// Keeps a mailbox open for ever: its action has no runner, and must get none.
pub async fn hold_open(mailbox: Mailbox) {
    let _mailbox = mailbox;
    std::future::pending::<()>().await;
}
