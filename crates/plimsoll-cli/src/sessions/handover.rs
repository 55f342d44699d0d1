//! `plimsoll sessions handover`: a session that Claude Code, Codex or OpenCode can continue.

use std::process::ExitCode;

use plimsoll::Tokens;
use plimsoll_formats::ConversionLoss;
use plimsoll_host::{Fitted, Handover, HandoverRequest, Host, own_place};
use serde_json::json;

use crate::args::HandoverArgs;
use crate::error::CommandResult;
use crate::output::{Output, note, printable};

/// Writes the session and prints the command that continues it.
pub(super) fn run(args: &HandoverArgs, host: &Host, output: &mut Output) -> CommandResult {
    let (dir, as_is) = (args.dir.clone(), args.as_is);
    let request = HandoverRequest { input: args.input.spec(), to: args.to, dir, as_is };
    let Handover { session, path, directory, command, lost, reduced, is_stored, original, .. } =
        host.hand_over(request)?;
    if let Some(reduced) = &reduced {
        note_reduced(reduced, original.as_deref().filter(|_| !is_stored));
    }
    if !lost.is_empty() {
        let lost: Vec<String> = lost.iter().map(format_lost).collect();
        note(&format!("lost: {}", lost.join(", ")));
    }
    if output.json {
        let lost: Vec<_> = lost.iter().map(|lost| json!({ "count": lost.count, "what": lost.one })).collect();
        output.json(&json!({ "session": session, "tool": args.to.key(), "path": path,
            "directory": directory, "command": command, "lost": lost, "reduced": reduced }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = host.short(&path);
    match command {
        Some(command) => {
            note(&format!("wrote `{path}`; continue with:"));
            output.text(&printable(&command))?;
        }
        None => {
            let (tool, [variable, dir]) = (args.to.name(), own_place(args.to));
            note(&format!(
                "wrote `{path}`, but {tool} only finds sessions in its own directory, `{dir}` below `{variable}`"
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `unstored` names the original if it is not stored.
fn note_reduced(reduced: &Fitted, unstored: Option<&str>) {
    let Fitted { before, after, estimated, line, receipts, .. } = reduced;
    note(&format!(
        "the window exceeds the line ({before} of {line} tokens); the copy is reduced to {after} tokens:"
    ));
    receipts.iter().for_each(|receipt| note(&format!("  {}", receipt.plan.title())));
    if let Some(estimated) = estimated.filter(|estimated| *estimated > *line) {
        note(&format!(
            "until the tool has answered once, `plimsoll inspect` and `watch` estimate the copy at {estimated} tokens, over the line"
        ));
    }
    match unstored {
        None => note("the original is unchanged; `plimsoll mcp` lets the tool recall what was left out"),
        Some(original) => note(&format!(
            "the original is unchanged; to let the tool recall what was left out, run `plimsoll sessions import {}` (now or \
             later), then `plimsoll mcp`",
            printable(original)
        )),
    }
}

fn format_lost(lost: &ConversionLoss) -> String {
    let noun = if lost.count == 1 { lost.one } else { lost.more };
    format!("{} {noun}", Tokens(lost.count as u64))
}
