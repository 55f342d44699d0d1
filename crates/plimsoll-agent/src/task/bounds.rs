//! What bounds a task, as its record keeps it.

use plimsoll_sandbox::Action;
use serde::{Deserialize, Serialize};

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
