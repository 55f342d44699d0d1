//! The rules that reduce the window in a replay: a policy of the engine, or the published rules of another system.
//!
//! Each of the others is taken in its best form: as published, or, if its default does not suit the session, in the
//! variant that its authors recommend. [`Rules::source`] names where a rule comes from.

use std::fmt;

use plimsoll::{Limits, Policy, PolicyError, Preset, Tokens};

/// Rules that reduce the window.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Rules {
    /// No reduction.
    None,
    /// The engine under a policy: truncate, prune, compact, shed.
    Engine(Box<Policy>),
    /// Anthropic's context editing (`clear_tool_uses_20250919`): in every request over the trigger, all but the newest
    /// results are replaced by a placeholder. The client's history stays complete, and the provider decides again on
    /// each request, by its own count of tokens.
    ClearToolUses {
        /// Size of a request above which it is edited.
        trigger: ClearTrigger,
        /// Number of the newest results that stay.
        keep: usize,
    },
    /// Observation masking as in SWE-agent: all but the newest results are replaced by a placeholder.
    Mask {
        /// Minimum number of the newest results that stay.
        keep: usize,
        /// Number of results after which the mask moves.
        polling: usize,
    },
    /// Codex: from 90 % of the window on, a summary replaces everything except the host's messages and the newest user
    /// messages. Results are cut in the middle when they arrive.
    Codex {
        /// Tokens of the newest user messages that stay.
        user_tokens: Tokens,
        /// Maximum tokens of a result.
        output_tokens: Tokens,
    },
    /// Claude Code: near the end of the window, a summary replaces the conversation. After a long pause, when the cache
    /// has expired, old tool results are cleared.
    ClaudeCode,
    /// Plimsoll's proxy in front of a client that does not reduce its history: old results are replaced by placeholders if
    /// that is paid out of savings already made.
    Proxy,
}

/// Size of a request above which context editing begins.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClearTrigger {
    /// A number of tokens.
    Tokens(Tokens),
    /// A share of the window.
    Share(f64),
}

impl ClearTrigger {
    pub(crate) fn tokens(self, limits: Limits) -> u64 {
        match self {
            ClearTrigger::Tokens(tokens) => tokens.0,
            ClearTrigger::Share(share) => limits.context.share(share).0,
        }
    }
}

/// Content outside the window that the model can recall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handles {
    /// Nothing.
    None,
    /// The full output of a result that was cut on arrival, as long as its notice is in the window.
    Spilled,
    /// Everything.
    All,
}

/// Names of the rules that a replay compares by default.
pub const DEFAULTS: [&str; 10] = [
    "none",
    "plimsoll",
    "opencode",
    "openfork",
    "anthropic-clear",
    "anthropic-clear-50",
    "mask-10",
    "mask-10-by-10",
    "codex",
    "claude-code",
];

impl Rules {
    /// Returns the published rules with that name.
    fn named(name: &str) -> Option<Rules> {
        match name {
            "none" => Some(Rules::None),
            "anthropic-clear" => {
                Some(Rules::ClearToolUses { trigger: ClearTrigger::Tokens(Tokens(100_000)), keep: 3 })
            }
            "codex" => Some(Rules::Codex { user_tokens: Tokens(20_000), output_tokens: Tokens(10_000) }),
            "claude-code" => Some(Rules::ClaudeCode),
            "proxy" => Some(Rules::Proxy),
            _ => Rules::with_numbers(name),
        }
    }

    fn with_numbers(name: &str) -> Option<Rules> {
        if let Some(percent) = name.strip_prefix("anthropic-clear-") {
            let percent: u8 = percent.parse().ok().filter(|percent| (1..=100).contains(percent))?;
            let trigger = ClearTrigger::Share(f64::from(percent) / 100.0);
            return Some(Rules::ClearToolUses { trigger, keep: 3 });
        }
        let numbers = name.strip_prefix("mask-")?;
        let (keep, polling) = numbers.split_once("-by-").unwrap_or((numbers, "1"));
        let polling = polling.parse().ok().filter(|polling| *polling > 0)?;
        Some(Rules::Mask { keep: keep.parse().ok()?, polling })
    }

    /// Returns where the rules come from, for users who want to check them.
    pub fn source(&self) -> &'static str {
        match self {
            Rules::None => "every request carries the whole conversation",
            Rules::Engine(policy) => match policy.name.as_str() {
                "plimsoll" => "docs/POLICY.md",
                "opencode" => {
                    "OpenCode's documents of January 2026 on pruning and compaction; it has no way to bring \
                               back what it cleared or compacted"
                }
                "opencode-1.18" => "OpenCode 1.18, packages/opencode/src/session/compaction.ts",
                "openfork" => {
                    "OpenFork's token management guide; it has no way to bring back what it cleared or \
                               compacted"
                }
                _ => "a policy of the engine",
            },
            Rules::ClearToolUses { .. } => {
                "Anthropic, platform.claude.com/docs/en/build-with-claude/context-editing: trigger 100,000 tokens by \
                 default, the newest 3 tool uses kept, decided by the server on every request; with a number, the \
                 trigger at that percentage of the window"
            }
            Rules::Mask { .. } => {
                "SWE-agent, sweagent/agent/history_processors.py, `LastNObservations`: `n`, and with a second number \
                 `polling`, which its authors offer for the cache's sake"
            }
            Rules::Codex { .. } => {
                "openai/codex, codex-rs: auto-compaction at 90 % of the window (protocol/src/openai_models.rs), user \
                 messages of up to 20,000 tokens kept (core/src/compact.rs), tool outputs cut to 10,000 tokens \
                 (`truncation_policy`); its summary request is taken to read the cached prefix, as remote compaction does"
            }
            Rules::Proxy => {
                "clears old tool results in the history of a client that reduces nothing, paid out of what that has saved: \
                 docs/POLICY.md, \"The proxy's rule\""
            }
            Rules::ClaudeCode => {
                "Claude Code: compacts at the window less the longest answer (at most 20,000) less 13,000 \
                 (anthropics/claude-code#12004, #31806); a summary takes the place of the conversation, asked for on \
                 the cached prefix; microcompaction: after a pause of more than an hour all but the newest 5 tool results \
                 become a placeholder (anthropics/claude-code#57788; its rule as lijunzh/koda#660 and QwenLM/qwen-code#3006 \
                 describe it)"
            }
        }
    }

    /// Returns what the model can recall. Plimsoll leaves a handle wherever it removes something. A policy that follows
    /// another system's documents has what that system has.
    pub(crate) fn handles(&self) -> Handles {
        match self {
            Rules::Engine(policy) if policy.prune.name_handle && policy.truncate.spill => Handles::All,
            Rules::Engine(policy) if policy.truncate.spill => Handles::Spilled,
            Rules::Proxy => Handles::All,
            _ => Handles::None,
        }
    }
}

impl From<Policy> for Rules {
    fn from(policy: Policy) -> Rules {
        Rules::Engine(Box::new(policy))
    }
}

impl std::str::FromStr for Rules {
    type Err = PolicyError;

    /// Parses a name: `none`, `anthropic-clear`, `mask-N`, `codex`, `claude-code`, or a preset of the engine.
    ///
    /// ```
    /// use plimsoll_replay::Rules;
    /// assert_eq!("mask-3".parse(), Ok(Rules::Mask { keep: 3, polling: 1 }));
    /// assert_eq!("mask-3-by-5".parse(), Ok(Rules::Mask { keep: 3, polling: 5 }));
    /// assert!("opencod".parse::<Rules>().unwrap_err().to_string().contains("mask-N"));
    /// ```
    fn from_str(name: &str) -> Result<Rules, PolicyError> {
        if let Some(rules) = Rules::named(name) {
            return Ok(rules);
        }
        match name.parse::<Preset>() {
            Ok(preset) => Ok(preset.policy().into()),
            Err(PolicyError::UnknownPreset { name, known }) => Err(PolicyError::UnknownPreset {
                name,
                known: format!(
                    "{known}, `none`, `anthropic-clear`, `anthropic-clear-PERCENT`, `mask-N`, `mask-N-by-M`, `codex`, `claude-code`, \
                     `proxy`"
                ),
            }),
            Err(other) => Err(other),
        }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rules::None => f.write_str("none"),
            Rules::Engine(policy) => f.write_str(&policy.name),
            Rules::ClearToolUses { trigger: ClearTrigger::Tokens(_), .. } => f.write_str("anthropic-clear"),
            Rules::ClearToolUses { trigger: ClearTrigger::Share(share), .. } => {
                write!(f, "anthropic-clear-{:.0}", share * 100.0)
            }
            Rules::Mask { keep, polling: 1 } => write!(f, "mask-{keep}"),
            Rules::Mask { keep, polling } => write!(f, "mask-{keep}-by-{polling}"),
            Rules::Codex { .. } => f.write_str("codex"),
            Rules::ClaudeCode => f.write_str("claude-code"),
            Rules::Proxy => f.write_str("proxy"),
        }
    }
}
