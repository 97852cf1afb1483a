//! How records are found without an index of every record.
//!
//! The log is cut into blocks of 256 records. While a block is being written nothing
//! but its records is stored. The first record behind it sums it up: one row says
//! between which wall times its records lie, one row for each action, agent and task
//! says that the block mentions it. A search looks through the blocks that may hold
//! what it wants, and through the records that are in no summed-up block yet.
//!
//! ```text
//! records    0 … 255        block 0   12:00:00 – 12:00:07, mentions a1 a2 … a64, bot, sync
//!          256 … 511        block 1   11:59:58 – 12:00:03, mentions a64 a65 …, bot
//!          512 … 600        not summed up yet
//! search for action a64, the newest first     512 … 600, block 1, block 0
//! search before 12:00:00                      block 1, 512 … 600 (the clock was set back)
//! ```
//!
//! A block says what is in it, not in which order, so a search finds every record
//! however the clock was set. What is summed up is rows like others: it comes with the
//! transaction of the record that ended the block. The names of the block at hand are
//! kept in memory and read again from its records after a start or a lost commit.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};

use rategov_audit::leaf::Seq;
use rategov_core::id::{ActionId, Agent, Task};
use rategov_core::time::WallTime;
use rusqlite::types::{ToSql, ToSqlOutput};
use rusqlite::{Connection, params_from_iter};

use crate::db::{Col, Columns, row, rows};
use crate::error::Error;
use crate::query::{Filter, Order};

/// Records of a block. Few enough that looking through one takes less than a
/// millisecond, many enough that its rows cost little beside its records.
pub(crate) const BLOCK: u64 = 256;

/// What a record is about, for whoever searches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mention {
    Action(ActionId),
    Agent(Agent),
    Task(Task),
}

/// What one record is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) action: Option<ActionId>,
    pub(crate) agent: Option<&'a Agent>,
    pub(crate) task: Option<&'a Task>,
}

impl Mention {
    fn what(&self) -> &'static str {
        match self {
            Mention::Action(_) => "action",
            Mention::Agent(_) => "agent",
            Mention::Task(_) => "task",
        }
    }
}

impl ToSql for Mention {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Mention::Action(id) => Ok(ToSqlOutput::from(id.0.to_be_bytes().to_vec())),
            Mention::Agent(name) => name.as_str().to_sql(),
            Mention::Task(name) => name.as_str().to_sql(),
        }
    }
}

/// What the writer knows of the block that it is writing.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    at_hand: Option<AtHand>,
}

#[derive(Debug)]
struct AtHand {
    n: u64,
    walls: Option<(WallTime, WallTime)>,
    mentions: BTreeSet<Mention>,
}

impl AtHand {
    fn new(n: u64) -> AtHand {
        AtHand {
            n,
            walls: None,
            mentions: BTreeSet::new(),
        }
    }

    fn note(&mut self, wall: WallTime, about: About<'_>) {
        let (least, greatest) = self.walls.unwrap_or((wall, wall));
        self.walls = Some((least.min(wall), greatest.max(wall)));
        if let Some(action) = about.action
            && !self.mentions.insert(Mention::Action(action))
        {
            // Its agent and its task are the same in all its records.
            return;
        }
        self.mentions
            .extend(about.agent.cloned().map(Mention::Agent));
        self.mentions.extend(about.task.cloned().map(Mention::Task));
    }
}

impl Blocks {
    /// Notes what the record with this number is about, right before it is written.
    pub(crate) fn note(
        &mut self,
        db: &Connection,
        seq: Seq,
        wall: WallTime,
        about: About<'_>,
    ) -> Result<(), Error> {
        if self.at_hand.is_none() {
            self.read_again(db, seq)?;
        }
        self.turn_to(db, seq)?.note(wall, about);
        Ok(())
    }

    /// What is in memory may not be what is stored.
    pub(crate) fn let_go(&mut self) {
        self.at_hand = None;
    }

    /// The block of a record; whichever was at hand before it is summed up.
    fn turn_to(&mut self, db: &Connection, seq: Seq) -> Result<&mut AtHand, Error> {
        let n = seq.0 / BLOCK;
        if let Some(full) = self.at_hand.take_if(|at_hand| at_hand.n != n) {
            sum_up(db, &full)?;
        }
        Ok(self.at_hand.get_or_insert_with(|| AtHand::new(n)))
    }

    /// Notes again all records before this one that are in no summed-up block.
    fn read_again(&mut self, db: &Connection, before: Seq) -> Result<(), Error> {
        let sql = "SELECT seq, wall, action, agent, task FROM audit_leaf
            WHERE seq >= ?1 AND seq < ?2 AND event IS NOT NULL ORDER BY seq";
        let from = Col(summed_up(db)?);
        for noted in rows(db, sql, (from, Col(before.0)), Noted::read)? {
            let about = About {
                action: noted.action,
                agent: noted.agent.as_ref(),
                task: noted.task.as_ref(),
            };
            self.turn_to(db, noted.seq)?.note(noted.wall, about);
        }
        Ok(())
    }
}

/// What is noted of a record, read from its row.
struct Noted {
    seq: Seq,
    wall: WallTime,
    action: Option<ActionId>,
    agent: Option<Agent>,
    task: Option<Task>,
}

impl Noted {
    fn read(columns: Columns<'_, '_>) -> Result<Noted, Error> {
        Ok(Noted {
            seq: Seq(columns.col("seq")?),
            wall: columns.col("wall")?,
            action: columns.maybe("action")?,
            agent: columns.maybe_name("agent", Agent::new)?,
            task: columns.maybe_name("task", Task::new)?,
        })
    }
}

fn sum_up(db: &Connection, block: &AtHand) -> Result<(), Error> {
    let (least, greatest) = block.walls.unzip();
    db.prepare_cached("INSERT INTO journal_block (n, least, greatest) VALUES (?1, ?2, ?3)")?
        .execute((Col(block.n), least.map(Col), greatest.map(Col)))?;
    let mut insert =
        db.prepare_cached("INSERT INTO journal_mention (what, name, block) VALUES (?1, ?2, ?3)")?;
    for mention in &block.mentions {
        insert.execute((mention.what(), mention, Col(block.n)))?;
    }
    Ok(())
}

/// The first record that is in no summed-up block.
fn summed_up(db: &Connection) -> Result<u64, Error> {
    let sql = "SELECT max(n) AS n FROM journal_block";
    let last = row(db, sql, (), |columns| columns.maybe::<u64>("n"))?.flatten();
    Ok(last.map_or(0, |last| (last + 1) * BLOCK))
}

/// What a search knows of the blocks that it wants.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) mentions: Vec<Mention>,
    pub(crate) from: Option<WallTime>,
    pub(crate) until: Option<WallTime>,
}

impl Wanted {
    /// Shows every stretch of the log between two records that may hold what is
    /// wanted, in order, until it is enough.
    pub(crate) fn each_stretch(
        &self,
        db: &Connection,
        between: Range<u64>,
        order: Order,
        mut look: impl FnMut(Range<u64>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        if self.is_everything() || !has_blocks(db)? {
            return look(between).map(drop);
        }
        let summed_up = summed_up(db)?;
        let rest = between.start.max(summed_up)..between.end;
        if order == Order::Descending && look(rest.clone())?.is_break() {
            return Ok(());
        }
        let mut filter = Filter::default();
        filter.equal("n >= ?", Some(Col(between.start / BLOCK)));
        filter.equal("n <= ?", Some(Col(between.end / BLOCK)));
        filter.equal("greatest >= ?", self.from.map(Col));
        filter.equal("least < ?", self.until.map(Col));
        for mention in &self.mentions {
            let of = "n IN (SELECT block FROM journal_mention WHERE what = ? AND name = ?)";
            filter.both(of, mention.what(), mention.clone());
        }
        let sql = format!(
            "SELECT n FROM journal_block {} ORDER BY n {}",
            filter.clause(),
            order.sql()
        );
        let mut statement = db.prepare_cached(&sql)?;
        let mut blocks = statement.query(params_from_iter(filter.values))?;
        while let Some(block) = blocks.next()? {
            let first = Columns(block).col::<u64>("n")? * BLOCK;
            let stretch = between.start.max(first)..between.end.min(first + BLOCK);
            if look(stretch)?.is_break() {
                return Ok(());
            }
        }
        if order == Order::Ascending {
            return look(rest).map(drop);
        }
        Ok(())
    }

    fn is_everything(&self) -> bool {
        self.mentions.is_empty() && self.from.is_none() && self.until.is_none()
    }
}

/// A reader may meet a database that nobody has brought up to this form yet; its
/// indexes know every record.
fn has_blocks(db: &Connection) -> Result<bool, Error> {
    let sql = "SELECT 1 AS n FROM sqlite_schema WHERE name = 'journal_block'";
    Ok(row(db, sql, (), |_| Ok(()))?.is_some())
}
