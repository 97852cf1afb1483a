//! Where a provider is: the one address that its calls can go to.
//!
//! The transport decides which addresses can be called; here its refusals get the
//! words of a configuration, so that what loads can also be dialled.

use crate::config::settings::{BaseUrl, PlainHttp, Scheme};
use crate::gateway::destination::{self, Destination, DestinationError, Host};

/// Reads `https://HOST[:PORT][/PATH]`.
///
/// # Errors
/// The cause, and a hint on a line of its own. The text itself is not shown: it
/// may hold a user's password.
pub(super) fn parse(text: &str, plain_http: PlainHttp) -> Result<BaseUrl, String> {
    let text = text.trim();
    let plain = match plain_http {
        PlainHttp::LoopbackOnly => destination::PlainHttp::LoopbackOnly,
        PlainHttp::Anywhere => destination::PlainHttp::Allowed,
    };
    let destination = Destination::parse(text, plain).map_err(|error| said(&error))?;
    let origin = destination.origin();
    let path = text
        .parse::<http::Uri>()
        .map_or_else(|_| String::new(), |uri| uri.path().to_owned());
    Ok(BaseUrl {
        scheme: match origin.scheme {
            destination::Scheme::Https => Scheme::Https,
            destination::Scheme::Http => Scheme::Http,
        },
        host: match &origin.host {
            Host::Name(name) => name.to_string(),
            Host::Address(address) => address.to_string(),
        },
        port: origin.port,
        path: path.trim_end_matches('/').to_owned(),
        plain_http,
    })
}

fn said(error: &DestinationError) -> String {
    let form = "write `https://api.example.com/v1`";
    match error {
        DestinationError::NotAUrl => format!("this is no URL\nhint: {form}"),
        DestinationError::Scheme => format!("a base URL begins with `https://` or `http://`\nhint: {form}"),
        DestinationError::UserInfo => "a base URL holds no user and no password\nhint: use `credential: env:NAME`".to_owned(),
        DestinationError::QueryOrFragment => format!("a base URL has no query and no fragment\nhint: {form}"),
        DestinationError::Path(cause) => format!("the base URL's path is refused: {cause}"),
        DestinationError::PlainHttp => "credentials would travel in clear\nhint: use `https://`, or write `allow_plain_http: true` if this network is yours".to_owned(),
        DestinationError::Address => "no provider has this address\nhint: link-local, multicast and unspecified addresses are never called".to_owned(),
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
