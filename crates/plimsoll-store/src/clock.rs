//! The clock of a store. Only this clock decides when a lease has expired: callers on several machines, or a process that was
//! suspended, disagree about the time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use plimsoll::Millis;

/// Source of the store's time: the system's clock, unless a test sets another one.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Millis + Send + Sync>);

impl Clock {
    /// Creates a clock that calls `now`.
    pub fn new(now: impl Fn() -> Millis + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> Millis {
        (self.0)()
    }

    /// Returns the time after a duration from now.
    pub(crate) fn after(&self, duration: Duration) -> Millis {
        // SQLite's integers are signed.
        let most = i64::MAX as u64;
        let millis = u64::try_from(duration.as_millis()).unwrap_or(most);
        Millis(self.now().0.saturating_add(millis).min(most))
    }

    /// Returns the time before a duration ago.
    pub(crate) fn before(&self, duration: Duration) -> Millis {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Millis(self.now().0.saturating_sub(millis))
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new(|| {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
        })
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// Formats a time for messages: `2026-11-16 10:59:28 UTC`.
pub fn utc(at: Millis) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Formats the time between two moments in the largest sensible unit.
pub(crate) fn span(from: Millis, to: Millis) -> String {
    let seconds = to.0.saturating_sub(from.0).div_ceil(1_000);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::Millis;

    #[test]
    fn times_and_durations_are_formatted_for_messages() {
        assert_eq!(super::utc(Millis(0)), "1970-01-01 00:00:00 UTC");
        assert_eq!(super::utc(Millis(951_827_696_000)), "2000-02-29 12:34:56 UTC");
        assert_eq!(super::utc(Millis(1_794_775_451_033)), "2026-11-15 20:44:11 UTC");
        assert_eq!(super::utc(Millis(4_102_444_799_999)), "2099-12-31 23:59:59 UTC");
        assert_eq!(super::span(Millis(0), Millis(45_001)), "46 s");
        assert_eq!(super::span(Millis(0), Millis(600_000)), "10 min");
        assert!(!super::utc(Millis(u64::MAX)).is_empty());
    }
}
