//! `plimsoll sessions export`: a stored session as a transcript.

use std::process::ExitCode;

use plimsoll_import::{ImportError, OnDamage};
use plimsoll_store::Filter;
use serde_json::json;

use super::{Opened, damaged};
use crate::args::ExportArgs;
use crate::convert::{Target, Written, told_lost};
use crate::error::CliError;
use crate::output::{Output, counted, note, printable};
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
    let store = opened.archive.store();
    let on_damage = if args.salvage { OnDamage::Salvage } else { OnDamage::Refuse };
    let mut damage = Vec::new();
    to.write(output, |out| {
        let exported = plimsoll_import::export(store, &session, to.format, on_damage, out);
        let exported = exported.map_err(|error| match error {
            ImportError::Damaged { .. } => damaged(&error, &session.id),
            error => to.failed(error),
        })?;
        damage = exported.damage;
        let tasks = store.sessions(&Filter { parent: Some(session.id.clone()), ..Filter::default() })?;
        let receipts = store.receipts(&session.id, None, u64::MAX);
        // A salvage names those that cannot be read in the list of damage.
        let receipts = if args.salvage { receipts.unwrap_or_default() } else { receipts? };
        let spills = opened.spills(&session.id)?;
        let beside = [(tasks.len(), "task"), (receipts.len(), "receipt"), (spills.len(), "spilled output")];
        let beside = beside.into_iter().filter(|(count, _)| *count > 0);
        let beside = beside.map(|(count, noun)| counted(count, noun));
        let lost = exported.lost.iter().map(told_lost).chain(beside).collect();
        Ok(Written { messages: exported.written, of: exported.messages, lost })
    })?;
    if output.json && to.out.is_some() {
        output.json(&json!({ "session": session.id, "damage": damage }))?;
    }
    if damage.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    output.flush()?;
    damage.iter().for_each(|damage| note(&printable(&damage.to_string())));
    note(&format!("{} in what was written", counted(damage.len(), "problem")));
    Ok(ExitCode::from(DAMAGED))
}
