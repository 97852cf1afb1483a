//! Which door a call knocks at, read from its path and nothing else.
//!
//! ```text
//! target   = [ "/run/" token ] ( "/governor/v1" rest / "/" provider rest )
//! rest     = "" / "/" *any [ "?" *any ]      ; kept byte for byte
//! ```
//!
//! The rest is not decoded, normalised or checked here: it is what is appended to
//! the provider's base, and the destination refuses what could leave that base.

use std::fmt;

/// Longest path and query that is accepted, in bytes.
pub const TARGET_BYTES_MAX: usize = 32 * 1024;

/// The names that no provider can have.
pub const RESERVED: [&str; 2] = ["run", "governor"];

/// Where a call wants to go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Target<'h> {
    /// The run token of the path, if it has one. A secret.
    pub run: Option<&'h str>,
    /// The door.
    pub door: Door<'h>,
}

/// One of the doors of the agents' listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door<'h> {
    /// The gateway: `/{provider}/…`.
    Gateway {
        /// The provider as it was named; it may be unknown.
        provider: &'h str,
        /// What follows it: empty, or beginning with `/`; without the query.
        path: &'h str,
        /// The query without its `?`.
        query: Option<&'h str>,
    },
    /// The agents' own API: `/governor/v1/…`.
    Governor {
        /// What follows `/governor/v1`: empty, or beginning with `/`; without the query.
        path: &'h str,
        /// The query without its `?`.
        query: Option<&'h str>,
    },
}

/// Why a target leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// `GET http://elsewhere/…`, `CONNECT host:port` or `OPTIONS *`.
    #[error("the request names another host or none; the governor is not a forward proxy")]
    NotAPath,
    /// There is no provider in it.
    #[error("the path names no provider")]
    NoProvider,
    /// It is under `/governor`, but not a version that exists.
    #[error("there is nothing here but /governor/v1")]
    NoSuchApi,
    /// It is too long.
    #[error("path and query are longer than 32 KiB")]
    TooLong,
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("run", &self.run.map(|_| "[run token]"))
            .field("door", &self.door)
            .finish()
    }
}

impl<'h> Target<'h> {
    /// Reads a request's target.
    ///
    /// # Errors
    /// See [`TargetError`]; none of them repeats any of the path.
    pub fn of(uri: &'h http::Uri) -> Result<Target<'h>, TargetError> {
        if uri.authority().is_some() || uri.scheme().is_some() {
            return Err(TargetError::NotAPath);
        }
        if uri
            .path_and_query()
            .is_none_or(|target| target.as_str().len() > TARGET_BYTES_MAX)
        {
            return Err(match uri.path_and_query() {
                Some(_) => TargetError::TooLong,
                None => TargetError::NotAPath,
            });
        }
        let query = uri.query();
        let path = uri.path().strip_prefix('/').ok_or(TargetError::NotAPath)?;
        let (first, rest) = split(path);
        match first {
            "run" => {
                let (token, rest) = split(rest.strip_prefix('/').ok_or(TargetError::NoProvider)?);
                let rest = rest.strip_prefix('/').ok_or(TargetError::NoProvider)?;
                let (first, rest) = split(rest);
                Ok(Target {
                    run: Some(token),
                    door: door(first, rest, query)?,
                })
            }
            first => Ok(Target {
                run: None,
                door: door(first, rest, query)?,
            }),
        }
    }
}

fn door<'h>(
    first: &'h str,
    rest: &'h str,
    query: Option<&'h str>,
) -> Result<Door<'h>, TargetError> {
    match first {
        "" | "run" => Err(TargetError::NoProvider),
        "governor" => match rest.strip_prefix("/v1") {
            Some(path) if path.is_empty() || path.starts_with('/') => {
                Ok(Door::Governor { path, query })
            }
            _ => Err(TargetError::NoSuchApi),
        },
        provider => Ok(Door::Gateway {
            provider,
            path: rest,
            query,
        }),
    }
}

/// The first segment, and the rest with its `/`.
fn split(path: &str) -> (&str, &str) {
    path.split_at(path.find('/').unwrap_or(path.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(target: &str, expected: Result<(Option<&str>, Door<'_>), TargetError>) {
        let uri: http::Uri = target.parse().unwrap();
        let found = Target::of(&uri).map(|target| (target.run, target.door));
        assert_eq!(found, expected, "{target}");
    }

    fn gateway<'a>(provider: &'a str, path: &'a str, query: Option<&'a str>) -> Door<'a> {
        Door::Gateway {
            provider,
            path,
            query,
        }
    }

    #[test]
    fn the_rest_is_kept_byte_for_byte() {
        check(
            "/openai/v1/models",
            Ok((None, gateway("openai", "/v1/models", None))),
        );
        check("/openai", Ok((None, gateway("openai", "", None))));
        check("/openai/", Ok((None, gateway("openai", "/", None))));
        check(
            "/p/a%2Fb//c/?x=/y?z",
            Ok((None, gateway("p", "/a%2Fb//c/", Some("x=/y?z")))),
        );
        check("/p?x", Ok((None, gateway("p", "", Some("x")))));
    }

    #[test]
    fn a_run_token_stands_before_either_door() {
        check(
            "/run/t0k/openai/v1",
            Ok((Some("t0k"), gateway("openai", "/v1", None))),
        );
        let api = Door::Governor {
            path: "/tasks/7",
            query: None,
        };
        check("/run/t0k/governor/v1/tasks/7", Ok((Some("t0k"), api)));
        check("/run/t0k", Err(TargetError::NoProvider));
        check("/run/t0k/", Err(TargetError::NoProvider));
        check("/run/t0k/run/t0k/openai", Err(TargetError::NoProvider));
    }

    #[test]
    fn what_is_no_path_leads_nowhere() {
        check("http://elsewhere/openai/v1", Err(TargetError::NotAPath));
        check("elsewhere:443", Err(TargetError::NotAPath));
        check("*", Err(TargetError::NotAPath));
        check("/", Err(TargetError::NoProvider));
        check("//openai", Err(TargetError::NoProvider));
        check("/governor/v2/x", Err(TargetError::NoSuchApi));
        check("/governor/v10", Err(TargetError::NoSuchApi));
        check(
            &format!("/p/{}", "x".repeat(40_000)),
            Err(TargetError::TooLong),
        );
    }

    #[test]
    fn a_run_token_is_not_shown() {
        let uri: http::Uri = "/run/canary-7f3a/openai/v1".parse().unwrap();
        assert!(!format!("{:?}", Target::of(&uri)).contains("canary"));
    }

    proptest! {
        #[test]
        fn no_target_panics(text in "[/a-z?%.*:@]{0,60}") {
            if let Ok(uri) = text.parse::<http::Uri>() {
                let _ = Target::of(&uri);
            }
        }
    }
}
