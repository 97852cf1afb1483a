//! One scenario, from its report to what was seen of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rategov_sim::provider::config::Config;
use rategov_sim::provider::doors::WrittenDoors;
use rategov_sim::provider::fault::WrittenStep;
use rategov_sim::provider::ledger::Arrival;
use serde_json::{Value, json};

use crate::caller::{Call, Seen};
use crate::policy::Setup;
use crate::report::{Client, Report};
use crate::world::{self, WALL_AT_START, World};

/// What an answer takes at least. Time passes only at rest, so calls that are made
/// at one moment have all arrived before the first of them is answered, in whatever
/// order the journal's thread lets them go.
const ROUND_TRIP_MS: u64 = 2;
/// How long the world is watched after the last caller has its answer.
const WATCHED_AFTER_MS: u64 = 3_000;

/// What a scenario is played with.
#[derive(Clone, Debug)]
pub(crate) struct Play {
    /// The governor's configuration.
    pub(crate) setup: Setup,
    /// The provider's answers.
    pub(crate) upstream: Vec<WrittenStep>,
    /// The calls.
    pub(crate) clients: Vec<Client>,
    /// The provider's nature.
    pub(crate) provider: Config,
    /// What the provider does with connections.
    pub(crate) doors: Option<WrittenDoors>,
    /// When the governor's own account of things is noted, besides at the end.
    pub(crate) glances_ms: Vec<u64>,
    /// What a person does, and when.
    pub(crate) person: Vec<(u64, Person)>,
    /// Until when the world is watched at least.
    pub(crate) until_ms: u64,
}

/// What a person does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Person {
    /// Reopens every scope that is closed.
    Resumes,
}

/// The governor's own account of things at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Glance {
    /// `GET /api/v1/status`.
    pub(crate) status: Value,
    /// `GET /api/v1/queue`.
    pub(crate) queue: Value,
}

/// What was seen of a scenario.
pub(crate) struct Played {
    /// What the callers saw, in the order of the report's clients.
    pub(crate) seen: Vec<Seen>,
    /// What arrived at the provider.
    pub(crate) arrivals: Vec<(f64, Arrival)>,
    /// Writes that were carried out.
    pub(crate) effects: usize,
    /// The moments looked at.
    pub(crate) glances: Vec<Glance>,
    /// The last of them, after the end.
    pub(crate) last: Glance,
    /// All actions, newest first.
    pub(crate) actions: Vec<Value>,
    /// All questions, the open ones first.
    pub(crate) escalations: Vec<Value>,
    /// The journal's lines, newest first: event and text.
    pub(crate) journal: Vec<(String, String)>,
    /// Sends of each agent by the journal, those apart that never left.
    pub(crate) sends: BTreeMap<String, u64>,
    /// The governor's log.
    pub(crate) log: String,
    /// The metrics.
    pub(crate) metrics: String,
    /// Every byte that the governor keeps, and every page it shows.
    pub(crate) kept: Vec<u8>,
}

impl Played {
    /// What the callers of one of the report's clients saw.
    pub(crate) fn of(&self, client: usize) -> Vec<&Seen> {
        self.seen
            .iter()
            .filter(|seen| seen.client == client)
            .collect()
    }

    /// When each arrival came.
    pub(crate) fn starts(&self) -> Vec<f64> {
        self.arrivals.iter().map(|(at, _)| *at).collect()
    }

    /// Arrivals that the provider answered with this status.
    pub(crate) fn answered_with(&self, status: u16) -> usize {
        self.arrivals
            .iter()
            .filter(|(_, it)| it.status == Some(status))
            .count()
    }

    /// For each arrival but the first: the time since the answer before it. Only
    /// meaningful where one operation is under way at a time.
    pub(crate) fn gaps(&self) -> Vec<f64> {
        let ended = |at: f64, arrival: &Arrival| match arrival.ended {
            Some(end) => at + end.at.since(arrival.at).as_secs_f64() * 1_000.0,
            None => at,
        };
        self.arrivals
            .windows(2)
            .map(|pair| pair[1].0 - ended(pair[0].0, &pair[0].1))
            .collect()
    }

    /// Questions to a person about this.
    pub(crate) fn asked(&self, trigger: &str) -> usize {
        self.escalations
            .iter()
            .filter(|it| it["trigger"] == trigger)
            .count()
    }
}

impl Play {
    /// A report as it is written.
    pub(crate) fn of(report: &Report) -> Play {
        let scenario = &report.scenario;
        let provider = Config {
            wall_at_start: WALL_AT_START,
            ..Config::default()
        };
        Play {
            setup: Setup::of(report),
            upstream: scenario.upstream.clone(),
            clients: scenario.clients.clone(),
            provider,
            doors: None,
            glances_ms: Vec::new(),
            person: Vec::new(),
            until_ms: 0,
        }
    }

    /// The same with other answers of the provider.
    pub(crate) fn upstream(&mut self, answers: Value) {
        self.upstream = serde_json::from_value(answers).expect("answers of an upstream");
    }

    /// Plays it.
    pub(crate) fn run(self) -> Played {
        let (provider, setup) = (self.provider.clone(), self.setup.clone());
        world::play(provider, |at| setup.text(at), |world| self.in_world(world))
    }

    async fn in_world(self, world: Arc<World>) -> Played {
        let mut answers = self.upstream.clone();
        for step in &mut answers {
            step.delay_ms = step.delay_ms.max(ROUND_TRIP_MS);
        }
        world
            .provider
            .push_upstream(answers)
            .expect("a script that can be played");
        if let Some(doors) = self.doors {
            world.provider.change_doors(doors);
        }
        let mut calls = Vec::new();
        for (number, index) in self.order() {
            let client = &self.clients[number];
            let at_ms = client.at_ms + client.offset_ms(index);
            for agent in agents(client) {
                let call = self.call(&world, client, agent.as_deref());
                let world = Arc::clone(&world);
                let health = client.send == "GET health";
                calls.push(tokio::spawn(async move {
                    world.at(at_ms).await;
                    if health {
                        let mut seen = world.operator("GET", "/healthz", Value::Null).await;
                        (seen.client, seen.index) = (number, index);
                        return seen;
                    }
                    world.call((number, index), call).await
                }));
            }
        }
        let mut people = Vec::new();
        for (at_ms, person) in self.person.clone() {
            let world = Arc::clone(&world);
            people.push(tokio::spawn(async move {
                world.at(at_ms).await;
                person.act(&world).await;
            }));
        }
        let mut glances = Vec::new();
        for at_ms in &self.glances_ms {
            let (world, at_ms) = (Arc::clone(&world), *at_ms);
            glances.push(tokio::spawn(async move {
                world.at(at_ms).await;
                glance(&world).await
            }));
        }
        let mut seen = Vec::new();
        for call in calls {
            seen.push(call.await.expect("a call"));
        }
        seen.sort_by_key(|seen: &Seen| (seen.client, seen.index));
        for person in people {
            person.await.expect("a person");
        }
        let mut taken = Vec::new();
        for glance in glances {
            taken.push(glance.await.expect("a glance"));
        }
        let rest = world.now_ms() as u64 + WATCHED_AFTER_MS;
        world.at(rest.max(self.until_ms)).await;
        sum_up(&world, seen, taken).await
    }

    /// Clients and their calls in the order in which they are made: where several
    /// clients call at the same moment, in turn.
    fn order(&self) -> Vec<(usize, u64)> {
        let calls = |(number, client): (usize, &Client)| {
            (0..client.count())
                .map(move |index| (number, index))
                .collect::<Vec<_>>()
        };
        let mut order: Vec<(usize, u64)> =
            self.clients.iter().enumerate().flat_map(calls).collect();
        order.sort_by_key(|(number, index)| *index * 1_000 + *number as u64);
        order
    }

    /// The call of a client as it leaves.
    fn call(&self, world: &World, client: &Client, agent: Option<&str>) -> Call {
        let (method, target) = client.send.split_once(' ').unwrap_or(("GET", "/"));
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        // A part of an account's quota is a model of its own; else it is another account.
        let parts = self
            .setup
            .quotas
            .iter()
            .any(|(scope, ..)| scope.starts_with("model:"));
        let part = client.scope.as_deref();
        let key = match part.filter(|_| !parts) {
            Some(scope) => format!("key-of-{scope}"),
            None => format!("key-of-{}", client.cred.as_deref().unwrap_or("everybody")),
        };
        if !client.headers.contains_key("authorization") {
            add("authorization", &format!("Bearer {key}"));
        }
        if let Some(ms) = client.deadline_ms.or(self.setup.deadline_ms) {
            add("rategov-deadline", &(ms as f64 / 1_000.0).to_string());
        }
        if let Some(agent) = agent {
            add("rategov-agent", agent);
            // So that the provider's script can tell agents apart.
            add("x-agent", agent);
        }
        if let Some(priority) = &client.priority {
            add(
                "rategov-priority",
                if priority == "batch" {
                    "background"
                } else {
                    priority
                },
            );
        }
        if let Some(op) = &client.op {
            add("rategov-action", op);
        }
        for (name, value) in &client.headers {
            add(name, value);
        }
        let body = if matches!(method, "GET" | "HEAD") {
            Bytes::new()
        } else {
            body(client, parts)
        };
        if !body.is_empty() {
            add("content-type", "application/json");
        }
        let target = match client.send.strip_prefix("GET status of op ") {
            Some(op) => format!("/governor/v1/actions/{op}"),
            None => format!("/api{target}"),
        };
        Call {
            method: method.to_owned(),
            target,
            headers,
            body,
            chunked: client
                .body
                .as_deref()
                .is_some_and(|words| words.contains("chunked")),
            leaves_at: match (client.client_disconnects_at_ms, client.client_timeout_ms) {
                (Some(at), _) => Some(world.instant(at)),
                (None, Some(after)) => Some(world.instant(client.at_ms + after)),
                (None, None) => None,
            },
        }
    }
}

/// The agents of a client: `p1..p4 (four separate processes)` are four.
fn agents(client: &Client) -> Vec<Option<String>> {
    let Some(who) = &client.who else {
        return vec![None];
    };
    let name = who.split(" (").next().unwrap_or(who);
    match name.split_once("..") {
        Some((first, last)) => {
            let number = |text: &str| text[1..].parse::<u32>().unwrap_or(1);
            (number(first)..=number(last))
                .map(|n| Some(format!("{}{n}", &first[..1])))
                .collect()
        }
        None => vec![Some(name.replace(' ', "-"))],
    }
}

/// What a client sends, where it sends something.
fn body(client: &Client, parts: bool) -> Bytes {
    let words = client.body.as_deref().unwrap_or("the same");
    let (filling, size) = match words {
        "20 MB" => ("x", 20_000_000),
        "1 MB chunked" => ("x", 1_000_000),
        _ => (words, words.len()),
    };
    let text: String = filling.chars().cycle().take(size).collect();
    let part = client.scope.as_deref().filter(|_| parts);
    let part = part.and_then(|scope| scope.split('/').nth(1));
    let mut json = json!({
        "model": client.model.as_deref().or(part).unwrap_or("m-one"),
        "max_tokens": client.max_tokens.unwrap_or(100),
        "messages": [{ "role": "user", "content": text }],
        "input": "x",
    });
    if client.stream {
        json["stream"] = json!(true);
    }
    match client.graphql.as_deref() {
        Some("query") => json["query"] = json!("query { shop { name } }"),
        Some(_) => json["query"] = json!("mutation { noteCreate(text: \"x\") { id } }"),
        None => {}
    }
    Bytes::from(json.to_string())
}

impl Person {
    async fn act(self, world: &World) {
        match self {
            Person::Resumes => {
                let scopes = world.look("scopes").await;
                for scope in scopes["scopes"].as_array().into_iter().flatten() {
                    if scope["mode"] == "closed" {
                        let body = json!({ "scope": scope["scope"] });
                        let done = world.operator("POST", "/api/v1/scopes/resume", body).await;
                        assert_eq!(done.status, 200, "{}", done.shown());
                    }
                }
            }
        }
    }
}

async fn glance(world: &World) -> Glance {
    Glance {
        status: world.look("status").await,
        queue: world.look("queue").await,
    }
}

async fn sum_up(world: &World, seen: Vec<Seen>, glances: Vec<Glance>) -> Played {
    let list = |value: Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let last = glance(world).await;
    let actions = list(world.look("actions?limit=1000").await, "actions");
    let mut escalations = list(world.look("escalations?all=true").await, "escalations");
    for asked in &mut escalations {
        let id = asked["escalation"].as_str().unwrap_or_default().to_owned();
        *asked = world.look(&format!("escalations/{id}")).await;
    }
    let journal = world.look("journal?limit=10000").await;
    let metrics = world.operator("GET", "/metrics", Value::Null).await;
    let mut kept: Vec<u8> = Vec::new();
    for page in [&last.status, &last.queue, &journal] {
        kept.extend(page.to_string().into_bytes());
    }
    for list in [&actions, &escalations] {
        kept.extend(list.iter().flat_map(|it| it.to_string().into_bytes()));
    }
    for file in world.files() {
        kept.extend(file);
    }
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let journal = list(journal, "records");
    Played {
        seen,
        arrivals: world.arrivals(),
        effects: world.effects(),
        glances,
        last,
        actions,
        escalations,
        journal: journal
            .iter()
            .map(|row| (text(row, "event"), text(row, "text")))
            .collect(),
        sends: sends_by_agent(&journal),
        log: world.log(),
        metrics: String::from_utf8_lossy(&metrics.body).into_owned(),
        kept,
    }
}

/// Sends of each agent. What was withdrawn because a refusal overtook it is in the
/// journal twice, as granted and as not sent, and never reached the provider.
fn sends_by_agent(journal: &[Value]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    // The list begins with the newest, and a send comes before what came of it.
    for row in journal.iter().rev() {
        let never_left = || {
            let text = row["text"].as_str().unwrap_or_default();
            text.contains("certainty=not_sent")
        };
        let agent = row["agent"].as_str().unwrap_or_default().to_owned();
        match row["event"].as_str() {
            Some("action_sent") => *counts.entry(agent).or_insert(0) += 1,
            Some("action_result") if never_left() => *counts.entry(agent).or_insert(0) -= 1,
            _ => {}
        }
    }
    counts
}

/// Counts by a name.
pub(crate) fn tally<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    names.fold(BTreeMap::new(), |mut counts, name| {
        *counts.entry(name.to_owned()).or_default() += 1;
        counts
    })
}
