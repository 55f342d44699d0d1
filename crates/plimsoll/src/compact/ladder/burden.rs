//! Shares of a request that cannot be made to fit.

use super::super::outcome::Burden;
use super::super::shed::Newest;
use super::Ladder;
use crate::count::{Fixed, Tokens, window_message_tokens};
use crate::window::{Block, PINNED, Window, WindowMessage, WindowRole};

impl Ladder {
    /// What takes the room.
    pub(super) fn burden(&self, after: Tokens) -> Burden {
        let (counter, newest) = (self.is.counter(), Newest::of(&self.log));
        let window = Window::of(&self.log, &self.is.policy);
        let Fixed { system, tools } = self.is.fixed;
        let mut burden = Burden {
            system,
            tools,
            line: self.line.map(|line| line.at).unwrap_or_default(),
            ..Burden::default()
        };
        for message in &window.messages {
            let tokens = window_message_tokens(message, counter);
            match message.place {
                _ if message.role == WindowRole::System => burden.laid_down += tokens,
                Some(place) if Some(place) == newest.prompt => burden.prompt += tokens,
                None if is_pins(message) => burden.pins += tokens,
                _ => burden.conversation += tokens,
            }
        }
        burden.unknown = after - self.estimate();
        burden
    }
}

/// Whether a message of the window holds pins whose places are out of view.
fn is_pins(message: &WindowMessage) -> bool {
    matches!(message.blocks.first(), Some(Block::Text { text, .. }) if text.as_str() == PINNED)
}
