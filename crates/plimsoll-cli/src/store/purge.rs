//! `plimsoll sessions purge`: destroying content for good. It shows what it would destroy, and does so with `--yes` only.

use std::process::ExitCode;

use plimsoll_store::{PurgeReport, PurgeTarget, Purged, StoreError};
use serde_json::json;

use super::Opened;
use crate::args::PurgeArgs;
use crate::error::CliError;
use crate::output::{Output, counted, note, printable};
use crate::progress::Progress;
use crate::surroundings::Surroundings;
use crate::when;

/// Show what would be destroyed, or destroy it.
pub(crate) fn purge(
    args: &PurgeArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let opened = Opened::usual(around)?;
    let session = opened.session(&args.session, around)?;
    let target = match (&args.pattern, &args.part) {
        (Some(pattern), _) => PurgeTarget::Match(pattern.clone()),
        (None, Some(part)) => PurgeTarget::Part(part.as_str().into()),
        (None, None) => return Err(CliError::usage("name what to destroy: `--match RE` or `--part ID`")),
    };
    let planned = Progress::during("searching", || opened.archive.plan_purge(&session.id, &target));
    let report = planned.map_err(|error| match error {
        StoreError::Refused(why) => {
            // The last line says what is wrong, those before it draw it.
            let (first, last) = (why.lines().next().unwrap_or(&why), why.lines().last().unwrap_or(&why));
            let why = if first == last {
                why.clone()
            } else {
                format!("invalid pattern: {}", last.trim_start_matches("error: "))
            };
            CliError::usage(why)
        }
        error => error.into(),
    })?;
    if report.items.is_empty() {
        // One that was cut off by a kill has nothing left to match, and something left to be done.
        let finished = if args.yes { opened.archive.finish_purges(when::now())? } else { 0 };
        if finished > 0 {
            let purges = counted(finished as usize, "purge");
            output.text(&format!("finished {purges} that had been interrupted"))?;
            return Ok(ExitCode::SUCCESS);
        }
        if output.json {
            output.json(&json!({ "plan": report, "receipt": null }))?;
        }
        note(&format!("nothing in `{}` matches", session.id));
        return Ok(ExitCode::from(1));
    }
    if !args.yes {
        if output.json {
            output.json(&json!({ "plan": report, "receipt": null }))?;
        } else {
            show(&report, output)?;
            output.flush()?;
        }
        note("nothing was destroyed; `--yes` does it, and it cannot be undone");
        return Ok(ExitCode::SUCCESS);
    }
    let lease = opened.lease(&session.id, args.force).map_err(|error| {
        let is_leased = matches!(error, StoreError::Leased { .. });
        let error = CliError::from(error);
        if is_leased { error.hint("`--force` purges it all the same") } else { error }
    })?;
    if let Some(hit) = super::taken_from_living(&lease) {
        let session = &lease.session;
        note(&format!("note: `{session}` was being run by `{hit}`, which cannot write to it any more"));
    }
    let purged =
        Progress::during("destroying", || opened.archive.purge(&lease.claim(), &target, when::now()));
    opened.archive.store().release(&lease)?;
    let Purged { receipt, unfinished } = purged?;
    if let Some(why) = &unfinished {
        note(&format!("note: not finished: {why}"));
    }
    if output.json {
        output.json(&json!({ "plan": report, "receipt": receipt }))?;
        return Ok(ExitCode::SUCCESS);
    }
    show(&report, output)?;
    output.text(&format!("{}: receipt `{}`", receipt.plan, receipt.id))?;
    Ok(ExitCode::SUCCESS)
}

fn show(report: &PurgeReport, output: &mut Output) -> Result<(), CliError> {
    for item in &report.items {
        let (handle, what) = (printable(&item.handle), printable(&item.what));
        let places = counted(item.places as usize, "place");
        output.text(&format!("{handle}  {what}, {places}, in `{}`", item.session))?;
    }
    if !report.sessions.is_empty() {
        let named: Vec<String> = report.sessions.iter().map(|session| format!("`{session}`")).collect();
        output.text(&format!("shared with {}, which lose it too", named.join(", ")))?;
    }
    for copy in &report.copies {
        output.text(&format!("`{}`  copy from before an upgrade, as a whole", copy.display()))?;
    }
    Ok(())
}
