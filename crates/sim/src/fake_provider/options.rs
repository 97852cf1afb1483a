//! What a fake provider is started with, and the written forms of its values.
//!
//! Every value has a `FromStr`, so that a command line needs no parser of its
//! own: [`Rule`](crate::provider::quota::Rule) (`sliding:60/10s`),
//! [`ServiceTime`] (`200ms-600ms`), [`LimitFields`](crate::provider::limit_fields::LimitFields)
//! (`openai`), [`KeyRules`] (`compared,all,24h`).

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use rategov_core::time::{Span, WallTime};

use crate::provider::config::{Config, ServiceTime};
use crate::provider::idempotency::{Honour, KeyRules, Stores};
use crate::provider::quota::parse_span;

/// Where the provider's wall clock comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The machine's.
    #[default]
    System,
    /// The machine's, so much behind (a provider whose clock is late).
    Behind(Span),
    /// This time at the start, whatever the machine says.
    StartsAt(WallTime),
}

impl Clock {
    /// The provider's wall-clock time now.
    pub(super) fn start(self) -> WallTime {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let now = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        match self {
            Clock::System => WallTime::from_micros(now),
            Clock::Behind(span) => {
                let behind = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
                WallTime::from_micros(now.saturating_sub(behind))
            }
            Clock::StartsAt(wall) => wall,
        }
    }
}

/// TLS with a certificate of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Where the certificate is written (PEM) for callers to trust. The key
    /// is never written.
    pub certificate: PathBuf,
    /// Names besides `localhost` and `127.0.0.1` that it is valid for.
    pub names: Vec<String>,
}

/// What a fake provider is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where calls are taken; port 0 for a free one.
    pub listen: SocketAddr,
    /// Where the control API is; `None` for no control but the handle.
    pub control: Option<SocketAddr>,
    /// TLS for calls; the control API is always plain.
    pub tls: Option<TlsOptions>,
    /// Longest request body in bytes; longer ones are answered 413.
    pub body_max: u64,
    /// Most connections at once.
    pub connections_max: usize,
    /// The wall clock; replaces `config.wall_at_start`.
    pub clock: Clock,
    /// What kind of provider it is.
    pub config: Config,
}

impl Default for Options {
    fn default() -> Options {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Options {
            listen: any,
            control: Some(any),
            tls: None,
            body_max: 64 << 20,
            connections_max: 10_000,
            clock: Clock::System,
            config: Config::default(),
        }
    }
}

impl Options {
    /// On free ports of the loopback address, with the given nature.
    pub fn new(config: Config) -> Options {
        Options {
            config,
            ..Options::default()
        }
    }
}

/// Why an option's value can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}\nhint: {hint}")]
pub struct OptionError {
    /// The value as given.
    pub text: String,
    /// What was wanted.
    pub what: &'static str,
    /// How it is written.
    pub hint: &'static str,
}

impl FromStr for ServiceTime {
    type Err = OptionError;

    /// `300ms`, or `200ms-600ms` for a range.
    fn from_str(text: &str) -> Result<ServiceTime, OptionError> {
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        match parse_span(min).zip(parse_span(max)) {
            Some((min, max)) if min <= max => Ok(ServiceTime { min, max }),
            _ => Err(OptionError {
                text: text.to_owned(),
                what: "service time",
                hint: "write 300ms, or 200ms-600ms for a range",
            }),
        }
    }
}

impl FromStr for KeyRules {
    type Err = OptionError;

    /// `compared,all,24h` in any order; what is left out is as in that example.
    fn from_str(text: &str) -> Result<KeyRules, OptionError> {
        let mut rules = KeyRules::default();
        for word in text.split(',').map(str::trim) {
            match word {
                "compared" => rules.honour = Honour::Compared,
                "uncompared" => rules.honour = Honour::Uncompared,
                "ignored" => rules.honour = Honour::Ignored,
                "all" => rules.stores = Stores::All,
                "successes" => rules.stores = Stores::Successes,
                _ => {
                    rules.lifetime = parse_span(word).ok_or_else(|| OptionError {
                        text: text.to_owned(),
                        what: "rule for idempotency keys",
                        hint: "write compared, uncompared or ignored; all or successes; and a \
                               lifetime: compared,all,24h",
                    })?;
                }
            }
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_time_is_one_span_or_a_range() {
        let range = ServiceTime {
            min: Span::from_millis(200),
            max: Span::from_millis(600),
        };
        assert_eq!("200ms-600ms".parse(), Ok(range));
        assert_eq!("1s".parse(), Ok(ServiceTime::constant(Span::from_secs(1))));
        for text in ["", "fast", "600ms-200ms", "1s-"] {
            let error = text.parse::<ServiceTime>().expect_err(text).to_string();
            assert!(error.contains("hint: write 300ms"), "{error}");
        }
    }

    #[test]
    fn rules_for_keys_are_words_in_any_order() {
        let rules: KeyRules = "10m, successes".parse().expect("rules");
        assert_eq!(
            (rules.honour, rules.stores),
            (Honour::Compared, Stores::Successes)
        );
        assert_eq!(rules.lifetime, Span::from_secs(600));
        assert_eq!(
            "ignored".parse::<KeyRules>().map(|r| r.honour),
            Ok(Honour::Ignored)
        );
        assert!("sometimes".parse::<KeyRules>().is_err());
    }

    #[test]
    fn a_late_clock_is_behind_the_machine() {
        let late = Clock::Behind(Span::from_secs(3_600)).start();
        let now = Clock::System.start();
        assert!(now.since(late) >= Span::from_secs(3_600));
        let fixed = WallTime::from_secs(7);
        assert_eq!(Clock::StartsAt(fixed).start(), fixed);
    }
}
