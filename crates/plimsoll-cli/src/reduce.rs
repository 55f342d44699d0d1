//! `--apply`: reductions of stored sessions, with receipts.

use std::collections::BTreeMap;
use std::process::ExitCode;

use plimsoll::compact::ladder::{Outcome, Verdict};
use plimsoll::count::window_message_tokens;
use plimsoll::pivot::Visible;
use plimsoll::prune::{self, PruneChoice, PrunePlan, PruneReason};
use plimsoll::{Limits, Log, Plan, Policy, Receipt, Role, Tokens, Window, WindowRole};
use plimsoll_session::Pruned;
use plimsoll_store::Session;
use serde_json::json;

use crate::args::{InputArgs, PruneArgs};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{Output, counted, note, printable};
use crate::plans::{Contents, Page};
use crate::progress::Progress;
use crate::store::Opened;
use crate::surroundings::Surroundings;

type Done = Result<ExitCode, CliError>;

/// More of a receipt is not shown when it is made.
const LINES: usize = 20;

/// Clear old tool outputs.
pub(crate) fn prune(args: &PruneArgs, around: &Surroundings, output: &mut Output) -> Done {
    let PruneArgs { input, force, .. } = args;
    let config = Config::load(&input.policy, around)?;
    let (opened, session, limits) = stored(input, &config, around)?;
    let (pruned, there) = Progress::during("pruning", || -> Result<_, CliError> {
        let mut driver = opened.driver_within(&session, &config, *force, limits)?;
        let pruned = match args.choice.choice() {
            Some(choice) => {
                let reason = format!("a person chose: {choice}");
                driver.prune_choice(&choice, &reason)?
            }
            None => driver.prune("a person asked for it")?,
        };
        let there = match &pruned {
            Pruned::Nothing(plan) => other_tools(plan, driver.log(), &config.policy),
            _ => None,
        };
        driver.close()?;
        Ok((pruned, there))
    })?;
    let nothing = match pruned {
        Pruned::Done(receipt) => return tell(&opened, &session, &[*receipt], output),
        Pruned::Nothing(plan) => Plan::Prune(*plan).to_string(),
        Pruned::NotSmaller => "prune nothing: the window would not get smaller".to_owned(),
    };
    if output.json {
        output.json(&json!({ "session": session.id, "receipts": [] }))?;
    }
    note(&nothing);
    there.iter().for_each(|there| note(there));
    Ok(ExitCode::from(1))
}

/// Where no output is of a tool that was chosen: of which there are some that may go.
pub(crate) fn other_tools(plan: &PrunePlan, log: &Log, policy: &Policy) -> Option<String> {
    let is_by_name = plan.choice.as_ref().is_some_and(|choice| !choice.tools.is_empty());
    if plan.reason != PruneReason::NoneChosen || !is_by_name {
        return None;
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for item in prune::plan_choice(log, policy, &PruneChoice::default(), None).items {
        *counts.entry(item.tool).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told: Vec<String> =
        counts.iter().map(|(tool, count)| format!("`{}` ({count})", printable(tool))).collect();
    (!told.is_empty()).then(|| format!("hint: outputs that may go are of {}", told.join(", ")))
}

/// Put a summary that is made without a model in the place of older messages.
pub(crate) fn compact(args: &InputArgs, force: bool, around: &Surroundings, output: &mut Output) -> Done {
    let config = Config::load(&args.policy, around)?;
    let (opened, session, limits) = stored(args, &config, around)?;
    let (outcome, nothing) = Progress::during("compacting", || -> Result<(Outcome, String), CliError> {
        let mut driver = opened.driver_within(&session, &config, force, limits)?;
        let nothing = too_little(driver.log(), &config.policy);
        let outcome = driver.compact(|_| Err("no model is asked here".to_owned()))?;
        driver.close()?;
        Ok((outcome, nothing))
    })?;
    if outcome.reduction.receipts.is_empty() {
        if output.json {
            output.json(&json!({ "session": session.id, "receipts": [] }))?;
        }
        note(&nothing);
        return Ok(ExitCode::from(1));
    }
    let done = tell(&opened, &session, &outcome.reduction.receipts, output)?;
    if outcome.verdict != Verdict::Fits {
        note(&outcome.verdict.to_string());
    }
    Ok(done)
}

/// Why there is no compaction, with what there is of the conversation. What the host laid down is never summarised.
pub(crate) fn too_little(log: &Log, policy: &Policy) -> String {
    let window = Window::of(log, policy);
    let said = || window.messages.iter().filter(|message| message.role != WindowRole::System);
    let tokens: Tokens = said().map(|message| window_message_tokens(message, &policy.count)).sum();
    let is_said = |place: &&usize| log[**place].info.role != Some(Role::System);
    let messages = counted(Visible::of(log).places.iter().filter(is_said).count(), "message");
    format!("there is too little to summarise: {messages}, {tokens} tokens")
}

/// The stored session that was asked for, or the newest of the current directory, and the limits of its window, which
/// `inspect` tells.
pub(crate) fn stored(
    args: &InputArgs,
    config: &Config,
    around: &Surroundings,
) -> Result<(Opened, Session, Limits), CliError> {
    let only = || {
        CliError::usage("`--apply` changes stored sessions alone")
            .hint("`plimsoll sessions import FILE` stores one, and prints its id")
    };
    let id = match (&args.file, &args.session) {
        (Some(file), None) if file.as_os_str() != "-" && !file.exists() => {
            Some(file.to_str().ok_or_else(only)?)
        }
        (Some(_), _) => return Err(only()),
        (None, id) => id.as_deref(),
    };
    let opened = Opened::existing(config, around)?;
    let session = opened.chosen(id, around)?;
    if id.is_none() {
        note(&format!("Plimsoll: `{}` in `{}`", session.id, around.short(&opened.path)));
    }
    let limits = opened.limits(&session, config, args.policy.context)?;
    Ok((opened, session, limits))
}

/// Show the receipts, and how to take them back.
pub(crate) fn tell(opened: &Opened, session: &Session, done: &[Receipt], output: &mut Output) -> Done {
    if output.json {
        output.json(&json!({ "session": session.id, "receipts": done }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let contents = Contents::stored(opened.archive.store(), session, done)?;
    let page = Page { contents: &contents, width: output.width(), handles: false };
    for receipt in done {
        let text = page.receipt(receipt, &[]);
        let mut lines: Vec<&str> = text.lines().collect();
        let more = lines.len().saturating_sub(LINES);
        lines.truncate(LINES);
        let rest = format!("  … and {more} more, with handles: `plimsoll receipts {}`", receipt.id);
        lines.extend((more > 0).then_some(rest.as_str()));
        output.painted(&lines.join("\n"))?;
    }
    output.flush()?;
    // The last done is the first to be undone.
    let undo: Vec<String> =
        done.iter().rev().map(|receipt| format!("`plimsoll undo {}`", receipt.id)).collect();
    note(&format!("undo it with {}", undo.join(", then ")));
    Ok(ExitCode::SUCCESS)
}
