//! The accept loop.
//!
//! `axum::serve` has no timeout for headers, so a half-sent request stays open forever. This loop sets the limits of
//! hyper's connection itself.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::stall::{STALL, StallGuard};

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of open connections. Further ones are answered with 503 and closed.
    pub(crate) connections: usize,
    /// Time limit for receiving the head of a request. It also limits how long an idle connection is kept.
    pub(crate) head: Duration,
}

/// Size of the buffer for the head of a request, in bytes. Hyper checks the limit between reads, and one read can be as large as
/// the buffer, so a head can have twice this size.
const HEAD_BYTES: usize = 32 * 1_024;

/// Time limit for sending the 503 to a connection beyond the limit.
const REFUSAL: Duration = Duration::from_secs(1);

/// Time that open requests have to finish when the server stops.
const DRAIN: Duration = Duration::from_secs(10);

/// Accepts connections until `stop`, and waits until they have ended.
pub(crate) async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let (connections, abort) = (TaskTracker::new(), CancellationToken::new());
    loop {
        let stream = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Out of file descriptors, or the peer has already gone. Without a pause this loop would use a whole core until a
                // descriptor is free.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let _ = stream.set_nodelay(true);
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            connections.spawn(tokio::time::timeout(REFUSAL, refuse(stream)));
            continue;
        };
        let (router, stop, abort) = (router.clone(), stop.clone(), abort.clone());
        connections.spawn(async move {
            tokio::select! {
                () = abort.cancelled() => {}
                () = converse(stream, router, limits, stop) => {}
            }
            drop(slot);
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        abort.cancel();
        connections.wait().await;
    }
}

async fn converse(stream: TcpStream, router: Router, limits: Limits, stop: CancellationToken) {
    let io = TokioIo::new(StallGuard::new(stream, STALL));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD_BYTES);
    let connection = http.serve_connection(io, TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

async fn refuse(mut stream: TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let _ = stream.write_all(ANSWER).await;
    let _ = stream.shutdown().await;
    // Closing a connection with unread data resets it, and the client would never see the answer.
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}
