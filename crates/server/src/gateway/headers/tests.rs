//! Heads, written as they look on the wire.

use http::{Request, Response};

use super::*;
use crate::gateway::destination::PlainHttp;

fn parse(lines: &str) -> HeaderMap {
    let mut head = HeaderMap::new();
    for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (name, value) = line.split_once(": ").unwrap();
        head.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    head
}

fn print(head: &HeaderMap) -> String {
    head.iter()
        .map(|(n, v)| format!("{n}: {}\n", String::from_utf8_lossy(v.as_bytes())))
        .collect()
}

fn request(method: Method, lines: &str) -> request::Parts {
    let (mut parts, ()) = Request::builder()
        .method(method)
        .uri("/x")
        .body(())
        .unwrap()
        .into_parts();
    parts.headers = parse(lines);
    parts
}

fn up(
    lines: &str,
    credential: Credential<'_>,
    set: &[(HeaderName, HeaderValue)],
) -> Result<String, HeadRefusal> {
    let destination =
        Destination::parse("https://api.example.com/v1", PlainHttp::LoopbackOnly).unwrap();
    let rewrite = Rewrite {
        destination: &destination,
        path: "/chat",
        query: Some("a=1"),
        credential,
        set,
    };
    let (parts, _) = for_provider(request(Method::POST, lines), rewrite)?;
    assert_eq!(parts.uri, "/v1/chat?a=1");
    Ok(print(&parts.headers))
}

fn check_up(sent: &str, credential: Credential<'_>, expected: &str) {
    let expected: String = expected
        .lines()
        .map(|l| format!("{}\n", l.trim()))
        .collect();
    assert_eq!(up(sent, credential, &[]).unwrap().trim(), expected.trim());
}

const OWN_KEY: Credential<'static> = Credential::PassThrough { spent: None };

#[test]
fn a_plain_head_passes_in_its_order_with_the_providers_host() {
    check_up(
        "user-agent: OpenAI/Python 1.2
         host: 127.0.0.1:7878
         accept: application/json
         authorization: Bearer sk-own
         x-stainless-retry-count: 0
         cookie: a=1
         expect: 100-continue
         content-length: 12",
        OWN_KEY,
        "user-agent: OpenAI/Python 1.2
         host: api.example.com
         accept: application/json
         authorization: Bearer sk-own
         x-stainless-retry-count: 0
         cookie: a=1
         expect: 100-continue
         content-length: 12",
    );
}

#[test]
fn what_belongs_to_one_hop_or_to_the_governor_stays() {
    check_up(
        "host: 127.0.0.1:7878
         connection: keep-alive, X-Hop
         connection: close
         keep-alive: timeout=5
         proxy-connection: keep-alive
         proxy-authorization: Basic x
         x-hop: 1
         te: trailers
         rategov-task: sync-482
         rategov-anything-else: 1
         forwarded: for=10.0.0.1
         x-forwarded-for: 10.0.0.1
         x-forwarded-anything: 1
         x-real-ip: 10.0.0.1
         trailer: x-sum
         transfer-encoding: chunked
         accept: */*",
        OWN_KEY,
        "host: api.example.com
         trailer: x-sum
         transfer-encoding: chunked
         accept: */*",
    );
}

#[test]
fn a_caller_cannot_unmake_framing_or_host_through_connection() {
    check_up(
        "host: a
         connection: content-length, host
         content-length: 3",
        OWN_KEY,
        "host: api.example.com
         content-length: 3",
    );
}

#[test]
fn the_injected_credential_takes_the_callers_place_and_every_key_field_goes() {
    let injection = Injection::new(AUTHORIZATION, "Bearer sk-real").unwrap();
    check_up(
        "host: a
         authorization: Bearer rga_token
         x-api-key: rga_token
         x-goog-api-key: rga_token
         api-key: rga_token
         accept: */*",
        Credential::Inject(&injection),
        "host: api.example.com
         authorization: Bearer sk-real
         accept: */*",
    );
    let injection = Injection::new(HeaderName::from_static("x-api-key"), "sk-real").unwrap();
    check_up(
        "authorization: Bearer rga_token\naccept: */*",
        Credential::Inject(&injection),
        "host: api.example.com
         accept: */*
         x-api-key: sk-real",
    );
}

#[test]
fn a_spent_token_goes_even_where_the_callers_own_key_passes() {
    let spent = HeaderName::from_static("api-key");
    check_up(
        "host: a\nauthorization: Bearer sk-own\napi-key: rga_token",
        Credential::PassThrough {
            spent: Some(&spent),
        },
        "host: api.example.com\nauthorization: Bearer sk-own",
    );
}

#[test]
fn an_injected_credential_shows_in_no_debug_text() {
    let injection = Injection::new(AUTHORIZATION, "Bearer canary-4711").unwrap();
    let destination =
        Destination::parse("https://api.example.com", PlainHttp::LoopbackOnly).unwrap();
    let rewrite = Rewrite {
        destination: &destination,
        path: "/",
        query: None,
        credential: Credential::Inject(&injection),
        set: &[],
    };
    let (parts, _) = for_provider(request(Method::GET, "host: a"), rewrite).unwrap();
    assert_eq!(parts.headers[AUTHORIZATION], "Bearer canary-4711");
    let shown = format!("{injection:?} {rewrite:?} {parts:?}");
    assert!(!shown.contains("canary"), "{shown}");
}

#[test]
fn a_field_that_the_route_sets_replaces_the_callers() {
    let key = HeaderName::from_static("idempotency-key");
    let set = [(key, HeaderValue::from_static("rec-91f2"))];
    let sent = "host: a\nidempotency-key: other\nidempotency-key: third\naccept: */*";
    assert_eq!(
        up(sent, OWN_KEY, &set).unwrap(),
        "host: api.example.com\nidempotency-key: rec-91f2\naccept: */*\n"
    );
    assert_eq!(
        up("host: a", OWN_KEY, &set).unwrap(),
        "host: api.example.com\nidempotency-key: rec-91f2\n"
    );
}

fn check_refused(method: Method, lines: &str, expected: HeadRefusal) {
    let destination =
        Destination::parse("https://api.example.com/v1", PlainHttp::LoopbackOnly).unwrap();
    let rewrite = Rewrite {
        destination: &destination,
        path: "/chat",
        query: None,
        credential: OWN_KEY,
        set: &[],
    };
    let got = for_provider(request(method, lines), rewrite).map(drop);
    assert_eq!(got, Err(expected), "{lines}");
}

#[test]
fn heads_that_could_be_read_in_two_ways_are_refused() {
    check_refused(
        Method::POST,
        "content-length: 3\ntransfer-encoding: chunked",
        HeadRefusal::Framing(FramingError::LengthAndChunked),
    );
    check_refused(
        Method::POST,
        "content-length: 3\ncontent-length: 4",
        HeadRefusal::Framing(FramingError::SeveralLengths),
    );
    check_refused(Method::CONNECT, "", HeadRefusal::Connect);
    check_refused(Method::TRACE, "", HeadRefusal::Trace);
    check_refused(
        Method::GET,
        "connection: upgrade\nupgrade: WebSocket",
        HeadRefusal::Websocket,
    );
}

#[test]
fn an_upgrade_that_may_be_ignored_is_ignored() {
    check_up(
        "host: a
         connection: Upgrade, HTTP2-Settings
         upgrade: h2c
         http2-settings: AAMA",
        OWN_KEY,
        "host: api.example.com",
    );
}

fn check_down(sent: &str, expected: &str) {
    let (mut parts, ()) = Response::new(()).into_parts();
    parts.headers = parse(sent);
    let expected: String = expected
        .lines()
        .map(|l| format!("{}\n", l.trim()))
        .collect();
    assert_eq!(print(&for_caller(parts).headers).trim(), expected.trim());
}

#[test]
fn an_answer_keeps_everything_that_is_not_about_the_connection() {
    check_down(
        "date: Sat, 29 Nov 2026 14:11:03 GMT
         connection: close, x-hop
         x-hop: 1
         keep-alive: timeout=5
         retry-after: 30
         x-ratelimit-remaining-requests: 0
         set-cookie: a=1
         set-cookie: b=2
         rategov-source: governor
         proxy-authenticate: Basic
         content-encoding: gzip
         transfer-encoding: chunked",
        "date: Sat, 29 Nov 2026 14:11:03 GMT
         retry-after: 30
         x-ratelimit-remaining-requests: 0
         set-cookie: a=1
         set-cookie: b=2
         content-encoding: gzip
         transfer-encoding: chunked",
    );
    check_down(
        "content-length: 7\ntransfer-encoding: chunked",
        "transfer-encoding: chunked",
    );
    check_down("transfer-encoding: gzip, chunked\nx-a: 1", "x-a: 1");
    check_down("content-length: 7", "content-length: 7");
}
