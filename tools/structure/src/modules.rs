//! Dependencies between the top-level modules of a crate.

use std::collections::BTreeSet;
use std::path::Path;

use crate::crates::Crate;
use crate::graph::Graph;
use crate::source::{Source, read_source};

/// Result of the check of one crate.
pub(crate) struct Checked {
    pub(crate) modules: usize,
    /// Number of modules in cycles.
    pub(crate) cyclic: usize,
    pub(crate) violations: Vec<String>,
}

/// Looks for cycles in a crate.
pub(crate) fn check(root: &Path, member: &Crate) -> Result<Checked, String> {
    let directory = member.directory.join("src");
    let file = ["lib.rs", "main.rs"].into_iter().find(|file| root.join(&directory).join(file).is_file());
    let file = file.ok_or_else(|| format!("{}: neither lib.rs nor main.rs", directory.display()))?;
    let source = read_source(root, &directory, file)?;
    let mut violations = Vec::new();
    let mut graph = Graph::default();
    for reference in &source.references {
        let from = reference.module.first().map_or(file, String::as_str);
        match top_level(&source, &reference.path, file) {
            Target::Module(to) => graph.add(from, to, reference.place.clone()),
            Target::Elsewhere => {}
            Target::Unknown => violations.push(format!(
                "{}: `crate::{}` cannot be followed, because {file} does not name it",
                reference.place,
                reference.path.join("::")
            )),
        }
    }
    let cyclic: BTreeSet<String> = graph.cycles().into_iter().flatten().map(|(from, _)| from).collect();
    violations.extend(graph.describe_cycles(&format!("modules in {}", member.name)));
    Ok(Checked { modules: source.modules.len(), cyclic: cyclic.len(), violations })
}

/// Target of a path.
enum Target<'a> {
    /// A top-level module, or the root's file for items that it defines.
    Module(&'a str),
    /// Another crate, which the root re-exports.
    Elsewhere,
    Unknown,
}

/// Follows a path through imports and re-exports of the crate's root.
fn top_level<'a>(source: &'a Source, path: &'a [String], root: &'a str) -> Target<'a> {
    let mut path = path;
    // Chains of re-exports end after at most one step per name.
    for step in 0..=source.imports.len() {
        if let [first, rest @ ..] = path
            && (first == "crate" || first == "self")
        {
            path = rest;
        }
        let Some(name) = path.first() else { return Target::Unknown };
        if let Some(module) = source.modules.get(name) {
            return Target::Module(module);
        }
        if source.defined.contains(name) {
            return Target::Module(root);
        }
        match source.imports.get(name) {
            Some(import) => path = import,
            None if step > 0 => return Target::Elsewhere,
            None => return Target::Unknown,
        }
    }
    // An import of another crate by its own name.
    Target::Elsewhere
}
