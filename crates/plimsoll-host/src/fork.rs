//! A session's history as context for another agent.

use plimsoll::fork::{Child, Digest, fork_for};
use plimsoll::redact::redact_messages;
use plimsoll::{CharCounter, Counter, Limits, Message, RequestOverhead, Tokens};
use plimsoll_tokens::Bpe;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::host::Host;

/// A digest of a session.
#[derive(Debug)]
#[non_exhaustive]
pub struct ForkDigest {
    /// The digest.
    pub digest: Digest,
    /// Number of secrets that were replaced.
    pub redacted: usize,
}

impl Host {
    /// Creates a digest that fits the configured context window and leaves its reader room to work.
    pub fn fork_digest(
        &self,
        mut messages: Vec<Message>,
        task: Option<&str>,
        redact: bool,
        config: &HostConfig,
    ) -> Result<ForkDigest, HostError> {
        let HostConfig { policy, context, .. } = config;
        let redacted = if redact { redact_messages(&mut messages).len() } else { 0 };
        let limits = Limits::new(*context, 0);
        let child = Child { limits, fixed: RequestOverhead::default(), task: task.unwrap_or("") };
        let counter = MaxCounter(policy.count);
        let digest = self.during("forking", || {
            let digest = plimsoll::fork::fork(&messages, &policy.fork);
            // No text has more tokens than bytes, so most digests need not be counted.
            let most =
                digest.message().map(|message| Tokens(message.len() as u64) + counter.message_overhead());
            match child.room(policy, &policy.count) {
                Some(room) if most.is_some_and(|most| most > room) => {
                    fork_for(&messages, policy, &child, &counter)
                }
                _ => Ok(digest),
            }
        });
        let digest = digest.map_err(|no_room| {
            let hint =
                format!("a context window of {} is too small; give a larger --context", Tokens(*context));
            HostError::negative(no_room.to_string()).hint(hint)
        })?;
        Ok(ForkDigest { digest, redacted })
    }
}

/// Counts tokens by length and by a real vocabulary, and returns the larger. The model that reads a digest is unknown, and an
/// estimate of four characters per token is far too low for scripts other than Latin.
#[derive(Clone, Copy, Debug)]
pub struct MaxCounter(pub CharCounter);

impl Counter for MaxCounter {
    fn name(&self) -> &'static str {
        "larger of chars and o200k"
    }

    fn count(&self, text: &str) -> Tokens {
        self.0.count(text).max(Bpe::O200k.count(text))
    }
}
