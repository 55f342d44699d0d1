//! Where keys of model providers are, so that what runs beside the model does not get them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use plimsoll_providers::Secret;
use serde_json::Value;

use super::layer::RunLayer;
use super::provider::ProviderConfig;
use super::reference::{self, Piece};
use crate::layers::folder;
use crate::origin::Origin;
use crate::surroundings::Surroundings;

/// A shorter value is found in variables that have nothing to do with it, such as `1` or `true`.
const LEAST_LENGTH: usize = 8;

/// Variables and values that the configuration of providers refers to. `Debug` shows no values.
#[derive(Clone, Default)]
pub struct ProviderKeys {
    variables: BTreeSet<String>,
    values: Vec<Secret>,
}

impl ProviderKeys {
    /// Keys that are known by their values alone.
    pub fn of_values(values: impl IntoIterator<Item = Secret>) -> ProviderKeys {
        ProviderKeys { variables: BTreeSet::new(), values: values.into_iter().collect() }
    }

    /// Whether a variable is one that a provider refers to, or holds what a provider is given.
    pub fn are_in(&self, name: &OsStr, value: &OsStr) -> bool {
        let is_value = |key: &Secret| value.as_encoded_bytes() == key.expose().as_bytes();
        name.to_str().is_some_and(|name| self.variables.contains(name)) || self.values.iter().any(is_value)
    }

    /// Adds what providers are given once references are replaced.
    pub(super) fn add_providers<'a>(&mut self, providers: impl Iterator<Item = &'a ProviderConfig>) {
        for provider in providers {
            self.values.extend(provider.key.iter().cloned());
            for (_, value) in &provider.headers {
                // The key alone, of a header such as `Bearer KEY`.
                let word = value.expose().rsplit(' ').next().unwrap_or_default();
                self.add_value(word);
                self.add_value(value.expose());
            }
            self.add_value(provider.base_url.as_deref().unwrap_or_default());
        }
    }

    /// Adds what the variables and files hold that a value refers to.
    fn add_references(&mut self, value: &Value, folder: &Path, around: &Surroundings) {
        for piece in reference::all_pieces(value) {
            let held = match piece {
                Piece::Text(_) => continue,
                Piece::Variable(name) => around.variable(name).map(str::to_owned),
                Piece::File(written) => {
                    let path = reference::referenced_path(written, folder, around);
                    path.and_then(|path| reference::read_text(&path).ok())
                }
            };
            self.add_value(held.unwrap_or_default().trim());
        }
    }

    fn add_value(&mut self, value: &str) {
        if value.len() >= LEAST_LENGTH {
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
    /// What providers refer to: variables by name in every layer, also in one whose setting a heavier layer replaces; and what
    /// the variables and files in effect hold, because a further variable may hold the same.
    pub(super) fn provider_keys(&self, around: &Surroundings) -> ProviderKeys {
        let mut keys = ProviderKeys { variables: self.key_variables.clone(), values: Vec::new() };
        for (path, value) in self.values.leaves().into_iter().filter(|(path, _)| path[0] == "providers") {
            match self.origins.get(&path.join(".")) {
                Some(Origin::Variable(name)) => drop(keys.variables.insert(name.clone())),
                Some(Origin::File { path, .. }) => keys.add_references(&value, folder(path), around),
                _ => {}
            }
        }
        keys
    }
}
