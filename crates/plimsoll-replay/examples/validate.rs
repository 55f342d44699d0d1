//! Compares replays with what sessions record: the cost without a policy, and the compactions of the tool that made the
//! recording.
//!
//! `cargo run --release -p plimsoll-replay --example validate -- FILE…` (`just validate`) prints two Markdown tables.
//! The first compares, for each session with recorded costs, the replay without a policy over the comparable calls:
//! those with recorded usage, before the recorded agent reduced anything. The second shows, for each recorded
//! compaction of Claude Code, Codex and OpenCode, where the replayed rule of the same tool compacts.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod loaded;

use std::error::Error;
use std::path::{Path, PathBuf};

use plimsoll::Tokens;
use plimsoll_formats::Format;
use plimsoll_replay::{AgainstRecorded, Report, Rules};

use loaded::Loaded;

/// Sessions whose costs differ by more than this share are counted as far off.
const FAR: f64 = 0.05;

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let (mut sum, mut sessions, mut far) = (AgainstRecorded::default(), 0, 0);
    let mut compactions = Vec::new();
    println!("| session | calls compared | recorded | without a policy | share |\n|---|---|---|---|---|");
    for file in &files {
        let loaded = match Loaded::read(file) {
            Ok(loaded) => loaded,
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                continue;
            }
        };
        let none = loaded.recording.replay(&Rules::None, &loaded.own)?;
        let costs = loaded.recording.recorded_costs(loaded::cost);
        if let Some(bill) = AgainstRecorded::of(&none, &costs, loaded.recording.unreduced_calls()) {
            sessions += 1;
            far += usize::from((bill.share() - 1.0).abs() > FAR);
            sum += bill;
            print_bill(&name(file), bill);
        }
        compactions.extend(compacted(file, &loaded, &none)?);
    }
    if sum.calls > 0 {
        print_bill("all", sum);
    }
    println!("\n{far} of {sessions} sessions differ by more than {:.0} %.\n", FAR * 100.0);
    println!(
        "| session | rule | recorded before call | at | replayed before call | at |\n|---|---|---|---|---|---|"
    );
    compactions.iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn print_bill(name: &str, bill: AgainstRecorded) {
    let AgainstRecorded { calls, recorded, replayed, .. } = bill;
    println!("| {name} | {calls} | ${recorded:.4} | ${replayed:.4} | {:.3} |", bill.share());
}

/// Returns a line for each recorded compaction of a tool whose rule is known.
fn compacted(file: &Path, loaded: &Loaded, none: &Report) -> Result<Vec<String>, Box<dyn Error>> {
    let rule = match loaded.format {
        Format::ClaudeCode => "claude-code",
        Format::Codex => "codex",
        Format::OpencodeExport | Format::OpencodeMessages => "opencode",
        _ => return Ok(Vec::new()),
    };
    let recorded = loaded.recording.compactions();
    if recorded.is_empty() {
        return Ok(Vec::new());
    }
    let report = loaded.recording.replay(&rule.parse()?, &loaded.own)?;
    let mut replayed = report.reductions.iter().filter(|fired| fired.reduction.kind == "compact");
    let line = |call: usize| {
        // Up to the first compaction, the request without a policy equals the recorded one.
        let size = none.windows.get(call - 1).map(|sent| Tokens(sent.tokens)).unwrap_or_default();
        let rules = replayed.next().map_or_else(
            || "– | –".to_owned(),
            |fired| format!("{} | {}", fired.call, Tokens(fired.reduction.before)),
        );
        format!("| {} | `{rule}` | {call} | {size} | {rules} |", name(file))
    };
    Ok(recorded.into_iter().map(line).collect())
}

fn name(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
