//! Landlock for files, signals and memory, seccomp for sockets.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::BpfProgram;

use super::{Guard, Rules, filter};
use crate::files::open_place;
use crate::process::{Reaper, system_program};

/// The only devices that are open: they keep nothing. Not the terminal: a command could read what the user types, draw
/// a false question on it, or disable Ctrl-C.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Features of this kernel.
pub(super) struct Support {
    landlock: ABI,
    seccomp: bool,
    /// The shell for [`Reaper`].
    bash: Option<PathBuf>,
}

impl Support {
    /// Tests the features on a short-lived thread.
    pub(super) fn detect() -> Support {
        let nothing = Support { landlock: ABI::Unsupported, seccomp: false, bash: None };
        std::thread::spawn(Support::probe).join().unwrap_or(nothing)
    }

    fn probe() -> Support {
        let all = vec![PathBuf::from("/")];
        let rules =
            Rules { read: all.clone(), write: all, temporary: None, network: false, unix_sockets: false };
        let landlock = match scope().and_then(|_| restrict(&rules, true)) {
            Ok(RestrictionStatus {
                ruleset: RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced,
                landlock: LandlockStatus::Available { effective_abi, .. },
                ..
            }) => effective_abi,
            Ok(_) | Err(_) => ABI::Unsupported,
        };
        let program = filter::program(false, false).ok();
        let seccomp = program.is_some_and(|program| seccompiler::apply_filter(&program).is_ok());
        Support { landlock, seccomp, bash: system_program("bash") }
    }

    pub(super) fn holds(&self, guard: Guard) -> bool {
        match guard {
            Guard::Writes | Guard::Reads | Guard::Memory => self.landlock >= ABI::V1,
            Guard::Truncation => self.landlock >= ABI::V3,
            Guard::Network | Guard::UnixSockets => self.seccomp,
            Guard::Signals => self.landlock >= ABI::V6,
            Guard::Processes => self.landlock >= ABI::V6 && self.bash.is_some(),
            // Not a feature of the kernel: commands get a new session from `setsid`.
            Guard::Terminal => false,
        }
    }
}

/// Starts a command on a thread that restricts itself first.
pub(super) fn spawn(
    command: &mut Command,
    rules: &Rules,
    support: &Support,
) -> io::Result<(Child, Option<Reaper>)> {
    let program = filter::program(rules.network, rules.unix_sockets).map_err(io::Error::other)?;
    // Threads inherit the restrictions of the one that starts them.
    let reaping = || -> io::Result<Option<Reaper>> {
        let Some(bash) = support.bash.as_deref().filter(|_| support.holds(Guard::Processes)) else {
            return Ok(None);
        };
        on_thread(|| {
            // The reaper writes nothing and needs no network.
            let rules =
                Rules { write: Vec::new(), temporary: None, read: rules.read.clone(), ..Rules::default() };
            confine(&rules, support, &filter::program(false, false).map_err(io::Error::other)?, false)?;
            Reaper::start(bash).map(Some)
        })
    };
    on_thread(|| {
        let mut reaper = None;
        if support.holds(Guard::Signals) {
            // The outer scope comes first: the reaper and the command must both be inside it.
            require_enforced(&scope().map_err(io::Error::other)?)?;
            reaper = reaping()?;
        }
        confine(rules, support, &program, true)?;
        Ok((command.spawn()?, reaper))
    })
}

/// Restricts this thread. `is_scoped` is false for the reaper, which must signal the command.
fn confine(rules: &Rules, support: &Support, program: &BpfProgram, is_scoped: bool) -> io::Result<()> {
    give_up_rights()?;
    if support.holds(Guard::Writes) {
        require_enforced(&restrict(rules, is_scoped).map_err(io::Error::other)?)?;
    }
    if support.seccomp {
        seccompiler::apply_filter(program).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Runs a function on a new thread.
fn on_thread<T: Send>(function: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    // The restrictions end with the thread; the threads of the host are never touched.
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("plimsoll-sandbox".into()).spawn_scoped(scope, function)?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that sets up the sandbox panicked")))
    })
}

/// Drops the capabilities of root except those of an owner of every file. With `CAP_PERFMON`, root reads the
/// environment of any process without Landlock being asked. Running a program does not bring a dropped capability back,
/// because no program gains privileges here. `CAP_FSETID` is dropped too: with it, a program that runs as its owner keeps
/// that mode when its content is replaced.
fn give_up_rights() -> io::Result<()> {
    const KEPT: CapabilitySet = CapabilitySet::CHOWN
        .union(CapabilitySet::DAC_OVERRIDE)
        .union(CapabilitySet::FOWNER)
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

/// Fails if the kernel enforces less than was detected: a command never runs with less than what was reported.
fn require_enforced(status: &RestrictionStatus) -> io::Result<()> {
    match status.ruleset {
        // Partial is expected on older kernels, whose missing guards were reported.
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(io::Error::other("Landlock did not apply the sandbox rules")),
    }
}

/// Enters the outer scope, in which processes signal nothing outside.
fn scope() -> Result<RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default().handle_access(AccessFs::Refer)?.scope(Scope::Signal)?.create()?;
    // Without this right files could not be moved between directories, not even inside the project.
    if let Ok(root) = PathFd::new("/") {
        ruleset = ruleset.add_rule(PathBeneath::new(root, AccessFs::Refer))?;
    }
    ruleset.restrict_self()
}

/// Applies the rules for the command itself, in a scope inside the outer one if `is_scoped`.
fn restrict(rules: &Rules, is_scoped: bool) -> Result<RestrictionStatus, RulesetError> {
    // The newest tested Landlock version. Older kernels enforce the part that they know; `Support` has which.
    let handled = AccessFs::from_write(ABI::V5) | AccessFs::ReadFile;
    let mut ruleset = Ruleset::default().handle_access(handled)?;
    if is_scoped {
        ruleset = ruleset.scope(Scope::Signal)?;
    }
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
        // A path that does not exist cannot be created later either, because its directory is not opened. A path in
        // which a link has appeared since it was resolved is not opened either: the rule would apply to the target.
        if let Ok(place) = open_place(path) {
            ruleset = ruleset.add_rule(PathBeneath::new(place, rights))?;
        }
    }
    if let Some(directory) = &rules.temporary {
        ruleset = ruleset.add_rule(PathBeneath::new(directory.as_fd(), rights_below(Path::new("/tmp"))))?;
    }
    let rights = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev});
    for device in DEVICES.iter().filter_map(|path| PathFd::new(path).ok()) {
        ruleset = ruleset.add_rule(PathBeneath::new(device, rights))?;
    }
    ruleset.restrict_self()
}

/// Returns the rights below a path that commands may write to. They include reading: a terminal device that the user
/// grants would be useless otherwise.
fn rights_below(path: &Path) -> BitFlags<AccessFs> {
    let all = AccessFs::from_write(ABI::V5) | AccessFs::ReadFile;
    // Root could create a device in the project that is the disk itself under another name.
    let mut rights = all & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    if !path.starts_with("/dev") {
        rights &= !AccessFs::IoctlDev;
    }
    if path.is_dir() { rights } else { rights & AccessFs::from_file(ABI::V5) }
}
