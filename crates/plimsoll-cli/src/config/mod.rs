//! Configuration as the command has it: loaded by `plimsoll-config`, turned into values of the store, and rendered.

mod show;
mod trust;

use std::path::{Path, PathBuf};

use plimsoll::{Policy, Preset};
use plimsoll_config::{ConfigError, Distrust, Flags, LedgerError, LeftOut, Origin, SpillAge};
use plimsoll_store::{Durability, Retention};
use serde_json::Value;

use crate::args::PolicyArgs;
use crate::error::{CliError, reason};
use crate::output::note;
use crate::surroundings::Surroundings;

pub(crate) use plimsoll_config::nearest;
pub(crate) use show::run;
pub(crate) use trust::{trust, untrust};

/// What all layers together say.
#[derive(Debug)]
pub(crate) struct Config {
    /// The policy.
    pub(crate) policy: Policy,
    /// The model's context window, in tokens.
    pub(crate) context: u64,
    /// Where Plimsoll keeps sessions, and how.
    pub(crate) store: StoreConfig,
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
        let plimsoll_config::Config { policy, context, store, .. } = load(flags, around)?;
        let store = StoreConfig::new(&store, &policy);
        Ok(Config { policy, context, store })
    }
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

/// The whole configuration with its origins. What is left out of it is said once in a run.
fn load(flags: &PolicyArgs, around: &Surroundings) -> Result<plimsoll_config::Config, CliError> {
    let PolicyArgs { policy, context } = flags.clone();
    let flags = Flags { policy, context, store: around.store.clone(), ..Flags::default() };
    let config = plimsoll_config::Config::load(&flags, around)?;
    if let Some(left_out) = &config.left_out {
        around.left_out_told.call_once(|| note(&told(left_out, around)));
    }
    Ok(config)
}

/// What is left out, why, and what to type.
fn told(left_out: &LeftOut, around: &Surroundings) -> String {
    let LeftOut { file, directory, why, settings } = left_out;
    let keys = settings.iter().map(|setting| setting.key.as_str()).collect::<Vec<_>>().join(", ");
    let directory = shell_word(directory, around);
    let next = format!("`plimsoll config` shows them, `plimsoll trust {directory}` lets them take effect");
    let (why, next) = match why {
        Distrust::NotTrusted => (format!("`{}` is not trusted", around.short(file)), next),
        Distrust::Changed => {
            (format!("`{}` or a file it names changed since it was trusted", around.short(file)), next)
        }
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
    let is_quote = |c| matches!(c, '\'' | '"' | '\\');
    origin.chars().map(|c| if is_quote(c) { c.to_string() } else { c.escape_debug().to_string() }).collect()
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
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
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
        let message = match &error {
            ConfigError::Unreadable { path, source } => {
                format!("cannot read `{}`: {}", path.display(), reason(source))
            }
            other => other.to_string(),
        };
        match error.hint() {
            Some(hint) => CliError::usage(message).hint(hint),
            None => CliError::usage(message),
        }
    }
}

impl From<LedgerError> for CliError {
    fn from(error: LedgerError) -> CliError {
        CliError::failed(ledger_message(&error)).hint(format!("{}, then try again", error.remedy()))
    }
}
