//! Dependencies between the crates of a workspace, read from their manifests and compared with the map.
//!
//! Not `cargo metadata`: it rejects a workspace with a cycle before this tool could report its place, and it has no line
//! numbers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::graph::{Graph, Place};
use crate::rules::{FILE, Rules};

/// A crate of the workspace.
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Directory of the crate, relative to the root of the workspace.
    pub(crate) directory: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A line of a manifest that names another package.
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) is_for_tests: bool,
    pub(crate) place: Place,
}

/// Reads the manifests of `crates/*`, in the order of their directories.
pub(crate) fn read_crates(root: &Path) -> Result<Vec<Crate>, String> {
    let entries = std::fs::read_dir(root.join("crates")).map_err(|error| format!("crates: {error}"))?;
    let mut directories: Vec<PathBuf> =
        entries.flatten().map(|entry| Path::new("crates").join(entry.file_name())).collect();
    directories.retain(|directory| root.join(directory).join("Cargo.toml").is_file());
    directories.sort();
    directories.into_iter().map(|directory| read_crate(root, directory)).collect()
}

fn read_crate(root: &Path, directory: PathBuf) -> Result<Crate, String> {
    let file = directory.join("Cargo.toml");
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(root.join(&file)).map_err(|error| failed(&error))?;
    let manifest = DeTable::parse(&text).map_err(|error| failed(&error))?;
    let manifest = manifest.get_ref();
    let name = table(manifest, "package").and_then(|package| package.get("name")?.get_ref().as_str());
    let name = name.ok_or_else(|| failed(&"`package.name` is missing"))?.to_owned();
    let mut dependencies = Vec::new();
    let targets = table(manifest, "target").into_iter().flat_map(DeTable::values);
    let targets = targets.filter_map(|target| target.get_ref().as_table());
    for section in std::iter::once(manifest).chain(targets) {
        for (kind, is_for_tests) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            for (key, value) in table(section, kind).into_iter().flatten() {
                let package = value.get_ref().get("package").and_then(|package| package.get_ref().as_str());
                let line = text[..key.span().start].matches('\n').count() + 1;
                dependencies.push(Dependency {
                    name: package.map_or_else(|| key.get_ref().to_string(), str::to_owned),
                    is_for_tests,
                    place: Place { file: file.clone(), line },
                });
            }
        }
    }
    Ok(Crate { name, directory, dependencies })
}

fn table<'a, 't>(within: &'a DeTable<'t>, key: &str) -> Option<&'a DeTable<'t>> {
    within.get(key)?.get_ref().as_table()
}

/// Returns the dependencies between crates that the map forbids, and cycles among them.
pub(crate) fn check(crates: &[Crate], rules: &Rules) -> Vec<String> {
    let names: BTreeSet<&str> = crates.iter().map(|member| member.name.as_str()).collect();
    let mut graph = Graph::default();
    let mut violations = Vec::new();
    for name in rules.only.keys() {
        if !names.contains(name.as_str()) {
            violations.push(format!("{FILE}: unknown crate `{name}`"));
        }
    }
    for member in crates {
        for dependency in &member.dependencies {
            if !names.contains(dependency.name.as_str()) {
                continue;
            }
            // Tests of a crate may use crates that depend on it.
            if !dependency.is_for_tests {
                graph.add(&member.name, &dependency.name, dependency.place.clone());
            }
            if let Some(reason) = rules.forbid(&member.name, &dependency.name, dependency.is_for_tests) {
                let Dependency { name, place, .. } = dependency;
                violations.push(format!("{place}: `{}` depends on `{name}`: {reason}", member.name));
            }
        }
    }
    violations.extend(graph.describe_cycles("crates"));
    violations
}
