//! What decides on the window in a replay: a policy of the engine, or the published rules of another system.

use std::fmt;

use plimsoll::{Policy, PolicyError, Preset, Tokens};

/// What decides on the window.
#[derive(Clone, Debug, PartialEq)]
pub enum Rules {
    /// Nothing is ever reduced.
    None,
    /// The engine under a policy: truncate, prune, compact, shed.
    Engine(Box<Policy>),
    /// Anthropic's context editing (`clear_tool_uses_20250919`): on every request over the trigger all but the
    /// newest results are replaced by a placeholder. The client's history stays whole, and the provider decides
    /// anew on each request.
    ClearToolUses {
        /// A longer request is edited.
        trigger: Tokens,
        /// So many of the newest results stay.
        keep: usize,
    },
    /// Observation masking: all but the newest results are replaced by a placeholder, on every request.
    Mask {
        /// So many of the newest results stay.
        keep: usize,
    },
    /// Codex: over 90 % of the window a summary takes the place of everything but the host's messages and the
    /// newest messages of the user.
    Codex {
        /// So much of the user's newest messages stays.
        user_tokens: Tokens,
    },
}

/// The names a replay compares if nobody says otherwise.
pub const DEFAULTS: [&str; 7] =
    ["none", "plimsoll", "opencode", "openfork", "anthropic-clear", "mask-10", "codex"];

impl Rules {
    /// The published rules of that name.
    fn named(name: &str) -> Option<Rules> {
        match name {
            "none" => Some(Rules::None),
            "anthropic-clear" => Some(Rules::ClearToolUses { trigger: Tokens(100_000), keep: 3 }),
            "codex" => Some(Rules::Codex { user_tokens: Tokens(20_000) }),
            _ => {
                let keep = name.strip_prefix("mask-")?.parse().ok()?;
                Some(Rules::Mask { keep })
            }
        }
    }

    /// Whether content that left the window can be recalled by a handle. Plimsoll keeps the log under every
    /// policy; the others have no such thing.
    pub(crate) fn has_handles(&self) -> bool {
        matches!(self, Rules::Engine(_))
    }

    /// Whether what is cut off as it arrives is kept.
    pub(crate) fn spills(&self) -> bool {
        matches!(self, Rules::Engine(policy) if policy.truncate.spill)
    }
}

impl From<Policy> for Rules {
    fn from(policy: Policy) -> Rules {
        Rules::Engine(Box::new(policy))
    }
}

impl std::str::FromStr for Rules {
    type Err = PolicyError;

    /// The rules of a name: `none`, `anthropic-clear`, `mask-N`, `codex`, or a preset of the engine.
    ///
    /// ```
    /// use plimsoll_replay::Rules;
    /// assert_eq!("mask-3".parse(), Ok(Rules::Mask { keep: 3 }));
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
                known: format!("{known}, none, anthropic-clear, mask-N, codex"),
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
            Rules::ClearToolUses { .. } => f.write_str("anthropic-clear"),
            Rules::Mask { keep } => write!(f, "mask-{keep}"),
            Rules::Codex { .. } => f.write_str("codex"),
        }
    }
}
