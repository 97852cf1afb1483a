//! Faults beyond the measured table: interim answers, early answers, slow and
//! garbled ones, broken uploads.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use rategov_core::action::outcome::Lost;
use rategov_server::gateway::destination::{Destination, PlainHttp};
use rategov_server::gateway::detail::Detail;
use rategov_server::gateway::evidence::{BodyEnd, Upload};
use rategov_server::gateway::framing::Framing;
use rategov_server::gateway::pool::PoolLimits;
use rategov_server::gateway::purpose::Purpose;
use rategov_server::gateway::spool::{Replay, Spool, SpoolBudget, SpoolLimits};
use rategov_server::gateway::tls::TlsOptions;
use rategov_server::gateway::upstream::{Sent, Timeouts, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::support::*;
use Step::*;

async fn check(script: &[Step], expected: Got) {
    for layer in BOTH {
        let server = Server::start(layer, vec![script.to_vec()]).await;
        let upstream = server.upstream(PoolLimits::default());
        let got = post(&upstream, &server.destination(), &timeouts()).await;
        assert_eq!(got, expected, "{script:?} {layer:?}");
        assert_eq!(
            (server.connections(), server.requests()),
            (1, 1),
            "{script:?} {layer:?}"
        );
    }
}

#[tokio::test]
async fn interim_answers_are_passed_over() {
    let whole = || Got::Head(200, BodyEnd::Complete, "ok".into());
    check(
        &[
            ReadRequest,
            Say("HTTP/1.1 100 Continue\r\n\r\n"),
            Say(OK),
            Hang,
        ],
        whole(),
    )
    .await;
    let hints =
        Say("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n");
    check(&[ReadRequest, hints, Say(OK), Hang], whole()).await;
}

#[tokio::test]
async fn an_interim_answer_alone_proves_nothing() {
    let lost = || Got::Lost(Lost::Closed, Detail::ClosedInHead);
    check(
        &[ReadRequest, Say("HTTP/1.1 100 Continue\r\n\r\n"), Fin],
        lost(),
    )
    .await;
    check(
        &[ReadRequest, Say("HTTP/1.1 102 Processing\r\n\r\n"), Reset],
        lost(),
    )
    .await;
}

#[tokio::test]
async fn half_a_head_proves_nothing() {
    let lost = Got::Lost(Lost::Closed, Detail::ClosedInHead);
    check(
        &[ReadRequest, Say("HTTP/1.1 200 OK\r\ncontent-le"), Fin],
        lost,
    )
    .await;
}

#[tokio::test]
async fn what_is_not_http_is_malformed() {
    let lost = || Got::Lost(Lost::Malformed, Detail::NotHttp);
    check(&[ReadRequest, Say("SSH-2.0-OpenSSH_9.9\r\n"), Hang], lost()).await;
    let lengths = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok";
    check(&[ReadRequest, Say(lengths), Hang], lost()).await;
}

#[tokio::test]
async fn a_head_without_end_is_given_up() {
    let lost = Got::Lost(Lost::Malformed, Detail::HeadTooLarge);
    check(&[ReadRequest, SayHugeHead(600_000), Hang], lost).await;
}

#[tokio::test]
async fn an_unasked_upgrade_is_no_answer() {
    let say = Say("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n");
    check(
        &[ReadRequest, say, Hang],
        Got::Lost(Lost::Malformed, Detail::UnaskedUpgrade),
    )
    .await;
}

#[tokio::test]
async fn a_chunked_answer_is_whole_at_its_last_chunk() {
    let say = Say(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
         2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n",
    );
    check(
        &[ReadRequest, say, Hang],
        Got::Head(200, BodyEnd::Complete, "ok".into()),
    )
    .await;
}

#[tokio::test]
async fn a_garbled_chunk_cuts_the_body() {
    let say = Say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n");
    let cut = Got::Head(200, BodyEnd::Cut(Detail::BodyGarbled), "ok".into());
    check(&[ReadRequest, say, Hang], cut).await;
}

#[tokio::test]
async fn a_close_delimited_body_that_vanishes_without_tls_goodbye_is_cut() {
    let say = Say("HTTP/1.1 200 OK\r\n\r\nhalf");
    for (layer, end) in [
        (Layer::Plain, BodyEnd::CloseDelimited),
        (Layer::Tls, BodyEnd::Cut(Detail::BodyCut)),
    ] {
        let server = Server::start(layer, vec![vec![ReadRequest, say, Vanish]]).await;
        let upstream = server.upstream(PoolLimits::default());
        let got = post(&upstream, &server.destination(), &timeouts()).await;
        assert_eq!(got, Got::Head(200, end, "half".into()), "{layer:?}");
    }
}

#[tokio::test]
async fn a_head_that_comes_slowly_is_waited_for() {
    for layer in BOTH {
        let parts = ["HTTP/1.1 20", "0 OK\r\ncontent-", "length: 2\r\n\r\no"];
        let mut script = vec![ReadRequest];
        script.extend(parts.into_iter().flat_map(|part| [Say(part), Tell, Wait]));
        script.extend([Say("k"), Hang]);
        let mut server = Server::start(layer, vec![script]).await;
        let upstream = server.upstream(PoolLimits::default());
        let to = server.destination();
        let call = tokio::spawn(async move { post(&upstream, &to, &timeouts()).await });
        for _ in parts {
            server.until(Report::Told(0)).await;
            server.proceed();
        }
        let got = call.await.unwrap();
        assert_eq!(
            got,
            Got::Head(200, BodyEnd::Complete, "ok".into()),
            "{layer:?}"
        );
    }
}

#[tokio::test]
async fn a_body_that_stalls_is_cut() {
    for layer in BOTH {
        let say = Say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
        let server = Server::start(layer, vec![vec![ReadRequest, say, Hang]]).await;
        let upstream = server.upstream(PoolLimits::default());
        let patience = Timeouts {
            idle: Duration::from_millis(60),
            ..timeouts()
        };
        let got = post(&upstream, &server.destination(), &patience).await;
        let cut = BodyEnd::Cut(Detail::BodyStalled);
        assert_eq!(got, Got::Head(200, cut, "half".into()), "{layer:?}");
        assert_eq!(
            upstream.open_connections(),
            0,
            "a cut connection is not kept"
        );
    }
}

/// A body of `frames` frames of 64 KiB that then ends, fails, or waits for ever.
struct Long {
    frames: usize,
    then: Then,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    End,
    Fail,
}

#[derive(Debug)]
struct Broken;

impl Body for Long {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Poll::Ready(match (self.frames, self.then) {
            (0, Then::End) => None,
            (0, Then::Fail) => Some(Err(Broken)),
            _ => {
                self.frames -= 1;
                Some(Ok(Frame::data(Bytes::from(vec![b'x'; 64 << 10]))))
            }
        })
    }
}

/// Sends a long body with a declared length, streaming.
async fn upload(server: &Server, frames: usize, declared_frames: u64, then: Then) -> Sent {
    let to = server.destination();
    let upstream = server.upstream(PoolLimits::default());
    let framing = Framing::Length(declared_frames * (64 << 10));
    let limits = SpoolLimits {
        max_replay: 1 << 20,
        ..SpoolLimits::default()
    };
    let spool = Spool::take(
        Long { frames, then },
        framing,
        &limits,
        &SpoolBudget::default(),
    )
    .await
    .unwrap();
    assert_eq!(spool.replay(), Replay::Streaming);
    let mut request = request(http::Method::POST, &to, "x").await;
    request
        .headers_mut()
        .insert("content-length", (declared_frames * (64 << 10)).into());
    let request = request.map(|_| spool.body().unwrap());
    assert!(spool.body().is_none(), "a streaming body is given out once");
    upstream
        .send(&to, Purpose::Write, request, || (), &timeouts())
        .await
}

const TOO_LARGE: &str = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 9\r\n\r\ntoo large";

#[tokio::test]
async fn an_answer_that_comes_during_the_upload_wins() {
    for layer in BOTH {
        // The server reads the head only and closes with the body unread: its
        // kernel resets the connection under the upload.
        for ending in [Hang, Vanish, Reset] {
            let script = vec![ReadHead, Say(TOO_LARGE), ending];
            let mut server = Server::start(layer, vec![script]).await;
            let sent = upload(&server, 1_000, 1_000, Then::End).await;
            let Sent::Head(answer) = &sent else {
                panic!("{layer:?} {ending:?}: {sent:?}")
            };
            assert_eq!(answer.upload, Upload::Partial, "{layer:?} {ending:?}");
            let got = finish(sent).await;
            let whole = Got::Head(413, BodyEnd::Complete, "too large".into());
            assert_eq!(got, whole, "{layer:?} {ending:?}");
            server.until(Report::Requested(0)).await;
            assert_eq!((server.connections(), server.requests()), (1, 1));
        }
    }
}

#[tokio::test]
async fn an_upload_that_is_refused_without_an_answer_is_lost() {
    for layer in BOTH {
        let server = Server::start(layer, vec![vec![ReadHead, Reset]]).await;
        let got = finish(upload(&server, 1_000, 1_000, Then::End).await).await;
        assert_eq!(
            got,
            Got::Lost(Lost::UploadCut, Detail::UploadRefused),
            "{layer:?}"
        );
    }
}

#[tokio::test]
async fn an_upload_that_its_caller_breaks_is_lost() {
    for layer in BOTH {
        let server = Server::start(layer, vec![vec![ReadHead, Hang]; 2]).await;
        let got = finish(upload(&server, 30, 40, Then::Fail).await).await;
        assert_eq!(
            got,
            Got::Lost(Lost::UploadCut, Detail::UploadBroken),
            "{layer:?}"
        );
        let got = finish(upload(&server, 30, 40, Then::End).await).await;
        assert_eq!(
            got,
            Got::Lost(Lost::UploadCut, Detail::UploadBroken),
            "{layer:?}"
        );
    }
}

/// A body that the test feeds.
struct Fed(mpsc::UnboundedReceiver<Bytes>);

impl Body for Fed {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.0.poll_recv(cx).map(|fed| fed.map(Frame::data).map(Ok))
    }
}

/// Uploads `frames` of 1,000 bytes with six seconds between them; no answer
/// may take longer than ten. The upload's end is fed only if `then` says so.
async fn slow_upload(frames: usize, then: Then) -> Got {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let to = Destination::parse(&url, PlainHttp::LoopbackOnly).unwrap();
    let (arrived, mut arrivals) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        while !all.ends_with(b"0\r\n\r\n") {
            if socket.read_buf(&mut all).await.unwrap_or(0) == 0 {
                return;
            }
            arrived.send_replace(all.iter().filter(|b| **b == b'z').count());
        }
        socket.write_all(OK.as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    });
    let limits = SpoolLimits {
        max_replay: 999,
        ..SpoolLimits::default()
    };
    let (feed, fed) = mpsc::unbounded_channel();
    let frame = Bytes::from(vec![b'z'; 1_000]);
    feed.send(frame.clone()).unwrap();
    let budget = SpoolBudget::default();
    let spool = Spool::take(Fed(fed), Framing::Chunked, &limits, &budget)
        .await
        .unwrap();
    let mut request = request(http::Method::POST, &to, "").await;
    request
        .headers_mut()
        .insert("transfer-encoding", "chunked".parse().unwrap());
    let request = request.map(|_| spool.body().unwrap());
    let call = tokio::spawn(async move {
        let upstream = Upstream::new(PoolLimits::default(), &TlsOptions::default()).unwrap();
        let patience = Timeouts {
            response: Duration::from_secs(10),
            ..timeouts()
        };
        finish(
            upstream
                .send(&to, Purpose::Write, request, || (), &patience)
                .await,
        )
        .await
    });
    for n in 1..=frames {
        arrivals.wait_for(|seen| *seen == n * 1_000).await.unwrap();
        pass(Duration::from_secs(6)).await;
        if n < frames {
            feed.send(frame.clone()).unwrap();
        }
    }
    match then {
        Then::End => drop(feed),
        Then::Fail => pass(Duration::from_secs(6)).await,
    }
    call.await.unwrap()
}

#[tokio::test]
async fn the_answers_time_out_runs_from_the_last_byte_written() {
    let answered = Got::Head(200, BodyEnd::Complete, "ok".into());
    assert_eq!(slow_upload(5, Then::End).await, answered);
    let lost = Got::Lost(Lost::TimedOut, Detail::AnswerTimedOut);
    assert_eq!(slow_upload(2, Then::Fail).await, lost);
}

#[tokio::test]
async fn a_caller_that_reads_slowly_is_not_a_stalled_provider() {
    let say = Say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfirst");
    let script = vec![ReadRequest, say, Wait, Say("final"), Hang];
    let server = Server::start(Layer::Plain, vec![script]).await;
    let upstream = server.upstream(PoolLimits::default());
    let to = server.destination();
    let request = request(http::Method::POST, &to, "hello").await;
    let sent = upstream
        .send(&to, Purpose::Read, request, || (), &timeouts())
        .await;
    let Sent::Head(mut answer) = sent else {
        panic!("{sent:?}")
    };
    assert!(answer.body.frame().await.unwrap().is_ok());
    pass(Duration::from_secs(3_600)).await;
    server.proceed();
    let got = finish(Sent::Head(answer)).await;
    assert_eq!(got, Got::Head(200, BodyEnd::Complete, "final".into()));
}

#[tokio::test]
async fn a_large_answer_before_an_announced_close_is_whole() {
    for layer in BOTH {
        let script = vec![
            ReadRequest,
            Say("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 8000000\r\n\r\n"),
            SayBody(8_000_000),
            Fin,
        ];
        let server = Server::start(layer, vec![script]).await;
        let upstream = server.upstream(PoolLimits::default());
        let got = post(&upstream, &server.destination(), &timeouts()).await;
        let Got::Head(200, end, text) = got else {
            panic!("{got:?}")
        };
        assert_eq!(
            (end, text.len()),
            (BodyEnd::Complete, 8_000_000),
            "{layer:?}"
        );
    }
}

#[tokio::test]
async fn a_dropped_body_closes_its_connection() {
    let say = Say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    let script = vec![ReadRequest, say, ReadRequest];
    let mut server = Server::start(Layer::Plain, vec![script]).await;
    let upstream = server.upstream(PoolLimits::default());
    let to = server.destination();
    let request = request(http::Method::POST, &to, "hello").await;
    let sent = upstream
        .send(&to, Purpose::Read, request, || (), &timeouts())
        .await;
    let Sent::Head(mut answer) = sent else {
        panic!("{sent:?}")
    };
    assert!(answer.body.frame().await.unwrap().is_ok());
    assert_eq!(upstream.open_connections(), 1);
    drop(answer);
    assert_eq!(upstream.open_connections(), 0);
    // The server's read ends, so its script does.
    server.until(Report::Done(0)).await;
    assert_eq!(server.requests(), 1);
}
