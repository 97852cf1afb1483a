//! A caller: builds requests as the gateway does, and tells what came of them.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use rategov_core::action::outcome::{Lost, NotSent};
use rategov_server::gateway::destination::Destination;
use rategov_server::gateway::detail::Detail;
use rategov_server::gateway::evidence::BodyEnd;
use rategov_server::gateway::headers::{Credential, Rewrite, for_provider};
use rategov_server::gateway::outgoing::Outgoing;
use rategov_server::gateway::purpose::Purpose;
use rategov_server::gateway::spool::{Spool, SpoolBudget, SpoolLimits};
use rategov_server::gateway::upstream::{Sent, Timeouts, Upstream};

pub(crate) use crate::server::*;

/// What a call came to, in a form that tests compare.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Got {
    NotSent(NotSent, Detail),
    Lost(Lost, Detail),
    Head(u16, BodyEnd, String),
}

pub(crate) fn timeouts() -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(10),
        response: Duration::from_secs(20),
        idle: Duration::from_secs(20),
    }
}

/// A request with `body` (empty for none), as the gateway would send it.
pub(crate) async fn request(
    method: http::Method,
    to: &Destination,
    body: &'static str,
) -> Request<Outgoing> {
    let mut head = Request::builder().method(method).uri("/records");
    if !body.is_empty() {
        head = head.header("content-length", body.len());
    }
    let (parts, ()) = head.body(()).unwrap().into_parts();
    let rewrite = Rewrite {
        destination: to,
        path: "/records",
        query: None,
        credential: Credential::PassThrough { spent: None },
        set: &[(
            HeaderName::from_static("idempotency-key"),
            HeaderValue::from_static("rec-91f2"),
        )],
    };
    let (parts, framing) = for_provider(parts, rewrite).unwrap();
    let body = Full::new(Bytes::from_static(body.as_bytes()));
    let (limits, budget) = (SpoolLimits::default(), SpoolBudget::default());
    let spool = Spool::take(body, framing, &limits, &budget).await.unwrap();
    Request::from_parts(parts, spool.body().unwrap())
}

/// The usual call: a POST with a body of five bytes.
pub(crate) async fn post(upstream: &Upstream, to: &Destination, timeouts: &Timeouts) -> Got {
    let request = request(http::Method::POST, to, "hello").await;
    let sent = upstream
        .send(to, Purpose::Write, request, || (), timeouts)
        .await;
    finish(sent).await
}

/// Reads an answer to its end.
pub(crate) async fn finish(sent: Sent) -> Got {
    match sent {
        Sent::NotSent { why, detail, .. } => Got::NotSent(why, detail),
        Sent::Lost {
            why,
            detail,
            bytes_written,
        } => {
            assert!(bytes_written > 0, "lost without a byte written");
            Got::Lost(why, detail)
        }
        Sent::Head(mut answer) => {
            let mut text = Vec::new();
            while let Some(frame) = answer.body.frame().await {
                match frame {
                    Ok(frame) => text.extend(frame.into_data().unwrap_or_default()),
                    Err(_) => break,
                }
            }
            let end = answer
                .body
                .end()
                .expect("a body that gives no more frames has ended");
            Got::Head(
                answer.head.status.as_u16(),
                end,
                String::from_utf8(text).unwrap(),
            )
        }
    }
}

/// Lets `span` pass on every timer at once.
pub(crate) async fn pass(span: Duration) {
    tokio::time::pause();
    tokio::time::advance(span).await;
    tokio::time::resume();
}
