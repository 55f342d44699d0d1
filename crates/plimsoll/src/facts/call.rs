//! A common form for tool calls, whether the result is in the same part or in a later one, and their outcomes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::chars::{Chars, head, tail};
use crate::log::{Message, MessageId, Part, PartBody, ToolResultPart, ToolStatus};
use crate::pattern::Regex;
use crate::prose::{Pattern, WordList, words_of};

/// A tool call with its result.
pub(super) struct Call<'a> {
    /// The message of the call.
    pub(super) source: &'a MessageId,
    /// The tool's name in lower case.
    pub(super) tool: String,
    /// The input; null if the transcript does not have it.
    pub(super) input: &'a Value,
    /// The result.
    pub(super) result: &'a str,
    /// Structured data of the host about the result.
    pub(super) metadata: &'a Value,
    /// Outcome of the call.
    pub(super) outcome: Outcome,
    /// Number of the call in the history.
    pub(super) number: usize,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No failure reported.
    Ended,
    /// Failed, with the exit code if known.
    Failed(Option<i64>),
    /// Not finished.
    Open,
}

static NULL: Value = Value::Null;

/// Results that are separate from their calls, by call id.
#[derive(Default)]
pub(super) struct Results<'a>(BTreeMap<&'a str, &'a ToolResultPart>);

impl<'a> Results<'a> {
    /// Collects them in advance, because a result comes after its call.
    pub(super) fn collect(history: &[&'a Message]) -> Results<'a> {
        let parts = history.iter().flat_map(|message| &message.parts);
        let results = parts.filter_map(|part| match &part.body {
            PartBody::ToolResult(result) => Some((result.call_id.as_str(), result)),
            _ => None,
        });
        Results(results.collect())
    }
}

impl<'a> Call<'a> {
    /// Returns the call in a part, if there is one, with that number. `scan` is how much of each end of a result is
    /// read.
    pub(super) fn of(
        source: &'a MessageId,
        part: &'a Part,
        results: &Results<'a>,
        scan: Chars,
        number: usize,
    ) -> Option<Call<'a>> {
        match &part.body {
            PartBody::Tool(tool) => {
                let result = tool.state.result().map_or("", |text| text.as_str());
                let metadata =
                    ["metadata", "toolUseResult"].iter().find_map(|key| tool.state.extra.get(*key));
                let metadata = metadata.unwrap_or(&NULL);
                let outcome = match tool.state.status {
                    ToolStatus::Pending | ToolStatus::Running => Outcome::Open,
                    ToolStatus::Error => Outcome::Failed(exit_code(metadata, result, scan)),
                    ToolStatus::Completed | ToolStatus::Other(_) => judge(metadata, result, scan),
                };
                let input = tool.state.input.as_ref().map_or(&NULL, |input| input.value());
                Some(Call {
                    source,
                    tool: tool.tool.to_lowercase(),
                    input,
                    result,
                    metadata,
                    outcome,
                    number,
                })
            }
            PartBody::ToolCall(call) => {
                let result = results.0.get(call.call_id.as_str());
                let outcome = match result {
                    None => Outcome::Open,
                    Some(result) if result.is_error == Some(true) => {
                        Outcome::Failed(exit_code(&NULL, &result.text, scan))
                    }
                    Some(result) => judge(&NULL, &result.text, scan),
                };
                let result = result.map_or("", |result| result.text.as_str());
                let input = call.input.as_ref().map_or(&NULL, |input| input.value());
                let tool = call.tool.to_lowercase();
                Some(Call { source, tool, input, result, metadata: &NULL, outcome, number })
            }
            _ => None,
        }
    }

    /// Whether the call failed.
    pub(super) fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }

    /// Returns the value of the first of these input fields that is a string.
    pub(super) fn field(&self, keys: &[&str]) -> Option<&'a str> {
        keys.iter().find_map(|key| self.input.get(*key)?.as_str())
    }

    /// Whether the tool's name contains one of these words: `ask_user` contains `ask`, `task` does not.
    pub(super) fn is_named(&self, words: &[&str]) -> bool {
        is_named(&self.tool, words)
    }
}

/// Whether a tool's name, in lower case, contains one of these words.
pub(super) fn is_named(tool: &str, words: &[&str]) -> bool {
    tool.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word))
}

/// Beginnings of results that report a failure, in lower case, for hosts that have no field for it.
static FAILURES: WordList =
    WordList::new(|| words_of(include_str!("../../words/call/failures.txt")).collect());

/// Length of the beginning of a result that is searched for such a sentence, because hosts may add text before it.
const PREAMBLE: Chars = Chars(160);

fn judge(metadata: &Value, result: &str, scan: Chars) -> Outcome {
    match exit_code(metadata, result, scan) {
        Some(0) => Outcome::Ended,
        Some(code) => Outcome::Failed(Some(code)),
        None => {
            let start = head(result.trim_start(), PREAMBLE).to_lowercase();
            // Not in the list because its last space counts, and an editor would remove it.
            let said = start.starts_with("failed to ")
                || FAILURES.iter().any(|sign| start.starts_with(sign))
                || ["script failed", "script error:", "verification failed", "observation:\nerror"]
                    .iter()
                    .any(|sign| start.contains(sign));
            if said { Outcome::Failed(None) } else { Outcome::Ended }
        }
    }
}

/// The exit code of a process, from the host's fields or from the line that hosts write before or after the output.
fn exit_code(metadata: &Value, result: &str, scan: Chars) -> Option<i64> {
    static CODE: Pattern = Pattern::new(|| {
        Regex::new(
            r#"(?mi)(?:^exit code:? |^process exited with code |^command exited with code |"exit_code":\s*)(-?\d{1,6})"#,
        )
        .ok()
    });
    let noted = ["exit", "exit_code", "exitCode"].iter().find_map(|key| metadata.get(*key)?.as_i64());
    if noted.is_some() {
        return noted;
    }
    let code = |text: &str| CODE.as_ref()?.captures(text)?.get(1)?.as_str().parse().ok();
    let first = head(result, scan);
    // A short result was read completely.
    code(first).or_else(|| if first.len() < result.len() { code(tail(result, scan)) } else { None })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::none("done", Outcome::Ended)]
    #[case::claude("Exit code 2\nboom", Outcome::Failed(Some(2)))]
    #[case::codex("Exit code: 0\nWall time: 1 seconds\nOutput:\nok", Outcome::Ended)]
    #[case::unified(
        "Chunk ID: a\nWall time: 1\nProcess exited with code 101\nOutput:\n",
        Outcome::Failed(Some(101))
    )]
    #[case::pi("3 failed\n\nCommand exited with code 1", Outcome::Failed(Some(1)))]
    #[case::json(r#"{"output":"x","metadata":{"exit_code":0,"duration":1}}"#, Outcome::Ended)]
    #[case::script(
        "Script failed\nWall time 0.2 seconds\nOutput:\n\nScript error:\nno",
        Outcome::Failed(None)
    )]
    #[case::refused("The user doesn't want to proceed with this tool use.", Outcome::Failed(None))]
    #[case::source("const error: string;\nfailed to be a failure", Outcome::Ended)]
    fn outcomes_are_read_in_the_formats_of_hosts(#[case] result: &str, #[case] expected: Outcome) {
        assert_eq!(judge(&NULL, result, Chars(2_000)), expected);
    }

    #[test]
    fn fields_of_the_host_have_precedence() {
        assert_eq!(judge(&json!({ "exit": 0 }), "Exit code 3", Chars(100)), Outcome::Ended);
        assert_eq!(judge(&json!({ "exit_code": 3 }), "fine", Chars(100)), Outcome::Failed(Some(3)));
    }
}
