//! Where a provider is: the one address that its calls can go to.

use std::net::IpAddr;

use crate::config::settings::{BaseUrl, PlainHttp, Scheme};

/// Reads `https://HOST[:PORT][/PATH]`.
///
/// # Errors
/// The cause, and a hint on a line of its own. The text itself is not shown: it
/// may hold a user's password.
pub(super) fn parse(text: &str, plain_http: PlainHttp) -> Result<BaseUrl, String> {
    let form = "write `https://api.example.com/v1`";
    if text.contains(['?', '#']) {
        return Err(format!(
            "a base URL has no query and no fragment\nhint: {form}"
        ));
    }
    let uri: http::Uri = text
        .trim()
        .parse()
        .map_err(|_| format!("this is no URL\nhint: {form}"))?;
    let scheme = match uri.scheme_str() {
        Some("https") => Scheme::Https,
        Some("http") => Scheme::Http,
        _ => {
            return Err(format!(
                "a base URL begins with `https://` or `http://`\nhint: {form}"
            ));
        }
    };
    let authority = uri
        .authority()
        .ok_or_else(|| format!("this URL has no host\nhint: {form}"))?;
    if authority.as_str().contains('@') {
        return Err(
            "a base URL holds no user and no password\nhint: use `credential: env:NAME`".to_owned(),
        );
    }
    let host = authority
        .host()
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host.is_empty() || (authority.host().starts_with('[') && address.is_none()) {
        return Err(format!("this URL has no host\nhint: {form}"));
    }
    let port = match (authority.port_u16(), scheme) {
        (Some(0), _) => return Err("port 0 can't be called".to_owned()),
        (Some(port), _) => port,
        (None, _) if authority.as_str().ends_with(':') => {
            return Err(format!("this URL has no port after its `:`\nhint: {form}"));
        }
        (None, Scheme::Https) => 443,
        (None, Scheme::Http) => 80,
    };
    let path = uri.path().trim_end_matches('/');
    if path.contains('\\') || path.split('/').any(is_dots) {
        return Err("a base URL's path can't hold `.`, `..` or `\\`".to_owned());
    }
    if address.is_some_and(is_never_a_provider) {
        return Err("no provider has this address\nhint: link-local, multicast and unspecified addresses are never called".to_owned());
    }
    let here = host == "localhost"
        || host.ends_with(".localhost")
        || address.is_some_and(|ip| ip.is_loopback());
    if scheme == Scheme::Http && plain_http == PlainHttp::LoopbackOnly && !here {
        return Err("credentials would travel in clear\nhint: use `https://`, or write `allow_plain_http: true` if this network is yours".to_owned());
    }
    Ok(BaseUrl {
        scheme,
        host,
        port,
        path: path.to_owned(),
        plain_http,
    })
}

fn is_dots(segment: &str) -> bool {
    matches!(
        segment.to_ascii_lowercase().replace("%2e", ".").as_str(),
        "." | ".."
    )
}

/// Cloud metadata services live on link-local addresses, and hand out credentials.
fn is_never_a_provider(address: IpAddr) -> bool {
    let address = address.to_canonical();
    match address {
        IpAddr::V4(ip) => {
            ip.is_link_local() || ip.is_multicast() || ip.is_unspecified() || ip.is_broadcast()
        }
        IpAddr::V6(ip) => {
            let metadata = ip.segments()[..2] == [0xfd00, 0x0ec2];
            ip.is_unicast_link_local() || ip.is_multicast() || ip.is_unspecified() || metadata
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(Scheme, &str, u16, &str)>) {
        let found = parse(text, PlainHttp::LoopbackOnly).ok();
        let found = found
            .as_ref()
            .map(|it| (it.scheme, it.host.as_str(), it.port, it.path.as_str()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_base_url_is_one_address_and_a_path() {
        check(
            "https://api.openai.com/v1",
            Some((Scheme::Https, "api.openai.com", 443, "/v1")),
        );
        check(
            "https://API.example.com/",
            Some((Scheme::Https, "api.example.com", 443, "")),
        );
        check(
            "http://127.0.0.1:9100",
            Some((Scheme::Http, "127.0.0.1", 9100, "")),
        );
        check(
            "http://[::1]:9100/a/b/",
            Some((Scheme::Http, "::1", 9100, "/a/b")),
        );
        check(
            "http://localhost",
            Some((Scheme::Http, "localhost", 80, "")),
        );
    }

    #[test]
    fn an_address_that_could_give_secrets_away_is_refused() {
        for text in [
            "http://api.example.com",
            "http://localhost.example.com",
            "https://169.254.169.254/latest",
            "https://[::ffff:169.254.169.254]/",
            "https://[fd00:ec2::254]/",
            "https://0.0.0.0/",
            "https://user:password@api.example.com",
            "https://api.example.com/v1?key=x",
            "https://api.example.com/%2e%2E/x",
            "ftp://api.example.com",
            "api.example.com",
            "https://",
            "https://api.example.com:0",
            "https://api.example.com:",
            "",
        ] {
            check(text, None);
        }
    }
}
