//! `plimsoll truncate`: a tool's output, truncated as layer 1 would.

use std::io;
use std::process::ExitCode;

use plimsoll::thousands;
use plimsoll::truncate::{OutputEnds, Spill, TruncatePlan};
use plimsoll_host::{HeldOutput, Host, Work};
use serde_json::json;

use crate::args::TruncateArgs;
use crate::error::CommandResult;
use crate::output::{Output, note};

/// Truncates standard input.
pub(crate) fn run(args: &TruncateArgs, host: &Host, output: &mut Output) -> CommandResult {
    let policy = host.config(&args.policy.flags())?.policy;
    let spill_dir = args.spill_dir.as_deref().filter(|_| policy.truncate.spill);
    let progress = host.progress("reading standard input", Work::Bytes(None));
    let ends = OutputEnds::new(&args.tool, &policy);
    let mut held = HeldOutput::read(io::stdin().lock(), ends, spill_dir, &|at| progress.at(at))?;
    drop(progress);
    let plan = held.ends.plan(&args.tool, &policy);
    let spill = match spill_dir {
        Some(directory) if plan.wants_spill() => held.spill(directory),
        _ => Spill::Off,
    };
    let shown = plan.render(&spill);
    if let Some(dropped) = dropped(&plan, &spill, args.spill_dir.is_some()) {
        note(&dropped);
    }
    if output.json {
        output.json(&json!({ "output": shown, "plan": plan, "spill": spill }))?;
    } else if plan.loses_content() {
        output.text(&shown)?;
    } else if output.is_terminal() {
        let (head, tail) = held.ends.held();
        output.text(&String::from_utf8_lossy(&[head, tail].concat()))?;
    } else {
        let (head, tail) = held.ends.held();
        output.bytes(head)?;
        output.bytes(tail)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats what was dropped from an output, and how to keep it next time.
fn dropped(plan: &TruncatePlan, spill: &Spill, has_spill_dir: bool) -> Option<String> {
    if !plan.loses_content() {
        return None;
    }
    let hint = match spill {
        Spill::Saved(_) => return None,
        Spill::Failed(why) => format!("the full output could not be stored: {why}"),
        Spill::Off if has_spill_dir => "the policy stores no outputs; set `truncate.spill = true`".to_owned(),
        _ => "use `--spill-dir DIR` to store the full output".to_owned(),
    };
    let lines = plan.original_lines.saturating_sub(plan.kept_lines);
    let bytes = plan.original_bytes.saturating_sub(plan.kept_bytes);
    let mut lost = Vec::new();
    if lines > 0 || bytes > 0 {
        let of = |part, all| format!("{} of {}", thousands(part), thousands(all));
        lost.push(format!(
            "{} lines, {} bytes",
            of(lines, plan.original_lines),
            of(bytes, plan.original_bytes)
        ));
    }
    match plan.lines_shortened {
        0 => {}
        1 => lost.push("the end of 1 long line".to_owned()),
        several => lost.push(format!("the ends of {} long lines", thousands(several))),
    }
    if plan.lossy {
        lost.push("bytes that are not UTF-8".to_owned());
    }
    Some(format!("dropped: {}\nhint: {hint}", lost.join("; ")))
}
