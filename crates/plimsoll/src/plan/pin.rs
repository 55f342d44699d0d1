//! Texts to pin.

use serde::{Deserialize, Serialize};

use crate::chars::Text;
use crate::log::{MessageId, PartId};
use crate::tokens::Tokens;

/// Texts to keep in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PinPlan {
    /// The texts.
    pub items: Vec<PinItem>,
    /// Tokens of all pins, these and earlier ones.
    pub total: Tokens,
    /// Maximum tokens of all pins.
    pub budget: Tokens,
}

impl PinPlan {
    /// Returns the tokens of the texts of this plan.
    pub fn tokens(&self) -> Tokens {
        self.items.iter().map(|item| item.tokens).sum()
    }
}

/// A text to keep in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PinItem {
    /// The part it belongs to.
    pub part: PartId,
    /// The message of that part.
    pub message: MessageId,
    /// The pinned text.
    pub text: Text,
    /// Tokens of the text.
    pub tokens: Tokens,
}
