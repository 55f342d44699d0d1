//! Quoting of paths in suggested shell commands.

use std::path::Path;

use plimsoll_config::{Environment, shell_quoted};

use crate::error::escaped;

/// Quotes a path for a shell, if necessary.
pub fn quoted(path: &Path) -> String {
    shell_quoted(&path.to_string_lossy())
}

/// Formats a path that can be pasted into a shell, with `~` for the home directory if that needs no quotes.
pub fn shell_word(path: &Path, env: &Environment) -> String {
    let short = env.short(path);
    let rest = short.strip_prefix('~').unwrap_or(&short);
    if shell_quoted(rest) == rest || rest.is_empty() {
        return short;
    }
    // Escaped: such a path cannot be pasted anyway, and must not look like two lines of output.
    escaped(&quoted(path))
}
