//! Limits of background tasks.

use std::time::Duration;

use super::agent::AgentFork;

/// Limits of background tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TaskConfig {
    /// Maximum number of tasks that work at the same time.
    pub at_once: Option<u32>,
    /// Maximum depth of tasks that launch tasks.
    pub depth: Option<u32>,
    /// Maximum model calls in one run.
    pub steps: Option<u32>,
    /// Maximum time of one run.
    pub time: Option<Duration>,
    /// Maximum tokens of one run.
    pub tokens: Option<u64>,
    /// Maximum cost of one run in dollars.
    pub cost: Option<f64>,
    /// How much of its parent's conversation a forked task receives, unless its agent sets it.
    pub fork: Option<AgentFork>,
}
