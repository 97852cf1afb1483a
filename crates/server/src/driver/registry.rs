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
    generation: u32,
    receiver: mpsc::UnboundedReceiver<Box<Mail>>,
    /// Where it is listed; `None` once it is closed.
    registry: Option<Registry>,
}

impl Mailbox {
    /// The action it belongs to.
    pub fn action(&self) -> ActionId {
        self.action
    }

    /// Of which life of its engine it hears.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The next mail; `None` can't happen while the mailbox is open.
    pub async fn next(&mut self) -> Option<Mail> {
        self.receiver.recv().await.map(|mail| *mail)
    }

    /// A mail that is there already.
    pub fn try_next(&mut self) -> Option<Mail> {
        self.receiver.try_recv().ok().map(|mail| *mail)
    }

    /// Closes it, and gives the mail that nobody has read.
    pub(super) fn close(mut self) -> Vec<Mail> {
        if let Some(registry) = self.registry.take() {
            registry.close(self.action);
        }
        std::iter::from_fn(|| self.try_next()).collect()
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if let Some(registry) = &self.registry {
            registry.close(self.action);
        }
    }
}

/// All mailboxes. Bounded by the actions in hand: an engine says at most a few
/// things about an action between two reports of its runner. Mails travel boxed:
/// a channel makes room for 32 of them at once, and most actions get two.
#[derive(Clone, Default)]
pub(super) struct Registry(Arc<Mutex<BTreeMap<ActionId, Address>>>);

/// Where an action's mail goes.
struct Address {
    sender: mpsc::UnboundedSender<Box<Mail>>,
    /// The life of the engine whose words it takes: one that was rebuilt has
    /// nothing to say to a runner of the life before.
    generation: u32,
}

impl Registry {
    pub(super) fn open(&self, action: ActionId, generation: u32) -> Option<Mailbox> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut boxes = lock(&self.0);
        if boxes.contains_key(&action) {
            return None;
        }
        boxes.insert(action, Address { sender, generation });
        drop(boxes);
        Some(Mailbox {
            action,
            generation,
            receiver,
            registry: Some(self.clone()),
        })
    }

    /// How many actions have one.
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// Whether an action has a mailbox.
    pub(super) fn has(&self, action: ActionId) -> bool {
        lock(&self.0).contains_key(&action)
    }

    /// Hands mail over; `false` if nobody runs this action any more. The mail is
    /// dropped then, and with it whatever waits for an answer to it.
    pub(super) fn send(&self, action: ActionId, mail: Mail) -> bool {
        lock(&self.0)
            .get(&action)
            .is_some_and(|address| address.sender.send(Box::new(mail)).is_ok())
    }

    /// Delivers what a life of an engine says about one of its actions, and gives
    /// back what nobody takes: the engine has to hear of a grant that is carried
    /// out by nobody.
    pub(super) fn deliver(&self, generation: u32, output: Output) -> Option<Output> {
        let action = addressee(&output)?;
        let boxes = lock(&self.0);
        let address = boxes
            .get(&action)
            .filter(|address| address.generation == generation);
        let undelivered = match address {
            Some(address) => match address.sender.send(Box::new(Mail::Output(output))) {
                Ok(()) => return None,
                Err(mpsc::error::SendError(mail)) => match *mail {
                    Mail::Output(output) => output,
                    Mail::Joiner(_) => return None,
                },
            },
            None => output,
        };
        drop(boxes);
        if is_a_send(&undelivered) {
            tracing::warn!(%action, "a send was granted that nobody makes; it is withdrawn");
        } else {
            tracing::debug!(%action, "nobody waits for this action any more");
        }
        Some(undelivered)
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

/// Whether an instruction keeps a seat taken until somebody reports on it.
fn is_a_send(output: &Output) -> bool {
    matches!(output, Output::Grant(_) | Output::Lookup(_))
}
