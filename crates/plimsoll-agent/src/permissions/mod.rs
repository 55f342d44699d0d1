//! Permissions in the terms of agents and their configuration: hints for denied calls, and rules for tools that do not
//! exist.

mod hint;
mod known;

pub(crate) use hint::{AllowHint, IN_PROJECT_FILE};
pub use known::{IdleRule, UnknownTool, idle_rules, require_tool};
