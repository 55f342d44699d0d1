//! Stored permissions that bound a task.

use plimsoll_sandbox::Action;
use serde::{Deserialize, Serialize};

/// Permissions of an agent above a task at the time of the launch.
///
/// The record stores them because the configuration may change later, and because flags or a host may have given an
/// agent other permissions than are configured. The source of a rule is not stored, because it is never shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct StoredBound {
    /// Rules: tool, pattern, action. The last match decides.
    pub rules: Vec<(String, String, Action)>,
    /// Tools that were switched on or off. The last match decides.
    pub switches: Vec<(String, bool)>,
}
