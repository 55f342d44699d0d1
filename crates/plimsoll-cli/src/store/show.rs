//! `plimsoll sessions show`: what is known about a stored session, and its newest messages.

use std::process::ExitCode;

use plimsoll::truncate::format_bytes;
use plimsoll::{Message, PartBody};
use plimsoll_formats::Recorded;
use plimsoll_store::{
    CompactionRecord, Filter, PageRequest, Session, SpillRecord, Store, StoreError, Totals,
};
use serde::Serialize;

use super::Opened;
use crate::args::ShowArgs;
use crate::error::CliError;
use crate::output::{Output, counted, first_words, printable};
use crate::recorded::RecordedFigures;
use crate::surroundings::Surroundings;
use crate::when;

/// So much of a message is shown.
const WORDS: usize = 60;

/// A session and what hangs on it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(flatten)]
    session: Session,
    /// Sessions that were forked from it.
    forks: Vec<String>,
    /// Sessions that it started.
    tasks: Vec<String>,
    compactions: Vec<CompactionRecord>,
    receipts: usize,
    /// What its providers counted, with a cost by the prices of the models.
    recorded: RecordedFigures,
    spills: Vec<SpillRecord>,
    /// The newest, oldest of them first.
    newest: Vec<Message>,
}

/// Show a stored session.
pub(crate) fn show(
    args: &ShowArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let opened = Opened::usual(around)?;
    let session = opened.chosen(args.id.as_deref(), around)?;
    let shown = look(&opened, session, args.messages)?;
    if output.json {
        output.json(&shown)?;
    } else {
        output.report(&render(&shown, around))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn look(opened: &Opened, session: Session, messages: u64) -> Result<Shown, StoreError> {
    let store: &dyn Store = opened.archive.store();
    let is_fork = |other: &Session| other.forked_from.as_ref().is_some_and(|from| from.session == session.id);
    let forks =
        opened.sessions()?.iter().filter(|other| is_fork(other)).map(|fork| fork.id.to_string()).collect();
    let tasks = store.sessions(&Filter { parent: Some(session.id.clone()), ..Filter::default() })?;
    let mut newest = Vec::new();
    if messages > 0 {
        newest = store.page(&session.id, &PageRequest { most: messages, ..PageRequest::default() })?.messages;
        newest.reverse();
    }
    let mut recorded = Recorded::default();
    plimsoll_session::each_message(store, &session.id, &mut |message| recorded.add_message(&message))?;
    Ok(Shown {
        forks,
        tasks: tasks.iter().map(|task| task.id.to_string()).collect(),
        compactions: store.compactions(&session.id, None, u64::MAX)?,
        receipts: store.receipts(&session.id, None, u64::MAX)?.len(),
        recorded: RecordedFigures::at(&recorded, Some(session.created)),
        spills: opened.spills(&session.id)?,
        newest,
        session,
    })
}

fn render(shown: &Shown, around: &Surroundings) -> String {
    let session = &shown.session;
    let mut text = format!("{}\n", session.id);
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("  {name:<12}{}\n", first_words(value, 400)));
        }
    };
    row("title", &session.title);
    row("directory", &session.directory.as_ref().map(|own| around.short(own.as_ref())).unwrap_or_default());
    row("model", session.model.as_deref().unwrap_or_default());
    row("agent", session.agent.as_deref().unwrap_or_default());
    row("task of", &session.parent.as_ref().map(ToString::to_string).unwrap_or_default());
    let forked = session.forked_from.as_ref().map(|from| {
        let after = from.message.as_ref().map(|message| format!(" after {message}"));
        format!("{}{}", from.session, after.unwrap_or_default())
    });
    row("forked from", &forked.unwrap_or_default());
    row("created", &when::utc(session.created));
    row("updated", &format!("{}, {}", when::utc(session.updated), when::ago(session.updated)));
    row("messages", &plimsoll::Tokens(session.messages).to_string());
    row("usage", &usage(&session.usage));
    // As other commands tell it; what tools wrote of it themselves counts where a model has no price.
    if let Some(cost) = shown.recorded.cost.filter(|cost| *cost > 0.0) {
        row("cost", &format!("${cost:.4}"));
    }
    row("forks", &shown.forks.join(", "));
    row("tasks", &shown.tasks.join(", "));
    row("compactions", &compactions(&shown.compactions));
    if shown.receipts > 0 {
        row("receipts", &shown.receipts.to_string());
    }
    row("spills", &spills(&shown.spills));
    if !shown.newest.is_empty() {
        text.push_str("\nNewest messages\n");
    }
    for message in &shown.newest {
        let role = message.info.role.as_ref().map_or("message", plimsoll::Role::name);
        let time = message.info.time.as_ref().and_then(|time| time.created).map(when::utc);
        let time = time.unwrap_or_else(|| "–".to_owned());
        text.push_str(&format!("  {time:<20}  {:<9}  {}\n", printable(role), words(message)));
    }
    text.trim_end().to_owned()
}

fn usage(usage: &Totals) -> String {
    let parts = [
        ("input", usage.input),
        ("output", usage.output),
        ("reasoning", usage.reasoning),
        ("cache read", usage.cache_read),
        ("cache write", usage.cache_write),
    ];
    let counted = parts.iter().filter(|(_, tokens)| tokens.0 > 0);
    counted.map(|(name, tokens)| format!("{name} {tokens}")).collect::<Vec<_>>().join(", ")
}

fn compactions(all: &[CompactionRecord]) -> String {
    let aside = all.iter().filter(|one| one.set_aside.is_some()).count();
    match (all.len(), aside) {
        (0, _) => String::new(),
        (count, 0) => count.to_string(),
        (count, aside) => format!("{count}, {aside} of them undone"),
    }
}

fn spills(all: &[SpillRecord]) -> String {
    let (gone, there): (Vec<_>, Vec<_>) = all.iter().partition(|spill| spill.expired.is_some());
    let bytes: u64 = there.iter().map(|spill| spill.bytes).sum();
    match (there.len(), gone.len()) {
        (0, 0) => String::new(),
        (0, gone) => format!("{gone} expired"),
        (_, 0) => format!("{}, {}", there.len(), format_bytes(bytes)),
        (_, gone) => format!("{}, {}; {gone} expired", there.len(), format_bytes(bytes)),
    }
}

/// What a message says, or what it does where it says nothing.
fn words(message: &Message) -> String {
    let said = first_words(&message.text(), WORDS);
    if !said.is_empty() {
        return said;
    }
    let tools: Vec<&str> = message
        .parts
        .iter()
        .filter_map(|part| match &part.body {
            PartBody::Tool(tool) => Some(tool.tool.as_str()),
            PartBody::ToolCall(call) => Some(call.tool.as_str()),
            PartBody::ToolResult(result) => Some(result.tool.as_deref().unwrap_or("result")),
            PartBody::Compaction(_) => Some("compaction"),
            PartBody::Reasoning(_) => Some("thought"),
            _ => None,
        })
        .collect();
    match tools.as_slice() {
        [] => counted(message.parts.len(), "part"),
        tools => format!("[{}]", first_words(&tools.join("] ["), WORDS)),
    }
}
