//! Closes connections whose peer has stopped reading.
//!
//! Event streams can stay open for days, so responses have no time limit. But a peer that neither reads nor closes would keep
//! its socket and buffer forever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Time after which a write that makes no progress fails.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// A stream whose writes fail if the peer accepts nothing for [`STALL`].
pub(crate) struct StallGuard<S> {
    inner: S,
    limit: Duration,
    /// Timer, while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> StallGuard<S> {
    pub(crate) fn new(inner: S, limit: Duration) -> StallGuard<S> {
        StallGuard { inner, limit, waiting: None }
    }

    /// Clears the timer on progress, and fails when it expires.
    fn observe<T>(&mut self, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(waiting.as_mut().poll(cx));
        // If hyper continues after this error, for example to shut down, that write gets the full time again.
        waiting.as_mut().reset(Instant::now() + limit);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer has stopped reading")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.observe(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.observe(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.observe(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.observe(polled, cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;

    use super::StallGuard;

    #[tokio::test(flavor = "current_thread")]
    async fn a_write_to_a_peer_that_stops_reading_fails() {
        let (ours, theirs) = tokio::io::duplex(16);
        let mut guarded = StallGuard::new(ours, Duration::from_millis(30));
        guarded.write_all(&[0; 16]).await.unwrap();
        let error = guarded.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
