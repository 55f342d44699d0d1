//! Configuration as hosts use it: loaded by `plimsoll-config`, with the limits and prices of configured models applied.
//!
//! All hosts use this loader, so every command sees a session in the same window, whether or not it asks a model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use plimsoll::{Limits, Policy, Preset};
use plimsoll_config::{
    Config, DistrustReason, Environment, Flags, GuardedSetting, LeftOut, Origin, RunConfig, SpillAge,
};
use plimsoll_replay::Price;
use plimsoll_store::{Durability, Retention};

use crate::error::{HostError, escaped, ledger_message};
use crate::host::Host;
use crate::report::{Level, Notice};
use crate::shell::shell_word;

/// The merged layers of the configuration, as hosts use them.
#[derive(Debug)]
#[non_exhaustive]
pub struct HostConfig {
    /// The policy, with the limits of configured models.
    pub policy: Policy,
    /// Context window of unknown models, in tokens.
    pub context: u64,
    /// Whether a flag, a variable or a file sets `context`. If not, it has its default.
    pub is_context_named: bool,
    /// Settings of the store.
    pub store: StoreSettings,
    /// Prices of configured models.
    pub prices: BTreeMap<String, Price>,
    /// Models whose limits in `policy` come from the configuration of their provider.
    provider_limits: BTreeSet<String>,
}

/// Location, durability and retention of the store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreSettings {
    /// The database; `None` if it is not configured and the user has no home directory.
    pub path: Option<PathBuf>,
    /// Durability of acknowledged writes.
    pub durability: Durability,
    /// Retention of spilled outputs.
    pub retention: Retention,
}

impl Host {
    /// Loads the configuration for work on sessions. Reports relevant settings of an untrusted project that are ignored.
    pub fn config(&self, flags: &Flags) -> Result<HostConfig, HostError> {
        let config = self.layers(flags)?;
        self.report_left_out(&config, |setting| !setting.is_about_run());
        Ok(HostConfig::of(config)?.0)
    }

    /// Loads the configuration for a run of an agent or a request to a model. Reports settings that are ignored or have no
    /// effect.
    pub fn run_config(&self, flags: &Flags) -> Result<(HostConfig, RunConfig), HostError> {
        let config = self.layers(flags)?;
        self.report_left_out(&config, |_| true);
        self.report_no_effect(&config);
        let (config, run) = HostConfig::of(config)?;
        Ok((config, run?))
    }

    /// Loads the layers of the configuration with their origins. Unknown environment variables are reported once.
    pub fn layers(&self, flags: &Flags) -> Result<Config, HostError> {
        let flags = Flags { store: self.store.clone(), ..flags.clone() };
        let config = Config::load(&flags, &self.env)?;
        self.variables_reported.call_once(|| {
            for variable in &config.unknown_variables {
                let text = escaped(&variable.to_string());
                self.notice(&Notice { hint: Some(variable.hint()), ..Notice::new(Level::Warning, text) });
            }
        });
        Ok(config)
    }

    /// Reports, once, the relevant settings of untrusted projects that are ignored.
    pub fn report_left_out(&self, config: &Config, matters: impl Fn(&GuardedSetting) -> bool) {
        self.left_out_reported.call_once(|| {
            for left_out in &config.left_out {
                let keys = short_keys(left_out.settings.iter().filter(|setting| matters(setting)));
                if !keys.is_empty() {
                    self.notice(&left_out_notice(left_out, &keys.join(", "), &self.env));
                }
            }
        });
    }

    /// Reports settings without effect: unsupported keys of OpenCode's files, and rules for tools that do not exist.
    pub fn report_no_effect(&self, config: &Config) {
        let mut files: Vec<(String, Vec<String>)> = Vec::new();
        for notice in &config.notices {
            let file = match &notice.origin {
                Origin::File { path, .. } => escaped(&self.short(path)),
                other => other.to_string(),
            };
            let reason = notice.reason.as_ref().map(|reason| format!(" ({reason})"));
            let key = escaped(&format!("{}{}", notice.key, reason.unwrap_or_default()));
            match files.iter_mut().find(|(known, _)| *known == file) {
                Some((_, keys)) => keys.push(key),
                None => files.push((file, vec![key])),
            }
        }
        for (file, keys) in files {
            self.note(format!("`{file}`: settings without effect: {}", keys.join(", ")));
        }
        for rule in config.run.iter().flat_map(plimsoll_agent::idle_rules) {
            self.note(escaped(&rule.to_string()));
        }
    }
}

impl HostConfig {
    fn of(config: Config) -> Result<(HostConfig, Result<RunConfig, HostError>), HostError> {
        let is_context_named = config.origin("context") != Origin::BuiltIn;
        let Config { policy, context, store, run, .. } = config;
        let mut provider_limits = BTreeSet::new();
        let mut spec = policy.into_spec();
        for (name, limits) in run.iter().flat_map(RunConfig::model_limits) {
            // An entry of the policy itself has priority.
            spec.overflow.models.entry(name.clone()).or_insert_with(|| {
                provider_limits.insert(name);
                limits
            });
        }
        let policy = Policy::try_from(spec).map_err(HostError::usage_of)?;
        let (prices, store) = (run.iter().flat_map(prices).collect(), StoreSettings::new(&store, &policy));
        let config = HostConfig { policy, context, is_context_named, store, prices, provider_limits };
        Ok((config, run.map_err(HostError::usage_of)))
    }

    /// Returns the policy for a model in a window that the user has set, without the limits of its provider.
    pub(crate) fn policy_within(&self, model: &str, limits: Limits) -> Policy {
        if !self.provider_limits.contains(model) {
            return self.policy.clone();
        }
        let mut spec = self.policy.clone().into_spec();
        spec.overflow.models.insert(model.to_owned(), limits);
        Policy::new(spec).unwrap_or_else(|_| self.policy.clone())
    }
}

/// Returns the prices of configured models. Cache reads and writes without a price cost as much as input.
fn prices(run: &RunConfig) -> impl Iterator<Item = (String, Price)> {
    let models = run.providers.values().flat_map(|provider| &provider.models);
    models.flat_map(|(name, model)| {
        let [input, output, cache_read, cache_write] = model.price;
        let price = match (cache_read.or(input), cache_write.or(input), output) {
            (Some(cache_read), Some(cache_write), Some(output)) => {
                Some(Price { cache_read, cache_write, output, long_prompt: None })
            }
            _ => None,
        };
        let names = std::iter::once(name).chain(&model.id);
        price.into_iter().flat_map(move |price| names.clone().map(move |name| (name.clone(), price)))
    })
}

impl StoreSettings {
    /// Returns the settings of the store under a policy. OpenFork's guide expires spills after seven days, so its preset does
    /// as well.
    pub fn new(store: &plimsoll_config::StoreConfig, policy: &Policy) -> StoreSettings {
        let default = Retention::default();
        let age = match store.spill_age {
            SpillAge::Default if policy.name == Preset::Openfork.name() => Retention::GUIDE.age,
            SpillAge::Default => default.age,
            SpillAge::Any => None,
            SpillAge::AtMost(age) => Some(age),
        };
        let durability = match store.durability {
            plimsoll_config::Durability::Process => Durability::Process,
            plimsoll_config::Durability::Power => Durability::Power,
        };
        let retention = Retention { age, max_bytes: store.spill_bytes.or(default.max_bytes) };
        StoreSettings { path: store.path.clone(), durability, retention }
    }
}

/// Returns the keys of settings. A provider or an agent is listed once, even if several of its settings are ignored.
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

/// Formats which settings are ignored, why, and the next step.
fn left_out_notice(left_out: &LeftOut, keys: &str, env: &Environment) -> Notice {
    let LeftOut { files, directory, why, .. } = left_out;
    let names = files.iter().map(|file| format!("`{}`", escaped(&env.short(file)))).collect::<Vec<_>>();
    let (names, is) = (names.join(" and "), if files.len() > 1 { "are" } else { "is" });
    let directory = shell_word(directory, env);
    let next = format!("review them with `plimsoll config`, apply them with `plimsoll trust {directory}`");
    let (why, next) = match why {
        DistrustReason::NotTrusted => (format!("{names} {is} not trusted"), next),
        DistrustReason::Changed => (format!("{names} or a file it names changed since it was trusted"), next),
        DistrustReason::NoLedger(error) => {
            (ledger_message(error), format!("{}, then `plimsoll trust {directory}`", error.remedy()))
        }
    };
    Notice { hint: Some(next), ..Notice::new(Level::Note, format!("{why}; ignored: {keys}")) }
}
