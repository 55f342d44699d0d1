//! Rendering of an inspection at the width of the terminal.

use plimsoll::Tokens;
use plimsoll_host::{InspectedSession, WindowSource, dollars};
use plimsoll_session::{Item, MeasuredBy, Rebuilt, Repeated, Share, Turn};

use crate::output::{counted, percent, percents, printable};
use crate::wrap::wrapped;

/// Minimum relative difference between recorded and rebuilt request size that is reported.
const GAP: f64 = 1.0 / 3.0;
/// Title of the list of turns, whose rows are prompts.
const TURNS: &str = "By turn";
/// Minimum number of unused records that may explain a gap.
const MANY: u64 = 10;
/// Minimum width for longer lists.
const WIDE: usize = 120;

/// An inspection and how to show it.
pub(super) struct Page<'a> {
    pub(super) inspected: &'a InspectedSession,
    pub(super) width: usize,
    /// Whether the log is shown in addition to the window.
    pub(super) log: bool,
    /// Arguments that named the session, for suggested commands.
    pub(super) session: Option<String>,
}

impl Page<'_> {
    /// Renders the page.
    pub(super) fn render(&self) -> String {
        let report = &self.inspected.report;
        let mut out = self.heading();
        let all = report.window.max(report.visible);
        self.ranking(&mut out, "In the window", &report.kinds(), all);
        self.items(&mut out, &report.items, all);
        for (title, shares) in
            [("By tool", &report.by_tool), ("By file", &report.by_file), (TURNS, &report.by_turn)]
        {
            self.ranking(&mut out, title, shares, all);
        }
        self.advice(&mut out, &report.repeated);
        if let Some(log) = report.log.as_ref().filter(|_| self.log) {
            let all = report.tokens.unwrap_or_default();
            self.ranking(&mut out, "In the log", &log.by_kind, all);
            self.ranking(&mut out, "In the log, by tool", &log.by_tool, all);
            self.ranking(&mut out, "In the log, by file", &log.by_file, all);
            self.growth(&mut out, &report.growth);
        }
        out
    }

    fn heading(&self) -> String {
        let InspectedSession { recorded, report, .. } = self.inspected;
        // A replay is priced as the model with most responses, which need not be the last one.
        let source = self.inspected;
        let model = source.model.as_ref().map(|last| match &recorded.model {
            Some(most) if most != last => format!("{last}, mostly {most}"),
            _ => last.clone(),
        });
        let said = [Some(&source.format), model.as_ref(), source.session.as_ref(), source.title.as_ref()];
        let parts: Vec<String> = said.into_iter().flatten().map(|text| printable(text)).collect();
        let mut out = format!("{}\n", cut_end(&parts.join(" · "), self.width));
        let mut push = |line: String| out.push_str(&wrapped(&line, self.width));
        let context = self.inspected.context;
        push(report.fullness(self.inspected.context_source == WindowSource::LargestRequest));
        let known = self.inspected.context_source.words();
        push(match report.measured {
            MeasuredBy::Usage => {
                format!("measured by recorded usage; window of {context} ({known})")
            }
            _ => format!(
                "estimated at 4 characters per token, because no usage is recorded; window of {context} ({known})"
            ),
        });
        if recorded.responses > 0 {
            let mut line = format!("recorded: {}", counted(recorded.responses, "response"));
            line += &recorded.cost.map_or_else(String::new, |cost| format!(", {}", dollars(cost, 2)));
            match (recorded.unpriced, recorded.cost) {
                (0, _) => {}
                (_, None) => line += ", price of the model unknown",
                (unpriced, Some(_)) => line += &format!(" ({unpriced} of them at an unknown price)"),
            }
            push(line);
            let written = recorded.cache_write;
            push(format!(
                "  {} input, {} cache reads, {written} cache writes, {} output",
                recorded.input, recorded.cache_read, recorded.output
            ));
        }
        let compacted = match report.pivots {
            0 => String::new(),
            pivots => format!(", compacted {} before", times(pivots as u64)),
        };
        let log =
            format!("{}, {} tokens", counted(report.messages, "message"), report.tokens.unwrap_or_default());
        push(format!("log: {log}{compacted}"));
        let gap = report.rebuilt.filter(|rebuilt| rebuilt.gap.abs() > GAP);
        gap.into_iter().for_each(|rebuilt| push(self.gap_note(&rebuilt)));
        out
    }

    /// Explains a gap between the recorded and the rebuilt request.
    fn gap_note(&self, rebuilt: &Rebuilt) -> String {
        let Rebuilt { recorded, tokens, .. } = rebuilt;
        let compared = format!(
            "note: the last request was recorded with {recorded} tokens, but rebuilt from this file it has {tokens}."
        );
        let unused = &self.inspected.unused;
        let branches: u64 =
            unused.iter().filter(|(kind, _)| kind.contains("another")).map(|(_, count)| count).sum();
        let why = match (rebuilt.gap > 0.0, branches) {
            (true, 0..MANY) => {
                "The request contained something that the file does not: files attached again after a compaction, results of \
                 web searches, or missing messages."
                    .to_owned()
            }
            (true, count) => format!(
                "The request contained something that is not counted here: {count} records belong to other branches or \
                 sessions, and some may have been part of it."
            ),
            (false, _) => "The request contained less than the file: the agent may have cleared or summarised older messages \
                           without recording it."
                .to_owned(),
        };
        format!("{compared} {why}")
    }

    /// Maximum number of rows of a list.
    fn most(&self) -> usize {
        if self.width >= WIDE { 20 } else { 10 }
    }

    fn bar(&self) -> usize {
        (self.width / 8).clamp(8, 24)
    }

    fn ranking(&self, out: &mut String, title: &str, rows: &[Share], all: Tokens) {
        if rows.is_empty() {
            return;
        }
        out.push_str(&format!("\n{title}\n"));
        let bar = self.bar();
        let room = self.width.saturating_sub(bar + 29);
        let percents = percents(&rows.iter().map(|row| row.tokens).collect::<Vec<_>>(), all);
        for (Share { name, count, tokens, .. }, percent) in rows.iter().zip(percents).take(self.most()) {
            let tokens = tokens.to_string();
            let filled = "█".repeat((percent as usize * bar).div_ceil(100).min(bar));
            let name = match name.as_str() {
                "0" if title == TURNS => "before the first turn".to_owned(),
                turn if title == TURNS => cut_end(&printable(turn), room),
                other => cut_middle(other, room),
            };
            out.push_str(&format!("  {tokens:>9}  {percent:>3} %  {filled:<bar$} {count:>5} × {name}\n"));
        }
    }

    fn items(&self, out: &mut String, items: &[Item], all: Tokens) {
        if items.is_empty() {
            return;
        }
        out.push_str("\nLargest items\n");
        let shown = || items.iter().take(self.most());
        let kinds = shown().map(|item| printable(&item.kind).chars().count()).max().unwrap_or(0).min(18);
        let room = self.width.saturating_sub(kinds + 33);
        for item in shown() {
            let (tokens, percent) = (item.tokens.to_string(), percent(item.tokens, all));
            let kind = cut_end(&printable(&item.kind), kinds);
            let about = cut_end(&printable(&item.about), room);
            let line =
                format!("  {tokens:>9}  {percent:>3} %  turn {:<4}  {kind:<kinds$}  {about}", item.turn);
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }

    fn advice(&self, out: &mut String, repeated: &[Repeated]) {
        if repeated.is_empty() {
            return;
        }
        out.push_str("\nRead more than once\n");
        for Repeated { name, count, frees, .. } in repeated.iter().take(self.most()) {
            let after = format!("` was read {}; pruning frees {}", times(*count), thousands(*frees));
            let room = self.width.saturating_sub(3 + after.chars().count());
            out.push_str(&format!("  `{}{after}\n", cut_middle(name, room)));
        }
        // A prune by the policy selects by age, whether an output was read again or not, and `--keep` counts reads of any lines.
        let session = self.session.as_ref().map(|session| format!(" {session}")).unwrap_or_default();
        let advice = format!("  `plimsoll prune --repeated{session}` clears reads that a later read repeats");
        out.push_str(&wrapped(&advice, self.width));
    }

    fn growth(&self, out: &mut String, growth: &[Turn]) {
        if growth.is_empty() {
            return;
        }
        out.push_str("\nGrowth of the log over the turns\n");
        let most = growth.last().map(|turn| turn.tokens.0).unwrap_or(1).max(1);
        let bar = (self.width / 3).clamp(10, 60);
        let room = self.width.saturating_sub(bar + 21);
        for turn in sampled(growth, 24) {
            let filled = "█".repeat((turn.tokens.0.saturating_mul(bar as u64) / most) as usize);
            let (tokens, prompt) = (turn.tokens.to_string(), cut_end(&turn.prompt, room));
            let line = format!("  {:>4}  {filled:<bar$} {tokens:>9}  {prompt}", turn.turn);
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// Formats a token count in thousands.
fn thousands(tokens: Tokens) -> String {
    match tokens.0 {
        0..1_000 => tokens.to_string(),
        more => format!("{}.{}k", more / 1_000, more % 1_000 / 100),
    }
}

/// Shortens a name to a column by cutting its middle: both ends of a long path identify it.
pub(crate) fn cut_middle(name: &str, most: usize) -> String {
    let name = printable(name);
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name;
    }
    let head = most.saturating_sub(1) / 3;
    let tail = most.saturating_sub(1) - head;
    let cut: String = letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect();
    cut_end(&cut, most)
}

/// Shortens text to a column by cutting its end.
fn cut_end(words: &str, most: usize) -> String {
    console::truncate_str(words, most, "…").into_owned()
}

/// At most `most` turns, evenly spaced, including the last.
fn sampled(turns: &[Turn], most: usize) -> impl Iterator<Item = &Turn> {
    let step = turns.len().div_ceil(most).max(1);
    turns
        .iter()
        .enumerate()
        .filter(move |(at, _)| (turns.len() - 1 - at).is_multiple_of(step))
        .map(|(_, turn)| turn)
}
