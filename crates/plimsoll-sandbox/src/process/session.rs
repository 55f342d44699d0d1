//! Commands that run in a new session.
//!
//! A process of this program's session could open its terminal by `/dev/tty`, draw a false question on it or disable
//! Ctrl-C. Only the process itself can enter a new session, between fork and exec, where the standard library runs
//! nothing without `unsafe`. So the `setsid` program does it and then becomes the command, with the same process ID.
//! Without that program a command gets a new process group and keeps the terminal, which
//! [`Guard::Terminal`](crate::Guard::Terminal) reports as missing.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;

use super::programs::{is_program, system_program};

/// Builds commands that begin a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionStarter {
    setsid: Option<PathBuf>,
}

impl SessionStarter {
    /// Looks for the `setsid` program of the system.
    pub(crate) fn detect() -> SessionStarter {
        SessionStarter { setsid: system_program("setsid") }
    }

    /// Returns whether commands get a new session, and so no terminal.
    pub(crate) fn has_sessions(&self) -> bool {
        self.setsid.is_some()
    }

    /// Returns the program that a command of [`command`](SessionStarter::command) becomes.
    pub(crate) fn program_of<'a>(&self, command: &'a Command) -> &'a OsStr {
        let program = command.get_program();
        match (&self.setsid, command.get_args().next()) {
            (Some(setsid), Some(first)) if program == setsid => first,
            _ => program,
        }
    }

    /// Returns a command that will run in this directory. `path` is the `PATH` that it will have.
    pub(crate) fn command(
        &self,
        program: &str,
        directory: &Path,
        path: Option<&OsStr>,
    ) -> io::Result<Command> {
        let Some(setsid) = &self.setsid else {
            let mut command = Command::new(program);
            command.process_group(0).current_dir(directory);
            return Ok(command);
        };
        // Checked here: `setsid` would report a missing program as output of the command.
        require_program(program, directory, path)?;
        let mut command = Command::new(setsid);
        // No process group: its leader cannot begin a session, and `setsid` would fork to do it.
        command.arg(program).current_dir(directory);
        Ok(command)
    }
}

fn require_program(program: &str, directory: &Path, path: Option<&OsStr>) -> io::Result<()> {
    let places: Vec<PathBuf> = match (program.contains('/'), path) {
        (true, _) => vec![directory.join(program)],
        (false, Some(path)) => {
            std::env::split_paths(path).map(|entry| directory.join(entry).join(program)).collect()
        }
        // The system has a default `PATH` for this case.
        (false, None) => return Ok(()),
    };
    if places.iter().any(|place| is_program(place)) {
        return Ok(());
    }
    let is_there = places.iter().any(|place| place.exists());
    Err(if is_there { Errno::ACCESS } else { Errno::NOENT }.into())
}

/// First descriptor after standard input, output and error.
const FIRST_OTHER: i32 = 3;

/// Keeps the next command from inheriting descriptors that this process was itself given: the file of a redirection, a
/// connection, the pipe of `make`'s job server. A command that is confined to its project could write through them to
/// anywhere.
///
/// Called before every start, because a library of the host may open one at any time. The standard library closes what
/// the host opens on exec, and puts the pipes of a child on its first three descriptors after this. `close_fds` is used
/// because a number cannot become a descriptor without `unsafe`.
pub(crate) fn withhold_descriptors() {
    close_fds::set_fds_cloexec_threadsafe(FIRST_OTHER, &[]);
}

#[cfg(test)]
impl SessionStarter {
    /// As on a system without the `setsid` program.
    pub(crate) fn without_setsid() -> SessionStarter {
        SessionStarter { setsid: None }
    }
}
