//! Names of lease holders, and whether the named process still exists.
//!
//! A lease ends when it is released or expires. A killed process releases nothing, so its lease would block the session
//! for a minute. The name of a holder therefore identifies its process: kernel, namespaces, process number and start
//! time. Only a process that is visible from here can be declared gone. For one in another process namespace, on
//! another machine, or from before a reboot, the number means nothing here, and its lease has to expire.

use std::fmt;

/// Separator before the part of a name that identifies the process.
const OPEN: &str = " [";

/// Returns the name under which this process holds leases: a description for users, then what identifies the process.
pub fn process_holder(program: &str) -> String {
    let words = format!("{program} on {}, process {}", system::host(), std::process::id());
    match system::Identity::own() {
        Some(identity) => format!("{words}{OPEN}{identity}]"),
        None => words,
    }
}

/// Returns whether a holder was a process of this machine that no longer exists.
pub fn holder_is_gone(holder: &str) -> bool {
    let Some((words, rest)) = holder.split_once(OPEN) else { return false };
    let pid = words.rsplit_once("process ").and_then(|(_, pid)| pid.parse().ok());
    let identity = rest.split_once(']').map(|(identity, _)| identity);
    pid.zip(identity).is_some_and(|(pid, identity)| system::is_gone(pid, identity))
}

/// Returns the description of a holder, without what identifies its process.
pub fn holder_name(holder: &str) -> String {
    match holder.split_once(OPEN) {
        Some((words, rest)) => {
            let more = rest.split_once(']').map_or("", |(_, more)| more);
            format!("{words}{more}")
        }
        None => holder.to_owned(),
    }
}

/// Shows a holder by its [name](holder_name), for error messages.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&holder_name(self.0))
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fmt;

    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    pub(super) fn host() -> String {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    }

    /// Identifies a process: the namespaces its number belongs to, and its start time.
    pub(super) struct Identity {
        space: String,
        started: u64,
    }

    impl Identity {
        pub(super) fn own() -> Option<Identity> {
            let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
            // Start times are shown relative to the time namespace of the reader. Old kernels have none.
            let space = format!("{boot}.{}.{}", namespace("pid")?, namespace("time").unwrap_or_default());
            Some(Identity { space, started: status("self")?.started })
        }
    }

    impl fmt::Display for Identity {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}.{}", self.space, self.started)
        }
    }

    pub(super) fn is_gone(pid: i32, identity: &str) -> bool {
        let Some((space, started)) = identity.rsplit_once('.') else { return false };
        let is_same_space = Identity::own().is_some_and(|own| own.space == space);
        let (true, Some(pid), Ok(started)) = (is_same_space, Pid::from_raw(pid), started.parse::<u64>())
        else {
            return false;
        };
        // For a process of another user the result is `EPERM`, which means that it exists.
        if test_kill_process(pid) == Err(Errno::SRCH) {
            return true;
        }
        // The number may have been reused by another process, and a process that was not waited for yet keeps its own.
        let is_own_proc = std::fs::read_link("/proc/self")
            .is_ok_and(|own| own.as_os_str() == std::process::id().to_string().as_str());
        let found = if is_own_proc { status(&pid.as_raw_nonzero().to_string()) } else { None };
        found.is_some_and(|found| found.is_dead || found.started != started)
    }

    /// Returns the inode number in a link such as `pid:[4026531836]`.
    fn namespace(kind: &str) -> Option<String> {
        let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).ok()?;
        let digits: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        (!digits.is_empty()).then_some(digits)
    }

    struct Status {
        is_dead: bool,
        /// In clock ticks since the machine started.
        started: u64,
    }

    fn status(process: &str) -> Option<Status> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The command's name is in parentheses and may contain anything; the state is field 3, the start field 22.
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
        Some(Status { is_dead, started: fields.nth(18)?.parse().ok()? })
    }
}

/// On other systems a process cannot be identified without unsafe code, and its lease expires.
#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn host() -> String {
        std::env::var("HOSTNAME").unwrap_or_else(|_| "this machine".to_owned())
    }

    pub(super) struct Identity;

    impl Identity {
        pub(super) fn own() -> Option<Identity> {
            None
        }
    }

    impl std::fmt::Display for Identity {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            Ok(())
        }
    }

    pub(super) fn is_gone(_: i32, _: &str) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::{holder_is_gone, holder_name, process_holder};

    /// Returns the name of a holder, with the number and start time of another process.
    fn holder_of(pid: u32, changed_start: bool) -> Option<String> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let start: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
        let own = process_holder("plimsoll");
        let (words, identity) = own.split_once(" [")?;
        let (space, _) = identity.rsplit_once('.')?;
        let words = words.rsplit_once(' ')?.0;
        Some(format!("{words} {pid} [{space}.{}]", start + u64::from(changed_start)))
    }

    #[test]
    fn a_living_process_of_any_user_is_not_gone() {
        assert!(!holder_is_gone(&process_holder("plimsoll")));
        assert!(!holder_is_gone(&holder_of(1, false).unwrap()), "`EPERM` for an ordinary user");
    }

    #[test]
    fn a_process_number_that_was_given_to_another_process_is_gone() {
        assert!(holder_is_gone(&holder_of(std::process::id(), true).unwrap()));
    }

    #[test]
    fn a_killed_process_is_gone_before_and_after_its_parent_waits_for_it() {
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let holder = holder_of(child.id(), false).unwrap();
        assert!(!holder_is_gone(&holder));
        child.kill().unwrap();
        // Death is delivered asynchronously; the state is read until it is there.
        assert!((0..100_000).any(|_| {
            std::thread::yield_now();
            holder_is_gone(&holder)
        }));
        child.wait().unwrap();
        assert!(holder_is_gone(&holder));
    }

    #[test]
    fn a_process_of_another_space_or_without_identity_is_never_gone() {
        let gone = holder_of(std::process::id(), true).unwrap();
        assert!(holder_is_gone(&gone));
        let (words, identity) = gone.split_once(" [").unwrap();
        let mut fields: Vec<&str> = identity.trim_end_matches(']').split('.').collect();
        for (field, other) in [(0, "0123456789abcdef"), (1, "4026539999"), (2, "1")] {
            let own = std::mem::replace(&mut fields[field], other);
            assert!(!holder_is_gone(&format!("{words} [{}]", fields.join("."))), "{field}");
            fields[field] = own;
        }
        for unknown in [words, "process 7", "", "x [", "x [a.b]", "a process 9999999 [1.2.3]"] {
            assert!(!holder_is_gone(unknown), "{unknown}");
        }
    }

    #[test]
    fn messages_show_a_holder_without_its_identity() {
        let holder = "plimsoll on quay, process 7 [00ff.4026531836.4026531834.99], tasks abc";
        assert_eq!(holder_name(holder), "plimsoll on quay, process 7, tasks abc");
        assert_eq!(holder_name("a program"), "a program");
    }
}
