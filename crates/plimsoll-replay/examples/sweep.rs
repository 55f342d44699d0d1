//! Replays recorded sessions under policies and prints a line for each pair, for tuning (`docs/POLICY.md`).
//!
//! `cargo run --release -p plimsoll-replay --example sweep -- [--half tune|check] [--context N] [--policy NAME|FILE]… FILE…`
//!
//! The halves are fixed by the sessions' file names, so that they are not picked by hand: the first bit of the name's
//! BLAKE3 hash. Each session is replayed in its own window unless `--context` says otherwise, at its own prices.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll::{Policy, Tokens};
use plimsoll_formats::{Format, Transcript};
use plimsoll_replay::{
    Circumstances, DEFAULTS, Price, Prices, Recording, Rules, guess_window, rebuilt_at_most,
};
use plimsoll_tokens::ModelTable;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut half, mut context, mut names, mut files) = (None, None, Vec::new(), Vec::<PathBuf>::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--half" => half = args.next(),
            "--context" => context = args.next().map(|tokens| tokens.parse::<u64>()).transpose()?,
            "--policy" => names.extend(args.next()),
            _ => files.push(arg.into()),
        }
    }
    if names.is_empty() {
        names = DEFAULTS.map(str::to_owned).to_vec();
    }
    let rules = names.iter().map(|name| rules(name)).collect::<Result<Vec<Rules>, _>>()?;
    files.retain(|file| half.as_deref().is_none_or(|half| half == half_of(file)));
    println!(
        "session\thalf\tcontext\tpolicy\tcalls\tleftOut\tdeaths\tpeak\tcost\tcached\twritten\toutput\tsummaries\trecalls\t\
         recall\tinSight\trecallCalls\trecallRequests\tfired"
    );
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let text = session(file, context, &rules).unwrap_or_else(|error| {
                        eprintln!("{}: {error}", file.display());
                        String::new()
                    });
                    let _one_at_a_time = lines.lock();
                    print!("{text}");
                }
            });
        }
    });
    Ok(())
}

fn rules(name: &str) -> Result<Rules, Box<dyn Error>> {
    if Path::new(name).is_file() {
        return Ok(Policy::from_json(&fs::read_to_string(name)?)?.into());
    }
    Ok(name.parse::<Rules>()?)
}

fn half_of(file: &Path) -> &'static str {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if blake3::hash(name.as_bytes()).as_bytes()[0] & 0x80 == 0 { "tune" } else { "check" }
}

fn session(file: &Path, context: Option<u64>, rules: &[Rules]) -> Result<String, Box<dyn Error>> {
    let transcript = plimsoll_formats::read(BufReader::new(File::open(file)?))?;
    let model = most_used_model(&transcript).unwrap_or_default();
    let usual = Circumstances::default();
    let known = known_window(&transcript);
    let taken = transcript.recorded.responses().map(|response| response.request() + response.output).max();
    let mut costs = transcript.recorded.responses().map(|response| response.cost).peekable();
    let is_free = costs.peek().is_some() && costs.all(|cost| cost == Some(0.0));
    let recording = Recording::of(transcript.messages);
    let own = match known {
        Some(context) => context,
        // Every call that was made had room.
        None => {
            let taken = taken.unwrap_or_default().max(recording.room(&usual)?);
            if rebuilt_at_most(taken) <= usual.context { usual.context } else { guess_window(taken) }
        }
    };
    let cache_lifetime = recording.cache_lifetime().unwrap_or(usual.cache_lifetime);
    let prices = Prices::default();
    let (_, price) = prices.row(&model, cache_lifetime.0 >= 3_600_000);
    let price = if is_free && !prices.knows(&model) { Price::of_input(0.0) } else { price };
    let circumstances =
        Circumstances { context: context.map_or(own, Tokens), price, cache_lifetime, ..usual };
    let mut text = String::new();
    for rules in rules {
        let report = recording.replay(rules, &circumstances)?;
        let fired: Vec<String> = report.fired.iter().map(|(kind, times)| format!("{kind} {times}")).collect();
        let (parts, recall) = (report.parts, report.recall);
        text += &format!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
            file.file_stem().unwrap_or_default().to_string_lossy(),
            half_of(file),
            circumstances.context.0,
            report.policy,
            report.calls,
            report.left_out,
            report.deaths,
            report.peak,
            report.cost,
            parts.cached,
            parts.written,
            parts.output,
            parts.summaries,
            parts.recalls,
            recall.share(),
            recall.visible_share,
            recall.calls,
            recall.requests,
            fired.join(", ")
        );
    }
    Ok(text)
}

fn most_used_model(transcript: &Transcript) -> Option<String> {
    let mut models: BTreeMap<String, usize> = BTreeMap::new();
    for model in transcript.recorded.responses().filter_map(|response| response.model) {
        *models.entry(model.to_string()).or_default() += 1;
    }
    let most = models.into_iter().max_by_key(|(_, count)| *count).map(|(model, _)| model);
    most.or_else(|| transcript.info.model.clone())
}

/// The window of a session, by the rules of `plimsoll replay`: as recorded, else the model's; none if neither is known.
fn known_window(transcript: &Transcript) -> Option<Tokens> {
    if let Some(context) = transcript.info.context {
        return Some(context);
    }
    let taken = transcript.recorded.responses().map(|response| response.request() + response.output);
    let largest = taken.max().unwrap_or_default();
    let model = transcript.info.model.as_deref().unwrap_or_default();
    let known = ModelTable::default().find(model).and_then(|facts| facts.limits);
    let known = known.map(|limits| limits.context).filter(|context| *context >= largest)?;
    // It works in this window unless it is told otherwise, and does not record which.
    let claude_code = Tokens(200_000);
    let is_bounded = transcript.format == Format::ClaudeCode && largest <= claude_code;
    Some(if is_bounded { known.min(claude_code) } else { known })
}
