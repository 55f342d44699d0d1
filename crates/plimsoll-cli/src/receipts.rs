//! `plimsoll receipts` and `plimsoll undo`: what was done to stored sessions, and taking it back.

use std::collections::BTreeMap;
use std::process::ExitCode;

use plimsoll::{Plan, Receipt, ReceiptId, SessionId};
use plimsoll_session::SessionError;
use plimsoll_store::{Session, StoreError};
use serde_json::{Value, json};

use crate::args::{PolicyArgs, ReceiptsArgs};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{Column, Holds, Output, Table, first_words, note, printable};
use crate::plans::{Contents, Page};
use crate::store::Opened;
use crate::surroundings::Surroundings;
use crate::when;

type Done = Result<ExitCode, CliError>;

/// Least that is shown of an id: the time in it.
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
    output.table(&table(&receipts, &short_ids(&opened, &receipts)?))?;
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
    let mut about = vec![("session", session.to_string()), ("at", when::utc(receipt.at))];
    about.extend(undone.map(|undone| ("undone", format!("by {undone}"))));
    let owner = opened.archive.store().session(&session)?;
    let contents = Contents::stored(opened.archive.store(), &owner, std::slice::from_ref(&receipt))?;
    let page = Page { contents: &contents, width: output.width(), handles: true };
    output.painted(&page.receipt(&receipt, &about))?;
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

fn table(receipts: &[Receipt], short: &BTreeMap<ReceiptId, String>) -> Table {
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
            short_of(&receipt.id, short),
            when::age_of(receipt.at),
            what,
            receipt.before.to_string(),
            receipt.after.to_string(),
            undone_by(receipt, receipts).map(|id| short_of(id, short)).unwrap_or_default(),
        ]);
    }
    table
}

fn short_of(id: &ReceiptId, short: &BTreeMap<ReceiptId, String>) -> String {
    short.get(id).cloned().unwrap_or_else(|| id.to_string())
}

/// As much of each id as names one receipt in the whole database: any of them can be typed.
fn short_ids(opened: &Opened, receipts: &[Receipt]) -> Result<BTreeMap<ReceiptId, String>, CliError> {
    let store = opened.archive.store();
    let short = |id: &ReceiptId| -> Result<String, CliError> {
        let text = id.as_str();
        for (end, _) in text.char_indices().filter(|(end, _)| *end >= ID) {
            if store.receipts_like(&text[..end], 2)?.len() == 1 {
                return Ok(text[..end].to_owned());
            }
        }
        Ok(text.to_owned())
    };
    receipts.iter().map(|receipt| Ok((receipt.id.clone(), short(&receipt.id)?))).collect()
}

/// Undo a reduction: the one that is named, or the newest of a session.
pub(crate) fn undo(what: Option<&str>, force: bool, around: &Surroundings, output: &mut Output) -> Done {
    let config = Config::load(&PolicyArgs::default(), around)?;
    let opened = Opened::existing(&config, around)?;
    let (session, receipt) = match what.filter(|what| what.starts_with("rcp_")) {
        Some(id) => find(&opened, id)?,
        None => newest(&opened, &opened.chosen(what, around)?)?,
    };
    if matches!(receipt.plan, Plan::Truncate(_)) {
        let handle = plimsoll_store::handles(&receipt).pop().unwrap_or_else(|| "HANDLE".to_owned());
        return Err(CliError::no(format!("`{}` is of an output that was cut as it came", receipt.id))
            .hint(format!("the whole of it is kept: `plimsoll recall {handle}` shows it")));
    }
    let mut driver = opened.driver(&opened.archive.store().session(&session)?, &config, force)?;
    let undone = match driver.undo(&receipt.id) {
        // It was undone before, and by what.
        Err(SessionError::Store(error @ StoreError::Undone { .. })) => {
            return Err(CliError::no(error.to_string()));
        }
        other => other?,
    };
    driver.close()?;
    if output.json {
        output.json(&json!({ "session": session, "undone": receipt.id, "receipt": undone }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let title = opened.archive.store().session(&session)?.title;
    output.text(&printable(&format!(
        "undone: {} ({}, {})",
        receipt.plan.title(),
        receipt.id,
        ago(&receipt)
    )))?;
    output.text(&printable(&format!("  session {session}, {}", first_words(&title, TITLE))))?;
    output.text(&format!("  window  {} → {} tokens", undone.before, undone.after))?;
    output.text(&format!("  receipt {}", undone.id))?;
    Ok(ExitCode::SUCCESS)
}

/// Characters of a session's title that are shown with its id.
const TITLE: usize = 40;

fn ago(receipt: &Receipt) -> String {
    match when::age_of(receipt.at).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}

/// The newest receipt of a session that can be undone and was not.
fn newest(opened: &Opened, session: &Session) -> Result<(SessionId, Receipt), CliError> {
    let receipts = opened.archive.store().receipts(&session.id, None, u64::MAX)?;
    let is_open = |receipt: &&Receipt| receipt.can_undo() && undone_by(receipt, &receipts).is_none();
    let found = receipts.iter().rev().find(is_open).cloned();
    let found = found.map(|receipt| (session.id.clone(), receipt));
    found.ok_or_else(|| {
        CliError::no(format!("session `{}` has nothing to undo", session.id))
            .hint("name another session or a receipt: `plimsoll undo SESSION`, `plimsoll receipts SESSION`")
    })
}

/// The receipt with this id, or the one that begins with it.
pub(crate) fn find(opened: &Opened, id: &str) -> Result<(SessionId, Receipt), CliError> {
    let store = opened.archive.store();
    match store.receipt(&ReceiptId::new(id)) {
        Err(StoreError::Missing { .. }) => {}
        other => return Ok(other?),
    }
    // More than the prefix that all have in common.
    let known = id.len() > "rcp_".len();
    let mut found = Vec::new();
    for near in store.receipts_like(id, LISTED)?.into_iter().filter(|_| known) {
        found.push(store.receipt(&near)?);
    }
    if found.len() > 1 {
        let list: Vec<String> = found
            .iter()
            .map(|(_, receipt)| format!("\n  {}  {}", receipt.id, receipt.plan.title()))
            .collect();
        let message = format!("more than one receipt begins with `{id}`:{}", list.concat());
        return Err(CliError::usage(message).hint("give more of the id"));
    }
    found.pop().ok_or_else(|| {
        CliError::usage(format!("no receipt has an id that begins with `{id}`"))
            .hint("`plimsoll receipts SESSION` lists those of a session")
    })
}

/// Receipts that are listed if an id is ambiguous.
const LISTED: usize = 10;
