//! `plimsoll sessions purge`: destroys content permanently. Without `--yes` it only shows what would be destroyed.

use std::process::ExitCode;

use plimsoll_host::{Host, HostError, PurgePlan};
use plimsoll_store::{PurgeReport, PurgeTarget};
use serde_json::json;

use crate::args::PurgeArgs;
use crate::error::CommandResult;
use crate::output::{Output, counted, note, printable};

/// Shows what would be destroyed, or destroys it.
pub(super) fn run(args: &PurgeArgs, host: &Host, output: &mut Output) -> CommandResult {
    let opened = host.open_default()?;
    let session = opened.session(&args.session, host)?.id;
    let target = match (&args.pattern, &args.part) {
        (Some(pattern), _) => PurgeTarget::Match(pattern.clone()),
        (None, Some(part)) => PurgeTarget::Part(part.as_str().into()),
        (None, None) => return Err(HostError::usage("nothing to destroy: pass `--match RE` or `--part ID`")),
    };
    let report = match opened.plan_purge(&session, &target, args.yes, host)? {
        PurgePlan::Found(report) => report,
        PurgePlan::Nothing(_, finished @ 1..) => {
            let purges = counted(finished as usize, "purge");
            output.text(&format!("finished {purges} interrupted earlier"))?;
            return Ok(ExitCode::SUCCESS);
        }
        PurgePlan::Nothing(report, _) => {
            if output.json {
                output.json(&json!({ "plan": report, "receipt": null }))?;
            }
            note(&format!("nothing in `{session}` matches"));
            return Ok(ExitCode::from(1));
        }
    };
    if !args.yes {
        if output.json {
            output.json(&json!({ "plan": report, "receipt": null }))?;
        } else {
            show(&report, output)?;
            output.flush()?;
        }
        note("nothing was destroyed; pass `--yes` to do it, which cannot be undone");
        return Ok(ExitCode::SUCCESS);
    }
    let receipt = opened.purge(&session, &target, args.force, host)?;
    if output.json {
        output.json(&json!({ "plan": report, "receipt": receipt }))?;
        return Ok(ExitCode::SUCCESS);
    }
    show(&report, output)?;
    output.text(&format!("{}: receipt `{}`", receipt.plan, receipt.id))?;
    Ok(ExitCode::SUCCESS)
}

fn show(report: &PurgeReport, output: &mut Output) -> Result<(), HostError> {
    for item in &report.items {
        let (handle, what) = (printable(&item.handle), printable(&item.what));
        let places = counted(item.places as usize, "place");
        output.text(&format!("{handle}  {what}, {places}, in `{}`", item.session))?;
    }
    if !report.sessions.is_empty() {
        let named: Vec<String> = report.sessions.iter().map(|session| format!("`{session}`")).collect();
        output.text(&format!("shared with {}; removed there too", named.join(", ")))?;
    }
    for copy in &report.copies {
        output.text(&format!("`{}`  whole backup made by an upgrade", copy.display()))?;
    }
    Ok(())
}
