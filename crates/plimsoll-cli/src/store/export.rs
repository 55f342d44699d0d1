//! `plimsoll sessions export`: a stored session as a transcript.

use std::process::ExitCode;

use plimsoll_import::{Extent, transcript};
use plimsoll_store::Filter;

use super::Opened;
use crate::args::ExportArgs;
use crate::convert::Target;
use crate::error::CliError;
use crate::output::{Output, counted};
use crate::progress::Progress;
use crate::surroundings::Surroundings;

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
    let transcript = Progress::during(&reading, || transcript(store, &session, Extent::Whole))?;
    let tasks = store.sessions(&Filter { parent: Some(session.id.clone()), ..Filter::default() })?;
    let spills = opened.spills(&session.id)?;
    let beside = [
        (tasks.len(), "task"),
        (store.receipts(&session.id, None, u64::MAX)?.len(), "receipt"),
        (spills.len(), "spilled output"),
    ];
    let beside = beside.into_iter().filter(|(count, _)| *count > 0);
    let lost: Vec<String> = beside.map(|(count, noun)| counted(count, noun)).collect();
    to.write(&transcript, &lost, output)
}
