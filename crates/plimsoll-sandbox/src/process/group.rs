//! A process with everything it has started.

use std::io;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use super::reaper::Reaper;
use super::stragglers::Marker;

/// A process with everything it has started. Dropping it ends all of them.
pub struct ProcessGroup {
    child: Child,
    ending: Ending,
    status: Option<ExitStatus>,
    is_over: bool,
}

impl ProcessGroup {
    pub(crate) fn new(child: Child, ending: Ending) -> ProcessGroup {
        ProcessGroup { child, ending, status: None, is_over: false }
    }

    /// Starts a command of the user, which is not confined. It stays in the terminal's foreground, so that it can ask
    /// the user, and is interrupted with this process.
    pub fn start(command: &mut Command) -> io::Result<ProcessGroup> {
        let ending = Ending::mark(command);
        Ok(ProcessGroup::new(command.spawn()?, ending))
    }

    /// Waits for the process. Processes that it started keep running.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        self.is_over = true;
        self.child.wait()
    }

    /// Returns the process itself, for its pipes. Do not wait for it: [`end`](ProcessGroup::end) does.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Returns whether the process has ended. It is not reaped yet, so its ID and that of its group cannot be reused
    /// before the group is ended.
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let found = self.pid().map(|pid| waitid(WaitId::Pid(pid), options));
        self.is_over || !matches!(found, Some(Ok(None)))
    }

    /// Returns a value with which another thread can wait for the process.
    pub fn waiter(&self) -> ProcessWaiter {
        ProcessWaiter { pid: self.pid() }
    }

    /// Returns whether [`end`](ProcessGroup::end) was called.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends the process with everything it has started, and returns its exit status if it is known.
    pub fn end(&mut self) -> Option<ExitStatus> {
        if !self.is_over {
            self.is_over = true;
            // The process is not reaped yet, so its ID and that of its group cannot have been reused.
            if let Some(pid) = self.pid() {
                // Fails for a process that has ended. One that has just started may not have its own group yet.
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = kill_process(pid, Signal::KILL);
            }
            self.ending.end();
            // Reaped last: until then, nothing else can have its ID.
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

/// Waits for the process of a [`ProcessGroup`] without reaping it.
#[derive(Clone, Copy, Debug)]
pub struct ProcessWaiter {
    pid: Option<Pid>,
}

impl ProcessWaiter {
    /// Blocks until the process has ended.
    pub fn wait(self) {
        let Some(pid) = self.pid else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
    }
}

/// Ends the processes of a command that have left its process group.
pub(crate) struct Ending {
    reaper: Option<Reaper>,
    marker: Marker,
}

impl Ending {
    /// Marks a command before it is started, so that its processes can be found.
    pub(crate) fn mark(command: &mut Command) -> Ending {
        let marker = Marker::new();
        marker.mark(command);
        Ending { reaper: None, marker }
    }

    /// Uses a reaper, which also reaches processes without the mark.
    pub(crate) fn with_reaper(self, reaper: Option<Reaper>) -> Ending {
        Ending { reaper, ..self }
    }

    fn end(&mut self) {
        let is_done = self.reaper.take().is_some_and(Reaper::end);
        if !is_done {
            self.marker.end_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use rustix::process::getpgid;

    use super::{Ending, ProcessGroup};
    use crate::process::SessionStarter;

    fn start(command: &mut Command) -> ProcessGroup {
        let ending = Ending::mark(command);
        ProcessGroup::new(command.spawn().unwrap(), ending)
    }

    /// Returns the number of a process's session, as the kernel prints it. In a container the session may have begun
    /// outside, which the kernel reports as 0 and which `getsid` of rustix rejects.
    #[cfg(target_os = "linux")]
    fn session(pid: rustix::process::Pid) -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(3).unwrap().parse().unwrap()
    }

    #[test]
    fn without_setsid_a_command_gets_its_own_group() {
        let starter = SessionStarter::without_setsid();
        assert!(!starter.has_sessions());
        let mut command = starter.command("sleep", Path::new("/"), None).unwrap();
        let mut group = start(command.arg("1000"));
        let pid = group.pid().unwrap();
        assert_eq!(getpgid(Some(pid)).unwrap(), pid);
        #[cfg(target_os = "linux")]
        assert_eq!(session(pid), session(rustix::process::getpid()));
        assert!(!group.has_ended());
        assert!(group.end().is_some_and(|status| !status.success()));
    }

    /// A call ends its group and then sweeps for what left it. The sweep would end the group's processes too, so they
    /// are tried here with one that it does not find, because it has cleared its environment.
    #[test]
    fn all_processes_of_a_group_end_with_it() {
        for starter in [SessionStarter::without_setsid(), SessionStarter::detect()] {
            let mut command = starter.command("sh", Path::new("/"), None).unwrap();
            command
                .args(["-c", "env -i /bin/sh -c 'echo $$; exec /bin/sleep 1000' & wait"])
                .stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::null());
            let mut group = start(&mut command);
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
            assert!(is_gone, "{starter:?}");
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
    fn with_setsid_a_command_gets_its_own_session() {
        let starter = SessionStarter::detect();
        if !starter.has_sessions() {
            return;
        }
        let mut command = starter.command("sleep", Path::new("/"), None).unwrap();
        let mut group = start(command.arg("1000"));
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
