//! Sends between the process and a provider: what leaves, what arrives, and
//! what the process is told. A process that dies takes its ears with it, not
//! what it had sent.

use rategov_core::action::outcome::{Evidence, Lost, NotSent};
use rategov_core::engine::{BodyEnd, Leave, LookupReport, Report};
use rategov_core::estimate::Usage;
use rategov_core::event::Found;
use rategov_core::id::{ActionId, AttemptNo};
use rategov_core::observe::Facts;
use rategov_core::record::SendKind;
use rategov_core::time::{Moment, Span};

use super::order::ATTEMPT_TIMEOUT;
use super::wire::{Fate, Seen, broken_off, found, watch};
use super::{Due, WireId, World};
use crate::check::{Broken, Effects};

/// A send on its way.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    site: usize,
    pub(super) action: ActionId,
    kind: SendKind,
    number: AttemptNo,
    /// Which life of the process, and of its engine, waits for the answer.
    life: u32,
    cell_life: u32,
    fate: Fate,
    sent_at: Option<Moment>,
    /// What its stream says that it took, once that is on its way.
    usage: Option<Usage>,
    /// Whether its head was reported and its body streams on.
    streams: bool,
    /// Whether nothing more is reported.
    is_over: bool,
}

impl Wire {
    /// When its last byte can have left.
    pub(super) fn last_byte_by(&self) -> Option<Moment> {
        self.sent_at.map(|at| at + ATTEMPT_TIMEOUT)
    }

    fn is_attempt(&self) -> bool {
        self.kind == SendKind::Attempt
    }
}

impl World {
    /// The engine lets a send go: dial.
    pub(super) fn send(&mut self, site: usize, action: ActionId, send: (SendKind, AttemptNo)) {
        let trouble = self.trouble();
        let (life, cell_life) = (self.life, self.cell(site).map_or(0, |cell| cell.life));
        let wire = Wire {
            site,
            action,
            kind: send.0,
            number: send.1,
            life,
            cell_life,
            fate: Fate::draw(&mut self.wire_chance, trouble),
            sent_at: None,
            usage: None,
            streams: false,
            is_over: false,
        };
        self.serial += 1;
        let id = self.serial;
        self.trace
            .note(self.now, format_args!("{action} {send:?}: {:?}", wire.fate));
        self.wires.insert(id, wire);
        let dial = self.wire_chance.millis(0, 40);
        self.later(dial, Due::FirstByte(id));
    }

    /// The connection is there: the first byte leaves, unless it must not.
    pub(super) fn first_byte(&mut self, id: WireId) -> Result<(), Broken> {
        let Some(wire) = self.wires.get(&id).cloned() else {
            return Ok(());
        };
        if wire.is_over || !self.is_heard(&wire) {
            return Ok(());
        }
        if let Fate::NoConnection(why) = wire.fate {
            return self.not_sent(id, why);
        }
        let (now, action) = (self.now, wire.action);
        let task = self.orders.get(&action).map(|order| {
            let requested = &order.requested;
            rategov_core::tasks::task_key(&requested.agent, requested.task.as_ref())
        });
        let may = match (&self.node, task) {
            (Some(node), Some(task)) => {
                let cell = &node.cells[wire.site];
                let overtaken = cell.engine.is_overtaken(action);
                if overtaken && wire.is_attempt() {
                    self.check.allow_send(action);
                }
                let stops = cell.engine.task_stops(action).unwrap_or(0);
                !overtaken && (node.book.may_send(&task, stops) || !wire.is_attempt())
            }
            _ => false,
        };
        if !may {
            return self.not_sent(id, NotSent::Withdrawn);
        }
        let cell = self.cell(wire.site);
        let leave = cell.map(|cell| cell.engine.handle_sent(now, action));
        if leave == Some(Leave::CalledBack) {
            return self.not_sent(id, NotSent::Withdrawn);
        }
        if wire.is_attempt()
            && let Some(order) = self.orders.get(&action)
        {
            self.check.first_byte(now, order)?;
        }
        if let Some(wire) = self.wires.get_mut(&id) {
            wire.sent_at = Some(now);
        }
        match wire.fate {
            Fate::Arrives(there, _) | Fate::AnswerLost(there, _) => {
                self.later(there, Due::Arrive(id));
                self.break_after(id, &wire, ATTEMPT_TIMEOUT, Lost::TimedOut);
            }
            Fate::Lost(after) => self.break_after(id, &wire, after, Lost::Closed),
            Fate::LateCopy(after, there) => {
                self.break_after(id, &wire, after, Lost::Closed);
                self.later(there, Due::Arrive(id));
            }
            Fate::NoConnection(_) => {}
        }
        self.pump(wire.site)
    }

    fn break_after(&mut self, id: WireId, wire: &Wire, after: Span, why: Lost) {
        let due = match wire.is_attempt() {
            true => Due::Report(id, Evidence::Lost(why)),
            false => Due::Found(id, Found::NoAnswer, None),
        };
        self.later(after, due);
    }

    /// A request reaches the provider, whoever still listens for its answer.
    pub(super) fn arrive(&mut self, id: WireId) -> Result<(), Broken> {
        let Some(wire) = self.wires.get(&id).cloned() else {
            return Ok(());
        };
        let Some(order) = self.orders.get(&wire.action).cloned() else {
            return Ok(());
        };
        let request = match wire.is_attempt() {
            true => order.request(),
            false => order.look_up(),
        };
        let now = self.now;
        let site = &mut self.sites[wire.site];
        let plan = site.arrive(now, &request);
        let wall = site.wall(now);
        self.trace.note(
            now,
            format_args!("{} arrives as {:?}", wire.action, plan.ticket.no),
        );
        if wire.is_attempt() {
            let place = (wire.site, plan.ticket.no);
            self.check.causes.insert(place, wire.action);
            let effects = match order.requested.class.is_write() {
                true => Effects {
                    of_action: self.effects_of(wire.site, wire.action),
                    of_operation: self.effects_of_operation(&order),
                    allowed: self.operations[order.op as usize].allowed(),
                },
                false => Effects::default(),
            };
            self.check.arrived(place, &order, &request, effects)?;
        }
        let seen = plan.seen();
        self.later(seen.last, Due::Finish(wire.site, plan.ticket));
        let back = match wire.fate {
            Fate::Arrives(_, back) => back,
            Fate::AnswerLost(_, after) => {
                self.break_after(id, &wire, after, Lost::Closed);
                return Ok(());
            }
            _ => return Ok(()),
        };
        if !wire.is_attempt() {
            let (found, facts) = found(&plan, wall);
            self.later(seen.last + back, Due::Found(id, found, facts));
            return Ok(());
        }
        let sent_at = wire.sent_at.unwrap_or(now);
        let left = (sent_at + ATTEMPT_TIMEOUT).since(now);
        match watch(&plan, order.kind, wall, left) {
            Seen::Whole(after, evidence) => {
                self.later(after + back, Due::Report(id, evidence));
            }
            Seen::Streams {
                head_after,
                facts,
                end_after,
                end,
                usage,
            } => {
                if let Some(wire) = self.wires.get_mut(&id) {
                    wire.usage = Some(usage);
                }
                let rest = end_after.saturating_sub(head_after);
                self.later(head_after + back, Due::Head(id, facts, rest, end));
            }
        }
        Ok(())
    }

    // ---- what the process is told -----------------------------------------------

    /// Whether somebody still listens: the same life of process and engine.
    fn is_heard(&self, wire: &Wire) -> bool {
        let cell = self.node.as_ref().map(|node| &node.cells[wire.site]);
        wire.life == self.life && cell.is_some_and(|cell| cell.life == wire.cell_life)
    }

    /// Takes the wire of something that is to be told, if it is still wanted.
    fn hear(&mut self, id: WireId, is_last: bool) -> Option<Wire> {
        let wire = self.wires.get(&id)?.clone();
        if wire.is_over || !self.is_heard(&wire) {
            return None;
        }
        if let Some(known) = self.wires.get_mut(&id) {
            known.is_over = is_last;
            known.streams = !is_last;
        }
        Some(wire)
    }

    fn not_sent(&mut self, id: WireId, why: NotSent) -> Result<(), Broken> {
        let is_attempt = self.wires.get(&id).is_some_and(Wire::is_attempt);
        match is_attempt {
            true => self.report(id, Evidence::NotSent(why)),
            false => self.found(id, Found::NoAnswer, None),
        }
    }

    pub(super) fn report(&mut self, id: WireId, evidence: Evidence) -> Result<(), Broken> {
        // A head was reported: what follows is the body's business.
        if self.wires.get(&id).is_some_and(|wire| wire.streams) {
            return Ok(());
        }
        let Some(wire) = self.hear(id, true) else {
            return Ok(());
        };
        self.check.closed(wire.action);
        self.tell(&wire, evidence)
    }

    fn tell(&mut self, wire: &Wire, evidence: Evidence) -> Result<(), Broken> {
        self.trace.note(
            self.now,
            format_args!("{} #{} ends: {evidence:?}", wire.action, wire.number),
        );
        let report = Report {
            action: wire.action,
            attempt: wire.number,
            bytes_written: u64::from(!matches!(evidence, Evidence::NotSent(_))),
            evidence,
            task: self.allowance(wire.action),
        };
        let (now, chance) = (self.now, self.chance());
        if let Some(cell) = self.cell(wire.site) {
            cell.engine.handle_report(now, chance, report);
        }
        self.pump(wire.site)
    }

    pub(super) fn head(
        &mut self,
        id: WireId,
        facts: Facts,
        rest: Span,
        end: BodyEnd,
    ) -> Result<(), Broken> {
        use rategov_core::action::outcome::{Body, Upload};
        let Some(wire) = self.hear(id, false) else {
            return Ok(());
        };
        let evidence = Evidence::Answered {
            facts,
            body: Body::Open,
            upload: Upload::Complete,
        };
        self.later(rest, Due::BodyEnd(id, end));
        self.tell(&wire, evidence)
    }

    pub(super) fn body_end(&mut self, id: WireId, end: BodyEnd) -> Result<(), Broken> {
        let Some(wire) = self.hear(id, true) else {
            return Ok(());
        };
        self.check.closed(wire.action);
        let (now, chance) = (self.now, self.chance());
        if let Some(cell) = self.cell(wire.site) {
            if let Some(usage) = wire.usage {
                let usage = match end {
                    BodyEnd::Complete => usage,
                    _ => broken_off(usage),
                };
                cell.engine
                    .handle_usage(now, wire.action, wire.number, &usage);
            }
            cell.engine
                .handle_body_end(now, chance, wire.action, wire.number, end);
        }
        self.pump(wire.site)
    }

    pub(super) fn found(
        &mut self,
        id: WireId,
        found: Found,
        facts: Option<Facts>,
    ) -> Result<(), Broken> {
        let Some(wire) = self.hear(id, true) else {
            return Ok(());
        };
        self.trace.note(
            self.now,
            format_args!("{} look-up {}: {found:?}", wire.action, wire.number),
        );
        let report = LookupReport {
            action: wire.action,
            lookup: wire.number,
            found,
            facts,
            operation_id: None,
            sent: wire.sent_at.is_some(),
            task: self.allowance(wire.action),
        };
        let (now, chance) = (self.now, self.chance());
        if let Some(cell) = self.cell(wire.site) {
            cell.engine.handle_lookup_report(now, chance, report);
        }
        self.pump(wire.site)
    }

    /// The engine wants an open attempt stopped.
    pub(super) fn abort(&mut self, site: usize, action: ActionId) -> Result<(), Broken> {
        let open = self.wires.iter().find(|(_, wire)| {
            wire.action == action && wire.is_attempt() && !wire.is_over && self.is_heard(wire)
        });
        let Some((id, wire)) = open.map(|(id, wire)| (*id, wire.clone())) else {
            return Ok(());
        };
        debug_assert_eq!(wire.site, site, "an action stays at its site");
        match (wire.streams, wire.sent_at) {
            (true, _) => self.body_end(id, BodyEnd::CallerGone),
            (false, Some(_)) => self.report(id, Evidence::Lost(Lost::CallerGone)),
            (false, None) => self.report(id, Evidence::NotSent(NotSent::Withdrawn)),
        }
    }

    fn allowance(&self, action: ActionId) -> rategov_core::engine::TaskAllowance {
        let unlimited = rategov_core::engine::TaskAllowance::UNLIMITED;
        let (Some(node), Some(order)) = (&self.node, self.orders.get(&action)) else {
            return unlimited;
        };
        let requested = &order.requested;
        let key = rategov_core::tasks::task_key(&requested.agent, requested.task.as_ref());
        node.book.allowance(&key)
    }
}
