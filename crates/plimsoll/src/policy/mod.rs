//! Policy: all settings of the engine, in one validated value.
//!
//! Settings that users may want to change are fields here, not constants in the code. A [`Policy`] can only be created
//! from a preset or by validating a [`PolicySpec`], so code that has one need not check it again.
//!
//! ```
//! use plimsoll::{Policy, Tokens};
//! let policy = Policy::from_json(r#"{ "preset": "opencode", "prune": { "protectTokens": 30000 } }"#)?;
//! assert_eq!(policy.prune.protect_tokens, Tokens(30_000));
//!
//! let error = Policy::from_json(r#"{ "compact": { "tailMin": 80000 } }"#).unwrap_err();
//! assert_eq!(error.to_string(), "`compact.tailMin`: 80,000 is more than `compact.tailMax`, which is 60,000");
//! # Ok::<(), plimsoll::PolicyError>(())
//! ```
//!
//! ## Which fields to change
//!
//! The fields in [`USER_FIELDS`] are meant for users, and their meaning is stable. All others are internal: the presets use them
//! to reproduce other tools, and the measurements in `docs/` were made with them. They may change or disappear in any version.

mod fields;
mod fork;
mod guide;
mod overrides;
mod presets;
mod summary;
mod thrift;
mod validate;

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::chars::Chars;
use crate::counter::CharCounter;
use crate::limits::Limits;
use crate::tokens::Tokens;

pub use fields::{FieldGroup, USER_FIELDS};
pub use fork::{CutMarker, ForkPolicy, ForkRules};
pub use overrides::{Overrides, Setting};
pub use presets::Preset;
pub use summary::{ContractPolicy, SummaryPolicy};
pub use thrift::Thrift;

/// A validated policy. Dereferences to [`PolicySpec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PolicySpec", into = "PolicySpec")]
pub struct Policy(PolicySpec);

/// All settings, as in a policy file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PolicySpec {
    /// Name of the policy in receipts.
    pub name: String,
    /// Conversion of characters to tokens if only lengths are known.
    pub count: CharCounter,
    /// Layer 1: shortens tool outputs as they arrive.
    pub truncate: TruncatePolicy,
    /// Layer 2: clears old tool outputs in the window.
    pub prune: PrunePolicy,
    /// Whether the window is reduced under the line to save money.
    pub thrift: Thrift,
    /// Names that stay in the window when their content leaves it.
    pub names: NamesPolicy,
    /// Position of the line, and how the weight of requests is measured.
    pub overflow: OverflowPolicy,
    /// Layer 3: replaces older messages with a summary.
    pub compact: CompactPolicy,
    /// Summaries made without a model.
    pub summary: SummaryPolicy,
    /// Content that every summary is checked for and completed with.
    pub contract: ContractPolicy,
    /// The last rungs of the ladder, which need no model.
    pub shed: ShedPolicy,
    /// Text that always stays verbatim.
    pub pin: PinPolicy,
    /// The provider's prompt cache.
    pub cache: CachePolicy,
    /// Answers of the recall tool.
    pub recall: RecallPolicy,
    /// A child session's digest of its parent.
    pub fork: ForkPolicy,
}

/// Layer 1: limits of tool outputs, and how an output over a limit is cut as it arrives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct TruncatePolicy {
    /// Maximum number of lines.
    pub max_lines: u64,
    /// Maximum number of bytes, including newlines.
    pub max_bytes: u64,
    /// Maximum length of a line. Longer lines are shortened to this.
    pub max_line_chars: Chars,
    /// When long lines are shortened.
    pub shorten_lines: ShortenLines,
    /// Maximum number of chars by tool.
    pub tool_limits: BTreeMap<String, Chars>,
    /// Maximum number of chars for tools that are not in `toolLimits`.
    pub default_limit: Chars,
    /// Whether a tool's own limit replaces `maxBytes`. If false, the strictest limit applies.
    pub tool_limit_overrides_bytes: bool,
    /// Tools whose names contain one of these words (case-insensitive) count as terminals.
    pub terminal_tools: Vec<String>,
    /// Which end of a terminal's output is kept. Other outputs keep their beginning.
    pub terminal_keep: Keep,
    /// Share of the beginning, with `headTail`.
    pub head_share: f64,
    /// Wording of the notice about a cut.
    pub notice: Notice,
    /// Whether the full output is stored when it is cut.
    pub spill: bool,
    /// Directory for full outputs. A relative path starts at the directory of the database.
    pub spill_directory: String,
    /// How the notice refers to the full output.
    pub spill_as: SpillAs,
    /// Keep an output whole if the cut output with its notice would not be shorter.
    pub only_if_shorter: bool,
}

/// When long lines of an output are shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ShortenLines {
    /// Always, even if the output is within its other limits.
    Always,
    /// Only if the output exceeds a limit, and only as far as needed.
    WhenOver,
}

/// Which end of an output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Keep {
    /// The beginning.
    Head,
    /// The beginning and the end.
    HeadTail,
    /// The end.
    Tail,
}

/// How the notice of a cut refers to the full output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum SpillAs {
    /// By a handle for the recall tool.
    Handle,
    /// By the path of a plain file, with the hint to read it. The file is deleted together with the spilled output.
    File,
}

/// Wording of the notice about a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Notice {
    /// A block after the output with lines, sizes and the reference to the full output.
    Guide,
    /// The wording of OpenCode 1.18.
    Opencode,
}

/// Layer 2: which old tool outputs are cleared from the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct PrunePolicy {
    /// Whether outputs are pruned.
    pub enabled: bool,
    /// Prune after every turn, not only if the window is over the line.
    pub after_turn: bool,
    /// Amount of newest content that no prune clears.
    pub protect_tokens: Tokens,
    /// Content that counts towards `protectTokens`.
    pub measure: Measure,
    /// Minimum to free. A prune clears nothing unless it frees more than this.
    pub min_tokens: Tokens,
    /// Whether freeing exactly `minTokens` is enough.
    pub min_inclusive: bool,
    /// Minimum length of an output that is cleared. Clearing shorter ones would save nothing.
    pub min_output_chars: Chars,
    /// Number of newest user turns that no prune changes.
    pub active_turns: u64,
    /// Tools whose outputs are never cleared (case-insensitive).
    pub protected_tools: Vec<String>,
    /// End of the window from which outputs are taken.
    pub order: PruneOrder,
    /// Stop once this much is freed.
    pub stop_after_tokens: Option<Tokens>,
    /// Action of the scan for old outputs at an output that is already cleared.
    pub at_cleared: OnMeeting,
    /// Action of the scan for old outputs at a summary.
    pub at_summary: AtSummary,
    /// Visible content of a cleared output.
    pub view: ClearedView,
    /// Number of chars that are shown, with `retain`.
    pub retain_chars: Chars,
    /// Whether the placeholder has the handle for recalling the output, with `clear`.
    pub name_handle: bool,
    /// Also clear long texts in tool inputs: bodies of writes, edits and patches.
    pub inputs: bool,
    /// Minimum length of a text in an input that is cleared.
    pub min_input_chars: Chars,
    /// Prune only above this share of the context window.
    pub gate_share: Option<f64>,
    /// Prune only if less than this is left of the context window.
    pub gate_headroom: Option<Tokens>,
}

/// Names that stay when their content leaves the window: paths, identifiers, numbers and hashes that nothing else in
/// the window repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct NamesPolicy {
    /// Whether names are kept.
    pub enabled: bool,
    /// Maximum length of an output's names, as a share of the output.
    pub share: f64,
    /// Maximum tokens of the names of one output.
    pub max_tokens: Tokens,
    /// Maximum size of a summary's index (calls with names and handles), as a share of the line.
    pub index_share: f64,
    /// Maximum tokens of a summary's index.
    pub index_tokens: Tokens,
}

impl NamesPolicy {
    /// Maximum length of the names of content of that length.
    pub(crate) fn room(&self, content: Chars, count: &CharCounter) -> Chars {
        content.share(self.share).min(Chars(self.max_tokens.0.saturating_mul(count.chars_per_token)))
    }

    /// Maximum tokens of a summary's index, given the line. Zero if names are disabled.
    pub fn index_room(&self, line: Tokens) -> Tokens {
        if self.enabled { self.index_tokens.min(line.share(self.index_share)) } else { Tokens::ZERO }
    }
}

/// Content that counts towards the protected amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Measure {
    /// Tool outputs only.
    ToolOutputs,
    /// All parts.
    AllParts,
}

/// End of the window from which outputs are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum PruneOrder {
    /// Scan from the newest, and clear everything beyond the protected amount.
    NewestFirst,
    /// Scan from the oldest, and clear only as much as needed.
    OldestFirst,
}

/// Action of a scan for old outputs at an output that is already cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum OnMeeting {
    /// Stop. An earlier prune has decided about everything older.
    Stop,
    /// Continue past it.
    Skip,
}

/// Action of a scan for old outputs at a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum AtSummary {
    /// Stop at any message that is marked as a summary, including failed or undone ones.
    Stop,
    /// Stop at the summary at the beginning of the window. Messages before a failed or undone one are in the window and
    /// can be cleared.
    StopAtPivot,
    /// Continue past it, through the whole window.
    Skip,
}

/// Visible content of a cleared output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ClearedView {
    /// A placeholder, without attachments.
    Clear,
    /// The first chars and a note, with attachments.
    Retain,
}

/// Position of the line, and how the weight of requests is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct OverflowPolicy {
    /// Whether the window is reduced automatically.
    pub auto: bool,
    /// How the line is calculated.
    pub line: LineRule,
    /// The line as a share of the context window, with `share`.
    pub share: f64,
    /// Whether a request exactly on the line counts as over it.
    pub inclusive: bool,
    /// Share of the line from which a host may prepare a compaction while the turn continues. It takes effect only when
    /// the line is crossed. If not set, no compaction is prepared.
    pub soft_share: Option<f64>,
    /// Prepare a compaction only if it costs no more than one at the line. That is: the request is appended to the
    /// window of the session's own model, whose cache is warm; what may still be added before the line fits into the
    /// tail; and a prune would not be enough.
    pub soft_when_free: bool,
    /// Figures of a response's usage that count.
    pub usage: UsageSum,
    /// Figure that is compared with the line.
    pub detector: Detector,
    /// Maximum ratio of usage to estimate. Usage beyond it is attributed to a prompt or tools that the engine does not
    /// know.
    pub max_factor: f64,
    /// Maximum share of the line that is attributed to such unknown text. With more, no reduction could help.
    pub max_hidden_share: f64,
    /// Assumed excess of a request that the provider rejected as too long, as a share of the line. Doubles with each
    /// rejection in a row, so that a few tries free enough room even if the first guess was far too low.
    pub refused_margin: f64,
    /// Maximum reserve for the answer.
    pub output_cap: Tokens,
    /// Reserve for models that have a separate input limit.
    pub input_reserve: Tokens,
    /// Maximum reserve for the answer, as a share of the context window.
    pub max_reserve_share: f64,
    /// Context window of unknown models. With 0, they are never over the line.
    pub default_context: Tokens,
    /// Output limit of models without a known one.
    pub default_output: Tokens,
    /// Limits by model name.
    pub models: BTreeMap<String, Limits>,
}

/// How the line is calculated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum LineRule {
    /// The model's input limit, or its context window minus a reserve for the answer.
    Usable,
    /// A share of the context window.
    Share,
}

/// Figures of a response's usage that count towards the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum UsageSum {
    /// Input, cache reads and output.
    InputCacheReadOutput,
    /// Input, cache reads, cache writes and output: everything that was sent and received.
    All,
    /// The total if there is one, else input, output, cache reads and cache writes.
    TotalOrAll,
}

/// Figure that is compared with the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Detector {
    /// The usage of the last response.
    Usage,
    /// An estimate of the next request.
    Estimate,
    /// The usage of the last response plus an estimate of what was added since. The only detector that uses a
    /// calibrated counter; the others follow documents that define how tokens are counted.
    Both,
}

/// Layer 3: which messages a summary replaces, and how it is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactPolicy {
    /// Messages that are summarised.
    pub scope: Scope,
    /// When the tail may begin in the middle of a turn.
    pub split_turns: SplitTurns,
    /// Size of the tail (recent messages that stay verbatim) as a share of the line, with `tail`.
    pub tail_share: f64,
    /// Minimum size of the tail.
    pub tail_min: Tokens,
    /// Maximum size of the tail.
    pub tail_max: Tokens,
    /// Maximum size of the tail after a compaction that the user asked for, as a share of the conversation. If the last
    /// answer is longer than everything before it, it is summarised too. With 1, the tail is as in any compaction.
    pub asked_tail_share: f64,
    /// Maximum size of the newest step, as a share of the line. The newest step stays even if it is longer than the
    /// tail, but is cut to this.
    pub step_share: f64,
    /// Maximum size of the user's newest message, as a share of the line. It always stays in view, but is cut to this.
    /// With 0, only a lead of `resultChars` is shown before a tail that begins inside a turn.
    pub prompt_share: f64,
    /// Percentage of the context window that is left after removing the oldest messages, with `target`.
    pub target_percent: u64,
    /// Minimum share of the removal target that must still be reached if the cut moves back to the start of a turn,
    /// with `target`.
    pub turn_share: f64,
    /// Minimum number of messages for a summary.
    pub min_messages: u64,
    /// Minimum share of the window that a compaction frees. The tail is shortened to reach it. With 0, there is no
    /// minimum.
    pub min_freed_share: f64,
    /// How the window shows a summary.
    pub summary_as: SummaryAs,
    /// Requested form of the summary.
    pub template: Template,
    /// Form of the summary request.
    pub request: RequestForm,
    /// Maximum length of a summary. Defaults to the model's output limit.
    pub max_summary_tokens: Option<Tokens>,
    /// Share of the summariser's room that its input may fill. Less than 1, because estimates are inexact.
    pub input_share: f64,
    /// Maximum length of each tool input, tool result and thought in the summariser's input.
    pub result_chars: Chars,
    /// Share of the beginning of a text that is cut to fit the summary request.
    pub request_head_share: f64,
    /// Minimum room for the history in the summariser's window. With less, the summariser is not called.
    pub request_least: Tokens,
    /// Maximum length of text that hooks add to the request.
    pub hook_chars: Chars,
    /// Message to the model after an automatic compaction.
    pub continue_text: String,
    /// Number of retries after a failed summary call.
    pub retries: u32,
    /// Number of failures in a row after which the summariser is no longer called.
    pub breaker: u32,
    /// Timeout in seconds for all summary requests of a compaction, including retries. After a timeout the summary is
    /// made without a model, and the summariser is no longer called.
    pub max_seconds: u64,
    /// Whether to make a summary without a model if the summariser fails.
    pub extractive: bool,
    /// Base length of a summary made without a model.
    pub extractive_base: Tokens,
    /// Additional length of a summary made without a model, as a share of the context window.
    pub extractive_window_share: f64,
    /// Maximum length of a summary made without a model.
    pub extractive_tokens: Tokens,
    /// Maximum length of a summary made without a model, as a share of the line.
    pub extractive_line_share: f64,
    /// Maximum length of a summary made without a model, as a share of the messages that it replaces.
    pub extractive_gain_share: f64,
    /// Minimum length of a summary made without a model. If there is less room, none is made.
    pub extractive_least: Tokens,
}

impl CompactPolicy {
    /// Returns the length of a summary, given the context window and the line.
    ///
    /// A fixed length is too short for a large window and too long for a small one. 2,000 tokens keep less of what a
    /// session needs to continue than 4,000 or 8,000 do; beyond that hardly anything is gained.
    pub fn summary_budget(&self, context: Tokens, line: Tokens) -> Tokens {
        let wanted = self.extractive_base + context.share(self.extractive_window_share);
        wanted.min(self.extractive_tokens).min(line.share(self.extractive_line_share))
    }
}

/// Form of a summary request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RequestForm {
    /// An independent request with its own system prompt, the history as text, and no tools.
    Separate,
    /// The instruction is appended to the window as last sent, so that the provider's cache is hit. Used if the
    /// summariser is the session's own model and everything fits into its context window; otherwise `separate`.
    Appended,
}

/// Messages that are summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Scope {
    /// All messages except an unanswered prompt.
    All,
    /// All messages except a tail of recent ones.
    Tail,
    /// Only as many of the oldest messages as needed.
    Target,
}

/// When the tail may begin in the middle of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum SplitTurns {
    /// Only if a tail of whole turns would leave a good part of its budget unused.
    WhenNeeded,
    /// Always, to fill the tail's budget.
    Always,
}

/// How the window shows a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum SummaryAs {
    /// As a question of the user and an answer of the model with the summary.
    Marker,
    /// As a system message.
    System,
}

/// Requested form of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Template {
    /// Sections for goal, next step, user messages, facts, work and files, merged with the previous summary.
    Anchored,
    /// A detailed prompt for continuing the conversation.
    Continuing,
    /// The token management guide's five points and headings.
    Guide,
}

/// The last rungs of the ladder, which shrink the window without a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ShedPolicy {
    /// Whether these rungs are used.
    pub enabled: bool,
    /// Minimum length to which a part is cut.
    pub min_part_chars: Chars,
    /// Share of the beginning in a cut part.
    pub head_share: f64,
    /// Maximum number of tries for a cut. The first try is often slightly too long, because of markers and estimates.
    pub rounds: u32,
}

/// Text that always stays verbatim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct PinPolicy {
    /// Maximum tokens of all pins together. A pin that exceeds it is rejected.
    pub max_tokens: Tokens,
    /// Maximum size of all pins together as a share of the line, if the model is known.
    pub max_share: f64,
}

/// Rules and prices of the provider's prompt cache. The defaults are Anthropic's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CachePolicy {
    /// Maximum number of cache breakpoints in a request. 0 if the provider has none.
    pub max_breakpoints: u64,
    /// Number of blocks that the provider searches back from each breakpoint, including the marked block.
    pub look_back: u64,
    /// Whether system messages are sent before all others, wherever they are in the window.
    pub system_first: bool,
    /// Price of a token read from the cache, relative to uncached input. Used if the model's prices are unknown.
    pub read_price: f64,
    /// Price of a token written to the cache, relative to uncached input. Used if the model's prices are unknown.
    pub write_price: f64,
    /// Price of an output token, relative to uncached input. Used if the model's prices are unknown.
    pub output_price: f64,
    /// Lifetime of the cache after its last use, in minutes. Used if the host does not know it.
    pub minutes: u64,
}

/// Limits of the recall tool's answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RecallPolicy {
    /// Maximum length of an answer.
    pub max_chars: Chars,
    /// Maximum length of an answer as a share of the context window, at four chars per token. At least 3,000 chars.
    pub max_share: f64,
    /// Maximum number of search matches in an answer.
    pub max_matches: u64,
    /// Number of lines before and after a match.
    pub context_lines: u64,
    /// Maximum length of a line in search results. Longer lines are shown in part.
    pub max_line_chars: Chars,
}

impl RecallPolicy {
    /// Minimum length of an answer in a small window.
    const LEAST: Chars = Chars(3_000);

    /// Returns the limits for a model with that context window. Zero (unknown) changes nothing.
    pub fn for_context(&self, context: Tokens, count: &CharCounter) -> RecallPolicy {
        let share =
            Chars(context.0.saturating_mul(count.chars_per_token)).share(self.max_share).max(Self::LEAST);
        let max_chars = if context == Tokens::ZERO { self.max_chars } else { self.max_chars.min(share) };
        RecallPolicy {
            max_chars,
            max_line_chars: self.max_line_chars.min(Chars(max_chars.0 / 2)),
            ..self.clone()
        }
    }
}

/// Invalid policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Unknown preset.
    #[error("unknown preset `{name}` (available: {known})")]
    UnknownPreset {
        /// The unknown name.
        name: String,
        /// The available names.
        known: String,
    },
    /// A field is unknown or has an invalid value.
    #[error("`{field}`: {why}")]
    Field {
        /// Path of the field.
        field: String,
        /// The problem.
        why: String,
    },
    /// The text is not JSON.
    #[error("not valid JSON: {0}")]
    Json(String),
}

impl Policy {
    /// Validates a policy.
    pub fn new(spec: PolicySpec) -> Result<Policy, PolicyError> {
        validate::check(&spec)?;
        Ok(Policy(spec))
    }

    /// Returns the settings, to be changed and validated again.
    pub fn into_spec(self) -> PolicySpec {
        self.0
    }

    /// Reads a policy file: a JSON object that overrides fields of the preset it names (default `plimsoll`), or the
    /// guide's `TokenManagement` section, which overrides fields of `openfork`.
    pub fn from_json(json: &str) -> Result<Policy, PolicyError> {
        let value = serde_json::from_str(json).map_err(|error| PolicyError::Json(error.to_string()))?;
        Policy::from_value(value)
    }

    /// Like [`from_json`](Policy::from_json), for a parsed value.
    pub fn from_value(value: Value) -> Result<Policy, PolicyError> {
        Overrides::from_value(value)?.policy()
    }

    /// Applies overrides from environment variables. The caller looks the variables up, because the engine does not
    /// read the environment. [`Setting::all`] has their names; OpenCode's names count for the `opencode` presets.
    pub fn with_environment(self, lookup: impl Fn(&str) -> Option<String>) -> Result<Policy, PolicyError> {
        let settings = Setting::all(self.name.starts_with("opencode"), lookup)?;
        let mut merged = overrides::json(&self.0)?;
        overrides::merge(&mut merged, Value::Object(Setting::overrides(&settings).fields));
        overrides::checked(merged)
    }

    /// Returns the limits of a model: the policy's own entry, else the known limits, else the defaults.
    pub fn limits(&self, model: &str, known: Option<Limits>) -> Limits {
        let overflow = &self.overflow;
        let defaults = Limits { context: overflow.default_context, input: None, output: Tokens::ZERO };
        overflow.models.get(model).copied().or(known).unwrap_or(defaults)
    }

    /// Returns the JSON Schema of a policy file.
    #[cfg(feature = "schema")]
    pub fn schema() -> Value {
        let mut schema = schemars::schema_for!(PolicySpec).to_value();
        nothing_required(&mut schema);
        fields::mark_internal(&mut schema);
        let presets = Preset::ALL.map(Preset::name);
        let guide = schemars::schema_for!(guide::TokenManagement).to_value();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            let fork = properties.shift_remove("fork").unwrap_or_default();
            let named = serde_json::json!({ "enum": ["tiered", "fitted", "uniform"], "description": "A named fork policy." });
            properties.insert("fork".into(), serde_json::json!({ "anyOf": [fork, named] }));
            properties.insert(
                "preset".into(),
                serde_json::json!({ "enum": presets, "default": "plimsoll", "description": "Preset whose fields this file overrides." }),
            );
            properties.insert("TokenManagement".into(), guide);
        }
        schema
    }
}

/// Makes all fields optional: a policy file only has the fields that it changes.
#[cfg(feature = "schema")]
fn nothing_required(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.shift_remove("required");
            map.values_mut().for_each(nothing_required);
        }
        Value::Array(items) => items.iter_mut().for_each(nothing_required),
        _ => {}
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Preset::Plimsoll.policy()
    }
}

impl Deref for Policy {
    type Target = PolicySpec;
    fn deref(&self) -> &PolicySpec {
        &self.0
    }
}

impl TryFrom<PolicySpec> for Policy {
    type Error = PolicyError;
    fn try_from(spec: PolicySpec) -> Result<Policy, PolicyError> {
        Policy::new(spec)
    }
}

impl From<Policy> for PolicySpec {
    fn from(policy: Policy) -> PolicySpec {
        policy.0
    }
}
