//! The provider model: an API with limits, records and faults, and with its
//! own count of what really arrived and what really happened.
//!
//! Time is an argument, so the simulator drives it in virtual time; behind real
//! sockets it is [`crate::fake_provider`]. It shares the core's words for time
//! and nothing else: above all no window code.
//!
//! A call passes three doors, in this order: the quota (a refused call never
//! reaches the script), the script (what a test wants spoiled), the service
//! (what the API does). Everything that will happen with it is decided when it
//! arrives and handed out as a [`plan::Plan`]; the driver plays the plan and says
//! with [`Provider::finish`] when it is over.
//!
//! Worked example: service 300 ms, script `reset_after_effect` for
//! `POST /records`. A create arrives at 10.0 s: the ledger counts the arrival,
//! and an effect at 10.3 s; the plan is `Wait(300 ms)`, then RST. A look-up by key
//! that arrives at 10.3 s finds the record; a repeat under the same key gets
//! the stored 201 and no second effect.

pub mod config;
pub mod doors;
pub mod draw;
pub mod fault;
pub mod idempotency;
pub mod ledger;
pub mod limit_fields;
pub mod message;
pub mod plan;
pub mod quota;
pub mod records;
pub mod shapes;
pub mod usage;

mod arrive;
mod coding;
mod service;
mod spoken;

use std::collections::BTreeMap;

use rategov_core::time::{Moment, Span, WallTime};

use config::Config;
use doors::{Doors, Welcome, WrittenDoors};
use fault::{Ending, Fault, Left, Script, ScriptFull, Step};
use ledger::{ArrivalNo, Finish, Ledger, Tokens};
use message::RequestHead;
use quota::{Hold, Load, Quotas, Rule};
use records::Records;
use service::Service;
use usage::Usage;

/// A provider.
#[derive(Clone, Debug)]
pub struct Provider {
    config: Config,
    quotas: Quotas,
    script: Script,
    doors: Doors,
    service: Service,
    ledger: Ledger,
    open: BTreeMap<ArrivalNo, Open>,
    epoch: u64,
}

/// A call that is open, and what it will have taken.
#[derive(Clone, Debug)]
struct Open {
    holds: Vec<Hold>,
    load: Load,
    /// What a model does for it.
    usage: Option<Usage>,
    /// When the first and when the last token is produced.
    produced: (Moment, Moment),
}

impl Open {
    /// Tokens that are produced by `now`, of an answer that is not waited for to
    /// its end. An answer in one piece is produced whole, whoever waits for it.
    fn output(&self, now: Moment, how: Finish) -> u64 {
        let output = self.usage.map_or(0, |usage| usage.output);
        let (from, to) = self.produced;
        if how == Finish::Answered || to <= now || to <= from {
            return output;
        }
        let part = u128::from(output) * u128::from(now.since(from).as_micros());
        let whole = u128::from(to.since(from).as_micros());
        u64::try_from(part / whole).unwrap_or(output)
    }
}

/// Names an arrival to [`Provider::finish`]; worthless after a reset, when
/// numbers start anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The number of the arrival.
    pub no: ArrivalNo,
    epoch: u64,
}

impl Provider {
    /// A provider with an empty script and an empty store.
    pub fn new(config: Config) -> Provider {
        Provider {
            quotas: Quotas::new(config.quotas.clone(), config.wall_at_start),
            ledger: Ledger::new(config.ledger_capacity),
            script: Script::default(),
            doors: Doors::default(),
            service: Service::default(),
            open: BTreeMap::new(),
            epoch: 0,
            config,
        }
    }

    /// Forgets records, ledger, script and used quota; the configuration stays,
    /// and so do the rules set since. Open calls are forgotten too.
    pub fn reset(&mut self) {
        let rules = self.quotas.rules().to_vec();
        let config = Config {
            quotas: rules.clone(),
            ..self.config.clone()
        };
        let mut quotas = std::mem::take(&mut self.quotas);
        // Replacing keeps old seats from freeing places in the new counters.
        quotas.replace(rules);
        *self = Provider {
            quotas,
            epoch: self.epoch + 1,
            ..Provider::new(config)
        };
    }

    /// Its own count.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Its store.
    pub fn records(&self) -> &Records {
        self.service.records()
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its limits.
    pub fn quotas(&self) -> &[Rule] {
        self.quotas.rules()
    }

    /// Replaces its limits; counting starts anew.
    pub fn set_quotas(&mut self, rules: Vec<Rule>) {
        self.quotas.replace(rules);
    }

    /// Changes its limits while they are in use; see [`Quotas::amend`].
    pub fn amend_quotas(&mut self, rules: Vec<Rule>) {
        self.quotas.amend(rules);
    }

    /// Adds steps to its script.
    ///
    /// # Errors
    /// If the script is full; then none is added.
    pub fn push_steps(&mut self, now: Moment, steps: Vec<Step>) -> Result<(), ScriptFull> {
        self.script.push(now, steps)
    }

    /// Forgets its script, the doors' included.
    pub fn clear_script(&mut self) {
        self.script.clear();
        self.doors = Doors::default();
    }

    /// What of the script has not happened yet. Empty: every scripted fault was met.
    pub fn script_left(&self) -> Vec<Left> {
        let mut left = self.script.left();
        if !self.doors.is_done() {
            left.push(Left {
                calls: "(a new connection)".to_owned(),
                acted: 0,
                times_left: None,
            });
        }
        left
    }

    /// Changes what happens to connections.
    pub fn change_doors(&mut self, now: Moment, written: WrittenDoors) {
        self.doors.change(now, written);
    }

    /// Until when it refuses connections, if it does at `now`.
    pub fn closed_until(&self, now: Moment) -> Option<Moment> {
        self.doors.closed_until(now)
    }

    /// A connection was accepted: what becomes of it.
    pub fn welcome(&mut self) -> Welcome {
        self.doors.welcome()
    }

    /// How long a connection may be idle before it is closed without a word.
    pub fn idle_max(&self) -> Option<Span> {
        self.doors.idle()
    }

    /// Calls that are open.
    pub fn in_flight(&self) -> u64 {
        self.open.len() as u64
    }

    /// The wall-clock time at `now`.
    pub fn wall(&self, now: Moment) -> WallTime {
        self.config.wall_at_start + now.since(Moment::START)
    }

    /// After how many bytes of its body the upload of a request whose head has
    /// arrived is to be cut, and how. The driver then reads so many bytes and
    /// hands them to [`Provider::arrive`], whose plan ends the connection.
    pub fn upload_cut(&self, now: Moment, head: &RequestHead) -> Option<(u64, Ending)> {
        let call = (head.method.as_str(), head.path());
        match self.script.peek(now, call, &head.fields)?.fault {
            Some(Fault::CutUpload { after, ending }) => Some((after, ending)),
            _ => None,
        }
    }

    /// The driver is done with an arrival. Only the first report of it counts.
    pub fn finish(&mut self, now: Moment, ticket: Ticket, how: Finish) {
        if ticket.epoch != self.epoch {
            return;
        }
        if let Some(open) = self.open.remove(&ticket.no) {
            let output = open.output(now, how);
            let settled = self.quotas.settle(now, &open.holds, &open.load, output);
            let tokens = open.usage.map(|usage| Tokens::of(&usage, output));
            self.ledger.finish(ticket.no, now, how);
            self.ledger.settle(ticket.no, tokens, &settled);
        }
    }
}

#[cfg(test)]
mod tests;
