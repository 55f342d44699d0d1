//! Programs that are started outside the sandbox of commands.
//!
//! Such programs are never looked up in `PATH`: an active virtual environment or an entry such as `node_modules/.bin`
//! puts directories of the project there, and a command may write a program named `bash` into them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Directories of the system's own programs. The last three are those of NixOS, Guix and Nix in a container.
const SYSTEM_DIRECTORIES: [&str; 5] = [
    "/usr/bin",
    "/bin",
    "/run/current-system/sw/bin",
    "/run/current-system/profile/bin",
    "/nix/var/nix/profiles/default/bin",
];

/// Returns the path of a program of the system.
pub(crate) fn system_program(name: &str) -> Option<PathBuf> {
    SYSTEM_DIRECTORIES.iter().map(|directory| Path::new(directory).join(name)).find(|path| is_program(path))
}

pub(crate) fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
