//! Background tasks: how many there may be, and how much each may take.

use std::time::Duration;

use super::agent::AgentFork;

/// What is set of background tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskConfig {
    /// How many work at once.
    pub at_once: Option<u32>,
    /// How deep tasks may launch tasks.
    pub depth: Option<u32>,
    /// Most calls of the model in one run.
    pub steps: Option<u32>,
    /// The longest time of one run.
    pub time: Option<Duration>,
    /// Most tokens of one run.
    pub tokens: Option<u64>,
    /// Most that one run may cost, in dollars.
    pub cost: Option<f64>,
    /// What a forked task is told of the conversation it comes from, where its agent says nothing.
    pub fork: Option<AgentFork>,
}
