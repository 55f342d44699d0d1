//! Settings from flags, the layer with the highest priority.

use std::path::PathBuf;

use plimsoll_sandbox::SandboxMode;

/// Settings from flags, the layer with the highest priority.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// A preset or a policy file.
    pub policy: Option<String>,
    /// Context window in tokens.
    pub context: Option<u64>,
    /// The database.
    pub store: Option<PathBuf>,
    /// The model: `provider/model`.
    pub model: Option<String>,
    /// Maximum model calls in one run.
    pub max_steps: Option<u32>,
    /// Maximum cost of one run in dollars.
    pub max_cost: Option<f64>,
    /// Maximum tokens of one run, input and output together.
    pub max_tokens: Option<u64>,
    /// Whether commands are confined.
    pub sandbox: Option<SandboxMode>,
    /// Whether commands may use the network.
    pub network: bool,
}
