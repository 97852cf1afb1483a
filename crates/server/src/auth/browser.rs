//! Web pages that knock at the agents' listener.
//!
//! Where no agents are configured, reaching the listener is the only proof that is
//! asked for, and every page in a browser on this machine reaches it: by a plain
//! cross-site request, or under a name of its own that it points at 127.0.0.1 (DNS
//! rebinding). With a credential held by the governor, a page could then spend it.
//! Programs send none of the headers looked at here; browsers can't be made not to.
//!
//! | header | refused |
//! |---|---|
//! | `Origin` | `null`, and `http(s)://` of a host that isn't this machine |
//! | `Sec-Fetch-Site` | `cross-site`, where there is no `Origin` to judge by |
//! | `Host`, on a loopback listener | a name that the public DNS could give |

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, header};

/// Endings of names that the public DNS doesn't give.
const PRIVATE_ENDINGS: [&str; 5] = [".localhost", ".internal", ".local", ".lan", ".home.arpa"];

/// Whether a request comes from a page that has no business here.
pub(crate) fn is_foreign_page(headers: &HeaderMap, listener: SocketAddr) -> bool {
    let text = |name: &str| {
        let value = headers
            .get(name)
            .map(|value| value.to_str().unwrap_or("unreadable"));
        value.map(str::to_ascii_lowercase)
    };
    let foreign = match text(header::ORIGIN.as_str()) {
        Some(origin) => is_foreign_origin(&origin),
        None => text("sec-fetch-site").as_deref() == Some("cross-site"),
    };
    let rebound = listener.ip().is_loopback()
        && text(header::HOST.as_str())
            .is_some_and(|host| host_of(&host).is_none_or(is_public_name));
    foreign || rebound
}

/// Other schemes are those of installed programs; a page can't have one.
fn is_foreign_origin(origin: &str) -> bool {
    let host = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    let is_here = |host: &str| {
        let loopback = |ip: IpAddr| ip.is_loopback();
        host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(loopback)
    };
    match host {
        Some(authority) => !host_of(authority).is_some_and(is_here),
        None => origin == "null" || origin == "unreadable",
    }
}

/// A name with a dot that isn't a private one. One label is a machine or a
/// container; an address can't be rebound.
fn is_public_name(host: &str) -> bool {
    host.contains('.')
        && host.parse::<IpAddr>().is_err()
        && !PRIVATE_ENDINGS
            .iter()
            .any(|ending| host.trim_end_matches('.').ends_with(ending))
}

/// The host of `host:port`; an IPv6 address without its brackets. `None` for what is
/// neither: no browser writes it, and nobody should guess what it names.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let port_is_good = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    (port_is_good && host.bytes().all(is_good)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(&'static str, &'static str)], foreign: bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        let listener = "127.0.0.1:7878".parse().unwrap();
        assert_eq!(is_foreign_page(&headers, listener), foreign, "{pairs:?}");
    }

    #[test]
    fn a_program_is_no_page() {
        check(&[], false);
        for host in [
            "127.0.0.1:7878",
            "localhost:7878",
            "[::1]:7878",
            "rategov:7878",
            "host.docker.internal:7878",
            "LOCALHOST",
        ] {
            check(&[("host", host)], false);
        }
    }

    #[test]
    fn a_page_of_this_machine_is_welcome() {
        check(
            &[
                ("origin", "http://localhost:3000"),
                ("sec-fetch-site", "cross-site"),
            ],
            false,
        );
        check(&[("origin", "http://[::1]:3000")], false);
        check(&[("origin", "https://app.localhost")], false);
        check(&[("origin", "app://notes")], false);
    }

    #[test]
    fn a_page_of_elsewhere_is_not() {
        check(&[("origin", "https://evil.example")], true);
        check(&[("origin", "http://localhost.evil.example")], true);
        check(&[("origin", "null")], true);
        check(&[("sec-fetch-site", "cross-site")], true);
        check(&[("host", "rebound.evil.example:7878")], true);
        check(&[("host", "127.0.0.1.evil.example")], true);
        // What no browser writes names nobody that is here.
        check(&[("origin", "https://evil.example/.localhost")], true);
        check(&[("origin", "http://evil.example:80:x.localhost")], true);
        check(&[("origin", "http://[::1].evil.example")], true);
        check(&[("host", "evil.example/.localhost")], true);
    }

    #[test]
    fn a_listener_for_others_has_whatever_name_they_give_it() {
        let mut headers = HeaderMap::new();
        headers.insert("host", "governor.example.com".parse().unwrap());
        assert!(!is_foreign_page(&headers, "0.0.0.0:7878".parse().unwrap()));
    }
}
