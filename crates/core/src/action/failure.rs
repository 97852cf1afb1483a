//! A failure that every equal call would meet again, in the form in which
//! failures are compared (R-CLASS-4).
//!
//! A rate limit, an overload, a lost connection or a 5xx says nothing about the
//! call; "no such model" does. Example: 400 with code ` Invalid_Model ` is the
//! failure `invalid_model`; 404 without a code is `http_404`; 429 is none.

use std::fmt;

use super::outcome::{AfterUnknown, Certainty, Evidence, certainty, meaning};
use crate::observe::{Facts, Meaning};
use crate::policy::Profile;
use crate::word::Class;

/// Longest code that is kept, in bytes.
pub const CODE_BYTES_MAX: usize = 100;

/// Longest sentence of a provider that is kept, in bytes.
pub const SENTENCE_BYTES_MAX: usize = 300;

/// An error code in the form in which codes are compared: lower case, no white
/// space at its ends, at most [`CODE_BYTES_MAX`] bytes; `http_STATUS` where the
/// provider gave none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(String);

impl ErrorCode {
    /// The code of an answer.
    pub fn of(facts: &Facts) -> ErrorCode {
        match facts.error_code.as_deref().and_then(ErrorCode::normalised) {
            Some(code) => code,
            None => ErrorCode(format!("http_{}", facts.status)),
        }
    }

    /// A text in the form in which codes are compared; `None` if nothing is left of it.
    pub fn normalised(text: &str) -> Option<ErrorCode> {
        let printable = shorten(&text.trim().to_lowercase(), CODE_BYTES_MAX);
        let code = printable.trim();
        (!code.is_empty()).then(|| ErrorCode(code.to_owned()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What failed in a way that a repeat can't mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code by which failures are compared.
    pub code: ErrorCode,
    /// The provider's own sentence, where it may be repeated.
    pub sentence: Option<String>,
}

impl Failure {
    /// The failure of an attempt that every equal call would meet again; `None`
    /// for successes, for what passes by itself, and for what leaves the effect open.
    pub fn of(
        evidence: &Evidence,
        class: Class,
        profile: &Profile,
        after_unknown: AfterUnknown,
    ) -> Option<Failure> {
        let Evidence::Answered { facts, .. } = evidence else {
            return None;
        };
        if certainty(evidence, class, profile, after_unknown) != Certainty::Definite {
            return None;
        }
        match (meaning(facts, profile, after_unknown), facts.status) {
            (Meaning::CallerError, 404 | 410) if profile.absent_is_success => None,
            // A lock is somebody else's and passes.
            (Meaning::CallerError, 423) => None,
            (Meaning::CallerError | Meaning::Credential, _) => Some(Failure::told(facts)),
            (Meaning::TooLarge | Meaning::KeyMismatch, _) => Some(Failure::told(facts)),
            // "Not implemented" will not be implemented by the next call.
            (Meaning::ProviderError, 501 | 505) => Some(Failure::told(facts)),
            _ => None,
        }
    }

    /// The provider's sentence is kept unless it speaks of a credential:
    /// providers echo parts of a rejected key, and those must not travel further.
    fn told(facts: &Facts) -> Failure {
        let sentence = match facts.meaning {
            Meaning::Credential => None,
            _ => facts
                .error_message
                .as_deref()
                .map(|text| shorten(text, SENTENCE_BYTES_MAX)),
        };
        Failure {
            code: ErrorCode::of(facts),
            sentence,
        }
    }
}

/// The longest prefix of at most `bytes` bytes that ends between characters,
/// with what could break a line or move a cursor replaced.
fn shorten(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    let kept = &text[..end.unwrap_or(0)];
    kept.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::outcome::{Body, Lost, Upload};

    fn check(status: u16, meaning: Meaning, code: Option<&str>, expected: Option<&str>) {
        let facts = Facts {
            error_code: code.map(str::to_owned),
            ..Facts::bare(status, meaning)
        };
        let evidence = Evidence::Answered {
            facts,
            body: Body::Complete,
            upload: Upload::Complete,
        };
        let failure = Failure::of(
            &evidence,
            Class::Generation,
            &Profile::nothing(),
            AfterUnknown::No,
        );
        assert_eq!(
            failure.as_ref().map(|f| f.code.as_str()),
            expected,
            "{status} {code:?}"
        );
    }

    #[test]
    fn what_a_repeat_cannot_mend_is_a_failure() {
        let model = Some(" Invalid_Model ");
        check(400, Meaning::CallerError, model, Some("invalid_model"));
        check(404, Meaning::CallerError, None, Some("http_404"));
        check(404, Meaning::CallerError, Some("  "), Some("http_404"));
        check(401, Meaning::Credential, None, Some("http_401"));
        check(413, Meaning::TooLarge, None, Some("http_413"));
        check(501, Meaning::ProviderError, None, Some("http_501"));
        check(
            200,
            Meaning::CallerError,
            Some("bad_input"),
            Some("bad_input"),
        );
    }

    #[test]
    fn what_passes_by_itself_or_succeeds_is_none() {
        check(200, Meaning::Ok, None, None);
        for (status, meaning) in [
            (429, Meaning::RateLimited),
            (503, Meaning::Overloaded),
            (500, Meaning::ProviderError),
            (502, Meaning::ProviderError),
            (408, Meaning::CallerError),
            (423, Meaning::CallerError),
            (429, Meaning::QuotaExhausted),
            (402, Meaning::Billing),
        ] {
            check(status, meaning, Some("x"), None);
        }
        let lost = Evidence::Lost(Lost::Closed);
        let profile = Profile::nothing();
        assert_eq!(
            Failure::of(&lost, Class::Read, &profile, AfterUnknown::No),
            None
        );
    }

    #[test]
    fn absence_is_none_where_it_is_success_or_may_be_our_own() {
        let gone = Evidence::Answered {
            facts: Facts::bare(404, Meaning::CallerError),
            body: Body::Complete,
            upload: Upload::Complete,
        };
        let of = |profile: &Profile, after| {
            Failure::of(&gone, Class::UncertainWrite, profile, after).is_some()
        };
        let plain = Profile::nothing();
        let deletes = Profile {
            absent_is_success: true,
            ..Profile::nothing()
        };
        assert!(of(&plain, AfterUnknown::No));
        assert!(!of(&plain, AfterUnknown::Yes));
        assert!(!of(&deletes, AfterUnknown::No));
    }

    #[test]
    fn a_sentence_about_a_credential_is_never_kept() {
        let mut facts = Facts::bare(401, Meaning::Credential);
        facts.error_message = Some("Incorrect API key provided: sk-canary-1234".to_owned());
        assert_eq!(Failure::told(&facts).sentence, None);
        facts.meaning = Meaning::CallerError;
        facts.error_message = Some("line\nbreak".to_owned());
        assert_eq!(
            Failure::told(&facts).sentence.as_deref(),
            Some("line break")
        );
    }

    #[test]
    fn long_codes_are_cut_between_characters() {
        let code = ErrorCode::normalised(&"é".repeat(200)).unwrap();
        assert_eq!(code.as_str().len(), CODE_BYTES_MAX);
        let code = ErrorCode::normalised(&format!("x{}", "é".repeat(200))).unwrap();
        assert_eq!(code.as_str().len(), CODE_BYTES_MAX - 1);
    }

    #[test]
    fn a_code_is_its_own_code() {
        let code = |text: &str| ErrorCode::normalised(text).map(|code| code.0);
        assert_eq!(code("\u{1}Slow\u{7f} "), Some("slow".to_owned()));
        assert_eq!(code(" \u{1}\n"), None);
        let long = format!("{} x", "a".repeat(CODE_BYTES_MAX - 1));
        assert_eq!(code(&long), Some("a".repeat(CODE_BYTES_MAX - 1)));
    }
}
