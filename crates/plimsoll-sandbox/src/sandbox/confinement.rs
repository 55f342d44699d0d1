//! The guards of the sandbox, and which of them this system and this configuration enforce.

use std::fmt;

use serde::Serialize;

use crate::config::{SandboxConfig, SandboxMode};

/// A restriction on commands.
///
/// Each variant is one that a kernel may have and another lack, so that [`Confinement`] can name what is missing.
/// Landlock gained its rules over many releases, and seccomp covers what Landlock has no rule for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Guard {
    /// No file outside the project and the temporary directory is created, opened for writing, renamed, linked or
    /// removed.
    Writes,
    /// No file outside is truncated by its path. Separate from [`Writes`](Guard::Writes), because Landlock before Linux
    /// 6.2 does not restrict `truncate`.
    Truncation,
    /// No terminal or other device, and no private file, is opened for reading: a command could read a password that
    /// the user types, or block the database with a lock.
    Reads,
    /// No TCP, no UDP, no other network. Refused by seccomp when the socket is created: Landlock restricts only TCP.
    Network,
    /// No socket of another program on this machine. Such a program, docker for example, acts outside of the sandbox.
    UnixSockets,
    /// No signal to a process that the command has not started. Landlock has scopes for signals since Linux 6.12.
    Signals,
    /// No access to the memory or the environment of such a process, which has the user's keys.
    Memory,
    /// Every process that a command has started ends with it, even one that left its process group. Needs the scope for
    /// signals: only then does a signal to all processes reach those of the command and no others.
    Processes,
    /// No terminal: each command runs in its own session, even if the sandbox is off.
    Terminal,
}

impl Guard {
    /// All guards.
    pub const ALL: &[Guard] = &[
        Guard::Writes,
        Guard::Truncation,
        Guard::Reads,
        Guard::Network,
        Guard::UnixSockets,
        Guard::Signals,
        Guard::Memory,
        Guard::Processes,
        Guard::Terminal,
    ];

    /// Describes, for the user, what stays possible if this guard is missing.
    pub(super) fn gap(self) -> &'static str {
        match self {
            Guard::Writes => "writes outside the project",
            Guard::Truncation => "truncation of files outside the project",
            Guard::Reads => "reading of terminals and devices",
            Guard::Network => "the network",
            Guard::UnixSockets => "sockets of other programs",
            Guard::Signals => "signals to other processes",
            Guard::Memory => "the environment of other processes",
            Guard::Processes => "processes that leave their group and outlive the call",
            Guard::Terminal => "the terminal (the `setsid` program is missing)",
        }
    }
}

/// The guards that apply to commands on this system, under this configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Confinement {
    /// Guards that are enforced.
    pub enforced: Vec<Guard>,
    /// Guards that are configured but that this system cannot enforce.
    pub missing: Vec<Guard>,
    /// Guards that the configuration turns off.
    pub opened: Vec<Guard>,
}

impl Confinement {
    pub(super) fn of(config: &SandboxConfig, holds: impl Fn(Guard) -> bool) -> Confinement {
        let is_opened = |guard: &Guard| match (config.mode, guard) {
            (SandboxMode::Off, Guard::Processes | Guard::Terminal) => false,
            (SandboxMode::Off, _) => true,
            (_, Guard::Network) => config.network,
            (_, Guard::UnixSockets) => config.unix_sockets,
            _ => false,
        };
        let (opened, wanted): (Vec<Guard>, Vec<Guard>) =
            Guard::ALL.iter().partition(|guard| is_opened(guard));
        let (enforced, missing) = wanted.into_iter().partition(|guard| holds(*guard));
        Confinement { enforced, missing, opened }
    }

    /// Returns whether a guard is enforced.
    pub fn holds(&self, guard: Guard) -> bool {
        self.enforced.contains(&guard)
    }

    /// Returns whether the kernel enforces any guard. The session is created in user space and restricts neither files
    /// nor network.
    pub(super) fn is_confined(&self) -> bool {
        self.enforced.iter().any(|guard| *guard != Guard::Terminal)
    }

    /// Returns whether all guards are enforced.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.opened.is_empty()
    }

    /// Returns whether the system enforces what [`SandboxMode::Require`] asks for: writes, the network, and the memory
    /// of other processes, as far as the configuration does not open them. Scopes for signals exist since Linux 6.12;
    /// refusing older systems would leave their users no choice but `off`. A terminal that a command keeps is closed by
    /// Landlock, for reading and writing.
    pub fn suffices(&self) -> bool {
        let is_needed = |guard: &Guard| !matches!(guard, Guard::Signals | Guard::Processes | Guard::Terminal);
        !self.missing.iter().any(is_needed)
    }
}

/// One line for the user: what is not enforced.
impl fmt::Display for Confinement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |guards: &[Guard]| guards.iter().map(|guard| guard.gap()).collect::<Vec<_>>().join(", ");
        if self.opened.contains(&Guard::Writes) {
            formatter.write_str("commands are not confined")?;
            // `off` does not ask for access to the terminal.
            let has_terminal = self.missing.contains(&Guard::Terminal);
            return if has_terminal {
                write!(formatter, ", nor kept from {}", Guard::Terminal.gap())
            } else {
                Ok(())
            };
        }
        if !self.is_confined() {
            return formatter.write_str("commands are not confined: this system cannot");
        }
        formatter.write_str("commands are confined")?;
        if !self.opened.is_empty() {
            write!(formatter, "; open by configuration: {}", words(&self.opened))?;
        }
        if !self.missing.is_empty() {
            write!(formatter, "; this system cannot hold: {}", words(&self.missing))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Confinement, Guard};
    use crate::config::{SandboxConfig, SandboxMode};

    fn describe(mode: SandboxMode, holds: impl Fn(Guard) -> bool) -> (Confinement, String) {
        let config = SandboxConfig::default().mode(mode);
        let confinement = Confinement::of(&config, holds);
        let words = confinement.to_string();
        (confinement, words)
    }

    #[test]
    fn without_setsid_the_kept_terminal_is_reported() {
        let (confinement, words) = describe(SandboxMode::Auto, |guard| guard != Guard::Terminal);
        assert_eq!(confinement.missing, [Guard::Terminal]);
        assert!(!confinement.is_whole() && confinement.suffices());
        assert_eq!(
            words,
            "commands are confined; this system cannot hold: the terminal (the `setsid` program is missing)"
        );
        let (confinement, words) = describe(SandboxMode::Off, |_| false);
        assert_eq!(confinement.missing, [Guard::Processes, Guard::Terminal]);
        assert_eq!(
            words,
            "commands are not confined, nor kept from the terminal (the `setsid` program is missing)"
        );
    }

    #[test]
    fn a_session_alone_does_not_count_as_confinement() {
        let (confinement, words) = describe(SandboxMode::Auto, |guard| guard == Guard::Terminal);
        assert!(!confinement.suffices());
        assert_eq!(words, "commands are not confined: this system cannot");
        let (_, words) = describe(SandboxMode::Off, |guard| guard == Guard::Terminal);
        assert_eq!(words, "commands are not confined");
    }
}
