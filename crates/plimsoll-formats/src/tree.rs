//! Records that name their parent: which of them are the session.

use std::collections::{HashMap, HashSet};

use crate::transcript::Transcript;

/// The parents of records, by place in the file.
#[derive(Default)]
pub(crate) struct Tree {
    places: HashMap<String, usize>,
    parents: Vec<Parent>,
}

/// What a record says about its parent.
pub(crate) enum Parent {
    /// Nothing: a conversation starts here.
    Root,
    /// It is the record of this name.
    Named(String),
    /// The format has no tree here: it is the record before.
    Before,
}

impl Tree {
    /// Add the next record of the file; returns the place of an earlier record of the same name, if any.
    pub(crate) fn add(&mut self, id: Option<&str>, parent: Parent) -> Option<usize> {
        let place = self.parents.len();
        self.parents.push(parent);
        self.places.insert(id?.to_owned(), place)
    }

    /// The place of the record of that name.
    pub(crate) fn place(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }

    /// `places` in the order of the conversation: that of the file, except that a record written before its
    /// parent, as happens to results of calls made in parallel, goes right behind it.
    pub(crate) fn order(&self, places: &mut [usize]) {
        let mut keys: HashMap<usize, usize> = HashMap::new();
        for &place in places.iter() {
            let parent = match &self.parents[place] {
                Parent::Named(id) => self.place(id),
                Parent::Root | Parent::Before => None,
            };
            let after = parent.map_or(place, |parent| keys.get(&parent).copied().unwrap_or(parent));
            keys.insert(place, after.max(place));
        }
        places.sort_by_key(|place| (keys[place], *place != keys[place]));
    }

    /// The parent's place among `all`. A parent that is not in the file is replaced by the record before,
    /// because losing all that was said earlier would be worse.
    fn parent(&self, place: usize, all: &[usize], faults: &mut Transcript) -> Option<usize> {
        let before = || all[..all.partition_point(|other| *other < place)].last().copied();
        match &self.parents[place] {
            Parent::Root => None,
            Parent::Before => before(),
            Parent::Named(id) => match self.place(id) {
                Some(parent) => all.binary_search(&parent).is_ok().then_some(parent),
                None => {
                    faults.skip("missing parent");
                    before()
                }
            },
        }
    }

    /// The places from the beginning of the conversation to `leaf`, all of them among `all`, which ascends. A
    /// cycle ends the walk and is counted.
    pub(crate) fn path(&self, leaf: usize, all: &[usize], faults: &mut Transcript) -> HashSet<usize> {
        let mut path = HashSet::new();
        let mut next = Some(leaf);
        while let Some(place) = next {
            if !path.insert(place) {
                faults.skip("cycle in the parent tree");
                break;
            }
            next = self.parent(place, all, faults);
        }
        path
    }

    /// For each of `places`, the place where its chain begins; chains do not leave `places`.
    pub(crate) fn roots(&self, places: &[usize]) -> HashMap<usize, usize> {
        let inside: HashSet<usize> = places.iter().copied().collect();
        let mut roots: HashMap<usize, usize> = HashMap::new();
        for &place in places {
            let mut chain = vec![place];
            let mut walked = HashSet::from([place]);
            let root = loop {
                let last = chain[chain.len() - 1];
                if let Some(root) = roots.get(&last) {
                    break *root;
                }
                let parent = match &self.parents[last] {
                    Parent::Named(id) => self.place(id).filter(|parent| inside.contains(parent)),
                    Parent::Root | Parent::Before => None,
                };
                match parent {
                    Some(parent) if walked.insert(parent) => chain.push(parent),
                    _ => break last,
                }
            };
            roots.extend(chain.into_iter().map(|place| (place, root)));
        }
        roots
    }
}
