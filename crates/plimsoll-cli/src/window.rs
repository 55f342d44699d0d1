//! `plimsoll window`: the window exactly as the model would receive it.

use std::process::ExitCode;

use plimsoll::{Block, Counter, Window, WindowMessage, WindowRole, window_message_tokens};
use plimsoll_host::{Host, HostError, weigh_window};
use plimsoll_import::{Extent, Scope};
use plimsoll_session::{MeasuredBy, WindowReport};
use serde_json::json;

use crate::args::WindowArgs;
use crate::error::CommandResult;
use crate::output::{Output, counted, note, printable};
use crate::style::{HEADING, QUIET, paint};

/// Prints the window, or a request with it.
pub(crate) fn run(args: &WindowArgs, host: &Host, output: &mut Output) -> CommandResult {
    let config = host.config(&args.input.policy.flags())?;
    let policy = &config.policy;
    // A request only needs the visible messages. The window's size comes from recorded usage, which may precede a summary.
    let input = host.input(args.input.spec(), Scope::All)?;
    let (transcript, _counts) = match args.request {
        Some(_) => (input.read(Extent::InView)?, None),
        None => input.read_counted()?,
    };
    let window = host.during("building the window", || Window::of(&transcript.messages, policy));
    if let Some(format) = args.request {
        let request = plimsoll_formats::write_window(format, &transcript.info, &window);
        output.json(&request.map_err(|error| HostError::usage(error.to_string()))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (report, scale, _) = weigh_window(transcript, &config, args.input.policy.context);
    let WindowReport { window: tokens, hidden, unseen, measured, .. } = report;
    if output.json {
        let (messages, pivot) = (&window.messages, &window.pivot);
        let measured = measured == MeasuredBy::Usage;
        output.json(
            &json!({ "messages": messages, "pivot": pivot, "tokens": tokens, "measured": measured, "hidden": hidden,
                "unseen": unseen }),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let counter = scale.counter();
    for message in &window.messages {
        output.painted(&heading(message, &*counter))?;
        for block in &message.blocks {
            output.text(&printable(&shown(block)))?;
        }
        output.text("")?;
    }
    // Fails here if the pipe is closed, before the note is printed.
    output.flush()?;
    let line = report.percent().zip(report.line);
    let line = line.map(|(percent, line)| format!(", {percent} % of the line at {line}"));
    let known = match hidden.zip(unseen) {
        Some((hidden, unseen)) => {
            format!("{tokens} tokens by recorded usage, {} of them not in the file", hidden + unseen)
        }
        None => format!("about {tokens} tokens at 4 characters per token"),
    };
    // A request has one message per tool result, so the count can exceed the session's.
    let messages = counted(window.messages.len(), "message");
    note(&format!("a request of {messages}, {known}{}", line.unwrap_or_default()));
    Ok(ExitCode::SUCCESS)
}

fn heading(message: &WindowMessage, counter: &dyn Counter) -> String {
    let role = match message.role {
        WindowRole::System => "system",
        WindowRole::User => "user",
        WindowRole::Assistant => "assistant",
        WindowRole::Tool => "tool",
    };
    let tokens = window_message_tokens(message, counter);
    let from = message.message.as_ref().map(|id| printable(&format!("  {id}"))).unwrap_or_default();
    format!("{}  {tokens} tokens{}", paint(HEADING, &format!("── {role}")), paint(QUIET, &from))
}

fn shown(block: &Block) -> String {
    match block {
        Block::Text { text, .. } => text.to_string(),
        Block::Reasoning { text, .. } => format!("[reasoning]\n{text}"),
        Block::Call { tool, input, .. } => format!("[call] {tool} {}", input.json()),
        Block::Result { tool, text, is_error, .. } => {
            format!("[{}] {tool}\n{text}", if *is_error { "error" } else { "result" })
        }
        Block::Provider { value, .. } => format!("[block] {}", value.json()),
        Block::File { mime, filename, .. } => {
            let (mime, name) = (mime.as_deref(), filename.as_deref());
            format!("[file] {} {}", mime.unwrap_or("unknown"), name.unwrap_or("unnamed"))
        }
    }
}
