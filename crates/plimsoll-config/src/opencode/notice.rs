//! What is read and has no effect here.

use std::fmt;
use std::path::Path;

use plimsoll_sandbox::Origin;
use serde::Serialize;

use crate::run::OPENCODE_EVENTS;

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

impl Notice {
    pub(crate) fn folder(folder: &Path) -> Notice {
        Notice {
            key: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            origin: Origin::File { path: folder.to_owned(), line: None },
            reason: Some(match folder.file_name().and_then(|name| name.to_str()) {
                Some("plugin" | "plugins") => plugin_reason(),
                _ => "files in this folder are not read".to_owned(),
            }),
        }
    }

    pub(crate) fn variable(name: &str) -> Notice {
        let origin = Origin::Variable(name.to_owned());
        Notice { key: name.to_owned(), origin, reason: Some("this variable is not read".to_owned()) }
    }
}

/// Why plugins have no effect, and where a hook of one can be set instead.
pub(crate) fn plugin_reason() -> String {
    format!(
        "plugins are not run; a command in `[[hooks]]` of `plimsoll.toml` can handle {}",
        OPENCODE_EVENTS.map(|name| format!("`{name}`")).join(", ")
    )
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
