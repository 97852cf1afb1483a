//! How the provider treats idempotency keys: as configured, since real ones
//! differ so much that no single rule is safe to assume.
//!
//! | the key | answer |
//! |---|---|
//! | new, or older than its lifetime, or not honoured | carry the call out |
//! | known, same call, finished | the stored answer, marked `idempotent-replayed: true` |
//! | known, same call, still running | 409, `idempotency_key_in_use` |
//! | known, another call | 422, `idempotency_key_reused`; or the first answer, if not compared |
//!
//! What is stored: every answer of a call that was carried out (Stripe's way:
//! a 500 comes back as a 500), or successes only (Checkout.com's way: after a
//! 500 the same key acts again).

use std::collections::{BTreeMap, VecDeque};

use rategov_core::time::{Moment, Span};
use serde::Deserialize;

use super::message::{Reply, Request};

/// Most keys that are remembered; beyond it the oldest is forgotten.
pub const KEYS_MAX: usize = 100_000;

/// Which answers a key keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stores {
    /// Whatever a call that was carried out was answered.
    All,
    /// Only 2xx; after anything else the key is free again.
    Successes,
}

/// Whether keys mean anything, and whether a reused one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Honour {
    /// A key with another payload is refused.
    Compared,
    /// A key with another payload silently gets the first answer.
    Uncompared,
    /// Keys are ignored: what is asked twice is done twice.
    Ignored,
}

/// The provider's rules for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRules {
    /// Whether keys are honoured.
    pub honour: Honour,
    /// Which answers are kept.
    pub stores: Stores,
    /// How long, from the first arrival.
    pub lifetime: Span,
}

impl Default for KeyRules {
    fn default() -> KeyRules {
        KeyRules {
            honour: Honour::Compared,
            stores: Stores::All,
            lifetime: Span::from_secs(24 * 3_600),
        }
    }
}

/// What a key says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: carry it out.
    New,
    /// It was carried out; this was the answer.
    Stored(Reply),
    /// It is being carried out.
    Running,
    /// The key was used for another call.
    Reused,
}

#[derive(Clone, Debug)]
struct Entry {
    digest: String,
    first_at: Moment,
    done_at: Moment,
    reply: Reply,
}

type Place = (String, String);

/// The keys of all accounts.
#[derive(Clone, Debug)]
pub struct Keys {
    capacity: usize,
    entries: BTreeMap<Place, Entry>,
    order: VecDeque<(Place, Moment)>,
}

impl Default for Keys {
    fn default() -> Keys {
        Keys::new(KEYS_MAX)
    }
}

impl Keys {
    /// No keys, and room for `capacity`.
    pub fn new(capacity: usize) -> Keys {
        Keys {
            capacity,
            entries: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// What is known of `key` in `account` at `now`.
    pub fn known(&self, now: Moment, rules: &KeyRules, place: &Place, request: &Request) -> Known {
        if rules.honour == Honour::Ignored {
            return Known::New;
        }
        match self.entries.get(place) {
            None => Known::New,
            Some(e) if now.since(e.first_at) >= rules.lifetime => Known::New,
            Some(e) if rules.honour == Honour::Compared && e.digest != digest_of(request) => {
                Known::Reused
            }
            Some(e) if now < e.done_at => Known::Running,
            Some(e) if rules.stores == Stores::Successes && !e.reply.is_success() => Known::New,
            Some(e) => {
                let mut reply = e.reply.clone();
                reply.fields.set("idempotent-replayed", "true");
                Known::Stored(reply)
            }
        }
    }

    /// Remembers that the call under `key` runs from `now` to `done_at` and ends
    /// with `reply`.
    pub fn remember(
        &mut self,
        (now, done_at): (Moment, Moment),
        place: Place,
        request: &Request,
        reply: Reply,
    ) {
        let entry = Entry {
            digest: digest_of(request),
            first_at: now,
            done_at,
            reply,
        };
        self.order.push_back((place.clone(), now));
        self.entries.insert(place, entry);
        while self.order.len() > self.capacity {
            let Some((oldest, at)) = self.order.pop_front() else {
                return;
            };
            // A key that began a second life stays.
            if self.entries.get(&oldest).is_some_and(|e| e.first_at == at) {
                self.entries.remove(&oldest);
            }
        }
    }
}

/// What makes two calls the same: method, target and body.
fn digest_of(request: &Request) -> String {
    let head = format!("{} {}\n", request.head.method, request.head.target);
    super::ledger::sha256(&[head.as_bytes(), request.body()].concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1_000)
    }

    fn place() -> Place {
        ("main".to_owned(), "k".to_owned())
    }

    /// What is known at each moment after one call at 0 that took 100 ms.
    fn check(rules: KeyRules, status: u16, asked: &[(u64, &str, &str)]) {
        let mut keys = Keys::default();
        let call = Request::of("POST", "/records", &[], "body");
        let reply = Reply::json(status, &json!({"id": "rec_1"}));
        keys.remember((at(0), at(100)), place(), &call, reply);
        for (ms, body, expected) in asked {
            let call = Request::of("POST", "/records", &[], body);
            let got = match keys.known(at(*ms), &rules, &place(), &call) {
                Known::New => "new".to_owned(),
                Known::Running => "running".to_owned(),
                Known::Reused => "reused".to_owned(),
                Known::Stored(reply) => {
                    assert_eq!(reply.fields.get("idempotent-replayed"), Some("true"));
                    format!("stored {}", reply.status)
                }
            };
            assert_eq!(&got, expected, "{rules:?} at {ms} ms with {body:?}");
        }
    }

    #[test]
    fn a_key_runs_then_replays_then_expires() {
        let rules = KeyRules {
            lifetime: Span::from_secs(1),
            ..KeyRules::default()
        };
        check(
            rules,
            201,
            &[
                (99, "body", "running"),
                (100, "body", "stored 201"),
                (100, "other", "reused"),
                (999, "body", "stored 201"),
                (1_000, "body", "new"),
            ],
        );
    }

    #[test]
    fn a_stored_failure_is_replayed_only_where_all_is_stored() {
        check(KeyRules::default(), 500, &[(200, "body", "stored 500")]);
        let successes = KeyRules {
            stores: Stores::Successes,
            ..KeyRules::default()
        };
        check(
            successes,
            500,
            &[(50, "body", "running"), (200, "body", "new")],
        );
        check(successes, 201, &[(200, "body", "stored 201")]);
    }

    #[test]
    fn keys_can_be_uncompared_or_ignored() {
        let honour = |honour| KeyRules {
            honour,
            ..KeyRules::default()
        };
        check(
            honour(Honour::Uncompared),
            201,
            &[(200, "other", "stored 201")],
        );
        check(
            honour(Honour::Ignored),
            201,
            &[(50, "body", "new"), (200, "body", "new")],
        );
    }

    #[test]
    fn the_oldest_key_is_forgotten_at_the_bound() {
        let mut keys = Keys::new(3);
        let call = Request::of("POST", "/records", &[], "");
        for n in 0..=3 {
            let place = ("main".to_owned(), format!("k{n}"));
            keys.remember((at(0), at(0)), place, &call, Reply::empty(201));
        }
        let known = |n: usize| {
            let place = ("main".to_owned(), format!("k{n}"));
            keys.known(at(1), &KeyRules::default(), &place, &call)
        };
        assert_eq!(known(0), Known::New);
        assert!(matches!(known(1), Known::Stored(_)));
        assert_eq!(keys.entries.len(), 3);
    }
}
