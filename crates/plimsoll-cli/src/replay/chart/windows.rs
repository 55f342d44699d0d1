//! Window size over the calls of a session, one line per policy; below it, reductions.

use std::fmt::Write as _;

use plimsoll_replay::{Report, Sent};

use super::labels::{self, LEADING};
use super::{KINDS, ReportGroup, Size, line, mark, open, step, symbol, text, text_width, ticks};
use crate::replay::figures;
use crate::replay::page::escape;

/// Name of the line of recorded sizes.
const RECORDED: &str = "recorded";
/// A line that ends farther than this from the right edge is not connected to its name.
const EARLY: f64 = 60.0;
/// Length of the dash that marks a single call.
const LONE: f64 = 8.0;
/// Width of a colour sample before a name.
const SWATCH: f64 = 30.0;

/// Layout of a chart.
struct Frame {
    size: Size,
    left: f64,
    /// Right end of the lines; their names follow.
    right: f64,
    top: f64,
    plot: f64,
    calls: f64,
    /// Number of tokens at the top.
    max_tokens: f64,
}

impl Frame {
    fn x(&self, call: f64) -> f64 {
        self.left + (self.right - self.left) * (call - 0.5) / self.calls
    }

    fn y(&self, tokens: f64) -> f64 {
        self.top + self.plot * (1.0 - tokens / self.max_tokens)
    }

    fn bottom(&self) -> f64 {
        self.top + self.plot
    }
}

/// Draws request sizes over the calls: one line per policy, equal ones as one, and the recorded sizes.
pub(in crate::replay) fn windows(
    reports: &[Report],
    recorded: &[Option<u64>],
    context: u64,
    size: Size,
) -> String {
    let calls = reports.iter().map(|report| report.windows.len()).max().unwrap_or(0).max(1);
    let peak = reports.iter().map(|report| report.peak).max().unwrap_or(0);
    let peak = peak.max(recorded.iter().flatten().copied().max().unwrap_or(0)).max(1) as f64;
    let limit = context as f64;
    let lines = lines(reports);
    let names: f64 =
        reports.iter().map(|report| text_width(&report.policy)).fold(text_width(RECORDED), f64::max);
    let right = match size {
        Size::Wide => size.width() - (SWATCH + names.min(220.0) + 14.0),
        Size::Narrow => size.width() - 8.0,
    };
    // A limit far above every request would flatten the lines.
    let max_tokens = if limit < peak * 1.7 { limit.max(peak) * 1.09 } else { peak * 1.1 };
    let frame = Frame { size, left: 50.0, right, top: 10.0, plot: 280.0, calls: calls as f64, max_tokens };
    let mut body = axes(&frame, context);
    // Our own policy is drawn last, on top.
    let mut order: Vec<&ReportGroup> = lines.iter().collect();
    order.sort_by_key(|group| group.has_ours());
    for group in order {
        let (colour, dashes) = line(group.style);
        let windows = group.reports[0].windows.iter().map(|sent| sent.fits.then_some(sent.tokens));
        let path = path(&windows.collect::<Vec<_>>(), &frame);
        let name = escape(&group.names().join(" = "));
        let _ = write!(
            body,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.2\" stroke-linejoin=\"round\" \
             stroke-dasharray=\"{dashes}\"><title>{name}</title></path>"
        );
    }
    if recorded.iter().any(Option::is_some) {
        let path = path(recorded, &frame);
        let _ = write!(body, "<path class=\"recorded\" d=\"{path}\"><title>{RECORDED}</title></path>");
    }
    if size == Size::Wide {
        body += &end_names(&lines, recorded, &frame);
    }
    let (events, height) = lanes(reports, &frame);
    let title = "Window size at each model call, by policy";
    open(size.width(), height, title) + &body + &events + "</svg>"
}

/// Legend of lines and reductions, for screens without room for names in the chart.
pub(in crate::replay) fn legend(reports: &[Report], recorded: &[Option<u64>]) -> String {
    let mut policies: String = lines(reports)
        .iter()
        .map(|group| {
            let (colour, dashes) = line(group.style);
            format!("<li>{} {}</li>", swatch(colour, dashes), escape(&group.names().join(" = ")))
        })
        .collect();
    if recorded.iter().any(Option::is_some) {
        policies += &format!("<li>{} {RECORDED}</li>", swatch("currentColor", ""));
    }
    let fired =
        KINDS.iter().filter(|(kind, _)| reports.iter().any(|report| report.fired.contains_key(*kind)));
    let mut kinds: String = fired.map(|(kind, _)| format!("<li>{} {kind}</li>", symbol(kind))).collect();
    if reports.iter().any(|report| report.deaths > 0) {
        kinds += &format!("<li>{} did not fit</li>", symbol("dead"));
    }
    let kinds = if kinds.is_empty() { kinds } else { format!("<ul class=\"legend kinds\">{kinds}</ul>\n") };
    format!("<ul class=\"legend narrow\">{policies}</ul>\n{kinds}")
}

fn swatch(colour: &str, dashes: &str) -> String {
    format!(
        "<svg class=\"swatch\" width=\"26\" height=\"12\" aria-hidden=\"true\"><path d=\"M1,6H25\" stroke=\"{colour}\" \
         stroke-width=\"2.5\" stroke-dasharray=\"{dashes}\"/></svg>"
    )
}

/// Groups policies whose windows are equal at every call.
fn lines(reports: &[Report]) -> Vec<ReportGroup<'_>> {
    ReportGroup::group(reports, |one, other| one.windows == other.windows)
}

fn axes(frame: &Frame, context: u64) -> String {
    let mut svg = String::new();
    let Frame { size, left, right, max_tokens, calls, .. } = *frame;
    for tick in ticks(0.0, max_tokens, step(max_tokens, 5.0)) {
        let at = frame.y(tick);
        let _ = write!(svg, "<path class=\"axis\" d=\"M{left},{at:.1}H{right:.1}\"/>");
        text(&mut svg, (left - 6.0, at + 4.0), "end", &figures::short(tick as u64));
    }
    let by = step(calls, if size == Size::Wide { 10.0 } else { 4.0 }).max(1.0).round();
    for tick in ticks(1.0, calls, by) {
        text(&mut svg, (frame.x(tick), frame.bottom() + 16.0), "middle", &figures::count(tick as u64));
    }
    text(&mut svg, (left, frame.bottom() + 16.0), "end", "call");
    let limit = context as f64;
    if limit <= max_tokens {
        let at = frame.y(limit);
        let _ = write!(svg, "<path class=\"limit\" d=\"M{left},{at:.1}H{right:.1}\"/>");
        // At the left, where windows are small.
        let _ = write!(
            svg,
            "<text class=\"limit-name\" x=\"{:.1}\" y=\"{:.1}\">window: {}</text>",
            left + 4.0,
            at - 5.0,
            figures::count(context)
        );
    }
    svg
}

/// Names at the ends of the lines.
fn end_names(lines: &[ReportGroup], recorded: &[Option<u64>], frame: &Frame) -> String {
    struct End {
        at: (f64, f64),
        colour: &'static str,
        dashes: &'static str,
        names: Vec<String>,
    }
    let end_of = |sizes: &[Option<u64>]| {
        let last = sizes.iter().rposition(Option::is_some)?;
        Some((frame.x(last as f64 + 1.0), frame.y(sizes[last]? as f64)))
    };
    let mut ends: Vec<End> = Vec::new();
    for group in lines {
        let sizes: Vec<Option<u64>> =
            group.reports[0].windows.iter().map(|sent| sent.fits.then_some(sent.tokens)).collect();
        let (colour, dashes) = line(group.style);
        ends.extend(end_of(&sizes).map(|at| End { at, colour, dashes, names: group.names() }));
    }
    let of_record = |at| End { at, colour: "currentColor", dashes: "", names: vec![RECORDED.to_owned()] };
    ends.extend(end_of(recorded).map(of_record));
    ends.sort_by(|a, b| a.at.1.total_cmp(&b.at.1));
    let blocks: Vec<(f64, f64)> =
        ends.iter().map(|end| (end.at.1, end.names.len() as f64 * LEADING + 3.0)).collect();
    let tops = labels::column(&blocks, frame.top - 6.0, frame.bottom() + 12.0);
    let mut svg = String::new();
    for ((end, top), (_, height)) in ends.iter().zip(tops).zip(&blocks) {
        let End { at: (x, y), colour, dashes, names } = end;
        let (swatch, middle) = (frame.right + 14.0, top + height / 2.0);
        // The connection of a line that ends early would cross the others.
        if frame.right - x < EARLY {
            let (from, to) = (x + 2.0, swatch - 2.0);
            let _ = write!(
                svg,
                "<path class=\"leader\" d=\"M{from:.1},{y:.1}L{to:.1},{middle:.1}\" stroke=\"{colour}\"/>"
            );
        }
        let _ = write!(
            svg,
            "<path d=\"M{swatch:.1},{middle:.1}h18\" stroke=\"{colour}\" stroke-width=\"2.5\" stroke-dasharray=\"{dashes}\"/>"
        );
        for (number, name) in names.iter().enumerate() {
            let equal = if number > 0 { "= " } else { "" };
            let _ = write!(
                svg,
                "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{equal}{}</text>",
                swatch + 22.0,
                top + LEADING * (number as f64 + 0.8) + 1.5,
                escape(name)
            );
        }
    }
    svg
}

/// Reductions and calls that did not fit: one row per group of policies with the same ones.
fn lanes(reports: &[Report], frame: &Frame) -> (String, f64) {
    let is_same = |one: &Report, other: &Report| {
        let events = |report: &Report| -> Vec<(u64, String)> {
            report.reductions.iter().map(|fired| (fired.call, fired.reduction.kind.clone())).collect()
        };
        runs(&one.windows) == runs(&other.windows) && events(one) == events(other)
    };
    let mut svg = String::new();
    let is_quiet = |report: &Report| report.reductions.is_empty() && runs(&report.windows).is_empty();
    if reports.iter().all(is_quiet) {
        return (svg, frame.bottom() + 24.0);
    }
    let mut top = frame.bottom() + 34.0;
    for group in ReportGroup::group(reports, is_same) {
        let names = group.names();
        // A row that several policies share has no policy's colour.
        let colour = if names.len() > 1 { "currentColor" } else { line(group.style).0 };
        let (names, x, first, height, middle) = match frame.size {
            Size::Wide => {
                let height = names.len() as f64 * LEADING + 3.0;
                (names, frame.right + 14.0, top, height, top + height / 2.0)
            }
            Size::Narrow => {
                let names = fill(&names, frame.right - frame.left);
                let names_height = names.len() as f64 * LEADING;
                (names, frame.left, top, names_height + 20.0, top + names_height + 8.0)
            }
        };
        for (number, name) in names.iter().enumerate() {
            let at = first + LEADING * (number as f64 + 0.8) + 1.5;
            let _ = write!(svg, "<text class=\"name\" x=\"{x:.1}\" y=\"{at:.1}\">{}</text>", escape(name));
        }
        let _ = write!(svg, "<path class=\"axis\" d=\"M{},{middle:.1}H{:.1}\"/>", frame.left, frame.right);
        svg += &lane(&group, colour, middle, frame);
        top += height;
    }
    (svg, top + 6.0)
}

/// Joins names into as few lines of this width as possible.
fn fill(names: &[String], width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(name) + text_width(", ") <= width => {
                line.push_str(", ");
                line.push_str(name);
            }
            Some(line) => {
                line.push(',');
                lines.push(name.clone());
            }
            None => lines.push(name.clone()),
        }
    }
    lines
}

/// Row of reductions.
fn lane(group: &ReportGroup, colour: &str, y: f64, frame: &Frame) -> String {
    let (report, names) = (group.reports[0], group.names().join(", "));
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
            frame.x(from as f64 - 0.5),
            frame.x(to as f64 + 0.5),
            escape(&names)
        );
    }
    let mut last = (f64::MIN, "");
    for fired in &report.reductions {
        let (kind, mut at) = (fired.reduction.kind.as_str(), frame.x(fired.call as f64));
        // Overlapping marks of one kind are drawn once; a mark of another kind moves aside.
        if at - last.0 < 3.0 {
            if kind == last.1 {
                continue;
            }
            at = last.0 + 9.0;
        }
        last = (at, kind);
        let (before, after) = (figures::count(fired.reduction.before), figures::count(fired.reduction.after));
        let title = format!("{names}, call {}: {kind}, {before} → {after} tokens", fired.call);
        svg += &mark(kind, colour, at, y, &title);
    }
    svg
}

/// Ranges of calls that did not fit, counted from 1.
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

/// SVG path of a line with gaps for missing sizes. Of several calls in one pixel, the largest counts.
fn path(sizes: &[Option<u64>], frame: &Frame) -> String {
    let pixels = ((frame.right - frame.left) as usize).max(1);
    let per = sizes.len().div_ceil(pixels).max(1);
    let mut path = String::new();
    let mut broken = true;
    let mut chunks = sizes.chunks(per).enumerate().peekable();
    while let Some((at, chunk)) = chunks.next() {
        let Some(tokens) = chunk.iter().flatten().max() else {
            broken = true;
            continue;
        };
        let call = (at * per + 1) as f64 + (chunk.len() - 1) as f64 / 2.0;
        let (x, y) = (frame.x(call), frame.y(*tokens as f64));
        let continues = chunks.peek().is_some_and(|(_, next)| next.iter().any(Option::is_some));
        let _ = match (broken, continues) {
            (false, _) => write!(path, "L{x:.1},{y:.1}"),
            (true, true) => write!(path, "M{x:.1},{y:.1}"),
            // A single point has no length and would be invisible.
            (true, false) => write!(path, "M{:.1},{y:.1}h{LONE:.1}", x - LONE / 2.0),
        };
        broken = false;
    }
    path
}

#[cfg(test)]
mod tests {
    use plimsoll_replay::{Report, Sent};

    use super::{Size, fill, runs, windows};

    fn sent(tokens: u64, fits: bool) -> Sent {
        let mut sent = Sent::default();
        (sent.tokens, sent.fits) = (tokens, fits);
        sent
    }

    #[test]
    fn calls_that_did_not_fit_are_grouped_into_ranges() {
        let windows = [true, false, false, true, false].map(|fits| sent(1, fits));
        assert_eq!(runs(&windows), [(2, 3), (5, 5)]);
    }

    #[test]
    fn a_session_of_one_call_is_visible_and_rows_without_events_are_left_out() {
        let report = |fits: &[bool]| {
            let mut report = Report::default();
            (report.policy, report.peak) = ("none".to_owned(), 100);
            report.windows = fits.iter().map(|fits| sent(100, *fits)).collect();
            report
        };
        let one = windows(&[report(&[true])], &[Some(90)], 200, Size::Narrow);
        assert_eq!(one.matches("h8.0\"").count(), 2, "the policy's and what was recorded: {one}");
        assert!(!one.contains(">none</text>"), "no reductions: {one}");
        let dead = windows(&[report(&[true, true, false])], &[], 200, Size::Narrow);
        assert!(!dead.contains("h8.0\"") && dead.contains(">none</text>"), "{dead}");
    }

    #[test]
    fn names_fill_lines() {
        let names = ["one", "two", "three"].map(str::to_owned);
        assert_eq!(fill(&names, 70.0), ["one, two,", "three"]);
    }

    #[test]
    fn equal_lines_are_drawn_once_with_all_names_and_recorded_sizes_are_a_line() {
        let report = |policy: &str, sizes: [u64; 2]| {
            let mut report = Report::default();
            (report.policy, report.calls, report.peak) = (policy.to_owned(), 2, sizes[1]);
            report.windows = sizes.map(|tokens| sent(tokens, true)).to_vec();
            report
        };
        let reports = [report("none", [100, 200]), report("codex", [100, 200]), report("mask-3", [100, 150])];
        let wide = windows(&reports, &[Some(110), Some(190)], 200, Size::Wide);
        assert_eq!(wide.matches("stroke-width=\"2.2\"").count(), 2, "two lines for three policies: {wide}");
        assert!(wide.contains("<title>none = codex</title>") && wide.contains(">= codex</text>"), "{wide}");
        assert!(wide.contains("class=\"recorded\"") && wide.contains(">recorded</text>"), "{wide}");
        let none = windows(&reports, &[None, None], 200, Size::Narrow);
        assert!(!none.contains("recorded"), "{none}");
    }
}
