//! What agents and people do to the process.

use std::sync::Arc;

use rategov_core::action::breaker::Path;
use rategov_core::engine::{Earlier, Marker, Submit};
use rategov_core::event::{CancelledBy, Requested};
use rategov_core::id::{
    ActionId, Agent, Credential, Endpoint, EscalationId, Fingerprint, Operator, Provider, Task,
};
use rategov_core::record::ActionRow;
use rategov_core::tasks::{TaskKey, task_key};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Choice, Mode, State};

use super::node::{account_of, scope_of};
use super::order::{self, Order};
use super::{Due, World};
use crate::agents::{Operation, Reaction};
use crate::check::Broken;
use crate::people::{self, Sight};

/// How long a person waits before looking again.
const LOOK_AGAIN: Span = Span::from_secs(5);
/// How often an operator comes by in calm times, and for how long.
const OPERATOR_COMES_EVERY: Span = Span::from_secs(600);
const OPERATOR_STAYS: Span = Span::from_secs(2 * 3_600);
/// When a copy of what was sent can't be on its way any more.
const NO_COPY_AFTER: Span = Span::from_secs(12);

impl World {
    /// An agent makes a call of an operation.
    pub(super) fn call(&mut self, op: usize) -> Result<(), Broken> {
        if self.node.is_none() {
            // Nobody listens: its library tries again soon.
            self.later(Span::from_secs(1), Due::Call(op));
            return Ok(());
        }
        let id = ActionId(u128::from(self.serial) + 1);
        let (order, submit) = self.order(op, id);
        let operation = self.operations[op].clone();
        let key = submit.requested.key.clone();
        let site = operation.site;
        let stored = key.as_ref().and_then(|key| self.stored_of_key(site, key));
        let earlier = match stored {
            Some(row) if !row.may_be_sent_anew() => {
                self.trace
                    .note(self.now, format_args!("op-{op} gets what was stored"));
                return Ok(());
            }
            row => row.map(|row| Earlier::of(&row)),
        };
        let Some(mut submit) = self.admit(op, submit)? else {
            return Ok(());
        };
        submit.earlier = earlier;
        self.trace.note(
            self.now,
            format_args!("op-{op} calls as {id}: {:?}", operation.kind),
        );
        self.orders.insert(id, order);
        self.waiting.entry(id).or_default().push(op);
        let (now, chance) = (self.now, self.chance());
        if let Some(cell) = self.cell(site) {
            cell.engine.handle_submit(now, chance, submit);
        }
        let is_new = self
            .cell(site)
            .is_some_and(|cell| cell.engine.action(now, id).is_some());
        if is_new && key.is_none() {
            self.operations[op].doubtful.insert(id);
        }
        self.operations[op].calls += 1;
        self.plan_what_follows(&operation, op, id);
        self.pump(site)
    }

    fn plan_what_follows(&mut self, operation: &Operation, op: usize, id: ActionId) {
        if let Some(span) = operation.hangs_up {
            self.later(span, Due::HangUp(op, id));
        }
        if let Some(span) = operation.cancels {
            self.later(span, Due::Cancel(op, id));
        }
        if let Some(span) = operation.ends_task.filter(|_| operation.calls == 0) {
            self.later(span, Due::EndTask(op));
        }
    }

    /// Asks the task book. `None` if the call is turned away.
    fn admit(&mut self, op: usize, mut submit: Submit) -> Result<Option<Submit>, Broken> {
        let key = self.task_of(op);
        let path = Path {
            account: account_of(self.operations[op].site),
            endpoint: submit.requested.endpoint.clone(),
        };
        let now = self.now;
        let Some(node) = &mut self.node else {
            return Ok(None);
        };
        let admitted = node.book.admit(now, &key, None, &path);
        let deadline = node.book.deadline(&key);
        self.pump_book()?;
        match admitted {
            Ok(allowance) => {
                submit.task = allowance;
                let of_task = deadline.unwrap_or(Moment::NEVER);
                submit.requested = Arc::new(Requested {
                    task_stops: allowance.stops,
                    deadline: of_task.min(submit.requested.deadline),
                    ..Requested::clone(&submit.requested)
                });
                Ok(Some(submit))
            }
            Err(refusal) => {
                self.trace.note(
                    self.now,
                    format_args!("op-{op} is turned away: {refusal:?}"),
                );
                Ok(None)
            }
        }
    }

    /// The last ended action of a key that no engine has in hand: its result is
    /// given again, unless it may be sent anew.
    fn stored_of_key(&mut self, site: usize, key: &str) -> Option<ActionRow> {
        let cell = self.cell(site)?;
        if cell.engine.action_of_key(key).is_some() {
            return None;
        }
        let account = account_of(site);
        let rows = self.journal.committed().actions().filter(|row| {
            row.requested.account == account && row.requested.key.as_deref() == Some(key)
        });
        let latest = rows.max_by_key(|row| (row.requested_at, row.requested.action));
        latest.filter(|row| row.state.is_final()).cloned()
    }

    fn task_of(&self, op: usize) -> TaskKey {
        let operation = &self.operations[op];
        let agent = agent(operation.agent);
        let task = operation
            .task
            .map(|n| Task::new(&format!("task-{n}")).expect("short printable ASCII"));
        task_key(&agent, task.as_ref())
    }

    fn order(&self, op: usize, id: ActionId) -> (Order, Submit) {
        let operation = &self.operations[op];
        let place = &self.scenario.places[operation.site];
        let kind = operation.kind;
        let (method, path) = kind.line();
        let mut fingerprint = [0; 16];
        fingerprint[..8].copy_from_slice(&(op as u64).to_be_bytes());
        let requested = Arc::new(Requested {
            action: id,
            provider: Provider::new("sim").expect("short printable ASCII"),
            account: account_of(operation.site),
            credential: Credential::new("sim#1").expect("short printable ASCII"),
            agent: agent(operation.agent),
            task: operation
                .task
                .map(|n| Task::new(&format!("task-{n}")).expect("short printable ASCII")),
            task_stops: 0,
            goal: None,
            priority: operation.priority,
            class: kind.class(),
            method: method.to_owned(),
            endpoint: Endpoint::new(&format!("{method} {path}")).expect("short printable ASCII"),
            model: None,
            path: path.to_owned(),
            fingerprint: Fingerprint(fingerprint),
            payload_digest: [op as u8; 32],
            payload_bytes: 20,
            replayable: true,
            key: kind.has_key().then(|| format!("key-{op}")),
            earlier: None,
            deadline: operation
                .deadline
                .map_or(Moment::NEVER, |span| self.now + span),
            detached: operation.detached,
            authorised_by: "simulated".to_owned(),
            parent: None,
        });
        let limits = place.policy.classes.of(kind.class()).clone();
        let scopes = vec![scope_of(operation.site)];
        let order = Order {
            op: op as u32,
            site: operation.site,
            kind,
            requested: Arc::clone(&requested),
            setup: order::setup(kind, scopes, limits, place.keys),
        };
        let submit = Submit {
            requested,
            setup: self.known().setup(&order),
            hold_until: self.now + operation.hold,
            task: rategov_core::engine::TaskAllowance::UNLIMITED,
            marker: match operation.is_repeat() {
                true => Marker::SdkRetry,
                false => Marker::None,
            },
            earlier: None,
        };
        (order, submit)
    }

    /// The agent of an operation hangs up.
    pub(super) fn hang_up(&mut self, op: usize, action: ActionId) -> Result<(), Broken> {
        let Some(waiting) = self.waiting.get_mut(&action) else {
            return Ok(());
        };
        waiting.retain(|waits| *waits != op);
        if !waiting.is_empty() {
            return Ok(());
        }
        self.waiting.remove(&action);
        let (now, site) = (self.now, self.operations[op].site);
        self.trace.note(now, format_args!("op-{op} hangs up"));
        if let Some(cell) = self.cell(site) {
            cell.engine.handle_caller_gone(now, action);
        }
        self.cut_off(op);
        self.pump(site)
    }

    /// The agent cancels an action.
    pub(super) fn cancel(&mut self, op: usize, action: ActionId) -> Result<(), Broken> {
        let (now, chance, site) = (self.now, self.chance(), self.operations[op].site);
        let by = CancelledBy::Agent(agent(self.operations[op].agent));
        self.trace
            .note(now, format_args!("op-{op} cancels {action}"));
        if let Some(cell) = self.cell(site) {
            cell.engine.handle_cancel(now, chance, action, by);
        }
        self.pump(site)
    }

    /// The agent ends a task.
    pub(super) fn end_task(&mut self, op: usize) -> Result<(), Broken> {
        let (now, key) = (self.now, self.task_of(op));
        self.trace.note(now, format_args!("{} ends", key.1));
        if let Some(node) = &mut self.node {
            // A book that can't record it says so; the agent does not insist.
            let _ = node.book.cancel(now, &key, CancelledBy::Task);
        }
        self.pump_book()
    }

    /// The engines hear that a task ended.
    pub(super) fn task_ended(
        &mut self,
        key: &TaskKey,
        stops: u32,
        by: &CancelledBy,
    ) -> Result<(), Broken> {
        for site in 0..self.scenario.places.len() {
            let (now, chance) = (self.now, self.chance());
            if let Some(cell) = self.cell(site) {
                cell.engine
                    .handle_task_cancelled(now, chance, key, stops, by);
            }
            self.pump(site)?;
        }
        Ok(())
    }

    /// An operation's connection broke; its agent may repeat it.
    pub(super) fn cut_off(&mut self, op: usize) {
        let reaction = self.operations[op].cut_off(self.now, &mut self.agent_chance);
        self.react(op, reaction);
    }

    pub(super) fn react(&mut self, op: usize, reaction: Reaction) {
        if let Reaction::Again(at) = reaction {
            self.at(at, Due::Call(op));
        }
    }

    // ---- people -----------------------------------------------------------------

    /// A person is told of a question.
    pub(super) fn ask_person(&mut self, site: usize, question: EscalationId) {
        if let Some(span) = people::answers_after(&mut self.people_chance) {
            self.later(span, Due::Decide(site, question));
        }
    }

    /// After a start people look at the open questions anew.
    pub(super) fn ask_people_again(&mut self, site: usize) {
        let open: Vec<EscalationId> = match self.cell(site) {
            Some(cell) => cell
                .engine
                .escalations()
                .map(|row| row.escalation)
                .collect(),
            None => Vec::new(),
        };
        for question in open {
            self.ask_person(site, question);
        }
    }

    /// A person looks at a question and may answer it, perhaps twice.
    pub(super) fn decide(&mut self, site: usize, question: EscalationId) -> Result<(), Broken> {
        let Some(cell) = self.cell(site) else {
            return Ok(());
        };
        let row = cell
            .engine
            .escalations()
            .find(|row| row.escalation == question)
            .cloned();
        let Some(row) = row else {
            return Ok(());
        };
        let sight = row.action.map_or(Sight::DidNot, |id| self.sight(id));
        let Some(decision) = people::choose(&row, sight, &mut self.people_chance) else {
            self.later(LOOK_AGAIN, Due::Decide(site, question));
            return Ok(());
        };
        let (now, chance) = (self.now, self.chance());
        let again = decision.clone();
        let choice = decision.choice;
        let Some(cell) = self.cell(site) else {
            return Ok(());
        };
        let decided = cell.engine.handle_decision(now, chance, question, decision);
        self.trace
            .note(now, format_args!("{choice} on {question}: {decided:?}"));
        if decided.is_ok() {
            self.count.decisions += 1;
            self.take_decision(row.action, choice);
            let chance = self.chance();
            if let Some(cell) = self.cell(site)
                && cell
                    .engine
                    .handle_decision(now, chance, question, again)
                    .is_ok()
            {
                return Err(format!("invariant 11: {question} was decided twice"));
            }
        }
        self.pump(site)
    }

    /// In calm times an operator looks after what is closed until somebody acts:
    /// a question about it may have expired.
    pub(super) fn reopen(&mut self, site: usize) -> Result<(), Broken> {
        if self.now < self.scenario.calm_from + OPERATOR_STAYS {
            self.later(OPERATOR_COMES_EVERY, Due::Reopen(site));
        }
        let (now, chance, scope) = (self.now, self.chance(), scope_of(site));
        let Some(cell) = self.cell(site) else {
            return Ok(());
        };
        let shut = |state: &rategov_core::ledger::ScopeState| {
            state.mode == Mode::Closed && state.next_allowed_at.is_none()
        };
        if !cell.engine.scopes(now).iter().any(shut) {
            return Ok(());
        }
        let by = Operator::new("bea").expect("short printable ASCII");
        cell.engine.handle_resume(now, chance, &scope, by);
        self.count.reopened += 1;
        self.trace.note(now, format_args!("{scope} is reopened"));
        self.pump(site)
    }

    /// What a decision allows.
    fn take_decision(&mut self, action: Option<ActionId>, choice: Choice) {
        let Some(id) = action else { return };
        match choice {
            Choice::RetrySameKey => {
                self.check.allow_send(id);
                self.check.allow_effect(id);
            }
            Choice::SendNew => {
                if let Some(order) = self.orders.get(&id) {
                    self.operations[order.op as usize].by_people += 1;
                }
            }
            _ => {}
        }
    }

    /// What the provider knows of an action's operation by now.
    fn sight(&self, id: ActionId) -> Sight {
        let Some(order) = self.orders.get(&id) else {
            return Sight::TooEarly;
        };
        let ledger = self.sites[order.site].ledger();
        let happened = ledger
            .effects()
            .filter(|effect| effect.at <= self.now)
            .any(|effect| {
                let cause = self.check.causes.get(&(order.site, effect.arrival));
                let same_key = order.requested.key.is_some() && effect.key == order.requested.key;
                cause == Some(&id) || same_key
            });
        let last = self.wires.values().filter(|wire| wire.action == id);
        let last = last.filter_map(|wire| wire.last_byte_by()).max();
        match (happened, last) {
            (true, _) => Sight::Happened,
            (false, Some(last)) if self.now < last + NO_COPY_AFTER => Sight::TooEarly,
            (false, _) => Sight::DidNot,
        }
    }

    /// The last word on an action reached its agent.
    pub(super) fn told(&mut self, action: ActionId, state: State, code: &str) {
        for op in self.waiting.remove(&action).unwrap_or_default() {
            self.trace
                .note(self.now, format_args!("op-{op} is told {state} {code}"));
            let reaction = self.operations[op].ended(self.now, state, code, &mut self.agent_chance);
            if matches!(state, State::FailedDefinite | State::CancelledNotSent) {
                self.operations[op].doubtful.remove(&action);
            }
            self.react(op, reaction);
        }
    }
}

fn agent(n: usize) -> Agent {
    Agent::new(&format!("agent-{n}")).expect("short printable ASCII")
}
