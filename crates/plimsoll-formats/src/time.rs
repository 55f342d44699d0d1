//! Times as transcripts write them: RFC 3339, or a number of seconds or milliseconds.

use plimsoll::Millis;

use crate::json::Json;

/// The time in a JSON value, if it is one.
pub(crate) fn millis(value: Option<&Json>) -> Option<Millis> {
    match value? {
        Json::Text(text) => rfc3339(text),
        Json::Number(number) => {
            let number = number.as_f64()?;
            // Seconds stay below this until the year 5138, milliseconds are above it since 1973.
            let millis = if number < 1e11 { number * 1000.0 } else { number };
            (0.0..1e17).contains(&millis).then_some(Millis(millis as u64))
        }
        _ => None,
    }
}

/// `2026-04-01T09:33:45.263Z`, with any offset and any number of digits behind the second.
pub(crate) fn rfc3339(text: &str) -> Option<Millis> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        digits
            .iter()
            .try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
    };
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut at = 19;
    let mut millis = 0;
    if is(at, b".") {
        let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let known = digits.min(3);
        millis = number(at + 1, at + 1 + known)? * [1000, 100, 10, 1][known];
        at += 1 + digits;
    }
    let offset = match bytes.get(at) {
        None | Some(b'Z' | b'z') => 0,
        Some(sign @ (b'+' | b'-')) => {
            let minutes = number(at + 1, at + 3)? * 60 + number(at + 4, at + 6)?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        Some(_) => return None,
    };
    let minutes = (days(year, month, day) * 24 + hour) * 60 + minute - offset;
    u64::try_from((minutes * 60 + second) * 1000 + millis).ok().map(Millis)
}

/// A time as transcripts write it: `2026-04-01T09:33:45.263Z`.
pub fn rfc3339_of(time: Millis) -> String {
    let (seconds, millis) = (time.0 / 1_000, time.0 % 1_000);
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March, so that the day that may be missing is the last.
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day + 2) / 153;
    let day = day - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Days since 1970-01-01 in the Gregorian calendar, counted in years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
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
