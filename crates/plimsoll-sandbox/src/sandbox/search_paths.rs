//! Search paths of programs that have more rights than commands.
//!
//! A hook with a grant that is named `notify` must not be the `notify` which a command wrote into a directory of the
//! project that happens to be in `PATH`. The same holds for the programs that it starts, and for libraries and modules
//! that variables of the environment point to.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::links::resolve;
use crate::process::is_program;

/// Variables that hold one path or several, from which programs load code.
const LISTS: [&str; 16] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PERL5LIB",
    "RUBYLIB",
    "GEM_PATH",
    "NODE_PATH",
    "LUA_PATH",
    "CLASSPATH",
    "BASH_ENV",
    "ENV",
    "GIT_EXEC_PATH",
];

/// Removes relative entries, and those in the project that a directory belongs to, from the search paths of a command,
/// such as `PATH`. For programs of the user that are started unconfined in a project where an agent works.
pub fn restrict_search_paths(command: &mut Command, directory: &Path) {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    // The agent may have been started in a directory above.
    let root = directory.ancestors().find(|above| above.join(".git").exists()).unwrap_or(&directory);
    keep_outside(command, &[root.to_owned()]);
}

/// Removes the entries of search paths that are relative or lie in a writable directory from the environment of a
/// command.
pub(super) fn keep_outside(command: &mut Command, writable: &[PathBuf]) {
    for name in LISTS {
        let Some(value) = variable(command, name) else { continue };
        let kept: Vec<&[u8]> =
            value.as_bytes().split(|byte| *byte == b':').filter(|entry| is_kept(entry, writable)).collect();
        if kept.is_empty() && name != "PATH" {
            command.env_remove(name);
        } else {
            command.env(name, OsStr::from_bytes(&kept.join(&b':')));
        }
    }
}

/// Fails if a program without a path is found only in directories that [`keep_outside`] removes. Call it before that
/// function.
pub(super) fn require_program_outside(
    command: &Command,
    program: &OsStr,
    writable: &[PathBuf],
) -> io::Result<()> {
    if program.as_bytes().contains(&b'/') {
        return Ok(());
    }
    let Some(path) = variable(command, "PATH") else { return Ok(()) };
    let entries = path.as_bytes().split(|byte| *byte == b':');
    let is_outside = entries
        .filter(|entry| is_kept(entry, writable))
        .any(|directory| is_program(&Path::new(OsStr::from_bytes(directory)).join(program)));
    if is_outside {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!(
            "`{0}` was not found in the directories of PATH outside of those which commands can change; if it is meant to \
             run from one of these, name it by its path",
            program.display()
        ),
    ))
}

/// Returns the value that a variable will have in the command.
fn variable(command: &Command, name: &str) -> Option<OsString> {
    match command.get_envs().find(|(known, _)| *known == name) {
        Some((_, value)) => value.map(OsStr::to_owned),
        None => std::env::var_os(name),
    }
}

/// File system whose links differ for each process: for a hook, `/proc/self/cwd` is the project.
const PROCESSES: &str = "/proc";

/// Whether an entry stays in a search path. An empty entry is the current directory, which is removed.
fn is_kept(entry: &[u8], writable: &[PathBuf]) -> bool {
    let path = Path::new(OsStr::from_bytes(entry));
    let is_open = |path: &Path| {
        path.starts_with(PROCESSES) || writable.iter().any(|directory| path.starts_with(directory))
    };
    let leads_outside = || {
        resolve(path, &[])
            .is_ok_and(|real| !is_open(&real.path) && !real.links.iter().any(|link| is_open(link)))
    };
    path.is_absolute() && !is_open(path) && leads_outside()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::PathBuf;
    use std::process::Command;

    use super::{keep_outside, variable};

    #[test]
    fn entries_that_commands_can_change_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let project = directory.path().canonicalize().unwrap();
        let link = project.parent().unwrap().join(format!("link-{}", std::process::id()));
        std::os::unix::fs::symlink(&project, &link).unwrap();
        let writable: [PathBuf; 1] = [project.clone()];
        let path = format!(
            "{0}/bin:/usr/bin::.:bin:{1}/bin:/usr/../{2}/x:/proc/self/cwd/bin:/dev/fd/../cwd/bin:/proc/self/root{0}:/bin",
            project.display(),
            link.display(),
            project.strip_prefix("/").unwrap().display()
        );
        let mut command = Command::new("true");
        command.env("PATH", path).env("LD_PRELOAD", project.join("lib.so")).env("PYTHONPATH", "/srv/modules");
        keep_outside(&mut command, &writable);
        std::fs::remove_file(link).unwrap();
        assert_eq!(variable(&command, "PATH").as_deref(), Some(OsStr::new("/usr/bin:/bin")));
        assert_eq!(variable(&command, "LD_PRELOAD"), None);
        assert_eq!(variable(&command, "PYTHONPATH").as_deref(), Some(OsStr::new("/srv/modules")));
    }
}
