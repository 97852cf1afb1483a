//! Scripted conduct: what the provider does instead of, or on top of, its
//! ordinary service, and for which calls.
//!
//! A [`Step`] says for whom it is ([`Pattern`], fields, body, [`Condition`]),
//! how often it acts, and what it does ([`Conduct`]): give another answer, wait,
//! or spoil the delivery by a [`Fault`]. Whether a write's effect happens is
//! always said, never implied by how the connection ends: "the effect
//! happened, then the answer was lost" is the case this provider exists for.

mod pattern;
mod script;
mod template;
mod written;

pub use pattern::Pattern;
pub use script::{Asked, Chosen, Left, STEPS_MAX, Script, ScriptFull};
pub use template::{Form, Template, TemplateError, Times as TemplateTimes};
pub use written::{StepError, WrittenStep, steps_of_upstream};

use rategov_core::time::Span;
use serde_json::Value;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Closed in order (FIN).
    Fin,
    /// Reset (RST).
    Rst,
    /// Left open; nothing is ever said again.
    Silence,
}

/// Whether the call's effect happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The provider carries the call out.
    Applied,
    /// It does nothing.
    Skipped,
}

impl Effect {
    /// What a status says about the effect when nothing else is said.
    pub fn of_status(status: u16) -> Effect {
        if (200..300).contains(&status) {
            Effect::Applied
        } else {
            Effect::Skipped
        }
    }
}

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By `content-length`.
    Length,
    /// By a last chunk.
    Chunked,
    /// By the end of the connection, so that a cut looks like an end.
    UntilClose,
}

/// How the delivery of an answer is spoiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not one byte of an answer.
    NoAnswer {
        /// Whether the call was carried out before.
        effect: Effect,
        /// What happens instead of an answer.
        ending: Ending,
    },
    /// A `102 Processing` head, and then the end.
    InterimOnly {
        /// Whether the call was carried out.
        effect: Effect,
        /// How the connection ends.
        ending: Ending,
    },
    /// Bytes that are not HTTP, then FIN.
    Malformed {
        /// Whether the call was carried out.
        effect: Effect,
    },
    /// The whole head and the first half of the body.
    HalfBody {
        /// How the head says where the body would end.
        framing: Framing,
        /// How the connection ends instead.
        ending: Ending,
    },
    /// The whole answer, its body in equal pieces with pauses.
    SlowBody {
        /// Number of pieces, at least 1.
        pieces: u32,
        /// The pause before each.
        pause: Span,
    },
    /// Some events of a stream, then the provider's own error event and a proper end.
    ErrorEvent {
        /// Events before it.
        after: u32,
        /// The error's type: `overloaded_error`.
        kind: String,
    },
    /// Some events of a stream, then the end of the connection.
    StreamCut {
        /// Events before it.
        after: u32,
        /// How the connection ends.
        ending: Ending,
    },
    /// The connection ends while the request is still being read. The
    /// arrival is counted; nothing is carried out.
    CutUpload {
        /// Bytes of the body that are read first.
        after: u64,
        /// How the connection ends. Unread bytes turn a FIN into an RST.
        ending: Ending,
    },
    /// The whole answer without a word of closing, and then FIN: the idle
    /// connection in the caller's pool is dead.
    CloseAfter,
}

impl Fault {
    /// What the fault says about the call's effect, if anything.
    pub fn effect(&self) -> Option<Effect> {
        match self {
            Fault::NoAnswer { effect, .. }
            | Fault::InterimOnly { effect, .. }
            | Fault::Malformed { effect } => Some(*effect),
            Fault::CutUpload { .. } => Some(Effect::Skipped),
            Fault::HalfBody { .. }
            | Fault::SlowBody { .. }
            | Fault::ErrorEvent { .. }
            | Fault::StreamCut { .. }
            | Fault::CloseAfter => None,
        }
    }

    /// The word by which the ledger and the written form name it.
    pub fn word(&self) -> &'static str {
        use Effect::{Applied, Skipped};
        use Ending::{Fin, Rst, Silence};
        match self {
            Fault::NoAnswer {
                effect: Skipped,
                ending: Rst,
            } => "reset_before_effect",
            Fault::NoAnswer {
                effect: Applied,
                ending: Rst,
            } => "reset_after_effect",
            Fault::NoAnswer {
                effect: Skipped,
                ending: Fin,
            } => "close_before_effect",
            Fault::NoAnswer {
                effect: Applied,
                ending: Fin,
            } => "close_after_effect",
            Fault::NoAnswer {
                effect: Skipped,
                ending: Silence,
            } => "silence_before_effect",
            Fault::NoAnswer {
                effect: Applied,
                ending: Silence,
            } => "silence_after_effect",
            Fault::InterimOnly { .. } => "interim_only",
            Fault::Malformed { .. } => "malformed",
            Fault::HalfBody {
                framing: Framing::Length,
                ..
            } => "half_body",
            Fault::HalfBody {
                framing: Framing::Chunked,
                ..
            } => "half_body_chunked",
            Fault::HalfBody {
                framing: Framing::UntilClose,
                ..
            } => "half_body_until_close",
            Fault::SlowBody { .. } => "slow_body",
            Fault::ErrorEvent { .. } => "error_event",
            Fault::StreamCut { .. } => "stream_cut",
            Fault::CutUpload { .. } => "cut_upload",
            Fault::CloseAfter => "close_after_answer",
        }
    }
}

/// What a scripted answer carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptedBody {
    /// What the endpoint itself would say: its ordinary body under a success,
    /// an error in its own dialect otherwise.
    Ordinary,
    /// Nothing.
    Empty,
    /// This text, as `text/plain` unless the fields say otherwise.
    Text(String),
    /// This JSON.
    Json(Value),
    /// The caller's own credential, repeated: some providers do that, and a
    /// governor must keep it out of its logs.
    EchoCredential,
    /// These events of a stream, in the words of the endpoint's own dialect:
    /// `message_start`, `delta TEXT`, `message_stop`, `error TYPE`.
    Events(Vec<String>),
}

/// An answer given instead of the ordinary one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedAnswer {
    /// The status.
    pub status: u16,
    /// Fields that replace or follow the ordinary ones.
    pub fields: Vec<(String, Template)>,
    /// The body.
    pub body: ScriptedBody,
    /// Whether the call is carried out all the same.
    pub effect: Effect,
}

/// What a step does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conduct {
    /// Waited before the first byte of the answer, on top of the service time.
    pub delay: Span,
    /// Whether the answer waits until the script's holder releases it.
    pub held: bool,
    /// The answer, if not the ordinary one.
    pub answer: Option<ScriptedAnswer>,
    /// How long a stream lasts from its first event to its last.
    pub lasts: Option<Span>,
    /// Whether the answer is an event stream although nobody asked for one.
    pub stream: bool,
    /// Whether the body is gzip-coded, asked for or not; a stream is cut
    /// into three pieces, one of them in the middle of a character.
    pub gzip: bool,
    /// How the delivery is spoiled.
    pub fault: Option<Fault>,
}

impl Conduct {
    /// Ordinary service, spoiled by `fault`.
    pub fn fault(fault: Fault) -> Conduct {
        Conduct {
            fault: Some(fault),
            ..Conduct::default()
        }
    }

    /// The endpoint's own answer under another status; carried out only if the
    /// status says so.
    pub fn status(status: u16) -> Conduct {
        let effect = Effect::of_status(status);
        let body = ScriptedBody::Ordinary;
        let answer = ScriptedAnswer {
            status,
            fields: Vec::new(),
            body,
            effect,
        };
        Conduct {
            answer: Some(answer),
            ..Conduct::default()
        }
    }

    /// The same with a body of its own.
    pub fn json(status: u16, body: Value) -> Conduct {
        let mut conduct = Conduct::status(status);
        if let Some(answer) = &mut conduct.answer {
            answer.body = ScriptedBody::Json(body);
        }
        conduct
    }

    /// The same, with the effect said apart from the status: a 500 that hides a success.
    pub fn effect(mut self, effect: Effect) -> Conduct {
        if let Some(answer) = &mut self.answer {
            answer.effect = effect;
        }
        self
    }

    /// The same with one more field in its answer.
    ///
    /// # Errors
    /// If `value` opens a placeholder that means nothing.
    pub fn field(mut self, name: &str, value: &str) -> Result<Conduct, TemplateError> {
        if let Some(answer) = &mut self.answer {
            answer
                .fields
                .push((name.to_owned(), Template::parse(name, value)?));
        }
        Ok(self)
    }
}

/// When a step may act, beyond its pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// At least so many other calls are open.
    InFlight(u64),
    /// More than so many calls, this one included, arrived in the last span.
    StartsAbove(u64, Span),
}

/// How often a step acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// So many times, then it is spent.
    Count(u32),
    /// For ever.
    Always,
}

/// One entry of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The calls it is for.
    pub calls: Pattern,
    /// A field that the request must carry, with a value it must contain.
    pub field: Option<(String, String)>,
    /// A text that the body must contain.
    pub body_has: Option<String>,
    /// What must hold besides. Steps with a condition are looked at first.
    pub condition: Option<Condition>,
    /// Matching calls that pass before the step acts.
    pub skip: u32,
    /// How often it acts.
    pub times: Times,
    /// How long it stays in the script, counted from when it entered.
    pub until: Option<Span>,
    /// What it does.
    pub conduct: Conduct,
}

impl Step {
    /// A step for calls like `calls` (`POST /records*`), acting once.
    pub fn once(calls: &str, conduct: Conduct) -> Step {
        Step {
            calls: Pattern::parse(calls),
            field: None,
            body_has: None,
            condition: None,
            skip: 0,
            times: Times::Count(1),
            until: None,
            conduct,
        }
    }

    /// The same step, acting as often as said.
    pub fn times(self, times: Times) -> Step {
        Step { times, ..self }
    }

    /// The same step, letting `skip` matching calls pass first.
    pub fn after(self, skip: u32) -> Step {
        Step { skip, ..self }
    }

    /// The same step, acting only under a condition.
    pub fn when(self, condition: Condition) -> Step {
        Step {
            condition: Some(condition),
            ..self
        }
    }
}
