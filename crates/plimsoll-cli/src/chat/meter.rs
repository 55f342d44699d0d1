//! The meter: how full the window is, what was done about it so far, and what it all cost, on one line.

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
/// From so many percent of the line on the bar changes its colour.
const NEAR_FROM: u64 = 75;
const AT_FROM: u64 = 92;
const BAR_WIDTH: u64 = 10;

/// What the meter shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Meter {
    /// What the next request weighs.
    pub(super) tokens: Tokens,
    /// Where something has to leave the window; none if the model's window is not known.
    pub(super) line: Option<Tokens>,
    /// Outputs that were set aside.
    pub(super) aside: usize,
    /// Outputs that were shortened, and are kept whole on disk.
    pub(super) shortened: usize,
    /// Summaries that stand for older messages.
    pub(super) summaries: usize,
    /// What the session cost, in dollars, as far as prices are known.
    pub(super) cost: f64,
}

impl Meter {
    /// Read from a session.
    pub(super) fn new(weighed: &SessionLoad, receipts: &[Receipt]) -> Meter {
        let mut meter = Meter {
            tokens: weighed.load.tokens,
            line: weighed.line.map(|line| line.at),
            cost: weighed.session.cost,
            ..Meter::default()
        };
        for receipt in in_force(receipts) {
            match &receipt.plan {
                Plan::Truncate(_) => meter.shortened += 1,
                Plan::Prune(plan) => meter.aside += plan.items.len(),
                Plan::Compact(_) | Plan::Range(_) => meter.summaries += 1,
                Plan::Shed(_) => meter.aside += receipt.plan.effects().len(),
                Plan::Fork(_) | Plan::Pin(_) | Plan::Purge(_) => {}
            }
        }
        meter
    }

    /// On one line of fewer than so many columns. What has no room is said in short or left out, in this order: the tokens,
    /// which the bar shows too, the cost, and only then what is out of the window.
    pub(super) fn line(&self, width: usize) -> String {
        let full = match self.line.filter(|line| *line > Tokens::ZERO) {
            Some(line) => {
                let percent = percent(self.tokens, line);
                format!("{} {percent} %", bar(percent))
            }
            None => paint(QUIET, "window unknown"),
        };
        let number = |count: usize| Tokens(count as u64);
        let some = |count: usize, told: String| if count > 0 { told } else { String::new() };
        let aside = some(self.aside, format!("{} set aside", number(self.aside)));
        let shortened = some(self.shortened, format!("{} shortened", number(self.shortened)));
        let summaries = match self.summaries {
            0 => String::new(),
            1 => "1 summary".to_owned(),
            count => counted(count, "summarie"),
        };
        let decimals = if self.cost >= 1.0 { 2 } else { SMALL };
        let cost = if self.cost > 0.0 { dollars(self.cost, decimals) } else { String::new() };
        let mut pieces = [self.weight(Tokens::to_string, " tokens"), aside, shortened, summaries, cost];
        let last = pieces.len() - 1;
        let shorter = [
            (0, self.weight(in_short, "")),
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

    fn weight(&self, told: impl Fn(&Tokens) -> String, unit: &str) -> String {
        match self.line.filter(|line| *line > Tokens::ZERO) {
            Some(line) => format!("{} of {}{unit}", told(&self.tokens), told(&line)),
            None => format!("{}{}", told(&self.tokens), if unit.is_empty() { " tokens" } else { unit }),
        }
    }
}

fn joined(first: &str, pieces: &[String]) -> String {
    let rest =
        pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| paint(QUIET, &format!(" · {piece}")));
    [first.to_owned()].into_iter().chain(rest).collect()
}

/// A number of tokens in a few letters.
fn in_short(tokens: &Tokens) -> String {
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
    // A window that is not empty shows something.
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
            aside: 3,
            shortened: 2,
            summaries: 1,
            cost: 0.1234,
        }
    }

    fn plain(meter: &Meter, width: usize) -> String {
        anstream::adapter::strip_str(&meter.line(width)).to_string()
    }

    #[test]
    fn the_meter_fits_its_line_and_says_the_most_important_first() {
        let all =
            "███░░░░░░░ 30 % · 48,000 of 160,000 tokens · 3 set aside · 2 shortened · 1 summary · $0.1234";
        assert_eq!(plain(&meter(48_000), 200), all);
        let narrower = [
            (80, "███░░░░░░░ 30 % · 48k of 160k · 3 set aside · 2 shortened · 1 summary · $0.1234"),
            (70, "███░░░░░░░ 30 % · 3 set aside · 2 shortened · 1 summary · $0.1234"),
            (60, "███░░░░░░░ 30 % · 3 set aside · 2 shortened · 1 summary"),
            (50, "███░░░░░░░ 30 % · 3 set aside · 2 shortened"),
            (40, "███░░░░░░░ 30 % · 3 set aside"),
            (20, "███░░░░░░░ 30 %"),
        ];
        for (width, line) in narrower {
            assert_eq!(plain(&meter(48_000), width), line);
        }
        let unknown = Meter { line: None, cost: 0.0, ..meter(5) };
        assert_eq!(plain(&unknown, 80), "window unknown · 5 tokens · 3 set aside · 2 shortened · 1 summary");
        let nothing_left = Meter { aside: 0, shortened: 0, summaries: 0, ..meter(48_000) };
        assert_eq!(plain(&nothing_left, 60), "███░░░░░░░ 30 % · 48,000 of 160,000 tokens · $0.1234");
        assert_eq!(
            plain(&Meter { aside: 0, shortened: 0, summaries: 0, cost: 0.0, ..meter(1) }, 80),
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
