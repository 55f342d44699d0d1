//! Times in transcripts: RFC 3339, or a number of seconds or milliseconds.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use plimsoll::Millis;

use crate::json::Json;

/// Returns the time in a JSON value.
pub(crate) fn millis(value: Option<&Json>) -> Option<Millis> {
    match value? {
        Json::Text(text) => rfc3339(text),
        Json::Number(number) => {
            let number = number.as_f64()?;
            // Seconds stay below this until the year 5138; milliseconds have been above it since 1973.
            let millis = if number < 1e11 { number * 1000.0 } else { number };
            (0.0..1e17).contains(&millis).then_some(Millis(millis as u64))
        }
        _ => None,
    }
}

/// Parses `2026-04-01T09:33:45.263Z`, with any offset and any number of fractional digits. Without an offset it is UTC.
pub(crate) fn rfc3339(text: &str) -> Option<Millis> {
    let time = match text.parse::<Timestamp>() {
        Ok(time) => time,
        // A date without a time does not count.
        Err(_) if text.len() <= "2026-04-01".len() => return None,
        Err(_) => text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp(),
    };
    u64::try_from(time.as_millisecond()).ok().map(Millis)
}

/// Formats a time as transcripts write it: `2026-04-01T09:33:45.263Z`.
pub fn rfc3339_of(time: Millis) -> String {
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;
    use plimsoll::Millis;

    #[test]
    fn times_are_read() {
        assert_eq!(rfc3339("1970-01-01T00:00:00Z"), Some(Millis(0)));
        assert_eq!(rfc3339("2026-04-01T09:33:45.263Z"), Some(Millis(1_775_036_025_263)));
        assert_eq!(rfc3339("2026-04-01T11:33:45.263999+02:00"), Some(Millis(1_775_036_025_263)));
        assert_eq!(rfc3339("2024-02-29T00:00:00.5-01:30"), Some(Millis(1_709_170_200_500)));
        for odd in ["", "2026-04-01", "2026-13-01T00:00:00Z", "2026-04-01T09:33:45é", "1960-01-01T00:00:00Z"]
        {
            assert_eq!(rfc3339(odd), None, "{odd}");
        }
    }
}
