//! Ordinary service over a real socket: exact heads, every framing of a
//! request, strictness, streams, coding, TLS.

use std::io::Read;
use std::sync::Arc;

use crate::support::{Caller, End, header, ledger, request, soon, start, start_with, status};
use rategov_core::time::{Span, WallTime};
use rategov_sim::fake_provider::{Clock, Options, StartError, TlsOptions, serve};
use rategov_sim::provider::config::{Config, Gzip};
use rategov_sim::provider::ledger::sha256;
use rategov_sim::provider::limit_fields::LimitFields;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn an_answer_is_these_bytes_and_no_others() {
    let clock = Clock::StartsAt(WallTime::from_secs(1_767_225_600));
    let running = serve(Options {
        clock,
        ..Options::default()
    })
    .await
    .expect("it starts");
    let mut caller = Caller::connect(&running).await;
    caller
        .write("GET /orders HTTP/1.1\r\nhost: fake\r\nconnection: close\r\n\r\n")
        .await;
    let (text, end) = caller.read_to_end().await;
    let body = r#"{"ok":true,"path":"/orders"}"#;
    let date = header(&text, "date").expect("a date").to_owned();
    assert!(date.starts_with("Thu, 01 Jan 2026 00:00:"), "{date}");
    assert_eq!(
        text,
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ndate: {date}\r\n\
             x-request-id: req_00000001\r\ncontent-length: 28\r\nconnection: close\r\n\r\n{body}"
        )
    );
    assert_eq!(end, End::Fin);
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection_even_at_once() {
    let running = start(Config::default()).await;
    let mut caller = Caller::connect(&running).await;
    let two = [request("GET", "/a", &[], ""), request("GET", "/b", &[], "")].concat();
    caller.write(two).await;
    for path in ["/a", "/b"] {
        let (_, body) = caller.answer().await;
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["path"], path);
    }
}

#[tokio::test]
async fn an_echo_says_what_arrived_in_its_order() {
    let running = start(Config::default()).await;
    let mut caller = Caller::connect(&running).await;
    let fields = [("X-B", "2"), ("x-a", "caf\u{e9}"), ("X-B", "3")];
    caller
        .write(request("PUT", "/echo/a%2Fb?q=%20", &fields, "hello"))
        .await;
    let (_, body) = caller.answer().await;
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        (&body["method"], &body["target"]),
        (&"PUT".into(), &"/echo/a%2Fb?q=%20".into())
    );
    // The two bytes of the é are two characters: values are kept byte for byte.
    let expected = json!([
        ["host", "fake"],
        ["X-B", "2"],
        ["x-a", "caf\u{c3}\u{a9}"],
        ["X-B", "3"],
        ["content-length", "5"]
    ]);
    assert_eq!(body["headers"], expected);
    assert_eq!(body["body_sha256"], sha256(b"hello").as_str());
}

#[tokio::test]
async fn a_body_arrives_whole_in_either_framing_whatever_its_size() {
    let running = start(Config::default()).await;
    let mut caller = Caller::connect(&running).await;
    let body: Vec<u8> = (0..3 << 20).map(|n: u32| (n % 251) as u8).collect();
    caller
        .write(format!(
            "POST /echo HTTP/1.1\r\ncontent-length: {}\r\n\r\n",
            body.len()
        ))
        .await;
    caller.write(&body).await;
    let digest = |answer: &[u8]| {
        let json: Value = serde_json::from_slice(answer).expect("JSON");
        json["body_sha256"].as_str().expect("a digest").to_owned()
    };
    assert_eq!(digest(&caller.answer().await.1), sha256(&body));
    caller
        .write("POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    for part in body[..1 << 20].chunks(10_000) {
        caller.write(format!("{:x};ext=1\r\n", part.len())).await;
        caller.write(part).await;
        caller.write("\r\n").await;
    }
    caller.write("0\r\ntrailer: x\r\n\r\n").await;
    assert_eq!(digest(&caller.answer().await.1), sha256(&body[..1 << 20]));
}

#[tokio::test]
async fn a_caller_that_awaits_leave_to_send_gets_it() {
    let running = start(Config::default()).await;
    let mut caller = Caller::connect(&running).await;
    let head = "POST /orders HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
    caller.write(head).await;
    assert_eq!(
        caller.read_until("\r\n\r\n").await,
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    caller.write("{}").await;
    assert_eq!(status(&caller.answer().await.0), 200);
}

#[tokio::test]
async fn the_answer_to_a_head_has_a_length_and_no_body() {
    let running = start(Config::default()).await;
    let mut caller = Caller::connect(&running).await;
    caller.write("HEAD /orders HTTP/1.1\r\n\r\n").await;
    let head = caller.read_until("\r\n\r\n").await;
    assert_eq!(header(&head, "content-length"), Some("28"));
    let (head, _) = caller.send("GET", "/orders", "").await;
    assert!(
        head.starts_with("HTTP/1.1 200"),
        "nothing lay between: {head:?}"
    );
}

#[tokio::test]
async fn a_caller_of_http_1_0_gets_no_chunks_and_an_end() {
    let running = start(Config::default()).await;
    let mut caller = Caller::connect(&running).await;
    let body = r#"{"model":"m","stream":true}"#;
    let length = body.len();
    let head = format!("POST /v1/chat/completions HTTP/1.0\r\ncontent-length: {length}\r\n\r\n");
    caller.write(format!("{head}{body}")).await;
    let (text, end) = caller.read_to_end().await;
    assert!(
        !text.contains("chunked") && text.ends_with("data: [DONE]\n\n"),
        "{text}"
    );
    assert_eq!(end, End::Fin);
}

/// A request that is refused before it counts as arrived.
async fn check_refused(bytes: &str, expected: u16) {
    let running = serve(Options {
        body_max: 10,
        ..Options::default()
    })
    .await
    .expect("it starts");
    let mut caller = Caller::connect(&running).await;
    caller.write(bytes).await;
    let (text, _) = caller.read_to_end().await;
    assert_eq!(status(&text), expected, "{bytes:?}: {text:?}");
    assert_eq!(ledger(&running)["totals"]["arrived"], 0);
}

#[tokio::test]
async fn a_request_that_two_readers_could_read_differently_is_refused() {
    let post = "POST /x HTTP/1.1\r\n";
    check_refused(
        &format!("{post}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        400,
    )
    .await;
    check_refused(
        &format!("{post}content-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        400,
    )
    .await;
    check_refused(&format!("{post}content-length: +1\r\n\r\na"), 400).await;
    check_refused(
        &format!("{post}transfer-encoding: gzip, chunked\r\n\r\n"),
        501,
    )
    .await;
    check_refused(
        &format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n"),
        400,
    )
    .await;
    check_refused(
        &format!("{post}transfer-encoding: chunked\r\n\r\n2\r\nabc\r\n"),
        400,
    )
    .await;
    check_refused("NOT HTTP AT ALL\r\n\r\n", 400).await;
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_by_name() {
    check_refused(
        "POST /x HTTP/1.1\r\ncontent-length: 11\r\n\r\n0123456789a",
        413,
    )
    .await;
    let chunked = "POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nb\r\n0123456789a\r\n";
    check_refused(chunked, 413).await;
    let field = format!("GET /x HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(70_000));
    check_refused(&field, 431).await;
    let fields = "x: y\r\n".repeat(200);
    check_refused(&format!("GET /x HTTP/1.1\r\n{fields}\r\n"), 431).await;
}

#[tokio::test]
async fn a_caller_that_leaves_frees_its_seat() {
    let quotas = vec!["concurrent:1".parse().expect("a quota")];
    let config = Config {
        quotas,
        ..Config::default()
    };
    let running = start(config).await;
    crate::support::push(
        &running,
        json!({"calls": "GET /slow", "delay_ms": 3_600_000}),
    );
    let mut slow = Caller::connect(&running).await;
    slow.write(request("GET", "/slow", &[], "")).await;
    soon(running.handle.arrivals(1)).await;
    let mut other = Caller::connect(&running).await;
    assert_eq!(status(&other.send("GET", "/x", "").await.0), 429);
    drop(slow);
    soon(
        running
            .handle
            .until(|provider, _| provider.in_flight() == 0),
    )
    .await;
    assert_eq!(status(&other.send("GET", "/x", "").await.0), 200);
    assert_eq!(ledger(&running)["arrivals"][0]["ended"], "caller_gone");
}

// Two threads, so that the caller can be faster than the provider's last line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_is_complete_when_the_answer_has_been_read() {
    let quotas = vec!["concurrent:1".parse().expect("a quota")];
    let running = start(Config {
        quotas,
        ..Config::default()
    })
    .await;
    for n in 0..1_000 {
        // A new connection each time: only the seat orders the calls.
        let mut caller = Caller::connect(&running).await;
        assert_eq!(
            status(&caller.send("GET", "/x", "").await.0),
            200,
            "call {n}"
        );
        assert_eq!(running.handle.read(|p| p.in_flight()), 0);
    }
}

#[tokio::test]
async fn a_coded_stream_can_be_read_event_by_event() {
    let config = Config {
        gzip: Gzip::WhenAccepted,
        ..Config::default()
    };
    let running = start(config).await;
    let body = r#"{"model":"m","stream":true}"#;
    let plain = request("POST", "/v1/messages", &[], body);
    let coded = request(
        "POST",
        "/v1/messages",
        &[("accept-encoding", "br, gzip")],
        body,
    );
    let mut caller = Caller::connect(&running).await;
    caller.write(plain).await;
    let plain = caller.read_until("0\r\n\r\n").await;
    caller.write(coded).await;
    let head = caller.read_until("\r\n\r\n").await;
    assert_eq!(header(&head, "content-encoding"), Some("gzip"));
    let mut bytes = Vec::new();
    loop {
        let line = caller.read_until("\r\n").await;
        let size = usize::from_str_radix(line.trim_end(), 16).expect("a size");
        if size == 0 {
            break;
        }
        while caller.ahead.len() < size + 2 {
            caller.read_until("\r\n").await;
        }
        bytes.extend(caller.ahead.drain(..size));
        caller.ahead.drain(..2);
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .read_to_string(&mut text)
        .expect("gzip");
    let events = |text: &str| {
        text.lines()
            .filter(|l| l.starts_with("data: "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(events(&text), events(&plain));
}

#[tokio::test]
async fn limits_are_told_over_the_wire() {
    let config = Config {
        quotas: vec!["sliding:1/1h".parse().expect("a quota")],
        limit_fields: LimitFields::Ietf,
        ..Config::default()
    };
    let running = start(config).await;
    let mut caller = Caller::connect(&running).await;
    let (head, _) = caller.send("GET", "/x", "").await;
    assert_eq!(
        header(&head, "ratelimit-policy"),
        Some("\"requests\";q=1;w=3600")
    );
    let (head, body) = caller.send("GET", "/x", "").await;
    assert_eq!(
        (status(&head), header(&head, "retry-after")),
        (429, Some("3600"))
    );
    assert_eq!(body["error"]["code"], "rate_limit_error");
}

#[tokio::test]
async fn a_caller_under_tls_must_trust_the_written_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = folder.path().join("ca.pem");
    let tls = Some(TlsOptions {
        certificate: certificate.clone(),
        names: Vec::new(),
    });
    let running = serve(Options {
        tls,
        ..Options::default()
    })
    .await
    .expect("it starts");
    assert!(running.base_url().starts_with("https://127.0.0.1:"));
    let pem = std::fs::read(&certificate).expect("it was written");
    assert!(!String::from_utf8_lossy(&pem).contains("PRIVATE KEY"));
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&pem).expect("a certificate"))
        .expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let tcp = tokio::net::TcpStream::connect(running.addr)
        .await
        .expect("somebody listens");
    let name = "127.0.0.1".try_into().expect("a name");
    let mut stream = connector.connect(name, tcp).await.expect("it is trusted");
    crate::support::push(
        &running,
        json!({"calls": "GET /cut", "fault": "reset_before_effect"}),
    );
    for (path, expected) in [("/x", "HTTP/1.1 200 OK"), ("/cut", "")] {
        stream
            .write_all(request("GET", path, &[], "").as_bytes())
            .await
            .expect("it stands");
        let mut buffer = vec![0; 4_096];
        let read = soon(stream.read(&mut buffer)).await.unwrap_or(0);
        let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
        assert!(
            text.starts_with(expected) && text.is_empty() == expected.is_empty(),
            "{text:?}"
        );
    }
}

#[tokio::test]
async fn a_taken_address_and_an_unwritable_certificate_are_named() {
    let running = start(Config::default()).await;
    let taken = serve(Options {
        listen: running.addr,
        ..Options::default()
    })
    .await;
    let error = taken.expect_err("the port is taken");
    assert!(matches!(&error, StartError::Listen { addr, .. } if *addr == running.addr));
    assert!(error.to_string().contains("hint: "));
    let tls = Some(TlsOptions {
        certificate: "/nowhere/ca.pem".into(),
        names: Vec::new(),
    });
    let error = serve(Options {
        tls,
        ..Options::default()
    })
    .await
    .expect_err("no such folder");
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
}

#[tokio::test]
async fn a_shutdown_ends_listeners_and_connections_and_keeps_the_ledger() {
    let running = start_with(json!({"delay_ms": 3_600_000})).await;
    let mut caller = Caller::connect(&running).await;
    caller.write(request("GET", "/slow", &[], "")).await;
    soon(running.handle.arrivals(1)).await;
    let (addr, handle) = (running.addr, running.handle.clone());
    running.shutdown().await;
    let (text, _) = caller.read_to_end().await;
    assert_eq!(text, "");
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
    assert_eq!(handle.ledger().totals().arrived, 1);
}

#[tokio::test]
async fn a_delay_is_at_least_as_long_as_it_says() {
    let running = start_with(json!({"delay_ms": 30})).await;
    let mut caller = Caller::connect(&running).await;
    assert_eq!(status(&caller.send("POST", "/orders", "{}").await.0), 200);
    let json = ledger(&running);
    let (at, ended) = (
        &json["arrivals"][0]["at_us"],
        &json["arrivals"][0]["ended_at_us"],
    );
    let lasted = ended
        .as_u64()
        .zip(at.as_u64())
        .map(|(e, a)| e - a)
        .expect("both moments");
    assert!(
        Span::from_micros(lasted) >= Span::from_millis(30),
        "{lasted} us"
    );
    assert_eq!(
        json["effects"][0]["at_us"].as_u64(),
        at.as_u64().map(|a| a + 30_000)
    );
}
