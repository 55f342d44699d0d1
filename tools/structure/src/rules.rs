//! The map of the workspace: `structure.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// Where the map is, relative to the root of the workspace.
pub(crate) const FILE: &str = "tools/structure/structure.toml";

/// Allowed dependencies.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Rules {
    /// Crates that no other crate depends on, except those that `only_for` lists.
    #[serde(default)]
    pub(crate) hosts: Vec<String>,
    /// Crates that others depend on for tests only.
    #[serde(default)]
    pub(crate) for_tests: Vec<String>,
    /// The crates that may depend on a crate. A library that is not listed is open to all.
    #[serde(default)]
    pub(crate) only_for: BTreeMap<String, Vec<String>>,
    /// The crates of the workspace that a crate may depend on. A crate that is not listed may depend on every library.
    #[serde(default)]
    pub(crate) only: BTreeMap<String, Vec<String>>,
}

impl Rules {
    /// Reads the map of a workspace.
    pub(crate) fn read(root: &Path) -> Result<Rules, String> {
        let text = std::fs::read_to_string(root.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
        toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))
    }
}

impl Rules {
    /// Returns why a crate must not depend on another one of the workspace, if the map forbids it.
    pub(crate) fn forbid(&self, from: &str, to: &str, is_for_tests: bool) -> Option<String> {
        let has = |list: &[String], name: &str| list.iter().any(|listed| listed == name);
        let is_listed = self.only_for.get(to).is_some_and(|users| has(users, from));
        if has(&self.hosts, to) && !is_listed {
            return Some("it is a host, which no other crate imports".into());
        }
        if is_for_tests {
            return None;
        }
        if has(&self.for_tests, to) && !has(&self.for_tests, from) {
            return Some("it is for tests, and belongs under `dev-dependencies`".into());
        }
        if let Some(users) = self.only_for.get(to).filter(|_| !is_listed) {
            return Some(format!("it is for {} only", users.join(", ")));
        }
        match self.only.get(from) {
            Some(allowed) if !has(allowed, to) => Some(format!("`only.{from}` does not list it")),
            _ => None,
        }
    }
}
