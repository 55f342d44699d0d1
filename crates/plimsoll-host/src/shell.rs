//! Words for a shell, in suggested commands.

use std::path::Path;

use plimsoll_config::Environment;

use crate::error::escaped;

/// Quotes a path for a shell, if it has to be.
pub fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    // A NUL byte cannot be passed to a command at all.
    shlex::try_quote(&text).map_or_else(|_| escaped(&text), |word| word.into_owned())
}

/// A path that can be pasted into a shell, with `~` for the home if that needs no quotes.
pub fn shell_word(path: &Path, env: &Environment) -> String {
    let short = env.short(path);
    let rest = short.strip_prefix('~').unwrap_or(&short);
    if shlex::try_quote(rest).is_ok_and(|word| word == rest) || rest.is_empty() {
        return short;
    }
    // A path with a line break cannot be pasted, and must not look like two lines.
    escaped(&quoted(path))
}
