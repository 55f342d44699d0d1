//! Ends every process of a command, whatever it has done to be overlooked.
//!
//! `kill(-1)` reaches every process that the caller may signal, atomically, so that no fork escapes. Inside a Landlock
//! scope for signals these are exactly the processes that were started in it, including those with a new session, a
//! second fork or a cleared environment. So a shell waits in a scope around the command's own. The command cannot
//! signal it, and it signals everything inside when its input ends. The host closes that input when a command ends, and
//! the kernel does if the host is killed.
//!
//! Alternatives that were rejected: refusing `setsid` and `setpgid` (`timeout`, `ninja` and terminals of test suites
//! need them, and `timeout` signals its whole group, which would then be the command's); `PR_SET_CHILD_SUBREAPER` (the
//! whole host process would inherit orphans, also those of others); control groups and process namespaces (missing in
//! many containers).

use std::io;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Exit code if the scope is not in force: the host, which is outside, could be signalled.
const NO_SCOPE: i32 = 3;

/// Script of the shell. It stops if it could signal its parent, because then it could signal everything.
const SCRIPT: &str = "trap '' HUP INT TERM; \
     if builtin kill -0 \"$PPID\"; then exit 3; fi; \
     read -r _; \
     builtin kill -KILL -- -1; \
     exit 0";

/// A shell that ends all processes of a command on request, or when the host is gone.
pub(crate) struct Reaper {
    shell: Child,
    input: Option<ChildStdin>,
}

impl Reaper {
    /// Starts `bash`, by its path. The thread must be in the outer scope and not yet in the command's.
    pub(crate) fn start(bash: &Path) -> io::Result<Reaper> {
        let mut command = Command::new(bash);
        command.args(["--noprofile", "--norc", "-c", SCRIPT]).current_dir("/");
        // The environment could name a library of the project, or define a shell function named `read` or `trap`.
        command.env_clear();
        // A new process group, so that Ctrl-C at the terminal does not reach it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut shell = command.spawn()?;
        let input = shell.stdin.take();
        Ok(Reaper { shell, input })
    }

    /// Ends everything, and returns whether that was done.
    pub(super) fn end(mut self) -> bool {
        drop(self.input.take());
        // The shell kills everything when its input ends.
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
        // No process must survive if `end` was not called.
        drop(self.input.take());
        let _ = self.shell.wait();
    }
}
