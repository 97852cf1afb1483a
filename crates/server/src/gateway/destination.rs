//! Where calls may go: fixed by configuration, never by the caller.
//!
//! A [`Destination`] holds scheme, host, port and base path. All of dial
//! address, TLS name and `Host` derive from it, so they can't disagree. The
//! caller contributes a path and a query, and they reach the provider byte
//! for byte or not at all: nothing is normalised, and what an intermediary
//! could normalise into another path is refused.
//!
//! Example: base `https://api.example.com/v1/` and the caller's
//! `/files/a%2Fb?x=%41` give `/v1/files/a%2Fb?x=%41`. The caller's
//! `/files/..%2Fadmin` is refused: a server that decodes before it resolves
//! would leave `/v1/files`. An `@` is no danger behind a slash
//! (`/models/x@2024`), only in front of it, where it would change the host;
//! a path that does not begin with a slash is refused.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Uri};

use super::address::{self, Reach};

/// How often a path is percent-decoded to see whether it hides a dot segment.
const DECODE_ROUNDS: usize = 3;

/// The protocol under HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Plain TCP.
    Http,
    /// TLS.
    Https,
}

/// A host as configured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A DNS name, lower case.
    Name(Arc<str>),
    /// An address.
    Address(IpAddr),
}

/// What a connection is good for: scheme, host and port. The pool's key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Plain or TLS.
    pub scheme: Scheme,
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

/// Whether a credential may cross a network in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    /// `http://` only to this machine.
    LoopbackOnly,
    /// The operator said that it may.
    Allowed,
}

/// One provider's address, checked.
#[derive(Clone, Debug)]
pub struct Destination {
    origin: Origin,
    base_path: String,
    host_header: HeaderValue,
    reach: Reach,
}

/// Why a base URL is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// It does not parse.
    #[error("a base URL looks like https://api.example.com/v1")]
    NotAUrl,
    /// Another scheme than the two.
    #[error("a base URL begins with https:// (or http:// for this machine)")]
    Scheme,
    /// `user:password@` in it.
    #[error("a base URL can't hold a user or password; hint: use `credential`")]
    UserInfo,
    /// A query or fragment in it.
    #[error("a base URL can't hold a query or a fragment")]
    QueryOrFragment,
    /// Its path holds something that a caller's path couldn't hold either.
    #[error("the base URL's path is refused: {0}")]
    Path(TargetError),
    /// Plain HTTP to another machine.
    #[error(
        "plain http would show credentials to the network; hint: use https, or allow it for \
         this provider with `allow_plain_http: true`"
    )]
    PlainHttp,
    /// An address that is never dialled.
    #[error("this address is never dialled: it is no provider's")]
    Address,
}

/// Why a caller's target is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It does not begin with a slash.
    #[error("a path begins with a slash")]
    NoSlash,
    /// `.` or `..` as a segment, in any encoding.
    #[error("a path can't hold `.` or `..` segments, encoded or not")]
    DotSegment,
    /// A backslash, which some servers read as a slash.
    #[error("a path can't hold a backslash, encoded or not")]
    Backslash,
    /// A control byte, a space, or an encoded control byte.
    #[error("a path can't hold control characters or spaces")]
    Control,
    /// A fragment, which is never sent.
    #[error("a target can't hold `#`")]
    Fragment,
    /// Some byte that HTTP does not allow there.
    #[error("the target holds a character that HTTP does not allow")]
    Character,
}

impl Destination {
    /// Checks a base URL.
    ///
    /// # Errors
    /// See [`DestinationError`].
    pub fn parse(base_url: &str, plain: PlainHttp) -> Result<Destination, DestinationError> {
        if base_url.contains(['#', '?']) {
            return Err(DestinationError::QueryOrFragment);
        }
        let uri: Uri = base_url.parse().map_err(|_| DestinationError::NotAUrl)?;
        let scheme = match uri.scheme_str() {
            Some("https") => Scheme::Https,
            Some("http") => Scheme::Http,
            _ => return Err(DestinationError::Scheme),
        };
        let authority = uri.authority().ok_or(DestinationError::NotAUrl)?;
        if authority.as_str().contains('@') {
            return Err(DestinationError::UserInfo);
        }
        let host = parse_host(authority)?;
        let port = match (authority.port(), scheme) {
            (Some(port), _) if port.as_u16() != 0 => port.as_u16(),
            (Some(_), _) => return Err(DestinationError::NotAUrl),
            // `https://host:` ends in a colon and has no port.
            (None, _) if authority.as_str().ends_with(':') => {
                return Err(DestinationError::NotAUrl);
            }
            (None, Scheme::Https) => 443,
            (None, Scheme::Http) => 80,
        };
        let base_path = uri.path().trim_end_matches('/').to_owned();
        if !base_path.is_empty() {
            check_path(&base_path).map_err(DestinationError::Path)?;
        }
        let reach = match (scheme, plain) {
            (Scheme::Http, PlainHttp::LoopbackOnly) => Reach::Loopback,
            (Scheme::Https, _) | (Scheme::Http, PlainHttp::Allowed) => Reach::Anywhere,
        };
        match &host {
            Host::Address(ip) => address::check(*ip, reach).map_err(|refusal| match refusal {
                address::AddressRefusal::NotLoopback => DestinationError::PlainHttp,
                _ => DestinationError::Address,
            })?,
            Host::Name(name) if reach == Reach::Loopback && !is_local_name(name) => {
                return Err(DestinationError::PlainHttp);
            }
            Host::Name(_) => {}
        }
        let origin = Origin { scheme, host, port };
        let host_header =
            HeaderValue::from_str(&origin.authority()).map_err(|_| DestinationError::NotAUrl)?;
        Ok(Destination {
            origin,
            base_path,
            host_header,
            reach,
        })
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What `Host` says: the port only where it is not the scheme's own.
    pub fn host_header(&self) -> &HeaderValue {
        &self.host_header
    }

    /// Which addresses its name may resolve to.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// The request target: base path, the caller's path, the caller's query.
    ///
    /// # Errors
    /// See [`TargetError`].
    pub fn join(&self, path: &str, query: Option<&str>) -> Result<PathAndQuery, TargetError> {
        // A base URL can be called as it is: `/{provider}` without more.
        if !path.is_empty() {
            check_path(path)?;
        }
        let mut target = String::with_capacity(
            self.base_path.len() + path.len() + query.map_or(0, |q| q.len() + 1) + 1,
        );
        target.push_str(&self.base_path);
        target.push_str(path);
        if target.is_empty() {
            target.push('/');
        }
        if let Some(query) = query {
            check_query(query)?;
            target.push('?');
            target.push_str(query);
        }
        PathAndQuery::try_from(target).map_err(|_| TargetError::Character)
    }

    /// The caller's path in a target that [`Destination::join`] made; `None` if the
    /// base path has changed since.
    pub fn path_of<'t>(&self, target: &'t str) -> Option<&'t str> {
        let (path, _) = target.split_once('?').unwrap_or((target, ""));
        path.strip_prefix(self.base_path.as_str())
    }
}

fn parse_host(authority: &Authority) -> Result<Host, DestinationError> {
    let host = authority.host();
    if let Some(v6) = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return v6
            .parse()
            .map(Host::Address)
            .map_err(|_| DestinationError::NotAUrl);
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(Host::Address(ip));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    // A name of digits and dots that is no address is a misspelt address, and
    // some resolvers read it as one (`127.1`, `2130706433`).
    let numeric = host.chars().all(|c| c.is_ascii_digit() || c == '.') || host.starts_with("0x");
    if host.is_empty() || host.len() > 253 || !host.chars().all(plain) || numeric {
        return Err(DestinationError::NotAUrl);
    }
    Ok(Host::Name(Arc::from(host.to_ascii_lowercase())))
}

fn is_local_name(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn check_query(query: &str) -> Result<(), TargetError> {
    match query.bytes().find(|b| matches!(b, 0..=0x20 | 0x7f | b'#')) {
        Some(b'#') => Err(TargetError::Fragment),
        Some(_) => Err(TargetError::Control),
        None => Ok(()),
    }
}

fn check_path(path: &str) -> Result<(), TargetError> {
    if !path.starts_with('/') {
        return Err(TargetError::NoSlash);
    }
    if path.contains('#') {
        return Err(TargetError::Fragment);
    }
    if path.contains('?') {
        return Err(TargetError::Character);
    }
    // Only as it is: `%20` is an ordinary part of a name.
    if path.bytes().any(|b| matches!(b, 0..=0x20 | 0x7f)) {
        return Err(TargetError::Control);
    }
    let mut bytes = path.as_bytes().to_vec();
    for _ in 0..DECODE_ROUNDS {
        check_decoded(&bytes)?;
        let decoded = decode_once(&bytes);
        if decoded == bytes {
            return Ok(());
        }
        bytes = decoded;
    }
    check_decoded(&bytes)
}

fn check_decoded(path: &[u8]) -> Result<(), TargetError> {
    if path.contains(&b'\\') {
        return Err(TargetError::Backslash);
    }
    if path.iter().any(|b| matches!(b, 0..=0x1f | 0x7f)) {
        return Err(TargetError::Control);
    }
    let hidden = path.split(|b| *b == b'/').any(|segment| {
        // Some servers cut `;parameters` off a segment before they resolve it.
        let name = segment.split(|b| *b == b';').next().unwrap_or(segment);
        name == b"." || name == b".."
    });
    if hidden {
        Err(TargetError::DotSegment)
    } else {
        Ok(())
    }
}

/// Decodes `%41` to `A`; what is not two hexadecimal digits stays as it is.
fn decode_once(bytes: &[u8]) -> Vec<u8> {
    let hex = |b: u8| (b as char).to_digit(16);
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    out.push((high * 16 + low) as u8);
                    rest = after;
                }
                _ => {
                    out.push(b'%');
                    rest = tail;
                }
            },
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

impl Origin {
    /// `host` or `host:port`, as `Host` and logs write it.
    pub fn authority(&self) -> String {
        let usual = match self.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        if self.port == usual {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(v4)) => v4.fmt(f),
            Host::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}", self.authority())
    }
}

#[cfg(test)]
mod tests;
