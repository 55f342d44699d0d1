//! The content of the window, weighed.

use plimsoll::compact::ladder::Trigger;
use plimsoll::count::block_tokens;
use plimsoll::pin;
use plimsoll::{Block, Limits, Line, Load, Scale, Tokens, WindowRole};
use plimsoll_store::Session;
use serde::Serialize;

use super::Driver;
use crate::error::SessionError;

/// The content of a session's window, and its distance from the line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Inspection {
    /// The session's record, with its charges so far.
    pub session: Session,
    /// Tokens of the next request. If a reduction has made the newest usage stale, the figure stays on the scale of that usage, so
    /// that a window minus what was reduced is the window afterwards.
    pub load: Load,
    /// Converts estimates to the scale of `load.tokens`.
    pub scale: Scale,
    /// The limits of the model.
    pub limits: Limits,
    /// The line, if the model's window is known.
    pub line: Option<Line>,
    /// Number of messages in the window.
    pub messages: usize,
    /// Tokens by kind of content; estimates, on `scale`.
    pub kinds: Kinds,
    /// Number of tool results that show a placeholder.
    pub cleared: usize,
    /// Tokens of pinned texts; an estimate, on `scale`.
    pub pins: Tokens,
}

/// Tokens of a window by kind of content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Kinds {
    /// The system prompt and the tools.
    pub fixed: Tokens,
    /// System messages of the host.
    pub system: Tokens,
    /// Text of the user.
    pub user: Tokens,
    /// Text of the model.
    pub assistant: Tokens,
    /// Reasoning of the model.
    pub thinking: Tokens,
    /// Tool calls.
    pub calls: Tokens,
    /// Tool results.
    pub results: Tokens,
    /// Files.
    pub files: Tokens,
    /// Framing of the messages.
    pub framing: Tokens,
}

impl Driver {
    /// Weighs the window.
    pub fn inspect(&self) -> Result<Inspection, SessionError> {
        let (window, counter) = (self.window(), self.meter.counter());
        let situation = self.situation(Trigger::Auto);
        let mut load = situation.load(&self.log);
        let scale = situation.scale(&load, &self.log);
        if load.usage_of.is_none() {
            load.tokens = scale.request(load.estimate);
        }
        let mut kinds = Kinds { fixed: scale.piece(self.overhead().total()), ..Kinds::default() };
        let mut cleared = 0;
        for message in &window.messages {
            kinds.framing += scale.piece(counter.message_overhead());
            for block in &message.blocks {
                let tokens = scale.piece(block_tokens(block, &*counter));
                let kind = match (block, message.role) {
                    (Block::Text { .. }, WindowRole::System) => &mut kinds.system,
                    (Block::Text { .. }, WindowRole::User) => &mut kinds.user,
                    (Block::Text { .. }, WindowRole::Assistant | WindowRole::Tool) => &mut kinds.assistant,
                    (Block::Provider { .. }, _) => &mut kinds.assistant,
                    (Block::Reasoning { .. }, _) => &mut kinds.thinking,
                    (Block::Call { .. }, _) => &mut kinds.calls,
                    (Block::Result { .. }, _) => &mut kinds.results,
                    (Block::File { .. }, _) => &mut kinds.files,
                };
                *kind += tokens;
                cleared += usize::from(matches!(block, Block::Result { cleared: true, .. }));
            }
        }
        Ok(Inspection {
            session: self.archive.store().session(self.session())?,
            load,
            scale,
            limits: self.limits(),
            line: self.settings.policy.overflow.line(self.limits()),
            messages: window.messages.len(),
            kinds,
            cleared,
            pins: pin::pins(&self.log).map(|(_, _, text)| scale.piece(counter.count_text(text))).sum(),
        })
    }
}
