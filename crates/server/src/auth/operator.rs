//! Operators: requests that really come from them.
//!
//! The token of this installation decides together with `Host` and `Origin`: the
//! listener is on loopback, where every program of this machine and,
//! through DNS rebinding, every web page can knock. An agent must not approve
//! itself (R-VAULT-4).

use std::collections::BTreeSet;
use std::net::SocketAddr;

use http::{HeaderMap, header};
use rategov_core::id::Operator;

use super::operator_token::OperatorToken;

/// An operator, proved. What needs an operator's authority takes this value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorCaller {
    operator: Operator,
}

impl OperatorCaller {
    /// Who it is, for the journal.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }
}

/// Why a request isn't an operator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperatorRefusal {
    /// `Host` names another machine: perhaps a page that rebinds DNS.
    #[error("the request is for another host")]
    Host,
    /// `Origin` is another site's.
    #[error("the request comes from another site")]
    Origin,
    /// There is no token.
    #[error("an operator's token is needed")]
    TokenMissing,
    /// It isn't the token.
    #[error("this is not the operator's token")]
    TokenWrong,
}

impl OperatorRefusal {
    /// The status of the answer.
    pub const fn status(self) -> u16 {
        match self {
            OperatorRefusal::Host => 421,
            OperatorRefusal::Origin => 403,
            OperatorRefusal::TokenMissing | OperatorRefusal::TokenWrong => 401,
        }
    }

    /// What to do about it.
    pub const fn hint(self) -> &'static str {
        match self {
            OperatorRefusal::Host => "add the name to `listen.operator_hosts`",
            OperatorRefusal::Origin => "open the dashboard under its own address",
            OperatorRefusal::TokenMissing | OperatorRefusal::TokenWrong => {
                "send `Authorization: Bearer` with the content of `operator-token` in the data folder"
            }
        }
    }
}

/// The names under which operators may reach their listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorDoor {
    hosts: BTreeSet<String>,
}

impl OperatorDoor {
    /// The door of a listener: its own address (as bound), the names of this machine
    /// on loopback, and the configured names with and without the port.
    pub fn new(listener: SocketAddr, configured: &BTreeSet<String>) -> OperatorDoor {
        let port = listener.port();
        let mut hosts: BTreeSet<String> = BTreeSet::from([listener.to_string()]);
        for name in ["localhost", "127.0.0.1", "[::1]"] {
            hosts.insert(format!("{name}:{port}"));
            // Browsers leave the usual port out.
            if port == 80 {
                hosts.insert(name.to_owned());
            }
        }
        for name in configured {
            hosts.extend([name.clone(), format!("{name}:{port}")]);
        }
        OperatorDoor { hosts }
    }

    /// Proves an operator: `Host`, `Origin` and token, in this order.
    ///
    /// # Errors
    /// See [`OperatorRefusal`].
    pub fn identify(
        &self,
        headers: &HeaderMap,
        token: &OperatorToken,
    ) -> Result<OperatorCaller, OperatorRefusal> {
        self.check(headers)?;
        let text = headers
            .get(header::AUTHORIZATION)
            .ok_or(OperatorRefusal::TokenMissing)?;
        let presented = super::bearer(text.as_bytes()).ok_or(OperatorRefusal::TokenMissing)?;
        if !token.is(presented) {
            return Err(OperatorRefusal::TokenWrong);
        }
        let operator = Operator::new("operator").expect("eight letters are a name");
        Ok(OperatorCaller { operator })
    }

    /// Whether a request really is for this listener, and from no other site. Also
    /// for what needs no token.
    ///
    /// # Errors
    /// [`OperatorRefusal::Host`] or [`OperatorRefusal::Origin`].
    pub fn check(&self, headers: &HeaderMap) -> Result<(), OperatorRefusal> {
        let one = |name: header::HeaderName| {
            let mut values = headers.get_all(name).iter();
            match (values.next(), values.next()) {
                (None, _) => Ok(None),
                (Some(value), None) => value.to_str().map(Some).map_err(drop),
                (Some(_), Some(_)) => Err(()),
            }
        };
        let host = one(header::HOST).map_err(|()| OperatorRefusal::Host)?;
        if !host.is_some_and(|host| self.hosts.contains(&host.to_ascii_lowercase())) {
            return Err(OperatorRefusal::Host);
        }
        if let Some(origin) = one(header::ORIGIN).map_err(|()| OperatorRefusal::Origin)? {
            let origin = origin.to_ascii_lowercase();
            let host = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"));
            if !host.is_some_and(|host| self.hosts.contains(host)) {
                return Err(OperatorRefusal::Origin);
            }
        }
        match headers.get("sec-fetch-site").map(|value| value.as_bytes()) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => Err(OperatorRefusal::Origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn door() -> OperatorDoor {
        let configured = BTreeSet::from(["governor.example.com".to_owned()]);
        OperatorDoor::new("127.0.0.1:7879".parse().unwrap(), &configured)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[track_caller]
    fn check(pairs: &[(&'static str, &str)], expected: Result<(), OperatorRefusal>) {
        assert_eq!(door().check(&headers(pairs)), expected, "{pairs:?}");
    }

    #[test]
    fn only_a_request_for_this_host_and_from_no_other_site_is_heard() {
        let (host, other) = (("host", "127.0.0.1:7879"), ("host", "evil.example:7879"));
        check(&[host], Ok(()));
        check(&[("host", "LOCALHOST:7879")], Ok(()));
        check(&[("host", "governor.example.com")], Ok(()));
        check(&[], Err(OperatorRefusal::Host));
        check(&[other], Err(OperatorRefusal::Host));
        check(&[("host", "127.0.0.1:7878")], Err(OperatorRefusal::Host));
        check(&[("host", "127.0.0.1")], Err(OperatorRefusal::Host));
        check(&[host, other], Err(OperatorRefusal::Host));
        check(&[host, ("origin", "http://127.0.0.1:7879")], Ok(()));
        check(&[host, ("origin", "null")], Err(OperatorRefusal::Origin));
        check(
            &[host, ("origin", "http://evil.example")],
            Err(OperatorRefusal::Origin),
        );
        check(
            &[host, ("origin", "http://127.0.0.1:7878")],
            Err(OperatorRefusal::Origin),
        );
        check(&[host, ("sec-fetch-site", "same-origin")], Ok(()));
        check(
            &[host, ("sec-fetch-site", "cross-site")],
            Err(OperatorRefusal::Origin),
        );
        check(
            &[host, ("sec-fetch-site", "same-site")],
            Err(OperatorRefusal::Origin),
        );
    }

    #[test]
    fn only_the_token_proves_an_operator() {
        let folder = tempfile::tempdir().unwrap();
        let token = OperatorToken::open_or_create(folder.path()).unwrap();
        let identify = |value: &str| {
            let pairs = [("host", "localhost:7879"), ("authorization", value)];
            door()
                .identify(&headers(&pairs), &token)
                .map(|caller| caller.operator().to_string())
        };
        let secret = token.secret().expose_secret();
        assert_eq!(
            identify(&format!("Bearer {secret}")),
            Ok("operator".to_owned())
        );
        assert_eq!(
            identify(&format!("bearer  {secret}")),
            Ok("operator".to_owned())
        );
        assert_eq!(
            identify(&format!("Bearer {secret}x")),
            Err(OperatorRefusal::TokenWrong)
        );
        assert_eq!(identify(secret), Err(OperatorRefusal::TokenMissing));
        assert_eq!(identify("Bearer "), Err(OperatorRefusal::TokenMissing));
        let without = headers(&[("host", "localhost:7879")]);
        assert_eq!(
            door().identify(&without, &token),
            Err(OperatorRefusal::TokenMissing)
        );
    }
}
