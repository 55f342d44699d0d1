//! Figures in words, the same in every host.

use plimsoll::Tokens;

/// Formats a count and its noun: `1 message`, `2,000 messages`.
pub fn counted(count: usize, noun: &str) -> String {
    let number = Tokens(count as u64);
    if count == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Formats a sum of money with this many decimals: `$1,234.57`.
pub fn dollars(amount: f64, decimals: usize) -> String {
    let units = 10f64.powi(i32::try_from(decimals).unwrap_or(i32::MAX));
    let rounded = (amount * units).round().clamp(0.0, 1e17) as u64;
    let (whole, rest) = (rounded / units as u64, rounded % units as u64);
    match decimals {
        0 => format!("${}", Tokens(whole)),
        _ => format!("${}.{rest:0decimals$}", Tokens(whole)),
    }
}

#[cfg(test)]
mod tests {
    use super::dollars;

    #[test]
    fn money_has_its_decimals_and_thousands() {
        assert_eq!((dollars(1_234.565, 2), dollars(0.004, 2)), ("$1,234.57".to_owned(), "$0.00".to_owned()));
        assert_eq!((dollars(0.00231, 4), dollars(1_234.5, 0)), ("$0.0023".to_owned(), "$1,235".to_owned()));
    }
}
