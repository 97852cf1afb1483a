//! Answers in the shapes of the APIs that agents use most, close enough that
//! their official SDKs read them: which API a call belongs to, what it is
//! answered, and how an error or a stream sounds in its dialect.
//!
//! Equal requests get byte-equal bodies: ids and texts follow from the request
//! and the seed, times from the provider's start. So an answer that passed a
//! gateway can be compared with one that did not.
//!
//! Shapes: OpenAI's chat completions, responses, embeddings and models;
//! Anthropic's messages, token counts and models; checked against the types of
//! openai-python 3.57 and anthropic-sdk-python 2.14; Gemini's `generateContent`.
//!
//! Texts have a word for each token up to `WORDS_MAX`; beyond that only the
//! usage says how long the answer was.

mod anthropic;
mod gemini;
mod openai;
mod responses;

use rategov_core::time::{Span, WallTime};
use serde_json::{Value, json};

use super::draw::{Purpose, Seed};
use super::ledger::sha256;
use super::message::{Reply, Request, RequestHead};
use super::usage::{Length, Usage, Wanted};

/// Most words of one text.
const WORDS_MAX: u64 = 2_000;

/// Whose words errors and rate fields use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's.
    OpenAi,
    /// Anthropic's.
    Anthropic,
    /// Google's.
    Gemini,
    /// No vendor's: a plain JSON API.
    Plain,
}

/// An endpoint of a known API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// `POST /v1/chat/completions`.
    ChatCompletions,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/embeddings`.
    Embeddings,
    /// `GET /v1/models`, of either vendor.
    Models,
    /// `POST /v1/messages`.
    Messages,
    /// `POST /v1/messages/count_tokens`.
    CountTokens,
    /// `POST /v1beta/models/{model}:generateContent`.
    GenerateContent,
    /// `POST /v1beta/models/{model}:streamGenerateContent`.
    StreamGenerateContent,
}

impl Api {
    /// The API that a call belongs to. A base URL may or may not hold the `/v1`.
    pub fn of(head: &RequestHead) -> Option<Api> {
        let path = head.path();
        let path = path.strip_prefix("/v1").unwrap_or(path);
        Some(match (head.method.as_str(), path) {
            ("POST", "/chat/completions") => Api::ChatCompletions,
            ("POST", "/responses") => Api::Responses,
            ("POST", "/embeddings") => Api::Embeddings,
            ("POST", "/messages") => Api::Messages,
            ("POST", "/messages/count_tokens") => Api::CountTokens,
            ("POST", path) if path.ends_with(":generateContent") => Api::GenerateContent,
            ("POST", path) if path.ends_with(":streamGenerateContent") => {
                Api::StreamGenerateContent
            }
            ("GET", "/models") => Api::Models,
            ("GET", path) if path.starts_with("/models/") => Api::Models,
            _ => return None,
        })
    }

    /// The endpoint's template.
    pub fn endpoint(self) -> &'static str {
        match self {
            Api::ChatCompletions => "POST /v1/chat/completions",
            Api::Responses => "POST /v1/responses",
            Api::Embeddings => "POST /v1/embeddings",
            Api::Models => "GET /v1/models",
            Api::Messages => "POST /v1/messages",
            Api::CountTokens => "POST /v1/messages/count_tokens",
            Api::GenerateContent => "POST /v1beta/models/{model}:generateContent",
            Api::StreamGenerateContent => "POST /v1beta/models/{model}:streamGenerateContent",
        }
    }

    /// Whether a model works for it, which is billed.
    pub fn is_generation(self) -> bool {
        !matches!(self, Api::Models | Api::CountTokens)
    }
}

impl Dialect {
    /// The dialect of a call: by its path, or by the version field of Anthropic's SDK.
    pub fn of(head: &RequestHead) -> Dialect {
        match Api::of(head) {
            Some(Api::Messages | Api::CountTokens) => Dialect::Anthropic,
            Some(Api::GenerateContent | Api::StreamGenerateContent) => Dialect::Gemini,
            _ if head.fields.get("anthropic-version").is_some() => Dialect::Anthropic,
            Some(_) => Dialect::OpenAi,
            None => Dialect::Plain,
        }
    }

    /// An error answer in this dialect.
    pub fn error(self, status: u16, message: &str) -> Reply {
        self.refusal(status, message, None)
    }

    /// An error answer that says, where the dialect has words for it in the body,
    /// when to come back.
    pub fn refusal(self, status: u16, message: &str, wait: Option<Span>) -> Reply {
        let kind = self.kind(status);
        let body = match self {
            Dialect::OpenAi => openai::error(kind, message),
            Dialect::Anthropic => anthropic::error(kind, message),
            Dialect::Gemini => gemini::error(status, message, wait),
            Dialect::Plain => json!({"error": {"code": kind, "message": message}}),
        };
        Reply::json(status, &body)
    }

    /// The word for an error status.
    fn kind(self, status: u16) -> &'static str {
        match (self, status) {
            (Dialect::OpenAi, 429) => "rate_limit_exceeded",
            (_, 429) => "rate_limit_error",
            (Dialect::Anthropic, 529) => "overloaded_error",
            (Dialect::OpenAi, 503) => "server_is_overloaded",
            (_, 401) => "authentication_error",
            (_, 402) => "billing_error",
            (_, 403) => "permission_error",
            (_, 404) => "not_found_error",
            (_, 409) => "conflict_error",
            (_, 413) => "request_too_large",
            (_, 504) => "timeout_error",
            (_, 400..=499) => "invalid_request_error",
            (Dialect::OpenAi, _) => "server_error",
            (Dialect::Anthropic, _) => "api_error",
            (Dialect::Plain | Dialect::Gemini, _) => "server_error",
        }
    }
}

/// What an answer is made from, besides the request.
#[derive(Clone, Copy, Debug)]
pub struct Maker {
    /// The seed of the texts.
    pub seed: Seed,
    /// The `created` time of everything.
    pub created: WallTime,
    /// The pause between two events of a stream.
    pub pause: Span,
    /// Whether to stream though the request doesn't say so.
    pub stream: bool,
    /// How long answers are.
    pub length: Length,
    /// How much of the input is cached, in thousandths.
    pub cached_permille: u64,
}

/// A call to a model, taken apart.
struct Ask<'a> {
    json: &'a Value,
    model: String,
    /// Letters and digits that follow from the request.
    id: String,
    created: i64,
    words: Vec<String>,
    usage: Usage,
    choices: u64,
    stream: bool,
    pause: Span,
}

impl Ask<'_> {
    fn text(&self) -> String {
        self.words.concat()
    }

    /// Input that was not cached.
    fn fresh(&self) -> u64 {
        self.usage.input - self.usage.cached
    }
}

const WORDS: [&str; 16] = [
    "calm", "river", "carries", "seven", "boats", "past", "the", "old", "café", "where", "letters",
    "wait", "until", "morning", "and", "naïve",
];

impl Maker {
    /// The ordinary answer of `api`.
    pub fn answer(&self, api: Api, request: &Request) -> Reply {
        let dialect = Dialect::of(&request.head);
        if api == Api::Models {
            return models(dialect, &request.head, self.created);
        }
        let Some(model) = model_of(request) else {
            return dialect.error(400, "the body must be a JSON object that names a model");
        };
        let ask = self.ask(request, model);
        match (api, ask.stream) {
            (Api::ChatCompletions, false) => Reply::json(200, &openai::completion(&ask)),
            (Api::ChatCompletions, true) => Reply::events(openai::stream(&ask), ask.pause),
            (Api::Responses, false) => Reply::json(200, &responses::response(&ask)),
            (Api::Responses, true) => Reply::events(responses::stream(&ask), ask.pause),
            (Api::Embeddings, _) => Reply::json(200, &openai::embeddings(&ask)),
            (Api::Messages, false) => Reply::json(200, &anthropic::message(&ask)),
            (Api::Messages, true) => Reply::events(anthropic::stream(&ask), ask.pause),
            (Api::CountTokens, _) => Reply::json(200, &json!({"input_tokens": ask.usage.input})),
            (Api::GenerateContent, _) => Reply::json(200, &gemini::response(&ask)),
            (Api::StreamGenerateContent, _) => Reply::events(gemini::stream(&ask), ask.pause),
            (Api::Models, _) => models(dialect, &request.head, self.created),
        }
    }

    /// A stream of the events that a script names, in the dialect of the call.
    pub fn scripted_stream(&self, request: &Request, words: &[String]) -> Reply {
        let ask = self.ask(request, request.json()["model"].as_str().unwrap_or("model"));
        let api = Api::of(&request.head);
        let events = words.iter().flat_map(|word| {
            let (name, rest) = word.split_once(' ').unwrap_or((word, ""));
            match (name, Dialect::of(&request.head)) {
                ("error", _) => vec![error_event(request, rest)],
                (_, Dialect::Anthropic) => anthropic::scripted(&ask, name, rest),
                _ if api == Some(Api::ChatCompletions) => openai::scripted(&ask, name, rest),
                _ => vec![event(name, &json!({"type": name, "text": rest}))],
            }
        });
        Reply::events(events.collect(), self.pause)
    }

    /// What a model takes for a request: the same as its answer says.
    pub fn usage(&self, request: &Request) -> Usage {
        let wanted = Wanted::of(request);
        if Api::of(&request.head) == Some(Api::Embeddings) {
            return Usage {
                input: wanted.input,
                cached: wanted.cached(self.cached_permille),
                ..Usage::default()
            };
        }
        let number = number_of(&digest_of(request));
        let short = 8 + self.seed.number(Purpose::Words, number) % 9;
        let drawn = self.length.draw(self.seed, number, short);
        let most = wanted.most.unwrap_or(u64::MAX);
        Usage {
            input: wanted.input,
            cached: wanted.cached(self.cached_permille),
            output: drawn.min(most).saturating_mul(wanted.choices),
            is_capped: most < drawn,
        }
    }

    fn ask<'a>(&self, request: &'a Request, model: &str) -> Ask<'a> {
        let json = request.json();
        let digest = digest_of(request);
        let number = number_of(&digest);
        let draw = |n: u64| self.seed.number(Purpose::Words, number.wrapping_add(n));
        let (usage, choices) = (self.usage(request), Wanted::of(request).choices);
        let length = (usage.output / choices.max(1)).clamp(1, WORDS_MAX);
        let words = (0..length)
            .map(|n| {
                let word = WORDS[(draw(n + 1) % WORDS.len() as u64) as usize];
                if n == 0 {
                    word.to_owned()
                } else {
                    format!(" {word}")
                }
            })
            .collect();
        Ask {
            stream: self.stream || json["stream"] == true,
            model: model.to_owned(),
            id: digest[..24].to_owned(),
            created: self.created.as_micros() / 1_000_000,
            words,
            usage,
            choices,
            pause: self.pause,
            json,
        }
    }
}

/// The model that a call is for: in its body, or in Gemini's path.
pub fn model_of(request: &Request) -> Option<&str> {
    let in_path = || {
        let (_, rest) = request.head.path().split_once("/models/")?;
        rest.split_once(':').map(|(model, _)| model)
    };
    let in_body = request.json()["model"].as_str();
    in_body.or_else(in_path).filter(|model| !model.is_empty())
}

/// Stands for a call: its line and its body.
fn digest_of(request: &Request) -> String {
    let head = &request.head;
    let call = format!("{} {} {}", head.method, head.path(), request.sha256());
    sha256(call.as_bytes())
}

fn number_of(digest: &str) -> u64 {
    u64::from_str_radix(&digest[..16], 16).unwrap_or(0)
}

/// One event by which the provider says, inside a stream, that it failed.
pub fn error_event(request: &Request, kind: &str) -> String {
    let kind = if kind.is_empty() { "api_error" } else { kind };
    let message = "the provider failed inside the stream";
    match (Dialect::of(&request.head), Api::of(&request.head)) {
        (Dialect::Anthropic, _) => event("error", &anthropic::error(kind, message)),
        (Dialect::Gemini, _) => data(&gemini::error(503, message, None)),
        (_, Some(Api::ChatCompletions)) => data(&openai::error(kind, message)),
        (_, Some(Api::Responses)) => event("error", &responses::error(kind, message)),
        _ => event(
            "error",
            &json!({"error": {"code": kind, "message": message}}),
        ),
    }
}

fn models(dialect: Dialect, head: &RequestHead, created: WallTime) -> Reply {
    const NAMES: [&str; 2] = ["model-large", "model-small"];
    let path = head.path();
    let wanted = path.split_once("/models/").map(|(_, name)| name);
    let created = created.as_micros() / 1_000_000;
    let one = |name: &str| match dialect {
        Dialect::Anthropic => anthropic::model(name, created),
        _ => openai::model(name, created),
    };
    match wanted {
        Some(name) => Reply::json(200, &one(name)),
        None => {
            let list: Vec<Value> = NAMES.iter().map(|name| one(name)).collect();
            let body = match dialect {
                Dialect::Anthropic => json!({
                    "data": list, "has_more": false, "first_id": NAMES[0], "last_id": NAMES[1]
                }),
                _ => json!({"object": "list", "data": list}),
            };
            Reply::json(200, &body)
        }
    }
}

/// An event with a name.
fn event(name: &str, json: &Value) -> String {
    format!("event: {name}\ndata: {json}\n\n")
}

/// An event without a name.
fn data(json: &Value) -> String {
    format!("data: {json}\n\n")
}

#[cfg(test)]
mod tests;
