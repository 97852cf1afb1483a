//! TLS towards providers: the platform's trust, HTTP/1.1, no early data.
//!
//! Early data stays off because it would let a handshake carry a request: a
//! failed handshake could then no longer prove that nothing was sent. Keys are
//! never logged for debugging tools, and no certificate check can be switched
//! off; who has an authority of their own adds its file.
//!
//! The platform's certificates are read at the first TLS connection, so that a
//! machine without any can still govern providers on itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::destination::Host;

/// Most certificates in a file of extra authorities.
const EXTRA_CERTIFICATES_MAX: usize = 1_000;

/// What to trust beside the platform's authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// A PEM file of further authorities.
    pub extra_ca: Option<PathBuf>,
}

/// Why the TLS options are refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The file can't be read.
    #[error("{0}: can't be read as PEM; hint: it must be a readable file of certificates")]
    Unreadable(PathBuf),
    /// The file holds no certificate, or far too many.
    #[error("{0}: holds no certificates, or more than {EXTRA_CERTIFICATES_MAX}")]
    Count(PathBuf),
    /// A certificate in it is not one.
    #[error("{0}: holds a certificate that can't be an authority's")]
    NotAnAuthority(PathBuf),
}

/// The machine has no trusted certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoTrustedRoots;

/// Makes TLS connections.
#[derive(Debug)]
pub struct Tls {
    extra: Vec<CertificateDer<'static>>,
    config: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    /// Reads the extra authorities.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(options: &TlsOptions) -> Result<Tls, TlsError> {
        let extra = match &options.extra_ca {
            Some(path) => read_extra(path)?,
            None => Vec::new(),
        };
        Ok(Tls {
            extra,
            config: OnceCell::new(),
        })
    }

    /// The connector; the first call reads the platform's certificates off the
    /// async threads. A failure is not remembered: the next call tries again.
    pub(super) async fn connector(&self) -> Result<TlsConnector, NoTrustedRoots> {
        let config = self
            .config
            .get_or_try_init(|| async {
                let extra = self.extra.clone();
                tokio::task::spawn_blocking(move || client_config(extra))
                    .await
                    .unwrap_or(Err(NoTrustedRoots))
            })
            .await?;
        Ok(TlsConnector::from(Arc::clone(config)))
    }
}

/// The name that a certificate must be for. `None` for what TLS can't name.
pub(super) fn server_name(host: &Host) -> Option<ServerName<'static>> {
    match host {
        Host::Name(name) => ServerName::try_from(name.to_string()).ok(),
        Host::Address(ip) => Some(ServerName::IpAddress((*ip).into())),
    }
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn client_config(extra: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, NoTrustedRoots> {
    let verifier = Verifier::new_with_extra_roots(extra, crypto()).map_err(|_| NoTrustedRoots)?;
    let mut config = ClientConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        // The provider's own list of versions; it can't lack them all.
        .map_err(|_| NoTrustedRoots)?
        .dangerous()
        // "Dangerous" is the builder's word for any verifier that is passed in.
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.enable_early_data = false;
    Ok(Arc::new(config))
}

fn read_extra(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = || TlsError::Unreadable(path.to_owned());
    let mut extra = Vec::new();
    let mut store = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|_| unreadable())? {
        let certificate = certificate.map_err(|_| unreadable())?;
        store
            .add(certificate.clone())
            .map_err(|_| TlsError::NotAnAuthority(path.to_owned()))?;
        extra.push(certificate);
        if extra.len() > EXTRA_CERTIFICATES_MAX {
            break;
        }
    }
    match extra.len() {
        1..=EXTRA_CERTIFICATES_MAX => Ok(extra),
        _ => Err(TlsError::Count(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn check(content: &str, expected: fn(PathBuf) -> TlsError) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let path = file.path().to_owned();
        let options = TlsOptions {
            extra_ca: Some(path.clone()),
        };
        assert_eq!(
            Tls::new(&options).map(drop),
            Err(expected(path)),
            "{content:?}"
        );
    }

    #[test]
    fn a_file_of_authorities_must_hold_authorities() {
        check("", TlsError::Count);
        check("no certificate at all", TlsError::Count);
        check(
            "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
            TlsError::Unreadable,
        );
        check(
            "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n",
            TlsError::NotAnAuthority,
        );
        let options = TlsOptions {
            extra_ca: Some(PathBuf::from("/nowhere/ca.pem")),
        };
        assert_eq!(
            Tls::new(&options).map(drop),
            Err(TlsError::Unreadable(PathBuf::from("/nowhere/ca.pem")))
        );
    }

    #[tokio::test]
    async fn a_handshake_never_carries_a_request() {
        let key = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let config = client_config(vec![key.cert.der().clone()]).unwrap();
        assert!(!config.enable_early_data);
        assert_eq!(config.alpn_protocols, [b"http/1.1"]);
        assert!(!config.enable_secret_extraction);
    }
}
