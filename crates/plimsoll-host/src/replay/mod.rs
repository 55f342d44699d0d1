//! Replay of recorded sessions under policies: chooses sessions, prices, windows and policies, and runs them in parallel.

mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll::{Millis, Tokens, Usage};
use plimsoll_config::{Flags, nearest_few};
use plimsoll_formats::Transcript;
use plimsoll_import::{Extent, Scope};
use plimsoll_replay::{
    AgainstRecorded, DEFAULT_ROW, DEFAULTS, Price, Prices, Recording, ReplayParams, Report, Rules,
    compare_with_none, totals,
};
use plimsoll_session::SessionError;
use plimsoll_tokens::{Measured, ModelTable};
use rayon::prelude::*;

use crate::error::HostError;
use crate::host::Host;
use crate::input::InputSpec;
use crate::recorded::{RecordedFigures, SessionWindow};
use crate::report::{Progress, Work};
use crate::words::counted;

pub use results::{Bills, PricedModel, Replays, RuleSource, SessionReplay};

/// Name of the price row for free sessions. No row of the table has this name.
pub const FREE_PRICE: &str = "free";
/// The name of the work.
const REPLAYING: &str = "replaying";

/// Parameters of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayRequest {
    /// Policies and policy files to replay; the default ones if empty.
    pub policies: Vec<String>,
    /// The context window of all sessions; each session's own if `None`.
    pub context: Option<u64>,
    /// Maximum size of an answer, for which room is reserved.
    pub output: Option<u64>,
    /// Tokens of every request in addition to the conversation.
    pub overhead: u64,
    /// Price all sessions as this model.
    pub price: Option<String>,
    /// A file with prices by model.
    pub prices: Option<PathBuf>,
    /// Lifetime of the prompt cache, in minutes.
    pub cache_minutes: Option<u64>,
    /// Flag that stops the replay.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Host {
    /// Replays sessions. Returns the results, and the errors of sessions that cannot be replayed.
    pub fn replay(
        &self,
        inputs: Vec<InputSpec>,
        request: &ReplayRequest,
    ) -> Result<(Replays, Vec<HostError>), HostError> {
        let rules = self.replay_rules(&request.policies)?;
        let prices = request.prices()?;
        let config = self.config(&Flags { context: request.context, ..Flags::default() })?;
        let progress = self.progress(REPLAYING, Work::Items(0));
        let replayer = Replayer {
            request,
            rules: &rules,
            prices: &prices,
            configured: &config.prices,
            progress: &*progress,
            running: RunningPolicies::default(),
            host: self,
        };
        let one = |spec: InputSpec| {
            let input = self.input(spec, Scope::All)?;
            let name = input.name.clone();
            let transcript = input.read(Extent::Whole)?;
            let recorded = RecordedFigures::at(&transcript.recorded, transcript.info.started);
            let window = SessionWindow::of(&transcript, &recorded, &config, request.context);
            replayer.session(&name, transcript, &recorded, window)
        };
        let (mut sessions, mut failed) = (Vec::new(), Vec::new());
        for done in inputs.into_par_iter().map(one).collect::<Vec<_>>() {
            match done {
                Ok(session) => sessions.push(session),
                Err(error) => failed.push(error),
            }
        }
        drop(progress);
        let total = totals(sessions.iter().flat_map(|session| &session.policies));
        let bills = Bills::of(&sessions);
        let rules = rules.iter().map(RuleSource::from).collect();
        Ok((Replays { context: request.context, sessions, total, bills, rules }, failed))
    }

    /// Returns the rules of policies, each once.
    pub fn replay_rules(&self, policies: &[String]) -> Result<Vec<Rules>, HostError> {
        let asked: Vec<String> = match policies {
            [] => DEFAULTS.map(str::to_owned).to_vec(),
            names => names.to_vec(),
        };
        // Settings of the configuration apply on top of a preset.
        let configured = |name: &str| -> Result<Rules, HostError> {
            Ok(self.config(&Flags { policy: Some(name.to_owned()), ..Flags::default() })?.policy.into())
        };
        let mut rules: Vec<Rules> = Vec::new();
        for name in asked {
            let one = match name.parse::<Rules>() {
                Ok(Rules::Engine(_)) => configured(&name)?,
                Ok(published) => published,
                Err(_) if Path::new(&name).is_file() => configured(&name)?,
                Err(unknown) => {
                    return Err(HostError::usage(unknown.to_string())
                        .hint("a path of a policy file is also accepted"));
                }
            };
            if rules.iter().all(|other| other.to_string() != one.to_string()) {
                rules.push(one);
            }
        }
        Ok(rules)
    }

    /// Returns the models that sessions are priced as, without free ones.
    pub fn priced_models(
        &self,
        inputs: Vec<InputSpec>,
        request: &ReplayRequest,
        prices: &Prices,
    ) -> Result<Vec<String>, HostError> {
        let mut models: Vec<String> = request.price.iter().cloned().collect();
        for spec in inputs {
            let transcript = self.transcript(spec)?;
            let recorded = RecordedFigures::at(&transcript.recorded, transcript.info.started);
            let model = request.priced_model(&recorded, transcript.info.model.as_deref());
            if !request.is_free(&recorded, model, prices) {
                models.push(model.to_owned());
            }
        }
        Ok(models)
    }
}

impl ReplayRequest {
    /// Reads the prices. An unknown model is an error that suggests similar names; with a default price, the figures would be
    /// those of another model.
    pub fn prices(&self) -> Result<Prices, HostError> {
        const LIST: &str = "list models with prices with `plimsoll replay --list-prices`";
        let prices = self.read_prices()?;
        let Some(model) = self.price.as_deref().filter(|model| !prices.knows(model)) else {
            return Ok(prices);
        };
        if model.trim().is_empty() {
            return Err(HostError::usage("`--price-as` needs the name of a model").hint(LIST));
        }
        let known = prices.names();
        let near = nearest_few(model, &known, 3);
        let names: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        let mean =
            if names.is_empty() { String::new() } else { format!("did you mean {}? ", names.join(", ")) };
        let hint = format!(
            "{mean}{LIST}; add one with `--prices FILE`, or use `--price-as default` (one dollar per million tokens)"
        );
        Err(HostError::usage(format!("unknown price of model `{model}`")).hint(hint))
    }

    fn read_prices(&self) -> Result<Prices, HostError> {
        let Some(file) = &self.prices else { return Ok(Prices::default()) };
        let name = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| {
            HostError::usage(format!("cannot read prices `{name}`: {error}")).caused_by(error)
        })?;
        let wrong = |problem: String| {
            HostError::usage(format!("prices `{name}`: {problem}"))
                .hint("expected {\"model\": {\"cacheRead\": 0.3, \"cacheWrite\": 3.75, \"output\": 15}}, in dollars per million tokens")
        };
        let own: Prices = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        own.check().map_err(wrong)?;
        Ok(Prices::default().with(own))
    }

    /// Returns the model that a session is priced as. If the session changed its model, that is the one with the most answers.
    fn priced_model<'a>(&'a self, recorded: &'a RecordedFigures, named: Option<&'a str>) -> &'a str {
        self.price.as_deref().or(recorded.model.as_deref()).or(named).unwrap_or_default()
    }

    /// Whether a session is priced at zero, because its tool recorded a cost of 0 for every response. Tools also do that for
    /// subscriptions, so a model with a known price keeps its price.
    fn is_free(&self, recorded: &RecordedFigures, model: &str, prices: &Prices) -> bool {
        self.price.is_none() && recorded.is_free && !prices.knows(model)
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn params(&self) -> ReplayParams {
        let (output, fixed) = (self.output.map(Tokens), Tokens(self.overhead));
        ReplayParams { output, fixed, ..ReplayParams::default() }
    }
}

/// Parameters that all sessions of a replay share.
struct Replayer<'a> {
    request: &'a ReplayRequest,
    rules: &'a [Rules],
    prices: &'a Prices,
    /// Prices of configured models.
    configured: &'a BTreeMap<String, Price>,
    progress: &'a dyn Progress,
    running: RunningPolicies,
    host: &'a Host,
}

/// Policies that are being replayed, one entry per running replay. Shown as progress, because some take minutes and others a
/// second.
#[derive(Default)]
struct RunningPolicies(Mutex<Vec<String>>);

impl RunningPolicies {
    /// Runs a replay and shows its policy as progress.
    fn during<T>(&self, policy: &str, progress: &dyn Progress, work: impl FnOnce() -> T) -> T {
        self.change(progress, |names| names.push(policy.to_owned()));
        let done = work();
        self.change(progress, |names| {
            if let Some(at) = names.iter().position(|name| name == policy) {
                names.swap_remove(at);
            }
        });
        done
    }

    fn change(&self, progress: &dyn Progress, change: impl FnOnce(&mut Vec<String>)) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut names);
        progress.rename(&progress_text(&names));
    }
}

/// Returns the text of the progress line.
fn progress_text(names: &[String]) -> String {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    match names.len() {
        0 => REPLAYING.to_owned(),
        1..=3 => format!("{REPLAYING} {}", names.into_iter().collect::<Vec<_>>().join(", ")),
        count => format!("{REPLAYING} {count} policies"),
    }
}

impl Replayer<'_> {
    /// Replays one session under every policy, in parallel.
    fn session(
        &self,
        name: &str,
        transcript: Transcript,
        recorded: &RecordedFigures,
        window: SessionWindow,
    ) -> Result<SessionReplay, HostError> {
        let Replayer { request, rules, prices, configured, progress, running, host } = self;
        let Transcript { format, info, messages, side_chains, .. } = transcript;
        let has_sub_agents = !side_chains.is_empty();
        if has_sub_agents {
            host.note(format!(
                "{name} also contains {}, not replayed",
                counted(side_chains.len(), "sub-agent")
            ));
        }
        if messages.is_empty() {
            return Err(HostError::negative(format!("{name} has nothing to replay")));
        }
        let mut recording = Recording::of(messages);
        if recording.calls() == 0 {
            return Err(HostError::failed(format!("{name} has no model call to replay")));
        }
        progress.more((recording.calls() * rules.len()) as u64);
        let params = request.params();
        let cannot = |rules: &Rules, error: SessionError| {
            HostError::failed(format!("cannot replay {name} under `{rules}`: {error}"))
        };
        let window = if window.source.is_unknown() {
            let room = recording.room(&params).map_err(|error| cannot(&Rules::None, error))?;
            window.with_room_for(room)
        } else {
            window
        };
        let model = request.priced_model(recorded, info.model.as_deref());
        let lived = recording.cache_lifetime();
        let cache_lifetime = request.cache_minutes.map(|minutes| Millis(minutes.saturating_mul(60_000)));
        let cache_lifetime = cache_lifetime.or(lived).unwrap_or(params.cache_lifetime);
        // Prices given for this replay have priority over configured ones.
        let is_named = request.price.is_some() || request.prices.is_some();
        let priced = |model: &str, at: Option<Millis>| match configured.get(model).filter(|_| !is_named) {
            Some(price) => (model.to_owned(), *price),
            None if request.is_free(recorded, model, prices) => (FREE_PRICE.to_owned(), Price::of_input(0.0)),
            None => prices.row_at(model, cache_lifetime >= Millis(3_600_000), at),
        };
        let (row, price) = priced(model, info.started);
        if request.price.is_none() {
            recording.price_calls(|model, at| (!model.is_empty()).then(|| priced(model, at).1));
        }
        let models = priced_models(&recording, |model, at| priced(model, at).0);
        let context = window.limits.context;
        let params = ReplayParams { context, price, cache_lifetime, ..params };
        let replayed = rules.par_iter().map(|rules| {
            let report = running.during(&rules.to_string(), *progress, || {
                recording.replay_with_progress(rules, &params, &|| {
                    progress.step();
                    !request.is_stopped()
                })
            });
            report.map_err(|error| cannot(rules, error))
        });
        let mut policies = replayed.collect::<Result<Vec<Report>, HostError>>()?;
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
            models: if request.price.is_none() { models } else { Vec::new() },
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
}

/// Returns the models of a session with their price rows; empty if there is only one.
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

/// Explains why the recorded bill may differ from the replayed cost of the same calls without a policy.
fn bill_gap_causes(row: &str, has_sub_agents: bool) -> &'static str {
    match (row, has_sub_agents) {
        (DEFAULT_ROW, _) => "the price of its model is unknown",
        (_, true) => "its sub-agents may be part of the recorded bill",
        _ => "its tool may not use the cache, or its usage may lack what was written to it",
    }
}

#[cfg(test)]
mod tests {
    use super::progress_text;

    #[test]
    fn progress_names_the_policies_that_are_replayed() {
        let words =
            |names: &[&str]| progress_text(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&[]), "replaying");
        assert_eq!(words(&["opencode", "codex", "opencode"]), "replaying codex, opencode");
        assert_eq!(words(&["none", "codex", "opencode", "mask-10"]), "replaying 4 policies");
    }
}
