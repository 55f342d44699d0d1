//! Secure connections that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_providers::{Client, ClientOptions, Endpoint, ProviderError, RetryPolicy, Wire};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::server::request;

/// A self-signed certificate for `localhost` and `127.0.0.1`.
const CERTIFICATE: &[u8] = include_bytes!("tls/certificate.der");
const KEY: &[u8] = include_bytes!("tls/key.der");

async fn ask(url: &str) -> (ProviderError, usize) {
    let retry = RetryPolicy { retries: 3, base: Duration::from_millis(1), ..RetryPolicy::default() };
    let endpoint = Endpoint::new(Wire::Chat, url, None).unwrap();
    let client = Client::new(endpoint, ClientOptions { retry, ..ClientOptions::default() }).unwrap();
    let mut retries = 0;
    let error = client.stream(&request(Wire::Chat), |_| retries += 1).await.expect_err("an error");
    (error, retries)
}

#[tokio::test]
async fn an_unknown_certificate_is_not_retried_and_the_error_has_a_remedy() {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let key = PrivateKeyDer::try_from(KEY.to_vec()).unwrap();
    let certificate = vec![CertificateDer::from(CERTIFICATE.to_vec())];
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(certificate, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://127.0.0.1:{}/v1?token=harbour~wall~7", listener.local_addr().unwrap().port());
    let connections = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&connections);
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            seen.fetch_add(1, Ordering::SeqCst);
            let _ = acceptor.accept(stream).await;
        }
    });
    let (error, retries) = ask(&url).await;
    server.abort();
    assert!(matches!(error, ProviderError::Tls { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("UnknownIssuer") && message.contains("SSL_CERT_FILE"), "{message}");
    assert!(message.contains("/v1/chat/completions") && !message.contains("harbour"), "{message}");
    assert_eq!((retries, connections.load(Ordering::SeqCst)), (0, 1));
}

#[tokio::test]
async fn a_server_without_tls_is_reported_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
            let _ = stream.shutdown().await;
        }
    });
    let (error, retries) = ask(&url).await;
    server.abort();
    assert!(matches!(error, ProviderError::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains("write `http://`"), "{error}");
    assert_eq!(retries, 0);
}
