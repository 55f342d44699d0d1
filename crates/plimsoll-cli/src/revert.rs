//! `plimsoll revert`: restores files to their state before a turn of a stored session.

use std::process::ExitCode;

use plimsoll_agent::{RevertAction, RevertReport, RevertTarget, RevertedTask};
use plimsoll_host::Host;
use serde_json::json;

use crate::args::RevertArgs;
use crate::error::CommandResult;
use crate::output::{Output, printable};

/// Maximum number of characters of a call that are shown.
const CALL: usize = 200;

/// Restores files, or shows what would be restored.
pub(crate) fn run(args: &RevertArgs, host: &Host, output: &mut Output) -> CommandResult {
    let target = match (args.turn, args.undo) {
        (Some(turn), _) => RevertTarget::Turn(turn),
        (None, true) => RevertTarget::LastRevert,
        (None, false) => RevertTarget::LastTurn,
    };
    let report = host.revert(args.session.as_deref(), target, args.plan, args.force)?;
    if output.json {
        let mut value = json!(report);
        value["plan"] = args.plan.into();
        output.json(&value)?;
    } else {
        output.text(&printable(&format_report(&report, args.plan)))?;
    }
    let is_whole = report.files.iter().all(|file| file.problem.is_none());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Formats which files were restored, which were not and why, and which calls have unknown effects.
pub(crate) fn format_report(report: &RevertReport, is_plan: bool) -> String {
    let is_whole = report.files.iter().all(|file| file.problem.is_none());
    let what = match (report.undoes_revert, is_plan, report.changes() || is_whole, is_whole) {
        (false, false, false, _) => "no file was restored to its state before",
        (false, true, false, _) => "no file would be restored to its state before",
        (true, false, false, _) => "nothing was undone of the revert to before",
        (true, true, false, _) => "nothing would be undone of the revert to before",
        (false, false, true, false) => "some files were restored to their state before",
        (false, true, true, false) => "some files would be restored to their state before",
        (true, false, true, false) => "partly undid the revert to before",
        (true, true, true, false) => "would partly undo the revert to before",
        (false, false, true, true) => "files are in their state before",
        (false, true, true, true) => "files would be in their state before",
        (true, false, true, true) => "undid the revert to before",
        (true, true, true, true) => "would undo the revert to before",
    };
    let mut text = format!("{what} turn {} of {}: {}\n", report.turn, report.session, report.prompt);
    for file in &report.files {
        let action = match file.action {
            RevertAction::Restored => "restored",
            RevertAction::Removed => "removed ",
            _ => "left    ",
        };
        text.push_str(&format!("  {action}  {}", file.path.display()));
        match (&file.problem, file.action) {
            (Some(problem), RevertAction::Left) => text.push_str(&format!(": {problem}")),
            // Restored to a version that something else wrote after the turn began.
            (Some(problem), _) => {
                text.push_str(&format!(", but not to its state before the turn: {problem}"));
            }
            (None, RevertAction::Left) => text.push_str(": already in that state"),
            (None, _) => {}
        }
        text.push('\n');
    }
    let (gone, existing): (Vec<&RevertedTask>, Vec<&RevertedTask>) =
        report.tasks.iter().partition(|task| task.is_gone);
    for (tasks, words) in [
        (existing, "including changes of these background tasks:"),
        (gone, "changes of these background tasks are unknown, because their sessions were removed:"),
    ] {
        if !tasks.is_empty() {
            text.push_str(&format!("{words}\n"));
        }
        for task in tasks {
            let about: String = task.description.chars().take(CALL).collect();
            let at_work = match task.is_active && is_plan {
                true => " (still running; it must end first)",
                false => "",
            };
            text.push_str(&format!("  turn {}  {}  {about}{at_work}\n", task.turn, task.id));
        }
    }
    if !report.uncovered.is_empty() {
        text.push_str("effects of these calls are unknown:\n");
        for call in &report.uncovered {
            let input: String = call.input.chars().take(CALL).collect();
            let rest = if input.len() < call.input.len() { " …" } else { "" };
            let by = call.task.as_ref().map(|task| format!(" of {task}")).unwrap_or_default();
            text.push_str(&format!("  turn {}  {}{by}  {input}{rest}\n", call.turn, call.tool));
        }
    }
    text.trim_end().to_owned()
}
