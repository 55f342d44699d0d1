//! `plimsoll prune` and `plimsoll compact`: plans, or reductions of a stored session.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, ExitCode};

use plimsoll::compact::Reply;
use plimsoll::{Plan, Receipt, Tokens};
use plimsoll_host::{
    EditSummary, Flags, Host, HostConfig, HostError, PlanContents, RangeRequest, Reduced, StoredSession,
    Summary, SummarySource, WindowSizes, other_tools, reason, repeated_reads, too_little,
};
use serde_json::{Value, json};

use crate::args::{CompactArgs, InputArgs, PruneArgs};
use crate::error::CommandResult;
use crate::output::{Output, note, printable};
use crate::plans::{self, Page};

/// Maximum number of lines of a new receipt that are shown.
const LINES: usize = 20;

/// Shows which old tool outputs would be cleared, or clears them.
pub(crate) fn prune(args: &PruneArgs, host: &Host, output: &mut Output) -> CommandResult {
    let config = host.config(&args.input.policy.flags())?;
    let choice = args.choice.choice();
    if args.apply {
        let stored = stored(&args.input, &config, host)?;
        let reduced = stored.prune(choice.as_ref(), &config, args.force, host)?;
        return show_reduced(&stored, reduced, output);
    }
    let whole = host.whole_session(args.input.spec(), &config)?;
    let plan = host.during("planning", || whole.plan_prune(&config.policy, choice.as_ref()));
    let others = other_tools(&plan, &whole.log, &config.policy);
    let planned = Plan::Prune(plan.clone());
    let sizes = WindowSizes::planned(&planned, &whole.log, &config.policy, whole.limits);
    let contents = PlanContents::of(&whole.log, whole.directory.as_deref(), [&planned]);
    if output.json {
        output.json(&plans::as_json(&plan, sizes, &contents))?;
    } else {
        let page = Page { contents: &contents, width: output.width(), handles: false };
        output.painted(&page.plan(&planned, sizes))?;
    }
    note_other_tools(&others);
    if plan.items.is_empty() && choice.is_none() {
        note_repeated(repeated_reads(&whole.log, whole.limits, &config.policy));
    }
    Ok(ExitCode::SUCCESS)
}

fn note_repeated(freed: Tokens) {
    if freed > Tokens::ZERO {
        note(&format!("hint: `--repeated` clears reads that a later read repeats, {freed} tokens"));
    }
}

fn note_other_tools(tools: &[(String, usize)]) {
    if !tools.is_empty() {
        let named: Vec<String> =
            tools.iter().map(|(tool, count)| format!("`{}` ({count})", printable(tool))).collect();
        note(&format!("hint: prunable outputs belong to {}", named.join(", ")));
    }
}

/// Shows which messages a summary would replace, or creates the summary.
pub(crate) fn compact(args: &CompactArgs, host: &Host, output: &mut Output) -> CommandResult {
    if args.apply && !args.offline && args.model.is_none() && args.command.is_none() {
        return Err(HostError::usage("`--apply` needs a summary").hint(
            "add `--model PROVIDER/MODEL`, `--command CMD`, or `--offline` for a summary without a model",
        ));
    }
    let flags = Flags { model: args.model.clone(), ..args.input.policy.flags() };
    let is_asked = args.model.is_some() || args.command.is_some();
    let is_range = args.from.is_some() && args.to.is_some();
    if !is_range && !is_asked && !args.edit {
        return compact_without_model(args, host, output);
    }
    let (config, source) = host.summary_source(&flags, args.command.as_deref())?;
    let editor = args.edit.then(|| editor(host)).transpose()?;
    let edit = |reply: Reply| edit_summary(reply, editor.as_deref().unwrap_or_default(), host);
    let edit: Option<EditSummary<'_>> = if args.edit { Some(&edit) } else { None };
    if let (Some(from), Some(to)) = (&args.from, &args.to) {
        let range = RangeRequest { from, to, source: &source, edit };
        return compact_range(args, &range, &config, host, output);
    }
    if args.apply {
        let stored = stored(&args.input, &config, host)?;
        let reduced = stored.compact(&source, edit, &config, args.force, host)?;
        return show_reduced(&stored, reduced, output);
    }
    let whole = host.whole_session(args.input.spec(), &config)?;
    match whole.summarise(&source, edit, &config.policy, host)? {
        Summary::Written(plan, summary) => show_summary(&summary, &json!(plan), output),
        _ => show_nothing(&too_little(&whole.log, &config.policy), output),
    }
}

fn compact_without_model(args: &CompactArgs, host: &Host, output: &mut Output) -> CommandResult {
    let config = host.config(&args.input.policy.flags())?;
    let policy = &config.policy;
    if args.apply {
        let stored = stored(&args.input, &config, host)?;
        let reduced = stored.compact_offline(&config, args.force, host)?;
        return show_reduced(&stored, reduced, output);
    }
    let whole = host.whole_session(args.input.spec(), &config)?;
    let nothing = too_little(&whole.log, policy);
    let page = |contents: &PlanContents, plan: &Plan, output: &mut Output| {
        let sizes = WindowSizes::planned(plan, &whole.log, policy, whole.limits);
        let page = Page { contents, width: output.width(), handles: false };
        output.painted(&page.plan(plan, sizes))
    };
    if !args.offline {
        let Some(plan) = host.during("planning", || whole.plan_compaction(policy)) else {
            return show_nothing(&nothing, output);
        };
        if output.json {
            output.json(&plan)?;
        } else {
            let planned = Plan::Compact(plan);
            let contents = PlanContents::of(&whole.log, whole.directory.as_deref(), [&planned]);
            page(&contents, &planned, output)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    match whole.summarise_offline(policy, host)? {
        Summary::Written(plan, summary) => show_summary(&summary, &json!(plan), output),
        // If no summary helps, a window over its line is reduced in other ways.
        Summary::OtherPlans(plans) if output.json => {
            output.json(&json!({ "summary": null, "plans": plans }))?;
            Ok(ExitCode::SUCCESS)
        }
        Summary::OtherPlans(plans) => {
            let contents = PlanContents::of(&whole.log, None, &plans);
            plans.iter().try_for_each(|plan| page(&contents, plan, output))?;
            note(&format!("no summary: {nothing}"));
            Ok(ExitCode::SUCCESS)
        }
        _ => show_nothing(&nothing, output),
    }
}

fn compact_range(
    args: &CompactArgs,
    range: &RangeRequest<'_>,
    config: &HostConfig,
    host: &Host,
    output: &mut Output,
) -> CommandResult {
    if args.apply {
        let stored = stored(&args.input, config, host)?;
        let receipt = stored.compact_range(range, config, args.force, host)?;
        return show_receipts(&stored, &[receipt], output);
    }
    let whole = host.whole_session(args.input.spec(), config)?;
    let policy = &config.policy;
    if !matches!(range.source, SummarySource::Offline) || args.offline {
        let (summary, plan) = whole.summarise_range(range, policy, host)?;
        return show_summary(&summary, &json!(plan), output);
    }
    let plan = whole.plan_range(range, policy)?;
    if output.json {
        output.json(&plan)?;
    } else {
        let planned = Plan::Range(plan);
        let contents = PlanContents::of(&whole.log, whole.directory.as_deref(), [&planned]);
        let sizes = WindowSizes::planned(&planned, &whole.log, policy, whole.limits);
        let page = Page { contents: &contents, width: output.width(), handles: true };
        output.painted(&page.plan(&planned, sizes))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the stored session that the arguments name, or the newest one of the current directory.
fn stored(args: &InputArgs, config: &HostConfig, host: &Host) -> Result<StoredSession, HostError> {
    let only = || {
        HostError::usage("`--apply` works on stored sessions only")
            .hint("run `plimsoll sessions import FILE` to store the session; it prints the id")
    };
    let id = match (&args.file, &args.session) {
        (Some(file), None) if file.as_os_str() != "-" && !file.exists() => {
            Some(file.to_str().ok_or_else(only)?)
        }
        (Some(_), _) => return Err(only()),
        (None, id) => id.as_deref(),
    };
    host.stored_session(id, config, args.policy.context)
}

fn show_summary(summary: &str, plan: &Value, output: &mut Output) -> CommandResult {
    if output.json {
        output.json(&json!({ "summary": summary, "plan": plan }))?;
    } else {
        output.words(summary)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_nothing(why: &str, output: &mut Output) -> CommandResult {
    if output.json {
        output.json(&json!(null))?;
    }
    note(why);
    Ok(ExitCode::from(1))
}

fn show_reduced(stored: &StoredSession, reduced: Reduced, output: &mut Output) -> CommandResult {
    match reduced {
        Reduced::Done(receipts, remark) => {
            let done = show_receipts(stored, &receipts, output)?;
            remark.iter().for_each(|remark| note(remark));
            Ok(done)
        }
        Reduced::Nothing { why, others, repeated } => {
            if output.json {
                output.json(&json!({ "session": stored.session.id, "receipts": [] }))?;
            }
            note(&why);
            note_other_tools(&others);
            note_repeated(repeated);
            Ok(ExitCode::from(1))
        }
    }
}

/// Prints receipts and how to undo them.
fn show_receipts(stored: &StoredSession, done: &[Receipt], output: &mut Output) -> CommandResult {
    let session = &stored.session;
    if output.json {
        output.json(&json!({ "session": session.id, "receipts": done }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let contents = PlanContents::stored(stored.opened.archive.store(), session, done)?;
    let page = Page { contents: &contents, width: output.width(), handles: false };
    for receipt in done {
        let text = page.receipt(receipt, &[]);
        let mut lines: Vec<&str> = text.lines().collect();
        let more = lines.len().saturating_sub(LINES);
        lines.truncate(LINES);
        let rest = format!("  … {more} more lines; all with handles: `plimsoll receipts {}`", receipt.id);
        lines.extend((more > 0).then_some(rest.as_str()));
        output.painted(&lines.join("\n"))?;
    }
    output.flush()?;
    // The newest is undone first.
    let undo: Vec<String> =
        done.iter().rev().map(|receipt| format!("`plimsoll undo {}`", receipt.id)).collect();
    note(&format!("undo with {}", undo.join(", then ")));
    Ok(ExitCode::SUCCESS)
}

/// Returns the user's editor.
fn editor(host: &Host) -> Result<String, HostError> {
    let named = ["VISUAL", "EDITOR"].into_iter().find_map(|name| host.env.variable(name));
    named.map(str::to_owned).filter(|editor| !editor.trim().is_empty()).ok_or_else(|| {
        HostError::usage("`--edit` needs an editor")
            .hint("set VISUAL or EDITOR: `EDITOR=nano plimsoll compact …`")
    })
}

/// Opens a summary in the user's editor.
fn edit_summary(reply: Reply, editor: &str, host: &Host) -> Result<Reply, HostError> {
    let failed = |error: io::Error| {
        HostError::failed(format!("cannot edit the summary: {}", reason(&error))).caused_by(error)
    };
    let mut file = tempfile::Builder::new().prefix("plimsoll-").suffix(".md").tempfile().map_err(failed)?;
    writeln!(file, "{}", reply.text.trim_end()).map_err(failed)?;
    file.flush().map_err(failed)?;
    // EDITOR may contain flags, so a shell splits it. The file is a separate argument, because its path may contain spaces.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("{editor} \"$1\""), "plimsoll"]).arg(file.path());
    command.current_dir(&host.env.directory);
    // An agent's command may have written an `editor` of its own to `.venv/bin`.
    plimsoll_agent::restrict_search_paths(&mut command, &host.env.directory);
    if !io::stdout().is_terminal() {
        // Standard output may be piped; standard error is likely the terminal that the editor can draw on.
        command.stdout(io::stderr());
    }
    let status = command.status().map_err(failed)?;
    if !status.success() {
        return Err(HostError::failed(format!("cannot edit the summary: `{editor}` failed with {status}")));
    }
    // Editors may replace the file instead of writing to it, so it is reopened by name.
    let text = std::fs::read_to_string(file.path()).map_err(failed)?;
    match text.trim() {
        "" => Err(HostError::negative("the summary is empty; nothing was changed")),
        text => Ok(Reply { text: text.to_owned(), is_edited: true, ..reply }),
    }
}
