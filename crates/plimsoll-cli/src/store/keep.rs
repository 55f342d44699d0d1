//! Keeping the database in order: `plimsoll sessions gc`, `check` and `rm`.

use std::process::ExitCode;

use plimsoll::SessionId;
use plimsoll::truncate::format_bytes;
use plimsoll_store::{Filter, Session, StoreError};
use serde_json::json;

use super::{Opened, taken_from_living};
use crate::args::CheckArgs;
use crate::error::CliError;
use crate::output::{Output, counted, note, printable};
use crate::progress::Progress;
use crate::surroundings::Surroundings;
use crate::when;

/// Let go of what is too old or too much, and of what nobody needs.
pub(crate) fn gc(around: &Surroundings, output: &mut Output) -> Result<ExitCode, CliError> {
    let opened = Opened::usual(around)?;
    let swept = Progress::during("sweeping", || opened.archive.sweep(when::now()))?;
    if output.json {
        output.json(&swept)?;
        return Ok(ExitCode::SUCCESS);
    }
    for spill in &swept.expired {
        let (handle, tool) = (printable(&spill.handle), printable(&spill.tool));
        let (size, kept) = (format_bytes(spill.bytes), when::utc(spill.created));
        output.text(&format!(
            "expired: `{handle}` of session `{}`, {size} of {tool}, kept at {kept}",
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
        output.text(&format!("{recorded} entered that the database could not take before"))?;
    }
    if swept.freed > 0 {
        output.text(&format!("the database is {} smaller", format_bytes(swept.freed)))?;
    }
    if let Some(why) = &swept.unpurged {
        note(&format!("note: a purge is not finished: {why}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Look for damage.
pub(crate) fn check(
    args: &CheckArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let opened = Opened::usual(around)?;
    if args.accept {
        let accepted = opened.archive.store().accept_losses()?;
        note(&match accepted {
            0 => "there is no loss to accept".to_owned(),
            1 => "1 loss accepted".to_owned(),
            _ => format!("{accepted} losses accepted"),
        });
    }
    let findings = Progress::during("checking", || opened.archive.check())?;
    let code = if findings.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) };
    if output.json {
        output.json(&findings)?;
        return Ok(code);
    }
    for problem in &findings.problems {
        output.text(&printable(problem))?;
    }
    let looked = [
        (findings.sessions, "session"),
        (findings.messages, "message"),
        (findings.parts, "part"),
        (findings.spills, "spilled output"),
    ];
    let looked = looked.map(|(count, noun)| counted(count as usize, noun)).join(", ");
    let verdict = match findings.problems.len() {
        0 => "no problems".to_owned(),
        count => counted(count, "problem"),
    };
    output.text(&format!("{verdict} in {looked}"))?;
    if findings.unverified > 0 {
        let parts = counted(findings.unverified as usize, "part");
        output.text(&format!("{parts} not verified: an earlier version stored them without a checksum"))?;
    }
    if opened.archive.loss.is_some() && !args.accept {
        note("hint: restore a backup if there is one; `plimsoll sessions check --accept` ends the warning");
    }
    Ok(code)
}

/// Remove sessions. All of them are looked up first, so that a slip removes none.
pub(crate) fn rm(
    ids: &[String],
    force: bool,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let opened = Opened::usual(around)?;
    let mut sessions: Vec<Session> = Vec::new();
    for id in ids {
        let session = opened.session(id, around)?;
        if sessions.iter().all(|other| other.id != session.id) {
            sessions.push(session);
        }
    }
    let mut removed = Vec::new();
    for session in &sessions {
        // It may have gone as a task of one before it.
        let spills = match opened.spills(&session.id) {
            Err(StoreError::Missing { .. }) => continue,
            other => other?,
        };
        let lease = opened.lease(&session.id, force).map_err(with_force)?;
        let mut running = vec![lease.clone()];
        let tasks = tasks(&opened, session)?;
        // A task that is run is left alone, or taken from its holder as well.
        for task in tasks.iter().filter(|_| force) {
            running.push(opened.lease(task, force)?);
        }
        for lease in &running {
            if let Some(hit) = taken_from_living(lease) {
                note(&format!(
                    "note: `{}` was being run by `{hit}`, which cannot write to it any more",
                    lease.session
                ));
            }
        }
        running.iter().skip(1).try_for_each(|lease| opened.archive.store().release(lease))?;
        let tasks = tasks.len();
        let bytes: u64 = spills.iter().filter(|spill| spill.expired.is_none()).map(|spill| spill.bytes).sum();
        let removal = opened.archive.remove(&lease.claim(), when::now());
        opened.archive.store().release(&lease)?;
        removal.map_err(with_force)?;
        if !output.json {
            let mut gone = vec![counted(session.messages as usize, "message")];
            gone.extend((tasks > 0).then(|| counted(tasks, "task")));
            gone.extend((bytes > 0).then(|| format!("{} of spilled output", format_bytes(bytes))));
            let title = match printable(&session.title) {
                title if title.is_empty() => title,
                title => format!(", {title}"),
            };
            output.text(&format!("removed `{}`{title}: {}", session.id, gone.join(", ")))?;
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

/// The tasks of a session, and theirs in turn.
fn tasks(opened: &Opened, session: &Session) -> Result<Vec<SessionId>, StoreError> {
    let filter = Filter { parent: Some(session.id.clone()), ..Filter::default() };
    let mut found = Vec::new();
    for task in opened.archive.store().sessions(&filter)? {
        found.extend(tasks(opened, &task)?);
        found.push(task.id);
    }
    Ok(found)
}

/// What to do about a session that another process runs.
fn with_force(error: StoreError) -> CliError {
    let is_leased = matches!(error, StoreError::Leased { .. });
    let error = CliError::from(error);
    if is_leased { error.hint("`--force` removes it all the same") } else { error }
}
