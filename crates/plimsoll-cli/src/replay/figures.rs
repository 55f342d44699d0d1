//! Formatting of a replay's figures.

use plimsoll::Tokens;
use plimsoll_replay::{AgainstNone, CostParts, Medians, Report, Share};

/// A figure of a policy.
pub(super) struct Figure {
    /// Heading of its column.
    pub(super) heading: &'static str,
    /// Formats the cell of a row.
    pub(super) cell: fn(&Report) -> String,
}

const fn figure(heading: &'static str, cell: fn(&Report) -> String) -> Figure {
    Figure { heading, cell }
}

const POLICY: Figure = figure("policy", |report| report.policy.clone());
const IN_WINDOW: Figure = figure("window", |report| share(&only(report), only(report).in_window_share));
const ALL_IN_WINDOW: Figure =
    figure("all", |report| share(&report.references.all, report.references.all.in_window_share));
const STRICT: Figure = figure("strict", |report| share(&only(report), only(report).strict_share));
const BY_RECALL: Figure = figure("recall", |report| share(&only(report), only(report).recalled_share));
const MEDIAN: Figure = figure("median", |report| median(report, |medians| medians.only_in_outputs));
const DEATHS: Figure = figure("deaths", |report| count(report.deaths));
const PEAK: Figure = figure("peak", |report| percent(report.peak_share));
const COST: Figure = figure("cost", |report| amounts(report)[0].clone());
const CACHED: Figure = figure("cached", |report| amounts(report)[1].clone());
const WRITTEN: Figure = figure("written", |report| amounts(report)[2].clone());
const OUTPUT: Figure = figure("output", |report| amounts(report)[3].clone());
const SUMMARIES: Figure = figure("summaries", |report| amounts(report)[4].clone());
const RECALLS: Figure = figure("recalls", |report| amounts(report)[5].clone());
const SENT: Figure = figure("tokens sent", |report| count(report.tokens_sent));
const PER_CALL: Figure = figure("a call", |report| dollars(report.cost_per_call()));
const DEARER: Figure = figure("at end", |report| against(report, |against| count(against.dearer_at_end)));
const END_EXCESS: Figure = figure("by up to", |report| {
    against(report, |against| excess(against.end_excess, against.end_excess_share))
});
const EVER_DEARER: Figure =
    figure("ever", |report| against(report, |against| count(against.dearer_at_any_moment)));
const WORST_EXCESS: Figure = figure("by up to", |report| {
    against(report, |against| excess(against.worst_excess, against.worst_excess_share))
});
const BEYOND_RECALL: Figure =
    figure("> recall", |report| against(report, |against| count(against.dearer_by_more_than_a_recall)));

/// Outcome: first what was in the window, then the cost, and last what a recall could have brought back.
pub(super) const OUTCOME: &[Figure] =
    &[POLICY, IN_WINDOW, ALL_IN_WINDOW, STRICT, DEATHS, PEAK, COST, BY_RECALL];
/// Outcome of several sessions together.
pub(super) const OUTCOME_OF_SEVERAL: &[Figure] =
    &[POLICY, IN_WINDOW, MEDIAN, ALL_IN_WINDOW, STRICT, DEATHS, COST, BY_RECALL];
/// Number of sessions in which a policy cost more than none, and by how much.
pub(super) const AGAINST: &[Figure] = &[POLICY, DEARER, END_EXCESS, EVER_DEARER, WORST_EXCESS, BEYOND_RECALL];
/// Parts of the cost.
pub(super) const PARTS: &[Figure] = &[POLICY, COST, CACHED, WRITTEN, OUTPUT, SUMMARIES, RECALLS];
/// Outcome and parts of the cost.
pub(super) const BOTH: &[Figure] = ALL.split_at(13).0;
/// All figures.
pub(super) const ALL: &[Figure] = &[
    POLICY,
    IN_WINDOW,
    ALL_IN_WINDOW,
    STRICT,
    DEATHS,
    PEAK,
    COST,
    CACHED,
    WRITTEN,
    OUTPUT,
    SUMMARIES,
    RECALLS,
    BY_RECALL,
    SENT,
    PER_CALL,
];

/// References to names that only tool outputs had mentioned.
pub(super) fn only(report: &Report) -> Share {
    report.references.only_in_outputs
}

fn share(of: &Share, share: f64) -> String {
    if of.calls == 0 { "–".to_owned() } else { percent(share) }
}

fn median(report: &Report, of: fn(&Medians) -> Option<f64>) -> String {
    report.medians.as_ref().and_then(of).map_or_else(|| "–".to_owned(), percent)
}

fn against(report: &Report, cell: fn(&AgainstNone) -> String) -> String {
    report.against_none.as_ref().map_or_else(|| "–".to_owned(), cell)
}

fn excess(amount: f64, share: f64) -> String {
    if amount > 0.0 { format!("{}, {}", dollars(amount), percent(share)) } else { "–".to_owned() }
}

/// Formats the cost and its parts with the decimals of the cost, so that the parts add up to it.
fn amounts(report: &Report) -> [String; 6] {
    let CostParts { cached, written, output, summaries, recalls, .. } = report.parts;
    let decimals = decimals_of(report.cost);
    let units = 10f64.powi(decimals as i32);
    let whole = (report.cost * units).round();
    let parts = [cached, written, output, summaries, recalls].map(|part| part * units);
    let mut rounded = parts.map(f64::floor);
    // The rest after flooring goes to the parts that lost most by it.
    let mut order = [0, 1, 2, 3, 4];
    order.sort_by(|a, b| (parts[*b] - rounded[*b]).total_cmp(&(parts[*a] - rounded[*a])));
    let left = (whole - rounded.iter().sum::<f64>()).clamp(0.0, 5.0) as usize;
    order.iter().take(left).for_each(|at| rounded[*at] += 1.0);
    let [a, b, c, d, e] = rounded;
    [whole, a, b, c, d, e].map(|amount| with_decimals(amount / units, decimals))
}

/// Formats how often each kind of reduction was applied.
pub(super) fn fired(report: &Report) -> String {
    let fired: Vec<String> =
        report.fired.iter().map(|(kind, times)| format!("{kind} {}", count(*times))).collect();
    if fired.is_empty() { "–".to_owned() } else { fired.join(", ") }
}

/// Formats a number with thousands separators.
pub(super) fn count(number: u64) -> String {
    Tokens(number).to_string()
}

/// Formats a number for an axis.
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

/// Formats a share of one as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats dollars with enough decimals to tell amounts apart.
pub(super) fn dollars(amount: f64) -> String {
    with_decimals(amount, decimals_of(amount))
}

fn decimals_of(amount: f64) -> usize {
    match amount {
        _ if amount >= 100.0 => 0,
        _ if amount >= 1.0 => 2,
        _ if amount >= 0.1 => 3,
        _ => 4,
    }
}

fn with_decimals(amount: f64, decimals: usize) -> String {
    if amount == 0.0 { "$0".to_owned() } else { plimsoll_host::dollars(amount, decimals) }
}

#[cfg(test)]
mod tests {
    use plimsoll_replay::{CostParts, Report};

    use super::{amounts, dollars, percent, short};

    #[test]
    fn the_parts_of_a_cost_add_up_to_it() {
        let report = |[cached, written, output, summaries, recalls]: [f64; 5]| {
            let mut parts = CostParts::default();
            (parts.cached, parts.written, parts.output) = (cached, written, output);
            (parts.summaries, parts.recalls) = (summaries, recalls);
            let mut report = Report::default();
            (report.cost, report.parts) = (parts.total(), parts);
            report
        };
        let uneven = report([0.2063, 1.1587, 0.0346, 0.0579, 0.0277]);
        assert_eq!(amounts(&uneven), ["$1.49", "$0.21", "$1.16", "$0.03", "$0.06", "$0.03"]);
        let even = report([33.4, 33.4, 33.4, 0.0, 0.0]);
        assert_eq!(amounts(&even), ["$100", "$34", "$33", "$33", "$0", "$0"]);
    }

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
