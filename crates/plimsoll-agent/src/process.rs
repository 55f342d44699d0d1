//! Processes that the agent starts: commands, servers and hooks. Each has a session of its own, without a terminal, and ends
//! with everything it has started.
//!
//! A process of this program's session could open the terminal by `/dev/tty`, draw a false question on it or switch Ctrl-C
//! off. Entering a new session is for the process itself to do, between fork and exec, where the standard library runs
//! nothing without `unsafe`; so the `setsid` program does it and becomes the command, with the same number. Where there is
//! none, a process has a group of its own and keeps the terminal, which [`Guard::Terminal`](crate::Guard::Terminal) tells.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use plimsoll_config::ProviderKeys;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::sandbox::{ConfinedChild, Ending};

/// How often a process is looked after that is expected to end.
const TICK: Duration = Duration::from_millis(10);
/// Where `setsid` is looked for before `PATH`.
const USUAL: [&str; 2] = ["/usr/bin/setsid", "/bin/setsid"];

/// A command that will run in a session of its own, in this directory. `path` is the `PATH` that it will have.
pub(crate) fn session_command(program: &str, directory: &Path, path: Option<&OsStr>) -> io::Result<Command> {
    command_through(setsid(), program, directory, path)
}

/// Whether what is started has a session of its own on this system, and so no terminal.
pub(crate) fn has_sessions() -> bool {
    setsid().is_some()
}

fn command_through(
    setsid: Option<&Path>,
    program: &str,
    directory: &Path,
    path: Option<&OsStr>,
) -> io::Result<Command> {
    let Some(setsid) = setsid else {
        let mut command = Command::new(program);
        command.process_group(0).current_dir(directory);
        return Ok(command);
    };
    // What `setsid` says of a program that is not there would be taken for the program's own words.
    require_program(program, directory, path)?;
    let mut command = Command::new(setsid);
    // Not a group of its own: the leader of a group cannot begin a session, and `setsid` would fork to do it.
    command.arg(program).current_dir(directory);
    Ok(command)
}

fn setsid() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| find_setsid(&USUAL, &std::env::var_os("PATH").unwrap_or_default())).as_deref()
}

fn find_setsid(usual: &[&str], path: &OsStr) -> Option<PathBuf> {
    let others = std::env::split_paths(path).map(|folder| folder.join("setsid"));
    // A relative entry of `PATH` would be looked up in the project.
    let others = others.filter(|path| path.is_absolute());
    usual.iter().map(PathBuf::from).chain(others).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn require_program(program: &str, directory: &Path, path: Option<&OsStr>) -> io::Result<()> {
    let places: Vec<PathBuf> = match (program.contains('/'), path) {
        (true, _) => vec![directory.join(program)],
        (false, Some(path)) => {
            std::env::split_paths(path).map(|folder| directory.join(folder).join(program)).collect()
        }
        // The system has a `PATH` of its own for this case.
        (false, None) => return Ok(()),
    };
    if places.iter().any(|place| is_program(place)) {
        return Ok(());
    }
    let is_there = places.iter().any(|place| place.exists());
    Err(if is_there { Errno::ACCESS } else { Errno::NOENT }.into())
}

/// The first descriptor behind standard input, output and error.
const FIRST_OTHER: i32 = 3;

/// Keep what is started next from inheriting descriptors that this process itself was given: the file of a redirection, a
/// connection, the pipe of `make`'s job server. A command that is held to its project could write through them to anywhere.
///
/// Before every start, and not once: a library of the host may open one at any time. What the host itself opens is closed on
/// exec by the standard library anyway, and the pipes of a child are put on its first three descriptors after this. The crate
/// is there because a number cannot be made a descriptor without `unsafe`.
pub(crate) fn withhold_descriptors() {
    close_fds::set_fds_cloexec_threadsafe(FIRST_OTHER, &[]);
}

/// A process with all it has started.
pub(crate) struct ProcessGroup {
    child: Child,
    ending: Ending,
    status: Option<ExitStatus>,
    is_over: bool,
}

impl From<ConfinedChild> for ProcessGroup {
    fn from(ConfinedChild { child, ending }: ConfinedChild) -> ProcessGroup {
        ProcessGroup { child, ending, status: None, is_over: false }
    }
}

impl ProcessGroup {
    /// The process itself, for its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether the process has ended. It is not waited for yet: as long as it is not, its number belongs to no other
    /// process, and its group can be ended safely.
    pub(crate) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let found = self.pid().map(|pid| waitid(WaitId::Pid(pid), options));
        self.is_over || !matches!(found, Some(Ok(None)))
    }

    /// Wait until the process has ended by itself, but not for longer than `most`.
    pub(crate) async fn wait(&self, most: Duration) {
        let until = Instant::now() + most;
        while !self.has_ended() && Instant::now() < until {
            tokio::time::sleep(TICK).await;
        }
    }

    /// Whether everything was ended by [`end`](ProcessGroup::end).
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// End the process with everything it has started, and say how it has ended itself.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        if !self.is_over {
            self.is_over = true;
            // The process was not waited for yet, so its number belongs to no other, nor does that of its group.
            if let Some(pid) = self.pid() {
                // What is gone already is what is wanted. One that has just begun may have no group of its own yet.
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = kill_process(pid, Signal::KILL);
            }
            self.ending.end();
            self.status = self.child.wait().ok();
        }
        self.status
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Keys of model providers, which are no business of what is run beside the model.
const KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"];

/// Keep the variables of this process that hold a key of a model provider from a command.
pub(crate) fn remove_keys(command: &mut Command, keys: &ProviderKeys) {
    let found = std::env::vars_os().filter(|(name, value)| keys.are_in(name, value)).map(|(name, _)| name);
    for name in found.chain(KEYS.map(OsString::from)) {
        command.env_remove(name);
    }
}

/// Variables that programs need to find their files, speak the user's language and reach the network.
const NEEDED: [&str; 33] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "NVM_DIR",
    "VOLTA_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
];

/// The part of this process's environment that a program of another party is given. The rest may hold keys: of model
/// providers, of clouds, of the user's other tools.
pub(crate) fn needed_environment() -> impl Iterator<Item = (&'static str, OsString)> {
    let found = NEEDED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    // A proxy's address may have a password in it.
    found.filter(|(name, value)| {
        !name.to_ascii_lowercase().ends_with("_proxy") || !value.as_encoded_bytes().contains(&b'@')
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use rustix::process::getpgid;

    use super::{ProcessGroup, command_through, find_setsid, setsid};
    use crate::sandbox::spawn_marked;

    /// The number of a process's session, as the kernel prints it. In a container the session may have begun outside, which
    /// the kernel tells as 0 and `getsid` of rustix takes for a broken kernel.
    #[cfg(target_os = "linux")]
    fn session(pid: rustix::process::Pid) -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(3).unwrap().parse().unwrap()
    }

    #[test]
    fn without_the_program_that_begins_sessions_there_is_a_group_of_its_own() {
        assert_eq!(find_setsid(&[], OsStr::new("")), None);
        assert_eq!(find_setsid(&["/none/setsid"], OsStr::new("bin:/none:.")), None);
        let mut command = command_through(None, "sleep", Path::new("/"), None).unwrap();
        let mut group = ProcessGroup::from(spawn_marked(command.arg("1000")).unwrap());
        let pid = group.pid().unwrap();
        assert_eq!(getpgid(Some(pid)).unwrap(), pid);
        #[cfg(target_os = "linux")]
        assert_eq!(session(pid), session(rustix::process::getpid()));
        assert!(!group.has_ended());
        assert!(group.end().is_some_and(|status| !status.success()));
    }

    /// A call ends its group and then sweeps for what left it. The sweep would end the group's processes too, so they are
    /// tried here with one that it does not find, because it has cleared its environment.
    #[test]
    fn all_processes_of_a_group_end_with_it() {
        for setsid in [None, setsid()] {
            let mut command = command_through(setsid, "sh", Path::new("/"), None).unwrap();
            command
                .args(["-c", "env -i /bin/sh -c 'echo $$; exec /bin/sleep 1000' & wait"])
                .stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::null());
            let mut group = ProcessGroup::from(spawn_marked(&mut command).unwrap());
            let mut line = String::new();
            let out = group.child().stdout.take().unwrap();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
            let sleeper = rustix::process::Pid::from_raw(line.trim().parse().unwrap()).unwrap();
            assert!(rustix::process::test_kill_process(sleeper).is_ok());
            group.end();
            let is_gone = (0..500).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                is_over(sleeper)
            });
            assert!(is_gone, "{setsid:?}");
        }
    }

    /// Whether a process has ended, also one that nothing has waited for: what adopts orphans may be slow.
    fn is_over(pid: rustix::process::Pid) -> bool {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        rustix::process::test_kill_process(pid).is_err() || stat.contains(") Z ")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn with_it_there_is_a_session_of_its_own() {
        let Some(setsid) = setsid() else { return };
        let mut command = command_through(Some(setsid), "sleep", Path::new("/"), None).unwrap();
        let mut group = ProcessGroup::from(spawn_marked(command.arg("1000")).unwrap());
        let pid = group.pid().unwrap();
        // The program needs a moment to begin it.
        let begun = (0..1_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            session(pid) == pid.as_raw_nonzero().get()
        });
        assert!(begun);
        group.end();
    }
}
