//! Configuration as the command has it: loaded by `plimsoll-config`, turned into values of the store, and rendered.

mod run;
mod show;
mod trust;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll::{Limits, Policy, Preset, Tokens};
use plimsoll_config::{
    ConfigError, Distrust, Flags, GuardedSetting, LedgerError, LeftOut, Origin, ProviderConfig, SpillAge,
};
use plimsoll_replay::Price;
use plimsoll_store::{Durability, Retention};
use serde_json::Value;

use crate::args::PolicyArgs;
use crate::error::{CliError, reason};
use crate::output::{escaped, note};
use crate::surroundings::Surroundings;

pub(crate) use plimsoll_config::{nearest, nearest_few};
pub(crate) use run::{ForRun, NETWORK, load_run};
pub(crate) use show::run;
pub(crate) use trust::{trust, untrust};

/// What all layers together say.
#[derive(Debug)]
pub(crate) struct Config {
    /// The policy.
    pub(crate) policy: Policy,
    /// The model's context window, in tokens.
    pub(crate) context: u64,
    /// Whether a flag, a variable or a file names it; otherwise it is the built-in one.
    pub(crate) is_context_named: bool,
    /// Where Plimsoll keeps sessions, and how.
    pub(crate) store: StoreConfig,
    /// What models cost that are configured for runs.
    pub(crate) prices: BTreeMap<String, Price>,
}

/// Where Plimsoll keeps sessions, and how, as the store takes it.
#[derive(Clone, Debug)]
pub(crate) struct StoreConfig {
    /// The database; nothing where nothing names one and there is no home.
    pub(crate) path: Option<PathBuf>,
    /// What an acknowledged write survives.
    pub(crate) durability: Durability,
    /// How long spilled outputs stay.
    pub(crate) retention: Retention,
}

impl Config {
    /// What holds here, with these flags.
    pub(crate) fn load(flags: &PolicyArgs, around: &Surroundings) -> Result<Config, CliError> {
        let config = load(flags, around)?;
        tell_left_out(&config, around, |setting| !setting.is_about_run());
        let is_context_named = config.origin("context") != plimsoll_config::Origin::BuiltIn;
        let plimsoll_config::Config { policy, context, store, run, .. } = config;
        let providers = || run.iter().flat_map(|run| run.providers.values());
        let policy = with_limits(policy, providers())?;
        let prices = prices_of(providers());
        let store = StoreConfig::new(&store, &policy);
        Ok(Config { policy, context, is_context_named, store, prices })
    }
}

/// Models that are configured for runs have their limits in the policy, so that a session is shown in the window of its
/// model. What the policy itself says of a model counts more.
fn with_limits<'a>(
    policy: Policy,
    providers: impl Iterator<Item = &'a ProviderConfig>,
) -> Result<Policy, CliError> {
    let mut spec = policy.into_spec();
    for (name, model) in providers.flat_map(|provider| &provider.models) {
        let Some(context) = model.context.map(Tokens) else { continue };
        let (input, output) = (model.input.map(Tokens), Tokens(model.output.unwrap_or_default()));
        for name in std::iter::once(name).chain(&model.id) {
            spec.overflow.models.entry(name.clone()).or_insert(Limits { context, input, output });
        }
    }
    Policy::try_from(spec).map_err(|error| CliError::usage(error.to_string()))
}

/// What models cost that are configured for runs. What goes through a cache costs what input costs, where it has no price of
/// its own.
fn prices_of<'a>(providers: impl Iterator<Item = &'a ProviderConfig>) -> BTreeMap<String, Price> {
    let mut prices = BTreeMap::new();
    for (name, model) in providers.flat_map(|provider| &provider.models) {
        let [input, output, cache_read, cache_write] = model.price;
        let (Some(read), Some(write), Some(output)) = (cache_read.or(input), cache_write.or(input), output)
        else {
            continue;
        };
        for name in std::iter::once(name).chain(&model.id) {
            let price = Price { cache_read: read, cache_write: write, output, long_prompt: None };
            prices.insert(name.clone(), price);
        }
    }
    prices
}

impl StoreConfig {
    /// The store's settings beside a policy: the guide's preset has the guide's seven days.
    pub(crate) fn new(store: &plimsoll_config::StoreConfig, policy: &Policy) -> StoreConfig {
        let usual = Retention::default();
        let age = match store.spill_age {
            SpillAge::Default if policy.name == Preset::Openfork.name() => Retention::GUIDE.age,
            SpillAge::Default => usual.age,
            SpillAge::Any => None,
            SpillAge::AtMost(age) => Some(age),
        };
        let durability = match store.durability {
            plimsoll_config::Durability::Process => Durability::Process,
            plimsoll_config::Durability::Power => Durability::Power,
        };
        let retention = Retention { age, most_bytes: store.spill_bytes.or(usual.most_bytes) };
        StoreConfig { path: store.path.clone(), durability, retention }
    }
}

/// The whole configuration with its origins.
fn load(flags: &PolicyArgs, around: &Surroundings) -> Result<plimsoll_config::Config, CliError> {
    let PolicyArgs { policy, context } = flags.clone();
    let flags = Flags { policy, context, store: around.store.clone(), ..Flags::default() };
    Ok(plimsoll_config::Config::load(&flags, around)?)
}

/// Say once in a run what is left out of what matters to it.
pub(crate) fn tell_left_out(
    config: &plimsoll_config::Config,
    around: &Surroundings,
    matters: impl Fn(&GuardedSetting) -> bool,
) {
    around.left_out_told.call_once(|| {
        for left_out in &config.left_out {
            let keys = short_keys(left_out.settings.iter().filter(|setting| matters(setting)));
            if !keys.is_empty() {
                note(&told(left_out, &keys.join(", "), around));
            }
        }
    });
}

/// The keys of settings. A provider or an agent is named once, however many of its settings there are.
fn short_keys<'a>(settings: impl Iterator<Item = &'a GuardedSetting>) -> Vec<String> {
    let mut keys = Vec::new();
    for setting in settings {
        let end = setting.key.match_indices('.').nth(1).filter(|_| setting.is_about_run());
        let key = escaped(&setting.key[..end.map_or(setting.key.len(), |(at, _)| at)]);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// Say what has no effect: keys of OpenCode's files, a line for each file, and rules for tools that are not there.
pub(crate) fn tell_notices(config: &plimsoll_config::Config, around: &Surroundings) {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for notice in &config.notices {
        let file = match &notice.origin {
            Origin::File { path, .. } => escaped(&around.short(path)),
            other => other.to_string(),
        };
        let reason = notice.reason.as_ref().map(|reason| format!(" ({reason})"));
        let told = escaped(&format!("{}{}", notice.key, reason.unwrap_or_default()));
        match lines.iter_mut().find(|(known, _)| *known == file) {
            Some((_, keys)) => keys.push(told),
            None => lines.push((file, vec![told])),
        }
    }
    for (file, keys) in lines {
        note(&format!("note: `{file}`: no effect here: {}", keys.join(", ")));
    }
    for rule in config.run.iter().flat_map(plimsoll_agent::idle_rules) {
        note(&format!("note: {}", escaped(&rule.to_string())));
    }
}

/// What is left out, why, and what to type.
fn told(left_out: &LeftOut, keys: &str, around: &Surroundings) -> String {
    let LeftOut { files, directory, why, .. } = left_out;
    let names = files.iter().map(|file| format!("`{}`", escaped(&around.short(file)))).collect::<Vec<_>>();
    let (names, is) = (names.join(" and "), if files.len() > 1 { "are" } else { "is" });
    let directory = shell_word(directory, around);
    let next = format!("`plimsoll config` shows them, `plimsoll trust {directory}` lets them take effect");
    let (why, next) = match why {
        Distrust::NotTrusted => (format!("{names} {is} not trusted"), next),
        Distrust::Changed => (format!("{names} or a file it names changed since it was trusted"), next),
        Distrust::NoLedger(error) => {
            (ledger_message(error), format!("{}, then `plimsoll trust {directory}`", error.remedy()))
        }
    };
    format!("note: {why}; left out: {keys}\nhint: {next}")
}

/// Where a value stands, the home written as `~`. A path may be of a checkout's choosing, so whatever a terminal would
/// hide or reorder is escaped.
fn short_origin(origin: &Origin, around: &Surroundings) -> String {
    let origin = match origin {
        Origin::File { path, line } => {
            Origin::File { path: around.short(path).into(), line: *line }.to_string()
        }
        other => other.to_string(),
    };
    escaped(&origin)
}

/// A value in full, with everything that a terminal would hide or reorder escaped: it comes from a file that is not
/// trusted.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key:?} = {}", written(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A path that can be pasted into a shell.
fn shell_word(path: &Path, around: &Surroundings) -> String {
    let short = around.short(path);
    let is_plain = |c: char| c.is_alphanumeric() || "/._-~+=@:,".contains(c);
    if short.chars().all(is_plain) {
        return short;
    }
    // A path with a line break cannot be pasted, and must not look like two lines.
    escaped(&format!("'{}'", path.display().to_string().replace('\'', r"'\''")))
}

fn ledger_message(error: &LedgerError) -> String {
    match error {
        LedgerError::Read { path, source } => {
            format!("cannot read `{}`: {}", path.display(), reason(source))
        }
        LedgerError::Write { path, source } => {
            format!("cannot write `{}`: {}", path.display(), reason(source))
        }
        other => other.to_string(),
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> CliError {
        CliError::from(&error)
    }
}

impl From<&ConfigError> for CliError {
    fn from(error: &ConfigError) -> CliError {
        let message = match error {
            ConfigError::Unreadable { path, source } => {
                format!("cannot read `{}`: {}", path.display(), reason(source))
            }
            other => other.to_string(),
        };
        // The message quotes keys and values of untrusted files.
        let error = (CliError::usage(escaped(&message)), error.hint());
        match error {
            (told, Some(hint)) => told.hint(escaped(&hint)),
            (told, None) => told,
        }
    }
}

impl From<LedgerError> for CliError {
    fn from(error: LedgerError) -> CliError {
        CliError::failed(ledger_message(&error)).hint(format!("{}, then try again", error.remedy()))
    }
}
