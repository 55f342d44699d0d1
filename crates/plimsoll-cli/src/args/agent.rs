//! What can be asked of an agent: `run` and `chat`.

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
  plimsoll run --session codex:019e \"go on here\"
  OPENAI_BASE_URL=http://localhost:11434/v1 plimsoll run --model openai-chat/qwen3 \"hello\"
  plimsoll run --json \"list the tests\" | jq -r 'select(.type==\"report\").text'

The answer goes to standard output, what the agent does to standard error. Exit codes: 0 the model has come to an end, \
1 it was stopped before (steps, tokens, cost, repeating itself), 2 it was asked wrongly or no model is set up, 3 it \
failed, 130 it was interrupted. Whatever happens, what was said and done is stored, and `--continue` goes on.";

pub(super) const CHAT: &str = "\
Examples:
  plimsoll chat --model anthropic/claude-sonnet-4-6
  plimsoll chat --continue                  go on with the newest session of this directory
  plimsoll chat --session claude-code:5d0c  go on with a session of another tool
  plimsoll chat --allow 'bash:cargo *' \"why does the build fail?\"

In the chat `/help` lists its commands. What the agent wants to change, run or fetch is asked first, with exactly what \
would be done. Ctrl-C ends the answer, pressed again it quits; Ctrl-D quits. Everything said and done is stored; what \
leaves the window to make room stays stored, and comes back with `/recall` or `/undo`.

Where standard input is no terminal, each line of it is a prompt, and what would be asked is denied.";

/// For `run`.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// What to do, in words; `-` or nothing for standard input. With `--continue` or `--session` it may be left out: then
    /// the turn that was interrupted goes on.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// The agent, its session and its limits.
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// For `chat`.
#[derive(Args)]
pub(crate) struct ChatArgs {
    /// The first thing to say; without it you are asked.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// The agent, its session and its limits.
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// An agent, its session and its limits, for the commands that let one work.
#[derive(Args, Default)]
pub(crate) struct AgentArgs {
    /// Go on with the newest stored session of this directory.
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub(crate) resume: bool,

    /// Go on with this session, by its id or the beginning of it. One of another tool, or a file, is imported first.
    #[arg(short, long, value_name = "ID|FILE")]
    pub(crate) session: Option<String>,

    /// The model.
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,

    /// The agent, as the configuration describes it; `build` if none is named.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// Allow a tool, a tool for what fits a pattern, or everything; `network` lets commands use the network. Can be given
    /// several times.
    #[arg(long, value_name = "all|TOOL[:PATTERN]|network")]
    pub(crate) allow: Vec<String>,

    /// Whether commands are confined: as far as the system can, not at all, or only where it can.
    #[arg(long, value_name = "auto|off|require")]
    pub(crate) sandbox: Option<SandboxMode>,

    /// Stop a turn after so many answers of the model; 200 where nothing else is configured.
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u32>,

    /// Stop a turn once it has cost so much, as far as prices are known.
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<f64>,

    /// Stop a turn once so many tokens were charged.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) max_tokens: Option<u64>,

    /// Show what the model thinks.
    #[arg(long)]
    pub(crate) thinking: bool,

    /// Do it although another process runs the session; that one is named, and can write no more.
    #[arg(long)]
    pub(crate) force: bool,

    /// A preset (plimsoll, opencode, opencode-1.18, openfork) or a policy file.
    #[arg(short, long, value_name = "NAME|FILE", help_heading = POLICY)]
    pub(crate) policy: Option<String>,

    /// The model's context window in tokens, as 128k; what is known of the model where nothing is said.
    #[arg(short = 'w', long, value_name = "TOKENS", value_parser = tokens, help_heading = POLICY)]
    pub(crate) context: Option<u64>,
}

impl AgentArgs {
    /// What is wanted of the agent, as a host takes it.
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

    /// Whether a session is continued.
    pub(crate) fn goes_on(&self) -> bool {
        self.resume || self.session.is_some()
    }
}
