//! `plimsoll receipts` and `plimsoll undo`: what was done to stored sessions, and taking it back.

use std::process::ExitCode;

use plimsoll::{Fixed, Plan, Receipt, ReceiptId, SessionId};
use plimsoll_session::SessionError;
use plimsoll_store::StoreError;
use serde_json::{Value, json};

use crate::args::{PolicyArgs, ReceiptsArgs};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{Column, Holds, Output, Table, note, printable};
use crate::store::Opened;
use crate::surroundings::Surroundings;
use crate::when;

type Done = Result<ExitCode, CliError>;

/// So much of an id is shown at least: the time in it.
const ID: usize = "rcp_".len() + 12;

/// List receipts, or tell everything about one.
pub(crate) fn list(args: &ReceiptsArgs, around: &Surroundings, output: &mut Output) -> Done {
    let opened = Opened::usual(around)?;
    if let Some(id) = args.id.as_deref().filter(|id| id.starts_with("rcp_")) {
        return one(&opened, id, output);
    }
    let session = opened.chosen(args.id.as_deref(), around)?;
    let receipts = opened.archive.store().receipts(&session.id, None, u64::MAX)?;
    if output.json {
        let rows: Vec<Value> =
            receipts.iter().map(|receipt| as_json(receipt, undone_by(receipt, &receipts))).collect();
        output.json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    note(&format!("receipts of `{}`, {}", session.id, session.title));
    if receipts.is_empty() {
        note("nothing was done to it yet");
        return Ok(ExitCode::SUCCESS);
    }
    output.table(&table(&receipts))?;
    Ok(ExitCode::SUCCESS)
}

fn one(opened: &Opened, id: &str, output: &mut Output) -> Done {
    let (session, receipt) = find(opened, id)?;
    let receipts = opened.archive.store().receipts(&session, None, u64::MAX)?;
    let undone = undone_by(&receipt, &receipts);
    if output.json {
        let mut value = as_json(&receipt, undone);
        value["session"] = session.as_str().into();
        output.json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = receipt.detail();
    text.push_str(&format!("  session {session}\n  at      {}\n", when::utc(receipt.at)));
    if let Some(undone) = undone {
        text.push_str(&format!("  undone  by {undone}\n"));
    }
    output.text(&printable(text.trim_end()))?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(receipt: &Receipt, undone: Option<&ReceiptId>) -> Value {
    let mut value = json!(receipt);
    value["undoneBy"] = json!(undone);
    // As they are typed.
    value["handles"] = json!(plimsoll_store::handles(receipt));
    value
}

fn undone_by<'a>(receipt: &Receipt, all: &'a [Receipt]) -> Option<&'a ReceiptId> {
    all.iter().find(|other| other.undoes.as_ref() == Some(&receipt.id)).map(|other| &other.id)
}

fn table(receipts: &[Receipt]) -> Table {
    let columns = [
        ("RECEIPT", Holds::Names),
        ("AGE", Holds::Numbers),
        ("WHAT", Holds::Words(16)),
        ("BEFORE", Holds::Numbers),
        ("AFTER", Holds::Numbers),
        ("UNDONE BY", Holds::Names),
    ];
    let mut table = Table::new(columns.map(|(heading, holds)| Column { heading, holds }).to_vec());
    for receipt in receipts {
        let what = match &receipt.undoes {
            Some(_) => format!("undo {}", receipt.plan.title()),
            None => receipt.plan.title(),
        };
        table.row([
            short(&receipt.id, receipts),
            when::age_of(receipt.at),
            what,
            receipt.before.to_string(),
            receipt.after.to_string(),
            undone_by(receipt, receipts).map(|id| short(id, receipts)).unwrap_or_default(),
        ]);
    }
    table
}

/// As much of an id as tells it from the others.
fn short(id: &ReceiptId, all: &[Receipt]) -> String {
    let id = id.as_str();
    let ends = id.char_indices().map(|(at, _)| at).filter(|end| *end >= ID);
    let begins = |end: &usize| all.iter().filter(|other| other.id.as_str().starts_with(&id[..*end])).count();
    ends.into_iter().find(|end| begins(end) == 1).map_or(id, |end| &id[..end]).to_owned()
}

/// Undo a reduction.
pub(crate) fn undo(id: &str, force: bool, around: &Surroundings, output: &mut Output) -> Done {
    let config = Config::load(&PolicyArgs::default(), around)?;
    let opened = Opened::existing(&config, around)?;
    let (session, receipt) = find(&opened, id)?;
    if matches!(receipt.plan, Plan::Truncate(_)) {
        let handle = plimsoll_store::handles(&receipt).pop().unwrap_or_else(|| "HANDLE".to_owned());
        return Err(CliError::no(format!("`{}` is of an output that was cut as it came", receipt.id))
            .hint(format!("the whole of it is kept: `plimsoll recall {handle}` shows it")));
    }
    let mut driver = opened.driver(&opened.archive.store().session(&session)?, &config, force)?;
    let undone = match driver.undo(&receipt.id, Fixed::default()) {
        // It was undone before, and by what.
        Err(SessionError::Store(error @ StoreError::Undone { .. })) => {
            return Err(CliError::no(error.to_string()));
        }
        other => other?,
    };
    driver.close()?;
    if output.json {
        output.json(&json!({ "session": session, "receipt": undone }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output.text(&printable(&format!("undone: {}", receipt.plan.title())))?;
    output.text(&printable(&format!("  session {session}")))?;
    output.text(&format!("  window  {} → {} tokens", undone.before, undone.after))?;
    output.text(&format!("  receipt {}", undone.id))?;
    Ok(ExitCode::SUCCESS)
}

/// The receipt with this id, or the one that begins with it.
pub(crate) fn find(opened: &Opened, id: &str) -> Result<(SessionId, Receipt), CliError> {
    let store = opened.archive.store();
    match store.receipt(&ReceiptId::new(id)) {
        Err(StoreError::Missing { .. }) => {}
        other => return Ok(other?),
    }
    let mut found = Vec::new();
    for session in opened.sessions()?.into_iter().filter(|_| id.len() > "rcp_".len()) {
        let receipts = store.receipts(&session.id, None, u64::MAX)?.into_iter();
        let near = receipts.filter(|receipt| receipt.id.as_str().starts_with(id));
        found.extend(near.map(|receipt| (session.id.clone(), receipt)));
    }
    if found.len() > 1 {
        let list: Vec<String> = found
            .iter()
            .take(10)
            .map(|(_, receipt)| format!("\n  {}  {}", receipt.id, receipt.plan.title()))
            .collect();
        let message = format!("more than one receipt begins with `{id}`:{}", list.concat());
        return Err(CliError::usage(message).hint("give more of the id"));
    }
    found.pop().ok_or_else(|| {
        CliError::usage(format!("there is no receipt whose id begins with `{id}`"))
            .hint("`plimsoll receipts SESSION` lists those of a session")
    })
}

/// A receipt with everything it names, each once.
pub(crate) fn detail(receipt: &Receipt) -> String {
    let text = receipt.detail();
    let named = matches!(receipt.plan, Plan::Prune(_) | Plan::Shed(_));
    let lines = text.lines().filter(|line| !named || !line.starts_with("  recall  "));
    lines.collect::<Vec<_>>().join("\n")
}
