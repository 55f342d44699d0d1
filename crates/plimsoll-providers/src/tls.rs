//! The shared TLS configuration. Also recognises failures of secure connections among the causes of a network error, and says how to fix them.
//!
//! A retry does not help against an expired or unknown certificate, and the messages of the TLS library do not say what
//! does.

use std::error::Error;
use std::io;
use std::sync::OnceLock;

use rustls::{CertificateError, ClientConfig};
use rustls_platform_verifier::ConfigVerifierExt as _;

/// Returns the TLS configuration that all clients of this process share; `None` if it cannot be created.
///
/// Creating one reads about 150 files of system certificates. A server creates a client for each session that it opens, and
/// these reads were the largest part of the first request of a session. It is not bound to a runtime, and nothing changes it.
pub(crate) fn shared() -> Option<&'static ClientConfig> {
    static SHARED: OnceLock<Option<ClientConfig>> = OnceLock::new();
    SHARED.get_or_init(|| ClientConfig::with_platform_verifier().ok()).as_ref()
}

/// Returns what is wrong with a secure connection and how to fix it; `None` if the error has another cause.
pub(crate) fn problem(error: &(dyn Error + 'static)) -> Option<String> {
    let error = cause(error)?;
    let advice = match error {
        // A transient failure of the server or of something in between.
        rustls::Error::AlertReceived(rustls::AlertDescription::InternalError) | rustls::Error::General(_) => {
            return None;
        }
        rustls::Error::InvalidCertificate(certificate) => certificate_advice(certificate),
        rustls::Error::InvalidMessage(_) => {
            "the server does not speak TLS there: check the port, or write `http://` in the base URL"
        }
        _ => "check the server's TLS settings, and proxies on the way to it",
    };
    Some(format!("{error}; {advice}"))
}

fn certificate_advice(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::UnknownIssuer => {
            "add the issuer's certificate to the certificates of this system, or set `SSL_CERT_FILE` to a file \
             with it"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew the server's certificate, or correct this machine's clock"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "correct this machine's clock, or the server's certificate"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is of another host: check the host in the base URL"
        }
        // The library has no error kind for the certificate that `openssl req -x509` creates by default.
        other if other.to_string().contains("CaUsedAsEndEntity") => {
            "the server uses the certificate of an issuer as its own: create one for the server \
             (`basicConstraints=CA:FALSE`)"
        }
        _ => "check the server's certificate",
    }
}

/// Returns the TLS library's error among the causes of a network error. An I/O error's `source` skips the error that it
/// wraps, so the wrapped error has to be asked for.
fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source());
    }
    None
}
