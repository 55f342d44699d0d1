//! Commands that the kernel confines to their project.
//!
//! A new thread restricts itself by Landlock rules and a seccomp filter and then starts the command, which inherits
//! both. The rest of the process stays unrestricted. So there is no code between fork and exec, no helper program and
//! no `unsafe`. The result is a list of [`Guard`]s; a guard that this system cannot enforce is reported, never assumed.
//!
//! Reading is mostly unrestricted: a command sees every file that its user sees, and has no network to send it through.
//! It opens no device but a few harmless ones, so no terminal, and no private file: a lock on a database, for which
//! opening it is enough, would stop every other process.
//!
//! Systems other than Linux confine nothing; see `unconfined.rs`.

mod carve;
mod confinement;
#[cfg(target_os = "linux")]
mod filter;
mod links;
#[cfg(target_os = "linux")]
mod linux;
mod mounts;
mod search_paths;
mod temporary;
#[cfg(not(target_os = "linux"))]
mod unconfined;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use unconfined as system;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Once, PoisonError};

use crate::config::{Grants, SandboxConfig, SandboxMode};
use crate::files::require_no_links;
use crate::process::{Ending, ProcessGroup, SessionStarter, withhold_descriptors};
pub use confinement::{Confinement, Guard};
use links::resolve;
use mounts::Mounts;
pub use search_paths::restrict_search_paths;
use search_paths::{keep_outside, require_program_outside};
use temporary::TemporaryDirectory;

/// File systems of the kernel, which a grant of a directory above them does not open for writing.
const OF_KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Starts commands that are confined as configured.
///
/// Sandboxes that are derived from each other share what was found out about the system, and nothing is shared
/// otherwise: a process can have any number of them, for different projects.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use plimsoll_sandbox::{Sandbox, SandboxConfig};
///
/// let project = std::env::temp_dir().canonicalize()?;
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
    /// The settings of commands, if this sandbox is for a program with grants.
    less: Option<SandboxConfig>,
    /// Created for the first command and removed with the sandbox, so that commands find files of earlier ones there.
    temporary: Mutex<Option<Arc<TemporaryDirectory>>>,
}

/// Properties of this system, and what is done once for all sandboxes that share it.
struct System {
    support: system::Support,
    sessions: SessionStarter,
    /// Removal of temporary directories of killed processes.
    sweep: Once,
}

impl Sandbox {
    /// Creates a sandbox, and tries what this system can enforce. That takes a thread and some system calls; derive
    /// further sandboxes by [`with_config`](Sandbox::with_config) or [`granting`](Sandbox::granting).
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
        Sandbox { config, confinement, system, less: None, temporary: Mutex::default() }
    }

    /// Returns a sandbox on the same system with other settings and its own temporary directory.
    pub fn with_config(&self, config: SandboxConfig) -> Sandbox {
        Sandbox::on(Arc::clone(&self.system), config)
    }

    /// Returns a sandbox for one program: this one, extended by the program's grants.
    ///
    /// A program with grants is not looked up in directories that commands of this sandbox can write to, and its search
    /// paths (`PATH`, `LD_LIBRARY_PATH` and others) do not contain them.
    pub fn granting(&self, grants: &Grants) -> Sandbox {
        let has_more =
            !grants.is_empty() && self.config.mode != SandboxMode::Off && self.confinement.is_confined();
        let less = has_more.then(|| self.config.clone());
        Sandbox { less, ..self.with_config(self.config.granting(grants)) }
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

    /// Returns whether a closed path lies in a directory or contains it, so that commands reach only parts of the
    /// directory.
    pub fn closes_parts_of(&self, directory: &Path) -> bool {
        carve::is_carved(directory, &self.config.closed)
    }

    /// Returns a command that will run in this directory, in a new session. `path` is the `PATH` that it will have.
    pub fn command(&self, program: &str, directory: &Path, path: Option<&OsStr>) -> io::Result<Command> {
        self.system.sessions.command(program, directory, path)
    }

    /// Starts a command that was built by [`command`](Sandbox::command) and may write in this project, which is named
    /// by its canonical path. Its `TMPDIR` is set if it is confined.
    pub fn spawn(&self, command: &mut Command, project: &Path) -> io::Result<ProcessGroup> {
        if let Some(refusal) = self.refusal() {
            return Err(io::Error::other(refusal));
        }
        if let Some(less) = &self.less {
            let writable = writable_roots(project, &less.write, &Mounts::read());
            require_program_outside(command, self.system.sessions.program_of(command), &writable)?;
            keep_outside(command, &writable);
        }
        let ending = Ending::mark(command);
        if self.config.mode == SandboxMode::Off || !self.confinement.is_confined() {
            withhold_descriptors();
            return Ok(ProcessGroup::new(command.spawn()?, ending));
        }
        let temporary = self.temporary(project)?;
        command.env("TMPDIR", temporary.path());
        let rules = self.rules(project, temporary.handle())?;
        withhold_descriptors();
        let (child, reaper) = system::spawn(command, &rules, &self.system.support)?;
        Ok(ProcessGroup::new(child, ending.with_reaper(reaper)))
    }

    fn rules(&self, project: &Path, temporary: &File) -> io::Result<Rules> {
        // The path was resolved when the session began. A link that has appeared since would open its target.
        require_no_links(project).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot open the project `{}`: {error}", project.display()))
        })?;
        let mounts = Mounts::read();
        // The target of a closed link stays open: a dotfile that is a link into a repository does not close the
        // repository.
        let mut closed: Vec<PathBuf> =
            self.config.closed.iter().flat_map(|place| mounts.paths_of(place)).collect();
        let is_closed = |place: &&PathBuf| self.config.closed.iter().any(|closed| place.starts_with(closed));
        let private: Vec<PathBuf> = self.config.private.iter().filter(is_closed).cloned().collect();
        closed.extend(private_paths(&with_side_files(&private), &mounts));
        let mut write = carve::open_parts(project, &closed, &OF_KERNEL);
        let writable = writable_roots(project, &self.config.write, &mounts);
        for place in &self.config.write {
            let resolved = resolve(&std::path::absolute(place)?, &writable)?.path;
            // A closed path that is itself named is opened; one that merely lies in a named directory stays closed.
            let closed: Vec<PathBuf> =
                closed.iter().filter(|closed| !resolved.starts_with(closed)).cloned().collect();
            write.extend(carve::open_parts(&resolved, &closed, &OF_KERNEL));
        }
        let mut unreadable = private_paths(&with_side_files(&self.config.private), &mounts);
        let devices = mounts.terminals().chain([Path::new("/dev")]);
        unreadable.extend(devices.flat_map(|place| mounts.paths_of(place)));
        let read = carve::open_parts(Path::new("/"), &unreadable, &[]);
        let SandboxConfig { network, unix_sockets, .. } = self.config;
        Ok(Rules { read, write, temporary: Some(temporary.try_clone()?), network, unix_sockets })
    }

    /// Returns the temporary directory. If a command has replaced it, another is created.
    fn temporary(&self, project: &Path) -> io::Result<Arc<TemporaryDirectory>> {
        let mut current = self.temporary.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(directory) = current.as_ref().filter(|directory| directory.is_in_place()) {
            return Ok(Arc::clone(directory));
        }
        self.system.sweep.call_once(temporary::sweep_in_background);
        let created =
            TemporaryDirectory::create(&writable_roots(project, &self.config.write, &Mounts::read()));
        let created = Arc::new(created.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot create a temporary directory: {error}"))
        })?);
        *current = Some(Arc::clone(&created));
        Ok(created)
    }
}

/// Returns the directories that commands may write to, by every known path. A mount may show the project at a second
/// path, and a link in it is the same link there.
fn writable_roots(project: &Path, write: &[PathBuf], mounts: &Mounts) -> Vec<PathBuf> {
    let real = |place: &PathBuf| resolve(place, &[]).ok().map(|resolved| resolved.path);
    let granted = write.iter().flat_map(|place| [Some(place.clone()), real(place)]).flatten();
    let roots: BTreeSet<PathBuf> = [project.to_owned()].into_iter().chain(granted).collect();
    let paths: BTreeSet<PathBuf> = roots.iter().flat_map(|root| mounts.paths_of(root)).collect();
    paths.into_iter().collect()
}

/// Returns every path of private places: that of the configuration, what it leads to, and the links in between, each
/// also through other mounts. They are resolved for each command, because a store may be created after the sandbox.
fn private_paths(places: &[PathBuf], mounts: &Mounts) -> Vec<PathBuf> {
    let mut all = BTreeSet::new();
    for place in places {
        all.insert(place.clone());
        if let Ok(resolved) = resolve(place, &[]) {
            all.extend(resolved.links);
            all.insert(resolved.path);
        }
    }
    let paths: BTreeSet<PathBuf> = all.iter().flat_map(|place| mounts.paths_of(place)).collect();
    paths.into_iter().collect()
}

/// Returns private places with the files that belong to them: SQLite and the store keep journals, locks and copies of a
/// database next to it, under names that begin with its own. They are found for each command, because they come and go.
fn with_side_files(places: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = places.to_vec();
    for place in places {
        // SQLite stores them next to the target of a link, other programs next to the link.
        let real = resolve(place, &[]).ok().map(|resolved| resolved.path);
        for place in [Some(place.clone()), real].into_iter().flatten() {
            all.extend(side_files(&place));
        }
    }
    all
}

fn side_files(place: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (place.parent(), place.file_name()) else { return Vec::new() };
    let name = name.as_encoded_bytes();
    let is_side_file = |other: &OsStr| {
        let other = other.as_encoded_bytes();
        let rest = other.strip_prefix(name).or_else(|| other.strip_prefix(b".")?.strip_prefix(name));
        matches!(rest, Some([b'-' | b'.', ..]))
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| is_side_file(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// Access of one command. Paths contain no links.
#[derive(Default)]
struct Rules {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// The temporary directory.
    temporary: Option<File>,
    network: bool,
    unix_sockets: bool,
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::{Confinement, Sandbox};
    use crate::config::{Grants, SandboxConfig, SandboxMode};

    /// Returns a sandbox on a system that cannot enforce any guard.
    fn powerless(config: SandboxConfig) -> Sandbox {
        let confinement = Confinement::of(&config, |_| false);
        Sandbox { confinement, ..Sandbox::new(config) }
    }

    #[test]
    fn required_confinement_that_is_unavailable_starts_nothing() {
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
