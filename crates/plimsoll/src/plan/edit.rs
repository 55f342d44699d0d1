//! Texts that the user changed or removed.

use serde::{Deserialize, Serialize};

use crate::chars::Text;
use crate::log::{MessageId, PartId};

/// Texts that the user changed, and parts that the user removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EditPlan {
    /// The parts.
    pub items: Vec<EditItem>,
}

/// A part that the user changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EditItem {
    /// The part.
    pub part: PartId,
    /// Message of the part.
    pub message: MessageId,
    /// The new text; empty if the part is removed.
    pub text: Text,
    /// Whether the pins of a removed part are removed too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unpins: bool,
}

impl EditItem {
    /// Returns whether the part is removed.
    pub fn is_removal(&self) -> bool {
        self.text.is_empty()
    }
}
