//! Quoting of paths in suggested shell commands.

use std::path::Path;

use plimsoll_config::Environment;

use crate::error::escaped;

/// Quotes a path for a shell, if necessary.
pub fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    // Quoting fails only for a NUL byte, which no argument can contain.
    shlex::try_quote(&text).map_or_else(|_| escaped(&text), |word| word.into_owned())
}

/// Formats a path that can be pasted into a shell, with `~` for the home directory if that needs no quotes.
pub fn shell_word(path: &Path, env: &Environment) -> String {
    let short = env.short(path);
    let rest = short.strip_prefix('~').unwrap_or(&short);
    if shlex::try_quote(rest).is_ok_and(|word| word == rest) || rest.is_empty() {
        return short;
    }
    // Escaped: such a path cannot be pasted anyway, and must not look like two lines of output.
    escaped(&quoted(path))
}
