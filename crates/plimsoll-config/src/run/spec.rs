//! Types of a file's settings of a run, checked by serde and described by the schema.
//!
//! The types have no `Debug`, because they contain keys as text.

use std::collections::BTreeMap;

use plimsoll_sandbox::{Action, SandboxMode};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::agent::{AgentFork, AgentMode};
use super::hook::HookEvent;

/// Settings for runs of an agent.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RunSpec {
    /// Model of a session: `provider/model`.
    pub(crate) model: Option<String>,
    /// A cheaper model for titles and similar tasks: `provider/model`.
    pub(crate) small_model: Option<String>,
    /// Default agent. `build` if it is not set.
    pub(crate) default_agent: Option<String>,
    /// Maximum number of model calls in one run.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(crate) max_steps: Option<u32>,
    /// Maximum cost of one run in dollars.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    pub(crate) max_cost: Option<f64>,
    /// Maximum tokens of one run, input and output together.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(crate) max_tokens: Option<u64>,
    /// Files whose text goes into the system prompt: paths or globs, relative to this file.
    #[allow(dead_code, reason = "described by the schema; read with its order and place")]
    pub(crate) instructions: Vec<String>,
    /// Directories with skills, relative to this file, in addition to those of the home directory and the project.
    #[allow(dead_code, reason = "described by the schema; read with its order and place")]
    pub(crate) skills: Vec<String>,
    /// Permissions of agents: one action for everything, or by tool.
    #[allow(dead_code, reason = "described by the schema; read with its order and place")]
    pub(crate) permissions: PermissionSpec,
    /// Providers by name, in addition to the built-in `anthropic`, `openai` and `openai-chat`.
    pub(crate) providers: BTreeMap<String, ProviderSpec>,
    /// Agents by name. `compaction` writes summaries, `title` names sessions.
    pub(crate) agents: BTreeMap<String, AgentSpec>,
    /// Prompts that a user sends by name.
    pub(crate) commands: BTreeMap<String, CommandSpec>,
    /// MCP servers by name.
    pub(crate) mcp: BTreeMap<String, McpSpec>,
    /// Confinement of commands.
    pub(crate) sandbox: SandboxSpec,
    /// Settings of `webfetch`.
    pub(crate) webfetch: WebfetchSpec,
    /// Background tasks.
    pub(crate) tasks: TaskSpec,
    /// Commands that run on events. Those of all files run, in order.
    #[allow(dead_code, reason = "described by the schema; read with its place")]
    pub(crate) hooks: Vec<HookSpec>,
}

/// Confinement of commands.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SandboxSpec {
    /// `auto`: as far as the system supports it; `require`: refuse to run commands without it; `off`.
    pub(crate) mode: Option<SandboxMode>,
    /// Files and directories, in addition to the project and a temporary directory, that commands may write to.
    /// Relative to this file, or to the home directory with `~/`.
    pub(crate) write: Vec<String>,
    /// Whether commands may use the network.
    pub(crate) network: Option<bool>,
    /// Whether commands may use sockets of other programs on this machine, such as Docker or an SSH agent.
    pub(crate) unix_sockets: Option<bool>,
}

/// Whether a hook or an MCP server is confined like commands.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxSwitch {
    /// Confined like commands.
    On,
    /// Not confined.
    Off,
}

/// Settings of `webfetch`.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebfetchSpec {
    /// Hosts on this machine or in a private network that may be fetched from, such as `localhost:3000` or, for all
    /// ports, `localhost`.
    pub(crate) hosts: Vec<String>,
    /// URL of a proxy.
    pub(crate) proxy: Option<String>,
}

/// Permissions.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[allow(dead_code, reason = "described by the schema; read with its order and place")]
pub(crate) enum PermissionSpec {
    /// One action for every tool.
    All(Action),
    /// Actions by name of a tool, or by a pattern of names.
    ByTool(BTreeMap<String, ToolPermissionSpec>),
}

impl Default for PermissionSpec {
    fn default() -> PermissionSpec {
        PermissionSpec::ByTool(BTreeMap::new())
    }
}

/// Permissions for one tool.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[allow(dead_code, reason = "described by the schema; read with its order and place")]
pub(crate) enum ToolPermissionSpec {
    /// One action for every call.
    Any(Action),
    /// Actions by patterns of the call's argument; the last match decides.
    ByPattern(BTreeMap<String, Action>),
}

/// Name of a wire format.
#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) enum ApiSpec {
    /// Anthropic Messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// OpenAI Responses.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI Chat Completions, which most other servers support.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
}

/// A model provider.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProviderSpec {
    /// Wire format.
    pub(crate) api: Option<ApiSpec>,
    /// Base URL, such as `http://localhost:11434/v1`.
    pub(crate) base_url: Option<String>,
    /// API key. Prefer `{env:NAME}` or `{file:PATH}` to the key itself.
    pub(crate) key: Option<String>,
    /// Additional headers of every request.
    pub(crate) headers: BTreeMap<String, String>,
    /// Timeout of a request: `90s`, `10m`, or `false` for none.
    pub(crate) timeout: Option<TimeSpec>,
    /// Maximum time without a byte.
    pub(crate) idle_timeout: Option<TimeSpec>,
    /// Timeout of the connection.
    pub(crate) connect_timeout: Option<TimeSpec>,
    /// Models by name, as in `provider/model`.
    pub(crate) models: BTreeMap<String, ModelSpec>,
}

/// A duration, or `false` for none.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum TimeSpec {
    /// A number with `ms`, `s`, `m` or `h`.
    Text(String),
    /// `false`: no limit.
    Switch(bool),
    /// A number without a unit, which is parsed for a better error.
    #[cfg_attr(feature = "schema", schemars(skip))]
    Number(f64),
}

/// Settings of a model that differ from the built-in table.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ModelSpec {
    /// The provider's name of the model, if it differs.
    pub(crate) id: Option<String>,
    /// Display name.
    pub(crate) name: Option<String>,
    /// Context window in tokens.
    pub(crate) context: Option<u64>,
    /// Maximum input tokens.
    pub(crate) input: Option<u64>,
    /// Maximum output tokens.
    pub(crate) output: Option<u64>,
    /// Prices.
    pub(crate) price: PriceSpec,
}

/// Prices in dollars per million tokens.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PriceSpec {
    /// Input that is not cached.
    pub(crate) input: Option<f64>,
    /// Output.
    pub(crate) output: Option<f64>,
    /// Input that is read from the cache.
    pub(crate) cache_read: Option<f64>,
    /// Input that is written to the cache.
    pub(crate) cache_write: Option<f64>,
}

/// An agent.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AgentSpec {
    /// Description for other agents.
    pub(crate) description: Option<String>,
    /// System prompt: text or `{file:PATH}`.
    pub(crate) prompt: Option<String>,
    /// Model; the session's if it is not set.
    pub(crate) model: Option<String>,
    /// Enables or disables tools by name or pattern.
    #[allow(dead_code, reason = "described by the schema; read with its order and place")]
    pub(crate) tools: BTreeMap<String, bool>,
    /// Maximum number of model calls in one run.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(crate) steps: Option<u32>,
    /// Maximum tokens of an answer.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(crate) output: Option<u64>,
    /// Timeout of a request.
    pub(crate) timeout: Option<TimeSpec>,
    /// Sampling temperature.
    pub(crate) temperature: Option<f64>,
    /// Nucleus sampling: cumulative probability of the tokens to sample from.
    pub(crate) top_p: Option<f64>,
    /// Additional fields of the request, in the provider's format.
    pub(crate) options: Map<String, Value>,
    /// Where the agent may be used.
    pub(crate) mode: Option<AgentMode>,
    /// Permissions that override `permissions`.
    #[allow(dead_code, reason = "described by the schema; read with its order and place")]
    pub(crate) permission: PermissionSpec,
    /// How much of its parent's conversation a sub-agent receives.
    pub(crate) fork: Option<AgentFork>,
    /// Whether the agent is disabled.
    pub(crate) disable: Option<bool>,
}

/// A prompt that a user sends by name.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CommandSpec {
    /// Description for the user.
    pub(crate) description: Option<String>,
    /// The prompt. `$ARGUMENTS`, `$1` and `$2` are replaced by arguments, `@path` by a file of the project.
    pub(crate) template: Option<String>,
    /// The agent that runs the prompt; the session's if it is not set.
    pub(crate) agent: Option<String>,
    /// Model of the prompt: `provider/model`.
    pub(crate) model: Option<String>,
    /// Whether the agent does it as a background task.
    pub(crate) subtask: Option<bool>,
}

/// Limits of background tasks.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TaskSpec {
    /// Maximum number of tasks that work at the same time; others wait.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(crate) at_once: Option<u32>,
    /// Maximum depth of tasks that launch tasks: with 1 only ordinary sessions launch them, with 0 none do.
    pub(crate) depth: Option<u32>,
    /// Maximum number of model calls in one run.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(crate) steps: Option<u32>,
    /// Maximum time of one run: `90s`, `10m`, or `false` for none.
    pub(crate) time: Option<TimeSpec>,
    /// Maximum tokens of one run, input and output together.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(crate) tokens: Option<u64>,
    /// Maximum cost of one run in dollars.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    pub(crate) cost: Option<f64>,
    /// How much of its parent's conversation a forked task receives, unless its agent sets it.
    pub(crate) fork: Option<AgentFork>,
}

/// An MCP server: a local command or a URL.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct McpSpec {
    /// The command with its arguments.
    pub(crate) command: Option<Vec<String>>,
    /// Additional environment variables of the command.
    pub(crate) environment: BTreeMap<String, String>,
    /// Working directory of the command; the project's if it is not set.
    pub(crate) cwd: Option<String>,
    /// URL of a remote server.
    pub(crate) url: Option<String>,
    /// Additional headers of requests to the server.
    pub(crate) headers: BTreeMap<String, String>,
    /// Whether the server is used. Default: `true`.
    pub(crate) enabled: Option<bool>,
    /// Timeout of a request.
    pub(crate) timeout: Option<TimeSpec>,
    /// `off` runs the server without a sandbox. Only the user's own configuration can set it.
    pub(crate) sandbox: Option<SandboxSwitch>,
    /// Whether the server may use the network.
    pub(crate) network: Option<bool>,
    /// Whether the server may use sockets of other programs on this machine, such as Docker or an SSH agent.
    pub(crate) unix_sockets: Option<bool>,
    /// Files and directories, in addition to the project and a temporary directory, that the server may write to.
    /// Relative to this file, or to the home directory with `~/`.
    pub(crate) write: Vec<String>,
}

/// A command that runs on an event, with JSON on its standard input and output.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct HookSpec {
    /// The event.
    pub(crate) event: HookEvent,
    /// The command with its arguments, run in the project's directory.
    pub(crate) command: Vec<String>,
    /// Timeout; `30s` if it is not set.
    #[serde(default)]
    pub(crate) timeout: Option<TimeSpec>,
    /// For tool events: name or pattern of the tools; all if it is not set.
    #[serde(default)]
    pub(crate) tools: Option<String>,
    /// `off` runs the hook without a sandbox. Only the user's own configuration can set it.
    #[serde(default)]
    pub(crate) sandbox: Option<SandboxSwitch>,
    /// Whether the hook may use the network.
    #[serde(default)]
    pub(crate) network: Option<bool>,
    /// Whether the hook may use sockets of other programs on this machine, such as Docker or an SSH agent.
    #[serde(default)]
    pub(crate) unix_sockets: Option<bool>,
    /// Files and directories, in addition to the project and a temporary directory, that the hook may write to.
    /// Relative to this file, or to the home directory with `~/`.
    #[serde(default)]
    pub(crate) write: Vec<String>,
}
