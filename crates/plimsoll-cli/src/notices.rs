//! Notices to the user about a run, with the commands of the chat or of the shell.
//!
//! Content that leaves the window is stored, so a notice never calls it lost (R106).

use plimsoll::Tokens;
use plimsoll_agent::tasks::TaskStatus;
use plimsoll_agent::{Event, McpChange, ReceiptFigures, ReductionKind, RunEnd, StopReason};
use serde_json::Value;

use crate::output::counted;

/// Input fields that describe a call best, in order of preference.
const SUBJECT_FIELDS: &str = "command path filePath url pattern handle search name description task_id";
/// Notice for a truncated output whose full text could not be stored.
const UNSTORED: &str = "the full text could not be stored";

/// The kind of commands that notices mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commands {
    /// Chat commands, such as `/undo`.
    Chat,
    /// Shell commands, such as `plimsoll undo`.
    Shell,
}

/// Formats what left the window, how much, and how to bring it back; `None` if nothing did.
pub(crate) fn reduction_notice(figures: &ReceiptFigures, commands: Commands) -> Option<String> {
    let freed = Tokens(figures.before.0.saturating_sub(figures.after.0));
    let count = usize::try_from(figures.items).unwrap_or(usize::MAX);
    let were = |noun: &str| format!("{} {}", counted(count, noun), if count == 1 { "was" } else { "were" });
    let without_model = if figures.without_model { " without a model" } else { "" };
    let receipt = &figures.receipt;
    let (recall, recall_any, undo) = match commands {
        Commands::Chat => (format!("/recall {receipt}"), "/recall".to_owned(), format!("/undo {receipt}")),
        Commands::Shell => {
            let recall = format!("plimsoll recall {receipt}");
            (recall.clone(), recall, format!("plimsoll undo {receipt}"))
        }
    };
    let shortened = format!("a long output was truncated for the model by {freed} tokens");
    Some(match figures.kind {
        // Layer 1 also removes binary content, which can make a short output longer.
        ReductionKind::Truncate if figures.kept && figures.after >= figures.before => {
            format!("an output is shown without its binary content; stored in full: `{recall}`")
        }
        ReductionKind::Truncate if figures.kept => format!("{shortened}; stored in full: `{recall}`"),
        ReductionKind::Truncate if figures.lost => {
            format!("{shortened} ({receipt}); {UNSTORED}: {}", figures.reason)
        }
        ReductionKind::Truncate => {
            format!("{shortened} ({receipt}); this policy does not store the full text")
        }
        ReductionKind::Prune => {
            format!("{} cleared, {freed} tokens; stored: `{recall_any}`, undo with `{undo}`", were("output"))
        }
        ReductionKind::Compact => format!(
            "{} summarised{without_model}, {freed} tokens; stored verbatim: `{recall_any}`, undo with `{undo}`",
            were("message")
        ),
        ReductionKind::Shed => format!(
            "{} shortened or cleared to make room, {freed} tokens; stored: `{recall_any}`, undo with `{undo}`",
            were("part")
        ),
        _ => return None,
    })
}

/// Formats an event other than answers and calls; `None` if it needs no line, or the caller shows it.
pub(crate) fn event_notice(event: &Event) -> Option<String> {
    match event {
        Event::Notice { text } => Some(text.clone()),
        // Full confinement needs no notice.
        Event::Confined { confinement, .. } if !confinement.is_whole() => Some(confinement.to_string()),
        Event::Retrying { wait_ms, error, .. } => {
            Some(format!("{error}; retrying in {:.1} s", *wait_ms as f64 / 1_000.0))
        }
        Event::Refused { window: Some(window) } => {
            Some(format!("the request was too long; the model's context window is {window} tokens"))
        }
        Event::Refused { window: None } => Some("the request was too long; reducing the context".to_owned()),
        Event::RefusedThoughts => Some(
            "the provider rejected earlier reasoning; it stays in the log and is no longer sent".to_owned(),
        ),
        Event::BrokenOff { error, .. } => Some(format!("the answer was interrupted: {error}")),
        Event::Repeating { tool, times } => Some(format!("{tool} returned the same result {times} times")),
        Event::Hooked { hook, event, outcome } => Some(format!("the hook `{hook}` ({event}) {outcome}")),
        Event::McpServer { change: McpChange::Started { .. }, .. } => None,
        Event::McpServer { server, change } => Some(format!("MCP server `{server}` {change}")),
        _ => None,
    }
}

/// Formats why a run ended before the model was done, and how to continue; `None` if the model was done.
pub(crate) fn end_notice(end: &RunEnd, commands: Commands) -> Option<String> {
    let (it, turn, resume, more) = match commands {
        Commands::Chat => {
            ("", "turn", "`/continue` resumes it, or send another prompt", "send \"continue\" for more")
        }
        Commands::Shell => (
            "it was ",
            "run",
            "`plimsoll run --continue` resumes it",
            "`plimsoll run --continue \"continue\"` asks for more",
        ),
    };
    let why = match end {
        RunEnd::Finished { reason } => {
            return match StopReason::of(reason) {
                StopReason::Filtered => Some(format!("the provider stopped the answer: {reason}")),
                StopReason::Cut => Some(format!("the answer reached the output limit; {more}")),
                _ => None,
            };
        }
        RunEnd::Steps => format!("stopped at the step limit of a {turn} (`--max-steps`)"),
        RunEnd::Tokens => format!("stopped at the token limit of a {turn} (`--max-tokens`)"),
        RunEnd::Cost => format!("stopped at the cost limit of a {turn} (`--max-cost`)"),
        RunEnd::StoppedByHook { .. } => "stopped by a hook after a compaction".to_owned(),
        RunEnd::Repeating { .. } => "stopped because it kept repeating itself".to_owned(),
        RunEnd::Cancelled if commands == Commands::Chat => "stopped; everything so far is stored".to_owned(),
        RunEnd::Cancelled => "interrupted".to_owned(),
        _ => "stopped".to_owned(),
    };
    Some(format!("{it}{why}; {resume}"))
}

/// Describes how a task ended, following its name.
pub(crate) fn task_end(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Completed => "has finished",
        TaskStatus::Error => "has failed",
        TaskStatus::Cancelled => "was cancelled",
        TaskStatus::Interrupted => "was interrupted",
        _ => "continues",
    }
}

/// Returns the input field that describes a call best, or the whole input.
pub(crate) fn call_subject(input: &Value) -> String {
    let subject = SUBJECT_FIELDS.split(' ').find_map(|field| input.get(field)?.as_str());
    subject.map_or_else(|| input.to_string(), str::to_owned)
}
