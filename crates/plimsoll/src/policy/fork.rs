//! Settings of digests and histories for child sessions.

use serde::{Deserialize, Serialize};

use crate::chars::Chars;

/// How a parent's history becomes a child's digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ForkPolicy {
    /// Maximum length of the digest.
    pub char_budget: Chars,
    /// Length up to which no message is removed.
    pub no_removal: Chars,
    /// Number of newest tool results that stay whole (first tier).
    pub tier1_count: u64,
    /// Number of tool results in the second tier.
    pub tier2_count: u64,
    /// Maximum length of a result in the second tier.
    pub tier2_limit: Chars,
    /// Maximum length of all older results (third tier).
    pub tier3_limit: Chars,
    /// Maximum length of a call's input in the first tier.
    pub params_tier1: Chars,
    /// Maximum length of a call's input in the second tier.
    pub params_tier2: Chars,
    /// Maximum length of a call's input in the third tier.
    pub params_tier3: Chars,
    /// Share of the beginning, if beginning and end are kept.
    pub head_ratio: f64,
    /// Share of the end, if beginning and end are kept.
    pub tail_ratio: f64,
    /// Results that contain one of these texts keep their end as well.
    pub error_patterns: Vec<String>,
    /// Tools whose names contain one of these words keep the end of their results as well.
    pub head_tail_keywords: Vec<String>,
    /// Results of tools whose names contain one of these words are never cut.
    pub uncut_tools: Vec<String>,
    /// How a cut is marked.
    pub cut_marker: CutMarker,
    /// Label messages that have only text of the host as `Host` instead of `User`.
    pub label_host: bool,
    /// Maximum length of all results in the first tier together. Longer ones are cut to one length. If not set, they
    /// stay whole.
    pub newest_room: Option<Chars>,
    /// Amount of the user's own words that stays if messages have to be removed. If not set, they are removed too.
    pub words_room: Option<Chars>,
    /// Minimum for limits on results, and for the user's words, if a digest is made smaller for its child.
    pub least_result: Chars,
    /// Maximum size of a digest for a child, as a share of the room under the child's line without system prompt, tools
    /// and task. The rest is for the child's work.
    pub child_share: f64,
    /// Maximum size of the summary of removed messages at the beginning of a digest that is made smaller for its child,
    /// as a share of the digest's room. With 0, there is no summary.
    pub summary_share: f64,
    /// Maximum length of all results in the first tier together, as a share of a digest that is made smaller for its
    /// child.
    pub newest_share: f64,
    /// Amount of the user's own words that stays if messages have to be removed, as a share of a digest that is made
    /// smaller for its child.
    pub words_share: f64,
    /// Maximum size of an inherited history, as a share of the child's line. Above it, a digest is used.
    pub history_share: f64,
    /// Rules that apply if the fork document and the needs of a child differ.
    pub rules: ForkRules,
}

impl ForkPolicy {
    /// Minimum length of a digest. It must have room for tags, labels and markers.
    pub const MIN_BUDGET: Chars = Chars(1_000);
}

/// Rules that a digest follows if the fork document and the needs of a child differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ForkRules {
    /// Follow the document. The budget is a number of chars, whatever the child's window is. Figures and preamble count
    /// the results of the second stage by tier, before the budget removes messages. A result that contains the
    /// placeholder stays unchanged.
    Document,
    /// Fit the child. A digest is made smaller for a child with a small window. Figures and preamble describe the
    /// delivered text. Only a result that consists of the placeholder counts as cleared.
    Fitted,
}

/// How the digest marks a cut result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CutMarker {
    /// `...[truncated N chars]...` in place of the missing text. N is the length of the missing text.
    Gap,
    /// `[Tool result truncated - original N chars]` before the text. N is the original length.
    Prefix,
}
