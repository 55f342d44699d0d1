//! Breakdown of a request that cannot be made to fit.

use super::super::outcome::OverflowBreakdown;
use super::super::shed::NewestPlaces;
use super::Ladder;
use crate::count::{RequestOverhead, window_message_tokens};
use crate::tokens::Tokens;
use crate::window::{Block, PINNED, Window, WindowMessage, WindowRole};

impl Ladder {
    /// Weighs the request by source.
    pub(super) fn breakdown(&self, after: Tokens) -> OverflowBreakdown {
        let (counter, newest) = (self.context.counter(), NewestPlaces::of(&self.log));
        let window = Window::of(&self.log, &self.context.policy);
        let RequestOverhead { system, tools } = self.context.fixed;
        let mut breakdown = OverflowBreakdown {
            system,
            tools,
            line: self.line.map(|line| line.at).unwrap_or_default(),
            ..OverflowBreakdown::default()
        };
        for message in &window.messages {
            let tokens = window_message_tokens(message, counter);
            match message.place {
                _ if message.role == WindowRole::System => breakdown.laid_down += tokens,
                Some(place) if Some(place) == newest.prompt => breakdown.prompt += tokens,
                None if is_pins(message) => breakdown.pins += tokens,
                _ => breakdown.conversation += tokens,
            }
        }
        breakdown.unknown = after - self.estimate();
        breakdown
    }
}

/// Whether a message of the window repeats pins of messages that are out of view.
fn is_pins(message: &WindowMessage) -> bool {
    matches!(message.blocks.first(), Some(Block::Text { text, .. }) if text.as_str() == PINNED)
}
