//! Landlock for files, signals and memory, seccomp for sockets.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::{Guard, Rules, filter};

pub(super) use super::reaper::Reaper;

/// Devices that keep nothing, the only ones that are open. Not the terminal: a command could read what the user types, draw a
/// false question on it, or switch Ctrl-C off.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What the kernel can hold.
#[derive(Clone, Copy)]
pub(super) struct Support {
    landlock: ABI,
    seccomp: bool,
}

impl Support {
    /// Tried on a thread that ends right after.
    pub(super) fn of_this_system() -> Support {
        static SUPPORT: OnceLock<Support> = OnceLock::new();
        *SUPPORT.get_or_init(|| {
            let nothing = Support { landlock: ABI::Unsupported, seccomp: false };
            std::thread::spawn(Support::probe).join().unwrap_or(nothing)
        })
    }

    fn probe() -> Support {
        let all = vec![PathBuf::from("/")];
        let rules = Rules { read: all.clone(), write: all, network: false, unix_sockets: false };
        let landlock = match scope().and_then(|_| restrict(&rules)) {
            Ok(RestrictionStatus {
                ruleset: RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced,
                landlock: LandlockStatus::Available { effective_abi, .. },
                ..
            }) => effective_abi,
            Ok(_) | Err(_) => ABI::Unsupported,
        };
        let program = filter::program(false, false).ok();
        let seccomp = program.is_some_and(|program| seccompiler::apply_filter(&program).is_ok());
        Support { landlock, seccomp }
    }

    pub(super) fn holds(&self, guard: Guard) -> bool {
        match guard {
            Guard::Writes | Guard::Reads | Guard::Memory => self.landlock >= ABI::V1,
            Guard::Truncation => self.landlock >= ABI::V3,
            Guard::Network | Guard::UnixSockets => self.seccomp,
            Guard::Signals | Guard::Processes => self.landlock >= ABI::V6,
            // Not the kernel's: each command begins a session of its own.
            Guard::Terminal => false,
        }
    }
}

/// Start a command on a thread that is confined before.
pub(super) fn spawn(command: &mut Command, rules: &Rules) -> io::Result<(Child, Option<Reaper>)> {
    let support = Support::of_this_system();
    let program = filter::program(rules.network, rules.unix_sockets).map_err(io::Error::other)?;
    let confined = || -> io::Result<(Child, Option<Reaper>)> {
        let mut reaper = None;
        if support.holds(Guard::Signals) {
            require_enforced(&scope().map_err(io::Error::other)?)?;
            reaper = Some(Reaper::start()?);
        }
        give_up_rights()?;
        if support.holds(Guard::Writes) {
            require_enforced(&restrict(rules).map_err(io::Error::other)?)?;
        }
        if support.seccomp {
            seccompiler::apply_filter(&program).map_err(io::Error::other)?;
        }
        Ok((command.spawn()?, reaper))
    };
    // What a thread is confined to ends with it; the threads of the host are never touched.
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("plimsoll-sandbox".into()).spawn_scoped(scope, confined)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the sandbox could not be set up")))
    })
}

/// Give up what root may do beyond being the owner of every file. With the right to measure (`CAP_PERFMON`), root reads the
/// environment of any process without Landlock being asked. What a thread has given up does not come back by running a
/// program, because no program gains rights here.
fn give_up_rights() -> io::Result<()> {
    const KEPT: CapabilitySet = CapabilitySet::CHOWN
        .union(CapabilitySet::DAC_OVERRIDE)
        .union(CapabilitySet::FOWNER)
        .union(CapabilitySet::FSETID)
        .union(CapabilitySet::SETUID)
        .union(CapabilitySet::SETGID)
        .union(CapabilitySet::KILL)
        .union(CapabilitySet::NET_BIND_SERVICE);
    let all = capabilities(None)?;
    let kept = CapabilitySets {
        effective: all.effective & KEPT,
        permitted: all.permitted & KEPT,
        inheritable: all.inheritable & KEPT,
    };
    Ok(set_capabilities(None, kept)?)
}

/// What the probe found must still hold: a command is not run with less than what was reported.
fn require_enforced(status: &RestrictionStatus) -> io::Result<()> {
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(io::Error::other("the sandbox could not be set up")),
    }
}

/// The outer scope: what is started in it signals nothing outside.
fn scope() -> Result<RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default().handle_access(AccessFs::Refer)?.scope(Scope::Signal)?.create()?;
    // Rules that say nothing about moving between directories forbid it, also inside the project.
    if let Ok(root) = PathFd::new("/") {
        ruleset = ruleset.add_rule(PathBeneath::new(root, AccessFs::Refer))?;
    }
    ruleset.restrict_self()
}

/// The rules for the command itself, in a scope inside the outer one.
fn restrict(rules: &Rules) -> Result<RestrictionStatus, RulesetError> {
    // As of the newest kernel these were tried on. Older ones hold what they know, and `Support` says which.
    let handled = AccessFs::from_write(ABI::V5) | AccessFs::ReadFile;
    let mut ruleset = Ruleset::default().handle_access(handled)?.scope(Scope::Signal)?;
    if !rules.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    if !rules.unix_sockets {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
    }
    let mut ruleset = ruleset.create()?;
    let read = rules.read.iter().map(|path| (path.as_path(), AccessFs::ReadFile.into()));
    let write = rules.write.iter().map(|path| (path.as_path(), rights_below(path)));
    for (path, rights) in read.chain(write) {
        // What is not there cannot be written to, and does not come to be: the directory it is in is not opened.
        if let Some(place) = open_place(path) {
            ruleset = ruleset.add_rule(PathBeneath::new(place, rights))?;
        }
    }
    let rights = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev});
    for device in DEVICES.iter().filter_map(|path| PathFd::new(path).ok()) {
        ruleset = ruleset.add_rule(PathBeneath::new(device, rights))?;
    }
    ruleset.restrict_self()
}

/// A place that rules are made for, with no link on the way: one that was put there since the path was resolved would open
/// what it leads to.
fn open_place(path: &Path) -> Option<OwnedFd> {
    let path = path.canonicalize().ok()?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, &path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // A container's own filter may not know the call.
        Err(Errno::NOSYS | Errno::PERM) => openat(CWD, &path, flags | OFlags::NOFOLLOW, Mode::empty()).ok(),
        opened => opened.ok(),
    }
}

/// What may be done below a path that is written to. It can be read as well: a terminal that the user opens is of no use
/// otherwise.
fn rights_below(path: &Path) -> BitFlags<AccessFs> {
    let all = AccessFs::from_write(ABI::V5) | AccessFs::ReadFile;
    // A device made in the project would be the disk itself under another name; root can make one.
    let mut rights = all & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    if !path.starts_with("/dev") {
        rights &= !AccessFs::IoctlDev;
    }
    if path.is_dir() { rights } else { rights & AccessFs::from_file(ABI::V5) }
}
