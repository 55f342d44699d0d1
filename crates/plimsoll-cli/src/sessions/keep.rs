//! Maintenance of the database: `plimsoll sessions gc`, `check` and `rm`.

use std::process::ExitCode;

use plimsoll_host::{Host, Removed, size};
use plimsoll_store::Session;
use serde_json::json;

use crate::args::CheckArgs;
use crate::error::CommandResult;
use crate::output::{Output, counted, note, printable};
use crate::when;

/// Removes expired spilled outputs and unreferenced files.
pub(super) fn gc(host: &Host, output: &mut Output) -> CommandResult {
    let opened = host.open_default()?;
    let swept = host.during("sweeping", || opened.archive.sweep(host.now()))?;
    if output.json {
        output.json(&swept)?;
        return Ok(ExitCode::SUCCESS);
    }
    for spill in &swept.expired {
        let (handle, tool) = (printable(&spill.handle), printable(&spill.tool));
        let (size, stored_at) = (size(spill.bytes), when::utc(spill.created));
        output.text(&format!(
            "expired: `{handle}` of session `{}`, {size} of {tool}, stored at {stored_at}",
            spill.session
        ))?;
    }
    output.text(&format!(
        "{} expired, {} removed, {} added to the index",
        counted(swept.expired.len(), "spilled output"),
        counted(swept.removed as usize, "file"),
        counted(swept.indexed as usize, "part")
    ))?;
    if swept.recorded > 0 {
        let recorded = counted(swept.recorded as usize, "record");
        output.text(&format!("{recorded} added that could not be written to the database before"))?;
    }
    if swept.freed > 0 {
        output.text(&format!("database shrunk by {}", size(swept.freed)))?;
    }
    if let Some(why) = &swept.unpurged {
        note(&format!("note: a purge is incomplete: {why}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks the database for damage.
pub(super) fn check(args: &CheckArgs, host: &Host, output: &mut Output) -> CommandResult {
    let opened = host.open_default()?;
    if args.accept_loss {
        let accepted = opened.archive.store().accept_losses()?;
        note(&match accepted {
            0 => "no loss to accept".to_owned(),
            1 => "1 loss accepted".to_owned(),
            _ => format!("{accepted} losses accepted"),
        });
    }
    let findings = host.during("checking", || opened.archive.check())?;
    let code = if findings.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) };
    if output.json {
        output.json(&findings)?;
        return Ok(code);
    }
    for problem in &findings.problems {
        output.text(&printable(problem))?;
    }
    let checked = [
        (findings.sessions, "session"),
        (findings.messages, "message"),
        (findings.parts, "part"),
        (findings.spills, "spilled output"),
    ];
    let checked = checked.map(|(count, noun)| counted(count as usize, noun)).join(", ");
    let result = match findings.problems.len() {
        0 => "no problems".to_owned(),
        count => counted(count, "problem"),
    };
    output.text(&format!("{result} in {checked}"))?;
    for call in &findings.open_calls {
        output.text(&printable(call))?;
    }
    if findings.unverified > 0 {
        let parts = counted(findings.unverified as usize, "part");
        output.text(&format!("{parts} not verified: an earlier version stored them without a checksum"))?;
    }
    if opened.archive.loss.is_some() && !args.accept_loss {
        note("hint: restore a backup, or run `plimsoll sessions check --accept-loss` to stop the warning");
    }
    Ok(code)
}

/// Removes sessions. All ids are resolved first, so that a wrong one removes nothing.
pub(super) fn rm(ids: &[String], force: bool, host: &Host, output: &mut Output) -> CommandResult {
    let opened = host.open_default()?;
    let mut sessions: Vec<Session> = Vec::new();
    for id in ids {
        let session = opened.session(id, host)?;
        if sessions.iter().all(|other| other.id != session.id) {
            sessions.push(session);
        }
    }
    let mut removed = Vec::new();
    for session in sessions {
        // Already removed as a task of an earlier one.
        let Some(Removed { session, tasks, spilled_bytes: bytes, .. }) =
            opened.remove(session, force, host)?
        else {
            continue;
        };
        if !output.json {
            let mut removed_content = vec![counted(session.messages as usize, "message")];
            removed_content.extend((tasks > 0).then(|| counted(tasks, "task")));
            removed_content.extend((bytes > 0).then(|| format!("{} of spilled output", size(bytes))));
            let title = match printable(&session.title) {
                title if title.is_empty() => title,
                title => format!(", {title}"),
            };
            output.text(&format!("removed `{}`{title}: {}", session.id, removed_content.join(", ")))?;
        }
        removed.push(
            json!({ "id": session.id, "messages": session.messages, "tasks": tasks, "spilledBytes": bytes }),
        );
    }
    if output.json {
        output.json(&removed)?;
    }
    Ok(ExitCode::SUCCESS)
}
