//! A list with one value per key, the newest.

use std::collections::BTreeMap;

/// Values by key, in the order in which they were last added.
#[derive(Default)]
pub(super) struct NewestLast {
    values: BTreeMap<String, (usize, String)>,
    added: usize,
}

impl NewestLast {
    /// Adds a value and removes an older one with the same key.
    pub(super) fn add(&mut self, key: String, value: String) {
        self.added += 1;
        self.values.insert(key, (self.added, value));
    }

    /// Returns all values, the last added last.
    pub(super) fn finish(self) -> Vec<String> {
        let mut values: Vec<(usize, String)> = self.values.into_values().collect();
        values.sort_unstable();
        values.into_iter().map(|(_, value)| value).collect()
    }
}
