//! The record store: what writes leave behind, and what a look-up can find.
//!
//! | call | effect |
//! |---|---|
//! | `POST /records` `{"external_ref": …, …}` | creates a record, 201 |
//! | `GET /records?key=…` `?external_ref=…` `?limit=&after=` | `{"items": […], "next": …}` |
//! | `GET /records/{id}` | the record, or 404 |
//! | `DELETE /records/{id}` | deletes it, 204; absent, 404 |
//! | `POST /invites` | sends an invitation, 201; takes no key and can't be looked up |
//! | `POST /counters/{name}` | adds one, 200; takes no key |
//! | `GET /counters/{name}` | reads it |
//!
//! A record exists from the moment at which its call is carried out and is
//! visible to look-ups a configured lag later, as with a replica. Worked
//! example: lag 1 s, service 0.3 s; created by a call at 10.0 s, it exists at
//! 10.3 s, a look-up at 11.2 s finds nothing, one at 11.3 s finds it.

use std::collections::BTreeMap;

use rategov_core::time::{Moment, Span};
use serde_json::{Map, Value, json};

use super::ledger::EffectKind;
use super::message::{Reply, Request};

/// Most records, invitations or counters that are kept.
pub const RECORDS_MAX: usize = 100_000;
/// Largest page of a list, and the default.
const PAGE_MAX: usize = 100;

/// A call as the store sees it.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// When it arrives, which is when a look-up looks.
    pub now: Moment,
    /// When it is carried out.
    pub done_at: Moment,
    /// How much later a record can be seen.
    pub lag: Span,
    /// Its idempotency key, if keys are honoured.
    pub key: Option<&'a str>,
    /// The request.
    pub request: &'a Request,
}

/// An answer, and what it changed: kind and name.
pub type Result = (Reply, Option<(EffectKind, String)>);

#[derive(Clone, Debug)]
struct Record {
    made_at: Moment,
    gone_at: Option<Moment>,
    key: Option<String>,
    json: Value,
}

/// Records, invitations and counters of a provider.
#[derive(Clone, Debug)]
pub struct Records {
    capacity: usize,
    /// By number, which is the order of creation.
    records: BTreeMap<u64, Record>,
    next: u64,
    invites: u64,
    counters: BTreeMap<String, Vec<Moment>>,
}

impl Default for Records {
    fn default() -> Records {
        Records::new(RECORDS_MAX)
    }
}

impl Records {
    /// An empty store for at most `capacity` records and as many counted ups.
    pub fn new(capacity: usize) -> Records {
        let (records, counters) = (BTreeMap::new(), BTreeMap::new());
        Records {
            capacity,
            records,
            next: 0,
            invites: 0,
            counters,
        }
    }

    /// Records that exist at `now`, deleted ones apart.
    pub fn count(&self, now: Moment) -> usize {
        let exists = |r: &&Record| r.made_at <= now && r.gone_at.is_none_or(|at| now < at);
        self.records.values().filter(exists).count()
    }

    /// Invitations that were sent.
    pub fn invites(&self) -> u64 {
        self.invites
    }

    /// `POST /records`.
    pub fn create(&mut self, work: &Work<'_>) -> Result {
        if self.records.len() >= self.capacity {
            return (self.full(), None);
        }
        self.next += 1;
        let id = name_of(self.next);
        let mut json = match work.request.json() {
            Value::Object(map) => map.clone(),
            Value::Null => Map::new(),
            other => Map::from_iter([("value".to_owned(), other.clone())]),
        };
        json.insert("id".to_owned(), id.clone().into());
        json.insert("object".to_owned(), "record".into());
        json.insert("idempotency_key".to_owned(), work.key.into());
        let json = Value::Object(json);
        let mut reply = Reply::json(201, &json);
        reply.fields.push("location", format!("/records/{id}"));
        let key = work.key.map(str::to_owned);
        let record = Record {
            made_at: work.done_at,
            gone_at: None,
            key,
            json,
        };
        self.records.insert(self.next, record);
        (reply, Some((EffectKind::Created, id)))
    }

    /// `GET /records`.
    pub fn list(&self, work: &Work<'_>) -> Result {
        let head = &work.request.head;
        let (key, external) = (head.query("key"), head.query("external_ref"));
        let limit = head
            .query("limit")
            .and_then(|n| n.parse().ok())
            .unwrap_or(PAGE_MAX);
        let limit: usize = limit.clamp(1, PAGE_MAX);
        let after = head
            .query("after")
            .and_then(|id| number_of(&id))
            .unwrap_or(0);
        let wanted = |r: &Record| {
            seen(r, work)
                && key.as_ref().is_none_or(|k| r.key.as_ref() == Some(k))
                && external
                    .as_ref()
                    .is_none_or(|e| r.json["external_ref"] == e.as_str())
        };
        let mut found = self.records.range(after + 1..).filter(|(_, r)| wanted(r));
        let items: Vec<&Value> = found.by_ref().take(limit).map(|(_, r)| &r.json).collect();
        let last = items.last().map(|last| last["id"].clone());
        let next = found.next().and(last);
        (
            Reply::json(200, &json!({ "items": items, "next": next })),
            None,
        )
    }

    /// `GET /records/{id}`.
    pub fn get(&self, work: &Work<'_>, id: &str) -> Result {
        match number_of(id)
            .and_then(|n| self.records.get(&n))
            .filter(|r| seen(r, work))
        {
            Some(record) => (Reply::json(200, &record.json), None),
            None => (missing(id), None),
        }
    }

    /// `DELETE /records/{id}`. The store itself has no lag: what was created is deleted.
    pub fn delete(&mut self, work: &Work<'_>, id: &str) -> Result {
        let record = number_of(id).and_then(|n| self.records.get_mut(&n));
        match record.filter(|r| r.made_at <= work.now && r.gone_at.is_none()) {
            Some(record) => {
                record.gone_at = Some(work.done_at);
                (
                    Reply::empty(204),
                    Some((EffectKind::Deleted, id.to_owned())),
                )
            }
            None => (missing(id), None),
        }
    }

    /// `POST /invites`.
    pub fn invite(&mut self) -> Result {
        self.invites += 1;
        let id = format!("inv_{}", self.invites);
        let reply = Reply::json(201, &json!({ "id": id, "object": "invite", "sent": true }));
        (reply, Some((EffectKind::Invited, id)))
    }

    /// `POST /counters/{name}`.
    pub fn count_up(&mut self, work: &Work<'_>, name: &str) -> Result {
        let counted: usize = self.counters.values().map(Vec::len).sum();
        if counted >= self.capacity {
            return (self.full(), None);
        }
        let times = self.counters.entry(name.to_owned()).or_default();
        times.push(work.done_at);
        let reply = counter_json(name, times.len());
        (reply, Some((EffectKind::Counted, name.to_owned())))
    }

    /// `GET /counters/{name}`.
    pub fn counter(&self, work: &Work<'_>, name: &str) -> Result {
        let visible = |at: &&Moment| **at + work.lag <= work.now;
        let times = self
            .counters
            .get(name)
            .map(|t| t.iter().filter(visible).count());
        (counter_json(name, times.unwrap_or(0)), None)
    }

    fn full(&self) -> Reply {
        let message = format!(
            "the store holds {} entries and takes no more",
            self.capacity
        );
        Reply::json(
            507,
            &json!({"error": {"code": "store_full", "message": message}}),
        )
    }
}

/// Whether a look-up that arrives now sees the record.
fn seen(record: &Record, work: &Work<'_>) -> bool {
    let since = |at: Moment| at + work.lag <= work.now;
    since(record.made_at) && !record.gone_at.is_some_and(since)
}

fn counter_json(name: &str, value: usize) -> Reply {
    Reply::json(
        200,
        &json!({ "name": name, "object": "counter", "value": value }),
    )
}

fn missing(id: &str) -> Reply {
    let message = format!("no record {id:?}");
    Reply::json(
        404,
        &json!({"error": {"code": "not_found", "message": message}}),
    )
}

fn name_of(number: u64) -> String {
    format!("rec_{number}")
}

fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix("rec_")?.parse().ok()
}

#[cfg(test)]
mod tests;
