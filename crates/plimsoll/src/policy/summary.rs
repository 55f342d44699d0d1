//! Numbers of a summary made without a model, and of what every summary must carry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chars::Chars;
use crate::count::Tokens;

/// What a summary made without a model gives room to. Room that a section does not need goes to the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SummaryPolicy {
    /// The share of the room for the user's own words.
    pub user_share: f64,
    /// The share for what was found and decided.
    pub found_share: f64,
    /// The share for where the work stands.
    pub standing_share: f64,
    /// The share for files changed.
    pub files_share: f64,
    /// The share for commands that build, test or run.
    pub commands_share: f64,
    /// Of the room for where it stands, the share for todos; what these five leave is for the last report.
    pub todos_share: f64,
    /// Of the same, the share for what failed and was not mended.
    pub errors_share: f64,
    /// The share for the last commit and what was changed since.
    pub commit_share: f64,
    /// The share for the last steps.
    pub steps_share: f64,
    /// The share for the names used in them.
    pub names_share: f64,
    /// The share for an earlier summary that a model made; the sections above divide the rest.
    pub prior_share: f64,
    /// The first message of the user, which says what it is all about, and the newest, which is being worked on, get so many
    /// times the room of another.
    pub ends_weight: f64,
    /// This share of the room for the user's words is shared evenly among the messages; the rest is for the sentences among
    /// all of them that tell most of what is wanted.
    pub even_share: f64,
    /// A message of the user is shown with at least this much, or left out and named.
    pub min_words: Chars,
    /// So many lines in a row that look like the output of a program are taken for pasted.
    pub paste_run: u64,
    /// So many lines stay of what was pasted.
    pub pasted_lines: u64,
    /// Longest sentence or line that is picked out whole.
    pub sentence_chars: Chars,
    /// A text of the agent in the middle of its work is taken for a report from this length on.
    pub report_chars: Chars,
    /// At most so many sentences are picked from one report.
    pub turn_sentences: u64,
    /// A sentence that shares this much of its words with one already picked is left out.
    pub duplicate_share: f64,
    /// Of a report that has to be cut, this share of what is kept is its beginning.
    pub report_head_share: f64,
    /// So many of the newest calls are told as the last steps.
    pub last_steps: u64,
    /// So many of the names used in them are told.
    pub last_names: u64,
    /// Longest command line.
    pub command_chars: Chars,
    /// Longest sentence that is taken for a standing instruction.
    pub instruction_chars: Chars,
    /// How much of each end of a tool's result is looked at to tell how the call ended.
    pub result_chars: Chars,
}

/// What every summary must carry, by a model or without: standing instructions, open todos, open errors, files changed.
/// What it lacks is appended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ContractPolicy {
    /// Whether summaries are checked and completed.
    pub enabled: bool,
    /// Most that is appended to a summary,
    pub max_tokens: Tokens,
    /// and at most this share of the line.
    pub max_share: f64,
}

impl SummaryPolicy {
    /// The shares of the sections, by the names of their fields.
    pub(super) fn shares(&self) -> [(&'static str, f64); 5] {
        [
            ("userShare", self.user_share),
            ("foundShare", self.found_share),
            ("standingShare", self.standing_share),
            ("filesShare", self.files_share),
            ("commandsShare", self.commands_share),
        ]
    }
}

impl SummaryPolicy {
    /// The shares within the section that tells where it stands, by the names of their fields.
    pub(super) fn standing_shares(&self) -> [(&'static str, f64); 5] {
        [
            ("todosShare", self.todos_share),
            ("errorsShare", self.errors_share),
            ("commitShare", self.commit_share),
            ("stepsShare", self.steps_share),
            ("namesShare", self.names_share),
        ]
    }

    /// What is left of that section for the last report.
    pub(crate) fn report_share(&self) -> f64 {
        1.0 - self.standing_shares().iter().map(|(_, share)| share).sum::<f64>()
    }
}

impl Default for SummaryPolicy {
    fn default() -> SummaryPolicy {
        SummaryPolicy {
            user_share: 0.42,
            found_share: 0.28,
            standing_share: 0.14,
            files_share: 0.12,
            commands_share: 0.04,
            todos_share: 0.27,
            errors_share: 0.07,
            commit_share: 0.12,
            steps_share: 0.12,
            names_share: 0.10,
            prior_share: 0.30,
            ends_weight: 3.0,
            even_share: 0.75,
            min_words: Chars(48),
            paste_run: 3,
            pasted_lines: 3,
            sentence_chars: Chars(240),
            report_chars: Chars(400),
            turn_sentences: 12,
            duplicate_share: 0.7,
            report_head_share: 0.3,
            last_steps: 60,
            last_names: 200,
            command_chars: Chars(160),
            instruction_chars: Chars(500),
            result_chars: Chars(2_000),
        }
    }
}

impl Default for ContractPolicy {
    fn default() -> ContractPolicy {
        ContractPolicy { enabled: true, max_tokens: Tokens(1_000), max_share: 0.1 }
    }
}

impl ContractPolicy {
    /// Most that may be appended where the line is at `line`; nothing if summaries are not completed.
    pub fn budget(&self, line: Tokens) -> Tokens {
        if self.enabled { self.max_tokens.min(line.share(self.max_share)) } else { Tokens::ZERO }
    }
}
