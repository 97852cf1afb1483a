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

pub use rategov_core::action::outcome::Upload;
use rategov_core::action::outcome::{Body, Evidence, Lost, NotSent};
use rategov_core::observe::Facts;
use rustls::{AlertDescription, CertificateError};

use super::address::AddressRefusal;
use super::counting::{Left, Traffic};
pub use super::detail::Detail;
use super::outgoing::BodyError;

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

/// An answer as evidence. What its status is worth is the core's to judge,
/// also where it says that nothing was done (421, 425, a 408 to part of a request).
pub fn answered(facts: Facts, body: Body, upload: Upload) -> Evidence {
    Evidence::Answered {
        facts,
        body,
        upload,
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

/// An error from sending. Where nothing left, the error only chooses the words;
/// where something did, it never makes the verdict more certain.
pub(super) fn of_send(error: &hyper::Error, traffic: Traffic, upload: Upload) -> Verdict {
    let broken = find::<BodyError>(error).copied();
    if traffic.left == Left::Nothing {
        return match broken {
            Some(BodyError::Caller) => Verdict::NotSent(NotSent::Withdrawn, Detail::Withdrawn),
            Some(BodyError::Spill(_)) => {
                Verdict::NotSent(NotSent::ConnectionClosed, Detail::SpillUnreadable)
            }
            None => Verdict::NotSent(NotSent::ConnectionClosed, Detail::ClosedBeforeWrite),
        };
    }
    let (lost, detail) = match (broken, error) {
        (Some(BodyError::Caller), _) => (Lost::UploadCut, Detail::UploadBroken),
        (Some(BodyError::Spill(_)), _) => (Lost::UploadCut, Detail::SpillUnreadable),
        (_, e) if e.is_body_write_aborted() => (Lost::UploadCut, Detail::UploadBroken),
        (_, e) if e.is_parse_too_large() => (Lost::Malformed, Detail::HeadTooLarge),
        (_, e) if e.is_parse() => (Lost::Malformed, Detail::NotHttp),
        _ if upload == Upload::Partial => (Lost::UploadCut, Detail::UploadRefused),
        _ if traffic.read > 0 => (Lost::Closed, Detail::ClosedInHead),
        (_, e) if is_reset(e) => (Lost::Closed, Detail::Reset),
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
    use super::*;

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
