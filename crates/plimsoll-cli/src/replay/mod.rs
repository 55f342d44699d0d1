//! `replay`: what would each policy have done to recorded sessions?

mod chart;
mod figures;
mod finding;
mod page;

use std::path::Path;
use std::process::ExitCode;

use plimsoll::{Millis, Tokens};
use plimsoll_formats::Transcript;
use plimsoll_replay::{Circumstances, DEFAULTS, Price, Prices, Recording, Report, Rules, totals};
use plimsoll_tokens::Measured;
use rayon::prelude::*;
use serde::Serialize;

use crate::args::{InputArgs, PolicyArgs, ReplayArgs};
use crate::config::{self, Config};
use crate::error::CliError;
use crate::files::{self, Existing};
use crate::input;
use crate::output::{Column, Holds, Output, Table, counted, note, printable};
use crate::progress::Progress;
use crate::recorded::{RecordedFigures, SessionWindow, dollars};
use crate::surroundings::Surroundings;

/// Sessions replayed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replays {
    /// The window they were all tried in; none if each was tried in its own.
    context: Option<u64>,
    /// Each session.
    sessions: Vec<SessionReplay>,
    /// All of them together, policy by policy.
    total: Vec<Report>,
}

/// One session under every policy.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionReplay {
    /// Where it came from.
    name: String,
    format: String,
    title: Option<String>,
    model: Option<String>,
    /// The window it was tried in.
    context: u64,
    /// Which row of the prices was taken, and what it says.
    price: String,
    prices: Price,
    /// How long its cache lived, in minutes.
    cache_minutes: u64,
    /// Whether tokens are as its recorded usage counts them, and what it hides in every request.
    measured: bool,
    hidden: Tokens,
    /// What its recorded usage cost, in dollars.
    recorded_cost: Option<f64>,
    policies: Vec<Report>,
}

/// Replay sessions and show what came out.
pub(crate) fn replay(
    args: &ReplayArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let rules = rules(args, around)?;
    let prices = prices(args)?;
    check_price(args, &prices)?;
    let config = Config::load(&PolicyArgs { policy: None, context: args.context }, around)?;
    let circumstances = circumstances(args);
    let sources: Vec<Option<&Path>> = match args.files.as_slice() {
        [] => vec![None],
        files => files.iter().map(|file| Some(file.as_path())).collect(),
    };
    let progress = Progress::things("replaying", 0);
    let asked = Asked { args, rules: &rules, prices: &prices, progress: &progress };
    let one = |source: &Option<&Path>| {
        let from = InputArgs {
            file: source.map(Path::to_path_buf),
            session: args.session.clone(),
            strict: args.strict,
            policy: PolicyArgs::default(),
        };
        let (name, transcript) = input::named(&from, around)?;
        let recorded = RecordedFigures::of(&transcript.recorded);
        let window = SessionWindow::of(&transcript, &recorded, &config.policy, args.context, config.context);
        let circumstances = Circumstances { context: window.limits.context, ..circumstances };
        session(&name, transcript, &recorded, &circumstances, &asked)
    };
    let (mut sessions, mut failed) = (Vec::new(), Vec::new());
    for done in sources.par_iter().map(one).collect::<Vec<_>>() {
        match done {
            Ok(session) => sessions.push(session),
            Err(error) => failed.push(error),
        }
    }
    drop(progress);
    // One bad file among many does not cost the others, but nor does it pass unnoticed.
    failed.sort_by_key(CliError::is_failure);
    if sessions.is_empty()
        && let Some(error) = failed.pop()
    {
        failed.iter().for_each(CliError::tell);
        return Err(error);
    }
    failed.iter().for_each(CliError::tell);
    let total = totals(sessions.iter().flat_map(|session| &session.policies));
    let replays = Replays { context: args.context, sessions, total };
    if let Some(file) = &args.html {
        let existing = if args.force { Existing::Replace } else { Existing::Keep };
        files::write(file, page::page(&replays).as_bytes(), existing).map_err(|error| {
            let error = CliError::failed(format!("cannot write `{}`: {error}", file.display()));
            if file.exists() { error.hint("give another name, or `--force` to write over it") } else { error }
        })?;
        note(&format!("wrote `{}`", file.display()));
    }
    if output.json {
        output.json(&replays)?;
    } else {
        show(&replays, args.each, output)?;
    }
    Ok(if failed.iter().any(CliError::is_failure) { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// What is the same for all sessions of a replay.
struct Asked<'a> {
    args: &'a ReplayArgs,
    rules: &'a [Rules],
    prices: &'a Prices,
    progress: &'a Progress,
}

/// One session under every policy, in parallel.
fn session(
    name: &str,
    transcript: Transcript,
    recorded: &RecordedFigures,
    circumstances: &Circumstances,
    asked: &Asked,
) -> Result<SessionReplay, CliError> {
    let Asked { args, rules, prices, progress } = asked;
    let Transcript { format, info, messages, side_chains, .. } = transcript;
    if !side_chains.is_empty() {
        note(&format!("note: {name} also holds {}, not replayed", counted(side_chains.len(), "sub-agent")));
    }
    if messages.is_empty() {
        return Err(CliError::no(format!("{name} has nothing to replay")));
    }
    let recording = Recording::of(messages);
    if recording.calls() == 0 {
        return Err(CliError::failed(format!("{name} has no call of a model to replay")));
    }
    progress.more((recording.calls() * rules.len()) as u64);
    // A session may have changed its model; the one that answered most is the one to price it with.
    let model = args.price.as_deref().or(recorded.model.as_deref()).or(info.model.as_deref());
    let model = model.unwrap_or_default();
    let lived = recording.cache_lifetime();
    let cache_lifetime = args.cache_minutes.map(|minutes| Millis(minutes.saturating_mul(60_000)));
    let cache_lifetime = cache_lifetime.or(lived).unwrap_or(circumstances.cache_lifetime);
    let (row, price) = prices.row(model, cache_lifetime >= Millis(3_600_000));
    let circumstances = Circumstances { price, cache_lifetime, ..*circumstances };
    let replayed = rules.par_iter().map(|rules| {
        let report = recording.replay_and_tell(rules, &circumstances, &|| progress.step());
        report.map_err(|error| CliError::failed(format!("cannot replay {name} under `{rules}`: {error}")))
    });
    let policies = replayed.collect::<Result<Vec<Report>, CliError>>()?;
    Ok(SessionReplay {
        name: name.replace('`', ""),
        format: format.to_string(),
        title: info.title,
        model: info.model,
        context: circumstances.context.0,
        price: row,
        prices: price,
        cache_minutes: cache_lifetime.0 / 60_000,
        measured: recording.measured().is_some(),
        recorded_cost: recorded.cost,
        hidden: recording.measured().map(Measured::hidden).unwrap_or_default(),
        policies,
    })
}

/// What was asked for, each once.
fn rules(args: &ReplayArgs, around: &Surroundings) -> Result<Vec<Rules>, CliError> {
    let asked: Vec<String> = match args.policy.as_slice() {
        [] => DEFAULTS.map(str::to_owned).to_vec(),
        names => names.to_vec(),
    };
    let mut rules: Vec<Rules> = Vec::new();
    for name in asked {
        let one = match name.parse::<Rules>() {
            // A preset is taken with what the configuration says on top of it.
            Ok(Rules::Engine(_)) => configured(&name, around)?,
            Ok(published) => published,
            Err(_) if Path::new(&name).is_file() => configured(&name, around)?,
            Err(unknown) => {
                return Err(CliError::usage(unknown.to_string()).hint("or give the path of a policy file"));
            }
        };
        if rules.iter().all(|other| other.to_string() != one.to_string()) {
            rules.push(one);
        }
    }
    Ok(rules)
}

fn configured(name: &str, around: &Surroundings) -> Result<Rules, CliError> {
    let flags = PolicyArgs { policy: Some(name.to_owned()), context: None };
    Ok(Config::load(&flags, around)?.policy.into())
}

fn prices(args: &ReplayArgs) -> Result<Prices, CliError> {
    let Some(file) = &args.prices else { return Ok(Prices::default()) };
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| CliError::usage(format!("cannot read prices `{name}`: {error}")))?;
    let wrong = |problem: String| {
        CliError::usage(format!("prices `{name}`: {problem}"))
            .hint("expected {\"model\": {\"cacheRead\": 0.3, \"cacheWrite\": 3.75, \"output\": 15}}, in dollars for a million tokens")
    };
    let own: Prices = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    own.check().map_err(wrong)?;
    Ok(Prices::default().with(own))
}

/// Refuse a model that has no price, with the names that are most like it: with the price of another, the figures would be
/// of that.
fn check_price(args: &ReplayArgs, prices: &Prices) -> Result<(), CliError> {
    let Some(model) = args.price.as_deref().filter(|model| !prices.knows(model)) else { return Ok(()) };
    let known = prices.names();
    let near = config::nearest_few(model, &known, 3);
    let names: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    let mean = if names.is_empty() { String::new() } else { format!("did you mean {}? ", names.join(", ")) };
    let hint =
        format!("{mean}`--prices FILE` adds a price, `--price default` is one dollar for a million tokens");
    Err(CliError::usage(format!("no price is known for `{model}`")).hint(hint))
}

fn circumstances(args: &ReplayArgs) -> Circumstances {
    Circumstances { output: args.output.map(Tokens), fixed: Tokens(args.fixed), ..Circumstances::default() }
}

fn show(replays: &Replays, each: bool, output: &mut Output) -> Result<(), CliError> {
    for session in replays.sessions.iter().filter(|_| each || replays.sessions.len() == 1) {
        let calls = counted(calls(&session.policies) as usize, "call");
        let model = session.model.as_deref().unwrap_or("unknown model");
        let context = figures::count(session.context);
        let heading = format!("{}: {calls}, {model}, in a window of {context} tokens", session.name);
        output.painted(&printable(&heading))?;
        output.painted(&printable(&told_prices(session)))?;
        output.table(&table(&session.policies))?;
        output.painted(&printable(&format!("\n{}\n", finding::of_session(session))))?;
        output.report(&reductions(&session.policies, when))?;
    }
    if replays.sessions.len() > 1 {
        let sessions = counted(replays.sessions.len(), "session");
        let calls = counted(calls(&replays.total) as usize, "call");
        let context =
            replays.context.map(|context| format!("in a window of {} tokens", figures::count(context)));
        let context = context.unwrap_or_else(|| "each in its own window".to_owned());
        output.painted(&format!("{sessions}, {calls}, {context}\n"))?;
        output.table(&table(&replays.total))?;
        output.painted(&format!("\n{}\n", finding::headline(&replays.total)))?;
        output.report(&reductions(&replays.total, figures::fired))?;
    }
    Ok(())
}

/// What a session was priced with, and how its tokens are known.
fn told_prices(session: &SessionReplay) -> String {
    let SessionReplay { price, prices, cache_minutes, measured, hidden, recorded_cost, .. } = session;
    let counted = if *measured {
        let cost = recorded_cost.map(|cost| format!("; recorded: {}", dollars(cost))).unwrap_or_default();
        format!("tokens as recorded usage counts them, {hidden} hidden in every request{cost}")
    } else {
        "tokens estimated by characters over four".to_owned()
    };
    let of = provider(price).map(|name| format!(" ({name})")).unwrap_or_default();
    // Prices are products of list prices and factors, and floats show that in their last digits.
    let [cache_read, cache_write, output] = [prices.cache_read, prices.cache_write, prices.output]
        .map(|dollars| (dollars * 10_000.0).round() / 10_000.0);
    format!(
        "priced as {price}{of}: ${cache_read} read from the cache, ${cache_write} written for {cache_minutes} min, \
         ${output} output, a million\n{counted}\n"
    )
}

/// Whose prices and cache those of a row are.
fn provider(row: &str) -> Option<&'static str> {
    let is_openai = |row: &str| {
        row.starts_with("gpt") || row.starts_with("o1") || row.starts_with("o3") || row.starts_with("o4")
    };
    match row {
        row if row.starts_with("claude") => Some("Anthropic"),
        row if row.starts_with("gemini") => Some("Google"),
        row if is_openai(row) => Some("OpenAI"),
        _ => None,
    }
}

fn calls(reports: &[Report]) -> u64 {
    reports.first().map(|report| report.calls).unwrap_or_default()
}

/// The figures; what fired is told below them, where there is room for it.
fn table(reports: &[Report]) -> Table {
    let columns = figures::HEADINGS[..figures::HEADINGS.len() - 1].iter().map(|heading| Column {
        heading,
        holds: if *heading == "policy" { Holds::Names } else { Holds::Numbers },
    });
    let mut table = Table::new(columns.collect());
    reports
        .iter()
        .for_each(|report| table.row(figures::row(report).into_iter().take(figures::HEADINGS.len() - 1)));
    table
}

/// What fired, policy by policy, in the words of `tell`.
fn reductions(reports: &[Report], tell: impl Fn(&Report) -> String) -> String {
    let mut text = String::from("\nReductions\n");
    let width = reports.iter().map(|report| report.policy.chars().count()).max().unwrap_or(0);
    for report in reports {
        text.push_str(&format!("  {:<width$}  {}\n", printable(&report.policy), tell(report)));
    }
    text + "\n"
}

/// Each kind that fired, and before which calls.
fn when(report: &Report) -> String {
    /// More calls than this are not listed.
    const MOST: usize = 8;
    let kinds = report.fired.iter().map(|(kind, times)| {
        let mut calls: Vec<u64> = report
            .reductions
            .iter()
            .filter(|fired| fired.reduction.kind == *kind)
            .map(|fired| fired.call)
            .collect();
        calls.dedup();
        let listed: Vec<String> = calls.iter().take(MOST).map(|call| figures::count(*call)).collect();
        match (times, calls.len()) {
            (1, _) => format!("{kind} at call {}", listed.join("")),
            (times, 0..=MOST) => format!("{kind} {times} (calls {})", listed.join(", ")),
            (times, _) => format!("{kind} {times} (calls {}, …)", listed.join(", ")),
        }
    });
    let kinds: Vec<String> = kinds.collect();
    if kinds.is_empty() { "–".to_owned() } else { kinds.join(", ") }
}
