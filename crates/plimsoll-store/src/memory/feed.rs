//! The change feed, in memory.

use super::MemoryStore;
use crate::error::StoreError;
use crate::store::{ChangePage, Feed, Sequence};

impl Feed for MemoryStore {
    fn changes(&self, since: Sequence, most: u64) -> Result<ChangePage, StoreError> {
        let state = self.state();
        let gap = state.changes.front().is_some_and(|first| first.sequence.0 > since.0.saturating_add(1));
        let most = if most == 0 { 1_000 } else { usize::try_from(most).unwrap_or(usize::MAX) };
        let newer = state.changes.iter().filter(|change| change.sequence > since);
        let changes: Vec<_> = newer.take(most).cloned().collect();
        let next = changes.last().map_or(since, |change| change.sequence);
        Ok(ChangePage { changes, next, gap })
    }

    fn newest_change(&self) -> Result<Sequence, StoreError> {
        Ok(self.state().sequence)
    }
}
