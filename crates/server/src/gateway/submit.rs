//! From a call that is read to its answer: hand it in, or join one that exists.

use std::sync::Arc;

use rategov_core::action::problem::Code;
use rategov_core::engine::{Output, Submit};
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
        tokio::spawn(runner.run_from(first));
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

    /// A key that was used before this process started: its result, or a refusal.
    pub(super) async fn earlier_result(
        &self,
        requested: &Requested,
        account: &Account,
    ) -> Given<Option<Out>> {
        let Some(key) = requested.key.clone() else {
            return Ok(None);
        };
        let cell = self.0.driver.cell_of(account);
        let look = |cell| {
            self.0
                .driver
                .look(cell, |engine, _| engine.action_of_key(&key))
        };
        if cell.as_deref().and_then(look).is_some() {
            // The engine knows it and decides under its lock.
            return Ok(None);
        }
        let earlier = crate::agents::action_by_key(self, account, &key).await?;
        let Some(row) = earlier else { return Ok(None) };
        if !requested.repeats(&row.requested) {
            let why = requested.why_reused(&row.requested);
            return Err(Box::new(Problem::of_action(Code::KeyReused).because(&why)));
        }
        match row.may_be_sent_anew() {
            true => Ok(None),
            false => self.join(row.requested.action).await.map(Some),
        }
    }
}
