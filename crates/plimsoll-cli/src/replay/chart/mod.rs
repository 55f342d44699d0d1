//! Charts of a replay as SVG. Each is drawn twice, for screens and for phones: text in an SVG scales with it, so one drawing
//! would not be readable on both.

mod labels;
mod scatter;
mod windows;

use std::fmt::Write as _;

use plimsoll_replay::Report;

use super::page::escape;
pub(super) use scatter::{Finding, scatter};
pub(super) use windows::{legend, windows};

/// Screen that a chart is drawn for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Wide,
    Narrow,
}

impl Size {
    fn width(self) -> f64 {
        match self {
            Size::Wide => 968.0,
            Size::Narrow => 360.0,
        }
    }
}

/// Colours that are easy to distinguish on white and black, and dashes for colour-blind readers and printers.
const LINES: [(&str, &str); 12] = [
    ("#8a8f98", "1 2"),
    ("#0072b2", ""),
    ("#e69f00", "8 3"),
    ("#009e73", "10 3 2 3"),
    ("#d55e00", "4 3"),
    ("#cc79a7", "2 2"),
    ("#56b4e9", "12 4"),
    ("#a0624f", "6 2 2 2"),
    ("#7a68c8", "3 2"),
    ("#9a9a00", "9 2 3 2"),
    ("#c2185b", "5 5"),
    ("#4f8a10", "1 3 6 3"),
];

/// Kinds of reductions and their shapes around the origin.
const KINDS: [(&str, &str); 6] = [
    ("truncate", "M-1,-4V4M1,-4V4"),
    ("prune", "M-4,-3.5H4L0,4Z"),
    ("compact", "M0,-5L5,0L0,5L-5,0Z"),
    ("shed", "M-4,-4H4V4H-4Z"),
    ("clear", "M0,-4V4"),
    ("mask", "M0,-4V4"),
];

fn line(at: usize) -> (&'static str, &'static str) {
    LINES[at % LINES.len()]
}

/// Policies with equal results, drawn as one line or mark.
struct ReportGroup<'a> {
    /// Index of the policy whose colour it has.
    style: usize,
    reports: Vec<&'a Report>,
}

impl<'a> ReportGroup<'a> {
    /// Groups equal reports, in the order of the first of each group.
    fn group(reports: &'a [Report], same: impl Fn(&Report, &Report) -> bool) -> Vec<ReportGroup<'a>> {
        let mut groups: Vec<ReportGroup<'a>> = Vec::new();
        for (at, report) in reports.iter().enumerate() {
            match groups.iter_mut().find(|group| same(group.reports[0], report)) {
                Some(group) => {
                    group.reports.push(report);
                    // Our own policy keeps its colour.
                    if is_ours(report) {
                        group.style = at;
                    }
                }
                None => groups.push(ReportGroup { style: at, reports: vec![report] }),
            }
        }
        groups
    }

    fn names(&self) -> Vec<String> {
        self.reports.iter().map(|report| report.policy.clone()).collect()
    }

    fn has_ours(&self) -> bool {
        self.reports.iter().any(|report| is_ours(report))
    }
}

fn is_ours(report: &Report) -> bool {
    report.policy == "plimsoll"
}

/// Small symbol of a kind of reduction, for the legend.
fn symbol(kind: &str) -> String {
    let shape = if kind == "dead" {
        "<path class=\"dead\" d=\"M-6,0H6\" stroke-width=\"4\"/>".to_owned()
    } else {
        mark(kind, "currentColor", 0.0, 0.0, "")
    };
    format!(
        "<svg class=\"symbol\" width=\"14\" height=\"14\" viewBox=\"-7 -7 14 14\" aria-hidden=\"true\">{shape}</svg>"
    )
}

fn mark(kind: &str, colour: &str, x: f64, y: f64, title: &str) -> String {
    let shape = KINDS.iter().find(|(name, _)| *name == kind).map_or("M0,-4V4", |(_, shape)| *shape);
    let paint = if shape.ends_with('Z') {
        format!("fill=\"{colour}\"")
    } else {
        format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"")
    };
    let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) };
    format!("<path transform=\"translate({x:.1} {y:.1})\" d=\"{shape}\" {paint}>{title}</path>")
}

/// Returns a round distance between ticks, for about this many of them.
fn step(most: f64, ticks: f64) -> f64 {
    let rough = (most / ticks).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

/// Multiples of a step within a range, including both ends.
fn ticks(from: f64, to: f64, by: f64) -> Vec<f64> {
    let first = (from / by - 1e-9).ceil();
    let last = (to / by + 1e-9).floor();
    let count = (last - first).clamp(-1.0, 100.0) as i32 + 1;
    (0..count).map(|n| (first + f64::from(n)) * by).collect()
}

/// Number of decimals that multiples of a step need.
fn decimals(step: f64) -> usize {
    let is_whole = |places: &usize| {
        let scaled = step * 10f64.powi(*places as i32);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
    };
    (0..8).find(is_whole).unwrap_or(8)
}

/// Estimated width of a text in the font of charts. Overestimating wastes space; underestimating overlaps.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.2
}

fn text(svg: &mut String, at: (f64, f64), anchor: &str, words: &str) {
    let (x, y) = at;
    let words = escape(words);
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height:.0}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\"><title>{}</title>",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_replay::{Report, Sent};

    use super::{ReportGroup, decimals, step, ticks};

    #[test]
    fn ticks_are_at_round_numbers() {
        for (most, expected) in
            [(207_000.0, 50_000.0), (1_000.0, 200.0), (0.013, 0.005), (7.0, 2.0), (61.0, 20.0)]
        {
            assert!((step(most, 5.0) / expected - 1.0).abs() < 1e-9, "{most}: {}", step(most, 5.0));
        }
        assert_eq!(ticks(0.9, 4.1, 1.0), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ticks(0.2, 0.9, 1.0), [0.0; 0]);
        assert_eq!([5.0, 0.5, 0.025, 0.0025].map(decimals), [0, 1, 3, 4]);
    }

    #[test]
    fn policies_with_equal_results_are_one_with_our_colour() {
        let report = |policy: &str, tokens| {
            let mut sent = Sent::default();
            (sent.tokens, sent.fits) = (tokens, true);
            let mut report = Report::default();
            (report.policy, report.windows) = (policy.to_owned(), vec![sent]);
            report
        };
        let reports =
            [report("none", 9), report("mask-3", 5), report("plimsoll", 9), report("claude-code", 9)];
        let groups = ReportGroup::group(&reports, |one, other| one.windows == other.windows);
        let names: Vec<(usize, Vec<String>)> =
            groups.iter().map(|group| (group.style, group.names())).collect();
        assert_eq!(names[0], (2, vec!["none".to_owned(), "plimsoll".to_owned(), "claude-code".to_owned()]));
        assert_eq!((names.len(), &names[1].1[0]), (2, &"mask-3".to_owned()));
    }
}
