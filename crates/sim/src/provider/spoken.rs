//! A scripted answer, laid over the one that the endpoint would have given:
//! the script's status and fields win, its body too unless it asks for the
//! endpoint's own.

use serde_json::json;

use super::fault::{ScriptedAnswer, ScriptedBody, TemplateTimes};
use super::message::{Body, Reply, Request};
use super::shapes::{Dialect, Maker};

/// What an answer can refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage<'a> {
    /// What makes texts.
    pub(super) maker: Maker,
    /// The request.
    pub(super) request: &'a Request,
    /// The caller's credential, for answers that repeat it.
    pub(super) secret: &'a str,
    /// The moments that fields can name.
    pub(super) times: TemplateTimes,
}

/// The answer that is given.
pub(super) fn overlaid(answer: &ScriptedAnswer, ordinary: Reply, stage: &Stage<'_>) -> Reply {
    let success = (200..300).contains(&answer.status);
    let mut reply = match &answer.body {
        ScriptedBody::Ordinary if success => ordinary,
        ScriptedBody::Ordinary => {
            let dialect = Dialect::of(&stage.request.head);
            dialect.error(answer.status, "the provider could not serve this")
        }
        ScriptedBody::Events(words) => stage.maker.scripted_stream(stage.request, words),
        ScriptedBody::Json(json) if stage.maker.stream => {
            Reply::events(vec![format!("data: {json}\n\n")], stage.maker.pause)
        }
        ScriptedBody::Json(json) => Reply::json(answer.status, json),
        ScriptedBody::EchoCredential => {
            let message = format!("the key {} is not valid", stage.secret);
            Reply::json(answer.status, &json!({"error": {"message": message}}))
        }
        ScriptedBody::Empty => Reply::empty(answer.status),
        ScriptedBody::Text(text) => {
            let mut reply = Reply::empty(answer.status);
            reply
                .fields
                .push("content-type", "text/plain; charset=utf-8");
            reply.body = Body::Whole(text.clone().into());
            reply
        }
    };
    reply.status = answer.status;
    for (index, (name, value)) in answer.fields.iter().enumerate() {
        let value = value.fill(stage.times);
        // The first of a name replaces the ordinary field, further ones follow it.
        let repeated = answer.fields[..index]
            .iter()
            .any(|(n, _)| n.eq_ignore_ascii_case(name));
        if repeated {
            reply.fields.push(name, value);
        } else {
            reply.fields.set(name, value);
        }
    }
    reply
}
