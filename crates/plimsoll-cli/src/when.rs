//! Times for people.

use std::time::SystemTime;

use jiff::Timestamp;
use plimsoll::Millis;

/// The time it is.
pub(crate) fn now() -> Millis {
    Millis(millis(SystemTime::now()))
}

/// Milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago, in the largest unit that says something.
pub(crate) fn age(millis: u64) -> String {
    let minutes = millis / 60_000;
    match (minutes, minutes / 60, minutes / (60 * 24)) {
        (0, ..) => "now".to_owned(),
        (minutes, 0, _) => format!("{minutes} min"),
        (_, hours, 0 | 1) if hours < 48 => format!("{hours} h"),
        (_, _, days) if days < 60 => format!("{days} d"),
        (_, _, days) if days < 730 => format!("{} mo", days / 30),
        (_, _, days) => format!("{} y", days / 365),
    }
}

/// How long ago a time is, in a sentence.
pub(crate) fn ago(at: Millis) -> String {
    match age_of(at).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}

/// How long ago a time is, in a table.
pub(crate) fn age_of(at: Millis) -> String {
    age(now().0.saturating_sub(at.0))
}

/// `2026-05-02 09:18 UTC`.
pub(crate) fn utc(at: Millis) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use plimsoll::Millis;

    use super::{age, utc};

    #[test]
    fn ages_are_told_in_the_largest_unit_that_says_something() {
        let minute = 60_000;
        let ages =
            [0, 59_000, 5 * minute, 90 * minute, 47 * 60 * minute, 3 * 1440 * minute, 100 * 1440 * minute];
        let told: Vec<String> = ages.iter().map(|millis| age(*millis)).collect();
        assert_eq!(told, ["now", "now", "5 min", "1 h", "47 h", "3 d", "3 mo"]);
        assert_eq!(age(3 * 365 * 1440 * minute), "3 y");
    }

    #[test]
    fn times_are_told_in_the_common_calendar() {
        assert_eq!(utc(Millis(0)), "1970-01-01 00:00 UTC");
        assert_eq!(utc(Millis(951_782_400_000)), "2000-02-29 00:00 UTC");
        assert_eq!(utc(Millis(1_777_713_516_730)), "2026-05-02 09:18 UTC");
        assert_eq!(utc(Millis(1_735_689_599_999)), "2024-12-31 23:59 UTC");
    }
}
