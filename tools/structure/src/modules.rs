//! Dependencies between the top-level modules of a crate.

use std::collections::BTreeSet;
use std::path::Path;

use crate::crates::Crate;
use crate::graph::{Edge, Graph};
use crate::rules::FILE;
use crate::source::{Source, read_source};

/// Result of the check of one crate.
pub(crate) struct Checked {
    pub(crate) modules: usize,
    /// How many of them are in a cycle, listed as unresolved or not.
    pub(crate) cyclic: usize,
    pub(crate) violations: Vec<String>,
}

/// Looks for cycles in a crate. `unresolved` are dependencies that are known to close some.
pub(crate) fn check(root: &Path, member: &Crate, unresolved: &[String]) -> Result<Checked, String> {
    let folder = member.folder.join("src");
    let file = ["lib.rs", "main.rs"].into_iter().find(|file| root.join(&folder).join(file).is_file());
    let file = file.ok_or_else(|| format!("{}: neither lib.rs nor main.rs", folder.display()))?;
    let source = read_source(root, &folder, file)?;
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
    let name = &member.name;
    let mut left_out: BTreeSet<Edge> = BTreeSet::new();
    for entry in unresolved {
        let edge = entry.split_once(" -> ").map(|(from, to)| (from.to_owned(), to.to_owned()));
        match edge.filter(|edge| graph.is_cyclic(edge)) {
            Some(edge) => drop(left_out.insert(edge)),
            None => violations.push(format!(
                "{FILE}: `unresolved.{name}` lists `{entry}`, which is in no cycle; delete the entry"
            )),
        }
    }
    let cyclic: BTreeSet<String> = graph.cycles().into_iter().flatten().map(|(from, _)| from).collect();
    violations.extend(graph.without(&left_out).describe_cycles(&format!("modules in {name}")));
    Ok(Checked { modules: source.modules.len(), cyclic: cyclic.len(), violations })
}

/// Where a path leads.
enum Target<'a> {
    /// A top-level module, or the file of the root for what it defines itself.
    Module(&'a str),
    /// Another crate, which the root re-exports.
    Elsewhere,
    Unknown,
}

/// Follows a path through what the root of the crate imports and re-exports.
fn top_level<'a>(source: &'a Source, path: &'a [String], root: &'a str) -> Target<'a> {
    let mut path = path;
    // Re-exports of re-exports end after as many steps as there are names.
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
    // An import of a crate under its own name.
    Target::Elsewhere
}
