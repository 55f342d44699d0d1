//! The rules of providers that a conversation must obey.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{Block, Window, WindowRole};

/// A violation of the providers' rules for conversations.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("window message {at}: {rule}")]
#[non_exhaustive]
pub struct InvalidWindow {
    /// Index of the message in the window.
    pub at: usize,
    /// The rule.
    pub rule: &'static str,
}

impl Window {
    /// Returns an error if providers would reject this conversation.
    pub fn check(&self) -> Result<(), InvalidWindow> {
        let illegal = |at, rule| Err(InvalidWindow { at, rule });
        let first = self.messages.iter().position(|message| message.role != WindowRole::System);
        if let Some(at) = first.filter(|at| self.messages[*at].role != WindowRole::User) {
            return illegal(at, "a conversation starts with a user's message");
        }
        let mut ids = BTreeSet::new();
        let mut open: Vec<&str> = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            if message.blocks.is_empty() {
                return illegal(at, "a message must not be empty");
            }
            if !open.is_empty() && message.role != WindowRole::Tool {
                return illegal(at - 1, "every call needs its result in the next message");
            }
            let mut results = Vec::new();
            let mut calls = Vec::new();
            for block in &message.blocks {
                match (message.role, block) {
                    (_, Block::Text { text, .. }) if text.trim().is_empty() => {
                        return illegal(at, "a text must not be blank");
                    }
                    (WindowRole::Assistant, Block::Call { id, .. }) => {
                        if !ids.insert(id.as_str()) {
                            return illegal(at, "call ids must be unique");
                        }
                        calls.push(id.as_str());
                    }
                    (WindowRole::Tool, Block::Result { id, text, .. }) => {
                        if text.is_empty() {
                            return illegal(at, "a result must not be empty");
                        }
                        results.push(id.as_str());
                    }
                    (WindowRole::Tool, _) => return illegal(at, "a tool message must contain only results"),
                    (_, Block::Call { .. }) => return illegal(at, "only the assistant may call tools"),
                    (_, Block::Result { .. }) => return illegal(at, "results must be in tool messages"),
                    _ => {}
                }
            }
            if results != open {
                return illegal(at, "each call needs exactly one result, right after it");
            }
            let is_thought = |block: &&Block| matches!(block, Block::Reasoning { .. });
            if message.blocks.iter().all(|block| is_thought(&block)) {
                return illegal(at, "a message needs more than reasoning");
            }
            if !calls.is_empty() && message.signed > 0 {
                let is_signed = |block: &&Block| matches!(block, Block::Reasoning { metadata: Some(_), .. });
                if message.blocks.iter().filter(is_signed).count() != message.signed {
                    return illegal(at, "signed reasoning must be sent back with the calls that it led to");
                }
                if !message.blocks.first().is_some_and(|block| is_thought(&block)) {
                    return illegal(at, "the reasoning of a message that calls tools must come first");
                }
            }
            open = calls;
        }
        if open.is_empty() { Ok(()) } else { illegal(self.messages.len() - 1, "the last call has no result") }
    }
}
