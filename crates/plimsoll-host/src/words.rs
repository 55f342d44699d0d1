//! Formatting of counts, money and sizes, shared by all hosts.

use plimsoll::Tokens;

/// Formats a count and its noun: `1 message`, `2,000 messages`.
pub fn counted(count: usize, noun: &str) -> String {
    let number = Tokens(count as u64);
    if count == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Formats an amount in dollars with this number of decimals: `$1,234.57`.
pub fn dollars(amount: f64, decimals: usize) -> String {
    let units = 10f64.powi(i32::try_from(decimals).unwrap_or(i32::MAX));
    let rounded = (amount * units).round().clamp(0.0, 1e17) as u64;
    let (whole, rest) = (rounded / units as u64, rounded % units as u64);
    match decimals {
        0 => format!("${}", Tokens(whole)),
        _ => format!("${}.{rest:0decimals$}", Tokens(whole)),
    }
}

/// Formats a price per million tokens with up to four decimals: `$15`, `$0.3`. Prices are products of list prices and factors,
/// which leaves rounding errors in further decimals.
pub fn list_price(amount: f64) -> String {
    dollars(amount, 4).trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a size: `512 bytes`, `1.5 kB`, `2.0 MB`. Notices in a window use the units of their document format instead.
pub fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::{dollars, list_price, size};

    #[test]
    fn prices_have_only_the_decimals_they_need() {
        let prices = [0.3, 3.75, 15.0, 100.0, 0.0, 0.1 + 0.2, 1_250.0].map(list_price);
        assert_eq!(prices, ["$0.3", "$3.75", "$15", "$100", "$0", "$0.3", "$1,250"]);
    }

    #[test]
    fn sizes_have_one_unit() {
        let sizes = [0, 1, 999, 1_500, 2_000_000, 3_400_000_000].map(size);
        assert_eq!(sizes, ["0 bytes", "1 byte", "999 bytes", "1.5 kB", "2.0 MB", "3.4 GB"]);
    }

    #[test]
    fn money_has_its_decimals_and_thousands() {
        assert_eq!((dollars(1_234.565, 2), dollars(0.004, 2)), ("$1,234.57".to_owned(), "$0.00".to_owned()));
        assert_eq!((dollars(0.00231, 4), dollars(1_234.5, 0)), ("$0.0023".to_owned(), "$1,235".to_owned()));
    }
}
