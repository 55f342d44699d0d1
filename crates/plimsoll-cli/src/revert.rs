//! `plimsoll revert`: files as they were before a turn of a stored session.

use std::process::ExitCode;
use std::sync::Arc;

use plimsoll_agent::{
    RevertAction, RevertError, RevertReport, RevertTarget, RevertedTask, plan_revert, revert,
};
use serde_json::json;

use crate::args::{PolicyArgs, RevertArgs};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{Output, printable};
use crate::store::Opened;
use crate::surroundings::Surroundings;

/// So many chars of a call are shown.
const CALL: usize = 200;

/// Put files back, or tell what that would do.
pub(crate) fn run(
    args: &RevertArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let config = Config::load(&PolicyArgs::default(), around)?;
    let opened = Opened::existing(&config, around)?;
    let session = opened.chosen(args.session.as_deref(), around)?;
    let target = match (args.turn, args.undo) {
        (Some(turn), _) => RevertTarget::Turn(turn),
        (None, true) => RevertTarget::LastRevert,
        (None, false) => RevertTarget::LastTurn,
    };
    let report = if args.plan {
        plan_revert(&opened.archive, &session.id, target)
    } else {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut open = opened.open_unweighed(&session, &config, args.force).await?;
            let report = revert(&mut open, target, &(Arc::new(|_: &_| {}) as _)).await;
            open.close().await?;
            Ok::<_, CliError>(report)
        })?
    };
    let report = report.map_err(told)?;
    if output.json {
        let mut value = json!(report);
        value["plan"] = args.plan.into();
        output.json(&value)?;
    } else {
        output.text(&printable(&rendered(&report, args.plan)))?;
    }
    let is_whole = report.files.iter().all(|file| file.problem.is_none());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Why nothing was put back, for the person at the terminal.
pub(crate) fn told(error: RevertError) -> CliError {
    match error {
        RevertError::Nothing | RevertError::NoRevert => CliError::no(error.to_string()),
        RevertError::NoTurn { .. } => CliError::usage(error.to_string())
            .hint("turns are counted by your prompts: `plimsoll sessions show SESSION` has them"),
        RevertError::TasksAtWork(_) => CliError::no(error.to_string())
            .hint("wait for them, or end them: `plimsoll tasks cancel ID`, in a chat `/tasks cancel ID`"),
        RevertError::Session(error) => error.into(),
        RevertError::Internal(error) => CliError::failed(error),
    }
}

/// What was put back, what was not and why, and what nothing is known of.
pub(crate) fn rendered(report: &RevertReport, is_plan: bool) -> String {
    let is_whole = report.files.iter().all(|file| file.problem.is_none());
    let what = match (report.undoes_revert, is_plan, report.changes() || is_whole, is_whole) {
        (false, false, false, _) => "nothing was put back to what it was before",
        (false, true, false, _) => "nothing would be put back to what it was before",
        (true, false, false, _) => "nothing was taken back of the revert to before",
        (true, true, false, _) => "nothing would be taken back of the revert to before",
        (false, false, true, false) => "not all files are as they were before",
        (false, true, true, false) => "not all files would be as they were before",
        (true, false, true, false) => "taken back in part: the revert to before",
        (true, true, true, false) => "would take back in part: the revert to before",
        (false, false, true, true) => "files are as they were before",
        (false, true, true, true) => "files would be as they were before",
        (true, false, true, true) => "taken back: the revert to before",
        (true, true, true, true) => "would take back: the revert to before",
    };
    let mut text = format!("{what} turn {} of {}: {}\n", report.turn, report.session, report.prompt);
    for file in &report.files {
        let action = match file.action {
            RevertAction::Restored => "restored",
            RevertAction::Removed => "removed ",
            RevertAction::Left => "left    ",
        };
        text.push_str(&format!("  {action}  {}", file.path.display()));
        match (&file.problem, file.action) {
            (Some(problem), RevertAction::Left) => text.push_str(&format!(": {problem}")),
            // It goes back to what something else wrote, and no further.
            (Some(problem), _) => text.push_str(&format!(", not as far as the turn: {problem}")),
            (None, RevertAction::Left) => text.push_str(": it is so already"),
            (None, _) => {}
        }
        text.push('\n');
    }
    let (gone, there): (Vec<&RevertedTask>, Vec<&RevertedTask>) =
        report.tasks.iter().partition(|task| task.is_gone);
    for (tasks, words) in [
        (there, "with what these background tasks changed:"),
        (gone, "what these background tasks did is not known, their sessions are gone:"),
    ] {
        if !tasks.is_empty() {
            text.push_str(&format!("{words}\n"));
        }
        for task in tasks {
            let about: String = task.description.chars().take(CALL).collect();
            let at_work = match task.is_active && is_plan {
                true => " (still at work, which has to end first)",
                false => "",
            };
            text.push_str(&format!("  turn {}  {}  {about}{at_work}\n", task.turn, task.id));
        }
    }
    if !report.uncovered.is_empty() {
        text.push_str("what these calls did is not covered:\n");
        for call in &report.uncovered {
            let input: String = call.input.chars().take(CALL).collect();
            let rest = if input.len() < call.input.len() { " …" } else { "" };
            let by = call.task.as_ref().map(|task| format!(" of {task}")).unwrap_or_default();
            text.push_str(&format!("  turn {}  {}{by}  {input}{rest}\n", call.turn, call.tool));
        }
    }
    text.trim_end().to_owned()
}
