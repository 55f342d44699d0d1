//! Relative times.

use plimsoll::Millis;
use plimsoll_store::Clock;
pub(crate) use plimsoll_store::utc;

/// The current time.
pub(crate) fn now() -> Millis {
    Clock::default().now()
}

/// Formats a duration in its largest useful unit.
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

/// Formats how long ago a time was, for sentences.
pub(crate) fn ago(at: Millis) -> String {
    match age_of(at).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}

/// Formats how long ago a time was, for tables.
pub(crate) fn age_of(at: Millis) -> String {
    age(now().0.saturating_sub(at.0))
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_are_shown_in_the_largest_useful_unit() {
        let minute = 60_000;
        let ages =
            [0, 59_000, 5 * minute, 90 * minute, 47 * 60 * minute, 3 * 1440 * minute, 100 * 1440 * minute];
        let texts: Vec<String> = ages.iter().map(|millis| age(*millis)).collect();
        assert_eq!(texts, ["now", "now", "5 min", "1 h", "47 h", "3 d", "3 mo"]);
        assert_eq!(age(3 * 365 * 1440 * minute), "3 y");
    }
}
