//! Paths: into bodies, of endpoints, of look-ups, of calls.

use rategov_server::gateway::body_path::{BodyPath, FOUND_MAX};
use rategov_server::gateway::destination::{Destination, PlainHttp};
use rategov_server::gateway::meter::places::Place;
use rategov_server::route::json_path::JsonPath;
use rategov_server::route::lookup::{Known, ReconcilePlan, RequestTemplate};
use rategov_server::route::target::{Door, Target as RouteTarget};
use rategov_server::route::template::Template;
use serde_json::Value;

use crate::Target;
use crate::input::Input;

/// Paths into JSON, in the three grammars of them.
pub(super) const BODY_PATHS: Target = Target {
    name: "body_paths",
    holds: "a path reads back as it is printed, and leads to a bounded number of values that are there",
    check: check_body_paths,
    seeds: || {
        [
            "$.items[0].id\n%%\n{\"items\":[{\"id\":7}]}",
            "$.error.details[*].retryDelay\n%%\n{\"error\":{\"Details\":[{\"retryDelay\":\"1s\"},{}]}}",
            "$['odd name'].a\n%%\n{\"odd name\":{\"a\":[]}}",
            "$[*][*][*]\n%%\n[[[1,2],[3]],null]",
            "$.usage.output_tokens\n%%\n{}",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    },
};

fn check_body_paths(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let text = String::from_utf8_lossy(input.part());
    let value: Value = serde_json::from_slice(input.rest()).unwrap_or(Value::Null);
    if let Ok(path) = JsonPath::parse(&text) {
        let again = JsonPath::parse(&path.to_string());
        assert_eq!(again.as_ref(), Ok(&path), "{text:?}");
        if path.find_id(&value).is_some() {
            assert!(
                !path.shows_absence(&value),
                "there and not there: {text:?} in {value}"
            );
            assert!(path.find(&value).is_some());
        }
    }
    if let Ok(place) = Place::parse(&text) {
        let again = Place::parse(&place.to_string());
        assert_eq!(again.as_ref(), Ok(&place), "{text:?}");
    }
    if let Some(path) = BodyPath::parse(&text) {
        let found = path.find(&value);
        assert!(found.len() <= FOUND_MAX && !found.iter().any(|(it, _)| it.is_null()));
        let body = value.to_string().to_ascii_lowercase();
        if let (Some(name), false) = (BodyPath::first_name(&text), found.is_empty()) {
            let quoted = Value::from(name).to_string().to_ascii_lowercase();
            assert!(body.contains(&quoted), "{name:?} is not in {body}");
        }
    }
}

/// Templates of endpoints.
pub(super) const TEMPLATES: Target = Target {
    name: "templates",
    holds: "a template reads back as it is printed, matches the path that it writes, and a path in another spelling of the same characters",
    check: check_templates,
    seeds: || {
        [
            "POST /records/{id}",
            "GET /v1/models/{model}:generateContent",
            "* /a/*/b/*",
            "GET *",
            "DELETE /a%20b/{x-1}/",
            "get /x",
            "GET /a/../b",
        ]
        .map(|text| [&[9; 8], text.as_bytes()].concat())
        .to_vec()
    },
};

fn check_templates(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.number();
    let text = input.text();
    let Ok(template) = Template::parse(&text) else {
        return;
    };
    let again = Template::parse(template.as_str());
    assert_eq!(again.as_ref(), Ok(&template), "{text:?}");
    assert!(template.same_calls(&template));
    let method = template.method().unwrap_or("PATCH");
    let (_, path) = template
        .as_str()
        .split_once(' ')
        .expect("a method and a path");
    if path == "*" {
        return;
    }
    // A name's value, and a star's, is one segment.
    let names: Vec<String> = template.names().map(str::to_owned).collect();
    let mut written = path.to_owned();
    for name in &names {
        written = written.replacen(&format!("{{{name}}}"), "v", 1);
    }
    let written = written.replace("/*", "/s");
    let found = template.matches(method, &written);
    let found = found.unwrap_or_else(|| panic!("{template} does not match {written}"));
    let values: Vec<&str> = found.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, vec!["v"; names.len()], "{template} in {written}");
    assert!(template.matches("BREW", &written).is_none() || template.method().is_none());
    // RFC 3986 §6.2.2.2: an unreserved character may be spelt as its code.
    let spelt = spell(&written, choice);
    assert!(
        template.matches(method, &spelt).is_some(),
        "{template} does not match {spelt}"
    );
}

/// Writes some letters, digits and hyphens as their codes; what is a code stays one.
fn spell(path: &str, mut choice: u64) -> String {
    let mut spelt = String::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        choice = choice.rotate_left(5).wrapping_mul(0x2545_f491_4f6c_dd1d);
        let digits = rest.get(1..3).filter(|_| first == '%');
        let is_code = digits.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let (unit, after) = rest.split_at(if is_code { 3 } else { first.len_utf8() });
        let is_plain = first.is_ascii_alphanumeric() || "-_~".contains(first);
        if is_plain && choice.is_multiple_of(4) {
            spelt.push_str(&format!("%{:02X}", first as u32));
        } else {
            spelt.push_str(unit);
        }
        rest = after;
    }
    spelt
}

/// Look-ups: what is put in stays one value.
pub(super) const LOOKUP: Target = Target {
    name: "lookup",
    holds: "whatever a key holds, it stays one value of the look-up's request and leaves its path alone",
    check: check_lookup,
    seeds: || {
        [
            "GET /records?key={idempotency_key}\n%%\na&b=/../c#%",
            "GET /records/{operation_id}/x?r={external_ref}\n%%\n..",
            "GET /r/{id}\n%%\n\u{e9} \n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    },
};

fn check_lookup(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let template = String::from_utf8_lossy(input.part());
    let value = input.text();
    let Ok(template) = RequestTemplate::parse(&template, &["id"]) else {
        return;
    };
    assert_eq!(
        RequestTemplate::parse(template.as_str(), &["id"]).as_ref(),
        Ok(&template)
    );
    let found = JsonPath::parse("$.id").expect("a path");
    let plan = ReconcilePlan::new(template, found);
    let parameters = [("id".to_owned(), "7".to_owned())];
    let known = |value| Known {
        idempotency_key: Some(value),
        operation_id: Some(value),
        external_ref: Some(value),
        parameters: &parameters,
    };
    let (Ok(target), Ok(plain)) = (plan.target(&known(&value)), plan.target(&known("x"))) else {
        return;
    };
    for mark in ['/', '?', '&', '#', '=', ';'] {
        let (here, there) = (target.matches(mark).count(), plain.matches(mark).count());
        assert_eq!(here, there, "{target} is another call than {plain}");
    }
    assert!(
        target.bytes().all(|byte| byte.is_ascii_graphic()),
        "{target:?}"
    );
}

/// Base URLs, and what callers append to them.
pub(super) const DESTINATION: Target = Target {
    name: "destination",
    holds: "no path or query leaves host and base path, in any encoding, and what is sent is byte for byte what was asked",
    check: check_destination,
    seeds: || {
        [
            "https://api.example.com/v1/\n%%\n/files/a%2Fb\n%%\nx=%41",
            "http://127.0.0.1:9100\n%%\n/a/%252e%252e/b\n%%\n",
            "https://[::1]:8443/base\n%%\n/a;x=1/..;y/b\n%%\na#b",
            "https://user:p@ss@host/\n%%\n@evil.example/\n%%\n?",
            "https://2130706433/\n%%\n//evil.example/x\n%%\n",
        ]
        .map(|text| [&[1][..], text.as_bytes()].concat())
        .to_vec()
    },
};

fn check_destination(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let (base, path, query) = (input.part(), input.part(), input.part());
    let [base, path, query] = [base, path, query].map(String::from_utf8_lossy);
    let query = (choice & 1 == 0).then_some(&*query);
    let plain = [PlainHttp::Allowed, PlainHttp::LoopbackOnly][usize::from(choice >> 1 & 1)];
    let fixed = Destination::parse("https://api.example.com/v1", plain).expect("a base URL");
    for destination in [Ok(fixed), Destination::parse(&base, plain)]
        .into_iter()
        .flatten()
    {
        let origin = destination.origin().clone();
        let host = origin.host.to_string();
        assert!(
            !host.contains(['@', '/', '?', '#', ' ', '%']) && origin.port != 0,
            "{host}"
        );
        assert!(
            destination
                .host_header()
                .to_str()
                .is_ok_and(|it| it.starts_with(&host))
        );
        let Ok(bare) = destination.join("", None) else {
            continue;
        };
        let Ok(target) = destination.join(&path, query) else {
            continue;
        };
        let base_path = bare.path().trim_end_matches('/');
        let asked = if path.is_empty() && base_path.is_empty() {
            "/"
        } else {
            &path
        };
        assert_eq!(
            target.path(),
            format!("{base_path}{asked}"),
            "byte for byte"
        );
        assert_eq!(
            target.query(),
            query.filter(|_| target.as_str().contains('?'))
        );
        assert_eq!(destination.path_of(target.as_str()), Some(asked));
        let url = format!("https://{host}{}", target.as_str());
        let seen: http::Uri = url.parse().expect("a target is one");
        assert_eq!(
            seen.host(),
            Some(host.as_str()),
            "another host is reached by {url}"
        );
        check_stays(&path);
    }
}

/// However often it is decoded (as often as anybody does), no segment leads up.
fn check_stays(path: &str) {
    let mut text = path.to_owned();
    for _ in 0..3 {
        for segment in text.split(['/', '\\']) {
            let name = segment.split(';').next().unwrap_or_default();
            assert!(!matches!(name, "." | ".."), "{path} leads up");
        }
        text = rategov_server::doors::path_segment(&text);
    }
}

/// The door that a request's target names.
pub(super) const TARGET: Target = Target {
    name: "target",
    holds: "a path names one door, keeps what follows byte for byte, shows no run token, and names no other host",
    check: check_target,
    seeds: || {
        [
            "/openai/v1/chat?x=1",
            "/run/rg_tok/anthropic/v1/messages",
            "/governor/v1/scopes",
            "http://evil.example/x",
            "/run/run//",
            "*",
            "/%2e%2e/x",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    },
};

fn check_target(bytes: &[u8]) {
    let bytes = Input::new(bytes).rest();
    let decoded = rategov_server::doors::path_segment(&String::from_utf8_lossy(bytes));
    assert!(decoded.len() <= 3 * bytes.len());
    let Ok(uri) = http::Uri::try_from(bytes) else {
        return;
    };
    let Ok(target) = RouteTarget::of(&uri) else {
        return;
    };
    assert!(uri.host().is_none() && uri.scheme().is_none());
    let (first, path, query) = match target.door {
        Door::Gateway {
            provider,
            path,
            query,
        } => (provider.to_owned(), path, query),
        Door::Governor { path, query } => ("governor/v1".to_owned(), path, query),
    };
    let run = target
        .run
        .map(|token| format!("/run/{token}"))
        .unwrap_or_default();
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let written = format!("{run}/{first}{path}{query}");
    let whole = uri.path_and_query().map(|it| it.as_str().to_owned());
    assert_eq!(Some(written), whole, "byte for byte");
    assert!(path.is_empty() || path.starts_with('/'));
    if let Some(token) = target
        .run
        .filter(|token| 24 < token.len() && !first.contains(token))
    {
        let shown = format!("{target:?}");
        let is_elsewhere = path.contains(token) || query.contains(token);
        assert!(
            is_elsewhere || !shown.contains(token),
            "a run token is shown"
        );
    }
}
