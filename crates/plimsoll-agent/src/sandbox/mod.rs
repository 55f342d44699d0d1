//! Commands that the kernel holds to their project.
//!
//! A fresh thread puts itself under Landlock rules and a seccomp filter and then starts the command, which inherits both; the
//! rest of the process stays free. So there is no code between fork and exec, no helper program and no `unsafe`. What is held
//! is a list of [`Guard`]s, and what this system cannot hold is told, never assumed.
//!
//! Of reading little is confined: a command sees every file that its user sees, and has no network to send it through. It opens
//! no device but a few harmless ones, so no terminal, and nothing of Plimsoll's store: a lock on the database, for which opening it
//! is enough, would stop every other process.
//!
//! Other systems than Linux confine nothing here; see `unconfined.rs`.

mod carve;
mod confinement;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod linux;
mod mounts;
#[cfg(target_os = "linux")]
mod reaper;
mod stragglers;
mod temporary;
#[cfg(not(target_os = "linux"))]
mod unconfined;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use unconfined as system;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

use plimsoll_config::{SandboxConfig, SandboxMode};

use crate::process::{has_sessions, withhold_descriptors};
pub use confinement::{Confinement, Guard};
use mounts::Mounts;
use stragglers::Marker;
use temporary::TemporaryFolder;

/// File systems of the kernel's own, which a grant of a folder above them does not open for writing.
const OF_KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Starts commands confined.
pub struct Sandbox {
    config: SandboxConfig,
    confinement: Confinement,
    /// Made for the first command, and removed with the sandbox: commands of one conversation find each other's files there.
    temporary: OnceLock<Option<TemporaryFolder>>,
}

impl Sandbox {
    /// A sandbox as it is configured. What the system can hold is tried here, once in a process.
    pub fn new(config: SandboxConfig) -> Sandbox {
        let support = system::Support::of_this_system();
        let confinement = Confinement::of(&config, |guard| match guard {
            Guard::Terminal => has_sessions(),
            guard => support.holds(guard),
        });
        Sandbox { config, confinement, temporary: OnceLock::new() }
    }

    /// What commands are held to.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Why no command may run at all.
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

    /// What a person should know of commands in a project in which something of their own lies that stays closed.
    pub(crate) fn closed_notice(&self, directory: &Path) -> Option<String> {
        let closed = &self.config.closed;
        if !carve::is_carved(directory, closed) {
            return None;
        }
        let within: Vec<&PathBuf> = closed.iter().filter(|place| place.starts_with(directory)).collect();
        let held = match (self.confinement.holds(Guard::Writes), within.is_empty()) {
            (false, _) => {
                "changes of them by `write` and `edit` are asked about, but commands can change them"
                    .to_owned()
            }
            (true, true) => "commands can write nothing there".to_owned(),
            (true, false) => {
                "commands do not reach them, and so cannot make new files in the folders that lead to them"
                    .to_owned()
            }
        };
        Some(format!(
            "`{}` holds files of your own, such as plimsoll's configuration and sessions or what your shell runs when it \
             starts: {held}; work in a folder of its own to have neither",
            directory.display()
        ))
    }

    /// What a model is told of it, where something in the project stays closed.
    pub(crate) fn closed_words_for_model(&self, directory: &Path) -> Option<&'static str> {
        let is_told =
            self.confinement.holds(Guard::Writes) && carve::is_carved(directory, &self.config.closed);
        is_told.then_some(
            " In this project commands cannot make new files or folders at the top, only in folders that are there already, \
             and files of the user's own settings are closed to them.",
        )
    }

    /// What a model is told about it.
    pub(crate) fn words_for_model(&self) -> String {
        let mut words = String::new();
        if self.confinement.holds(Guard::Writes) {
            words.push_str(
                " Commands are confined: writing works in the project's directory and in $TMPDIR and fails elsewhere \
                 with \"Permission denied\"",
            );
            if !self.config.write.is_empty() {
                let more: Vec<String> =
                    self.config.write.iter().map(|path| path.display().to_string()).collect();
                words.push_str(&format!(", but for {}", more.join(", ")));
            }
            words.push('.');
        }
        match (self.confinement.holds(Guard::Network), self.confinement.holds(Guard::UnixSockets)) {
            (true, true) => words.push_str(" There is no network, not even to this machine."),
            (true, false) => words.push_str(" There is no network."),
            (false, _) => {}
        }
        if !words.is_empty() {
            words.push_str(" Do not work around this; tell the user what you would need.");
        }
        words
    }

    /// What to add to the failure of a hook or a server: that it ran confined, and what opens more. `place` says where the
    /// settings stand.
    pub(crate) fn failure_hint(&self, place: &str) -> Option<String> {
        let settings = [
            (Guard::Network, "`network = true`"),
            (Guard::UnixSockets, "`unix_sockets = true`"),
            (Guard::Writes, "`write = [\"PATH\"]`"),
        ];
        let held = settings.into_iter().filter(|(guard, _)| self.confinement.holds(*guard));
        let settings = held.map(|(_, setting)| setting).collect::<Vec<_>>().join(", ");
        let settings = match settings.rsplit_once(", ") {
            Some((first, last)) => format!("{first} or {last}"),
            None if settings.is_empty() => return None,
            None => settings,
        };
        Some(format!(" (confined to the project: {settings} {place} grants more)"))
    }

    /// Start a command that works in this directory.
    pub(crate) fn spawn(&self, command: &mut Command, directory: &Path) -> io::Result<ConfinedChild> {
        if let Some(refusal) = self.refusal() {
            return Err(io::Error::other(refusal));
        }
        if self.config.mode == SandboxMode::Off || !self.confinement.is_confined() {
            return spawn_marked(command);
        }
        let marker = Marker::new();
        marker.put_on(command);
        let mounts = Mounts::read();
        let closed: Vec<PathBuf> =
            self.config.closed.iter().flat_map(|place| mounts.paths_of(place)).collect();
        let mut write = carve::open_parts(directory, &closed, &OF_KERNEL);
        if let Some(folder) = self.temporary()? {
            command.env("TMPDIR", folder);
            write.push(folder.to_owned());
        }
        for place in &self.config.write {
            // What is named itself is meant; what merely lies in a named folder stays closed.
            let place = place.canonicalize().unwrap_or_else(|_| place.clone());
            let closed: Vec<PathBuf> =
                closed.iter().filter(|closed| !place.starts_with(closed)).cloned().collect();
            write.extend(carve::open_parts(&place, &closed, &OF_KERNEL));
        }
        let read = carve::open_parts(Path::new("/"), &self.unreadable(&mounts), &[]);
        let SandboxConfig { network, unix_sockets, .. } = self.config;
        withhold_descriptors();
        let (child, reaper) = system::spawn(command, &Rules { read, write, network, unix_sockets })?;
        Ok(ConfinedChild { child, ending: Ending { reaper, marker } })
    }

    /// Places that commands read nothing of, unless the configuration opens one of them for writing.
    fn unreadable(&self, mounts: &Mounts) -> Vec<PathBuf> {
        let private = self.config.private.iter().map(PathBuf::as_path);
        let closed = private.chain(mounts.terminals()).chain([Path::new("/dev")]);
        closed.flat_map(|place| mounts.paths_of(place)).collect()
    }

    fn temporary(&self) -> io::Result<Option<&Path>> {
        let made = self.temporary.get_or_init(|| TemporaryFolder::make().ok());
        match made {
            Some(folder) => Ok(Some(folder.path())),
            None => Err(io::Error::other("no temporary directory can be made")),
        }
    }
}

/// What one command is held to.
struct Rules {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    network: bool,
    unix_sockets: bool,
}

/// Start a command that is held to nothing, and whose processes are found by their mark when it ends.
pub(crate) fn spawn_marked(command: &mut Command) -> io::Result<ConfinedChild> {
    let marker = Marker::new();
    marker.put_on(command);
    withhold_descriptors();
    let child = command.spawn()?;
    Ok(ConfinedChild { child, ending: Ending { reaper: None, marker } })
}

/// A command that was started, and how everything that it starts is ended.
pub(crate) struct ConfinedChild {
    pub(crate) child: Child,
    pub(crate) ending: Ending,
}

/// Ends everything that a command has started.
pub(crate) struct Ending {
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    reaper: Option<system::Reaper>,
    marker: Marker,
}

impl Ending {
    /// End whatever is left of the command outside its process group.
    pub(crate) fn end(&mut self) {
        let is_done = self.reaper.take().is_some_and(system::Reaper::end);
        if !is_done {
            self.marker.end_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::sync::OnceLock;

    use plimsoll_config::{Grants, SandboxConfig, SandboxMode};

    use super::{Confinement, Sandbox};

    /// A sandbox on a system that can hold nothing.
    fn powerless(config: SandboxConfig) -> Sandbox {
        let confinement = Confinement::of(&config, |_| false);
        Sandbox { config, confinement, temporary: OnceLock::new() }
    }

    #[test]
    fn what_must_be_confined_is_not_started_where_nothing_can_be_held() {
        let require = SandboxConfig { mode: SandboxMode::Require, ..SandboxConfig::default() };
        let network = Grants { network: true, ..Grants::default() };
        for config in [require.clone(), require.granting(&network)] {
            let refused = powerless(config).spawn(&mut Command::new("true"), Path::new("/")).err().unwrap();
            assert!(refused.to_string().contains("commands must be confined"), "{refused}");
        }
        // The user has said of this one hook or server that it need not be.
        let unconfined = Grants { unconfined: true, ..Grants::default() };
        for config in [SandboxConfig::default(), require.granting(&unconfined)] {
            let sandbox = powerless(config);
            assert_eq!(sandbox.failure_hint("here"), None);
            let started = sandbox.spawn(&mut Command::new("true"), Path::new("/")).unwrap();
            assert!(crate::process::ProcessGroup::from(started).end().is_some());
        }
    }
}
