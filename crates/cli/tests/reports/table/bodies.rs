//! Bodies and streams: untouched, whole, and read right.

use std::io::Read as _;

use super::Row;
use super::hints::{FULL_JITTER, refusals_counted};
use super::writes::same_bodies;
use crate::caller::Ended;
use crate::cover::Coverage::{Covered, NotYet};
use crate::cover::covered;
use crate::judge::{between, must, ok};
use crate::report::Client;

const USAGE: &str = "the usage that streams report is not booked yet: only requests are counted";

#[rustfmt::skip] // A row reads as: report, then how it is judged.
pub(super) const ROWS: &[Row] = &[
    ("R85", || Covered(covered()
        .instead("gap >= 1000 ms", "gap >= 250 ms", FULL_JITTER)
        .judge("client sees only the good stream", |played| {
            let text = String::from_utf8_lossy(&played.seen[0].body).into_owned();
            must(text.contains("message_stop") && !text.contains("overloaded"), text)
        })
        .judge("event class overload", |played| refusals_counted(played, 0)))),
    ("R88", || Covered(covered()
        .judge("passthrough, outcome failed:overload partial", |played| {
            let text = String::from_utf8_lossy(&played.seen[0].body).into_owned();
            must(played.seen[0].status == 200 && text.contains("Partial") && text.contains("overloaded_error"), text)?;
            let action = &played.actions[0];
            must(action["state"] == "failed_definite" && action["code"] == "stream_broken", action.to_string())
        })
        .judge("bytes unchanged, no repeat after content was sent", |played| {
            let text = String::from_utf8_lossy(&played.seen[0].body).into_owned();
            let last = text.rsplit("event: ").next().unwrap_or_default();
            must(last.starts_with("error") && played.seen[0].ended == Ended::Whole, text.clone())?;
            must(!text.contains("rategov") && played.arrivals.len() == 1, text)
        })
        .later("tokens seen so far are booked", USAGE))),
    ("R89", || NotYet("`sse_keepalive` does not act yet: no comment lines are sent while a first event is awaited")),
    ("R91", || Covered(covered()
        .with(|play| play.provider.stream_pause = rategov_core::time::Span::from_millis(400))
        .judge("first event reaches the client before the upstream ends", |played| {
            let (at, arrival) = &played.arrivals[0];
            let upstream = arrival.ended.map_or(f64::INFINITY, |end| at + end.at.since(arrival.at).as_secs_f64() * 1_000.0);
            let first = played.seen[0].pieces_ms.first().copied().unwrap_or(f64::INFINITY);
            must(first + 300.0 < upstream, format!("first at {first:.0} ms, upstream ended at {upstream:.0} ms"))
        })
        .judge("decoded events equal upstream", |played| {
            let mut plain = String::new();
            let read = flate2::read::MultiGzDecoder::new(played.seen[0].body.as_slice()).read_to_string(&mut plain);
            must(read.is_ok() && plain.contains("message_stop"), format!("{read:?}: {plain}"))
        })
        .judge("headers and bytes agree", |played| {
            let seen = &played.seen[0];
            must(seen.header("content-encoding") == "gzip" && seen.body.starts_with(&[0x1f, 0x8b]), seen.shown())
        })
        .later("usage booked", USAGE))),
    ("R92", || Covered(covered()
        .judge("sha256 of the body equal at both ends", |played| {
            let body = &played.arrivals[0].1;
            let sent = played.actions[0]["payload_sha256"].as_str().unwrap_or_default().to_owned();
            must(body.body_bytes > 20_000_000 && body.body_sha256 == sent, format!("{} bytes", body.body_bytes))
        })
        .later("memory growth per call bounded and documented", "bounded by `spool` and `max_replay_body`; memory is measured by the benchmark, not here"))),
    ("R95", || Covered(covered()
        .judge("both attempts have the same body hash and valid framing", |played| {
            must(played.arrivals.iter().all(|(_, it)| it.body_bytes > 1_000_000), "a body is short")?;
            same_bodies(played)
        }))),
    ("R98", || Covered(covered()
        .with(|play| {
            let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"), ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")];
            play.clients[0] = Client {
                send: "GET /responses".to_owned(),
                headers: upgrade.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
                ..Client::default()
            };
            for endpoint in &mut play.setup.endpoints {
                "POST /v1/responses".clone_into(&mut endpoint.0);
            }
            play.setup.endpoints.dedup_by(|one, other| one.0 == other.0);
        })
        .judge("2 (plus the websocket if supported)", |played| must(played.arrivals.len() == 2, "not two calls"))
        .judge("posts ok; websocket proxied or answered 426 at once", |played| {
            must(played.seen[0].status == 426, played.seen[0].shown())?;
            played.seen[1..].iter().try_for_each(ok)
        })
        .judge("websocket answer within 100 ms", |played| between("the answer", played.seen[0].ended_ms, 0.0, 100.0))
        .judge("both posts go to /v1/responses upstream", |played| {
            let targets: Vec<&str> = played.arrivals.iter().map(|(_, it)| it.target.as_str()).collect();
            must(targets == ["/v1/responses", "/v1/responses"], format!("{targets:?}"))
        })
        .later("if proxied, each response.create on the socket takes a permit", "websockets are refused with 426, which the client falls back from"))),
];
