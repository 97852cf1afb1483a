//! Searching the journal and the actions.
//!
//! A query is a value whose absent parts match everything. Its SQL is put
//! together from fixed pieces; what callers say only ever travels as
//! parameters.

use std::cmp::Reverse;
use std::ops::{ControlFlow, Range};

use rategov_audit::leaf::Seq;
use rategov_core::id::{Account, ActionId, Agent, Task};
use rategov_core::record::ActionRow;
use rategov_core::time::WallTime;
use rategov_core::word::State;
use rusqlite::types::ToSql;
use rusqlite::{Connection, params_from_iter};

use crate::blocks::{Mention, Wanted};
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

impl Page {
    fn order(self) -> Order {
        match self {
            Page::Forward(_) => Order::Ascending,
            Page::Backward(_) => Order::Descending,
        }
    }

    /// The records that it may show.
    fn range(self) -> Range<u64> {
        match self {
            Page::Forward(after) => after.map_or(0, |seq| seq.0.saturating_add(1))..SEQ_END,
            Page::Backward(before) => 0..before.map_or(SEQ_END, |seq| seq.0.min(SEQ_END)),
        }
    }
}

/// Behind every record that a database can hold.
const SEQ_END: u64 = i64::MAX as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Ascending,
    Descending,
}

impl Order {
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Order::Ascending => "ASC",
            Order::Descending => "DESC",
        }
    }
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
        filter
            .conditions
            .push("j.seq >= ? AND j.seq < ?".to_owned());
        let order = self.page.order();
        let sql = format!(
            "SELECT j.* FROM audit_leaf j {} ORDER BY j.seq {} LIMIT ?",
            filter.clause(),
            order.sql()
        );

        // Several statements, one state.
        let tx = db.unchecked_transaction()?;
        let most = self.limit.min(LIMIT_MAX) as usize;
        let mut found = Vec::new();
        self.wanted()
            .each_stretch(&tx, self.page.range(), order, |stretch| {
                let (first, end) = (Col(stretch.start), Col(stretch.end));
                let left = Col((most - found.len()) as u64);
                let own: [&dyn ToSql; 3] = [&first, &end, &left];
                let values = filter.values.iter().map(|value| &**value).chain(own);
                found.extend(rows(&tx, &sql, params_from_iter(values), journal_row)?);
                Ok(match found.len() < most {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            })?;
        Ok(found)
    }

    fn wanted(&self) -> Wanted {
        let mentions = [
            self.action.map(Mention::Action),
            self.task.clone().map(Mention::Task),
            self.agent.clone().map(Mention::Agent),
        ];
        Wanted {
            mentions: mentions.into_iter().flatten().collect(),
            from: self.from,
            until: self.until,
        }
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
        if self.states.is_empty() {
            return self.run_within(db, None);
        }
        // Several statements, one state.
        let tx = db.unchecked_transaction()?;
        let mut found = Vec::new();
        for part in Part::ALL {
            if self.states.iter().any(|state| Part::of(*state) == part) {
                found.extend(self.run_within(&tx, Some(part))?);
            }
        }
        found.sort_by_key(|stored| Reverse(stored.row.requested.action));
        found.truncate(self.limit.min(LIMIT_MAX) as usize);
        Ok(found)
    }

    /// Those that match among the actions of one part.
    fn run_within(
        &self,
        db: &Connection,
        part: Option<Part>,
    ) -> Result<Vec<Stamped<ActionRow>>, Error> {
        let mut filter = Filter::default();
        if let Some(part) = part {
            filter.conditions.push(part.condition().to_owned());
            let states = self.states.iter().filter(|state| Part::of(**state) == part);
            filter.one_of("state", states.map(|state| state.text()));
        }
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
            "SELECT * FROM {} {} ORDER BY id DESC LIMIT {}",
            part.map_or("action", Part::source),
            filter.clause(),
            self.limit.min(LIMIT_MAX)
        );
        rows(db, &sql, params_from_iter(filter.values), action::read)
    }
}

/// The actions by how they are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Few, and an index has them.
    Open,
    /// Most, so the newest are found by walking down the ids.
    Succeeded,
    /// An index has them by state.
    EndedOtherwise,
}

impl Part {
    const ALL: [Part; 3] = [Part::Open, Part::Succeeded, Part::EndedOtherwise];

    fn of(state: State) -> Part {
        match state {
            State::Succeeded => Part::Succeeded,
            state if state.is_final() => Part::EndedOtherwise,
            _ => Part::Open,
        }
    }

    /// From where. Without the hint SQLite walks through all actions to save itself the
    /// sorting of the open ones.
    fn source(self) -> &'static str {
        match self {
            Part::Open => "action INDEXED BY action_open",
            Part::Succeeded | Part::EndedOtherwise => "action",
        }
    }

    /// In the words of the index, which SQLite must recognise.
    fn condition(self) -> &'static str {
        match self {
            Part::Open => "open = 1",
            Part::Succeeded => "open = 0",
            Part::EndedOtherwise => "open = 0 AND state <> 'succeeded'",
        }
    }
}

/// Conditions that all must hold, and their values in the same order.
#[derive(Default)]
pub(crate) struct Filter {
    conditions: Vec<String>,
    pub(crate) values: Vec<Box<dyn ToSql>>,
}

impl Filter {
    /// A condition with one place, if there is a value for it.
    pub(crate) fn equal(&mut self, condition: &str, value: Option<impl ToSql + 'static>) {
        if let Some(value) = value {
            self.conditions.push(condition.to_owned());
            self.values.push(Box::new(value));
        }
    }

    /// A condition with two places.
    pub(crate) fn both(
        &mut self,
        condition: &str,
        first: impl ToSql + 'static,
        second: impl ToSql + 'static,
    ) {
        self.conditions.push(condition.to_owned());
        self.values.push(Box::new(first));
        self.values.push(Box::new(second));
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

    pub(crate) fn clause(&self) -> String {
        match self.conditions.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", self.conditions.join(" AND ")),
        }
    }
}
