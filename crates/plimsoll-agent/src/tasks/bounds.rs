//! Converts bounds of agents to and from their stored form.

use plimsoll_config::ToolSwitch;
use plimsoll_sandbox::{Action, Origin, PermissionRule, Permissions};

use crate::agent::Bound;
use crate::task::StoredBound;

impl From<&Bound> for StoredBound {
    fn from(bound: &Bound) -> StoredBound {
        let Bound { permissions, switches, .. } = bound;
        let rules = permissions.rules.iter();
        StoredBound {
            rules: rules.map(|rule| (rule.tool.clone(), rule.pattern.clone(), rule.action)).collect(),
            switches: switches.iter().map(|switch| (switch.tool.clone(), switch.on)).collect(),
        }
    }
}

impl StoredBound {
    /// Restores a bound. `allow` are rules of this process's user, which override all others as for every agent.
    pub(super) fn restore(&self, allow: &[PermissionRule]) -> Bound {
        let rule = |(tool, pattern, action): &(String, String, Action)| {
            PermissionRule::new(tool, pattern, *action, Origin::BuiltIn)
        };
        let switch =
            |(tool, on): &(String, bool)| ToolSwitch { tool: tool.clone(), on: *on, origin: Origin::BuiltIn };
        let rules = self.rules.iter().map(rule).chain(allow.iter().cloned()).collect::<Vec<_>>();
        // No current setting ranks below stored rules.
        let (permissions, general_rules) = (Permissions::from(rules), 0);
        let switches = self.switches.iter().map(switch).collect();
        Bound { permissions, general_rules, switches, ..Bound::default() }
    }
}
