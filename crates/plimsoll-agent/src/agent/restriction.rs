//! Permission rules that a client has set for one session.
//!
//! The rules are evaluated after those of the agent, and the stricter of both decides: they may ask or deny where the agent is
//! allowed to act, and never the other way round.

use plimsoll_config::opencode_tool_names;
use plimsoll_sandbox::{Action, Origin, PermissionRule};
use plimsoll_store::Session;
use serde::{Deserialize, Serialize};

use super::{Bound, Profile};

/// Name of the rules in [`Session::settings`](plimsoll_store::Session::settings).
pub const PERMISSION_SETTING: &str = "permission";

/// A permission rule of a session, in the form of OpenCode's API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRule {
    /// OpenCode's name of the tool, or a pattern of names.
    pub permission: String,
    /// Command, path or address, or a pattern of them.
    pub pattern: String,
    /// Effect of the rule.
    pub action: Action,
}

impl Bound {
    /// Returns the bound that the rules of a session set for an agent; `None` if the session has no rules.
    pub(crate) fn of_session(session: &Session, profile: &Profile) -> Option<Bound> {
        let stored = session.settings.get(PERMISSION_SETTING)?;
        let rule =
            |tool: &str, pattern: &str, action| PermissionRule::new(tool, pattern, action, Origin::Session);
        let rules = match Vec::<SessionRule>::deserialize(stored) {
            Ok(rules) if rules.is_empty() => return None,
            Ok(rules) => rules
                .iter()
                .flat_map(|SessionRule { permission, pattern, action }| {
                    opencode_tool_names(permission).into_iter().map(|tool| rule(tool, pattern, *action))
                })
                .collect(),
            // Rules that cannot be read must not be without effect.
            Err(_) => vec![rule("*", "*", Action::Deny)],
        };
        let mut permissions = profile.permissions.clone();
        permissions.rules.extend(rules);
        Some(Bound {
            permissions,
            general_rules: profile.general_rules,
            switches: profile.switches.clone(),
            is_fixed: true,
        })
    }
}
