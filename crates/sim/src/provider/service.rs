//! The ordinary service: which endpoint a call belongs to, and what carrying
//! it out answers and changes.
//!
//! | endpoint | kind | key honoured |
//! |---|---|---|
//! | `/records`, `/records/{id}` | the record store | yes |
//! | `/invites`, `/counters/{name}` | a write that can't be recognised again | no |
//! | OpenAI's and Anthropic's inference endpoints | generation | no |
//! | `/echo` | says what arrived | – |
//! | anything else | a GET is answered; a write is carried out and counted | yes |

use rategov_core::time::{Moment, Span};
use serde_json::json;

use super::fault::Effect;
use super::idempotency::{KeyRules, Keys, Known};
use super::ledger::EffectKind;
use super::message::{Reply, Request, RequestHead};
use super::records::{Records, Work};
use super::shapes::{Api, Dialect, Maker};

/// Where a call leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// A known model API.
    Api(Api),
    /// The collection of records.
    Records,
    /// One record.
    Record(&'a str),
    /// Invitations.
    Invites,
    /// One counter.
    Counter(&'a str),
    /// What arrived.
    Echo,
    /// Anything else.
    Other,
}

impl<'a> Route<'a> {
    /// The route of a call.
    pub(super) fn of(head: &'a RequestHead) -> Route<'a> {
        if let Some(api) = Api::of(head) {
            return Route::Api(api);
        }
        let mut segments = head.path().trim_start_matches('/').split('/');
        match (segments.next(), segments.next(), segments.next()) {
            (Some("records"), None | Some(""), None) => Route::Records,
            (Some("records"), Some(id), None) => Route::Record(id),
            (Some("invites"), None | Some(""), None) => Route::Invites,
            (Some("counters"), Some(name), None) => Route::Counter(name),
            (Some("echo"), ..) => Route::Echo,
            _ => Route::Other,
        }
    }

    /// The endpoint's template: `GET /records/{id}`.
    pub(super) fn endpoint(self, head: &RequestHead) -> String {
        let path = match self {
            Route::Api(api) => return api.endpoint().to_owned(),
            Route::Records => "/records",
            Route::Record(_) => "/records/{id}",
            Route::Invites => "/invites",
            Route::Counter(_) => "/counters/{name}",
            Route::Echo => "/echo",
            Route::Other => head.path(),
        };
        format!("{} {path}", head.method)
    }

    /// Whether an idempotency key means anything here.
    fn honours_keys(self) -> bool {
        match self {
            Route::Records | Route::Record(_) | Route::Other => true,
            Route::Api(_) | Route::Invites | Route::Counter(_) | Route::Echo => false,
        }
    }
}

/// One call to be served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    /// When it arrived.
    pub(super) now: Moment,
    /// When it is carried out.
    pub(super) done_at: Moment,
    /// The request.
    pub(super) request: &'a Request,
    /// The account.
    pub(super) account: &'a str,
    /// Its idempotency key.
    pub(super) key: Option<&'a str>,
    /// Its number, for names that must be unique.
    pub(super) number: u64,
    /// What makes texts.
    pub(super) maker: Maker,
}

/// An answer, and the effect that came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    /// The answer.
    pub(super) reply: Reply,
    /// Kind and name of what changed.
    pub(super) effect: Option<(EffectKind, String)>,
}

/// The provider's state, keys and records.
#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    /// The keys.
    keys: Keys,
    /// The store.
    records: Records,
}

impl Service {
    /// The store.
    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// Serves a call. If it is not to be carried out, nothing changes and the
    /// answer is `spoken(None)`. Otherwise `spoken` turns the ordinary answer into
    /// the one that is given, and that one is kept under the key.
    pub(super) fn serve(
        &mut self,
        call: &Call<'_>,
        (rules, lag): (&KeyRules, Span),
        effect: Effect,
        spoken: impl Fn(Option<Reply>) -> Reply,
    ) -> Served {
        if effect == Effect::Skipped {
            return Served {
                reply: spoken(None),
                effect: None,
            };
        }
        let route = Route::of(&call.request.head);
        let key = call
            .key
            .filter(|_| route.honours_keys() && !call.request.head.is_read());
        let place = key.map(|key| (call.account.to_owned(), key.to_owned()));
        let known = match &place {
            Some(place) => self.keys.known(call.now, rules, place, call.request),
            None => Known::New,
        };
        let dialect = Dialect::of(&call.request.head);
        let plain = |reply| Served {
            reply: spoken(Some(reply)),
            effect: None,
        };
        match known {
            Known::Stored(reply) => plain(reply),
            Known::Running => plain(key_error(dialect, 409, "idempotency_key_in_use")),
            Known::Reused => plain(key_error(dialect, 422, "idempotency_key_reused")),
            Known::New => {
                let (reply, effect) = self.carry_out(call, lag, route, key);
                let reply = spoken(Some(reply));
                if let (Some(place), true) = (place, effect.is_some()) {
                    let span = (call.now, call.done_at);
                    self.keys.remember(span, place, call.request, reply.clone());
                }
                Served { reply, effect }
            }
        }
    }

    fn carry_out(
        &mut self,
        call: &Call<'_>,
        lag: Span,
        route: Route<'_>,
        key: Option<&str>,
    ) -> (Reply, Option<(EffectKind, String)>) {
        let request = call.request;
        let work = Work {
            now: call.now,
            done_at: call.done_at,
            lag,
            key,
            request,
        };
        match (request.head.method.as_str(), route) {
            (_, Route::Api(api)) => {
                let reply = call.maker.answer(api, request);
                let worked = api.is_generation() && reply.is_success();
                let effect = worked.then(|| (EffectKind::Generated, api.endpoint().to_owned()));
                (reply, effect)
            }
            ("POST", Route::Records) => self.records.create(&work),
            ("GET" | "HEAD", Route::Records) => self.records.list(&work),
            ("GET" | "HEAD", Route::Record(id)) => self.records.get(&work, id),
            ("DELETE", Route::Record(id)) => self.records.delete(&work, id),
            ("POST", Route::Invites) => self.records.invite(),
            ("POST", Route::Counter(name)) => self.records.count_up(&work, name),
            ("GET" | "HEAD", Route::Counter(name)) => self.records.counter(&work, name),
            (_, Route::Echo) => (echo(request), None),
            ("OPTIONS", _) => (Reply::empty(204), None),
            (method, Route::Records | Route::Record(_) | Route::Invites | Route::Counter(_)) => {
                let message = format!("{method} is not allowed here");
                (Dialect::of(&request.head).error(405, &message), None)
            }
            ("GET" | "HEAD", Route::Other) => (
                Reply::json(200, &json!({"ok": true, "path": request.head.path()})),
                None,
            ),
            (method, Route::Other) => {
                let id = format!("op_{}", call.number);
                let reply = Reply::json(200, &json!({"id": id, "object": "operation", "ok": true}));
                let target = format!("{method} {}", request.head.path());
                (reply, Some((EffectKind::Written, target)))
            }
        }
    }
}

/// What arrived, as it arrived: the caller's own credential included, since
/// this answers the question whether it is the right one.
fn echo(request: &Request) -> Reply {
    let fields: Vec<[&str; 2]> = request.head.fields.iter().map(|(n, v)| [n, v]).collect();
    Reply::json(
        200,
        &json!({
            "method": request.head.method,
            "target": request.head.target,
            "headers": fields,
            "body_sha256": request.sha256(),
            "body_bytes": request.body().len()
        }),
    )
}

fn key_error(dialect: Dialect, status: u16, code: &str) -> Reply {
    let message = match status {
        409 => "a call with this idempotency key is still running",
        _ => "this idempotency key was used for another call",
    };
    match dialect {
        Dialect::Plain => Reply::json(
            status,
            &json!({"error": {"code": code, "message": message}}),
        ),
        _ => dialect.error(status, message),
    }
}
