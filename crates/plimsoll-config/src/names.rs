//! Names of fields and variables, and suggestions for unknown ones.

use plimsoll::policy::Setting;
use plimsoll::{Policy, Tokens};
use serde_json::Value;

use crate::environment::Environment;
use crate::nearest::nearest;
use crate::notice::UnknownVariable;
use crate::risk;
use crate::run;
use crate::store::{self, SPILLS};

/// Variables that are not fields of the policy. Those of the store are in [`store::VARIABLES`].
pub(crate) const POLICY: &str = "PLIMSOLL_POLICY";
pub(crate) const WINDOW: &str = "PLIMSOLL_CONTEXT";
/// Filter of the command's log, which is not a setting of a session.
const LOG: &str = "PLIMSOLL_LOG";
/// Variables that the project's tests read.
const OF_TESTS: [&str; 4] =
    ["PLIMSOLL_BLESS", "PLIMSOLL_CORPUS", "PLIMSOLL_OPENCODE_DB", "PLIMSOLL_OPENCODE_MESSAGES"];

/// Keys that a configuration file may have in addition to the sections of a policy.
pub(crate) const KEYS: [&str; 7] =
    ["policy", "preset", "context", "store", "durability", "spills", "TokenManagement"];

/// Returns every value below `path` by its own path. A list is one value, and so is an empty object.
pub(crate) fn leaves(path: &str, value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let below = fields.iter().flat_map(|(key, value)| leaves(&format!("{path}.{key}"), value));
            below.map(|(path, value)| (path.trim_start_matches('.').to_owned(), value)).collect()
        }
        other => vec![(path.to_owned(), other.clone())],
    }
}

/// Checks that a configuration file may have this key here. The error is the most similar known key.
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
        // Deeper keys are names of tools and models, which are arbitrary.
        _ => return Ok(()),
    };
    let Some((last, before)) = path.split_last() else { return Ok(()) };
    if names.contains(last) {
        return Ok(());
    }
    let nearest = nearest(last, names.iter().map(String::as_str));
    Err(nearest.map(|name| before.iter().cloned().chain([name.to_owned()]).collect::<Vec<_>>().join(".")))
}

/// Returns the variables that begin with `PLIMSOLL_` and that Plimsoll does not read.
///
/// Unknown variables are not an error: a variable of a newer or older release in a shell's profile must not stop every
/// command.
pub(crate) fn unknown_variables(env: &Environment) -> Vec<UnknownVariable> {
    let mut known = Setting::variables();
    let run = run::RUN_VARIABLES.map(|(name, _)| name);
    known.extend([POLICY, WINDOW].into_iter().chain(store::VARIABLES).chain(run).map(str::to_owned));
    let is_ours = |name: &&str| name.starts_with("PLIMSOLL_") && *name != LOG && !OF_TESTS.contains(name);
    let unknown = env.names().filter(is_ours).filter(|name| !known.iter().any(|known| known == name));
    unknown
        .map(|name| UnknownVariable {
            name: name.to_owned(),
            nearest: nearest(name, known.iter().map(String::as_str)).map(str::to_owned),
        })
        .collect()
}

/// Description of a number of tokens, for messages.
pub(crate) const TOKENS: &str = "a number of tokens above 0, such as 128000 or 128k";

/// Parses a number of tokens above 0.
pub(crate) fn tokens(text: &str) -> Option<u64> {
    text.parse().ok().map(|Tokens(tokens)| tokens).filter(|tokens| *tokens > 0)
}
