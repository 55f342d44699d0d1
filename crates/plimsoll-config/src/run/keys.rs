//! Environment variables that hold keys of model providers, which commands, hooks and MCP servers must not inherit.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use plimsoll_providers::Secret;
use plimsoll_sandbox::Origin;
use serde_json::Value;

use super::layer::RunLayer;
use super::provider::ProviderConfig;
use super::reference::{self, Piece};
use crate::environment::Environment;
use crate::paths::parent_directory;

/// Minimum length of a value that is searched for in variables. Values such as `1` or `true` occur in unrelated
/// variables.
const MIN_LENGTH: usize = 8;

/// Variables and values used in the configuration of providers. `Debug` omits values.
///
/// Keys in composed headers (`Bearer KEY`) and in URLs would otherwise stay in the environment of commands, because
/// their variables are not named like keys.
#[derive(Clone, Default)]
pub struct ProviderKeys {
    variables: BTreeSet<String>,
    values: Vec<Secret>,
    /// Base URLs. They are compared as a whole: the address of a local server is part of many unrelated variables.
    urls: Vec<Secret>,
}

impl ProviderKeys {
    /// Creates a set of keys that are recognised only by value.
    pub fn of_values(values: impl IntoIterator<Item = Secret>) -> ProviderKeys {
        ProviderKeys { values: values.into_iter().collect(), ..ProviderKeys::default() }
    }

    /// Returns whether a provider's configuration references this variable, or the variable contains a key, as in
    /// `Bearer KEY`.
    pub fn are_exposed_by(&self, name: &OsStr, value: &OsStr) -> bool {
        let value = value.as_encoded_bytes();
        let is = |key: &Secret| value == key.expose().as_bytes();
        let is_part = |key: &Secret| {
            let key = key.expose().as_bytes();
            key.len() >= MIN_LENGTH && value.windows(key.len()).any(|part| part == key)
        };
        name.to_str().is_some_and(|name| self.variables.contains(name))
            || self.values.iter().any(|key| is(key) || is_part(key))
            || self.urls.iter().any(is)
    }

    /// Returns the values that are part of the path of a URL. The host stays in errors, because it is needed to
    /// understand them.
    pub(super) fn in_path_of(&self, url: &str) -> Vec<Secret> {
        let address = url.split_once("://").map_or(url, |(_, address)| address);
        let path = address.split_once('/').map_or("", |(_, path)| path);
        self.values.iter().filter(|value| path.contains(value.expose())).cloned().collect()
    }

    /// Adds the keys, headers and URLs of providers after references are resolved.
    pub(super) fn add_providers<'a>(&mut self, providers: impl Iterator<Item = &'a ProviderConfig>) {
        for provider in providers {
            self.values.extend(provider.key.iter().cloned());
            for (_, value) in &provider.headers {
                // The key in a header such as `Bearer KEY`.
                let word = value.expose().rsplit(' ').next().unwrap_or_default();
                self.add_value(word);
                self.add_value(value.expose());
            }
            self.urls.extend(provider.base_url.as_deref().map(Secret::new));
        }
    }

    /// Adds the contents of the variables and files that a value references.
    fn add_references(&mut self, value: &Value, directory: &Path, env: &Environment) {
        for piece in reference::all_pieces(value) {
            let held = match piece {
                Piece::Text(_) => continue,
                Piece::Variable(name) => env.variable(name).map(str::to_owned),
                Piece::File(written) => {
                    let path = reference::referenced_path(written, directory, env);
                    path.and_then(|path| reference::read_text(&path).ok())
                }
            };
            self.add_value(held.unwrap_or_default().trim());
        }
    }

    fn add_value(&mut self, value: &str) {
        if value.len() >= MIN_LENGTH {
            self.values.push(Secret::new(value));
        }
    }
}

impl fmt::Debug for ProviderKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ProviderKeys").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl RunLayer {
    /// Collects the keys of all providers. Variables count by name in every layer, even if a layer with higher priority
    /// replaces the setting. The contents of variables and files that are in effect count by value, because another
    /// variable may contain the same.
    pub(super) fn provider_keys(&self, env: &Environment) -> ProviderKeys {
        let mut keys = ProviderKeys { variables: self.key_variables.clone(), ..ProviderKeys::default() };
        for (path, value) in self.values.leaves().into_iter().filter(|(path, _)| path[0] == "providers") {
            match self.origins.get(&path.join(".")) {
                Some(Origin::Variable(name)) => drop(keys.variables.insert(name.clone())),
                Some(Origin::File { path, .. }) => keys.add_references(&value, parent_directory(path), env),
                _ => {}
            }
        }
        keys
    }
}
