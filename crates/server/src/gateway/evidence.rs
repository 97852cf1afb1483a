//! From what libraries and sockets report to what is proved.
//!
//! The only file that looks into the errors of hyper, rustls and the operating
//! system. They may change with any release of theirs, so each row below has a
//! test against a real socket (`tests/transport`), and the proof never rests
//! on an error alone: hyper gives the *same* error for "reset before the server
//! read anything" and "reset after the server had processed it". What decides
//! is [`Traffic`], the byte counters under hyper.
//!
//! | what happened | bytes left | verdict |
//! |---|---|---|
//! | name, address, connect, TLS failed | – | not sent |
//! | hyper gave the request back | none | not sent |
//! | any error or time-out | none | not sent |
//! | any error or time-out | some | lost: closed, timed out, upload cut or malformed |
//! | a head arrived | – | answered, whatever befell the upload |
//!
//! `is_incomplete_message` proves nothing about the peer: the measured case is
//! a server that carried the request out and then closed.
//!
//! Sentences for people come from [`Detail`], never from a library's `Display`,
//! which could hold a URL with a key in it.

use std::error::Error as StdError;
use std::io;

use rategov_core::action::outcome::{self, Body, Evidence, Lost, NotSent};
use rategov_core::observe::Facts;
use rustls::{AlertDescription, CertificateError};

use super::address::AddressRefusal;
use super::counting::{Left, Traffic};

/// What went wrong, for records, metrics and people. Closed, and free of anything secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The name does not resolve.
    NameNotFound,
    /// The name server did not answer in time.
    NameTimedOut,
    /// The name resolves only to addresses that are never dialled.
    AddressRefused,
    /// A name over plain HTTP resolves to another machine.
    NotLoopback,
    /// Nobody listens.
    ConnectRefused,
    /// No route.
    Unreachable,
    /// No connection in time.
    ConnectTimedOut,
    /// Some other failure to connect.
    ConnectFailed,
    /// The governor holds as many connections as it may.
    TooManyConnections,
    /// The TLS handshake failed.
    TlsFailed,
    /// The TLS handshake did not end in time.
    TlsTimedOut,
    /// The certificate's time is over or has not begun.
    CertificateExpired,
    /// Nobody trusted signed the certificate.
    CertificateUntrusted,
    /// The certificate is another host's.
    CertificateForOtherName,
    /// The certificate was not accepted for another reason.
    CertificateRefused,
    /// This machine has no trusted certificates at all.
    NoTrustedRoots,
    /// The connection ended before a byte of the request was written.
    ClosedBeforeWrite,
    /// The caller left before a byte was written.
    Withdrawn,
    /// Closed after the request was, at least in part, written.
    Closed,
    /// Reset after the request was, at least in part, written.
    Reset,
    /// Closed inside the answer's head, or after an interim answer (1xx).
    ClosedInHead,
    /// No head in time.
    AnswerTimedOut,
    /// The provider stopped taking the request's body.
    UploadRefused,
    /// The caller's body ended early or failed.
    UploadBroken,
    /// The answer is not HTTP/1.
    NotHttp,
    /// The answer's head is larger than is read.
    HeadTooLarge,
    /// `101 Switching Protocols` that nobody asked for.
    UnaskedUpgrade,
    /// The caller left while the answer was awaited.
    CallerGone,
    /// The answer's body ended before its length or last chunk.
    BodyCut,
    /// The connection was reset inside the answer's body.
    BodyReset,
    /// The answer's body is not framed as HTTP says.
    BodyGarbled,
    /// No byte of the answer's body for too long.
    BodyStalled,
}

impl Detail {
    /// The word used in records and metric labels.
    pub const fn word(self) -> &'static str {
        self.texts().0
    }

    /// What happened, as a sentence without a full stop.
    pub const fn cause(self) -> &'static str {
        self.texts().1
    }

    /// What may help.
    pub const fn hint(self) -> &'static str {
        self.texts().2
    }

    #[rustfmt::skip]
    const fn texts(self) -> (&'static str, &'static str, &'static str) {
        const WAIT: &str = "nothing was sent; it can be repeated safely";
        const URL: &str = "check the provider's base_url";
        const TRUST: &str = "name the authority's file in tls.extra_ca, or install it on this machine";
        const CHECK: &str = "whether it took effect is not known; look it up before repeating it";
        const AGAIN: &str = "the status is known, the result is not; look it up";
        match self {
            Detail::NameNotFound => ("name_not_found", "the provider's name does not resolve", URL),
            Detail::NameTimedOut => ("name_timed_out", "the name server did not answer in time", WAIT),
            Detail::AddressRefused => ("address_refused", "the provider's name resolves to an address that is never dialled", URL),
            Detail::NotLoopback => ("not_loopback", "plain http is only allowed to this machine", "use https, or allow it for this provider with allow_plain_http"),
            Detail::ConnectRefused => ("connect_refused", "the provider refused the connection", WAIT),
            Detail::Unreachable => ("unreachable", "there is no route to the provider", WAIT),
            Detail::ConnectTimedOut => ("connect_timed_out", "no connection to the provider in time", WAIT),
            Detail::ConnectFailed => ("connect_failed", "no connection to the provider", WAIT),
            Detail::TooManyConnections => ("too_many_connections", "the governor holds as many connections as it may", WAIT),
            Detail::TlsFailed => ("tls_failed", "the TLS handshake failed", WAIT),
            Detail::TlsTimedOut => ("tls_timed_out", "the TLS handshake did not end in time", WAIT),
            Detail::CertificateExpired => ("certificate_expired", "the provider's certificate is not valid at this time", "check this machine's clock, then the provider's certificate"),
            Detail::CertificateUntrusted => ("certificate_untrusted", "nobody trusted signed the provider's certificate", TRUST),
            Detail::CertificateForOtherName => ("certificate_for_other_name", "the certificate is another host's", URL),
            Detail::CertificateRefused => ("certificate_refused", "the provider's certificate was not accepted", TRUST),
            Detail::NoTrustedRoots => ("no_trusted_roots", "this machine has no trusted certificates", "install ca-certificates, or name a file in tls.extra_ca"),
            Detail::ClosedBeforeWrite => ("closed_before_write", "the connection ended before anything was written", WAIT),
            Detail::Withdrawn => ("withdrawn", "the caller left before anything was written", WAIT),
            Detail::Closed => ("closed", "the connection was closed before an answer came", CHECK),
            Detail::Reset => ("reset", "the connection was reset before an answer came", CHECK),
            Detail::ClosedInHead => ("closed_in_head", "the connection ended inside the answer's head", CHECK),
            Detail::AnswerTimedOut => ("answer_timed_out", "no answer in time", CHECK),
            Detail::UploadRefused => ("upload_refused", "the provider stopped taking the body", CHECK),
            Detail::UploadBroken => ("upload_broken", "the caller's body ended early", CHECK),
            Detail::NotHttp => ("not_http", "the answer is not HTTP/1", CHECK),
            Detail::HeadTooLarge => ("head_too_large", "the answer's head is too large", CHECK),
            Detail::UnaskedUpgrade => ("unasked_upgrade", "the provider switched protocols unasked", CHECK),
            Detail::CallerGone => ("caller_gone", "the caller left while the answer was awaited", CHECK),
            Detail::BodyCut => ("body_cut", "the answer's body was cut", AGAIN),
            Detail::BodyReset => ("body_reset", "the connection was reset inside the answer's body", AGAIN),
            Detail::BodyGarbled => ("body_garbled", "the answer's body is not framed as HTTP says", AGAIN),
            Detail::BodyStalled => ("body_stalled", "the answer's body stalled", AGAIN),
        }
    }
}

/// How much of the request had been handed over when an answer's head came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upload {
    /// All of it, as far as this side can know.
    Whole,
    /// Certainly not all of it.
    Part,
}

/// What a failed send proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No byte left.
    NotSent(NotSent, Detail),
    /// Bytes left, no head came back.
    Lost(Lost, Detail),
}

impl Verdict {
    /// The core's form.
    pub fn evidence(self) -> Evidence {
        match self {
            Verdict::NotSent(why, _) => Evidence::NotSent(why),
            Verdict::Lost(why, _) => Evidence::Lost(why),
        }
    }
}

/// How an answer's body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// Its length or its last chunk was reached.
    Complete,
    /// It ended early.
    Cut(Detail),
    /// The connection closed, and nothing else said where it ends.
    CloseDelimited,
}

/// Whether the content itself showed its end: it parses, or has its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndMark {
    /// It did.
    Seen,
    /// It did not, or nobody looked.
    Missing,
}

impl BodyEnd {
    /// The core's form: a body that only a close delimits counts as whole if its content says so.
    pub const fn body(self, mark: EndMark) -> Body {
        match (self, mark) {
            (BodyEnd::Complete, _) | (BodyEnd::CloseDelimited, EndMark::Seen) => Body::Complete,
            (BodyEnd::CloseDelimited, EndMark::Missing) | (BodyEnd::Cut(_), _) => Body::Cut,
        }
    }
}

/// An answer as evidence. Three statuses say that nothing was done with the
/// request: 421 (RFC 9110 §15.5.20), 425 (RFC 8470 §5.2), and 408 if the
/// server can't have had all of it (§15.5.9).
pub fn answered(facts: Facts, body: Body, upload: Upload) -> Evidence {
    match (facts.status, upload) {
        (421 | 425, _) | (408, Upload::Part) => Evidence::NotProcessed,
        _ => Evidence::Answered {
            facts,
            body,
            upload: match upload {
                Upload::Whole => outcome::Upload::Complete,
                Upload::Part => outcome::Upload::Partial,
            },
        },
    }
}

/// A failed name look-up.
pub(super) fn of_name(_: &io::Error) -> Verdict {
    Verdict::NotSent(NotSent::Dns, Detail::NameNotFound)
}

/// An address that may not be dialled.
pub(super) fn of_address(refusal: AddressRefusal) -> Verdict {
    let detail = match refusal {
        AddressRefusal::NotLoopback => Detail::NotLoopback,
        AddressRefusal::LinkLocal | AddressRefusal::NotAHost => Detail::AddressRefused,
    };
    Verdict::NotSent(NotSent::Connect, detail)
}

/// A failed connect.
pub(super) fn of_connect(error: &io::Error) -> Verdict {
    let detail = match error.kind() {
        io::ErrorKind::ConnectionRefused => Detail::ConnectRefused,
        io::ErrorKind::TimedOut => Detail::ConnectTimedOut,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Detail::Unreachable,
        _ => Detail::ConnectFailed,
    };
    Verdict::NotSent(NotSent::Connect, detail)
}

/// A failed TLS handshake. What a person must put right is told apart from
/// what may pass: a bad certificate does not get better by trying again.
pub(super) fn of_tls(error: &io::Error) -> Verdict {
    use AlertDescription as Alert;
    let certificate = |detail| Verdict::NotSent(NotSent::Certificate, detail);
    match find::<rustls::Error>(error) {
        Some(rustls::Error::InvalidCertificate(why)) => certificate(match why {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Detail::CertificateExpired,
            // A forged signature under a trusted name is nobody trusted's, too.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Detail::CertificateUntrusted
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Detail::CertificateForOtherName
            }
            _ => Detail::CertificateRefused,
        }),
        Some(rustls::Error::NoCertificatesPresented) => certificate(Detail::CertificateRefused),
        Some(rustls::Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied,
        )) => certificate(Detail::CertificateRefused),
        _ => Verdict::NotSent(NotSent::Tls, Detail::TlsFailed),
    }
}

/// An error from sending. `given_back` says whether hyper returned the request
/// unserialised; it is believed only where the counters agree.
pub(super) fn of_send(error: &hyper::Error, traffic: Traffic, upload: Upload) -> Verdict {
    if traffic.left == Left::Nothing {
        // An error of the body before the first write is the caller's leaving.
        return if error.is_user() {
            Verdict::NotSent(NotSent::Withdrawn, Detail::Withdrawn)
        } else {
            Verdict::NotSent(NotSent::ConnectionClosed, Detail::ClosedBeforeWrite)
        };
    }
    let (lost, detail) = match error {
        e if e.is_user() => (Lost::UploadCut, Detail::UploadBroken),
        e if e.is_parse_too_large() => (Lost::Malformed, Detail::HeadTooLarge),
        e if e.is_parse() => (Lost::Malformed, Detail::NotHttp),
        _ if upload == Upload::Part => (Lost::UploadCut, Detail::UploadRefused),
        _ if traffic.read > 0 => (Lost::Closed, Detail::ClosedInHead),
        e if is_reset(e) => (Lost::Closed, Detail::Reset),
        _ => (Lost::Closed, Detail::Closed),
    };
    Verdict::Lost(lost, detail)
}

/// No head in time.
pub(super) fn of_time_out(traffic: Traffic) -> Verdict {
    match traffic.left {
        Left::Nothing => Verdict::NotSent(NotSent::ConnectionClosed, Detail::ClosedBeforeWrite),
        Left::Something => Verdict::Lost(Lost::TimedOut, Detail::AnswerTimedOut),
    }
}

/// The caller left, or the action was cancelled.
pub(super) fn of_stop(traffic: Traffic) -> Verdict {
    match traffic.left {
        Left::Nothing => Verdict::NotSent(NotSent::Withdrawn, Detail::Withdrawn),
        Left::Something => Verdict::Lost(Lost::CallerGone, Detail::CallerGone),
    }
}

/// An error inside an answer's body.
pub(super) fn of_body(error: &hyper::Error) -> Detail {
    match find::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => Detail::BodyReset,
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => Detail::BodyGarbled,
        _ => Detail::BodyCut,
    }
}

fn is_reset(error: &hyper::Error) -> bool {
    find::<io::Error>(error).is_some_and(|e| e.kind() == io::ErrorKind::ConnectionReset)
}

/// The first error of a type in a chain of sources. An `io::Error` shows what
/// it wraps only through `get_ref`, so both ways are followed.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    // Chains are short; the bound keeps a cyclic one from holding us.
    for _ in 0..16 {
        let current = next?;
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        let wrapped = current
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => current.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use rategov_core::observe::Meaning;

    use super::*;

    fn facts(status: u16) -> Facts {
        Facts::bare(status, Meaning::CallerError)
    }

    #[test]
    fn three_statuses_say_that_nothing_was_done() {
        let judged = |status, upload| answered(facts(status), Body::Complete, upload);
        for (status, upload) in [
            (421, Upload::Whole),
            (425, Upload::Whole),
            (408, Upload::Part),
            (421, Upload::Part),
        ] {
            assert_eq!(judged(status, upload), Evidence::NotProcessed, "{status}");
        }
        for (status, upload) in [
            (408, Upload::Whole),
            (413, Upload::Part),
            (200, Upload::Part),
        ] {
            let expected = Evidence::Answered {
                facts: facts(status),
                body: Body::Complete,
            };
            assert_eq!(judged(status, upload), expected, "{status}");
        }
    }

    #[test]
    fn a_body_that_only_a_close_delimits_needs_its_own_end_mark() {
        assert_eq!(BodyEnd::CloseDelimited.body(EndMark::Missing), Body::Cut);
        assert_eq!(BodyEnd::CloseDelimited.body(EndMark::Seen), Body::Complete);
        assert_eq!(BodyEnd::Complete.body(EndMark::Missing), Body::Complete);
        assert_eq!(BodyEnd::Cut(Detail::BodyCut).body(EndMark::Seen), Body::Cut);
    }

    #[test]
    fn a_time_out_is_lost_only_if_something_left() {
        let traffic = |left| Traffic {
            written: 0,
            read: 0,
            left,
        };
        assert_eq!(
            of_time_out(traffic(Left::Nothing)),
            Verdict::NotSent(NotSent::ConnectionClosed, Detail::ClosedBeforeWrite)
        );
        assert_eq!(
            of_time_out(traffic(Left::Something)),
            Verdict::Lost(Lost::TimedOut, Detail::AnswerTimedOut)
        );
        assert_eq!(
            of_stop(traffic(Left::Nothing)).evidence(),
            Evidence::NotSent(NotSent::Withdrawn)
        );
        assert_eq!(
            of_stop(traffic(Left::Something)).evidence(),
            Evidence::Lost(Lost::CallerGone)
        );
    }
}
