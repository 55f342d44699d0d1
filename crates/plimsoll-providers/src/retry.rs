//! When to send a request again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::error::ProviderError;

/// When to send a request again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// How often at most, after the first time.
    pub retries: u32,
    /// The first wait; each further one is twice as long.
    pub base: Duration,
    /// The longest wait that is chosen here.
    pub longest: Duration,
    /// The longest wait that a provider may ask for. If it asks for more, its error is reported at once: a person
    /// decides better than a process that hangs for an hour.
    pub longest_asked: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            retries: 5,
            base: Duration::from_secs(2),
            longest: Duration::from_secs(30),
            longest_asked: Duration::from_secs(120),
        }
    }
}

impl RetryPolicy {
    /// Never.
    pub fn never() -> RetryPolicy {
        RetryPolicy { retries: 0, ..RetryPolicy::default() }
    }

    /// How long to wait after a failure before the next try; none if there is to be none. `tried` counts the retries
    /// so far, `chance` is between 0 and 1.
    pub fn wait(&self, error: &ProviderError, tried: u32, chance: f64) -> Option<Duration> {
        if tried >= self.retries || !error.is_transient() {
            return None;
        }
        let spread = chance.clamp(0.0, 1.0);
        match error.retry_after() {
            // Never before the time asked for, and not all at the same moment after it.
            Some(asked) if asked <= self.longest_asked => Some(asked + asked.mul_f64(0.1 * spread)),
            Some(_) => None,
            None => {
                let doubled = self.base.saturating_mul(2u32.saturating_pow(tried)).min(self.longest);
                Some(doubled.mul_f64(0.75 + 0.25 * spread))
            }
        }
    }
}

/// A number between 0 and 1. The standard library's hasher keys are random, which is all that jitter needs.
pub(crate) fn chance() -> f64 {
    RandomState::new().hash_one(0u8) as f64 / u64::MAX as f64
}

/// The wait that the headers of an answer ask for: `retry-after-ms`, or `retry-after` in seconds. A date is not read:
/// providers send seconds, and a clock that is off would make it worthless.
pub(crate) fn asked_wait(header: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let number = |name: &str| header(name)?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1_000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}
