//! The meter: how full the window is, what was done about it so far, and what it all cost, on one line.

use anstyle::{AnsiColor, Style};
use console::measure_text_width;
use plimsoll::{Plan, Receipt, Tokens};
use plimsoll_session::Inspection;

use crate::output::counted;
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
    pub(super) fn new(inspection: &Inspection, receipts: &[Receipt]) -> Meter {
        let undone: Vec<_> = receipts.iter().filter_map(|receipt| receipt.undoes.as_ref()).collect();
        let mut meter = Meter {
            tokens: inspection.load.tokens,
            line: inspection.line.map(|line| line.at),
            cost: inspection.session.cost,
            ..Meter::default()
        };
        let holds = |receipt: &&Receipt| receipt.undoes.is_none() && !undone.contains(&&receipt.id);
        for receipt in receipts.iter().filter(holds) {
            match &receipt.plan {
                Plan::Truncate(_) => meter.shortened += 1,
                Plan::Prune(plan) => meter.aside += plan.items.len(),
                Plan::Compact(_) => meter.summaries += 1,
                Plan::Shed(_) => meter.aside += receipt.plan.effects().len(),
                Plan::Fork(_) | Plan::Pin(_) | Plan::Purge(_) => {}
            }
        }
        meter
    }

    /// On one line of at most so many columns: what has no room is left out, the last first.
    pub(super) fn line(&self, width: usize) -> String {
        let mut pieces = Vec::new();
        match self.line.filter(|line| *line > Tokens::ZERO) {
            Some(line) => {
                let percent = self.tokens.0.saturating_mul(100) / line.0;
                pieces.push(format!("{} {percent} %", bar(percent)));
                pieces.push(paint(QUIET, &format!("{} of {line} tokens", self.tokens)));
            }
            None => pieces.push(paint(QUIET, &format!("{} tokens, window unknown", self.tokens))),
        }
        if self.cost > 0.0 {
            pieces.push(paint(QUIET, &dollars(self.cost)));
        }
        if self.aside > 0 {
            pieces.push(paint(QUIET, &format!("{} set aside", Tokens(self.aside as u64))));
        }
        if self.shortened > 0 {
            pieces.push(paint(QUIET, &format!("{} shortened", Tokens(self.shortened as u64))));
        }
        if self.summaries > 0 {
            let told =
                if self.summaries == 1 { "1 summary".into() } else { counted(self.summaries, "summarie") };
            pieces.push(paint(QUIET, &told));
        }
        let mut line = String::new();
        for piece in pieces {
            let joined =
                if line.is_empty() { piece } else { format!("{line}{}{piece}", paint(QUIET, " · ")) };
            if measure_text_width(&joined) >= width && !line.is_empty() {
                break;
            }
            line = joined;
        }
        line
    }
}

/// A sum of money for people: small ones with more digits.
pub(super) fn dollars(cost: f64) -> String {
    if cost >= 1.0 { format!("${cost:.2}") } else { format!("${cost:.4}") }
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
            "███░░░░░░░ 30 % · 48,000 of 160,000 tokens · $0.1234 · 3 set aside · 2 shortened · 1 summary";
        assert_eq!(plain(&meter(48_000), 200), all);
        assert_eq!(plain(&meter(48_000), 60), "███░░░░░░░ 30 % · 48,000 of 160,000 tokens · $0.1234");
        assert_eq!(plain(&meter(48_000), 40), "███░░░░░░░ 30 %");
        let unknown = Meter { line: None, cost: 0.0, ..meter(5) };
        assert_eq!(plain(&unknown, 50), "5 tokens, window unknown · 3 set aside");
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
