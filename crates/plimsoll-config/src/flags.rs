//! Settings of the heaviest layer.

use std::path::PathBuf;

use plimsoll_sandbox::SandboxMode;

/// Settings of the heaviest layer.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// A preset or a policy file.
    pub policy: Option<String>,
    /// The context window, in tokens.
    pub context: Option<u64>,
    /// The database.
    pub store: Option<PathBuf>,
    /// The model: `provider/model`.
    pub model: Option<String>,
    /// Most calls of the model in one run.
    pub max_steps: Option<u32>,
    /// Most that one run may cost, in dollars.
    pub max_cost: Option<f64>,
    /// Most tokens of one run, input and output together.
    pub max_tokens: Option<u64>,
    /// Whether commands are confined.
    pub sandbox: Option<SandboxMode>,
    /// Let commands use the network.
    pub network: bool,
}
