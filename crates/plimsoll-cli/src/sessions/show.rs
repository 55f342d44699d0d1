//! `plimsoll sessions show`: details of a stored session, and its newest messages.

use std::process::ExitCode;

use plimsoll::{Message, PartBody, Role, Tokens};
use plimsoll_host::{Host, SessionDetails, dollars, size};
use plimsoll_session::ContentKind;
use plimsoll_store::{CompactionRecord, SpillRecord};

use crate::args::ShowArgs;
use crate::error::CommandResult;
use crate::figures::{SMALL, usage_text};
use crate::output::{Output, counted, first_words, printable};
use crate::when;

/// Maximum number of characters of a message that are shown.
const WORDS: usize = 60;

/// Shows a stored session.
pub(super) fn run(args: &ShowArgs, host: &Host, output: &mut Output) -> CommandResult {
    let opened = host.open_default()?;
    let session = opened.session_or_newest(args.id.as_deref(), host)?;
    let details = opened.details(session, args.messages)?;
    if output.json {
        output.json(&details)?;
    } else {
        output.report(&render(&details, host))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(shown: &SessionDetails, host: &Host) -> String {
    let session = &shown.session;
    let mut text = format!("{}\n", session.id);
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("  {name:<12}{}\n", first_words(value, 400)));
        }
    };
    row("title", &session.title);
    row("directory", &session.directory.as_ref().map(|own| host.short(own.as_ref())).unwrap_or_default());
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
    row("messages", &Tokens(session.messages).to_string());
    let usage = &session.usage;
    let usage = [usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write];
    row("usage", &usage_text(usage.map(|tokens| tokens.0)));
    // As other commands show it: a recorded cost counts if the model has no price.
    if let Some(cost) = shown.recorded.cost.filter(|cost| *cost > 0.0) {
        row("cost", &dollars(cost, SMALL));
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
        let role = message.info.role.as_ref().map_or("message", Role::name);
        let time = message.info.time.as_ref().and_then(|time| time.created).map(when::utc);
        let time = time.unwrap_or_else(|| "–".to_owned());
        text.push_str(&format!("  {time:<23}  {:<9}  {}\n", printable(role), words(message)));
    }
    text.trim_end().to_owned()
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
    let (expired, stored): (Vec<_>, Vec<_>) = all.iter().partition(|spill| spill.expired.is_some());
    let bytes: u64 = stored.iter().map(|spill| spill.bytes).sum();
    match (stored.len(), expired.len()) {
        (0, 0) => String::new(),
        (0, expired) => format!("{expired} expired"),
        (_, 0) => format!("{}, {}", stored.len(), size(bytes)),
        (_, expired) => format!("{}, {}; {expired} expired", stored.len(), size(bytes)),
    }
}

/// Formats the text of a message, or its parts if it has none.
fn words(message: &Message) -> String {
    let text = first_words(&message.text(), WORDS);
    if !text.is_empty() {
        return text;
    }
    let tools: Vec<&str> = message
        .parts
        .iter()
        .filter_map(|part| match &part.body {
            PartBody::Tool(tool) => Some(tool.tool.as_str()),
            PartBody::ToolCall(call) => Some(call.tool.as_str()),
            PartBody::ToolResult(result) => Some(result.tool.as_deref().unwrap_or("result")),
            PartBody::Compaction(_) => Some("compaction"),
            PartBody::Reasoning(_) => Some(ContentKind::Reasoning.label()),
            _ => None,
        })
        .collect();
    match tools.as_slice() {
        [] => counted(message.parts.len(), "part"),
        tools => format!("[{}]", first_words(&tools.join("] ["), WORDS)),
    }
}
