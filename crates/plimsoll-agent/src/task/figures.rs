//! Figures about forks of tasks.

use serde::Serialize;

use super::record::{ForkWay, Task};

/// Figures about the forks among some tasks, from their receipts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ForkFigures {
    /// Number of forks.
    pub forks: usize,
    /// Number of digests.
    pub digests: usize,
    /// Number of shared histories.
    pub histories: usize,
    /// Number of forks without context: the parent had no messages or could not be read.
    pub without: usize,
    /// Number of forks that the budget cut.
    pub cut: usize,
    /// Total size in tokens.
    pub tokens: u64,
    /// Largest size in tokens.
    pub largest: u64,
}

impl ForkFigures {
    /// Returns the figures of these tasks.
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> ForkFigures {
        let mut figures = ForkFigures::default();
        for fork in tasks.into_iter().filter_map(|task| task.data.fork.as_ref()) {
            figures.forks += 1;
            match fork.way {
                ForkWay::Digest => figures.digests += 1,
                ForkWay::History => figures.histories += 1,
                ForkWay::Nothing => figures.without += 1,
            }
            figures.cut += usize::from(fork.was_cut());
            let tokens = fork.tokens.unwrap_or_default();
            figures.tokens = figures.tokens.saturating_add(tokens);
            figures.largest = figures.largest.max(tokens);
        }
        figures
    }
}
