//! Cost against what was in the window: one mark per policy, or per group of policies with equal figures.

use std::fmt::Write as _;

use plimsoll_replay::Report;

use super::labels::{self, Area, Label};
use super::{ReportGroup, Size, decimals, line, open, step, text, ticks};
use crate::replay::figures;
use crate::replay::finding::share;
use crate::replay::page::escape;

/// Whether there is something to compare.
pub(in crate::replay) enum Finding {
    /// Policies differ.
    Differ,
    /// All have the same cost and the same share in the window.
    Same,
    /// No call needed anything that only tool outputs mention.
    NothingNeeded,
}

impl Finding {
    pub(in crate::replay) fn of(reports: &[Report]) -> Finding {
        let Some(first) = reports.first() else { return Finding::Same };
        let is_same = |report: &Report| {
            report.deaths == first.deaths
                && (report.cost - first.cost).abs() <= first.cost * 1e-6
                && (share(report) - share(first)).abs() < 1e-6
        };
        match () {
            () if reports.iter().all(|report| figures::only(report).calls == 0) => Finding::NothingNeeded,
            () if reports.iter().all(is_same) => Finding::Same,
            () => Finding::Differ,
        }
    }
}

/// Draws the cost of a call against the share in the window. The axes begin where the data does: next to an axis that begins
/// at zero, policies that differ by a tenth would overlap.
pub(in crate::replay) fn scatter(reports: &[Report], size: Size) -> String {
    let (width, left, right, top) = (size.width(), 52.0, 10.0, 26.0);
    let plot = if size == Size::Wide { 320.0 } else { 380.0 };
    let height = top + plot + 44.0;
    let costs = Range::of(reports.iter().map(Report::cost_per_call), 0.12, 0.03, f64::MAX);
    let shares = Range::of(reports.iter().map(share), 0.12, 0.05, 1.0);
    // Padding for whole marks on the edges, and for names above the best.
    let x = |cost: f64| left + 12.0 + (width - left - right - 24.0) * costs.part(cost);
    let y = |share: f64| top + 36.0 + (plot - 46.0) * (1.0 - shares.part(share));
    let mut svg =
        open(width, height, "What a call costs against what is in the window when needed, for each policy");
    let by = step((shares.to - shares.from) * 100.0, 5.0);
    for percent in ticks(shares.from * 100.0, shares.to * 100.0, by) {
        let at = y(percent / 100.0);
        let _ = write!(svg, "<path class=\"axis\" d=\"M{left},{at:.1}H{}\"/>", width - right);
        text(&mut svg, (left - 6.0, at + 4.0), "end", &format!("{percent:.*} %", decimals(by)));
    }
    let by = step(costs.to - costs.from, if size == Size::Wide { 8.0 } else { 5.0 });
    let places = match decimals(by) {
        0 => 0,
        more => more.max(2),
    };
    for cost in ticks(costs.from, costs.to, by) {
        let at = x(cost);
        let _ = write!(svg, "<path class=\"axis\" d=\"M{at:.1},{top}V{:.1}\"/>", top + plot);
        text(&mut svg, (at, top + plot + 18.0), "middle", &plimsoll_host::dollars(cost, places));
    }
    text(&mut svg, (left - 6.0, 14.0), "start", "in the window");
    let middle = (left + width - right) / 2.0;
    text(&mut svg, (middle, top + plot + 38.0), "middle", "average cost of a call that was made");
    let near = |a: &Report, b: &Report| {
        let apart = (x(a.cost_per_call()) - x(b.cost_per_call())).hypot(y(share(a)) - y(share(b)));
        apart < 1.5 && (a.deaths > 0) == (b.deaths > 0)
    };
    let mut names: Vec<(bool, Label)> = Vec::new();
    for group in ReportGroup::group(reports, near) {
        let report = group.reports[0];
        let (at, colour) = ((x(report.cost_per_call()), y(share(report))), line(group.style).0);
        svg += &mark(&group, at, colour);
        let lines = group.reports.iter().map(|report| match report.deaths {
            // A phone has no room for it; the cross shows it.
            _ if size == Size::Narrow => report.policy.clone(),
            0 => report.policy.clone(),
            1 => format!("{} (1 death)", report.policy),
            deaths => format!("{} ({} deaths)", report.policy, figures::count(deaths)),
        });
        let label = Label { x: at.0, y: at.1, colour, lines: lines.collect() };
        names.push((group.has_ours(), label));
    }
    // Our own policy is placed first, so that its name is nearest to its mark; the others from the top.
    names.sort_by(|(ours, a), (other, b)| other.cmp(ours).then(a.y.total_cmp(&b.y)));
    let names: Vec<Label> = names.into_iter().map(|(_, label)| label).collect();
    let within = Area { left: left + 2.0, top: top - 8.0, right: width - 2.0, bottom: top + plot };
    svg += &labels::draw(&names, within);
    svg + "</svg>"
}

/// A disc, or a cross if calls did not fit.
fn mark(group: &ReportGroup, (x, y): (f64, f64), colour: &str) -> String {
    let titles = group.reports.iter().map(|report| {
        format!(
            "{}: {} a call, {} in the window, {} deaths",
            report.policy,
            figures::dollars(report.cost_per_call()),
            figures::percent(share(report)),
            report.deaths
        )
    });
    let title = escape(&titles.collect::<Vec<_>>().join("\n"));
    if group.reports[0].deaths > 0 {
        format!(
            "<path transform=\"translate({x:.1} {y:.1})\" d=\"M-5,-5L5,5M-5,5L5,-5\" stroke=\"{colour}\" \
             stroke-width=\"3\"><title>{title}</title></path>"
        )
    } else {
        format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"{colour}\"><title>{title}</title></circle>"
        )
    }
}

/// Range of an axis.
struct Range {
    from: f64,
    to: f64,
}

impl Range {
    /// Range of values with padding: a share of the range, and at least a share of the largest value.
    fn of(values: impl Iterator<Item = f64>, room: f64, least: f64, most: f64) -> Range {
        let (from, to) =
            values.fold((f64::MAX, 0.0f64), |(from, to), value| (from.min(value), to.max(value)));
        let from = from.min(to);
        let pad = ((to - from) * room).max(to * least).max(1e-9);
        Range { from: (from - pad).max(0.0), to: (to + pad).min(most) }
    }

    fn part(&self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from).max(1e-12)
    }
}
