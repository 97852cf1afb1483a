//! From a call that is read to its answer: hand it in, or join one that exists.

use std::sync::Arc;

use rategov_core::action::problem::Code;
use rategov_core::engine::{Earlier, Output, Submit};
use rategov_core::event::Requested;
use rategov_core::id::{Account, ActionId};
use rategov_store::Attachment;
use tokio::sync::oneshot;

use super::job::Job;
use super::problem::{Problem, RequestCode};
use super::respond::{Guard, Out};
use super::run::Runner;
use super::serve::{Gateway, Given};
use crate::driver::{Cell, Mail};
use crate::fail;

/// What is known of the key of a call.
pub(super) enum OfKey {
    /// It may be sent, within what is left after this.
    Free(Option<Earlier>),
    /// It was: this is what came of it.
    Answered(Out),
}

impl Gateway {
    /// Hands the call to its engine and waits for what comes of it.
    pub(super) async fn submit(
        &self,
        cell: Arc<Cell>,
        id: ActionId,
        job: Job,
        submit: Submit,
        payload: Option<Attachment>,
    ) -> Given<Out> {
        let driver = self.0.driver.clone();
        let Some(mut mailbox) = driver.register(&cell, id) else {
            return Err(Box::new(Problem::of_request(
                RequestCode::Internal,
                "an id came up twice",
            )));
        };
        let mut guard = Guard::new(driver.clone(), Arc::clone(&cell), id);
        driver.submit(&cell, submit, payload);
        fail::point(fail::SUBMITTED_BEFORE_RUNNER);
        // A repeat of an action that exists is told at once, before a runner is made.
        let mut first = Vec::new();
        while let Some(mail) = mailbox.try_next() {
            if let Mail::Output(Output::Join { existing, .. }) = &mail {
                guard.disarm();
                return self.join(*existing).await;
            }
            first.push(mail);
        }
        let (caller, answer) = oneshot::channel();
        let runner = Runner::new(driver, cell, mailbox, job, Some(caller));
        start(runner, first);
        let reply = answer.await.map_err(|_| {
            Problem::of_request(RequestCode::Internal, "the action ended without an answer")
        })?;
        Ok(Out::Reply(Box::new(reply), guard))
    }

    /// Waits for an action that exists, or takes its stored result.
    async fn join(&self, existing: ActionId) -> Given<Out> {
        let (caller, answer) = oneshot::channel();
        if self.0.driver.write_to(existing, Mail::Joiner(caller))
            && let Ok(reply) = answer.await
        {
            return Ok(Out::Joined(Box::new(reply)));
        }
        self.stored(existing).await
    }

    /// The result of an action that ended earlier.
    pub(crate) async fn stored(&self, action: ActionId) -> Given<Out> {
        crate::agents::stored_result(self, action).await
    }

    /// What is stored of a key that was used before this process started.
    ///
    /// # Errors
    /// `key_reused` if it was another call's.
    pub(super) async fn stored_of_key(
        &self,
        requested: &Requested,
        account: &Account,
    ) -> Given<OfKey> {
        let Some(key) = requested.key.clone() else {
            return Ok(OfKey::Free(None));
        };
        let cell = self.0.driver.cell_of(account);
        let look = |cell| {
            self.0
                .driver
                .look(cell, |engine, _| engine.action_of_key(&key))
        };
        if cell.as_deref().and_then(look).is_some() {
            // The engine knows it and decides under its lock.
            return Ok(OfKey::Free(None));
        }
        let earlier = crate::agents::action_by_key(self, account, &key).await?;
        let Some(row) = earlier else {
            return Ok(OfKey::Free(None));
        };
        if !requested.repeats(&row.requested) {
            let why = requested.why_reused(&row.requested);
            return Err(Box::new(Problem::of_action(Code::KeyReused).because(&why)));
        }
        match row.may_be_sent_anew() {
            true => Ok(OfKey::Free(Some(Earlier::of(&row)))),
            false => self.join(row.requested.action).await.map(OfKey::Answered),
        }
    }
}

/// Lets a runner go on by itself. It is boxed, and not made inside the call's own
/// future: the kilobytes of a whole life would be copied with every move of either.
fn start(runner: Runner, first: Vec<Mail>) {
    tokio::spawn(Box::pin(runner.run(first)));
}
