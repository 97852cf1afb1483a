//! The words for what can go wrong with a send: one table for records, metric
//! labels and people.
//!
//! Closed, so that a label set is bounded and nothing secret can slip in.

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
    /// The kept copy of the body can't be read back from disk.
    SpillUnreadable,
    /// The answer is not HTTP/1.
    NotHttp,
    /// The answer's head is larger than is read.
    HeadTooLarge,
    /// `101 Switching Protocols` that nobody asked for.
    UnaskedUpgrade,
    /// The caller left while the answer was awaited.
    CallerGone,
    /// The scope was refused between the grant and the first byte.
    Overtaken,
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
        const TRUST: &str = "install its authority on this machine, or name its file in SSL_CERT_FILE";
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
            Detail::NoTrustedRoots => ("no_trusted_roots", "this machine has no trusted certificates", "install ca-certificates, or name a file of authorities in SSL_CERT_FILE"),
            Detail::ClosedBeforeWrite => ("closed_before_write", "the connection ended before anything was written", WAIT),
            Detail::Withdrawn => ("withdrawn", "the caller left before anything was written", WAIT),
            Detail::Closed => ("closed", "the connection was closed before an answer came", CHECK),
            Detail::Reset => ("reset", "the connection was reset before an answer came", CHECK),
            Detail::ClosedInHead => ("closed_in_head", "the connection ended inside the answer's head", CHECK),
            Detail::AnswerTimedOut => ("answer_timed_out", "no answer in time", CHECK),
            Detail::UploadRefused => ("upload_refused", "the provider stopped taking the body", CHECK),
            Detail::UploadBroken => ("upload_broken", "the caller's body ended early", CHECK),
            Detail::SpillUnreadable => ("spill_unreadable", "the kept copy of the body can't be read back", "check the disk under the spool's directory"),
            Detail::NotHttp => ("not_http", "the answer is not HTTP/1", CHECK),
            Detail::HeadTooLarge => ("head_too_large", "the answer's head is too large", CHECK),
            Detail::UnaskedUpgrade => ("unasked_upgrade", "the provider switched protocols unasked", CHECK),
            Detail::CallerGone => ("caller_gone", "the caller left while the answer was awaited", CHECK),
            Detail::Overtaken => ("overtaken", "the scope was refused before the first byte", WAIT),
            Detail::BodyCut => ("body_cut", "the answer's body was cut", AGAIN),
            Detail::BodyReset => ("body_reset", "the connection was reset inside the answer's body", AGAIN),
            Detail::BodyGarbled => ("body_garbled", "the answer's body is not framed as HTTP says", AGAIN),
            Detail::BodyStalled => ("body_stalled", "the answer's body stalled", AGAIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_reads_as_word_cause_and_hint() {
        let detail = Detail::CertificateUntrusted;
        assert_eq!(detail.word(), "certificate_untrusted");
        assert_eq!(
            detail.cause(),
            "nobody trusted signed the provider's certificate"
        );
        assert!(detail.hint().contains("SSL_CERT_FILE"));
    }
}
