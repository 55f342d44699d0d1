//! Settings that have no effect.

use std::fmt;

use plimsoll_sandbox::Origin;
use serde::Serialize;

/// A setting that has no effect: one of OpenCode's, or one that its file cannot make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Its key as it is written, `*` for the names of models; or a folder.
    pub key: String,
    /// Where it stands.
    pub origin: Origin,
    /// Why, where that is not clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: `{}` has no effect", self.origin, self.key)?;
        match &self.reason {
            Some(reason) => write!(formatter, ": {reason}"),
            None => Ok(()),
        }
    }
}
