//! Processes that left the process group of their command, found by a variable that they inherited.
//!
//! This is for systems without a reaper. It finds processes after `setsid`, `nohup` or a second fork, but none that has
//! cleared its environment.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::Command;

/// Name of the variable. It does not begin with `PLIMSOLL_`, because such names are settings.
const NAME: &str = "_PLIMSOLL_CALL";

/// Mark of one command.
pub(super) struct Marker(String);

impl Marker {
    pub(super) fn new() -> Marker {
        // The mark must be unique for each command. It need not be secret.
        Marker(format!("{:016x}-{}", RandomState::new().build_hasher().finish(), std::process::id()))
    }

    pub(super) fn mark(&self, command: &mut Command) {
        command.env(NAME, &self.0);
    }

    /// Ends every process that has the mark.
    #[cfg(target_os = "linux")]
    pub(super) fn end_all(&self) {
        use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

        /// Bounds the search for a process that forks faster than it is found.
        const ROUNDS: usize = 20;
        for _ in 0..ROUNDS {
            let mut found = false;
            for pid in self.marked() {
                // The ID may belong to another process by now: take a handle first, then look again.
                let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
                if self.is_on(pid) {
                    found |= pidfd_send_signal(&held, Signal::KILL).is_ok();
                }
            }
            if !found {
                return;
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn end_all(&self) {}

    #[cfg(target_os = "linux")]
    fn marked(&self) -> Vec<rustix::process::Pid> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(rustix::process::Pid::from_raw).filter(|pid| self.is_on(*pid)).collect()
    }

    #[cfg(target_os = "linux")]
    fn is_on(&self, pid: rustix::process::Pid) -> bool {
        // A process that has ended and was not reaped has no environment.
        let environment =
            std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        let mark = format!("{NAME}={}", self.0);
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    }
}
