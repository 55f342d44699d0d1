//! Decides when a request is retried.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use crate::error::ProviderError;

/// When a request is retried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Maximum number of retries.
    pub retries: u32,
    /// First wait; each further one is twice as long.
    pub base: Duration,
    /// Maximum wait, unless the provider asks for more.
    pub longest: Duration,
    /// Maximum wait that a provider may ask for. If it asks for more, the error is reported at once: the user can
    /// decide better than a process that hangs for an hour.
    pub longest_asked: Duration,
}

impl Default for RetryPolicy {
    /// Five retries after 2, 4, 8, 16 and 30 seconds: one minute, in which an overloaded provider usually recovers. A longer
    /// outage is the user's decision. Two seconds at first, because a provider that is overloaded answers an immediate
    /// retry with the same error. Providers ask for up to a minute after a rate limit; two minutes leave room for that.
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
    /// A policy without retries.
    pub fn never() -> RetryPolicy {
        RetryPolicy { retries: 0, ..RetryPolicy::default() }
    }

    /// Returns the wait before the next attempt, or `None` if the error must not be retried. `tried` is the number of
    /// retries so far, `chance` is between 0 and 1.
    pub fn wait(&self, error: &ProviderError, tried: u32, chance: f64) -> Option<Duration> {
        if tried >= self.retries || !error.is_transient() {
            return None;
        }
        let spread = chance.clamp(0.0, 1.0);
        match error.retry_after() {
            // At least the requested time, plus jitter, so that waiting clients do not all return at the same moment.
            Some(asked) if asked <= self.longest_asked => Some(asked + asked.mul_f64(0.1 * spread)),
            Some(_) => None,
            None => {
                // Between 75 and 100 % of the wait, so that clients that failed together do not retry together.
                let doubled = self.base.saturating_mul(2u32.saturating_pow(tried)).min(self.longest);
                Some(doubled.mul_f64(0.75 + 0.25 * spread))
            }
        }
    }
}

/// Returns a random number between 0 and 1. The standard library's hasher keys are random, which is sufficient for
/// jitter.
pub(crate) fn chance() -> f64 {
    RandomState::new().hash_one(0u8) as f64 / u64::MAX as f64
}

/// Returns the wait that the headers of an answer request: `retry-after-ms`, or `retry-after` in seconds or as a date.
///
/// A date is compared with the answer's own `date`, so a wrong clock on this machine does not matter; `now` is used if
/// the server sends none. A date in the past is ignored, and the usual wait applies.
pub(crate) fn asked_wait(header: impl Fn(&str) -> Option<String>, now: SystemTime) -> Option<Duration> {
    let number = |name: &str| header(name)?.trim().parse::<f64>().ok();
    let date = |name: &str| httpdate::parse_http_date(header(name)?.trim()).ok();
    if let Some(seconds) = number("retry-after-ms").map(|ms| ms / 1_000.0).or_else(|| number("retry-after")) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let wait = date("retry-after")?.duration_since(date("date").unwrap_or(now)).ok()?;
    (!wait.is_zero()).then_some(wait)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::asked_wait;

    fn wait(headers: &[(&str, &str)]) -> Option<Duration> {
        // 30 seconds after the date of the examples.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 + 30);
        let find =
            |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        asked_wait(find, now)
    }

    #[test]
    fn a_wait_is_read_in_milliseconds_in_seconds_and_as_a_date() {
        let seconds = |seconds: f64| Some(Duration::from_secs_f64(seconds));
        assert_eq!(wait(&[("retry-after-ms", "1500"), ("retry-after", "60")]), seconds(1.5));
        assert_eq!(wait(&[("retry-after", " 7 ")]), seconds(7.0));
        let date = ("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT");
        assert_eq!(wait(&[date, ("date", "Sun, 06 Nov 1994 08:49:37 GMT")]), seconds(60.0));
        assert_eq!(wait(&[date]), seconds(30.0), "without a date of the server this machine's clock is used");
        assert_eq!(wait(&[("retry-after", "Sunday, 06-Nov-94 08:50:37 GMT")]), seconds(30.0), "the old form");
    }

    #[test]
    fn a_date_that_has_passed_and_nonsense_ask_for_nothing() {
        for value in ["Sun, 06 Nov 1994 08:49:37 GMT", "soon", "-5", "", "NaN"] {
            assert_eq!(wait(&[("retry-after", value)]), None, "{value}");
        }
    }
}
