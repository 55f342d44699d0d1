//! Figures of a replay as people read them.

use plimsoll::Tokens;
use plimsoll_replay::Report;

/// A figure of a policy.
pub(super) struct Figure {
    /// What stands over its column.
    pub(super) heading: &'static str,
    /// What a row says.
    pub(super) cell: fn(&Report) -> String,
}

const fn figure(heading: &'static str, cell: fn(&Report) -> String) -> Figure {
    Figure { heading, cell }
}

const POLICY: Figure = figure("policy", |report| report.policy.clone());
const DEATHS: Figure = figure("deaths", |report| count(report.deaths));
const PEAK: Figure = figure("peak", |report| percent(report.peak_share));
const COST: Figure = figure("cost", |report| dollars(report.cost));
const CACHED: Figure = figure("cached", |report| dollars(report.parts.cached));
const WRITTEN: Figure = figure("written", |report| dollars(report.parts.written));
const OUTPUT: Figure = figure("output", |report| dollars(report.parts.output));
const SUMMARIES: Figure = figure("summaries", |report| dollars(report.parts.summaries));
const RECALLS: Figure = figure("recalls", |report| dollars(report.parts.recalls));
const RECALL: Figure = figure("recall", |report| share(report, report.recall.share()));
const SENT: Figure = figure("tokens sent", |report| count(report.tokens_sent));
const PER_CALL: Figure = figure("a call", |report| dollars(report.cost_per_call()));
const IN_WINDOW: Figure = figure("in the window", |report| share(report, report.recall.visible_share));
const BROUGHT_BACK: Figure = figure("brought back", |report| share(report, report.recall.recalled_share));

/// What came out.
pub(super) const OUTCOME: &[Figure] = &[POLICY, DEATHS, PEAK, COST, RECALL, IN_WINDOW];
/// What the cost is made of.
pub(super) const PARTS: &[Figure] = &[POLICY, CACHED, WRITTEN, OUTPUT, SUMMARIES, RECALLS];
/// Both.
pub(super) const BOTH: &[Figure] =
    &[POLICY, DEATHS, PEAK, COST, CACHED, WRITTEN, OUTPUT, SUMMARIES, RECALLS, RECALL, IN_WINDOW];
/// All there are.
pub(super) const ALL: &[Figure] = &[
    POLICY,
    DEATHS,
    PEAK,
    COST,
    CACHED,
    WRITTEN,
    OUTPUT,
    SUMMARIES,
    RECALLS,
    RECALL,
    IN_WINDOW,
    BROUGHT_BACK,
    SENT,
    PER_CALL,
];

fn share(report: &Report, share: f64) -> String {
    if report.recall.calls == 0 { "–".to_owned() } else { percent(share) }
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
