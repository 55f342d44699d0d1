//! `plimsoll receipts` and `plimsoll undo`: reductions of stored sessions, and undoing them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use plimsoll::{Receipt, ReceiptId};
use plimsoll_host::{Host, OpenStore, PlanContents, Undone, is_receipt_id, undone_by};
use serde_json::{Value, json};

use crate::args::ReceiptsArgs;
use crate::error::CommandResult;
use crate::output::{Holds, Output, Table, first_words, note, printable};
use crate::plans::Page;
use crate::when;

/// Maximum number of characters of a title that are shown with a session's id.
const TITLE: usize = 40;

/// Lists receipts, or shows one in full.
pub(crate) fn list(args: &ReceiptsArgs, host: &Host, output: &mut Output) -> CommandResult {
    let opened = host.open_default()?;
    if let Some(id) = args.id.as_deref().filter(|id| is_receipt_id(id)) {
        return one(&opened, id, output);
    }
    let session = opened.session_or_newest(args.id.as_deref(), host)?;
    let receipts = opened.receipts(&session.id)?;
    if output.json {
        let rows: Vec<Value> =
            receipts.iter().map(|receipt| as_json(receipt, undone_by(receipt, &receipts))).collect();
        output.json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    note(&format!("receipts of `{}`, {}", session.id, session.title));
    if receipts.is_empty() {
        note("no receipts: nothing was reduced yet");
        return Ok(ExitCode::SUCCESS);
    }
    output.table(&table(&receipts, &opened.short_receipt_ids(&receipts)?))?;
    Ok(ExitCode::SUCCESS)
}

fn one(opened: &OpenStore, id: &str, output: &mut Output) -> CommandResult {
    let (session, receipt) = opened.receipt(id)?;
    let receipts = opened.receipts(&session)?;
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
    let contents = PlanContents::stored(opened.archive.store(), &owner, std::slice::from_ref(&receipt))?;
    let page = Page { contents: &contents, width: output.width(), handles: true };
    output.painted(&page.receipt(&receipt, &about))?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(receipt: &Receipt, undone: Option<&ReceiptId>) -> Value {
    let mut value = json!(receipt);
    value["undoneBy"] = json!(undone);
    // In the form that `plimsoll recall` accepts.
    value["handles"] = json!(plimsoll_store::handles(receipt));
    value
}

fn table(receipts: &[Receipt], short: &BTreeMap<ReceiptId, String>) -> Table {
    let mut table = Table::of([
        ("RECEIPT", Holds::Names),
        ("AGE", Holds::Numbers),
        ("WHAT", Holds::Words(16)),
        ("BEFORE", Holds::Numbers),
        ("AFTER", Holds::Numbers),
        ("UNDONE BY", Holds::Names),
    ]);
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

/// Undoes a reduction: the given one, or the newest of a session.
pub(crate) fn undo(what: Option<&str>, force: bool, host: &Host, output: &mut Output) -> CommandResult {
    let Undone { session, receipt, undo, .. } = host.undo(what, force)?;
    if output.json {
        output.json(&json!({ "session": session.id, "undone": receipt.id, "receipt": undo }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (title, ago) = (receipt.plan.title(), when::ago(receipt.at));
    output.text(&printable(&format!("undone: {title} ({}, {ago})", receipt.id)))?;
    output.text(&printable(&format!("  session {}, {}", session.id, first_words(&session.title, TITLE))))?;
    output.text(&format!("  window  {} → {} tokens", undo.before, undo.after))?;
    output.text(&format!("  receipt {}", undo.id))?;
    Ok(ExitCode::SUCCESS)
}
