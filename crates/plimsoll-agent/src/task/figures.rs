//! How often tasks were given their parent's context, and how much of it.

use serde::Serialize;

use super::record::{ForkWay, Task};

/// The forks among tasks, from their receipts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkFigures {
    /// All of them.
    pub forks: usize,
    /// Those that got a digest.
    pub digests: usize,
    /// Those that share their parent's window.
    pub histories: usize,
    /// Those that got nothing: the parent had said nothing, or could not be read.
    pub without: usize,
    /// Those for which the budget cut something.
    pub cut: usize,
    /// What they took of their windows together, in tokens.
    pub tokens: u64,
    /// What the largest took.
    pub largest: u64,
}

impl ForkFigures {
    /// The figures of these tasks.
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
