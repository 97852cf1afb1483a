//! TLS with a certificate that is made at the start and signed by itself: a
//! caller that trusts the written file trusts this provider and nobody else.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::{StartError, TlsOptions};

/// Makes a certificate, writes it down, and gives what accepts connections.
pub(super) fn acceptor(options: &TlsOptions) -> Result<TlsAcceptor, StartError> {
    let error = |cause: String| StartError::Certificate {
        cause,
        path: options.certificate.display().to_string(),
    };
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    names.extend(options.names.iter().cloned());
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(names).map_err(|e| error(e.to_string()))?;
    std::fs::write(&options.certificate, cert.pem()).map_err(|e| error(e.to_string()))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| error(e.to_string()))?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .map_err(|e| error(e.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
