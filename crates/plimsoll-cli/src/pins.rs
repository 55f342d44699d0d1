//! `plimsoll pin`, `pins` and `unpin`: text of stored sessions that stays in view word for word.

use std::process::ExitCode;

use plimsoll::log::Effect;
use plimsoll::pin;
use plimsoll::{Plan, ReceiptId};
use serde_json::json;

use crate::args::{PinArgs, PolicyArgs};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{Column, Holds, Output, Table, note};
use crate::plans::{Contents, Page};
use crate::receipts;
use crate::store::Opened;
use crate::surroundings::Surroundings;

type Done = Result<ExitCode, CliError>;

/// Pin a message, a part or some words.
pub(crate) fn pin(args: &PinArgs, around: &Surroundings, output: &mut Output) -> Done {
    let config = Config::load(&args.policy, around)?;
    let opened = Opened::existing(&config, around)?;
    let session = opened.chosen(Some(&args.session), around)?;
    // The budget is a share of the session's window.
    let limits = opened.limits(&session, &config, args.policy.context)?;
    let mut driver = opened.driver_within(&session, &config, args.force, limits)?;
    let target = driver.find_pin(&args.what)?;
    let receipt = driver.pin(&target)?;
    driver.close()?;
    let session = session.id;
    if output.json {
        output.json(&json!({ "session": session, "receipt": receipt }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let contents = Contents::default();
    let page = Page { contents: &contents, width: output.width(), handles: true };
    output.painted(&page.receipt(&receipt, &[]))?;
    output.flush()?;
    note(&format!("unpin it with `plimsoll unpin {}`", receipt.id));
    Ok(ExitCode::SUCCESS)
}

/// List what is pinned.
pub(crate) fn list(session: Option<&str>, around: &Surroundings, output: &mut Output) -> Done {
    let config = Config::load(&PolicyArgs::default(), around)?;
    let opened = Opened::existing(&config, around)?;
    let session = opened.chosen(session, around)?;
    let limits = opened.limits(&session, &config, None)?;
    let log = opened.archive.store().window(&session.id)?;
    let count = &config.policy.count;
    let budget = pin::budget(&config.policy, Some(limits));
    let mut rows = Vec::new();
    for (message, part, text) in pin::pins(&log) {
        let holds = |effect: &Effect| matches!(effect, Effect::Pin(pinned) if pinned == text);
        let mark = part.marks.iter().find(|mark| mark.is_active() && holds(&mark.effect));
        let receipt = mark.and_then(|mark| mark.receipt.clone()).unwrap_or_default();
        let tokens = plimsoll::Counter::count_text(count, text);
        rows.push((receipt, message.info.id.clone(), part.id.clone(), tokens, text.clone()));
    }
    if output.json {
        let pins: Vec<_> = rows
            .iter()
            .map(|(receipt, message, part, tokens, text)| {
                json!({ "receipt": receipt, "message": message, "part": part, "tokens": tokens, "text": text })
            })
            .collect();
        output.json(&json!({ "session": session.id, "budget": budget, "pins": pins }))?;
        return Ok(ExitCode::SUCCESS);
    }
    note(&format!("pins of `{}`, {}", session.id, session.title));
    if rows.is_empty() {
        note("nothing is pinned; `plimsoll pin SESSION TEXT` pins something");
        return Ok(ExitCode::SUCCESS);
    }
    let columns = [
        ("RECEIPT", Holds::Names),
        ("MESSAGE", Holds::Names),
        ("TOKENS", Holds::Numbers),
        ("TEXT", Holds::Words(24)),
    ];
    let mut table = Table::new(columns.map(|(heading, holds)| Column { heading, holds }).to_vec());
    let mut total = plimsoll::Tokens::ZERO;
    for (receipt, message, _, tokens, text) in rows {
        total += tokens;
        let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        table.row([receipt.to_string(), message.to_string(), tokens.to_string(), line]);
    }
    output.table(&table)?;
    output.flush()?;
    note(&format!("{total} of {budget} tokens"));
    Ok(ExitCode::SUCCESS)
}

/// Unpin what a receipt pinned.
pub(crate) fn unpin(receipt: &str, force: bool, around: &Surroundings, output: &mut Output) -> Done {
    let opened = Opened::usual(around)?;
    let (_, found) = receipts::find(&opened, receipt)?;
    if !matches!(found.plan, Plan::Pin(_)) {
        let why = format!("receipt `{}` pinned nothing: {}", found.id, found.plan);
        return Err(CliError::usage(why).hint("`plimsoll undo` undoes reductions"));
    }
    receipts::undo(Some(ReceiptId::as_str(&found.id)), force, around, output)
}
