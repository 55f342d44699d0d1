//! Figures of a replay as people read them.

use plimsoll::Tokens;
use plimsoll_replay::Report;

/// What stands over the columns.
pub(super) const HEADINGS: [&str; 11] = [
    "policy",
    "deaths",
    "peak",
    "cost",
    "cached",
    "written",
    "output",
    "summaries",
    "recalls",
    "recall",
    "reductions",
];

/// The cells of a policy's row.
pub(super) fn row(report: &Report) -> [String; 11] {
    let (recall, parts) = (report.recall, report.parts);
    [
        report.policy.clone(),
        count(report.deaths),
        percent(report.peak_share),
        dollars(report.cost),
        dollars(parts.cached),
        dollars(parts.written),
        dollars(parts.output),
        dollars(parts.summaries),
        dollars(parts.recalls),
        if recall.calls == 0 { "–".to_owned() } else { percent(recall.share()) },
        fired(report),
    ]
}

/// How often each kind of reduction fired.
pub(super) fn fired(report: &Report) -> String {
    let fired: Vec<String> =
        report.fired.iter().map(|(kind, times)| format!("{kind} {}", count(*times))).collect();
    if fired.is_empty() { "–".to_owned() } else { fired.join(", ") }
}

/// A number with commas.
pub(super) fn count(number: u64) -> String {
    Tokens(number).to_string()
}

/// A number as short as an axis wants it.
pub(super) fn short(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{} k", trimmed(number as f64 / 1e3)),
        _ => format!("{} M", trimmed(number as f64 / 1e6)),
    }
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A share of one.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Money, with as many digits as it takes to tell amounts apart.
pub(super) fn dollars(amount: f64) -> String {
    match amount {
        _ if amount == 0.0 => "$0".to_owned(),
        _ if amount >= 100.0 => format!("${}", count(amount.round() as u64)),
        _ if amount >= 1.0 => format!("${amount:.2}"),
        _ if amount >= 0.1 => format!("${amount:.3}"),
        _ => format!("${amount:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{dollars, percent, short};

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [short(950), short(2_500), short(40_000), short(1_250_000)],
            ["950", "2.5 k", "40 k", "1.2 M"]
        );
        assert_eq!(
            [dollars(0.0), dollars(0.00231), dollars(0.884), dollars(37.4), dollars(1234.0)],
            ["$0", "$0.0023", "$0.884", "$37.40", "$1,234"]
        );
        assert_eq!(percent(0.9836), "98.4 %");
    }
}
