//! What a keyed hash is taken over, so that equal calls have equal fingerprints
//! and nothing secret or volatile is in them (R-CLASS-5).
//!
//! The hash itself is made by the caller, with a key that never leaves the
//! machine; [`Fingerprint`](crate::id::Fingerprint) is its result. Headers are
//! never part of it: credentials, dates, trace ids and SDK counters live there.
//!
//! Every part is written as its length (8 bytes, big endian) and its bytes, so
//! that `("ab", "c")` and `("a", "bc")` differ, after a word that says what kind
//! of fingerprint it is. A payload is preceded by its form: `json` in
//! [`canonical`] form, or `raw`.

use super::canonical;
use super::failure::ErrorCode;
use crate::id::{Account, Endpoint};

/// A call, as far as it makes it that call and no other.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The quota's owner, which stands for the credential.
    pub account: &'a Account,
    /// The method as sent; methods are case-sensitive.
    pub method: &'a str,
    /// The path as sent, escapes untouched.
    pub path: &'a str,
    /// The query as sent without `?`; `None` if there is none.
    pub query: Option<&'a str>,
    /// The body.
    pub payload: &'a [u8],
}

/// Feeds a request fingerprint, piece by piece, to `sink` (a keyed hash).
///
/// Cost: that of [`canonical::json`] over the payload.
pub fn request(call: &Call<'_>, sink: &mut impl FnMut(&[u8])) {
    part(b"rategov request 1", sink);
    part(call.account.as_str().as_bytes(), sink);
    part(call.method.as_bytes(), sink);
    part(call.path.as_bytes(), sink);
    match call.query {
        Some(query) => {
            part(b"query", sink);
            part(query.as_bytes(), sink);
        }
        None => part(b"no query", sink),
    }
    payload(call.payload, sink);
}

/// Feeds a failure fingerprint to `sink`: which kind of call failed how.
pub fn failure(
    endpoint: &Endpoint,
    payload_bytes: &[u8],
    code: &ErrorCode,
    sink: &mut impl FnMut(&[u8]),
) {
    part(b"rategov failure 1", sink);
    // The template begins with the method.
    part(endpoint.as_str().as_bytes(), sink);
    part(code.as_str().as_bytes(), sink);
    payload(payload_bytes, sink);
}

fn payload(bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
    match canonical::json(bytes) {
        Some(form) => {
            part(b"json", sink);
            part(&form, sink);
        }
        None => {
            part(b"raw", sink);
            part(bytes, sink);
        }
    }
}

fn part(bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
    sink(&(bytes.len() as u64).to_be_bytes());
    sink(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Facts, Meaning};

    fn account(name: &str) -> Account {
        Account::new(name).unwrap()
    }

    fn input(call: &Call<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        request(call, &mut |bytes| out.extend_from_slice(bytes));
        out
    }

    #[test]
    fn white_space_and_field_order_do_not_make_another_call() {
        let ops = account("billing-api/ops");
        let call = |payload| Call {
            account: &ops,
            method: "POST",
            path: "/records",
            query: None,
            payload,
        };
        let a = input(&call(br#"{"a":1,"b":2}"#));
        assert_eq!(a, input(&call(b"{ \"b\": 2,\n \"a\": 1 }")));
        assert_ne!(a, input(&call(br#"{"a":1,"b":3}"#)));
    }

    #[test]
    fn each_part_of_a_call_counts() {
        let (ops, dev) = (account("p/ops"), account("p/dev"));
        let base = Call {
            account: &ops,
            method: "GET",
            path: "/a",
            query: None,
            payload: b"",
        };
        let others = [
            Call {
                account: &dev,
                ..base
            },
            Call {
                method: "get",
                ..base
            },
            Call {
                path: "/a/",
                ..base
            },
            Call {
                query: Some(""),
                ..base
            },
            Call {
                query: Some("x=1"),
                ..base
            },
            Call {
                payload: b"x",
                ..base
            },
            Call {
                payload: b"{}",
                ..base
            },
        ];
        let inputs: std::collections::BTreeSet<_> =
            others.iter().chain([&base]).map(input).collect();
        assert_eq!(inputs.len(), others.len() + 1);
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let ops = account("p/ops");
        let base = Call {
            account: &ops,
            method: "GET",
            path: "/ab",
            query: None,
            payload: b"",
        };
        let (a, b) = (
            Call {
                path: "/a",
                query: Some("b"),
                ..base
            },
            base,
        );
        assert_ne!(input(&a), input(&b));
        // A raw payload that spells a canonical one is not that one.
        let (json, raw) = (
            Call {
                payload: b"[1]",
                ..base
            },
            Call {
                payload: b"[1]x",
                ..base
            },
        );
        assert!(!input(&raw).starts_with(&input(&json)));
    }

    #[test]
    fn a_failure_is_told_apart_by_template_code_and_payload() {
        let of = |endpoint: &str, payload: &[u8], code: &str| {
            let mut facts = Facts::bare(400, Meaning::CallerError);
            facts.error_code = Some(code.to_owned());
            let mut out = Vec::new();
            let endpoint = Endpoint::new(endpoint).unwrap();
            failure(&endpoint, payload, &ErrorCode::of(&facts), &mut |b| {
                out.extend_from_slice(b)
            });
            out
        };
        let base = of("POST /jobs", b"{\"a\": 1}", "bad");
        assert_eq!(base, of("POST /jobs", b"{\"a\":1}", "BAD"));
        assert_ne!(base, of("PUT /jobs", b"{\"a\":1}", "bad"));
        assert_ne!(base, of("POST /jobs", b"{\"a\":2}", "bad"));
        assert_ne!(base, of("POST /jobs", b"{\"a\":1}", "worse"));
    }
}
