//! `plimsoll sessions export`: a stored session as a transcript.

use std::process::ExitCode;

use plimsoll_import::{Extent, salvage, transcript};
use plimsoll_store::Filter;
use serde_json::json;

use super::Opened;
use crate::args::ExportArgs;
use crate::convert::Target;
use crate::error::CliError;
use crate::output::{Output, counted, note, printable};
use crate::progress::Progress;
use crate::surroundings::Surroundings;

/// The exit code of an export that is not all of the session as it was written.
const DAMAGED: u8 = 3;

/// Write a stored session, and say what has no place in the format.
pub(crate) fn export(
    args: &ExportArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let to = Target { format: args.to, out: args.out.as_deref(), force: args.force };
    to.check()?;
    let opened = Opened::usual(around)?;
    let session = opened.session(&args.id, around)?;
    let reading = format!("reading `{}`", session.id);
    let store = opened.archive.store();
    let (transcript, damage) = Progress::during(&reading, || -> Result<_, CliError> {
        if args.salvage {
            return Ok(salvage(store, &session)?);
        }
        opened.require_sound(&session.id)?;
        Ok((transcript(store, &session, Extent::Whole)?, Vec::new()))
    })?;
    let tasks = store.sessions(&Filter { parent: Some(session.id.clone()), ..Filter::default() })?;
    let receipts = store.receipts(&session.id, None, u64::MAX);
    // A salvage names those that cannot be read in the list of damage.
    let receipts = if args.salvage { receipts.unwrap_or_default() } else { receipts? };
    let spills = opened.spills(&session.id)?;
    let beside = [(tasks.len(), "task"), (receipts.len(), "receipt"), (spills.len(), "spilled output")];
    let beside = beside.into_iter().filter(|(count, _)| *count > 0);
    let lost: Vec<String> = beside.map(|(count, noun)| counted(count, noun)).collect();
    let done = to.write(&transcript, &lost, output)?;
    if output.json && to.out.is_some() {
        output.json(&json!({ "session": session.id, "damage": damage }))?;
    }
    if damage.is_empty() {
        return Ok(done);
    }
    output.flush()?;
    damage.iter().for_each(|damage| note(&printable(&damage.to_string())));
    note(&format!("{} in what was written", counted(damage.len(), "problem")));
    Ok(ExitCode::from(DAMAGED))
}
