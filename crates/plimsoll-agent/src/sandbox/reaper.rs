//! Ends every process of a call, whatever it has done to be overlooked.
//!
//! `kill(-1)` reaches every process that the caller may signal, in one go that no fork slips through. Inside a Landlock scope
//! for signals that is exactly what was started in it: a new session, a second fork or a cleared environment leads nowhere.
//! So a shell waits in a scope that lies around the command's own. From inside it cannot be signalled; it signals everything
//! inside when its input ends. The agent closes that input when a call ends, and the kernel does if the agent is killed.
//!
//! Weighed and not taken: refusing `setsid` and `setpgid` (`timeout`, `ninja` and terminals of test suites need them, and
//! `timeout` signals its whole group, which then would be the call's); `PR_SET_CHILD_SUBREAPER` (the whole host process
//! would inherit orphans, also those of others); control groups and process namespaces (not there in many containers).

use std::io;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The scope is not in force: the agent, which is outside, could be signalled.
const NO_SCOPE: i32 = 3;

/// What the shell does. It refuses to go on if it could signal its parent, because then it could signal everything.
const SCRIPT: &str = "trap '' HUP INT TERM; \
     if builtin kill -0 \"$PPID\"; then exit 3; fi; \
     read -r _; \
     builtin kill -KILL -- -1; \
     exit 0";

/// A shell that ends all processes of a call when it is told to, or when the agent is gone.
pub(super) struct Reaper {
    shell: Child,
    input: Option<ChildStdin>,
}

impl Reaper {
    /// Start it. The thread must be in the outer scope and not yet in the command's.
    pub(super) fn start() -> io::Result<Reaper> {
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-c", SCRIPT]).current_dir("/");
        // A function of the user's shell named `read` or `trap` would come with the environment.
        let path = std::env::var_os("PATH");
        command.env_clear().envs(path.map(|path| ("PATH", path)));
        // A group of its own, so that Ctrl-C at the terminal does not reach it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut shell = command.spawn()?;
        let input = shell.stdin.take();
        Ok(Reaper { shell, input })
    }

    /// End everything. Says whether that was done.
    pub(super) fn end(mut self) -> bool {
        drop(self.input.take());
        let status = self.shell.wait().ok().and_then(|status| status.code());
        if status == Some(NO_SCOPE) {
            tracing::warn!(
                "the scope of a command was not in force; its processes are looked for by their mark"
            );
        }
        status == Some(0)
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        // Waited for in `end` already, or the call was given up: nothing must stay behind then either.
        drop(self.input.take());
        let _ = self.shell.wait();
    }
}
