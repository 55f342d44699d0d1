//! Commands that the kernel confines to their project.
//!
//! A new thread restricts itself by Landlock rules and a seccomp filter and then starts the command, which inherits both. The rest of
//! the process stays unrestricted. So there is no code between fork and exec, no helper program and no `unsafe`. The result is a list
//! of [`Guard`]s; a guard that this system cannot enforce is reported, never assumed.
//!
//! Reading is mostly unrestricted: a command sees every file that its user sees, and has no network to send it through. It opens no
//! device but a few harmless ones, so no terminal, and no private file: a lock on a database, for which opening it is enough, would
//! stop every other process.
//!
//! Systems other than Linux confine nothing; see `unconfined.rs`.

mod carve;
mod confinement;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod linux;
mod mounts;
mod temporary;
#[cfg(not(target_os = "linux"))]
mod unconfined;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use unconfined as system;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Once, OnceLock};

use crate::config::{Grants, SandboxConfig, SandboxMode};
use crate::process::{Ending, ProcessGroup, SessionStarter, withhold_descriptors};
pub use confinement::{Confinement, Guard};
use mounts::Mounts;
use temporary::TemporaryFolder;

/// File systems of the kernel, which a grant of a directory above them does not open for writing.
const OF_KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Starts commands that are confined as configured.
///
/// Sandboxes that are derived from each other share what was found out about the system, and nothing is shared otherwise: a process
/// can have any number of them, for different projects.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use plimsoll_sandbox::{Sandbox, SandboxConfig};
///
/// let project = std::env::temp_dir();
/// let sandbox = Sandbox::new(SandboxConfig::default());
/// let mut command = sandbox.command("sh", &project, std::env::var_os("PATH").as_deref())?;
/// command.args(["-c", "exit 3"]);
/// let mut group = sandbox.spawn(&mut command, &project)?;
/// group.waiter().wait();
/// assert_eq!(group.end().and_then(|status| status.code()), Some(3));
/// # Ok(())
/// # }
/// ```
pub struct Sandbox {
    config: SandboxConfig,
    confinement: Confinement,
    system: Arc<System>,
    /// Created for the first command and removed with the sandbox, so that commands find files of earlier ones there.
    temporary: OnceLock<Option<TemporaryFolder>>,
}

/// Properties of this system, and what is done once for all sandboxes that share it.
struct System {
    support: system::Support,
    sessions: SessionStarter,
    /// Removal of temporary directories of killed processes.
    sweep: Once,
}

impl Sandbox {
    /// Creates a sandbox, and tries what this system can enforce. That takes a thread and some system calls; derive further
    /// sandboxes by [`with_config`](Sandbox::with_config) or [`granting`](Sandbox::granting).
    pub fn new(config: SandboxConfig) -> Sandbox {
        let system = System {
            support: system::Support::detect(),
            sessions: SessionStarter::detect(),
            sweep: Once::new(),
        };
        Sandbox::on(Arc::new(system), config)
    }

    fn on(system: Arc<System>, config: SandboxConfig) -> Sandbox {
        let confinement = Confinement::of(&config, |guard| match guard {
            Guard::Terminal => system.sessions.has_sessions(),
            guard => system.support.holds(guard),
        });
        Sandbox { config, confinement, system, temporary: OnceLock::new() }
    }

    /// Returns a sandbox on the same system with other settings and its own temporary directory.
    pub fn with_config(&self, config: SandboxConfig) -> Sandbox {
        Sandbox::on(Arc::clone(&self.system), config)
    }

    /// Returns a sandbox for one program: this one, extended by the program's grants.
    pub fn granting(&self, grants: &Grants) -> Sandbox {
        self.with_config(self.config.granting(grants))
    }

    /// Returns the settings.
    pub fn config(&self) -> &SandboxConfig {
        &self.config
    }

    /// Returns the guards that apply to commands.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Returns why no command may run at all, if so.
    pub fn refusal(&self) -> Option<String> {
        let is_refused = self.config.mode == SandboxMode::Require && !self.confinement.suffices();
        is_refused.then(|| {
            let gaps: Vec<&str> = self.confinement.missing.iter().map(|guard| guard.gap()).collect();
            format!(
                "commands must be confined (`sandbox.mode` is `require`), and this system cannot hold: {}",
                gaps.join(", ")
            )
        })
    }

    /// Returns whether a closed path lies in a directory or contains it, so that commands reach only parts of the directory.
    pub fn closes_parts_of(&self, directory: &Path) -> bool {
        carve::is_carved(directory, &self.config.closed)
    }

    /// Returns a command that will run in this directory, in a new session. `path` is the `PATH` that it will have.
    pub fn command(&self, program: &str, directory: &Path, path: Option<&OsStr>) -> io::Result<Command> {
        self.system.sessions.command(program, directory, path)
    }

    /// Starts a command that was built by [`command`](Sandbox::command) and may write in this project. Its `TMPDIR` is set if it is
    /// confined.
    pub fn spawn(&self, command: &mut Command, project: &Path) -> io::Result<ProcessGroup> {
        if let Some(refusal) = self.refusal() {
            return Err(io::Error::other(refusal));
        }
        let ending = Ending::mark(command);
        if self.config.mode == SandboxMode::Off || !self.confinement.is_confined() {
            withhold_descriptors();
            return Ok(ProcessGroup::new(command.spawn()?, ending));
        }
        let mounts = Mounts::read();
        let closed: Vec<PathBuf> =
            self.config.closed.iter().flat_map(|place| mounts.paths_of(place)).collect();
        let mut write = carve::open_parts(project, &closed, &OF_KERNEL);
        if let Some(folder) = self.temporary()? {
            command.env("TMPDIR", folder);
            write.push(folder.to_owned());
        }
        for place in &self.config.write {
            // A closed path that is itself named is opened; one that merely lies in a named directory stays closed.
            let place = place.canonicalize().unwrap_or_else(|_| place.clone());
            let closed: Vec<PathBuf> =
                closed.iter().filter(|closed| !place.starts_with(closed)).cloned().collect();
            write.extend(carve::open_parts(&place, &closed, &OF_KERNEL));
        }
        let read = carve::open_parts(Path::new("/"), &self.unreadable(&mounts), &[]);
        let SandboxConfig { network, unix_sockets, .. } = self.config;
        withhold_descriptors();
        let rules = Rules { read, write, network, unix_sockets };
        let (child, reaper) = system::spawn(command, &rules, &self.system.support)?;
        Ok(ProcessGroup::new(child, ending.with_reaper(reaper)))
    }

    /// Returns the paths that commands cannot read, unless the configuration opens one of them for writing.
    fn unreadable(&self, mounts: &Mounts) -> Vec<PathBuf> {
        let private = self.config.private.iter().map(PathBuf::as_path);
        let closed = private.chain(mounts.terminals()).chain([Path::new("/dev")]);
        closed.flat_map(|place| mounts.paths_of(place)).collect()
    }

    fn temporary(&self) -> io::Result<Option<&Path>> {
        let made = self.temporary.get_or_init(|| {
            self.system.sweep.call_once(temporary::sweep_in_background);
            TemporaryFolder::make().ok()
        });
        match made {
            Some(folder) => Ok(Some(folder.path())),
            None => Err(io::Error::other("no temporary directory can be made")),
        }
    }
}

/// Access of one command.
struct Rules {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    network: bool,
    unix_sockets: bool,
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::{Confinement, Sandbox};
    use crate::config::{Grants, SandboxConfig, SandboxMode};

    /// A sandbox on a system that can hold nothing.
    fn powerless(config: SandboxConfig) -> Sandbox {
        let confinement = Confinement::of(&config, |_| false);
        Sandbox { confinement, ..Sandbox::new(config) }
    }

    #[test]
    fn what_must_be_confined_is_not_started_where_nothing_can_be_held() {
        let require = SandboxConfig::default().mode(SandboxMode::Require);
        let network = Grants::default().network(true);
        for config in [require.clone(), require.granting(&network)] {
            let refused = powerless(config).spawn(&mut Command::new("true"), Path::new("/")).err().unwrap();
            assert!(refused.to_string().contains("commands must be confined"), "{refused}");
        }
        // The user has said of this one program that it need not be.
        let unconfined = Grants::default().unconfined(true);
        for config in [SandboxConfig::default(), require.granting(&unconfined)] {
            let sandbox = powerless(config);
            let mut started = sandbox.spawn(&mut Command::new("true"), Path::new("/")).unwrap();
            assert!(started.end().is_some());
        }
    }
}
