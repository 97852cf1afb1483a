//! What a destination accepts and refuses.

use proptest::prelude::*;

use super::*;

fn destination(base: &str) -> Destination {
    Destination::parse(base, PlainHttp::LoopbackOnly).unwrap()
}

fn check_base(base: &str, expected: Result<&str, DestinationError>) {
    let got = Destination::parse(base, PlainHttp::LoopbackOnly);
    assert_eq!(
        got.map(|d| d.origin().to_string()),
        expected.map(str::to_owned),
        "{base}"
    );
}

#[test]
fn a_base_url_is_scheme_host_port_and_path() {
    check_base("https://API.example.com", Ok("https://api.example.com"));
    check_base(
        "https://api.example.com:8443/v1/",
        Ok("https://api.example.com:8443"),
    );
    check_base("https://api.example.com:443", Ok("https://api.example.com"));
    check_base(
        "https://[2606:4700::1]:8443",
        Ok("https://[2606:4700::1]:8443"),
    );
    check_base("http://127.0.0.1:9100", Ok("http://127.0.0.1:9100"));
    check_base("http://localhost:9100/x", Ok("http://localhost:9100"));
    check_base("http://[::1]:9100", Ok("http://[::1]:9100"));
    assert_eq!(
        destination("https://api.example.com:443/v1").host_header(),
        "api.example.com"
    );
    assert_eq!(
        destination("http://127.0.0.1:9100").host_header(),
        "127.0.0.1:9100"
    );
}

#[test]
fn a_base_url_with_room_for_doubt_is_refused() {
    use DestinationError::*;
    check_base("ftp://api.example.com", Err(Scheme));
    check_base("api.example.com", Err(Scheme));
    check_base("https://user:pw@api.example.com", Err(UserInfo));
    check_base("https://good.example@evil.example", Err(UserInfo));
    check_base("https://api.example.com/v1?key=x", Err(QueryOrFragment));
    check_base("https://api.example.com/#x", Err(QueryOrFragment));
    check_base(
        "https://api.example.com/v1/../admin",
        Err(Path(TargetError::DotSegment)),
    );
    check_base("https://api.example.com:0", Err(NotAUrl));
    check_base("https://127.1/", Err(NotAUrl));
    check_base("https://2130706433/", Err(NotAUrl));
    check_base("https://0x7f000001/", Err(NotAUrl));
    check_base("https://169.254.169.254/", Err(Address));
    check_base("https://0.0.0.0/", Err(Address));
}

#[test]
fn plain_http_leaves_this_machine_only_when_the_operator_says_so() {
    check_base(
        "http://billing.internal:9100",
        Err(DestinationError::PlainHttp),
    );
    check_base("http://10.0.0.8:9100", Err(DestinationError::PlainHttp));
    let allowed = Destination::parse("http://billing.internal:9100", PlainHttp::Allowed).unwrap();
    assert_eq!(allowed.reach(), Reach::Anywhere);
    assert_eq!(
        destination("http://localhost:9100").reach(),
        Reach::Loopback
    );
    assert_eq!(
        destination("https://api.example.com").reach(),
        Reach::Anywhere
    );
}

fn check_join(base: &str, path: &str, query: Option<&str>, expected: Result<&str, TargetError>) {
    let got = destination(base).join(path, query);
    assert_eq!(
        got.as_ref().map(PathAndQuery::as_str),
        expected.as_ref().copied(),
        "{path:?}"
    );
}

#[test]
fn path_and_query_pass_byte_for_byte() {
    const BASE: &str = "https://api.example.com/v1/";
    check_join(BASE, "/chat", None, Ok("/v1/chat"));
    check_join(
        BASE,
        "/files/a%2Fb",
        Some("x=%41&y=a/../b"),
        Ok("/v1/files/a%2Fb?x=%41&y=a/../b"),
    );
    check_join(BASE, "//double//", Some(""), Ok("/v1//double//?"));
    check_join(
        BASE,
        "/models/x@2024:predict",
        None,
        Ok("/v1/models/x@2024:predict"),
    );
    check_join(BASE, "/a.b/..c/c../...", None, Ok("/v1/a.b/..c/c../..."));
    check_join(BASE, "/100%/%zz", None, Ok("/v1/100%/%zz"));
    check_join(BASE, "", Some("a=1"), Ok("/v1?a=1"));
    check_join("https://api.example.com", "", None, Ok("/"));
    check_join("https://api.example.com", "/", None, Ok("/"));
}

#[test]
fn what_could_become_another_path_is_refused() {
    const BASE: &str = "https://api.example.com/v1";
    for path in [
        "/..",
        "/../x",
        "/a/..",
        "/a/./b",
        "/%2e%2e/x",
        "/.%2E/x",
        "/%2e",
        "/..%2fadmin",
        "/a%2f..%2fb",
        "/%252e%252e/x",
        "/%25252e./x",
        "/..;v=1/x",
        "/%2e%2e;/x",
    ] {
        check_join(BASE, path, None, Err(TargetError::DotSegment));
    }
    for path in ["/..\\x", "/a\\b", "/a%5cb", "/a%255Cb"] {
        check_join(BASE, path, None, Err(TargetError::Backslash));
    }
    for path in [
        "/a\r\nHost: evil",
        "/a%0d%0ab",
        "/a%00",
        "/a\u{7f}",
        "/a%250ab",
    ] {
        check_join(BASE, path, None, Err(TargetError::Control));
    }
    for path in [
        "@evil.example/x",
        "evil",
        ".evil.example",
        ":80/x",
        "\\evil",
    ] {
        check_join(BASE, path, None, Err(TargetError::NoSlash));
    }
    check_join(BASE, "/a#b", None, Err(TargetError::Fragment));
    check_join(BASE, "/a?b", None, Err(TargetError::Character));
    check_join(BASE, "/a b", None, Err(TargetError::Control));
    check_join(BASE, "/a%20b", None, Ok("/v1/a%20b"));
    check_join(BASE, "/a", Some("x#y"), Err(TargetError::Fragment));
    check_join(BASE, "/a", Some("x y"), Err(TargetError::Control));
    check_join(BASE, "/a", Some("x\r\ny"), Err(TargetError::Control));
}

proptest! {
    #[test]
    fn no_target_changes_the_host_or_leaves_the_base(path in "[/.%2eEfF5cC@:\\\\a;#? ]{0,24}", query in "[a#&=/. ]{0,8}") {
        let destination = destination("https://api.example.com/v1");
        if let Ok(target) = destination.join(&path, Some(&query)) {
            let expected = format!("/v1{path}?{query}");
            prop_assert_eq!(target.as_str(), expected.as_str());
            let url: Uri = format!("https://api.example.com{target}").parse().unwrap();
            prop_assert_eq!(url.host(), Some("api.example.com"));
            let mut decoded = path.into_bytes();
            for _ in 0..4 {
                prop_assert!(!decoded.split(|b| matches!(b, b'/' | b'\\')).any(|s| s == b".."));
                decoded = decode_once(&decoded);
            }
        }
    }
}
