//! How many tasks there may be, and how much each may take.

use std::time::Duration;

use plimsoll_config::{AgentFork, TaskConfig};

use crate::agent::Agent;
use crate::spend::RunLimits;
use crate::task::TaskError;

/// How many tasks there may be, and how much each may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskLimits {
    /// So many work at once; the others wait in the order in which they came.
    pub at_once: usize,
    /// So deep tasks may launch tasks: 1 lets only a session that is no task launch some.
    pub depth: u32,
    /// Most answers of the model in one run.
    pub steps: Option<u64>,
    /// The longest time of one run, from when it got its slot.
    pub time: Option<Duration>,
    /// Most tokens of one run.
    pub tokens: Option<u64>,
    /// Most dollars of one run.
    pub cost: Option<f64>,
    /// In which way a fork inherits where the agent's own configuration says nothing.
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
    /// The limits of a run of an agent that has limits of its own: whichever is reached first ends it.
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

/// Refuse an agent whose cost could never reach its limit because no price is known. A limit that silently does not hold is
/// worse than a task that does not run, and `plimsoll run` refuses the same of the agent that a person talks to. The limits
/// of the runs above it count, because what it spends is charged to them.
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
