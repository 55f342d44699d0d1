//! Arithmetic with shares, and numbers as text.

/// A share of a number, rounded down; never more than the number.
pub(crate) fn share_of(number: u64, share: f64) -> u64 {
    // Numbers beyond 2^53 have no exact float: the nearest may be larger than they are, or smaller than all of them.
    if share >= 1.0 {
        return number;
    }
    // The epsilon undoes binary fractions: 500 * 0.2 must be 100, not 99.
    ((number as f64 * share + 1e-6) as u64).min(number)
}

/// `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
