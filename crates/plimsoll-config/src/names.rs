//! The names of fields and variables, and which of them may have been meant.

use plimsoll::policy::Setting;
use plimsoll::{Policy, Tokens};
use serde_json::Value;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::risk;
use crate::run;
use crate::store::{self, SPILLS};

/// Variables that are not fields of the policy; those of the store are in [`store::VARIABLES`].
pub(crate) const POLICY: &str = "PLIMSOLL_POLICY";
pub(crate) const WINDOW: &str = "PLIMSOLL_CONTEXT";
/// What a command logs, which is no setting of a session.
const LOG: &str = "PLIMSOLL_LOG";
/// Variables that the project's tests read.
const OF_TESTS: [&str; 4] =
    ["PLIMSOLL_BLESS", "PLIMSOLL_CORPUS", "PLIMSOLL_OPENCODE_DB", "PLIMSOLL_OPENCODE_MESSAGES"];

/// Variables about a run, and the settings they make. Those of the official SDKs are in `run/provider.rs`.
pub(crate) const RUN_VARIABLES: [(&str, &str); 5] = [
    ("PLIMSOLL_MODEL", "model"),
    ("PLIMSOLL_SMALL_MODEL", "small_model"),
    ("PLIMSOLL_MAX_STEPS", "max_steps"),
    ("PLIMSOLL_MAX_COST", "max_cost"),
    ("PLIMSOLL_MAX_TOKENS", "max_tokens"),
];

/// Keys that a configuration file may have beside the sections of a policy.
pub(crate) const KEYS: [&str; 7] =
    ["policy", "preset", "context", "store", "durability", "spills", "TokenManagement"];

/// Every value below `path`, by its own path. A list is one value, and so is an object without fields.
pub(crate) fn leaves(path: &str, value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let below = fields.iter().flat_map(|(key, value)| leaves(&format!("{path}.{key}"), value));
            below.map(|(path, value)| (path.trim_start_matches('.').to_owned(), value)).collect()
        }
        other => vec![(path.to_owned(), other.clone())],
    }
}

/// Whether a configuration file may have this key at this place; if not, which one may have been meant.
pub(crate) fn check_key(path: &[String]) -> Result<(), Option<String>> {
    let policy = serde_json::to_value(Policy::default()).unwrap_or_default();
    let known = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
    let names = match path {
        [_] => {
            let sections = known(&policy).unwrap_or_default();
            sections.into_iter().chain(KEYS.into_iter().chain(run::SECTIONS).map(str::to_owned)).collect()
        }
        [section, between @ .., _] if run::SECTIONS.contains(&section.as_str()) => {
            let above: Vec<String> = [section].into_iter().chain(between).cloned().collect();
            match risk::run_names(&above) {
                Some(names) => names.into_iter().map(str::to_owned).collect(),
                None => return Ok(()),
            }
        }
        [section, _] if section == "spills" => SPILLS.map(str::to_owned).to_vec(),
        [section, _] => match policy.get(section).and_then(known) {
            Some(names) => names,
            None => return Ok(()),
        },
        // Deeper there are names of tools and models, which are anybody's.
        _ => return Ok(()),
    };
    let Some((last, before)) = path.split_last() else { return Ok(()) };
    if names.contains(last) {
        return Ok(());
    }
    let nearest = nearest(last, names.iter().map(String::as_str));
    Err(nearest.map(|name| before.iter().cloned().chain([name.to_owned()]).collect::<Vec<_>>().join(".")))
}

/// Refuse variables that look like ours and are not.
pub(crate) fn check_variables(env: &Environment) -> Result<(), ConfigError> {
    let mut known = Setting::variables();
    let run = RUN_VARIABLES.map(|(name, _)| name);
    known.extend([POLICY, WINDOW].into_iter().chain(store::VARIABLES).chain(run).map(str::to_owned));
    let is_ours = |name: &&str| name.starts_with("PLIMSOLL_") && *name != LOG && !OF_TESTS.contains(name);
    for name in env.names().filter(is_ours) {
        if !known.iter().any(|known| known == name) {
            let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
            return Err(ConfigError::UnknownVariable { name: name.to_owned(), nearest });
        }
    }
    Ok(())
}

/// What a number of tokens is written as, in messages.
pub(crate) const TOKENS: &str = "a number of tokens above 0, such as 128000 or 128k";

/// A number of tokens above 0.
pub(crate) fn tokens(text: &str) -> Option<u64> {
    text.parse().ok().map(|Tokens(tokens)| tokens).filter(|tokens| *tokens > 0)
}

/// The names most like the given one, the likest first; none where none is like it.
pub fn nearest_few<'a>(name: &str, known: &'a [String], most: usize) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    // Every name begins with nothing, and none is like it.
    if wanted.is_empty() {
        return Vec::new();
    }
    let likeness = |known: &str| {
        // The beginning of a name, or a name with a date behind it, is as like as can be.
        let is_begun = known.starts_with(&wanted) || (!known.is_empty() && wanted.starts_with(known));
        if is_begun { 1.0 } else { strsim::normalized_damerau_levenshtein(&wanted, known) }
    };
    let mut scored: Vec<(f64, &str)> = known.iter().map(|name| (likeness(name), name.as_str())).collect();
    scored.retain(|(likeness, _)| *likeness > 0.6);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(most).map(|(_, name)| name).collect()
}

/// The name most like the given one, if any is like it at all.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // What all names begin with makes none of them likelier.
    let bare = |name: &str| name.trim_start_matches("PLIMSOLL_").to_lowercase();
    let wanted = bare(name);
    let scored = known.map(|known| (strsim::normalized_damerau_levenshtein(&wanted, &bare(known)), known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(likeness, _)| *likeness > 0.6).map(|(_, known)| known)
}
