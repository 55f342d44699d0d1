//! Words for a shell, in suggested commands.

use std::path::Path;

use plimsoll_config::{Environment, shell_quoted};

use crate::error::escaped;

/// Quotes a path for a shell, if it has to be.
pub fn quoted(path: &Path) -> String {
    shell_quoted(&path.to_string_lossy())
}

/// A path that can be pasted into a shell, with `~` for the home if that needs no quotes.
pub fn shell_word(path: &Path, env: &Environment) -> String {
    let short = env.short(path);
    let rest = short.strip_prefix('~').unwrap_or(&short);
    if shell_quoted(rest) == rest || rest.is_empty() {
        return short;
    }
    // A path with a line break cannot be pasted, and must not look like two lines.
    escaped(&quoted(path))
}
