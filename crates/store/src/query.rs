//! Searching the journal and the actions.
//!
//! A query is a value whose absent parts match everything. Its SQL is put
//! together from fixed pieces; what callers say only ever travels as
//! parameters.

use rategov_audit::leaf::Seq;
use rategov_core::id::{Account, ActionId, Agent, Task};
use rategov_core::record::ActionRow;
use rategov_core::time::WallTime;
use rategov_core::word::State;
use rusqlite::types::ToSql;
use rusqlite::{Connection, params_from_iter};

use crate::clock::Stamped;
use crate::codec::{Fact, Word};
use crate::db::{Col, Columns, rows};
use crate::error::Error;
use crate::tables::action;

/// Most rows of one answer.
pub const LIMIT_MAX: u32 = 10_000;

/// In which order, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// From the beginning, or after a record.
    Forward(Option<Seq>),
    /// From the end, or before a record.
    Backward(Option<Seq>),
}

/// Which records.
#[derive(Clone, Debug)]
pub struct JournalQuery {
    /// Of this task.
    pub task: Option<Task>,
    /// Of this action.
    pub action: Option<ActionId>,
    /// Of this agent.
    pub agent: Option<Agent>,
    /// Of this account.
    pub account: Option<Account>,
    /// Written at this time or later.
    pub from: Option<WallTime>,
    /// Written before this time.
    pub until: Option<WallTime>,
    /// About an answer with this status.
    pub status: Option<u16>,
    /// Of this kind of event, by its word.
    pub event: Option<String>,
    /// In which order.
    pub page: Page,
    /// At most so many, and at most [`LIMIT_MAX`].
    pub limit: u32,
}

impl Default for JournalQuery {
    /// The last hundred records, the newest first.
    fn default() -> JournalQuery {
        JournalQuery {
            task: None,
            action: None,
            agent: None,
            account: None,
            from: None,
            until: None,
            status: None,
            event: None,
            page: Page::Backward(None),
            limit: 100,
        }
    }
}

/// One record of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRow {
    /// Its number in the log.
    pub seq: Seq,
    /// When it was written.
    pub wall: WallTime,
    /// The event's word.
    pub event: String,
    /// Of this account.
    pub account: Option<String>,
    /// Of this action.
    pub action: Option<ActionId>,
    /// Of this agent.
    pub agent: Option<String>,
    /// Of this task.
    pub task: Option<String>,
    /// The record itself; `None` once its content was removed.
    pub fact: Option<Fact>,
}

impl JournalQuery {
    pub(crate) fn run(&self, db: &Connection) -> Result<Vec<JournalRow>, Error> {
        let mut filter = Filter::default();
        // Records of the log about itself are nobody's.
        filter.conditions.push("j.event IS NOT NULL".to_owned());
        filter.equal(
            "j.task = ?",
            self.task.as_ref().map(|task| task.as_str().to_owned()),
        );
        filter.equal("j.action = ?", self.action.map(Col));
        filter.equal(
            "j.agent = ?",
            self.agent.as_ref().map(|agent| agent.as_str().to_owned()),
        );
        filter.equal(
            "j.account = ?",
            self.account.as_ref().map(|name| name.as_str().to_owned()),
        );
        filter.equal("j.wall >= ?", self.from.map(Col));
        filter.equal("j.wall < ?", self.until.map(Col));
        filter.equal("j.status = ?", self.status);
        filter.equal("j.event = ?", self.event.clone());
        let order = match self.page {
            Page::Forward(after) => {
                filter.equal("j.seq > ?", after.map(|seq| Col(seq.0)));
                "ASC"
            }
            Page::Backward(before) => {
                filter.equal("j.seq < ?", before.map(|seq| Col(seq.0)));
                "DESC"
            }
        };
        let sql = format!(
            "SELECT j.* FROM audit_leaf j {} ORDER BY j.seq {order} LIMIT {}",
            filter.clause(),
            self.limit.min(LIMIT_MAX)
        );
        rows(db, &sql, params_from_iter(filter.values), journal_row)
    }
}

fn journal_row(columns: Columns<'_, '_>) -> Result<JournalRow, Error> {
    let content: Option<Vec<u8>> = columns.get("content")?;
    let fact = content.map(|content| Fact::decode(&content)).transpose();
    Ok(JournalRow {
        seq: Seq(columns.col("seq")?),
        wall: columns.col("wall")?,
        event: columns.get("event")?,
        account: columns.get("account")?,
        action: columns.maybe("action")?,
        agent: columns.get("agent")?,
        task: columns.get("task")?,
        fact: fact.map_err(|error| Error::Corrupt(format!("record: {error}")))?,
    })
}

/// Which actions.
#[derive(Clone, Debug)]
pub struct ActionQuery {
    /// In one of these states; empty matches all.
    pub states: Vec<State>,
    /// Of this account.
    pub account: Option<Account>,
    /// Of this agent.
    pub agent: Option<Agent>,
    /// Of this task.
    pub task: Option<Task>,
    /// Older than this one.
    pub before: Option<ActionId>,
    /// At most so many, and at most [`LIMIT_MAX`].
    pub limit: u32,
}

impl Default for ActionQuery {
    /// The hundred newest actions.
    fn default() -> ActionQuery {
        ActionQuery {
            states: Vec::new(),
            account: None,
            agent: None,
            task: None,
            before: None,
            limit: 100,
        }
    }
}

impl ActionQuery {
    pub(crate) fn run(&self, db: &Connection) -> Result<Vec<Stamped<ActionRow>>, Error> {
        let mut filter = Filter::default();
        filter.one_of("state", self.states.iter().map(|state| state.text()));
        filter.equal(
            "account = ?",
            self.account.as_ref().map(|name| name.as_str().to_owned()),
        );
        filter.equal(
            "agent = ?",
            self.agent.as_ref().map(|agent| agent.as_str().to_owned()),
        );
        filter.equal(
            "task = ?",
            self.task.as_ref().map(|task| task.as_str().to_owned()),
        );
        filter.equal("id < ?", self.before.map(Col));
        let sql = format!(
            "{} {} ORDER BY id DESC LIMIT {}",
            action::SELECT,
            filter.clause(),
            self.limit.min(LIMIT_MAX)
        );
        rows(db, &sql, params_from_iter(filter.values), action::read)
    }
}

/// Conditions that all must hold, and their values in the same order.
#[derive(Default)]
struct Filter {
    conditions: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
}

impl Filter {
    /// A condition with one place, if there is a value for it.
    fn equal(&mut self, condition: &str, value: Option<impl ToSql + 'static>) {
        if let Some(value) = value {
            self.conditions.push(condition.to_owned());
            self.values.push(Box::new(value));
        }
    }

    fn one_of(&mut self, column: &str, words: impl Iterator<Item = &'static str>) {
        let before = self.values.len();
        self.values
            .extend(words.map(|word| Box::new(word) as Box<dyn ToSql>));
        let places = vec!["?"; self.values.len() - before];
        if !places.is_empty() {
            self.conditions
                .push(format!("{column} IN ({})", places.join(", ")));
        }
    }

    fn clause(&self) -> String {
        match self.conditions.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", self.conditions.join(" AND ")),
        }
    }
}
