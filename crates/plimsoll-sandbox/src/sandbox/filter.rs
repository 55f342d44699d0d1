//! System calls that confined commands are refused because Landlock does not cover them.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

/// Calls that are refused whatever their arguments. Most need privileges of root, and agents do run as root in
/// containers.
const REFUSED: &[i64] = &[
    // No filter sees the requests in its rings, such as sockets. Programs fall back to other calls.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Opens files by number, past every rule about paths.
    libc::SYS_open_by_handle_at,
    // Namespaces of other processes, and mounts.
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    // A user namespace is enough to prepare a file system with these. Merely creating an overlay makes the kernel empty
    // a directory of its work directory, wherever that is, and Landlock is not asked.
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    // Keys that programs of the same user left with the kernel.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The kernel and the machine itself.
    libc::SYS_bpf,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Added in Linux 6.15, with the same number on every architecture.
const OPEN_TREE_ATTR: i64 = 467;

/// Inserts text into the input of the user's terminal, which the user's shell would run later.
const TIOCSTI: u64 = 0x5412;
/// Does the same through the clipboard of a Linux console.
const TIOCLINUX: u64 = 0x541c;

/// Calls that change how a process is scheduled, by its ID; 0 is the caller. A user may do that to all their processes,
/// and Landlock has no rule for it. The other calls about processes (`process_madvise`, `move_pages`, `kcmp`,
/// `pidfd_getfd`) need the right to trace, which Landlock denies.
const SCHEDULING: &[i64] = &[
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
];
/// One process, for `setpriority`; the others are a group and all processes of a user.
const PRIO_PROCESS: u64 = 0;
/// Like `PRIO_PROCESS`, for `ioprio_set`.
const IOPRIO_WHO_PROCESS: u64 = 1;

/// Calls that set the mode of a file, with the argument of the mode and that of the flags, if it counts only with one of
/// [`CREATES`]. Landlock has no rule for modes, so a command of root could make any program run as its owner.
const MODES: &[(i64, u8, Option<u8>)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1, None),
    (libc::SYS_fchmod, 1, None),
    (libc::SYS_fchmodat, 2, None),
    (FCHMODAT2, 2, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2, Some(1)),
    (libc::SYS_openat, 3, Some(2)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1, None),
    (libc::SYS_mknodat, 2, None),
];
/// Added in Linux 6.6, with the same number on every architecture.
const FCHMODAT2: i64 = 452;
/// Flags that create a file. `O_TMPFILE` contains the bit of `O_DIRECTORY`, which creates none.
const CREATES: [i32; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
/// A program with these bits runs with its owner's or group's rights.
const RAISED: [u64; 2] = [0o4000, 0o2000];

/// First number of the x32 interface on x86-64: the same calls under other numbers, which would pass the filter.
const X32: u32 = 0x4000_0000;

/// Calls with arguments in memory, which a filter does not see: `openat2` creates files with any mode. The answer is that
/// the kernel does not have the call, because programs fall back to another one then.
const ABSENT: [i64; 1] = [libc::SYS_openat2];

/// Returns the filter for commands with or without network and sockets of this machine.
pub(super) fn program(network: bool, unix_sockets: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    let is = |argument, value| condition(argument, SeccompCmpOp::Eq, value);
    rules.insert(
        libc::SYS_ioctl,
        vec![SeccompRule::new(vec![is(1, TIOCSTI)?])?, SeccompRule::new(vec![is(1, TIOCLINUX)?])?],
    );
    // A CPU time limit on another process is as good as a signal to it.
    let sets = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![other(0)?, sets])?]);
    for number in SCHEDULING {
        rules.insert(*number, vec![SeccompRule::new(vec![other(0)?])?]);
    }
    for (number, of_process) in
        [(libc::SYS_setpriority, PRIO_PROCESS), (libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS)]
    {
        let of_many = condition(0, SeccompCmpOp::Ne, of_process)?;
        rules.insert(number, vec![SeccompRule::new(vec![other(1)?])?, SeccompRule::new(vec![of_many])?]);
    }
    for (number, mode, flags) in MODES {
        rules.insert(*number, raised_modes(*mode, *flags)?);
    }
    let mut families = Vec::new();
    if network {
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    if unix_sockets {
        families.push(libc::AF_UNIX);
    }
    let not = |family: &i32| condition(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs()));
    let others = families.iter().map(not).collect::<Result<Vec<_>, _>>()?;
    let socket = if others.is_empty() { Vec::new() } else { vec![SeccompRule::new(others)?] };
    rules.insert(libc::SYS_socket, socket);
    if !unix_sockets {
        // Programs talk to their own children through pairs. A pair of datagram sockets could be connected to any other
        // socket, though, and for this family the kernel treats `SOCK_RAW` as datagrams.
        let kind = |kind: i32| {
            let kind = u64::from(kind.unsigned_abs());
            SeccompRule::new(vec![condition(1, SeccompCmpOp::MaskedEq(0xf), kind)?])
        };
        rules.insert(libc::SYS_socketpair, vec![kind(libc::SOCK_DGRAM)?, kind(libc::SOCK_RAW)?]);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refused, std::env::consts::ARCH.try_into()?)?;
    let mut program = absent_calls();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

/// Matches modes that make a program run with the rights of its owner or group.
fn raised_modes(mode: u8, flags: Option<u8>) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let has = |argument, bits: u64| condition(argument, SeccompCmpOp::MaskedEq(bits), bits);
    let mut rules = Vec::new();
    for bit in RAISED {
        match flags {
            None => rules.push(SeccompRule::new(vec![has(mode, bit)?])?),
            Some(flags) => {
                for creates in CREATES.map(i32::unsigned_abs) {
                    rules.push(SeccompRule::new(vec![has(mode, bit)?, has(flags, creates.into())?])?);
                }
            }
        }
    }
    Ok(rules)
}

/// Matches if the argument names a process other than the caller.
fn other(argument: u8) -> Result<SeccompCondition, seccompiler::BackendError> {
    condition(argument, SeccompCmpOp::Ne, 0)
}

/// Compares the low half of an argument, because the kernel ignores the high half of these.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// Returns `if (number >= X32 || number in ABSENT) return ENOSYS`, to run before everything else. Architectures other than
/// x86-64 have no numbers from [`X32`] on.
fn absent_calls() -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let no_such_call = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let mut program = vec![sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 }];
    let mut refuse = |code, number| {
        program.push(sock_filter { code, jt: 0, jf: 1, k: number });
        program.push(sock_filter { code: RETURN, jt: 0, jf: 0, k: no_such_call });
    };
    refuse(JUMP_IF_AT_LEAST, X32);
    for number in ABSENT {
        refuse(JUMP_IF_EQUAL, u32::try_from(number).unwrap_or(u32::MAX));
    }
    program
}
