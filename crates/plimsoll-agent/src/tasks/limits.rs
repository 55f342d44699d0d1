//! Limits of background tasks.

use std::time::Duration;

use plimsoll_config::{AgentFork, TaskConfig};

use crate::agent::Agent;
use crate::spend::RunLimits;
use crate::task::TaskError;

/// Limits of background tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskLimits {
    /// Maximum number of tasks that run at the same time. Others wait in the order of their arrival.
    pub at_once: usize,
    /// Maximum nesting depth: with 1, a task cannot launch tasks.
    pub depth: u32,
    /// Maximum number of answers in one run.
    pub steps: Option<u64>,
    /// Maximum duration of one run, from when it got its slot.
    pub time: Option<Duration>,
    /// Token budget of one run.
    pub tokens: Option<u64>,
    /// Cost limit of one run, in dollars.
    pub cost: Option<f64>,
    /// Kind of fork, unless the agent's own configuration sets it.
    pub fork: AgentFork,
}

impl Default for TaskLimits {
    fn default() -> TaskLimits {
        TaskLimits {
            at_once: 4,
            depth: 2,
            steps: None,
            time: Some(Duration::from_secs(3600)),
            tokens: None,
            cost: None,
            fork: AgentFork::Digest,
        }
    }
}

impl From<&TaskConfig> for TaskLimits {
    fn from(config: &TaskConfig) -> TaskLimits {
        let default = TaskLimits::default();
        TaskLimits {
            at_once: config.at_once.map_or(default.at_once, |at_once| at_once as usize),
            depth: config.depth.unwrap_or(default.depth),
            steps: config.steps.map(u64::from),
            time: config.time.or(default.time),
            tokens: config.tokens,
            cost: config.cost,
            fork: config.fork.unwrap_or(default.fork),
        }
    }
}

impl TaskLimits {
    /// Returns the limits of a run of an agent with its own limits: the lower one of each applies.
    pub(super) fn narrow(&self, own: RunLimits) -> RunLimits {
        let least = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        RunLimits {
            steps: self.steps.map_or(own.steps, |steps| steps.min(own.steps)),
            tokens: self.tokens.into_iter().chain(own.tokens).min(),
            cost: least(self.cost, own.cost),
            ..own
        }
    }
}

/// Rejects an agent whose cost limit could never be reached because its price is unknown. A limit that is silently not
/// enforced is worse than a task that does not run. `plimsoll run` rejects such an agent for the same reason. Limits of
/// ancestor runs count, because the task's cost is charged to them.
pub(super) fn require_price(agent: &Agent) -> Result<(), TaskError> {
    let above = agent.charged_to.as_ref().and_then(|meter| meter.least_cost());
    let most = agent.profile.limits.cost.into_iter().chain(above).reduce(f64::min);
    match most {
        Some(most) if agent.model.price.is_none() => {
            Err(TaskError::NoPrice { model: agent.model.name.to_string(), most })
        }
        _ => Ok(()),
    }
}
