//! Commands of the configuration: prompts that a user sends by name.

use plimsoll_providers::ModelRef;

/// A prompt that a user sends by name.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CommandConfig {
    /// Description for the user.
    pub description: Option<String>,
    /// The prompt. `$ARGUMENTS`, `$1` and `$2` are replaced by arguments, `@path` by a file of the project.
    pub template: String,
    /// The agent that runs the prompt; the session's if it is not set.
    pub agent: Option<String>,
    /// Model of the prompt.
    pub model: Option<ModelRef>,
    /// Whether the agent does it as a background task.
    pub subtask: Option<bool>,
    /// Problem with a reference in its settings; the command cannot be used until it is fixed.
    pub problem: Option<String>,
}
