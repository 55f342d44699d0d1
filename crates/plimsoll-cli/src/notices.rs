//! What users are told about a run, wherever it is: in a chat with its commands, or by `plimsoll run` with those of a shell.
//!
//! What leaves the window is kept, and is never spoken of as lost (R106).

use plimsoll::Tokens;
use plimsoll_agent::tasks::TaskStatus;
use plimsoll_agent::{Event, McpChange, ReceiptFigures, ReductionKind, RunEnd, Stop};
use serde_json::Value;

use crate::output::counted;

/// Fields of a call's input that tell most about it.
const TELLING: &str = "command path filePath url pattern handle search name description task_id";
/// Notice for an output that was cut and could not be stored.
const UNSTORED: &str = "the whole could not be stored";

/// The commands that notices name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commands {
    /// Those of a chat, such as `/undo`.
    Chat,
    /// Those of a shell, such as `plimsoll undo`.
    Shell,
}

/// Says what left the window, how much, and how it comes back; `None` if nothing did.
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
    let shortened = format!("a long output was shortened for the model, by {freed} tokens");
    Some(match figures.kind {
        // Layer 1 also leaves out what is not text, which can make a short output longer.
        ReductionKind::Truncate if figures.kept && figures.after >= figures.before => {
            format!("an output is shown without what is no text; all of it is kept: `{recall}`")
        }
        ReductionKind::Truncate if figures.kept => format!("{shortened}; all of it is kept: `{recall}`"),
        ReductionKind::Truncate if figures.lost => {
            format!("{shortened} ({receipt}); {UNSTORED}: {}", figures.reason)
        }
        ReductionKind::Truncate => format!("{shortened} ({receipt}); this policy keeps no copy of it"),
        ReductionKind::Prune => {
            format!("{} set aside, {freed} tokens; kept: `{recall_any}`, back with `{undo}`", were("output"))
        }
        ReductionKind::Compact => format!(
            "{} summarised{without_model}, {freed} tokens; kept word for word: `{recall_any}`, back with `{undo}`",
            were("message")
        ),
        ReductionKind::Shed => format!(
            "{} shortened or set aside to make room, {freed} tokens; kept: `{recall_any}`, back with `{undo}`",
            were("part")
        ),
        ReductionKind::Other => return None,
    })
}

/// Says what happened besides answers and calls; `None` if it is not worth a line, or is said by the caller.
pub(crate) fn event_notice(event: &Event) -> Option<String> {
    match event {
        Event::Notice { text } => Some(text.clone()),
        // If nothing is unconfined, there is nothing to say.
        Event::Confined { confinement, .. } if !confinement.is_whole() => Some(confinement.to_string()),
        Event::Retrying { wait_ms, error, .. } => {
            Some(format!("{error}; trying again in {:.1} s", *wait_ms as f64 / 1_000.0))
        }
        Event::Refused { window: Some(window) } => {
            Some(format!("the request was too long: the model's window is {window} tokens"))
        }
        Event::Refused { window: None } => Some("the request was too long; making room".to_owned()),
        Event::RefusedThoughts => Some(
            "the provider refused earlier thoughts; they stay in the log and are no longer sent".to_owned(),
        ),
        Event::BrokenOff { error, .. } => Some(format!("the answer broke off: {error}")),
        Event::Repeating { tool, times } => Some(format!("{tool} gave the same result {times} times")),
        Event::Hooked { hook, event, outcome } => Some(format!("the hook `{hook}` ({event}) {outcome}")),
        Event::McpServer { change: McpChange::Started { .. }, .. } => None,
        Event::McpServer { server, change } => Some(format!("MCP server `{server}` {change}")),
        _ => None,
    }
}

/// Says why a run ended before the model was done, and how to continue; `None` if the model was done.
pub(crate) fn end_notice(end: &RunEnd, commands: Commands) -> Option<String> {
    let (it, turn, go_on, more) = match commands {
        Commands::Chat => {
            ("", "turn", "`/continue` goes on, or say something else", "say \"go on\" for more")
        }
        Commands::Shell => (
            "it was ",
            "run",
            "`plimsoll run --continue` goes on",
            "`plimsoll run --continue \"go on\"` asks for more",
        ),
    };
    let why = match end {
        RunEnd::Finished { reason } => {
            return match Stop::of(reason) {
                Stop::Filtered => Some(format!("the provider ended the answer: {reason}")),
                Stop::Cut => Some(format!("the answer reached its longest; {more}")),
                Stop::Done => None,
            };
        }
        RunEnd::Steps => format!("stopped at the most steps a {turn} may take (`--max-steps`)"),
        RunEnd::Tokens => format!("stopped at the most tokens a {turn} may use (`--max-tokens`)"),
        RunEnd::Cost => format!("stopped at the most a {turn} may cost (`--max-cost`)"),
        RunEnd::StoppedByHook { .. } => "stopped by a hook after a compaction".to_owned(),
        RunEnd::Repeating { .. } => "stopped because it repeated itself".to_owned(),
        RunEnd::Cancelled if commands == Commands::Chat => {
            "stopped; what was said and done is stored".to_owned()
        }
        RunEnd::Cancelled => "interrupted".to_owned(),
    };
    Some(format!("{it}{why}; {go_on}"))
}

/// How a task ended, in words that follow its name.
pub(crate) fn task_end(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Completed => "has finished",
        TaskStatus::Error => "has failed",
        TaskStatus::Cancelled => "was cancelled",
        TaskStatus::Interrupted => "was interrupted",
        TaskStatus::Queued | TaskStatus::Running | TaskStatus::Resumed => "goes on",
    }
}

/// The field of a call's input that tells most about it, or all of it.
pub(crate) fn call_subject(input: &Value) -> String {
    let telling = TELLING.split(' ').find_map(|field| input.get(field)?.as_str());
    telling.map_or_else(|| input.to_string(), str::to_owned)
}
