//! Policy: every number and choice of the engine, in one validated value.
//!
//! Logic holds no constants of its own; it reads them here. A [`Policy`] can only be had from a preset or by
//! passing [`PolicySpec`] through validation, so code that holds one need not check it again.
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

mod guide;
mod overrides;
mod presets;
mod summary;
mod thrift;
mod validate;

use std::collections::BTreeMap;
use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::chars::Chars;
use crate::count::{CharCounter, Tokens};
use crate::limits::Limits;

pub use overrides::{Overrides, Setting};
pub use presets::Preset;
pub use summary::{ContractPolicy, SummaryPolicy};
pub use thrift::Thrift;

/// A policy that has been checked. Read its fields through [`PolicySpec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PolicySpec", into = "PolicySpec")]
pub struct Policy(PolicySpec);

/// All numbers and choices, as they are written in a policy file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PolicySpec {
    /// Under which name receipts refer to this policy.
    pub name: String,
    /// How characters become tokens where only lengths are known.
    pub count: CharCounter,
    /// Layer 1: tool outputs as they arrive.
    pub truncate: TruncatePolicy,
    /// Layer 2: old tool outputs in the window.
    pub prune: PrunePolicy,
    /// Whether the window is reduced under the line to save money.
    pub thrift: Thrift,
    /// Names that stay of content that leaves the window.
    pub names: NamesPolicy,
    /// Where the line is, and how load is measured against it.
    pub overflow: OverflowPolicy,
    /// Layer 3: a summary in place of older messages.
    pub compact: CompactPolicy,
    /// The summary that is made without a model.
    pub summary: SummaryPolicy,
    /// What every summary is checked for and completed with.
    pub contract: ContractPolicy,
    /// The last rungs of the ladder.
    pub shed: ShedPolicy,
    /// Text that stays in view word for word.
    pub pin: PinPolicy,
    /// What the provider's cache looks at.
    pub cache: CachePolicy,
    /// What the recall tool answers.
    pub recall: RecallPolicy,
    /// A child session's digest of its parent.
    pub fork: ForkPolicy,
}

/// Layer 1: when and how a tool output is cut as it arrives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TruncatePolicy {
    /// Most lines an output may have.
    pub max_lines: u64,
    /// Most bytes, each line counted with its newline.
    pub max_bytes: u64,
    /// Longer lines are shortened to this.
    pub max_line_chars: Chars,
    /// When long lines are shortened.
    pub shorten_lines: ShortenLines,
    /// Most chars for each tool, by name.
    pub tool_limits: BTreeMap<String, Chars>,
    /// Most chars for a tool not named above.
    pub default_limit: Chars,
    /// Let a tool's own limit replace the limits on bytes instead of the strictest winning.
    pub tool_limit_overrides_bytes: bool,
    /// Tools whose names contain one of these, in any case, count as terminals.
    pub terminal_tools: Vec<String>,
    /// What is kept of a terminal's output; of all others the head is kept.
    pub terminal_keep: Keep,
    /// With `headTail`, the head's share.
    pub head_share: f64,
    /// In whose words the cut is told to the model.
    pub notice: Notice,
    /// Whether the whole output is kept on disk when something was cut.
    pub spill: bool,
    /// Where it is kept; a relative path is beside the database.
    pub spill_directory: String,
    /// How the notice of a cut names the whole output.
    pub spill_as: SpillAs,
    /// Leave an output whole where what stays of it is, with the notice of the cut, no shorter than all of it.
    pub only_if_shorter: bool,
}

/// When long lines of an output are shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ShortenLines {
    /// Always, also if the output as a whole is within its limits.
    Always,
    /// Only if the output is over a limit, and only as far as needed to fit it.
    WhenOver,
}

/// Which end of an output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Keep {
    /// The beginning.
    Head,
    /// The beginning and the end.
    HeadTail,
    /// The end.
    Tail,
}

/// How the notice of a cut names the whole output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SpillAs {
    /// By a handle for the recall tool.
    Handle,
    /// By the path of a plain file, with the hint to read it. The file is removed with the spilled output.
    File,
}

/// In whose words the model is told of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Notice {
    /// A block after the output with lines, sizes and the place of the whole.
    Guide,
    /// As OpenCode 1.18 writes it.
    Opencode,
}

/// Layer 2: which old tool outputs are cleared from the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PrunePolicy {
    /// Whether pruning happens at all.
    pub enabled: bool,
    /// Try it after every turn, not only when the window is over the line.
    pub after_turn: bool,
    /// How much of the newest content stays.
    pub protect_tokens: Tokens,
    /// What the protection is measured in.
    pub measure: Measure,
    /// Nothing is cleared unless more than this is freed.
    pub min_tokens: Tokens,
    /// Freeing exactly the minimum is enough.
    pub min_inclusive: bool,
    /// Shorter outputs stay: clearing them would save nothing.
    pub min_output_chars: Chars,
    /// How many of the newest user turns are never touched.
    pub active_turns: u64,
    /// Tools whose outputs are never cleared, in any case of letters.
    pub protected_tools: Vec<String>,
    /// From which end candidates are taken.
    pub order: PruneOrder,
    /// Take no more once this much is freed.
    pub stop_after_tokens: Option<Tokens>,
    /// What to do on meeting an output that was cleared before.
    pub at_cleared: OnMeeting,
    /// What to do on meeting a summary.
    pub at_summary: AtSummary,
    /// What the window shows of a cleared output.
    pub view: ClearedView,
    /// With `retain`, how many chars are shown.
    pub retain_chars: Chars,
    /// With `clear`, let the placeholder name the handle by which the output is recalled.
    pub name_handle: bool,
    /// Clear long texts in tool inputs too: bodies of writes, edits and patches.
    pub inputs: bool,
    /// Shorter texts in an input stay.
    pub min_input_chars: Chars,
    /// Only try above this share of the context window.
    pub gate_share: Option<f64>,
    /// Only try when less than this is left of the context window.
    pub gate_headroom: Option<Tokens>,
}

/// Names that stay when content leaves the window: paths, identifiers, numbers and hashes that nothing else in the window
/// repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NamesPolicy {
    /// Whether names are kept.
    pub enabled: bool,
    /// Share of a cleared output that its names may take.
    pub share: f64,
    /// Most tokens that the names of one output may take.
    pub max_tokens: Tokens,
    /// Share of the line that the index of a summary may take: what was called, with names and handles.
    pub index_share: f64,
    /// Most tokens that the index of a summary may take.
    pub index_tokens: Tokens,
}

impl NamesPolicy {
    /// Room for the names of content of that length.
    pub(crate) fn room(&self, content: Chars, count: &CharCounter) -> Chars {
        content.share(self.share).min(Chars(self.max_tokens.0.saturating_mul(count.chars_per_token)))
    }

    /// Most tokens of a summary's index for a line at `line`; zero if no names are kept.
    pub fn index_room(&self, line: Tokens) -> Tokens {
        if self.enabled { self.index_tokens.min(line.share(self.index_share)) } else { Tokens::ZERO }
    }
}

/// What the protected amount is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Measure {
    /// Tool outputs only.
    ToolOutputs,
    /// All parts.
    AllParts,
}

/// From which end outputs are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PruneOrder {
    /// Walk back from the newest; everything past the protected amount goes.
    NewestFirst,
    /// Start with the oldest, so that only as much goes as is needed.
    OldestFirst,
}

/// Action of a scan for old outputs on one that was cleared before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnMeeting {
    /// End: everything older was decided then.
    Stop,
    /// Go on past it.
    Skip,
}

/// Action of a scan for old outputs on a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AtSummary {
    /// End at any message that is marked as a summary, also at one that failed or was undone.
    Stop,
    /// End at the summary that the window begins with. What precedes a failed or undone one is in the window and can be
    /// cleared.
    StopAtPivot,
    /// Continue past it, through everything that is in the window.
    Skip,
}

/// What the window shows of a cleared output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ClearedView {
    /// The placeholder, without attachments.
    Clear,
    /// The first chars and a note; attachments stay.
    Retain,
}

/// Where the line is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OverflowPolicy {
    /// Whether the engine compacts by itself.
    pub auto: bool,
    /// What the line is drawn from.
    pub line: LineRule,
    /// With `share`, this much of the context window.
    pub share: f64,
    /// Standing on the line is already over it.
    pub inclusive: bool,
    /// From this share of the line on a host may prepare a compaction while the turn goes on. It takes effect only once
    /// the line itself is crossed. Absent: none is prepared.
    pub soft_share: Option<f64>,
    /// Prepare a compaction only if it costs no more than one at the line: the session's own model is asked at the end of the
    /// window, which its cache holds; what may come before the line fits the tail; and no prune would do instead.
    pub soft_when_free: bool,
    /// Which of a response's usage figures count.
    pub usage: UsageSum,
    /// What is held against the line.
    pub detector: Detector,
    /// Usage beyond so many times the estimate is taken for a prompt or tools that nobody told of.
    pub max_factor: f64,
    /// No more than this share of the line is taken for such hidden text, or nothing one could do would help.
    pub max_hidden_share: f64,
    /// A request that the provider refused as too long is taken to be this share of the line over it, twice as
    /// far with each refusal in a row.
    pub refused_margin: f64,
    /// Most that is set aside for the answer.
    pub output_cap: Tokens,
    /// Set aside even where the model has an input limit of its own.
    pub input_reserve: Tokens,
    /// The reserve is never more than this share of the context window.
    pub max_reserve_share: f64,
    /// Context window of a model nobody knows; 0 means that it is never over the line.
    pub default_context: Tokens,
    /// Output limit of a model that states none.
    pub default_output: Tokens,
    /// Limits by model name.
    pub models: BTreeMap<String, Limits>,
}

/// What the line is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LineRule {
    /// The model's input limit, or its context window less room for the answer.
    Usable,
    /// A share of the context window.
    Share,
}

/// Which of a response's usage figures count against the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UsageSum {
    /// Input, cache reads and output.
    InputCacheReadOutput,
    /// Input, cache reads, cache writes and output: everything that was sent and came back.
    All,
    /// The total if there is one, else input, output, cache reads and cache writes.
    TotalOrAll,
}

/// What is held against the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Detector {
    /// The usage of the last response, after it came.
    Usage,
    /// An estimate of the next request, before it goes.
    Estimate,
    /// The last usage plus an estimate of what came since, before the next request goes. The only detector that uses
    /// a calibrated counter: the others follow documents that fix how tokens are counted.
    Both,
}

/// Layer 3: what a summary replaces, and how it is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CompactPolicy {
    /// How much is summarised.
    pub scope: Scope,
    /// When the tail may begin in the middle of a turn.
    pub split_turns: SplitTurns,
    /// With `tail`, this share of the line stays word for word,
    pub tail_share: f64,
    /// but at least this much,
    pub tail_min: Tokens,
    /// and at most this.
    pub tail_max: Tokens,
    /// Where a person asks for a compaction, at most this share of the conversation stays word for word; all of it is
    /// summarised where the last answer is longer than everything before it. 1 for the tail of every compaction.
    pub asked_tail_share: f64,
    /// A newest step that is longer than the tail may be stays all the same, cut to this share of the line.
    pub step_share: f64,
    /// The user's newest message stays in view whole while it takes no more than this share of the line, and cut to
    /// it beyond. With 0 only a lead of `resultChars` is shown before a tail that begins inside a turn.
    pub prompt_share: f64,
    /// With `target`, the oldest messages go until this percentage of the context window is left.
    pub target_percent: u64,
    /// With `target`, the cut moves back to the start of a turn where at least this share of what should go still
    /// goes.
    pub turn_share: f64,
    /// Fewer messages than this are not worth a summary.
    pub min_messages: u64,
    /// The tail gets shorter until a compaction frees at least this share of the window. With 0 the tail decides.
    pub min_freed_share: f64,
    /// How the window shows a summary.
    pub summary_as: SummaryAs,
    /// What the summary is asked to look like.
    pub template: Template,
    /// In which form the summary is asked for.
    pub request: RequestForm,
    /// Longest summary; by default the model's own output limit.
    pub max_summary_tokens: Option<Tokens>,
    /// The summariser's input is planned to fill this share of its room, because estimates err.
    pub input_share: f64,
    /// Tool inputs, tool results and reasoning are each cut to this in what the summariser reads.
    pub result_chars: Chars,
    /// The head's share where something is cut to fit the summary request.
    pub request_head_share: f64,
    /// Less room than this in the summariser's window is too little to ask at all.
    pub request_least: Tokens,
    /// Most chars that hooks may add.
    pub hook_chars: Chars,
    /// What the model is told after an automatic compaction.
    pub continue_text: String,
    /// How often a failed summary call is tried again.
    pub retries: u32,
    /// After so many failures in a row no model is asked any more.
    pub breaker: u32,
    /// Seconds that a compaction may wait for the summariser, all its requests and retries together. Afterwards the summary
    /// is made without a model, and no model is asked any more.
    pub max_seconds: u64,
    /// Make a summary without a model when the model fails.
    pub extractive: bool,
    /// Length of a summary in a small context window,
    pub extractive_base: Tokens,
    /// plus this share of the context window,
    pub extractive_window_share: f64,
    /// up to this: the longest summary made without a model.
    pub extractive_tokens: Tokens,
    /// The same, as a share of the line.
    pub extractive_line_share: f64,
    /// The same, as a share of what it replaces.
    pub extractive_gain_share: f64,
    /// A summary made without a model that would have to be shorter than this is not made.
    pub extractive_least: Tokens,
}

impl CompactPolicy {
    /// The length of a summary for a context window of that size, whose line is at `line`.
    ///
    /// A fixed length is too short for a large window and too long for a small one. Of what a session needs to continue,
    /// 2,000 tokens keep less than 4,000 or 8,000, and beyond that hardly anything is gained.
    pub fn summary_budget(&self, context: Tokens, line: Tokens) -> Tokens {
        let wanted = self.extractive_base + context.share(self.extractive_window_share);
        wanted.min(self.extractive_tokens).min(line.share(self.extractive_line_share))
    }
}

/// In which form a summary is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RequestForm {
    /// A request of its own: own system prompt, the history as text, no tools.
    Separate,
    /// The instruction appended to the window as it was last sent, so that the provider's cache is hit. Used where
    /// the summariser is the session's own model and everything fits its context window; separate otherwise.
    Appended,
}

/// How much is summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// Everything but an unanswered prompt.
    All,
    /// Everything but recent messages of a certain size.
    Tail,
    /// Only as much of the oldest as is needed.
    Target,
}

/// When the tail may begin in the middle of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SplitTurns {
    /// Only if a tail of whole turns would leave a good part of its budget unused.
    WhenNeeded,
    /// Always, to fill the tail's budget.
    Always,
}

/// How the window shows a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SummaryAs {
    /// The user asks what was done, the model answers with the summary.
    Marker,
    /// A system message.
    System,
}

/// What a summary is asked to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Template {
    /// Sections for objective, details, work state, next move and files, merged with the summary before.
    Anchored,
    /// A detailed prompt for continuing the conversation.
    Continuing,
    /// The token management guide's five points and headings.
    Guide,
}

/// The last rungs of the ladder, when the window must shrink and no model can help.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ShedPolicy {
    /// Whether these rungs are climbed at all.
    pub enabled: bool,
    /// No part is cut below this.
    pub min_part_chars: Chars,
    /// The head's share of a cut part.
    pub head_share: f64,
    /// How often cutting is tried anew: markers and estimates make the first level a little too high.
    pub rounds: u32,
}

/// Text that stays in view word for word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PinPolicy {
    /// Most tokens of all pins together; a pin beyond it is refused.
    pub max_tokens: Tokens,
    /// The same as a share of the line, where the model is known.
    pub max_share: f64,
}

/// Where the beginning of a request is kept by the provider, and found again; Anthropic's rules by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CachePolicy {
    /// Most breakpoints a request may have; 0 where the provider knows none.
    pub max_breakpoints: u64,
    /// From each breakpoint the provider looks back over so many blocks, the marked one included.
    pub look_back: u64,
    /// System messages are sent before all others, wherever they stand in the window.
    pub system_first: bool,
    /// Price of a token read from the cache, relative to plain input. Used if the model's prices are unknown.
    pub read_price: f64,
    /// Price of a token written to the cache, relative to plain input. Used if the model's prices are unknown.
    pub write_price: f64,
    /// Price of a token of output, relative to plain input. Used if the model's prices are unknown.
    pub output_price: f64,
    /// Minutes that the cache lives after its last use. Used if the host does not know.
    pub minutes: u64,
}

/// How much the recall tool brings back at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RecallPolicy {
    /// Most chars of an answer, all in all.
    pub max_chars: Chars,
    /// Like `maxChars`, as a share of the context window at four chars a token. Never less than 3,000 chars.
    pub max_share: f64,
    /// Most matches of a search in one answer.
    pub max_matches: u64,
    /// Lines that are shown before and after a match.
    pub context_lines: u64,
    /// A longer line is shown only in part by a search.
    pub max_line_chars: Chars,
}

impl RecallPolicy {
    /// An answer is never made shorter than this for a small window.
    const LEAST: Chars = Chars(3_000);

    /// The bounds for a model with that context window; an unknown window changes nothing.
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

/// How a parent's history becomes a child's digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ForkPolicy {
    /// Most chars the digest may have.
    pub char_budget: Chars,
    /// Up to here no message is removed.
    pub no_removal: Chars,
    /// How many of the newest tool results stay whole.
    pub tier1_count: u64,
    /// How many results after those are cut to the second tier's limit.
    pub tier2_count: u64,
    /// The second tier's limit.
    pub tier2_limit: Chars,
    /// The limit of all older results.
    pub tier3_limit: Chars,
    /// Chars of a call's input in the first tier.
    pub params_tier1: Chars,
    /// Chars of a call's input in the second tier.
    pub params_tier2: Chars,
    /// Chars of a call's input in the third tier.
    pub params_tier3: Chars,
    /// The head's share where head and tail are kept.
    pub head_ratio: f64,
    /// The tail's share.
    pub tail_ratio: f64,
    /// A result that contains one of these keeps its end too.
    pub error_patterns: Vec<String>,
    /// A tool whose name contains one of these keeps the end of its results too.
    pub head_tail_keywords: Vec<String>,
    /// A tool whose name contains one of these is never cut.
    pub uncut_tools: Vec<String>,
    /// How a cut is marked.
    pub cut_marker: CutMarker,
    /// Label a message in which only a host speaks as `Host` instead of `User`.
    pub label_host: bool,
    /// Most that the first tier's results may take together; longer ones are cut to one length. Without it they
    /// stay whole.
    pub newest_room: Option<Chars>,
    /// Where messages must be removed, so much of the user's own words among them stays. Without it they go too.
    pub words_room: Option<Chars>,
    /// No limit on a result falls below this when a digest is made smaller for its child, and no words of the user
    /// are cut below it.
    pub least_result: Chars,
    /// A digest for a child takes at most this share of what the child's line leaves beside its system prompt, its
    /// tools and its task; the rest is for its work.
    pub child_share: f64,
    /// A digest made smaller for its child begins with a summary of the removed messages in at most this share of its
    /// room; 0 for none.
    pub summary_share: f64,
    /// In a digest made smaller for its child, the first tier's results take at most this share together,
    pub newest_share: f64,
    /// and words of the user that would be removed this share.
    pub words_share: f64,
    /// A child that inherits the history itself starts at most at this share of its line; above it, a digest is
    /// used.
    pub history_share: f64,
    /// Which rules apply where the fork document and the needs of a child differ.
    pub rules: ForkRules,
}

impl ForkPolicy {
    /// The smallest digest that can hold its own tags, labels and markers.
    pub const LEAST_BUDGET: Chars = Chars(1_000);
}

/// Which rules a digest follows where the fork document and the needs of a child differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ForkRules {
    /// The document's. The budget is a number of chars, whatever the child's window is. Figures and preamble count the
    /// results of the second stage by tier, before the budget removes messages. A result that contains the placeholder
    /// passes unchanged.
    Document,
    /// The child's. A digest is made smaller for a child with a small window. Figures and preamble describe the delivered
    /// text. Only a result that consists of the placeholder counts as cleared.
    Fitted,
}

/// How the digest marks a cut result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CutMarker {
    /// `...[truncated N chars]...` where the text is missing; N is what is missing.
    Gap,
    /// `[Tool result truncated - original N chars]` before the text; N is what there was.
    Prefix,
}

/// Why something is not a policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// No preset has that name.
    #[error("there is no preset `{name}`; there are {known}")]
    UnknownPreset {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A field has the wrong type or is not known.
    #[error("`{field}`: {why}")]
    Field {
        /// The path of the field.
        field: String,
        /// What is wrong with it.
        why: String,
    },
    /// The text is not JSON.
    #[error("not valid JSON: {0}")]
    Json(String),
}

impl Policy {
    /// Check a policy.
    pub fn new(spec: PolicySpec) -> Result<Policy, PolicyError> {
        validate::check(&spec)?;
        Ok(Policy(spec))
    }

    /// The numbers and choices, to be changed and checked again.
    pub fn into_spec(self) -> PolicySpec {
        self.0
    }

    /// Read a policy file: a JSON object of overrides on top of the preset it names (`plimsoll` if none), or
    /// the guide's `TokenManagement` section on top of `openfork`.
    pub fn from_json(json: &str) -> Result<Policy, PolicyError> {
        let value = serde_json::from_str(json).map_err(|error| PolicyError::Json(error.to_string()))?;
        Policy::from_value(value)
    }

    /// As [`from_json`](Policy::from_json), from a value that was parsed before.
    pub fn from_value(value: Value) -> Result<Policy, PolicyError> {
        Overrides::from_value(value)?.policy()
    }

    /// The policy with what the environment overrides. The caller looks the variables up; the engine reads
    /// none. [`Setting::all`] tells which there are; OpenCode's own names count for the `opencode` presets.
    pub fn with_environment(self, lookup: impl Fn(&str) -> Option<String>) -> Result<Policy, PolicyError> {
        let settings = Setting::all(self.name.starts_with("opencode"), lookup)?;
        let mut merged = overrides::json(&self.0)?;
        overrides::merge(&mut merged, Value::Object(Setting::overrides(&settings).fields));
        overrides::checked(merged)
    }

    /// What is known about a model: the policy's own entry, else what the caller knows, else the defaults.
    pub fn limits(&self, model: &str, known: Option<Limits>) -> Limits {
        let overflow = &self.overflow;
        let defaults = Limits { context: overflow.default_context, input: None, output: Tokens::ZERO };
        overflow.models.get(model).copied().or(known).unwrap_or(defaults)
    }

    /// The JSON Schema of a policy file: any of the fields, on top of the preset it names.
    pub fn schema() -> Value {
        let mut schema = schemars::schema_for!(PolicySpec).to_value();
        nothing_required(&mut schema);
        let presets = Preset::ALL.map(Preset::name);
        let guide = schemars::schema_for!(guide::TokenManagement).to_value();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            let fork = properties.shift_remove("fork").unwrap_or_default();
            let named =
                json!({ "enum": ["tiered", "fitted", "uniform"], "description": "A named fork policy." });
            properties.insert("fork".into(), json!({ "anyOf": [fork, named] }));
            properties.insert(
                "preset".into(),
                json!({ "enum": presets, "default": "plimsoll", "description": "What this file builds on." }),
            );
            properties.insert("TokenManagement".into(), guide);
        }
        schema
    }
}

/// A policy file says only what it changes.
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
