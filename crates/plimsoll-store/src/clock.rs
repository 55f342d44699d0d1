//! The clock of a store. It alone decides when a lease has run out: callers on several machines, or one that was
//! stopped for a while, do not agree about the time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use plimsoll::Millis;

/// Tells a store the time. The system's unless a test says otherwise.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Millis + Send + Sync>);

impl Clock {
    /// A clock that asks `now`.
    pub fn new(now: impl Fn() -> Millis + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    /// The time it is.
    pub fn now(&self) -> Millis {
        (self.0)()
    }

    /// The time it will be after so long.
    pub(crate) fn after(&self, duration: Duration) -> Millis {
        // Databases have one bit less than ours.
        let most = i64::MAX as u64;
        let millis = u64::try_from(duration.as_millis()).unwrap_or(most);
        Millis(self.now().0.saturating_add(millis).min(most))
    }

    /// The time it was so long ago.
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

/// Formats a time for a message: `2026-11-16 10:59:28 UTC`.
pub(crate) fn utc(at: Millis) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// How long it is from one time to a later one, in the largest unit that says something.
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
    fn times_are_told_as_people_read_them() {
        assert_eq!(super::utc(Millis(0)), "1970-01-01 00:00:00 UTC");
        assert_eq!(super::utc(Millis(951_827_696_000)), "2000-02-29 12:34:56 UTC");
        assert_eq!(super::utc(Millis(1_794_775_451_033)), "2026-11-15 20:44:11 UTC");
        assert_eq!(super::utc(Millis(4_102_444_799_999)), "2099-12-31 23:59:59 UTC");
        assert_eq!(super::span(Millis(0), Millis(45_001)), "46 s");
        assert_eq!(super::span(Millis(0), Millis(600_000)), "10 min");
        assert!(!super::utc(Millis(u64::MAX)).is_empty());
    }
}
