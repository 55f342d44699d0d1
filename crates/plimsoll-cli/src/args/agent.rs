//! Arguments of `run` and `chat`.

use clap::Args;
use plimsoll_config::SandboxMode;
use plimsoll_host::{AgentOptions, Flags};

use super::transcripts::POLICY;
use super::values::tokens;

pub(super) const RUN: &str = "\
Examples:
  export ANTHROPIC_API_KEY=…
  plimsoll run --model anthropic/claude-sonnet-4-6 \"what does this project do?\"
  plimsoll run --continue \"and how is it tested?\"
  plimsoll run --allow 'bash:cargo *' \"why does the build fail?\"
  git diff | plimsoll run - --max-cost 0.50 > review.txt
  plimsoll run --session codex:019e \"continue here\"
  export OPENAI_BASE_URL=http://localhost:11434/v1
  plimsoll run --model openai-chat/qwen3 \"hello\"
  plimsoll run --json \"list the tests\" | jq -r 'select(.type==\"report\").text'";

pub(super) const RUN_NOTES: &str = "\
The answer goes to standard output, progress to standard error. The session is stored even if the run fails or is \
interrupted; `--continue` resumes it.

Exit codes: 0 the model finished, 1 stopped by a limit (steps, tokens, cost, repetition), 2 usage error or no model \
configured, 3 failure, 130 interrupted.";

pub(super) const CHAT: &str = r#"Examples:
  plimsoll chat --model anthropic/claude-sonnet-4-6
  plimsoll chat --continue                  continue this directory's session
  plimsoll chat --session claude-code:5d0c  continue a session of another tool
  plimsoll chat --allow 'bash:cargo *' "why does the build fail?""#;

pub(super) const CHAT_NOTES: &str = "\
Type `/help` in the chat to list its commands. The agent asks before it changes files, runs commands or fetches \
anything, and shows exactly what it would do. Ctrl-C stops the answer and, pressed twice, quits; Ctrl-D quits. \
The session is stored; content that leaves the window can be brought back with `/recall` or `/undo`.

If standard input is not a terminal, each line is a prompt, and every permission request is denied.";

/// Arguments of `run`.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// The prompt; `-` or nothing reads standard input. With `--continue` or `--session` it may be omitted to resume the
    /// interrupted turn.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// The agent, its session and its limits.
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// Arguments of `chat`.
#[derive(Args)]
pub(crate) struct ChatArgs {
    /// First prompt. If omitted, the chat asks for one.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// The agent, its session and its limits.
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// Options for the agent, its session and its limits, shared by `run` and `chat`.
#[derive(Args, Default)]
pub(crate) struct AgentArgs {
    /// Continue the newest stored session of this directory.
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub(crate) resume: bool,

    /// Continue this session (id, id prefix or file). A file or a session of another tool is imported first.
    #[arg(short, long, value_name = "ID|FILE")]
    pub(crate) session: Option<String>,

    /// Model to use.
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,

    /// Agent from the configuration [default: build].
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// Allow a tool, a tool for matching calls, network access for commands, or everything. Repeatable.
    #[arg(long, value_name = "all|TOOL[:PATTERN]|network")]
    pub(crate) allow: Vec<String>,

    /// Confine commands: where possible (auto), never (off), or fail if impossible (require).
    #[arg(long, value_name = "auto|off|require")]
    pub(crate) sandbox: Option<SandboxMode>,

    /// Maximum number of model calls per turn [default: 200].
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u32>,

    /// Maximum cost of a turn in dollars, for models with known prices.
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<f64>,

    /// Maximum number of tokens charged in a turn.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) max_tokens: Option<u64>,

    /// Show the model's reasoning.
    #[arg(long)]
    pub(crate) thinking: bool,

    /// Take over the session even if another process is running it.
    #[arg(long)]
    pub(crate) force: bool,

    /// Preset (plimsoll, opencode, opencode-1.18, openfork) or policy file.
    #[arg(short, long, value_name = "NAME|FILE", help_heading = POLICY)]
    pub(crate) policy: Option<String>,

    /// Context window in tokens, such as 128k [default: the model's].
    #[arg(short = 'w', long, value_name = "TOKENS", value_parser = tokens, help_heading = POLICY)]
    pub(crate) context: Option<u64>,
}

impl AgentArgs {
    /// Returns these options as the host takes them.
    pub(crate) fn options(&self) -> AgentOptions {
        let flags = Flags {
            policy: self.policy.clone(),
            context: self.context,
            model: self.model.clone(),
            max_steps: self.max_steps,
            max_cost: self.max_cost,
            max_tokens: self.max_tokens,
            sandbox: self.sandbox,
            ..Flags::default()
        };
        AgentOptions {
            agent: self.agent.clone(),
            session: self.session.clone(),
            resume: self.resume,
            allow: self.allow.clone(),
            force: self.force,
            flags,
        }
    }

    /// Whether an existing session is continued.
    pub(crate) fn continues(&self) -> bool {
        self.resume || self.session.is_some()
    }
}
