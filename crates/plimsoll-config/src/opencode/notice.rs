//! Reasons for OpenCode's settings that are not read.

use std::path::Path;

use plimsoll_sandbox::Origin;

use crate::notice::Notice;
use crate::run::OPENCODE_EVENTS;

impl Notice {
    pub(crate) fn directory(directory: &Path) -> Notice {
        Notice {
            key: directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            origin: Origin::File { path: directory.to_owned(), line: None },
            reason: Some(match directory.file_name().and_then(|name| name.to_str()) {
                Some("plugin" | "plugins") => plugin_reason(),
                _ => "files in this directory are not read".to_owned(),
            }),
        }
    }

    pub(crate) fn variable(name: &str) -> Notice {
        let origin = Origin::Variable(name.to_owned());
        Notice { key: name.to_owned(), origin, reason: Some("this variable is not read".to_owned()) }
    }
}

/// Returns why plugins have no effect, and how to set a hook instead.
pub(crate) fn plugin_reason() -> String {
    format!(
        "plugins are not run; a command in `[[hooks]]` of `plimsoll.toml` can handle {}",
        OPENCODE_EVENTS.map(|name| format!("`{name}`")).join(", ")
    )
}
