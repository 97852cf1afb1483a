//! Heads on their way: nothing of this side goes up, nothing of ours comes from
//! elsewhere, and a body ends in one place.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Version, header};
use rategov_core::time::Span;
use rategov_server::auth::headers_in::{ActionKey, Asked, KEY_BYTES_MAX};
use rategov_server::auth::operator::OperatorDoor;
use rategov_server::doors;
use rategov_server::gateway::destination::{Destination, PlainHttp};
use rategov_server::gateway::framing::{self, Framing};
use rategov_server::gateway::headers::{
    Credential, Injection, KEY_FIELDS, Rewrite, for_caller, for_provider,
};

use crate::Target;
use crate::input::{Input, head_and_body, header_map, pieces};
use crate::words::{SECRET, shows_secret, with_secret};

/// A caller's head on its way to a provider.
pub(super) const TO_PROVIDER: Target = Target {
    name: "to_provider",
    holds: "neither the agent's token nor a hop's or the governor's field goes up, Host and credential are ours, and there is one framing",
    check: check_to_provider,
    seeds: || {
        [
            "Host: 127.0.0.1:7878\nAuthorization: Bearer $KEY$\nx-api-key: $KEY$\nContent-Length: 7",
            "Connection: keep-alive, x-secret\nx-secret: 1\nKeep-Alive: 5\nTE: trailers\nTransfer-Encoding: chunked",
            "Forwarded: for=1\nX-Forwarded-For: 1\nX-Real-IP: 1\nRategov-Task: t\nProxy-Authorization: $KEY$",
            "Content-Length: 1\nContent-Length: 2\nTransfer-Encoding: gzip, chunked",
            "Connection: content-length, host\nUpgrade: websocket\nExpect: 100-continue",
        ]
        .map(|text| [&[1, 1], text.as_bytes()].concat())
        .to_vec()
    },
};

const METHODS: [Method; 6] = [
    Method::GET,
    Method::POST,
    Method::HEAD,
    Method::DELETE,
    Method::TRACE,
    Method::CONNECT,
];

fn request(method: Method, version: Version, headers: HeaderMap) -> http::request::Parts {
    let mut parts = Request::new(()).into_parts().0;
    (parts.method, parts.version, parts.headers) = (method, version, headers);
    parts
}

fn check_to_provider(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let version = [Version::HTTP_10, Version::HTTP_11][usize::from(input.byte() & 1)];
    let Some(text) = with_secret(input.rest()) else {
        return;
    };
    let (fields, _) = head_and_body(&text);
    let headers = header_map(&fields);
    let method = METHODS[usize::from(choice) % METHODS.len()].clone();
    let base = "https://api.example.com/v1";
    let destination = Destination::parse(base, PlainHttp::LoopbackOnly).expect("a base URL");
    let injection = Injection::new(header::AUTHORIZATION, "Bearer provider").expect("a field");
    let set = [(
        HeaderName::from_static("idempotency-key"),
        HeaderValue::from_static("k"),
    )];
    let spent = &KEY_FIELDS[usize::from(choice >> 4) % KEY_FIELDS.len()];
    let injects = choice & 8 == 0;
    let rewrite = Rewrite {
        destination: &destination,
        path: "/x",
        query: None,
        credential: match injects {
            true => Credential::Inject(&injection),
            false => Credential::PassThrough { spent: Some(spent) },
        },
        set: &set,
    };
    let parts = request(method.clone(), version, headers.clone());
    let Ok((up, framing)) = for_provider(parts, rewrite) else {
        return;
    };
    assert!(method != Method::TRACE && method != Method::CONNECT);
    assert_eq!(
        up.headers.get_all(header::HOST).iter().collect::<Vec<_>>(),
        ["api.example.com"]
    );
    assert_eq!(up.headers.get_all("idempotency-key").iter().count(), 1);
    let named = headers.get_all(header::CONNECTION);
    let named: Vec<String> = named
        .iter()
        .flat_map(|list| list.as_bytes().split(|byte| *byte == b','))
        .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
        .collect();
    for name in up.headers.keys().map(HeaderName::as_str) {
        let is_ours = ["rategov-", "x-forwarded-"]
            .iter()
            .any(|start| name.starts_with(start));
        let is_of_here = ["forwarded", "x-real-ip", "proxy-authorization"].contains(&name);
        let is_of_a_hop = [
            "connection",
            "te",
            "upgrade",
            "keep-alive",
            "proxy-connection",
        ]
        .contains(&name);
        assert!(!is_ours && !is_of_here && !is_of_a_hop, "`{name}` goes up");
        let stays = [
            "host",
            "content-length",
            "transfer-encoding",
            "idempotency-key",
            "authorization",
        ];
        assert!(
            stays.contains(&name) || !named.iter().any(|it| it == name),
            "`{name}` is one hop's"
        );
    }
    for name in &KEY_FIELDS {
        let values: Vec<&HeaderValue> = up.headers.get_all(name).iter().collect();
        let expected: &[&str] = if name == header::AUTHORIZATION {
            &["Bearer provider"]
        } else {
            &[]
        };
        assert!(
            !injects || values == expected,
            "an agent's token goes up in `{name}`"
        );
        assert!(injects || name != spent || values.is_empty());
    }
    check_framing(&up.headers, framing, version);
}

/// Whoever reads the head again finds the same end of the body.
fn check_framing(headers: &HeaderMap, framing: Framing, version: Version) {
    let again = framing::of_request(headers, Version::HTTP_11);
    assert_eq!(
        again,
        Ok(framing),
        "the head says another framing than was read"
    );
    let lengths = headers.get_all(header::CONTENT_LENGTH).iter().count();
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter().count();
    let expected = match framing {
        Framing::None => (0, 0),
        Framing::Length(_) => (1, 0),
        Framing::Chunked => (0, 1),
    };
    assert_eq!((lengths, codings), expected, "two framings in one head");
    assert!(framing != Framing::Chunked || version == Version::HTTP_11);
}

/// A provider's head on its way to the caller.
pub(super) const TO_CALLER: Target = Target {
    name: "to_caller",
    holds: "a provider never speaks in the governor's name, and what it says of one hop ends here",
    check: check_to_caller,
    seeds: || {
        [
            "Rategov-Source: upstream\nRetry-After: 7\nSet-Cookie: a=b\nSet-Cookie: c=d",
            "Content-Length: 5\nTransfer-Encoding: chunked\nConnection: close, x-a\nx-a: 1",
            "Transfer-Encoding: gzip, chunked\nProxy-Authenticate: Basic\nKeep-Alive: 1",
        ]
        .map(|text| [&[1], text.as_bytes()].concat())
        .to_vec()
    },
};

fn check_to_caller(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let (fields, _) = head_and_body(input.rest());
    let mut parts = Response::new(()).into_parts().0;
    parts.headers = header_map(&fields);
    let before = parts.headers.clone();
    let method = &METHODS[usize::from(choice) % METHODS.len()];
    let framing = framing::of_answer(method, parts.status, &before);
    let down = for_caller(parts);
    for (name, value) in &down.headers {
        let name = name.as_str();
        assert!(!name.starts_with("rategov-"), "`{name}` speaks in our name");
        assert!(
            ![
                "connection",
                "keep-alive",
                "proxy-authenticate",
                "te",
                "upgrade"
            ]
            .contains(&name),
            "`{name}`"
        );
        assert!(
            before.get_all(name).iter().any(|it| it == value),
            "`{name}` was not there"
        );
    }
    let cookies = |headers: &HeaderMap| {
        headers
            .get_all("set-cookie")
            .iter()
            .cloned()
            .collect::<Vec<_>>()
    };
    let named = before.get_all("connection").iter();
    let names_cookies = named
        .map(|it| it.as_bytes().to_ascii_lowercase())
        .any(|it| it.windows(10).any(|part| part == b"set-cookie"));
    assert!(
        names_cookies || cookies(&before) == cookies(&down.headers),
        "cookies change"
    );
    let both = down.headers.contains_key("content-length")
        && down.headers.contains_key("transfer-encoding");
    assert!(!both, "two framings in one head: {framing:?}");
}

/// The bytes of a head before the HTTP library has read them.
pub(super) const RAW_HEAD: Target = Target {
    name: "raw_head",
    holds: "a head is judged the same in whatever pieces, and one that frames its body twice never passes",
    check: check_raw_head,
    seeds: || {
        [
            "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            "POST /x HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /a#b HTTP/1.1\nContent-Length: +5\nContent-Length : 5\n\n",
            "\r\nGET http://[::1]/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        ]
        .map(|text| [&[2; 8], text.as_bytes()].concat())
        .to_vec()
    },
};

fn check_raw_head(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let cuts = input.number();
    let head = input.rest();
    let whole = doors::head_faults(&[head]);
    assert_eq!(
        doors::head_faults(&pieces(head, cuts)),
        whole,
        "pieces are judged otherwise"
    );
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    let head = &head[start.unwrap_or(head.len())..];
    let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let fields = lines.skip(1).take_while(|line| !line.is_empty());
    let frames = fields.filter(|line| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let name = name.trim_ascii().to_ascii_lowercase();
        line.contains(&b':') && (name == b"content-length" || name == b"transfer-encoding")
    });
    if 1 < frames.count() {
        assert!(
            whole.1.is_some(),
            "a head that frames its body twice passes"
        );
    }
}

/// What an agent asks for in its headers.
pub(super) const ASKED: Target = Target {
    name: "asked",
    holds: "what is asked for is within its bounds, what isn't understood is refused without showing it, and strangers change nothing",
    check: check_asked,
    seeds: || {
        [
            "Rategov-Agent: sync-bot\nRategov-Task: t-1\nRategov-Priority: background\nRategov-Deadline: 2.5\nRategov-Class: read",
            "Prefer: respond-async, wait=30; foo=\"a,b\"\nIdempotency-Key: k-1\nRategov-Action: k-1",
            "x-stainless-timeout: 45\nx-stainless-retry-count: 2\namz-sdk-request: attempt=3; max=5\namz-sdk-invocation-id: u",
            "Rategov-Goal: sync all invoices\nRategov-Deadline: 1e308\nPrefer: wait=NaN",
            "Rategov-Task: $KEY$\u{e9}\nIdempotency-Key: $KEY$\nRategov-Action: other",
            "amz-sdk-request: attempt=0\nRategov-Deadline: 2592000.999999",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    },
};

fn check_asked(bytes: &[u8]) {
    let Some(text) = with_secret(Input::new(bytes).rest()) else {
        return;
    };
    let (fields, _) = head_and_body(&text);
    let mut headers = header_map(&fields);
    let month = Span::from_secs(30 * 24 * 3_600 + 1);
    let asked = Asked::read(&headers);
    let key = ActionKey::read(&headers, None);
    for problem in [asked.as_ref().err(), key.as_ref().err()]
        .into_iter()
        .flatten()
    {
        let shown = format!("{problem} {} {problem:?}", problem.hint);
        assert!(!shows_secret(&shown) && !problem.hint.is_empty(), "{shown}");
    }
    if let Ok(Some(key)) = &key {
        let key = key.as_str();
        assert!((1..=KEY_BYTES_MAX).contains(&key.len()) && !key.contains(char::is_control));
        let holds = |name: &str| headers.get_all(name).iter().all(|value| value == key);
        assert!(
            holds("idempotency-key") && holds("rategov-action"),
            "one of two keys was taken"
        );
    }
    if let Ok(asked) = &asked {
        let spans = [asked.wait, asked.deadline, asked.sdk.timeout];
        assert!(
            spans.into_iter().flatten().all(|span| span <= month),
            "{asked:?}"
        );
        assert!(asked.held(Span::from_secs(60)) <= Span::from_secs(60));
        assert!(
            asked
                .goal
                .as_ref()
                .is_none_or(|goal| !goal.contains(char::is_control))
        );
    }
    headers.insert("x-stranger", HeaderValue::from_static(SECRET));
    assert_eq!(Asked::read(&headers), asked, "a stranger says something");
}

/// Who knocks: `Host` and `Origin`.
pub(super) const DOORS: Target = Target {
    name: "doors",
    holds: "only requests for a listener's own names, and from no other site's page, come through an operator's door",
    check: check_doors,
    seeds: || {
        [
            "Host: localhost:7879\nOrigin: http://localhost:7879",
            "Host: GOVERNOR.example.com\nSec-Fetch-Site: same-origin",
            "Host: [::1]:7879\nOrigin: null",
            "Host: 127.0.0.1.evil.example:7879\nHost: localhost:7879",
            "Host: localhost\nOrigin: https://localhost.evil.example",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    },
};

fn check_doors(bytes: &[u8]) {
    let (fields, _) = head_and_body(Input::new(bytes).rest());
    let headers = header_map(&fields);
    let listener = SocketAddr::from(([127, 0, 0, 1], 7879));
    let name = "governor.example.com".to_owned();
    let door = OperatorDoor::new(listener, &BTreeSet::from([name]));
    let own = [
        "localhost:7879",
        "127.0.0.1:7879",
        "[::1]:7879",
        "governor.example.com",
        "governor.example.com:7879",
    ];
    let is_own = |text: &str| own.contains(&text.to_ascii_lowercase().as_str());
    if door.check(&headers).is_ok() {
        let hosts: Vec<_> = headers.get_all("host").iter().collect();
        assert!(
            matches!(hosts[..], [host] if host.to_str().is_ok_and(is_own)),
            "{hosts:?}"
        );
        let origins = headers.get_all("origin").iter();
        for origin in origins {
            let origin = origin.to_str().unwrap_or_default();
            let host = origin.split_once("://").map_or("", |(_, host)| host);
            assert!(is_own(host), "{origin} came through");
        }
    }
    // No page of another site: its origin says so, or its name is a public one.
    if !doors::is_foreign_page(&headers, listener) {
        let origin = headers
            .get("origin")
            .map(|it| it.to_str().unwrap_or("null").to_ascii_lowercase());
        if let Some(origin) =
            origin.filter(|it| it.starts_with("http://") || it.starts_with("https://"))
        {
            let url: Option<http::Uri> = origin.parse().ok();
            let host = url
                .as_ref()
                .and_then(http::Uri::host)
                .unwrap_or("localhost");
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            let is_here = bare
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback());
            assert!(
                is_here || bare == "localhost" || bare.ends_with(".localhost"),
                "{origin}"
            );
        }
        assert_ne!(
            headers.get("origin").map(HeaderValue::as_bytes),
            Some(&b"null"[..])
        );
    }
}
