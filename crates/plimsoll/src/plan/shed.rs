//! Plans of the last rungs of the ladder.

use serde::{Deserialize, Serialize};

use crate::chars::Chars;
use crate::log::{MessageId, PartId};
use crate::prune::PruneItem;
use crate::tokens::Tokens;

/// Parts to clear, cut or hide when nothing else helps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ShedPlan {
    /// Tool results to clear.
    pub cleared: Vec<PruneItem>,
    /// Parts to cut.
    pub cut: Vec<CutItem>,
    /// Parts to hide.
    #[serde(default)]
    pub hidden: Vec<HideItem>,
    /// Parts whose pins are removed.
    #[serde(default)]
    pub unpinned: Vec<PartId>,
}

impl ShedPlan {
    /// Returns whether the plan does nothing.
    pub fn is_empty(&self) -> bool {
        self.cleared.is_empty() && self.cut.is_empty() && self.hidden.is_empty() && self.unpinned.is_empty()
    }
}

/// A part to hide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HideItem {
    /// The part; also the handle by which its content is recalled.
    pub part: PartId,
    /// The message it belongs to.
    pub message: MessageId,
    /// Tokens that hiding it frees.
    pub tokens: Tokens,
}

/// A part to cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CutItem {
    /// The part; also the handle by which its content is recalled.
    pub part: PartId,
    /// Length of its longest text.
    pub chars: Chars,
    /// Chars that stay; images and reasoning are removed.
    pub keep: Chars,
}
