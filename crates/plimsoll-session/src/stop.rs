//! Stopping work that takes a while: counting a long history, clearing and cutting it, a summary made of it.
//!
//! A driver works on a thread of its own, and a host that stops waiting for it would find it busy with its next call. So the host
//! sets a flag, and the work looks at it between its pieces. A piece is a text that is counted or a rung of the ladder. What was
//! begun is dropped, and nothing of it is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll::{Counter, Text, Tokens};

use crate::error::SessionError;

/// A flag that stops work. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Stops the work.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work is to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once the work is to stop.
    pub(crate) fn check(&self) -> Result<(), SessionError> {
        if self.is_set() { Err(SessionError::Stopped) } else { Ok(()) }
    }
}

/// A counter that counts nothing once the work is to stop, because nobody reads the figures any more.
pub(crate) struct Stoppable {
    pub(crate) inner: Arc<dyn Counter>,
    pub(crate) stop: StopFlag,
}

impl Counter for Stoppable {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn count(&self, text: &str) -> Tokens {
        if self.stop.is_set() { Tokens::ZERO } else { self.inner.count(text) }
    }

    fn count_text(&self, text: &Text) -> Tokens {
        if self.stop.is_set() { Tokens::ZERO } else { self.inner.count_text(text) }
    }

    fn message_overhead(&self) -> Tokens {
        self.inner.message_overhead()
    }

    fn result_overhead(&self) -> Tokens {
        self.inner.result_overhead()
    }

    fn file_tokens(&self) -> Tokens {
        self.inner.file_tokens()
    }
}
