//! Trees of records that refer to their parents: determines which records are the session.
//!
//! Only a few numbers are kept per record, so that a file with a million records needs some tens of megabytes.

use crate::transcript::Transcript;

/// Parent of a record.
pub(crate) enum Parent {
    /// None: a conversation starts here.
    Root,
    /// The record with this name.
    Named(u64),
    /// The previous record: the format has no tree here.
    Before,
}

/// Collects the names of records and of their parents, by position in the file.
#[derive(Default)]
pub(crate) struct Names {
    /// Name and position of each record with a name.
    names: Vec<(u64, u32)>,
    parents: Vec<Parent>,
}

impl Names {
    /// Adds the next record of the file.
    pub(crate) fn add(&mut self, name: Option<u64>, parent: Parent) {
        let place = self.parents.len() as u32;
        self.names.extend(name.map(|name| (name, place)));
        self.parents.push(parent);
    }

    /// Returns the tree, and the positions of records that are repeated later.
    pub(crate) fn resolve(mut self, wanted: &[u64]) -> (Tree, Vec<u32>, Vec<Option<u32>>) {
        self.names.sort_unstable();
        let names = &self.names;
        let same = names.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let repeated = same.map(|pair| pair[0].1).collect();
        // The last record of a name counts.
        let place = |name: u64| {
            let end = names.partition_point(|entry| entry.0 <= name);
            let (found, place) = *names.get(end.checked_sub(1)?)?;
            (found == name).then_some(place)
        };
        let links = self.parents.iter().map(|parent| match parent {
            Parent::Root => ROOT,
            Parent::Before => BEFORE,
            Parent::Named(name) => place(*name).unwrap_or(MISSING),
        });
        let links = links.collect();
        (Tree { links }, repeated, wanted.iter().map(|name| place(*name)).collect())
    }
}

/// The record has no parent.
const ROOT: u32 = u32::MAX;
/// The parent is the previous record.
const BEFORE: u32 = u32::MAX - 1;
/// The parent is not in the file.
const MISSING: u32 = u32::MAX - 2;

/// Position of each record's parent.
pub(crate) struct Tree {
    links: Vec<u32>,
}

impl Tree {
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns the parent, if it is in the file.
    pub(crate) fn parent(&self, place: u32) -> Option<u32> {
        let link = self.links[place as usize];
        (link < MISSING).then_some(link)
    }

    /// Sorts `places` into the order of the conversation: that of the file, except that a record before its parent,
    /// such as the result of a parallel call, directly follows its parent.
    pub(crate) fn order(&self, places: &mut [u32], keys: &mut Vec<u32>) {
        keys.resize(self.len(), 0);
        places.iter().for_each(|place| keys[*place as usize] = *place);
        for &place in places.iter() {
            // Records later in the file have only their position as key yet.
            let after = self.parent(place).map_or(place, |parent| keys[parent as usize].max(parent));
            keys[place as usize] = after.max(place);
        }
        places.sort_by_key(|place| (keys[*place as usize], *place != keys[*place as usize]));
        // The scratch space is shared by all chains of a file, so clearing it whole would cost its length for each.
        places.iter().for_each(|place| keys[*place as usize] = 0);
    }

    /// Returns the parent's index in the ascending list `all`. A parent that is not in the file is replaced by the
    /// previous record, because losing everything before would be worse.
    fn parent_among(&self, place: u32, all: &[u32], faults: &mut Transcript) -> Option<u32> {
        let before = || all[..all.partition_point(|other| *other < place)].last().copied();
        match self.links[place as usize] {
            ROOT => None,
            BEFORE => before(),
            MISSING => {
                faults.skip("missing parent");
                before()
            }
            parent => all.binary_search(&parent).is_ok().then_some(parent),
        }
    }

    /// Marks the records from the beginning of the conversation to `leaf`, all of them in the ascending list `all`. A
    /// cycle ends the walk and is counted.
    pub(crate) fn path(&self, leaf: u32, all: &[u32], marks: &mut [bool], faults: &mut Transcript) {
        let mut next = Some(leaf);
        while let Some(place) = next {
            if std::mem::replace(&mut marks[place as usize], true) {
                faults.skip("cycle in the parent tree");
                break;
            }
            next = self.parent_among(place, all, faults);
        }
    }

    /// Returns, for each record for which `inside` holds, the first record of its chain; chains do not leave these
    /// records.
    pub(crate) fn roots(&self, inside: impl Fn(u32) -> bool) -> Vec<u32> {
        const UNKNOWN: u32 = u32::MAX;
        const WALKED: u32 = u32::MAX - 1;
        let mut roots = vec![UNKNOWN; self.len()];
        let mut chain = Vec::new();
        for place in (0..self.len() as u32).filter(|place| inside(*place)) {
            let mut last = place;
            let root = loop {
                match roots[last as usize] {
                    UNKNOWN => {}
                    // The walk returned to one of its records: a cycle begins here.
                    WALKED => break chain.last().copied().unwrap_or(last),
                    root => break root,
                }
                roots[last as usize] = WALKED;
                chain.push(last);
                match self.parent(last).filter(|parent| inside(*parent)) {
                    Some(parent) => last = parent,
                    None => break last,
                }
            };
            chain.drain(..).for_each(|place| roots[place as usize] = root);
        }
        roots
    }
}
