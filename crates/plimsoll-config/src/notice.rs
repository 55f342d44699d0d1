//! Settings that have no effect, and unknown environment variables.

use std::fmt;

use plimsoll_sandbox::Origin;
use serde::Serialize;

/// A setting that has no effect: an unsupported one of OpenCode, or one that its file may not set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Notice {
    /// Key as written in the file, with `*` for names of models; or a directory.
    pub key: String,
    /// Location of the setting.
    pub origin: Origin,
    /// The reason, unless it is obvious.
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

/// An environment variable whose name begins with `PLIMSOLL_` and that Plimsoll does not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnknownVariable {
    /// Name of the variable.
    pub name: String,
    /// The most similar name of a variable that is read.
    pub nearest: Option<String>,
}

impl UnknownVariable {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> String {
        match &self.nearest {
            Some(name) => format!("did you mean `{name}`?"),
            None => "`plimsoll config` lists all fields; `prune.minTokens` is `PLIMSOLL_PRUNE_MIN_TOKENS`"
                .to_owned(),
        }
    }
}

impl fmt::Display for UnknownVariable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unknown environment variable `{}`", self.name)
    }
}
