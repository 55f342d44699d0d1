//! Stopping work that takes a while: counting a long history, clearing and cutting it, a summary made of it.
//!
//! A session works on its own thread, so a host that merely stops waiting would find it busy at the next call. Instead
//! a dropped future sets a flag, which is checked between units of work: a counted text, a rung of the ladder, a
//! message whose facts are gathered, a part that is searched. Unfinished work is dropped and nothing of it is stored.

use std::sync::Arc;

use plimsoll::{Counter, Text, Tokens};

use crate::error::SessionError;

/// A flag that stops work. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(plimsoll_store::StopFlag);

impl StopFlag {
    /// Stops the work.
    #[cfg(any(test, feature = "async"))]
    pub(crate) fn stop(&self) {
        self.0.stop();
    }

    /// Whether the work is to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_set()
    }

    /// Returns the same flag, for reads of the store.
    pub(crate) fn of_store(&self) -> &plimsoll_store::StopFlag {
        &self.0
    }

    /// Returns an error if the flag is set.
    pub(crate) fn check(&self) -> Result<(), SessionError> {
        if self.is_set() { Err(SessionError::Stopped) } else { Ok(()) }
    }
}

/// A counter that returns zero once the flag is set: the caller discards the figures. It must wrap a memoizing counter
/// and never be wrapped by one, or zeros would be remembered with the texts.
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

    fn is_stopped(&self) -> bool {
        self.stop.is_set()
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

    fn least_share(&self) -> Option<f64> {
        self.inner.least_share()
    }
}
