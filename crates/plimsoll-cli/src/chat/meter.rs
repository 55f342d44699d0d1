//! The meter: fill of the window, reductions so far, and cost, on one line.

use anstyle::{AnsiColor, Style};
use console::measure_text_width;
use plimsoll::{Plan, Receipt, Tokens};
use plimsoll_host::{dollars, in_force};
use plimsoll_session::SessionLoad;

use crate::figures::SMALL;
use crate::output::{counted, percent};
use crate::style::{BAR, QUIET, paint};

const NEAR: Style = AnsiColor::Yellow.on_default();
const AT: Style = AnsiColor::Red.on_default();
/// Percentages of the line from which the bar changes its colour.
const NEAR_FROM: u64 = 75;
const AT_FROM: u64 = 92;
const BAR_WIDTH: u64 = 10;

/// Values of the meter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Meter {
    /// Size of the next request.
    pub(super) tokens: Tokens,
    /// The line; `None` if the model's window is unknown.
    pub(super) line: Option<Tokens>,
    /// Number of cleared outputs.
    pub(super) cleared: usize,
    /// Number of outputs that were truncated on arrival.
    pub(super) truncated: usize,
    /// Number of summaries that replace older messages.
    pub(super) summaries: usize,
    /// Cost of the session in dollars, for models with known prices.
    pub(super) cost: f64,
}

impl Meter {
    /// Computes the values for a session.
    pub(super) fn new(weighed: &SessionLoad, receipts: &[Receipt]) -> Meter {
        let mut meter = Meter {
            tokens: weighed.load.tokens,
            line: weighed.line.map(|line| line.at),
            cost: weighed.session.cost,
            ..Meter::default()
        };
        for receipt in in_force(receipts) {
            match &receipt.plan {
                Plan::Truncate(_) => meter.truncated += 1,
                Plan::Prune(plan) => meter.cleared += plan.items.len(),
                Plan::Compact(_) | Plan::Range(_) => meter.summaries += 1,
                Plan::Shed(_) => meter.cleared += receipt.plan.effects().len(),
                Plan::Fork(_) | Plan::Pin(_) | Plan::Edit(_) | Plan::Purge(_) => {}
            }
        }
        meter
    }

    /// Formats the meter on a line of fewer than `width` columns. If there is no room, it shortens and then omits first the
    /// tokens, which the bar shows too, then the cost, and only then what is outside the window.
    pub(super) fn line(&self, width: usize) -> String {
        let full = match self.line.filter(|line| *line > Tokens::ZERO) {
            Some(line) => {
                let percent = percent(self.tokens, line);
                format!("{} {percent} %", bar(percent))
            }
            None => paint(QUIET, "window size unknown"),
        };
        let number = |count: usize| Tokens(count as u64);
        let some = |count: usize, text: String| if count > 0 { text } else { String::new() };
        let cleared = some(self.cleared, format!("{} cleared", number(self.cleared)));
        let truncated = some(self.truncated, format!("{} truncated", number(self.truncated)));
        let summaries = match self.summaries {
            0 => String::new(),
            1 => "1 summary".to_owned(),
            count => counted(count, "summarie"),
        };
        let decimals = if self.cost >= 1.0 { 2 } else { SMALL };
        let cost = if self.cost > 0.0 { dollars(self.cost, decimals) } else { String::new() };
        let mut pieces = [self.weight(Tokens::to_string, " tokens"), cleared, truncated, summaries, cost];
        let last = pieces.len() - 1;
        let shorter = [
            (0, self.weight(abbreviated, "")),
            (0, String::new()),
            (last, String::new()),
            (3, String::new()),
            (2, String::new()),
            (1, String::new()),
        ];
        let mut line = joined(&full, &pieces);
        for (place, piece) in shorter {
            if measure_text_width(&line) < width {
                break;
            }
            pieces[place] = piece;
            line = joined(&full, &pieces);
        }
        line
    }

    fn weight(&self, format: impl Fn(&Tokens) -> String, unit: &str) -> String {
        match self.line.filter(|line| *line > Tokens::ZERO) {
            Some(line) => format!("{} of {}{unit}", format(&self.tokens), format(&line)),
            None => format!("{}{}", format(&self.tokens), if unit.is_empty() { " tokens" } else { unit }),
        }
    }
}

fn joined(first: &str, pieces: &[String]) -> String {
    let rest =
        pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| paint(QUIET, &format!(" · {piece}")));
    [first.to_owned()].into_iter().chain(rest).collect()
}

/// Formats a number of tokens in a few characters.
fn abbreviated(tokens: &Tokens) -> String {
    match tokens.0 {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 => format!("{}k", tokens.0 / 1_000),
        _ => format!("{:.1}M", tokens.0 as f64 / 1e6),
    }
}

fn bar(percent: u64) -> String {
    let style = match percent {
        AT_FROM.. => AT,
        NEAR_FROM.. => NEAR,
        _ => BAR,
    };
    // A window that is not empty fills at least one segment.
    let full = (percent.min(100) * BAR_WIDTH).div_ceil(100);
    let (full, empty) = (full as usize, (BAR_WIDTH - full) as usize);
    format!("{}{}", paint(style, &"█".repeat(full)), paint(QUIET, &"░".repeat(empty)))
}

#[cfg(test)]
mod tests {
    use plimsoll::Tokens;

    use super::Meter;

    fn meter(tokens: u64) -> Meter {
        Meter {
            tokens: Tokens(tokens),
            line: Some(Tokens(160_000)),
            cleared: 3,
            truncated: 2,
            summaries: 1,
            cost: 0.1234,
        }
    }

    fn plain(meter: &Meter, width: usize) -> String {
        anstream::adapter::strip_str(&meter.line(width)).to_string()
    }

    #[test]
    fn the_meter_fits_its_line_and_drops_the_least_important_first() {
        let all =
            "███░░░░░░░ 30 % · 48,000 of 160,000 tokens · 3 cleared · 2 truncated · 1 summary · $0.1234";
        assert_eq!(plain(&meter(48_000), 200), all);
        let narrower = [
            (80, "███░░░░░░░ 30 % · 48k of 160k · 3 cleared · 2 truncated · 1 summary · $0.1234"),
            (66, "███░░░░░░░ 30 % · 3 cleared · 2 truncated · 1 summary · $0.1234"),
            (56, "███░░░░░░░ 30 % · 3 cleared · 2 truncated · 1 summary"),
            (46, "███░░░░░░░ 30 % · 3 cleared · 2 truncated"),
            (32, "███░░░░░░░ 30 % · 3 cleared"),
            (20, "███░░░░░░░ 30 %"),
        ];
        for (width, line) in narrower {
            assert_eq!(plain(&meter(48_000), width), line);
        }
        let unknown = Meter { line: None, cost: 0.0, ..meter(5) };
        assert_eq!(
            plain(&unknown, 80),
            "window size unknown · 5 tokens · 3 cleared · 2 truncated · 1 summary"
        );
        let nothing_left = Meter { cleared: 0, truncated: 0, summaries: 0, ..meter(48_000) };
        assert_eq!(plain(&nothing_left, 60), "███░░░░░░░ 30 % · 48,000 of 160,000 tokens · $0.1234");
        assert_eq!(
            plain(&Meter { cleared: 0, truncated: 0, summaries: 0, cost: 0.0, ..meter(1) }, 80),
            "░░░░░░░░░░ 0 % · 1 of 160,000 tokens"
        );
    }

    #[test]
    fn the_bar_warns_before_the_line() {
        for (tokens, colour) in [
            (80_000, "\u{1b}[36m"),
            (130_000, "\u{1b}[33m"),
            (150_000, "\u{1b}[31m"),
            (900_000, "\u{1b}[31m"),
        ] {
            assert!(meter(tokens).line(200).starts_with(colour), "{tokens}");
        }
    }
}
