//! Heads in both directions: as identical to a direct call as they can be,
//! without what belongs to one connection or to the governor.
//!
//! Nothing is renamed, sorted or added but the `Host` and the credential of
//! the destination and what the route sets (an idempotency key). Fields keep
//! their order, a replaced field its place, and names their case: the HTTP
//! library remembers the case of received names in the head's extensions, so
//! whoever builds the listener sets `preserve_header_case(true)` on it (and
//! `auto_date_header(false)`), and the extensions of a head must travel with
//! it. Two things can't be kept: fields of one name that were apart come out
//! side by side (their order holds, and RFC 9110 §5.3 gives the rest no
//! meaning), and white space around values goes.
//!
//! | direction | goes | why |
//! |---|---|---|
//! | both | `Connection` and what it names, `Keep-Alive`, `Proxy-Connection`, `TE`, `Upgrade` | one hop only (RFC 9110 §7.6.1) |
//! | both | `Rategov-*` | ours; a provider must not speak in our name either |
//! | up | `Proxy-Authorization`, `Forwarded`, `X-Forwarded-*`, `X-Real-IP` | facts about this side |
//! | up | the fields that can hold an agent's token, where the governor injects | its own credential never leaves |
//! | down | `Proxy-Authenticate`, `Proxy-Authentication-Info` | would ask the agent for a proxy's password |
//! | down | `Content-Length` beside `Transfer-Encoding` | RFC 9112 §6.3 |
//!
//! `Expect: 100-continue` goes up as it came; the body does not wait for the
//! interim answer, which the standard allows.

use std::fmt;

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, FORWARDED, HOST, HeaderName, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Version, request, response};

use super::destination::{Destination, TargetError};
use super::framing::{self, Framing, FramingError};

/// Fields in which SDKs put a key, and so agents their token. Injection removes them all.
pub const KEY_FIELDS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];

/// Prefix of the governor's own fields.
const OWN_PREFIX: &str = "rategov-";

/// A provider's credential as one field of a head. Shows its value to nobody.
#[derive(Clone)]
pub struct Injection {
    name: HeaderName,
    value: HeaderValue,
}

impl Injection {
    /// A credential for field `name`; `value` is the whole field value (`Bearer …`).
    /// `None` if it holds bytes that no field value can hold.
    pub fn new(name: HeaderName, value: &str) -> Option<Injection> {
        let mut value = HeaderValue::from_str(value).ok()?;
        value.set_sensitive(true);
        Some(Injection { name, value })
    }

    /// Puts it into a head that was taken up after a restart.
    pub fn put_into(&self, headers: &mut HeaderMap) {
        headers.insert(self.name.clone(), self.value.clone());
    }
}

impl fmt::Debug for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Injection({}: …)", self.name)
    }
}

/// Whose credential goes up.
#[derive(Clone, Copy, Debug)]
pub enum Credential<'a> {
    /// The caller's own. `spent` names the field that held a governor's token, if one did.
    PassThrough {
        /// Removed.
        spent: Option<&'a HeaderName>,
    },
    /// The governor's.
    Inject(&'a Injection),
}

/// What makes a caller's head a provider's.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite<'a> {
    /// Where it goes.
    pub destination: &'a Destination,
    /// The caller's path, without the gateway's own prefix, as received.
    pub path: &'a str,
    /// The caller's query, as received.
    pub query: Option<&'a str>,
    /// Whose credential.
    pub credential: Credential<'a>,
    /// Fields that the route sets, in place of the caller's of that name.
    pub set: &'a [(HeaderName, HeaderValue)],
}

/// Why a head is refused. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadRefusal {
    /// The path or query.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The framing.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// A tunnel.
    #[error("the governor is no forward proxy: CONNECT is not served")]
    Connect,
    /// An echo of the request, credential included.
    #[error("TRACE is not served: the answer would show the injected credential")]
    Trace,
    /// Another protocol on the same connection.
    #[error("websocket connections are not passed on; hint: use the streaming HTTP interface")]
    Websocket,
    /// More fields than a head can hold.
    #[error("the request has too many header fields")]
    TooManyFields,
}

/// Rewrites a request head for its provider, and reads its framing.
///
/// # Errors
/// See [`HeadRefusal`].
pub fn for_provider(
    mut parts: request::Parts,
    rewrite: Rewrite<'_>,
) -> Result<(request::Parts, Framing), HeadRefusal> {
    match parts.method {
        Method::CONNECT => return Err(HeadRefusal::Connect),
        Method::TRACE => return Err(HeadRefusal::Trace),
        _ => {}
    }
    if parts
        .headers
        .get_all(UPGRADE)
        .iter()
        .any(|list| lists(list, "websocket"))
    {
        return Err(HeadRefusal::Websocket);
    }
    let framing = framing::of_request(&parts.headers, parts.version)?;
    let target = rewrite.destination.join(rewrite.path, rewrite.query)?;

    let mut fields = Fields::with_capacity(parts.headers.len() + rewrite.set.len() + 2);
    let set = replacements(&rewrite);
    if !parts.headers.contains_key(HOST) {
        fields.push(&HOST, rewrite.destination.host_header())?;
    }
    for name in parts.headers.keys() {
        // A replaced field keeps its place.
        if let Some((_, value)) = set.iter().find(|(replaced, _)| *replaced == name) {
            fields.push(name, value)?;
        } else if !goes_up(name, &parts.headers, rewrite.credential) {
            continue;
        } else {
            for value in parts.headers.get_all(name) {
                fields.push(name, value)?;
            }
        }
    }
    for (name, value) in &set {
        if !fields.0.contains_key(*name) {
            fields.push(name, value)?;
        }
    }
    parts.headers = fields.0;
    parts.uri = target.into();
    parts.version = Version::HTTP_11;
    Ok((parts, framing))
}

/// Rewrites an answer's head for the caller.
pub fn for_caller(mut parts: response::Parts) -> response::Parts {
    let chunked = parts
        .headers
        .get_all(TRANSFER_ENCODING)
        .iter()
        .all(framing::is_chunked);
    let coded = parts.headers.contains_key(TRANSFER_ENCODING);
    let goes_down = |name: &HeaderName| match name {
        // Left in its place so that the listener writes it there; it frames anew.
        &TRANSFER_ENCODING => chunked,
        &CONTENT_LENGTH => !coded,
        &PROXY_AUTHENTICATE => false,
        other if other == "proxy-authentication-info" => false,
        other => !is_own(other) && !is_one_hop(other, &parts.headers),
    };
    let mut kept = HeaderMap::with_capacity(parts.headers.len());
    for name in parts.headers.keys().filter(|name| goes_down(name)) {
        for value in parts.headers.get_all(name) {
            kept.append(name, value.clone());
        }
    }
    parts.headers = kept;
    parts.version = Version::HTTP_11;
    parts
}

/// What is set whatever the caller sent: later entries don't override earlier ones.
fn replacements<'a>(rewrite: &Rewrite<'a>) -> Vec<(&'a HeaderName, &'a HeaderValue)> {
    let mut set = vec![(&HOST, rewrite.destination.host_header())];
    if let Credential::Inject(injection) = rewrite.credential {
        set.push((&injection.name, &injection.value));
    }
    set.extend(rewrite.set.iter().map(|(name, value)| (name, value)));
    set
}

fn goes_up(name: &HeaderName, head: &HeaderMap, credential: Credential<'_>) -> bool {
    let holds_our_token = match credential {
        Credential::PassThrough { spent } => spent == Some(name),
        Credential::Inject(_) => KEY_FIELDS.contains(name),
    };
    let about_this_side = name == FORWARDED
        || name == PROXY_AUTHORIZATION
        || name == "x-real-ip"
        || name.as_str().starts_with("x-forwarded-");
    !holds_our_token && !about_this_side && !is_own(name) && !is_one_hop(name, head)
}

/// Fields that mean something between two neighbours only. `Content-Length`,
/// `Transfer-Encoding` and `Host` stay even where `Connection` names them:
/// the framing was read from them, and a caller must not unmake it.
fn is_one_hop(name: &HeaderName, head: &HeaderMap) -> bool {
    if matches!(name, &CONTENT_LENGTH | &TRANSFER_ENCODING | &HOST) {
        return false;
    }
    if matches!(name, &CONNECTION | &TE | &UPGRADE) {
        return true;
    }
    matches!(
        name.as_str(),
        "keep-alive" | "proxy-connection" | "http2-settings"
    ) || head
        .get_all(CONNECTION)
        .iter()
        .any(|list| lists(list, name.as_str()))
}

/// Whether an answer says that its connection ends after it.
pub(super) fn announces_close(head: &HeaderMap) -> bool {
    head.get_all(CONNECTION)
        .iter()
        .any(|list| lists(list, "close"))
}

fn is_own(name: &HeaderName) -> bool {
    name.as_str().starts_with(OWN_PREFIX)
}

/// Whether a comma-separated list holds a token, in any case.
fn lists(list: &HeaderValue, token: &str) -> bool {
    list.as_bytes()
        .split(|b| *b == b',')
        .any(|one| one.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// A head under construction. The map panics beyond 32,768 fields; this refuses.
struct Fields(HeaderMap);

impl Fields {
    fn with_capacity(n: usize) -> Fields {
        // The capacity is a hint; a head that exceeds the map's bound fails at `push`.
        Fields(HeaderMap::try_with_capacity(n).unwrap_or_default())
    }

    fn push(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), HeadRefusal> {
        self.0
            .try_append(name.clone(), value.clone())
            .map(drop)
            .map_err(|_| HeadRefusal::TooManyFields)
    }
}

#[cfg(test)]
mod tests;
