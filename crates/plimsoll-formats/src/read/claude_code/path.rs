//! Determines which records are part of a conversation.
//!
//! The path from the newest leaf to the root is not all of it. Side branches may have been continued: the results of
//! parallel calls, and, if something else (progress, a hook) was written between a call and its result, the result with
//! everything after it.

use super::index::Index;
use super::kinds::Kind;
use crate::hash::HashSet64;
use crate::transcript::Transcript;
use crate::tree::Tree;

/// Maximum number of searches for side branches. Each branch that is found may have further ones.
const MAX_ROUNDS: usize = 50;

/// The records of a conversation, marked by position.
pub(super) struct Path<'a> {
    pub(super) index: &'a Index,
    pub(super) tree: &'a Tree,
    /// All candidates, in ascending order.
    pub(super) all: &'a [u32],
    /// The session whose newest record ends the conversation; `None` for the newest record of all.
    pub(super) wanted: Option<u32>,
    /// A mark for each record of the file; none is set before and after.
    pub(super) marks: &'a mut [bool],
}

impl Path<'_> {
    /// Marks the records of the conversation and returns their positions in ascending order.
    pub(super) fn choose(&mut self, faults: &mut Transcript) -> Vec<u32> {
        let Some(leaf) = self.leaf() else { return Vec::new() };
        self.tree.path(leaf, self.all, self.marks, faults);
        // One round is enough for parallel calls; a second one finds nothing more.
        for _ in 0..MAX_ROUNDS {
            self.mark_pieces();
            let results = self.mark_results();
            if results.is_empty() || !self.mark_branches(&results) {
                break;
            }
        }
        self.all.iter().copied().filter(|place| std::mem::take(&mut self.marks[*place as usize])).collect()
    }

    /// Returns the newest message, or the attachments after it.
    fn leaf(&mut self) -> Option<u32> {
        let Path { index, tree, all, wanted, marks } = self;
        let is_wanted = |place: u32| wanted.is_none_or(|wanted| index.session_of(place) == wanted);
        let speaks = |place: &&u32| index.kind(**place) != Kind::Link && is_wanted(**place);
        let said = |place: &&u32| speaks(place) && index.kind(**place) != Kind::Attachment;
        let newest = *all.iter().rev().find(said).or_else(|| all.iter().rev().find(speaks))?;
        // An attachment does not make its branch the newest, but may be the last record of the newest branch.
        let mut leaf = newest;
        let behind = &all[all.partition_point(|place| *place <= newest)..];
        marks[newest as usize] = true;
        for &place in behind {
            marks[place as usize] = tree.parent(place).is_some_and(|parent| marks[parent as usize]);
            if marks[place as usize] && index.kind(place) == Kind::Attachment {
                leaf = place;
            }
        }
        behind.iter().chain([&newest]).for_each(|place| marks[*place as usize] = false);
        Some(leaf)
    }

    fn marked(&self) -> impl Iterator<Item = u32> {
        self.all.iter().copied().filter(|place| self.marks[*place as usize])
    }

    fn is_user(&self, place: u32) -> bool {
        self.index.kind(place) == Kind::User
    }

    /// Marks the other records of responses with a marked one.
    fn mark_pieces(&mut self) {
        let responses: HashSet64 = self.marked().filter_map(|place| self.index.response(place)).collect();
        for &place in self.all {
            let is_piece = self.index.response(place).is_some_and(|id| responses.contains(&id));
            self.marks[place as usize] |= is_piece;
        }
    }

    /// Marks a result for each marked call without one, and returns these results.
    fn mark_results(&mut self) -> Vec<u32> {
        let mut open = HashSet64::default();
        for place in self.marked().filter(|place| !self.is_user(*place)) {
            open.extend(self.index.calls(place));
        }
        for place in self.marked().filter(|place| self.is_user(*place)) {
            for call in self.index.calls(place) {
                open.remove(call);
            }
        }
        let mut results = Vec::new();
        for &place in self.all {
            let is_new = self.is_user(place) && !self.marks[place as usize];
            if is_new && self.index.calls(place).iter().any(|call| open.remove(call)) {
                self.marks[place as usize] = true;
                results.push(place);
            }
        }
        results
    }

    /// Marks what follows results on side branches: from each result to the newest record after it. Returns whether
    /// there was any.
    ///
    /// A branch that was abandoned on purpose begins with a user prompt, because users go back to a prompt. A branch
    /// that begins with the result of a call on the path is therefore not abandoned.
    ///
    /// A reader that only follows parents would lose these records of real sessions.
    fn mark_branches(&mut self, results: &[u32]) -> bool {
        let mut behind: Vec<u32> = vec![u32::MAX; self.tree.len()];
        let mut newest: Vec<Option<u32>> = vec![None; results.len()];
        for (number, place) in results.iter().enumerate() {
            behind[*place as usize] = number as u32;
        }
        for &place in self.all {
            let Some(parent) = self.tree.parent(place).filter(|_| !self.marks[place as usize]) else {
                continue;
            };
            let number = behind[parent as usize];
            if let Some(newest) = newest.get_mut(number as usize) {
                behind[place as usize] = number;
                let kind = self.index.kind(place);
                if kind != Kind::Link && kind != Kind::Attachment {
                    *newest = Some(place);
                }
            }
        }
        let mut found = false;
        for (result, newest) in results.iter().zip(newest) {
            let mut next = newest;
            while let Some(place) = next.filter(|place| place != result) {
                if std::mem::replace(&mut self.marks[place as usize], true) {
                    break;
                }
                found = true;
                next = self.tree.parent(place);
            }
        }
        found
    }
}
