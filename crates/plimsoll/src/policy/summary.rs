//! Settings of summaries made without a model, and of the contract.

use serde::{Deserialize, Serialize};

use crate::chars::Chars;
use crate::tokens::Tokens;

/// Division of the room in a summary made without a model. Room that a section does not need goes to the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct SummaryPolicy {
    /// Share of the room for the user's own words.
    pub user_share: f64,
    /// Share of the room for findings and decisions.
    pub found_share: f64,
    /// Share of the room for the state of the work.
    pub standing_share: f64,
    /// Share of the room for changed files.
    pub files_share: f64,
    /// Share of the room for commands that build, test or run something.
    pub commands_share: f64,
    /// Share for todos in the state of the work. The rest of that section is for the last report.
    pub todos_share: f64,
    /// Share for unresolved failures in the state of the work.
    pub errors_share: f64,
    /// Share for the last commit and files changed since, in the state of the work.
    pub commit_share: f64,
    /// Share for the last steps in the state of the work.
    pub steps_share: f64,
    /// Share for names used in the last steps, in the state of the work.
    pub names_share: f64,
    /// Share of the room for an earlier summary that a model wrote. The other sections divide the rest.
    pub prior_share: f64,
    /// Room of the user's first message, which states the purpose, and of the newest one, relative to the other
    /// messages.
    pub ends_weight: f64,
    /// Share of the room for the user's words that is divided evenly among the messages. The rest goes to the most
    /// informative sentences of all messages.
    pub even_share: f64,
    /// Minimum length of a shown message of the user. With less room, its id is listed instead.
    pub min_words: Chars,
    /// Minimum number of consecutive lines that look like program output to count as pasted.
    pub paste_run: u64,
    /// Maximum number of lines that are kept of pasted text.
    pub pasted_lines: u64,
    /// Maximum length of a sentence or line that is not shortened.
    pub sentence_chars: Chars,
    /// Minimum length of a text in the middle of a turn that counts as a report.
    pub report_chars: Chars,
    /// Maximum number of sentences from one report.
    pub turn_sentences: u64,
    /// Share of common words from which a sentence counts as a duplicate of another.
    pub duplicate_share: f64,
    /// Share of the beginning in a report that has to be cut.
    pub report_head_share: f64,
    /// Number of calls in the last steps.
    pub last_steps: u64,
    /// Number of names from the last steps.
    pub last_names: u64,
    /// Maximum length of a command line.
    pub command_chars: Chars,
    /// Maximum length of a standing instruction. Longer sentences are not instructions.
    pub instruction_chars: Chars,
    /// Number of chars at each end of a tool result that are searched for the outcome of the call.
    pub result_chars: Chars,
}

/// Content that every summary must have, whether or not a model wrote it: standing instructions, open todos, open
/// errors, changed files. Missing content is appended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ContractPolicy {
    /// Whether summaries are checked and completed.
    pub enabled: bool,
    /// Maximum tokens that are appended to a summary.
    pub max_tokens: Tokens,
    /// Maximum size of the appended content as a share of the line.
    pub max_share: f64,
}

impl SummaryPolicy {
    /// The shares of the sections, by field.
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
    /// The shares within the state of the work, by field.
    pub(super) fn standing_shares(&self) -> [(&'static str, f64); 5] {
        [
            ("todosShare", self.todos_share),
            ("errorsShare", self.errors_share),
            ("commitShare", self.commit_share),
            ("stepsShare", self.steps_share),
            ("namesShare", self.names_share),
        ]
    }

    /// The share for the last report within the state of the work.
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
    /// Maximum tokens to append, given the line. Zero if summaries are not completed.
    pub fn budget(&self, line: Tokens) -> Tokens {
        if self.enabled { self.max_tokens.min(line.share(self.max_share)) } else { Tokens::ZERO }
    }
}
