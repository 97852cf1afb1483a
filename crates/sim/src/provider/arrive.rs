//! One call on its way through the three doors: who calls, what the quota says,
//! what the script wants, what the service does; and the plan that follows.

use std::collections::BTreeMap;

use rategov_core::time::{Moment, Span};

use super::config::{Gzip, Strangers};
use super::draw::Purpose;
use super::fault::{Asked, Chosen, Conduct, Effect, Fault, Form, TemplateTimes};
use super::ledger::{Arrival, EffectEntry, EffectKind, Verdict, label_of, marks_of};
use super::message::{Body, Fields, Reply, Request};
use super::plan::{self, Act, Delivery, Plan};
use super::quota::{Caller, Load, Weighed, wait_of};
use super::service::{Call, Route, Served};
use super::shapes::{self, Api, Dialect, Maker};
use super::spoken::{self, Stage};
use super::usage::{Usage, load_of};
use super::{Open, Provider, Ticket, coding};

/// Fields in which callers put their credentials.
const CREDENTIAL_FIELDS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// Who calls, as far as the provider can tell.
struct Identity {
    secret: String,
    label: String,
    /// `None` for a stranger that is not let in.
    account: Option<String>,
}

/// A call and what is known of it.
struct Visit<'a> {
    ticket: Ticket,
    now: Moment,
    request: &'a Request,
    dialect: Dialect,
    who: Identity,
    key: Option<String>,
    weighed: Weighed,
}

impl Provider {
    /// A whole request has arrived: counts it, carries it out as far as it is to
    /// be, and says what to do with the connection.
    ///
    /// Time never goes back between calls. Cost: O(rules · log counters + steps).
    pub fn arrive(&mut self, now: Moment, request: &Request) -> Plan {
        let head = &request.head;
        let who = self.identify(&head.fields);
        let load = load_of(Api::of(head), request, self.config.cached_permille);
        let mut visit = Visit {
            ticket: Ticket {
                no: self.ledger.next_no(),
                epoch: self.epoch,
            },
            now,
            request,
            dialect: Dialect::of(head),
            weighed: self.weigh(now, request, &who, load),
            who,
            key: head.fields.get(&self.config.key_field).map(str::to_owned),
        };
        let mut usage = None;
        let (plan, verdict) = match (&visit.who.account, &visit.weighed.refusal) {
            (None, _) => {
                let reply = visit.dialect.error(401, "the credential is not valid");
                (
                    self.at_once(&visit, reply),
                    Verdict::Refused("credential".to_owned()),
                )
            }
            (Some(_), Some(refusal)) => {
                let message = format!("the limit {:?} is reached", refusal.rule);
                let verdict = Verdict::Refused(refusal.rule.clone());
                let wait = wait_of(refusal, now);
                (
                    self.at_once(&visit, visit.dialect.refusal(429, &message, wait)),
                    verdict,
                )
            }
            (Some(_), None) => {
                let chosen = self.ask_script(&visit);
                let verdict = verdict(chosen.as_ref().map(|c| &c.conduct));
                let (plan, taken) = self.served(&visit, chosen);
                usage = taken;
                (plan, verdict)
            }
        };
        let status = plan.acts.iter().find_map(|act| match act {
            Act::Head(head) => Some(head.status),
            _ => None,
        });
        let (first, last) = plan.spans();
        let open = Open {
            holds: std::mem::take(&mut visit.weighed.holds),
            load,
            usage,
            produced: (now + first, now + last),
        };
        self.write_down(visit, verdict, status);
        self.open.insert(plan.ticket.no, open);
        plan
    }

    fn weigh(&mut self, now: Moment, request: &Request, who: &Identity, load: Load) -> Weighed {
        let head = &request.head;
        let endpoint = Route::of(head).endpoint(head);
        let Some(account) = &who.account else {
            return Weighed::default();
        };
        let caller = Caller {
            account,
            credential: &who.label,
            model: shapes::model_of(request).unwrap_or_default(),
            endpoint: &endpoint,
            call: (&head.method, head.path()),
            load,
        };
        self.quotas.weigh(now, &caller)
    }

    fn ask_script(&mut self, visit: &Visit<'_>) -> Option<Chosen> {
        let head = &visit.request.head;
        let asked = Asked {
            call: (&head.method, head.path()),
            fields: &head.fields,
            body: visit.request.body(),
            in_flight: self.in_flight(),
        };
        self.script.take(visit.now, &asked)
    }

    fn write_down(&mut self, visit: Visit<'_>, verdict: Verdict, status: Option<u16>) {
        let head = &visit.request.head;
        self.ledger.arrive(Arrival {
            no: visit.ticket.no,
            at: visit.now,
            method: head.method.clone(),
            target: head.target.clone(),
            key: visit.key,
            credential: visit.who.label,
            account: visit.who.account.unwrap_or_default(),
            marks: marks_of(&head.fields),
            body_sha256: visit.request.sha256().to_owned(),
            body_bytes: visit.request.body().len() as u64,
            in_flight: self.in_flight(),
            verdict,
            status,
            tokens: None,
            charged: BTreeMap::new(),
            ended: None,
        });
    }

    /// Serves a call that was admitted, as the script wants it. Gives what a model
    /// did for it, too.
    fn served(&mut self, visit: &Visit<'_>, chosen: Option<Chosen>) -> (Plan, Option<Usage>) {
        let (conduct, remaining) = chosen.map(|c| (c.conduct, c.remaining)).unwrap_or_default();
        let (no, request) = (visit.ticket.no.0, visit.request);
        let times = self.config.service;
        let work = self
            .config
            .seed
            .span(Purpose::Service, no, times.min, times.max);
        let wait = work + conduct.delay;
        let done_at = visit.now + wait;
        let maker = Maker {
            seed: self.config.seed,
            created: self.config.wall_at_start,
            pause: self.config.stream_pause,
            stream: conduct.stream,
            length: self.config.length,
            cached_permille: self.config.cached_permille,
        };
        let call = Call {
            now: visit.now,
            done_at,
            request,
            account: visit.who.account.as_deref().unwrap_or_default(),
            key: visit.key.as_deref(),
            number: no,
            maker,
        };
        let times = TemplateTimes {
            wall: self.wall(done_at),
            remaining,
        };
        let stage = Stage {
            maker,
            request,
            secret: &visit.who.secret,
            times,
        };
        let spoken = |ordinary: Option<Reply>| {
            let ordinary = ordinary.unwrap_or_else(|| Reply::empty(200));
            match &conduct.answer {
                Some(answer) => spoken::overlaid(answer, ordinary, &stage),
                None => ordinary,
            }
        };
        let rules = (&self.config.keys, self.config.lag);
        let Served { mut reply, effect } =
            self.service
                .serve(&call, rules, effect_of(&conduct), spoken);
        let worked = matches!(effect, Some((EffectKind::Generated, _)));
        let usage = worked.then(|| maker.usage(request));
        if let Some((kind, target)) = effect {
            self.ledger.effect(EffectEntry {
                at: done_at,
                arrival: visit.ticket.no,
                kind,
                key: visit.key.clone(),
                operation: request.json()["external_ref"].as_str().map(str::to_owned),
                target,
            });
        }
        self.add_fields(visit, done_at, &mut reply);
        if let Some(Fault::ErrorEvent { after, kind }) = &conduct.fault {
            reply = plan::broken_off(reply, *after, shapes::error_event(request, kind));
        }
        let delivery = Delivery {
            wait,
            held: conduct.held,
            lasts: conduct.lasts,
            fault: conduct.fault.as_ref(),
            head_only: request.head.method == "HEAD",
        };
        let reply = self.coded(reply, request, &conduct);
        (Plan::new(visit.ticket, reply, &delivery), usage)
    }

    fn coded(&self, reply: Reply, request: &Request, conduct: &Conduct) -> Reply {
        let accepted = request.head.fields.has_token("accept-encoding", "gzip");
        match (conduct.gzip, self.config.gzip, accepted) {
            (true, ..) => coding::gzip(coding::recut(reply)),
            (false, Gzip::WhenAccepted, true) => coding::gzip(reply),
            (false, ..) => reply,
        }
    }

    /// An answer that takes no time.
    fn at_once(&self, visit: &Visit<'_>, mut reply: Reply) -> Plan {
        self.add_fields(visit, visit.now, &mut reply);
        let delivery = Delivery {
            wait: Span::ZERO,
            held: false,
            lasts: None,
            fault: None,
            head_only: visit.request.head.method == "HEAD",
        };
        Plan::new(visit.ticket, reply, &delivery)
    }

    /// Adds the fields that every answer has, unless the script set them.
    fn add_fields(&self, visit: &Visit<'_>, at: Moment, reply: &mut Reply) {
        let account = visit.who.account.clone().unwrap_or_default();
        let id = format!("req_{:08}", visit.ticket.no.0);
        let mut fields = Fields::new();
        fields.push("date", Form::HttpDate.write(self.wall(at)));
        match visit.dialect {
            Dialect::OpenAi => {
                fields.push("x-request-id", id);
                fields.push("openai-organization", account);
            }
            Dialect::Anthropic => {
                fields.push("request-id", id);
                fields.push("anthropic-organization-id", account);
            }
            Dialect::Gemini | Dialect::Plain => fields.push("x-request-id", id),
        }
        let now = (visit.now, self.wall(visit.now));
        let limits = self
            .config
            .limit_fields
            .write(now, visit.dialect, &visit.weighed);
        for (name, value) in fields.iter().chain(limits.iter()) {
            if reply.fields.get(name).is_none() {
                reply.fields.push(name, value);
            }
        }
        if matches!(reply.status, 204 | 304) {
            reply.body = Body::Whole(bytes::Bytes::new());
        }
    }

    fn identify(&self, fields: &Fields) -> Identity {
        let secret = CREDENTIAL_FIELDS
            .iter()
            .find_map(|name| fields.get(name))
            .unwrap_or("");
        let secret = secret.strip_prefix("Bearer ").unwrap_or(secret).to_owned();
        let label = if secret.is_empty() {
            "anonymous".to_owned()
        } else {
            label_of(&secret)
        };
        let account = match (self.config.accounts.get(&label), &self.config.strangers) {
            (Some(account), _) => Some(account.clone()),
            (None, Strangers::JoinAccount(account)) => Some(account.clone()),
            (None, Strangers::Unauthorised) => None,
        };
        Identity {
            secret,
            label,
            account,
        }
    }
}

/// Whether the call is carried out: the fault says so first, then the answer.
fn effect_of(conduct: &Conduct) -> Effect {
    let answer = conduct.answer.as_ref().map(|a| a.effect);
    let fault = conduct.fault.as_ref().and_then(Fault::effect);
    fault.or(answer).unwrap_or(Effect::Applied)
}

fn verdict(conduct: Option<&Conduct>) -> Verdict {
    let status = conduct.and_then(|c| c.answer.as_ref()).map(|a| a.status);
    match (conduct.and_then(|c| c.fault.as_ref()), status) {
        (Some(fault), _) => Verdict::Faulted(fault.word().to_owned()),
        (None, Some(status)) if status >= 300 => Verdict::Faulted(status.to_string()),
        (None, _) => Verdict::Accepted,
    }
}
