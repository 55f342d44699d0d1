//! `replay`: what would each policy have done to recorded sessions?

mod chart;
mod figures;
mod finding;
mod listing;
mod page;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use plimsoll::{Millis, Tokens, Usage};
use plimsoll_formats::Transcript;
use plimsoll_replay::{
    AgainstRecorded, Circumstances, DEFAULT_ROW, DEFAULTS, Price, Prices, Recording, Report, Rules,
    compare_with_none, totals,
};
use plimsoll_session::SessionError;
use plimsoll_tokens::{Measured, ModelTable};
use rayon::prelude::*;
use serde::Serialize;

use crate::args::{InputArgs, PolicyArgs, ReplayArgs};
use crate::config::{self, Config};
use crate::convert::is_there;
use crate::error::CliError;
use crate::files::{self, Existing};
use crate::input;
use crate::output::{Output, counted, note};
use crate::progress::Progress;
use crate::recorded::{RecordedFigures, SessionWindow, WindowSource};
use crate::surroundings::Surroundings;

/// What is told as the price of a model that costs nothing; no row of the table has this name.
const FREE: &str = "free";

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
    /// Comparison of replays without a policy with the recorded bills.
    #[serde(skip_serializing_if = "Option::is_none")]
    bills: Option<Bills>,
    /// Where the rules of each policy come from.
    rules: Vec<RuleSource>,
}

/// Comparison of replays without a policy with the bills that sessions record.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Bills {
    /// Sessions compared.
    sessions: usize,
    /// Sessions whose bills differ by more than 5 %.
    differing: usize,
    #[serde(flatten)]
    sum: AgainstRecorded,
}

impl Bills {
    /// Largest share by which two bills count as equal.
    const FAR: f64 = 0.05;

    fn of(sessions: &[SessionReplay]) -> Option<Bills> {
        let mut bills = Bills::default();
        for bill in sessions.iter().filter_map(|session| session.against_recorded) {
            bills.sessions += 1;
            bills.differing += usize::from((bill.share() - 1.0).abs() > Bills::FAR);
            bills.sum += bill;
        }
        (bills.sessions > 0).then_some(bills)
    }
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
    /// The window it was tried in, and how its size is known.
    context: u64,
    context_source: WindowSource,
    /// Which row of the prices was taken, and what it says.
    price: String,
    prices: Price,
    /// The models that answered, if there are several, each with the row that its calls are priced with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    models: Vec<PricedModel>,
    /// How long its cache lived, in minutes.
    cache_minutes: u64,
    /// Whether tokens are as its recorded usage counts them, and what it hides in every request.
    measured: bool,
    hidden: Tokens,
    /// What its recorded usage cost, in dollars.
    recorded_cost: Option<f64>,
    /// Comparison of the replay without a policy with the recorded bill, over the calls that can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    against_recorded: Option<AgainstRecorded>,
    /// The median share of its recorded tokens that a request is rebuilt with, before it is scaled to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    rebuilt_share: Option<f64>,
    /// What was recorded for the request of each call; empty if nothing was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recorded_requests: Vec<Option<u64>>,
    /// Why the recorded bill may differ from that of no policy.
    #[serde(skip)]
    bill_gap_causes: &'static str,
    policies: Vec<Report>,
}

/// A model of a session, and the row of the prices that its calls are priced with.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PricedModel {
    model: String,
    price: String,
    calls: usize,
}

/// A policy, and where its rules come from.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleSource {
    policy: String,
    source: &'static str,
}

impl SessionReplay {
    /// In which window it was tried; where that is a guess, also that it is one.
    fn window_words(&self) -> String {
        let context = figures::count(self.context);
        match self.context_source {
            WindowSource::LargestRequest => {
                format!("in a window of {context} tokens ({})", self.context_source.words())
            }
            _ => format!("in a window of {context} tokens"),
        }
    }
}

impl RuleSource {
    fn of(rules: &Rules) -> RuleSource {
        RuleSource { policy: rules.to_string(), source: rules.source() }
    }
}

/// Replay sessions and show what came out.
pub(crate) fn replay(
    args: &ReplayArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    // Before the work is done, not after it.
    if let Some(file) = args.html.as_deref().filter(|file| !args.force && file.exists()) {
        return Err(is_there(file));
    }
    let rules = rules(args, around)?;
    let prices = prices(args)?;
    check_price(args, &prices)?;
    if args.list_policies {
        listing::policies(&rules, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.list_prices {
        listing::prices(args, &prices, around, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = Config::load(&PolicyArgs { policy: None, context: args.context }, around)?;
    let sources: Vec<Option<&Path>> = match args.files.as_slice() {
        [] => vec![None],
        files => files.iter().map(|file| Some(file.as_path())).collect(),
    };
    let progress = Progress::things(REPLAYING, 0);
    let under_way = UnderWay::default();
    let asked = Asked {
        args,
        rules: &rules,
        prices: &prices,
        configured: &config.prices,
        progress: &progress,
        under_way: &under_way,
    };
    let one = |source: &Option<&Path>| {
        let (name, transcript) = input::named(&input_of(args, *source), around)?;
        let recorded = RecordedFigures::at(&transcript.recorded, transcript.info.started);
        let window = SessionWindow::of(&transcript, &recorded, &config, args.context);
        session(&name, transcript, &recorded, window, &asked)
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
    let sources = rules.iter().map(RuleSource::of).collect();
    let bills = Bills::of(&sessions);
    let replays = Replays { context: args.context, sessions, total, bills, rules: sources };
    if let Some(file) = &args.html {
        let existing = if args.force { Existing::Replace } else { Existing::Keep };
        files::write(file, page::page(&replays, &prices).as_bytes(), existing)
            .map_err(|error| CliError::failed(format!("cannot write `{}`: {error}", file.display())))?;
        note(&format!("wrote `{}`", file.display()));
    }
    if output.json {
        output.json(&replays)?;
    } else {
        show::show(&replays, args.each, output)?;
    }
    Ok(if failed.iter().any(CliError::is_failure) { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// One of the sources that were asked for, as other commands are asked for theirs.
fn input_of(args: &ReplayArgs, source: Option<&Path>) -> InputArgs {
    InputArgs {
        file: source.map(Path::to_path_buf),
        session: args.session.clone(),
        strict: args.strict,
        policy: PolicyArgs::default(),
    }
}

/// What a session is priced as. It may have changed its model; the one that answered most is the one to price it with.
fn priced_model<'a>(args: &'a ReplayArgs, recorded: &'a RecordedFigures, named: Option<&'a str>) -> &'a str {
    args.price.as_deref().or(recorded.model.as_deref()).or(named).unwrap_or_default()
}

/// Whether a session is priced at zero: its tool recorded a cost of 0 for every response. That it does for a subscription
/// too, so a model with a price has its price.
fn is_free(args: &ReplayArgs, recorded: &RecordedFigures, model: &str, prices: &Prices) -> bool {
    args.price.is_none() && recorded.is_free && !prices.knows(model)
}

/// What is the same for all sessions of a replay.
struct Asked<'a> {
    args: &'a ReplayArgs,
    rules: &'a [Rules],
    prices: &'a Prices,
    /// What the models cost that are configured for runs.
    configured: &'a BTreeMap<String, Price>,
    progress: &'a Progress,
    under_way: &'a UnderWay,
}

const REPLAYING: &str = "replaying";

/// The policies that are being replayed, one for each session. Some take minutes where others take a second.
#[derive(Default)]
struct UnderWay(Mutex<Vec<String>>);

impl UnderWay {
    /// Runs a replay under a policy that progress names meanwhile.
    fn during<T>(&self, policy: &str, progress: &Progress, work: impl FnOnce() -> T) -> T {
        self.change(progress, |names| names.push(policy.to_owned()));
        let done = work();
        self.change(progress, |names| {
            if let Some(at) = names.iter().position(|name| name == policy) {
                names.swap_remove(at);
            }
        });
        done
    }

    fn change(&self, progress: &Progress, change: impl FnOnce(&mut Vec<String>)) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut names);
        progress.name(&under_way_words(&names));
    }
}

/// Text of the progress line while these policies are replayed.
fn under_way_words(names: &[String]) -> String {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    match names.len() {
        0 => REPLAYING.to_owned(),
        1..=3 => format!("{REPLAYING} {}", names.into_iter().collect::<Vec<_>>().join(", ")),
        count => format!("{REPLAYING} {count} policies"),
    }
}

/// One session under every policy, in parallel.
fn session(
    name: &str,
    transcript: Transcript,
    recorded: &RecordedFigures,
    window: SessionWindow,
    asked: &Asked,
) -> Result<SessionReplay, CliError> {
    let Asked { args, rules, prices, configured, progress, under_way } = asked;
    let Transcript { format, info, messages, side_chains, .. } = transcript;
    let has_sub_agents = !side_chains.is_empty();
    if has_sub_agents {
        note(&format!("note: {name} also holds {}, not replayed", counted(side_chains.len(), "sub-agent")));
    }
    if messages.is_empty() {
        return Err(CliError::no(format!("{name} has nothing to replay")));
    }
    let mut recording = Recording::of(messages);
    if recording.calls() == 0 {
        return Err(CliError::failed(format!("{name} has no call of a model to replay")));
    }
    progress.more((recording.calls() * rules.len()) as u64);
    let circumstances = circumstances(args);
    let cannot = |rules: &Rules, error: SessionError| {
        CliError::failed(format!("cannot replay {name} under `{rules}`: {error}"))
    };
    let window = if window.source.is_unknown() {
        let room = recording.room(&circumstances).map_err(|error| cannot(&Rules::None, error))?;
        window.with_room_for(room)
    } else {
        window
    };
    let model = priced_model(args, recorded, info.model.as_deref());
    let lived = recording.cache_lifetime();
    let cache_lifetime = args.cache_minutes.map(|minutes| Millis(minutes.saturating_mul(60_000)));
    let cache_lifetime = cache_lifetime.or(lived).unwrap_or(circumstances.cache_lifetime);
    // What was named for this replay counts more than what is configured.
    let is_named = args.price.is_some() || args.prices.is_some();
    let priced = |model: &str, at: Option<Millis>| match configured.get(model).filter(|_| !is_named) {
        Some(price) => (model.to_owned(), *price),
        None if is_free(args, recorded, model, prices) => (FREE.to_owned(), Price::of_input(0.0)),
        None => prices.row_at(model, cache_lifetime >= Millis(3_600_000), at),
    };
    let (row, price) = priced(model, info.started);
    if args.price.is_none() {
        recording.price_calls(|model, at| (!model.is_empty()).then(|| priced(model, at).1));
    }
    let models = priced_models(&recording, |model, at| priced(model, at).0);
    let context = window.limits.context;
    let circumstances = Circumstances { context, price, cache_lifetime, ..circumstances };
    let replayed = rules.par_iter().map(|rules| {
        let report = under_way.during(&rules.to_string(), progress, || {
            recording.replay_and_tell(rules, &circumstances, &|| progress.step())
        });
        report.map_err(|error| cannot(rules, error))
    });
    let mut policies = replayed.collect::<Result<Vec<Report>, CliError>>()?;
    compare_with_none(&mut policies);
    let none = policies.iter().find(|report| report.policy == "none").filter(|_| !is_named);
    let against_recorded = none.and_then(|none| {
        let table = ModelTable::default();
        let price = |model: &str, at, usage: &Usage| Some(table.price_at(model, at)?.cost(usage));
        AgainstRecorded::of(none, &recording.recorded_costs(price), recording.unreduced_calls())
    });
    let bill_gap_causes = bill_gap_causes(&row, has_sub_agents);
    Ok(SessionReplay {
        name: name.replace('`', ""),
        format: format.to_string(),
        title: info.title,
        model: recorded.model.clone().or(info.model),
        context: context.0,
        context_source: window.source,
        price: row,
        prices: price,
        models: if args.price.is_none() { models } else { Vec::new() },
        cache_minutes: cache_lifetime.0 / 60_000,
        measured: recording.measured().is_some(),
        recorded_cost: recorded.cost,
        hidden: recording.measured().map(Measured::hidden).unwrap_or_default(),
        recorded_requests: Some(recording.recorded_requests())
            .filter(|requests| requests.iter().any(Option::is_some))
            .unwrap_or_default(),
        against_recorded,
        rebuilt_share: recording.rebuilt_share(),
        bill_gap_causes,
        policies,
    })
}

/// The models of a session and the rows that they are priced with. Empty if there is only one.
fn priced_models(recording: &Recording, row: impl Fn(&str, Option<Millis>) -> String) -> Vec<PricedModel> {
    let models = recording.models();
    let priced = models.into_iter().map(|(model, calls)| PricedModel {
        model: model.to_owned(),
        price: row(model, None),
        calls,
    });
    let priced: Vec<PricedModel> = priced.collect();
    if priced.len() > 1 { priced } else { Vec::new() }
}

/// Why the recorded bill may differ from that of the same calls without a policy.
fn bill_gap_causes(row: &str, has_sub_agents: bool) -> &'static str {
    match (row, has_sub_agents) {
        (DEFAULT_ROW, _) => "no price of its model is known here",
        (_, true) => "its sub-agents may be part of the recorded bill",
        _ => "its tool may not use the cache, or its usage may lack what was written to it",
    }
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
    const LIST: &str = "`plimsoll replay --list-prices` lists the models that have a price";
    if model.trim().is_empty() {
        return Err(CliError::usage("`--price` needs the name of a model").hint(LIST));
    }
    let known = prices.names();
    let near = config::nearest_few(model, &known, 3);
    let names: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    let mean = if names.is_empty() { String::new() } else { format!("did you mean {}? ", names.join(", ")) };
    let hint = format!(
        "{mean}{LIST}; `--prices FILE` adds one, `--price default` is one dollar for a million tokens"
    );
    Err(CliError::usage(format!("no price is known for `{model}`")).hint(hint))
}

fn circumstances(args: &ReplayArgs) -> Circumstances {
    Circumstances { output: args.output.map(Tokens), fixed: Tokens(args.fixed), ..Circumstances::default() }
}

#[cfg(test)]
mod tests {
    use super::under_way_words;

    #[test]
    fn progress_names_the_policies_that_are_replayed() {
        let words = |names: &[&str]| {
            under_way_words(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(words(&[]), "replaying");
        assert_eq!(words(&["opencode", "codex", "opencode"]), "replaying codex, opencode");
        assert_eq!(words(&["none", "codex", "opencode", "mask-10"]), "replaying 4 policies");
    }
}
