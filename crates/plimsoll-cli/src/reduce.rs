//! `--apply`: reductions of stored sessions, with receipts.

use std::process::ExitCode;

use plimsoll::compact::ladder::{Ladder, Situation, Step, Trigger, Verdict};
use plimsoll::count::request_tokens;
use plimsoll::prune::Pressure;
use plimsoll::receipt::Stamp;
use plimsoll::{
    Fixed, Limits, Load, Log, Millis, Plan, Receipt, Reduction, SessionId, Window, prune as pruning,
};
use plimsoll_store::{Claim, Snapshot};
use serde_json::json;

use crate::args::InputArgs;
use crate::config::Config;
use crate::error::CliError;
use crate::output::{Output, note, printable};
use crate::progress::Progress;
use crate::receipts;
use crate::store::{self, Opened};
use crate::surroundings::Surroundings;

type Done = Result<ExitCode, CliError>;

/// More of a receipt is not shown when it is made.
const LINES: usize = 20;

/// Clear old tool outputs.
pub(crate) fn prune(args: &InputArgs, around: &Surroundings, output: &mut Output) -> Done {
    let config = Config::load(&args.policy, around)?;
    let (opened, session) = stored(args, &config, around)?;
    let receipt = Progress::during("pruning", || {
        opened.with_lease(&session, |claim, now| pruned(&opened, claim, &config, now))
    })?;
    match receipt {
        Ok(receipt) => tell(&session, &[receipt], output),
        Err(nothing) => {
            if output.json {
                output.json(&json!({ "session": session, "receipts": [] }))?;
            }
            note(&nothing);
            Ok(ExitCode::from(1))
        }
    }
}

/// Set the marks, or say why there is nothing to mark.
fn pruned(
    opened: &Opened,
    claim: &Claim,
    config: &Config,
    now: Millis,
) -> Result<Result<Receipt, String>, CliError> {
    let (policy, store) = (&config.policy, opened.archive.store());
    let Snapshot { mut log, revision } = store.window(&claim.session)?;
    let load = Load::of(&log, policy, Fixed::default(), &policy.count);
    let pressure = Pressure { load: load.tokens, limits: Limits::new(config.context, 0) };
    let plan = pruning::plan(&log, policy, Some(pressure));
    if plan.items.is_empty() {
        return Ok(Err(Plan::Prune(plan).to_string()));
    }
    let stamp = Stamp { ids: &mut store::ids(), now, policy, reason: "a person asked for it" };
    let weigh = |log: &Log| request_tokens(&Window::of(log, policy), Fixed::default(), &policy.count);
    let Some(receipt) = Plan::Prune(plan).apply(&mut log, stamp, weigh)? else {
        return Ok(Err("prune nothing: the window would not get smaller".to_owned()));
    };
    let reduction = Reduction { receipts: vec![receipt.clone()], ..Reduction::default() };
    store.reduce(claim, reduction, Some(revision), now)?;
    Ok(Ok(receipt))
}

/// Put a summary that is made without a model in the place of older messages.
pub(crate) fn compact(args: &InputArgs, around: &Surroundings, output: &mut Output) -> Done {
    let config = Config::load(&args.policy, around)?;
    let (opened, session) = stored(args, &config, around)?;
    let policy = &config.policy;
    let limits = policy.limits("", Some(Limits::new(config.context, 0)));
    let climb = |claim: &Claim, now: Millis| {
        let Snapshot { log, revision } = opened.archive.store().window(&session)?;
        let mut ids = store::ids();
        let situation = Situation { trigger: Trigger::Manual, ..Situation::new(policy, limits, now) };
        let step = Ladder::new(log, situation).climb(&mut ids)?;
        let Step::Done(outcome) = step else {
            return Err(CliError::failed("the climb asked for a model, and there is none"));
        };
        if !outcome.reduction.is_empty() {
            opened.archive.store().reduce(claim, outcome.reduction.clone(), Some(revision), now)?;
        }
        Ok(outcome)
    };
    let outcome = Progress::during("compacting", || opened.with_lease(&session, climb))?;
    if outcome.reduction.receipts.is_empty() {
        if output.json {
            output.json(&json!({ "session": session, "receipts": [] }))?;
        }
        note("there is too little to summarise");
        return Ok(ExitCode::from(1));
    }
    let done = tell(&session, &outcome.reduction.receipts, output)?;
    if outcome.verdict != Verdict::Fits {
        note(&outcome.verdict.to_string());
    }
    Ok(done)
}

/// The stored session that was asked for, or the newest of the current directory.
fn stored(args: &InputArgs, config: &Config, around: &Surroundings) -> Result<(Opened, SessionId), CliError> {
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
    Ok((opened, session.id))
}

/// Show the receipts, and how to take them back.
fn tell(session: &SessionId, done: &[Receipt], output: &mut Output) -> Done {
    if output.json {
        output.json(&json!({ "session": session, "receipts": done }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for receipt in done {
        let detail = receipts::detail(receipt);
        let mut lines: Vec<&str> = detail.lines().collect();
        let more = lines.len().saturating_sub(LINES);
        lines.truncate(LINES);
        let rest = format!("  … and {more} lines more: `plimsoll receipts {}`", receipt.id);
        lines.extend((more > 0).then_some(rest.as_str()));
        output.text(&printable(&lines.join("\n")))?;
    }
    output.flush()?;
    // The last done is the first to be undone.
    let undo: Vec<String> =
        done.iter().rev().map(|receipt| format!("`plimsoll undo {}`", receipt.id)).collect();
    note(&format!("undo it with {}", undo.join(", then ")));
    Ok(ExitCode::SUCCESS)
}
