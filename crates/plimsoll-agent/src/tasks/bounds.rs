//! What bounds a task, as its record keeps it.

use plimsoll_config::{Action, Origin, PermissionRule, Permissions, ToolSwitch};
use serde::{Deserialize, Serialize};

use crate::agent::Bound;

/// What one agent above a task had and might when the task was launched.
///
/// The record keeps it because what is configured changes, and because an agent may have been given more or less than is
/// configured: by flags, or by a host. Where a rule stood is not kept, as nothing shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StoredBound {
    /// Its rules: tool, pattern, action. The last that matches decides.
    pub rules: Vec<(String, String, Action)>,
    /// Tools that it had or had not. The last that matches decides.
    pub switches: Vec<(String, bool)>,
}

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
    /// The bound again. `allow` are rules of the person at this process, which go over all others as they do for every
    /// agent that it makes.
    pub(super) fn restore(&self, allow: &[PermissionRule]) -> Bound {
        let rule = |(tool, pattern, action): &(String, String, Action)| {
            PermissionRule::new(tool, pattern, *action, Origin::BuiltIn)
        };
        let switch =
            |(tool, on): &(String, bool)| ToolSwitch { tool: tool.clone(), on: *on, origin: Origin::BuiltIn };
        let rules = self.rules.iter().map(rule).chain(allow.iter().cloned()).collect::<Vec<_>>();
        // No setting that is made today goes below rules of the past.
        let (permissions, general_rules) = (Permissions::from(rules), 0);
        Bound { permissions, general_rules, switches: self.switches.iter().map(switch).collect() }
    }
}
