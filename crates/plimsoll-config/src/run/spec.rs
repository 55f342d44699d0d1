//! What a file may say about a run, with types: checked by serde, described by the schema.
//!
//! No `Debug`: keys stand here as text.

use std::collections::BTreeMap;

use plimsoll_sandbox::{Action, SandboxMode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::agent::{AgentFork, AgentMode};
use super::hook::HookEvent;

/// Everything about a run.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RunSpec {
    /// The model of a session: `provider/model`.
    pub(crate) model: Option<String>,
    /// A cheaper model, for titles and the like: `provider/model`.
    pub(crate) small_model: Option<String>,
    /// The agent that runs where none is named; `build` where this is not set.
    pub(crate) default_agent: Option<String>,
    /// Most calls of the model in one run.
    #[schemars(range(min = 1))]
    pub(crate) max_steps: Option<u32>,
    /// Most that one run may cost, in dollars.
    #[schemars(range(min = 0.0))]
    pub(crate) max_cost: Option<f64>,
    /// Most tokens of one run, input and output together.
    #[schemars(range(min = 1))]
    pub(crate) max_tokens: Option<u64>,
    /// Files whose text goes into the system prompt: paths or globs, from where this file is.
    #[allow(dead_code, reason = "described by the schema; read with its order and place")]
    pub(crate) instructions: Vec<String>,
    /// Folders with skills, from where this file is, besides those of the home and the project.
    #[allow(dead_code, reason = "described by the schema; read with its order and place")]
    pub(crate) skills: Vec<String>,
    /// What agents may do: an action for everything, or by tool.
    #[allow(dead_code, reason = "described by the schema; read with its order and place")]
    pub(crate) permissions: PermissionSpec,
    /// Providers by name, beside the built-in `anthropic`, `openai` and `openai-chat`.
    pub(crate) providers: BTreeMap<String, ProviderSpec>,
    /// Agents by name. `compaction` writes summaries, `title` names sessions.
    pub(crate) agents: BTreeMap<String, AgentSpec>,
    /// MCP servers by name.
    pub(crate) mcp: BTreeMap<String, McpSpec>,
    /// What commands are held to.
    pub(crate) sandbox: SandboxSpec,
    /// What may be fetched.
    pub(crate) webfetch: WebfetchSpec,
    /// Background tasks.
    pub(crate) tasks: TaskSpec,
    /// Commands that are run at certain moments. Those of all files count, in order.
    #[allow(dead_code, reason = "described by the schema; read with its place")]
    pub(crate) hooks: Vec<HookSpec>,
}

/// What commands are held to.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SandboxSpec {
    /// `auto`: as far as the system can; `require`: not at all where it cannot; `off`.
    pub(crate) mode: Option<SandboxMode>,
    /// Files and directories that may be written to besides the project and a temporary directory: from where this file
    /// is, or from the home with `~/`.
    pub(crate) write: Vec<String>,
    /// Whether commands may use the network.
    pub(crate) network: Option<bool>,
    /// Whether commands may use sockets of other programs on this machine, such as docker or an ssh agent.
    pub(crate) unix_sockets: Option<bool>,
}

/// Whether a hook or an MCP server is confined as commands are.
#[derive(Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxSwitch {
    /// As commands are.
    On,
    /// Not at all.
    Off,
}

/// What may be fetched.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebfetchSpec {
    /// Hosts on this machine or in a private network that may be fetched from, as `localhost:3000` or without a port.
    pub(crate) hosts: Vec<String>,
    /// The address of a proxy.
    pub(crate) proxy: Option<String>,
}

/// Permissions as they are written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "described by the schema; read with its order and place")]
pub(crate) enum PermissionSpec {
    /// For every tool.
    All(Action),
    /// By the name of a tool, or a pattern of names.
    ByTool(BTreeMap<String, ToolPermissionSpec>),
}

impl Default for PermissionSpec {
    fn default() -> PermissionSpec {
        PermissionSpec::ByTool(BTreeMap::new())
    }
}

/// The permissions of one tool.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "described by the schema; read with its order and place")]
pub(crate) enum ToolPermissionSpec {
    /// Whatever it is called with.
    Any(Action),
    /// By patterns of what it is called with; the last that matches decides.
    ByPattern(BTreeMap<String, Action>),
}

/// A wire format by its name.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
pub(crate) enum ApiSpec {
    /// Anthropic Messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// OpenAI Responses.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI Chat Completions, which most other servers speak.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
}

/// A provider of models.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProviderSpec {
    /// What it speaks.
    pub(crate) api: Option<ApiSpec>,
    /// Its address, such as `http://localhost:11434/v1`.
    pub(crate) base_url: Option<String>,
    /// The key, better as `{env:NAME}` or `{file:PATH}` than as text.
    pub(crate) key: Option<String>,
    /// Further headers of every request.
    pub(crate) headers: BTreeMap<String, String>,
    /// The longest time of one request: `90s`, `10m`, or `false` for none.
    pub(crate) timeout: Option<TimeSpec>,
    /// The longest time without a byte.
    pub(crate) idle_timeout: Option<TimeSpec>,
    /// The longest time to connect.
    pub(crate) connect_timeout: Option<TimeSpec>,
    /// Its models by the name that `provider/model` has.
    pub(crate) models: BTreeMap<String, ModelSpec>,
}

/// A time, or none.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum TimeSpec {
    /// A number with `ms`, `s`, `m` or `h`.
    Text(String),
    /// `false`: no limit.
    Switch(bool),
    /// A number without its unit, which is read in order to say so.
    #[schemars(skip)]
    Number(f64),
}

/// A model, where it differs from the table.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ModelSpec {
    /// The name that its provider knows it by, if that is another.
    pub(crate) id: Option<String>,
    /// A name for people.
    pub(crate) name: Option<String>,
    /// Its context window, in tokens.
    pub(crate) context: Option<u64>,
    /// A limit on the input alone, in tokens.
    pub(crate) input: Option<u64>,
    /// The longest answer, in tokens.
    pub(crate) output: Option<u64>,
    /// What it costs.
    pub(crate) price: PriceSpec,
}

/// Prices in dollars for a million tokens.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PriceSpec {
    /// Input that has nothing to do with the cache.
    pub(crate) input: Option<f64>,
    /// Output.
    pub(crate) output: Option<f64>,
    /// Input read from the cache.
    pub(crate) cache_read: Option<f64>,
    /// Input written to the cache.
    pub(crate) cache_write: Option<f64>,
}

/// An agent.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AgentSpec {
    /// What it is for; other agents read it.
    pub(crate) description: Option<String>,
    /// Its system prompt, as text or `{file:PATH}`.
    pub(crate) prompt: Option<String>,
    /// Its model; the session's where it is not set.
    pub(crate) model: Option<String>,
    /// Tools it has or has not, by name or pattern.
    #[allow(dead_code, reason = "described by the schema; read with its order and place")]
    pub(crate) tools: BTreeMap<String, bool>,
    /// Most calls of the model in one run.
    #[schemars(range(min = 1))]
    pub(crate) steps: Option<u32>,
    /// The longest answer, in tokens.
    #[schemars(range(min = 1))]
    pub(crate) output: Option<u64>,
    /// The longest time of one request.
    pub(crate) timeout: Option<TimeSpec>,
    /// How freely the model chooses its words.
    pub(crate) temperature: Option<f64>,
    /// How many of the likeliest words the model chooses from.
    pub(crate) top_p: Option<f64>,
    /// Further fields of the request, as its provider has them.
    pub(crate) options: Map<String, Value>,
    /// Where it may be used.
    pub(crate) mode: Option<AgentMode>,
    /// What it may do beyond or short of `permissions`.
    #[allow(dead_code, reason = "described by the schema; read with its order and place")]
    pub(crate) permission: PermissionSpec,
    /// What a sub-agent is told of the conversation it comes from.
    pub(crate) fork: Option<AgentFork>,
    /// Whether it is not there at all.
    pub(crate) disable: Option<bool>,
}

/// Background tasks: how many there may be, and how much each may take.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TaskSpec {
    /// How many work at once; the others wait.
    #[schemars(range(min = 1))]
    pub(crate) at_once: Option<u32>,
    /// How deep tasks may launch tasks: 1 lets only a session that is no task launch some, 0 none.
    pub(crate) depth: Option<u32>,
    /// Most calls of the model in one run.
    #[schemars(range(min = 1))]
    pub(crate) steps: Option<u32>,
    /// The longest time of one run: `90s`, `10m`, or `false` for none.
    pub(crate) time: Option<TimeSpec>,
    /// Most tokens of one run, input and output together.
    #[schemars(range(min = 1))]
    pub(crate) tokens: Option<u64>,
    /// Most that one run may cost, in dollars.
    #[schemars(range(min = 0.0))]
    pub(crate) cost: Option<f64>,
    /// What a forked task is told of the conversation it comes from, where its agent says nothing.
    pub(crate) fork: Option<AgentFork>,
}

/// An MCP server: a command on this machine, or an address.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct McpSpec {
    /// The command with its arguments.
    pub(crate) command: Option<Vec<String>>,
    /// Further variables of the command.
    pub(crate) environment: BTreeMap<String, String>,
    /// The directory it runs in; the project's where it is not set.
    pub(crate) cwd: Option<String>,
    /// The address of a remote server.
    pub(crate) url: Option<String>,
    /// Further headers of requests to it.
    pub(crate) headers: BTreeMap<String, String>,
    /// Whether it is used; it is unless this says no.
    pub(crate) enabled: Option<bool>,
    /// The longest time of one request to it.
    pub(crate) timeout: Option<TimeSpec>,
    /// `off` runs it without a sandbox. Only the user's own configuration can set it.
    pub(crate) sandbox: Option<SandboxSwitch>,
    /// Whether it may use the network.
    pub(crate) network: Option<bool>,
    /// Whether it may use sockets of other programs on this machine, such as docker or an ssh agent.
    pub(crate) unix_sockets: Option<bool>,
    /// Files and directories that it may write to besides the project and a temporary directory: from where this file is, or
    /// from the home with `~/`.
    pub(crate) write: Vec<String>,
}

/// A command that is run at a moment, with JSON on its standard input and output.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookSpec {
    /// When.
    pub(crate) event: HookEvent,
    /// The command with its arguments, run in the project's directory.
    pub(crate) command: Vec<String>,
    /// The longest time it may take; `30s` where it is not set.
    #[serde(default)]
    pub(crate) timeout: Option<TimeSpec>,
    /// For hooks of tools: the tools, by name or pattern; all where it is not set.
    #[serde(default)]
    pub(crate) tools: Option<String>,
    /// `off` runs it without a sandbox. Only the user's own configuration can set it.
    #[serde(default)]
    pub(crate) sandbox: Option<SandboxSwitch>,
    /// Whether it may use the network.
    #[serde(default)]
    pub(crate) network: Option<bool>,
    /// Whether it may use sockets of other programs on this machine, such as docker or an ssh agent.
    #[serde(default)]
    pub(crate) unix_sockets: Option<bool>,
    /// Files and directories that it may write to besides the project and a temporary directory: from where this file is, or
    /// from the home with `~/`.
    #[serde(default)]
    pub(crate) write: Vec<String>,
}
