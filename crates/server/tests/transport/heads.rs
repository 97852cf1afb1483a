//! Heads and bodies through a listener and out again, compared byte by byte
//! with what a direct call sends and gets.
//!
//! The listener is built as the gateway's has to be: case preserved, no date
//! of its own.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rategov_server::gateway::answer::BodyCut;
use rategov_server::gateway::destination::Destination;
use rategov_server::gateway::headers::{Credential, Rewrite, for_caller, for_provider};
use rategov_server::gateway::pool::PoolLimits;
use rategov_server::gateway::purpose::Purpose;
use rategov_server::gateway::spool::{Spool, SpoolBudget, SpoolLimits};
use rategov_server::gateway::upstream::{Sent, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::*;
use Step::*;

type Answered = Response<UnsyncBoxBody<Bytes, BodyCut>>;

/// The shortest gateway there can be: one destination, no waiting, no retry.
async fn pass(upstream: &Upstream, to: &Destination, request: Request<Incoming>) -> Answered {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().map(str::to_owned);
    let rewrite = Rewrite {
        destination: to,
        path: &path,
        query: query.as_deref(),
        credential: Credential::PassThrough { spent: None },
        set: &[],
    };
    let refused = |text: String| {
        let mut response = Response::new(
            Full::new(Bytes::from(text))
                .map_err(|e| match e {})
                .boxed_unsync(),
        );
        *response.status_mut() = http::StatusCode::BAD_REQUEST;
        response
    };
    let (parts, framing) = match for_provider(parts, rewrite) {
        Ok(done) => done,
        Err(refusal) => return refused(refusal.to_string()),
    };
    let (limits, budget) = (SpoolLimits::default(), SpoolBudget::default());
    let spool = Spool::take(body, framing, &limits, &budget).await.unwrap();
    let request = Request::from_parts(parts, spool.body().unwrap());
    match upstream
        .send(to, Purpose::Write, request, || (), &timeouts())
        .await
    {
        Sent::Head(answer) => {
            Response::from_parts(for_caller(answer.head), answer.body.boxed_unsync())
        }
        other => refused(format!("{other:?}")),
    }
}

async fn listen(server: &Server) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let upstream = Arc::new(server.upstream(PoolLimits::default()));
    let to = server.destination();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (upstream, to) = (Arc::clone(&upstream), to.clone());
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request| {
                    let (upstream, to) = (Arc::clone(&upstream), to.clone());
                    async move { Ok::<_, std::convert::Infallible>(pass(&upstream, &to, request).await) }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .preserve_header_case(true)
                    .auto_date_header(false)
                    .serve_connection(TokioIo::new(socket), service)
                    .await;
            });
        }
    });
    port
}

/// Sends raw bytes and reads one answer.
async fn exchange(port: u16, raw: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    socket.write_all(raw.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole(&got) {
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(n) => got.extend_from_slice(&buffer[..n]),
        }
    }
    String::from_utf8(got).unwrap()
}

/// What a client sends and what the provider must get, both as they are on
/// the wire; `{host}` is the provider's.
async fn check_request(sent: &str, expected: &str) {
    let server = Server::start(Layer::Plain, vec![vec![ReadRequest, Say(OK), Hang]]).await;
    let port = listen(&server).await;
    let answer = exchange(port, sent).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let expected = expected.replace("{host}", &format!("127.0.0.1:{}", server.port));
    assert_eq!(server.raw(0), expected);
}

#[tokio::test]
async fn an_sdks_request_arrives_as_it_was_sent() {
    check_request(
        "POST /v1/chat/completions?a=%41&b=/../c HTTP/1.1\r\n\
         Host: 127.0.0.1:7878\r\n\
         Accept-Encoding: gzip, deflate\r\n\
         Connection: keep-alive\r\n\
         Accept: application/json\r\n\
         Content-Type: application/json\r\n\
         User-Agent: OpenAI/Python 1.2.3\r\n\
         X-Stainless-Lang: python\r\n\
         x-stainless-retry-count: 0\r\n\
         Authorization: Bearer sk-own\r\n\
         X-Empty: \r\n\
         Content-Length: 13\r\n\r\n\
         {\"model\":\"m\"}",
        "POST /v1/chat/completions?a=%41&b=/../c HTTP/1.1\r\n\
         Host: {host}\r\n\
         Accept-Encoding: gzip, deflate\r\n\
         Accept: application/json\r\n\
         Content-Type: application/json\r\n\
         User-Agent: OpenAI/Python 1.2.3\r\n\
         X-Stainless-Lang: python\r\n\
         x-stainless-retry-count: 0\r\n\
         Authorization: Bearer sk-own\r\n\
         X-Empty:\r\n\
         Content-Length: 13\r\n\r\n\
         {\"model\":\"m\"}",
    )
    .await;
}

#[tokio::test]
async fn framing_is_kept_whatever_it_is() {
    // No body, no word about one.
    check_request(
        "GET /a HTTP/1.1\r\nHost: x\r\nACCEPT: */*\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: {host}\r\nACCEPT: */*\r\n\r\n",
    )
    .await;
    check_request(
        "DELETE /a HTTP/1.1\r\nHost: x\r\n\r\n",
        "DELETE /a HTTP/1.1\r\nHost: {host}\r\n\r\n",
    )
    .await;
    check_request(
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    check_request(
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    )
    .await;
    check_request(
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nX-B: 1\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nX-B: 1\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\n",
    )
    .await;
    check_request(
        "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "GET /a HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n\r\n{}",
    )
    .await;
}

#[tokio::test]
async fn announced_trailers_follow_their_body() {
    check_request(
        "POST /a HTTP/1.1\r\nHost: x\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: {host}\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n",
    )
    .await;
}

/// What a provider says and what the client must get.
async fn check_answer(said: &'static str, expected: &str) {
    let server = Server::start(Layer::Plain, vec![vec![ReadRequest, Say(said), Fin]]).await;
    let port = listen(&server).await;
    let got = exchange(port, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(got, expected);
}

#[tokio::test]
async fn an_answer_arrives_as_it_was_sent() {
    check_answer(
        "HTTP/1.1 429 Slow Down Please\r\n\
         Date: Sat, 29 Nov 2026 14:11:03 GMT\r\n\
         X-RateLimit-Remaining-Requests: 0\r\n\
         Set-Cookie: a=1\r\n\
         set-cookie: b=2\r\n\
         Content-Encoding: gzip\r\n\
         RETRY-AFTER: 30\r\n\
         Content-Length: 5\r\n\r\n\
         \x1f\x00raw",
        "HTTP/1.1 429 Slow Down Please\r\n\
         Date: Sat, 29 Nov 2026 14:11:03 GMT\r\n\
         X-RateLimit-Remaining-Requests: 0\r\n\
         Set-Cookie: a=1\r\n\
         set-cookie: b=2\r\n\
         Content-Encoding: gzip\r\n\
         RETRY-AFTER: 30\r\n\
         Content-Length: 5\r\n\r\n\
         \x1f\x00raw",
    )
    .await;
}

#[tokio::test]
async fn a_chunked_answer_stays_chunked_and_a_second_length_goes() {
    check_answer(
        "HTTP/1.1 200 OK\r\nServer: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\
         X-A: 1\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nServer: x\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n\
         2\r\nok\r\n0\r\n\r\n",
    )
    .await;
}

/// Requests that two readers could split differently: refused or made plain,
/// and never more than one request at the provider.
async fn check_smuggling(sent: &str, requests: usize, must_not_arrive: &str) {
    let server = Server::start(
        Layer::Plain,
        vec![vec![ReadRequest, Say(OK), ReadRequest, Say(OK), Hang]],
    )
    .await;
    let port = listen(&server).await;
    exchange(port, sent).await;
    assert_eq!(server.requests(), requests, "{sent}");
    for raw in server.raw.lock().unwrap().iter() {
        let raw = String::from_utf8_lossy(raw);
        assert!(!raw.contains(must_not_arrive), "{raw}");
    }
}

#[tokio::test]
async fn a_request_that_could_be_read_in_two_ways_is_read_in_one() {
    let hidden = "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    // The listener's library keeps the chunks, drops the length, and closes.
    let both = format!(
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{hidden}",
        hidden.len()
    );
    check_smuggling(&both, 1, "Content-Length").await;
    let both = format!(
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: {}\r\n\r\n{hidden}",
        hidden.len()
    );
    check_smuggling(&both, 1, "hidden").await;
    let two = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!";
    check_smuggling(two, 0, "hello").await;
    let coding = "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n";
    check_smuggling(coding, 0, "xchunked").await;
    let coding = "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    check_smuggling(coding, 0, "gzip").await;
    let old = "POST /a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    check_smuggling(old, 0, "chunked").await;
    let stripped = "POST /a HTTP/1.1\r\nHost: x\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello";
    check_smuggling(stripped, 1, "Connection").await;
}
