//! `plimsoll pin`, `pins` and `unpin`: text of stored sessions that stays in view word for word.

use std::process::ExitCode;

use plimsoll::count::request_tokens;
use plimsoll::log::Effect;
use plimsoll::pin::{self, PinTarget};
use plimsoll::{
    Fixed, Limits, Log, Message, MessageId, Millis, PartId, Plan, Receipt, ReceiptId, Reduction, SessionId,
    Window,
};
use plimsoll_store::{Ask, Claim, Search, StoreError};
use serde_json::json;

use crate::args::{PinArgs, PolicyArgs};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{Column, Holds, Output, Table, note, printable};
use crate::receipts;
use crate::store::{self, Opened};
use crate::surroundings::Surroundings;

type Done = Result<ExitCode, CliError>;

/// Pin a message, a part or some words.
pub(crate) fn pin(args: &PinArgs, around: &Surroundings, output: &mut Output) -> Done {
    let config = Config::load(&args.policy, around)?;
    let opened = Opened::existing(&config, around)?;
    let session = opened.chosen(Some(&args.session), around)?.id;
    let receipt =
        opened.with_lease(&session, |claim, now| pinned(&opened, claim, &args.what, &config, now))?;
    if output.json {
        output.json(&json!({ "session": session, "receipt": receipt }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output.text(&printable(&receipts::detail(&receipt)))?;
    output.flush()?;
    note(&format!("unpin it with `plimsoll unpin {}`", receipt.id));
    Ok(ExitCode::SUCCESS)
}

fn pinned(
    opened: &Opened,
    claim: &Claim,
    what: &str,
    config: &Config,
    now: Millis,
) -> Result<Receipt, CliError> {
    let (store, policy) = (opened.archive.store(), &config.policy);
    let (mut log, target) = find(opened, &claim.session, what)?;
    let limits = policy.limits("", Some(Limits::new(config.context, 0)));
    let plan = pin::plan(&log, &target, policy, Some(limits), &policy.count)
        .map_err(|error| CliError::no(error.to_string()))?;
    let weigh = |log: &Log| request_tokens(&Window::of(log, policy), Fixed::default(), &policy.count);
    let receipt = plan.apply(&mut log, &mut store::ids(), now, policy, weigh)?;
    let reduction = Reduction { receipts: vec![receipt.clone()], ..Reduction::default() };
    // The lease is held since before the window was read.
    store.reduce(claim, reduction, None, now)?;
    Ok(receipt)
}

/// What is in view and, if it is not among that, the message that is meant; and what is to be pinned of it.
fn find(opened: &Opened, session: &SessionId, what: &str) -> Result<(Log, PinTarget), CliError> {
    let store = opened.archive.store();
    let window = store.window(session)?.log;
    let message = |id: &MessageId| match store.message(session, id) {
        Err(StoreError::Missing { .. }) => Ok(None),
        other => other.map(Some),
    };
    if let Some(found) = message(&MessageId::new(what))? {
        return Ok((with(&window, found), PinTarget::Message(MessageId::new(what))));
    }
    let part = PartId::new(what);
    if window.part(&part).is_ok() {
        return Ok((window, PinTarget::Part(part)));
    }
    let words = PinTarget::Words(what.to_owned());
    if window.iter().any(|message| message.text().contains(what)) {
        return Ok((window, words));
    }
    // Out of view: the newest message that says it, or that has the part of that name.
    // The beginning tells enough: patterns have a limit.
    let pattern = plimsoll::chars::head(what, plimsoll::Chars(200)).to_owned();
    let search = Search { pattern, literal: true, ..Search::default() };
    let ask = Ask { lines: None, search: Some(search), most_bytes: 1 << 20, most_matches: 10_000 };
    let hits = store.search(session, &ask)?;
    let newest = hits.iter().rev().find_map(|hit| hit.message.clone());
    match newest.map(|id| message(&id)).transpose()?.flatten() {
        Some(found) => Ok((with(&window, found), words)),
        None if store.part(session, &part).is_ok() => {
            let why = format!("part `{what}` is out of view");
            Err(CliError::usage(why).hint("pin its message: `plimsoll recall` names it"))
        }
        None => Ok((window, words)),
    }
}

/// The window's messages with one more before them.
fn with(window: &Log, message: Message) -> Log {
    if window.place(&message.info.id).is_ok() {
        return window.clone();
    }
    Log::from_messages(std::iter::once(message).chain(window.messages().iter().cloned()))
}

/// List what is pinned.
pub(crate) fn list(session: Option<&str>, around: &Surroundings, output: &mut Output) -> Done {
    let config = Config::load(&PolicyArgs::default(), around)?;
    let opened = Opened::existing(&config, around)?;
    let session = opened.chosen(session, around)?;
    let log = opened.archive.store().window(&session.id)?.log;
    let count = &config.policy.count;
    let limits = config.policy.limits("", Some(Limits::new(config.context, 0)));
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
pub(crate) fn unpin(receipt: &str, around: &Surroundings, output: &mut Output) -> Done {
    let opened = Opened::usual(around)?;
    let (_, found) = receipts::find(&opened, receipt)?;
    if !matches!(found.plan, Plan::Pin(_)) {
        let why = format!("receipt `{}` pinned nothing: {}", found.id, found.plan);
        return Err(CliError::usage(why).hint("`plimsoll undo` undoes reductions"));
    }
    receipts::undo(ReceiptId::as_str(&found.id), around, output)
}
