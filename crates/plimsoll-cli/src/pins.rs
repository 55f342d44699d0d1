//! `plimsoll pin`, `pins` and `unpin`: text of stored sessions that stays in the window verbatim.

use std::process::ExitCode;

use plimsoll::{Plan, Tokens};
use plimsoll_host::{Flags, Host, HostError, PlanContents};
use serde_json::json;

use crate::args::PinArgs;
use crate::error::CommandResult;
use crate::output::{Holds, Output, Table, note};
use crate::plans::Page;
use crate::receipts;

/// Pins a message, a part or text.
pub(crate) fn pin(args: &PinArgs, host: &Host, output: &mut Output) -> CommandResult {
    let config = host.config(&args.policy.flags())?;
    // The budget is a share of the session's window.
    let stored = host.stored_session(Some(&args.session), &config, args.policy.context)?;
    let receipt = stored.pin(&args.what, &config, args.force, host)?;
    if output.json {
        output.json(&json!({ "session": stored.session.id, "receipt": receipt }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let contents = PlanContents::default();
    let page = Page { contents: &contents, width: output.width(), handles: true };
    output.painted(&page.receipt(&receipt, &[]))?;
    output.flush()?;
    note(&format!("remove it with `plimsoll unpin {}`", receipt.id));
    Ok(ExitCode::SUCCESS)
}

/// Lists the pins of a session.
pub(crate) fn list(session: Option<&str>, host: &Host, output: &mut Output) -> CommandResult {
    let config = host.config(&Flags::default())?;
    let opened = host.open_store(&config)?;
    let session = opened.session_or_newest(session, host)?;
    let (pins, budget) = opened.pins(&session, &config)?;
    if output.json {
        output.json(&json!({ "session": session.id, "budget": budget, "pins": pins }))?;
        return Ok(ExitCode::SUCCESS);
    }
    note(&format!("pins of `{}`, {}", session.id, session.title));
    if pins.is_empty() {
        note("no pins; add one with `plimsoll pin SESSION TEXT`");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::of([
        ("RECEIPT", Holds::Names),
        ("MESSAGE", Holds::Names),
        ("TOKENS", Holds::Numbers),
        ("TEXT", Holds::Words(24)),
    ]);
    for pin in &pins {
        let line: String = pin.text.split_whitespace().collect::<Vec<_>>().join(" ");
        table.row([pin.receipt.to_string(), pin.message.to_string(), pin.tokens.to_string(), line]);
    }
    output.table(&table)?;
    output.flush()?;
    let total: Tokens = pins.iter().map(|pin| pin.tokens).sum();
    note(&format!("{total} of {budget} tokens"));
    Ok(ExitCode::SUCCESS)
}

/// Removes a pin.
pub(crate) fn unpin(receipt: &str, force: bool, host: &Host, output: &mut Output) -> CommandResult {
    let (_, found) = host.open_default()?.receipt(receipt)?;
    if !matches!(found.plan, Plan::Pin(_)) {
        let why = format!("receipt `{}` is not a pin: {}", found.id, found.plan);
        return Err(HostError::usage(why).hint("use `plimsoll undo` to undo a reduction"));
    }
    receipts::undo(Some(found.id.as_str()), force, host, output)
}
