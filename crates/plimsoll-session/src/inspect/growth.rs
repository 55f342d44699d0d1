//! The size of a log over its turns.

use plimsoll::{Message, Tokens, printable};

use super::kind::is_user_prompt;
use super::ranking::Weight;
use super::report::Turn;

/// Maximum number of turns that are kept.
const MAX_TURNS: usize = 10_000;

/// The size of a log over its turns. Of a very long session every second, fourth, … turn is kept.
#[derive(Clone, Default)]
pub(super) struct Growth {
    turns: Vec<Turn>,
    current: Option<Turn>,
    /// Interval of the turns that are kept, as a power of two.
    every: u32,
}

impl Growth {
    /// Returns the number of the current turn; 0 before the first.
    pub(super) fn turn(&self) -> usize {
        self.current.as_ref().map_or(0, |turn| turn.turn)
    }

    /// Adds a message. `total` is the weight of the log with it.
    pub(super) fn add(&mut self, message: &Message, total: Weight) {
        if is_user_prompt(message) {
            let turn = self.turn() + 1;
            self.keep();
            let text = message.text();
            // Only the first words are shown; a prompt may have megabytes.
            let words = text.split_whitespace().take(40).collect::<Vec<_>>().join(" ");
            let prompt = printable(&words).chars().take(200).collect();
            self.current = Some(Turn { turn, tokens: Tokens::ZERO, prompt, weight: total });
        }
        if let Some(turn) = &mut self.current {
            turn.weight = total;
        }
    }

    fn keep(&mut self) {
        let Some(turn) = self.current.take() else { return };
        if turn.turn.is_multiple_of(1 << self.every) {
            self.turns.push(turn);
        }
        if self.turns.len() >= MAX_TURNS {
            self.every += 1;
            self.turns.retain(|turn| turn.turn.is_multiple_of(1 << self.every));
        }
    }

    /// Returns the turns that were kept and the last one.
    pub(super) fn turns(mut self, factor: Option<f64>) -> Vec<Turn> {
        self.turns.extend(self.current.take());
        self.turns.iter_mut().for_each(|turn| turn.tokens = turn.weight.tokens(factor));
        self.turns
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::{Message, Tokens};

    use super::super::ranking::Weight;
    use super::{Growth, MAX_TURNS};

    #[test]
    fn turns_are_thinned_and_the_last_is_kept() {
        let mut growth = Growth::default();
        let turns = 5 * MAX_TURNS + 1;
        for turn in 1..=turns {
            let user = Message::user("m".into(), "p".into(), "words");
            growth.add(&user, Weight::from(Tokens(turn as u64)));
        }
        let shown = growth.turns(None);
        assert!((MAX_TURNS / 2..=MAX_TURNS).contains(&shown.len()), "{}", shown.len());
        assert_eq!(shown.last().map(|turn| turn.turn), Some(turns));
        assert!(shown.iter().all(|turn| turn.tokens == Tokens(turn.turn as u64)));
    }
}
