//! `plimsoll sessions export`: a stored session as a transcript.

use std::process::ExitCode;

use plimsoll_host::Host;
use plimsoll_import::OnDamage;
use serde_json::json;

use crate::args::ExportArgs;
use crate::convert::Target;
use crate::error::CommandResult;
use crate::output::{Output, counted, note, printable};

/// Exit code of an export with damage.
const DAMAGED: u8 = 3;

/// Exports a stored session and reports what the format cannot represent.
pub(super) fn run(args: &ExportArgs, host: &Host, output: &mut Output) -> CommandResult {
    let to = Target::new(args.to, args.out.as_deref(), args.force)?;
    let opened = host.open_default()?;
    let session = opened.session(&args.id, host)?;
    let on_damage = if args.salvage { OnDamage::Salvage } else { OnDamage::Refuse };
    let damage = to.write(host, output, |out| opened.export(&session, args.to, on_damage, out))?.damage;
    if output.json && to.out.is_some() {
        output.json(&json!({ "session": session.id, "damage": damage }))?;
    }
    if damage.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    output.flush()?;
    damage.iter().for_each(|damage| note(&printable(&damage.to_string())));
    note(&format!("{} in the exported session", counted(damage.len(), "problem")));
    Ok(ExitCode::from(DAMAGED))
}
