//! Processes that the agent starts for its user: servers and hooks. Each has a group of its own, which ends with it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use plimsoll_providers::Secret;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How often a process is looked after that is expected to end.
const TICK: Duration = Duration::from_millis(10);

/// A process with all it has started, except for what has left its group.
pub(crate) struct ProcessGroup {
    child: Child,
    status: Option<ExitStatus>,
    is_over: bool,
}

impl ProcessGroup {
    /// Start a command in a group of its own.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<ProcessGroup> {
        Ok(ProcessGroup { child: command.process_group(0).spawn()?, status: None, is_over: false })
    }

    /// The process itself, for its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    fn pid(&self) -> Option<Pid> {
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

    /// End the whole group, and say how the process itself has ended.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        if !self.is_over {
            self.is_over = true;
            if let Some(group) = self.pid() {
                // A group that is gone already is what is wanted.
                let _ = kill_process_group(group, Signal::KILL);
            }
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

/// Let a command inherit this process's environment without the variables that hold a key of a model provider.
pub(crate) fn remove_keys(command: &mut Command, hidden: &[Secret]) {
    let holds_key =
        |value: &OsString| hidden.iter().any(|key| value.as_encoded_bytes() == key.expose().as_bytes());
    let keys = std::env::vars_os().filter(|(_, value)| holds_key(value)).map(|(name, _)| name);
    for name in keys.chain(KEYS.map(OsString::from)) {
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
