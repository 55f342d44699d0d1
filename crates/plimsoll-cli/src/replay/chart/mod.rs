//! Charts of a replay, as SVG.

use std::fmt::Write as _;

use plimsoll_replay::{Report, Sent};

use super::figures;
use super::page::escape;

/// For which screen a chart is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Wide,
    Narrow,
}

impl Size {
    fn width(self) -> f64 {
        match self {
            Size::Wide => 940.0,
            Size::Narrow => 360.0,
        }
    }
}

/// Colours that most eyes can tell apart, and dashes for the eyes and printers that cannot.
const LINES: [(&str, &str); 9] = [
    ("#8a8f98", "1 2"),
    ("#0072b2", ""),
    ("#e69f00", "8 3"),
    ("#009e73", "10 3 2 3"),
    ("#d55e00", "4 3"),
    ("#cc79a7", "2 2"),
    ("#56b4e9", "12 4"),
    ("#8c564b", "6 2 2 2"),
    ("#7a68c8", "3 2"),
];

/// What can fire, with the shape it is drawn in, around the origin.
pub(super) const KINDS: [(&str, &str); 6] = [
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

/// A policy's line, small.
pub(super) fn swatch(at: usize) -> String {
    let (colour, dashes) = line(at);
    format!(
        "<svg class=\"swatch\" width=\"26\" height=\"12\" aria-hidden=\"true\"><path d=\"M1,6H25\" stroke=\"{colour}\" \
         stroke-width=\"3\" stroke-dasharray=\"{dashes}\"/></svg>"
    )
}

/// A kind of reduction, small.
pub(super) fn symbol(kind: &str) -> String {
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

/// A step between ticks that people like, for about so many of them.
fn step(most: f64, ticks: f64) -> f64 {
    let rough = (most / ticks).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

/// The sizes of the requests over the calls, one line a policy; below, what fired, one lane a policy.
pub(super) fn windows(reports: &[Report], context: u64, size: Size) -> String {
    let (width, left, right, top, plot) = (size.width(), 52.0, 8.0, 10.0, 260.0);
    let lane = 15.0;
    let lanes = top + plot + 34.0;
    let height = lanes + lane * reports.len() as f64 + 6.0;
    let calls = reports.iter().map(|report| report.windows.len()).max().unwrap_or(0).max(1);
    let peak = reports.iter().map(|report| report.peak).max().unwrap_or(0).max(1) as f64;
    let limit = context as f64;
    let most = if limit < peak * 1.7 { limit.max(peak) * 1.06 } else { peak * 1.1 };
    let x = |call: f64| left + (width - left - right) * (call - 0.5) / calls as f64;
    let y = |tokens: f64| top + plot * (1.0 - tokens / most);
    let mut svg = open(width, height, "The size of the window over the calls of the model, for each policy");
    let by = step(most, 5.0);
    for tick in (0..).map(|n| n as f64 * by).take_while(|tick| *tick <= most) {
        let _ = write!(svg, "<path class=\"axis\" d=\"M{left},{0:.1}H{1}\"/>", y(tick), width - right);
        let label = figures::short(tick as u64);
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            left - 6.0,
            y(tick) + 4.0
        );
    }
    let by = step(calls as f64, if size == Size::Wide { 10.0 } else { 5.0 }).max(1.0).round();
    for tick in (1..).map(|n| n as f64 * by).take_while(|tick| *tick <= calls as f64) {
        let label = figures::count(tick as u64);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            x(tick),
            top + plot + 16.0
        );
    }
    if limit <= most {
        let _ = write!(svg, "<path class=\"limit\" d=\"M{left},{0:.1}H{1}\"/>", y(limit), width - right);
        let _ = write!(
            svg,
            "<text class=\"limit-name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">the window: {}</text>",
            width - right,
            y(limit) + 14.0,
            figures::count(context)
        );
    }
    // The one that matters most to us is drawn last, on top.
    let mut order: Vec<usize> = (0..reports.len()).collect();
    order.sort_by_key(|at| reports[*at].policy == "plimsoll");
    for at in order {
        let (colour, dashes) = line(at);
        let path = path(&reports[at].windows, (width - left) as usize, &x, &y);
        let name = escape(&reports[at].policy);
        let _ = write!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\" \
             stroke-dasharray=\"{dashes}\"><title>{name}</title></path>"
        );
    }
    for (at, report) in reports.iter().enumerate() {
        let middle = lanes + lane * (at as f64 + 0.5);
        let _ = write!(svg, "<path class=\"axis\" d=\"M{left},{middle:.1}H{}\"/>", width - right);
        svg += &lane_of(report, line(at).0, middle, &x);
        svg += &format!(
            "<path d=\"M{},{middle:.1}h14\" stroke=\"{}\" stroke-width=\"4\"/>",
            left - 20.0,
            line(at).0
        );
    }
    svg + "</svg>"
}

/// What fired under one policy, and where calls did not fit.
fn lane_of(report: &Report, colour: &str, y: f64, x: &dyn Fn(f64) -> f64) -> String {
    let mut svg = String::new();
    for (from, to) in runs(&report.windows) {
        let title = if from == to {
            format!("call {from} did not fit")
        } else {
            format!("calls {from} to {to} did not fit")
        };
        let _ = write!(
            svg,
            "<path class=\"dead\" d=\"M{:.1},{y:.1}H{:.1}\" stroke-width=\"4\"><title>{}: {title}</title></path>",
            x(from as f64 - 0.5),
            x(to as f64 + 0.5),
            escape(&report.policy)
        );
    }
    let mut last = (f64::MIN, "");
    for fired in &report.reductions {
        let (kind, mut at) = (fired.reduction.kind.as_str(), x(fired.call as f64));
        // Marks of one kind that would lie on each other say no more than one of them; others stand beside.
        if at - last.0 < 3.0 {
            if kind == last.1 {
                continue;
            }
            at = last.0 + 9.0;
        }
        last = (at, kind);
        let (before, after) = (figures::count(fired.reduction.before), figures::count(fired.reduction.after));
        let title = format!("{}, call {}: {kind}, {before} → {after} tokens", report.policy, fired.call);
        svg += &mark(kind, colour, at, y, &title);
    }
    svg
}

/// Runs of calls that did not fit, counted from 1.
fn runs(windows: &[Sent]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in windows.iter().enumerate().filter(|(_, sent)| !sent.fits) {
        match runs.last_mut() {
            Some((_, to)) if *to == at => *to = at + 1,
            _ => runs.push((at + 1, at + 1)),
        }
    }
    runs
}

/// The line of one policy, broken where calls did not fit. Of several calls in one pixel the largest counts.
fn path(windows: &[Sent], pixels: usize, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> String {
    let per = windows.len().div_ceil(pixels.max(1)).max(1);
    let mut path = String::new();
    let mut broken = true;
    for (at, chunk) in windows.chunks(per).enumerate() {
        let Some(tokens) = chunk.iter().filter(|sent| sent.fits).map(|sent| sent.tokens).max() else {
            broken = true;
            continue;
        };
        let call = (at * per + 1) as f64 + (chunk.len() - 1) as f64 / 2.0;
        let _ = write!(path, "{}{:.1},{:.1}", if broken { "M" } else { "L" }, x(call), y(tokens as f64));
        if broken {
            // A lone point is a dot.
            path += "h0.01";
        }
        broken = false;
    }
    path
}

/// What a call costs against what is still there when it is needed.
pub(super) fn scatter(reports: &[Report], size: Size) -> String {
    let (width, left, right, top, plot) = (size.width(), 52.0, 8.0, 12.0, 300.0);
    let height = top + plot + 44.0;
    let most = reports.iter().map(Report::cost_per_call).fold(0.0, f64::max).max(1e-9) * 1.25;
    let worst = reports.iter().map(|report| report.recall.share()).fold(1.0, f64::min);
    // Whole tenths, and some room below the lowest mark.
    let least = ((worst * 10.0 - 0.5).floor() / 10.0).clamp(0.0, 0.8);
    let x = |cost: f64| left + (width - left - right) * cost / most;
    let y = |share: f64| top + plot * (1.0 - share) / (1.0 - least);
    let mut svg = open(width, height, "What a call costs against what is still in sight, for each policy");
    let by = if least < 0.5 { 20 } else { 10 };
    for percent in (0..=100).step_by(by).filter(|percent| f64::from(*percent) / 100.0 >= least - 1e-9) {
        let at = y(f64::from(percent) / 100.0);
        let _ = write!(svg, "<path class=\"axis\" d=\"M{left},{at:.1}H{}\"/>", width - right);
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
            left - 6.0,
            at + 4.0
        );
    }
    let by = step(most, if size == Size::Wide { 8.0 } else { 4.0 });
    for tick in (0..).map(|n| n as f64 * by).take_while(|tick| x(*tick) <= width - right - 16.0) {
        let label = figures::dollars(tick);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            x(tick),
            top + plot + 18.0
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">cost of a call</text>",
        (left + width - right) / 2.0,
        top + plot + 38.0
    );
    let mut labels = Labels::default();
    for (at, report) in reports.iter().enumerate() {
        let (colour, _) = line(at);
        let (cost, recall) = (x(report.cost_per_call()), report.recall);
        let seen = y(recall.share());
        let title = escape(&format!(
            "{}: {} a call, recall {}, {} deaths",
            report.policy,
            figures::dollars(report.cost_per_call()),
            figures::percent(recall.share()),
            report.deaths
        ));
        if report.deaths > 0 {
            let _ = write!(
                svg,
                "<path transform=\"translate({cost:.1} {seen:.1})\" d=\"M-5,-5L5,5M-5,5L5,-5\" stroke=\"{colour}\" \
                 stroke-width=\"3\"><title>{title}</title></path>"
            );
        } else {
            let _ = write!(
                svg,
                "<circle cx=\"{cost:.1}\" cy=\"{seen:.1}\" r=\"6\" fill=\"{colour}\"><title>{title}</title></circle>"
            );
        }
        let deaths = if report.deaths > 0 {
            format!(" ({} deaths)", figures::count(report.deaths))
        } else {
            String::new()
        };
        labels.put(cost, seen, colour, format!("{}{deaths}", report.policy));
    }
    svg += &labels.draw(width - right, top + plot);
    svg + "</svg>"
}

/// Names beside their points, moved apart where they would lie on each other.
#[derive(Default)]
struct Labels(Vec<(f64, f64, &'static str, String)>);

impl Labels {
    fn put(&mut self, x: f64, y: f64, colour: &'static str, text: String) {
        self.0.push((x, y, colour, text));
    }

    fn draw(mut self, right: f64, bottom: f64) -> String {
        self.0.sort_by(|a, b| a.1.total_cmp(&b.1));
        // Marks are in the way as well.
        let mut taken: Vec<(f64, f64, f64)> =
            self.0.iter().map(|(x, y, ..)| (x - 7.0, x + 7.0, y + 4.0)).collect();
        let mut svg = String::new();
        for (x, y, colour, text) in self.0 {
            let width = (text.chars().count() + 2) as f64 * 6.6;
            let start = if x + 12.0 + width > right { x - 12.0 - width } else { x + 12.0 };
            let start = start.max(0.0);
            let mut at = y + 4.0;
            while taken
                .iter()
                .any(|(from, to, line)| start < *to && start + width > *from && (at - line).abs() < 14.0)
            {
                at += 2.0;
            }
            taken.push((start, start + width, at));
            let at = at.min(bottom - 3.0);
            // A name that was moved is known by its colour.
            let dot = if (at - y - 4.0).abs() > 1.0 {
                format!("<tspan style=\"fill:{colour}\">● </tspan>")
            } else {
                String::new()
            };
            let text = escape(&text);
            let _ = write!(svg, "<text class=\"name\" x=\"{start:.1}\" y=\"{at:.1}\">{dot}{text}</text>");
        }
        svg
    }
}

fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\"><title>{}</title>",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_replay::Sent;

    use super::{runs, step};

    #[test]
    fn ticks_are_at_numbers_people_like() {
        for (most, expected) in
            [(207_000.0, 50_000.0), (1_000.0, 200.0), (0.013, 0.005), (7.0, 2.0), (61.0, 20.0)]
        {
            assert!((step(most, 5.0) / expected - 1.0).abs() < 1e-9, "{most}: {}", step(most, 5.0));
        }
    }

    #[test]
    fn calls_that_did_not_fit_are_told_in_runs() {
        let windows: Vec<Sent> =
            [true, false, false, true, false].map(|fits| Sent { tokens: 1, fits }).to_vec();
        assert_eq!(runs(&windows), [(2, 3), (5, 5)]);
    }
}
