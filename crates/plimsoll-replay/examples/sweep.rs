//! Replays recorded sessions under policies, for tuning (`docs/POLICY.md`) and for the tables of `docs/BENCHMARKS.md`.
//!
//! `cargo run --release -p plimsoll-replay --example sweep -- [--totals] [--half tune|check] [--context own|N]…
//! [--policy NAME|FILE]… FILE…`
//!
//! Prints a tab-separated line per session and policy, or with `--totals` a Markdown table per window and half. The
//! halves are determined by the first bit of the BLAKE3 hash of the session's file name, so that they are not picked by
//! hand. Each session is replayed in its own window, unless `--context` is set, and at its own prices. A policy from a
//! file is named after the file.
//!
//! All shares refer to what calls needed from tool outputs. *only*: in the window, of the references that nothing but
//! an output had mentioned; *strict*: like *only*, but with their surroundings; *all*: in the window, of all references
//! that an output had mentioned; *recall*: how much of *only* a recall could bring back, if the model calls it.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod loaded;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll::{Policy, Tokens};
use plimsoll_replay::{
    AgainstNone, DEFAULTS, Medians, ReplayParams, Report, Rules, compare_with_none, totals,
};

use loaded::Loaded;

/// Tokens of the window that sessions are replayed in, or `None` for each session's own window.
type Context = Option<u64>;

/// A session in one window under each policy.
struct Replayed {
    half: &'static str,
    context: Context,
    name: String,
    tokens: u64,
    reports: Vec<Report>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut half, mut contexts, mut names, mut files) =
        (None, Vec::new(), Vec::new(), Vec::<PathBuf>::new());
    let mut wants_totals = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--totals" => wants_totals = true,
            "--half" => half = args.next(),
            "--context" => contexts.push(match args.next().as_deref() {
                Some("own") | None => None,
                Some(tokens) => Some(tokens.parse::<u64>()?),
            }),
            "--policy" => names.extend(args.next()),
            _ => files.push(arg.into()),
        }
    }
    if names.is_empty() {
        names = DEFAULTS.map(str::to_owned).to_vec();
    }
    if contexts.is_empty() {
        contexts.push(None);
    }
    let rules = names.iter().map(|name| rules(name)).collect::<Result<Vec<_>, _>>()?;
    files.retain(|file| half.as_deref().is_none_or(|half| half == half_of(file)));
    if !wants_totals {
        println!("{}", COLUMNS.join("\t"));
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::<(usize, Vec<Replayed>)>::new()));
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(at) else { break };
                    let replayed = session(file, &contexts, &rules).unwrap_or_else(|error| {
                        eprintln!("{}: {error}", file.display());
                        Vec::new()
                    });
                    let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    if !wants_totals {
                        replayed.iter().for_each(print_lines);
                    }
                    done.push((at, replayed));
                }
            });
        }
    });
    if wants_totals {
        let mut done = done.into_inner()?;
        done.sort_by_key(|(at, _)| *at);
        let done: Vec<Replayed> = done.into_iter().flat_map(|(_, replayed)| replayed).collect();
        for context in contexts {
            for half in ["tune", "check"] {
                let of = |replayed: &&Replayed| replayed.half == half && replayed.context == context;
                print_totals(half, context, &done.iter().filter(of).collect::<Vec<_>>());
            }
        }
    }
    Ok(())
}

const COLUMNS: [&str; 31] = [
    "session",
    "half",
    "context",
    "policy",
    "calls",
    "leftOut",
    "deaths",
    "peak",
    "cost",
    "cached",
    "written",
    "output",
    "summaries",
    "recalls",
    "only",
    "strict",
    "all",
    "allStrict",
    "recall",
    "onlyCalls",
    "allCalls",
    "recallRequests",
    "compactions",
    "fits",
    "endExcess",
    "endExcessShare",
    "worstExcess",
    "worstExcessShare",
    "beyondRecall",
    "fired",
    "window",
];

fn print_lines(replayed: &Replayed) {
    let Replayed { half, name, tokens, reports, .. } = replayed;
    for report in reports {
        let fired: Vec<String> = report.fired.iter().map(|(kind, times)| format!("{kind} {times}")).collect();
        let (parts, only, all) = (report.parts, report.references.only_in_outputs, report.references.all);
        let against = report.against_none.unwrap_or_default();
        let cells = [
            name.clone(),
            (*half).to_owned(),
            replayed.context.map_or_else(|| "own".to_owned(), |tokens| tokens.to_string()),
            report.policy.clone(),
            report.calls.to_string(),
            report.left_out.to_string(),
            report.deaths.to_string(),
            report.peak.to_string(),
            report.cost.to_string(),
            parts.cached.to_string(),
            parts.written.to_string(),
            parts.output.to_string(),
            parts.summaries.to_string(),
            parts.recalls.to_string(),
            only.in_window_share.to_string(),
            only.strict_share.to_string(),
            all.in_window_share.to_string(),
            all.strict_share.to_string(),
            only.recalled_share.to_string(),
            only.calls.to_string(),
            all.calls.to_string(),
            report.references.recall_requests.to_string(),
            compactions(report).to_string(),
            against.sessions.to_string(),
            against.end_excess.to_string(),
            against.end_excess_share.to_string(),
            against.worst_excess.to_string(),
            against.worst_excess_share.to_string(),
            against.dearer_by_more_than_a_recall.to_string(),
            fired.join(", "),
            tokens.to_string(),
        ];
        println!("{}", cells.join("\t"));
    }
}

/// Prints a Markdown table.
fn print_totals(half: &str, context: Context, replayed: &[&Replayed]) {
    let totals = totals(replayed.iter().flat_map(|replayed| &replayed.reports));
    let Some(first) = totals.first() else { return };
    let window = context.map_or_else(
        || "each in its own window".to_owned(),
        |tokens| format!("in a window of {}", Tokens(tokens)),
    );
    println!("\nThe half `{half}`, {} sessions, {} calls, {window}:\n", replayed.len(), Tokens(first.calls));
    println!(
        "| policy | deaths | cost | in the window, only in outputs | median | strict | median | all | median | recall | \
         compactions | dearer at the end | at any moment | by more than a recall |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for total in &totals {
        let (only, all) = (total.references.only_in_outputs, total.references.all);
        let Medians { only_in_outputs, strict, all: all_median, .. } = total.medians.unwrap_or_default();
        let against = total.against_none.unwrap_or_default();
        let AgainstNone { dearer_at_end, dearer_at_any_moment, dearer_by_more_than_a_recall, .. } = against;
        let by = |sessions: u64, dollars: f64, share: f64| match sessions {
            0 => "0".to_owned(),
            _ => format!("{sessions}, by up to ${dollars:.2} and {}", percent(share)),
        };
        println!(
            "| `{}` | {} | ${:.2} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {dearer_by_more_than_a_recall} of {} |",
            total.policy,
            Tokens(total.deaths),
            total.cost,
            percent(only.in_window_share),
            only_in_outputs.map(percent).unwrap_or_default(),
            percent(only.strict_share),
            strict.map(percent).unwrap_or_default(),
            percent(all.in_window_share),
            all_median.map(percent).unwrap_or_default(),
            percent(only.recalled_share),
            compactions(total),
            by(dearer_at_end, against.end_excess, against.end_excess_share),
            by(dearer_at_any_moment, against.worst_excess, against.worst_excess_share),
            against.sessions,
        );
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn compactions(report: &Report) -> u64 {
    report.fired.get("compact").copied().unwrap_or_default()
}

/// Returns the rules and their display name.
fn rules(name: &str) -> Result<(String, Rules), Box<dyn Error>> {
    let path = Path::new(name);
    if path.is_file() {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return Ok((stem, Policy::from_json(&fs::read_to_string(path)?)?.into()));
    }
    Ok((name.to_owned(), name.parse::<Rules>()?))
}

fn half_of(file: &Path) -> &'static str {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if blake3::hash(name.as_bytes()).as_bytes()[0] & 0x80 == 0 { "tune" } else { "check" }
}

fn session(
    file: &Path,
    contexts: &[Context],
    rules: &[(String, Rules)],
) -> Result<Vec<Replayed>, Box<dyn Error>> {
    let Loaded { recording, own, .. } = Loaded::read(file)?;
    let mut replayed = Vec::new();
    for context in contexts {
        let params = ReplayParams { context: context.map_or(own.context, Tokens), ..own };
        // The other replays are compared with this one.
        let none = recording.replay(&Rules::None, &params)?;
        let mut reports = vec![none.clone()];
        for (name, rules) in rules {
            let mut report = match rules {
                Rules::None => none.clone(),
                rules => recording.replay(rules, &params)?,
            };
            report.policy.clone_from(name);
            reports.push(report);
        }
        compare_with_none(&mut reports);
        reports.remove(0);
        replayed.push(Replayed {
            half: half_of(file),
            context: *context,
            name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            tokens: params.context.0,
            reports,
        });
    }
    Ok(replayed)
}
