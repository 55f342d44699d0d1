//! A directed graph whose edges know where they come from, and the cycles in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::PathBuf;

/// A line of a file. Ordered, so that the first of several places is reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.file.display(), self.line)
    }
}

/// An edge by the names of its ends.
pub(crate) type Edge = (String, String);

/// Dependencies between named nodes.
#[derive(Default)]
pub(crate) struct Graph {
    edges: BTreeMap<Edge, Place>,
}

impl Graph {
    /// Adds an edge, or moves it to an earlier place. A node may use itself.
    pub(crate) fn add(&mut self, from: &str, to: &str, place: Place) {
        if from != to {
            let found = self.edges.entry((from.to_owned(), to.to_owned())).or_insert_with(|| place.clone());
            *found = place.min(found.clone());
        }
    }

    /// Returns short cycles that together contain every edge that is part of a cycle. All cycles would be too many to read: a group
    /// of ten modules that use each other has a million of them.
    pub(crate) fn cycles(&self) -> Vec<Vec<Edge>> {
        let mut covered: BTreeSet<&Edge> = BTreeSet::new();
        let mut cycles: Vec<Vec<Edge>> = Vec::new();
        for edge in self.edges.keys() {
            if covered.contains(edge) {
                continue;
            }
            if let Some(back) = self.shortest_path(&edge.1, &edge.0) {
                covered.insert(edge);
                covered.extend(back.iter().copied());
                cycles.push(std::iter::once(edge).chain(back).cloned().collect());
            }
        }
        cycles.sort_by_key(Vec::len);
        cycles
    }

    /// Describes each cycle by its nodes and by the place of each edge.
    pub(crate) fn describe_cycles(&self, kind: &str) -> Vec<String> {
        let describe = |cycle: &Vec<Edge>| {
            let nodes: Vec<&str> = cycle.iter().map(|(from, _)| from.as_str()).collect();
            let edges = cycle.iter().filter_map(|edge| {
                Some(format!("\n  {}: `{}` uses `{}`", self.edges.get(edge)?, edge.0, edge.1))
            });
            format!("cycle of {kind}: {} -> {}{}", nodes.join(" -> "), nodes[0], edges.collect::<String>())
        };
        self.cycles().iter().map(describe).collect()
    }

    fn shortest_path(&self, from: &str, to: &str) -> Option<Vec<&Edge>> {
        let mut reached_by: BTreeMap<&str, &Edge> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for edge in self.edges.keys().filter(|edge| edge.0 == node) {
                if edge.1 != from && !reached_by.contains_key(edge.1.as_str()) {
                    reached_by.insert(&edge.1, edge);
                    queue.push_back(&edge.1);
                }
            }
        }
        let mut path = vec![*reached_by.get(to)?];
        while path[path.len() - 1].0 != from {
            path.push(reached_by.get(path[path.len() - 1].0.as_str())?);
        }
        path.reverse();
        Some(path)
    }
}
