//! Settings of a run before they have types.
//!
//! Layers are merged in this form and not as typed values, because a layer may set only a part of a provider or an
//! agent.

use std::fmt;

use serde_json::{Map, Value};

/// Settings by section. `Debug` shows only names, because values may be keys.
#[derive(Clone, Default)]
pub(crate) struct Tree(pub(crate) Map<String, Value>);

impl fmt::Debug for Tree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.leaves().into_iter().map(|(path, _)| path.join("."));
        formatter.debug_set().entries(names).finish()
    }
}

impl Tree {
    /// Merges a tree with higher priority into this one, field by field. A list is one field, and a null removes a
    /// field.
    pub(crate) fn merge(&mut self, heavier: Tree) {
        merge_maps(&mut self.0, heavier.0);
    }

    /// Returns every value by its path. A list is one value, and so is an empty section.
    pub(crate) fn leaves(&self) -> Vec<(Vec<String>, Value)> {
        let mut found = Vec::new();
        collect(&self.0, &mut Vec::new(), &mut found);
        found
    }

    /// Returns the value at a path.
    pub(crate) fn get(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.0.get(*first)?, |value, name| value.get(name))
    }

    /// Sets a value and creates the sections above it.
    pub(crate) fn set(&mut self, path: &[&str], value: Value) {
        let Some((last, sections)) = path.split_last() else { return };
        let mut map = &mut self.0;
        for name in sections {
            let section = map.entry(*name).or_insert_with(|| Value::Object(Map::new()));
            if !section.is_object() {
                *section = Value::Object(Map::new());
            }
            let Value::Object(inner) = section else { return };
            map = inner;
        }
        map.insert((*last).to_owned(), value);
    }

    /// Removes a value, and sections that become empty.
    pub(crate) fn remove(&mut self, path: &[String]) -> Option<Value> {
        remove(&mut self.0, path)
    }
}

fn merge_maps(lighter: &mut Map<String, Value>, heavier: Map<String, Value>) {
    for (name, value) in heavier {
        match (lighter.get_mut(&name), value) {
            (_, Value::Null) => drop(lighter.shift_remove(&name)),
            (Some(Value::Object(below)), Value::Object(fields)) => merge_maps(below, fields),
            (_, value) => drop(lighter.insert(name, value)),
        }
    }
}

fn collect(map: &Map<String, Value>, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Value)>) {
    for (name, value) in map {
        path.push(name.clone());
        match value {
            Value::Object(fields) if !fields.is_empty() => collect(fields, path, found),
            other => found.push((path.clone(), other.clone())),
        }
        path.pop();
    }
}

fn remove(map: &mut Map<String, Value>, path: &[String]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    if rest.is_empty() {
        return map.shift_remove(first);
    }
    let Some(Value::Object(inner)) = map.get_mut(first) else { return None };
    let removed = remove(inner, rest);
    if inner.is_empty() {
        map.shift_remove(first);
    }
    removed
}
