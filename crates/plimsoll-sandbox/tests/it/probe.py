"""Tries, from inside a confined command, the ways out that are known: system calls, then paths.

Prints a line for each attempt: `held NAME`, `open NAME` for what is open by design, or `FAILED NAME`. A call that would harm the
machine if it were let through is made with arguments that the kernel refuses anyway: only the sandbox answers with EPERM then.
Numbers are those of x86-64.
"""
import ctypes, errno, fcntl, os, socket, stat, struct, sys

out, store, terminal, bystander, agent, port = sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7])
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def report(verdict, name, why=""):
    print(verdict, name, why, flush=True)


def held(name, attempt, only=None):
    """The attempt must fail, with one of the errors in `only` if there are some."""
    try:
        attempt()
    except OSError as error:
        if only and error.errno not in only:
            return report("FAILED", name, errno.errorcode.get(error.errno, error.errno))
        return report("held", name, errno.errorcode.get(error.errno, error.errno))
    report("FAILED", name, "it was let through")


def is_open(name, attempt):
    """What is open by design, as the documentation says."""
    try:
        attempt()
    except OSError as error:
        return report("held", name, errno.errorcode.get(error.errno, error.errno))
    report("open", name)


PERM = [errno.EPERM]
DENIED = [errno.EACCES, errno.EPERM, errno.EXDEV]
words = (ctypes.c_uint64 * 32)(1)

# Calls that are refused whatever their arguments.
for name, number in {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_by_handle_at": 304, "setns": 308,
    "mount": 165, "umount2": 166, "pivot_root": 155, "move_mount": 429, "mount_setattr": 442, "add_key": 248,
    "request_key": 249, "keyctl": 250, "bpf": 321, "init_module": 175, "finit_module": 313, "delete_module": 176,
    "kexec_load": 246, "kexec_file_load": 320, "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163, "quotactl": 179,
    "settimeofday": 164, "clock_settime": 227, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
}.items():
    held(name, lambda: call(number, -1, -1, -1, -1, -1), PERM)
    held(name + " as x32", lambda: call(0x40000000 + number, -1, -1, -1, -1, -1), [errno.ENOSYS])
for name, request in {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C}.items():
    held(name, lambda: call(16, 1, request, words), PERM)
    held(name + " with high bits", lambda: call(16, 1, request + (1 << 32), words), PERM)

# What only a process with rights of root's may, which are given up.
held("adjtimex", lambda: call(159, (ctypes.c_uint64 * 40)(0x4000)), PERM)
held("chroot", lambda: call(161, b"/"), PERM)
held("vhangup", lambda: call(153), PERM)
held("fanotify_init for contents", lambda: call(300, 4, 0), PERM)
held("fsopen", lambda: call(430, b"tmpfs", 0), PERM)
held("copy of a mount", lambda: call(428, -100, b"/dev", 1), PERM)
held("syslog, clearing", lambda: call(103, 5, 0, 0), PERM)
held("mlock without bound", lambda: call(302, 0, 8, (ctypes.c_uint64 * 2)(1 << 62, 1 << 62), 0), PERM)
held("sched_setscheduler, real time", lambda: call(144, 0, 1, (ctypes.c_int * 1)(50)), PERM)
held("negative nice value", lambda: call(141, 0, 0, -20), [errno.EPERM, errno.EACCES])
held("raw packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0), PERM)

# Other processes: the agent, and one of the same user.
for who, pid in {"the agent": agent, "a process": bystander}.items():
    pidfd = call(434, pid, 0)
    vector = (ctypes.c_uint64 * 2)(4096, 8)
    for name, attempt in {
        "kill": lambda: call(62, pid, 0),
        "tkill": lambda: call(200, pid, 0),
        "tgkill": lambda: call(234, pid, pid, 0),
        "rt_sigqueueinfo": lambda: call(129, pid, 10, words),
        "pidfd_send_signal": lambda: call(424, pidfd, 0, 0, 0),
        "ptrace attach": lambda: call(101, 16, pid, 0, 0),
        "ptrace seize": lambda: call(101, 0x4206, pid, 0, 0),
        "process_vm_readv": lambda: call(310, pid, vector, 1, vector, 1, 0),
        "process_vm_writev": lambda: call(311, pid, vector, 1, vector, 1, 0),
        "pidfd_getfd": lambda: call(438, pidfd, 0, 0),
        "kcmp": lambda: call(312, os.getpid(), pid, 1, 0, 0),
        "perf_event_open": lambda: call(298, (ctypes.c_uint32 * 32)(1, 112), pid, -1, -1, 0),
        "get_robust_list": lambda: call(274, pid, words, words),
        "prlimit64": lambda: call(302, pid, 0, (ctypes.c_uint64 * 2)(1, 1), 0),
        "setpriority": lambda: call(141, 0, pid, 10),
        "setpriority of its group": lambda: call(141, 1, os.getpgid(pid), 10),
        "ioprio_set": lambda: call(251, 1, pid, 3 << 13),
        "sched_setscheduler": lambda: call(144, pid, 3, (ctypes.c_int * 1)(0)),
        "sched_setparam": lambda: call(142, pid, (ctypes.c_int * 1)(0)),
        "sched_setattr": lambda: call(314, pid, (ctypes.c_uint32 * 12)(48, 0, 0, 0, 5), 0),
        "sched_setaffinity": lambda: call(203, pid, 128, words),
        "migrate_pages": lambda: call(256, pid, 64, words, words),
        "move_pages": lambda: call(279, pid, 1, vector, 0, (ctypes.c_int * 1)(0), 2),
        "process_madvise": lambda: call(440, pidfd, vector, 1, 20, 0),
        "process_mrelease": lambda: call(448, pidfd, 0),
        "setpgid": lambda: call(109, pid, pid),
        "core scheduling": lambda: call(157, 62, 2, pid, 0, 0),
    }.items():
        held("%s of %s" % (name, who), attempt)
    for name in ["environ", "mem", "maps", "smaps", "auxv", "stack", "syscall", "io", "pagemap", "personality", "fd/0", "cwd/x",
                 "root/etc/passwd", "exe", "ns/net", "timers", "numa_maps"]:
        held("/proc of %s: %s" % (who, name), lambda: os.read(os.open("/proc/%d/%s" % (pid, name), os.O_RDONLY), 9))
    for name in ["mem", "oom_score_adj", "clear_refs", "comm", "autogroup", "coredump_filter", "timerslack_ns", "attr/current"]:
        held("writing to /proc of %s: %s" % (who, name), lambda: os.open("/proc/%d/%s" % (pid, name), os.O_WRONLY))
    is_open("command line of %s" % who, lambda: open("/proc/%d/cmdline" % pid).read())
for which in [1, 2]:
    held("setpriority of many, %d" % which, lambda: call(141, which, 0, 10), PERM)
    held("ioprio_set of many, %d" % which, lambda: call(251, which + 1, 0, 3 << 13), PERM)

# The network and other programs' sockets.
for family in range(1, 46):
    for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET]:
        held("socket of family %d, type %d" % (family, kind), lambda: call(41, family, kind, 0), PERM)
held("socket with high bits", lambda: call(41, 2 + (1 << 32), 1, 0), PERM)
held("socket as x32", lambda: call(0x40000000 + 41, 2, 1, 0), [errno.ENOSYS])
for kind in [socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC]:
    held("pair of datagram sockets, %d" % kind, lambda: call(53, 1, kind, 0, words), PERM)
held("connection to this machine", lambda: socket.create_connection(("127.0.0.1", port), 2))
is_open("pair of stream sockets", lambda: socket.socketpair())

# Terminals, devices, the store.
for flags in [os.O_RDONLY, os.O_WRONLY, os.O_RDWR]:
    flags |= os.O_NOCTTY | os.O_NONBLOCK
    name = os.path.basename(terminal)
    for how, attempt in {
        "by path": lambda: os.open(terminal, flags),
        "by its folder": lambda: os.open(name, flags, dir_fd=os.open("/dev/pts", os.O_PATH)),
        "by its number": lambda: os.open("/proc/self/fd/%d" % os.open(terminal, os.O_PATH), flags),
        "by the root of a process": lambda: os.open("/proc/self/root" + terminal, flags),
        "openat2": lambda: call(437, -100, terminal.encode(), (ctypes.c_uint64 * 3)(flags, 0, 0), 24),
    }.items():
        held("terminal %s, flags %d" % (how, flags), attempt, DENIED + [errno.ENOSYS] * (how == "openat2"))
harmless = {"/dev/" + name for name in ["null", "zero", "full", "random", "urandom"]}
for folder, _, names in os.walk("/dev"):
    for name in names:
        path = os.path.join(folder, name)
        kind = os.lstat(path).st_mode
        if stat.S_ISLNK(kind) or stat.S_ISSOCK(kind):
            continue
        for flags in [os.O_RDONLY, os.O_WRONLY]:
            test = is_open if path in harmless else held
            test("%s, flags %d" % (path, flags), lambda: os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)))
for name in ["", "-wal", "-shm", "-journal", "-newest", ".v2.bak"]:
    for flags in [os.O_RDONLY, os.O_RDWR]:
        held("store%s, flags %d" % (name, flags), lambda: fcntl.lockf(os.open(store + name, flags), fcntl.LOCK_SH), DENIED)
for path in ["/proc/kcore", "/proc/kmsg"]:
    held(path, lambda: os.open(path, os.O_RDONLY))

# Changes outside of the project.
victim, directory = out + "/victim", os.open(out, os.O_RDONLY)
own = open("own", "w")
for name, attempt in {
    "new file": lambda: os.open(out + "/new", os.O_WRONLY | os.O_CREAT),
    "new file by its folder": lambda: os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=directory),
    "file without a name": lambda: os.open(out, os.O_WRONLY | os.O_TMPFILE),
    "write": lambda: os.open(victim, os.O_WRONLY),
    "append": lambda: os.open(victim, os.O_WRONLY | os.O_APPEND),
    "truncating open": lambda: os.open(victim, os.O_RDONLY | os.O_TRUNC),
    "truncate": lambda: os.truncate(victim, 0),
    "ftruncate": lambda: os.ftruncate(os.open(victim, os.O_RDONLY), 0),
    "reopen to write": lambda: os.open("/proc/self/fd/%d" % os.open(victim, os.O_RDONLY), os.O_WRONLY),
    "unlink": lambda: os.unlink(victim),
    "rmdir": lambda: os.rmdir(out + "/empty"),
    "mkdir": lambda: os.mkdir(out + "/new"),
    "symlink": lambda: os.symlink("x", out + "/new"),
    "link out": lambda: os.link("own", out + "/new"),
    "link in": lambda: os.link(victim, "hard"),
    "rename out": lambda: os.rename("own", out + "/new"),
    "rename in": lambda: os.rename(victim, "stolen"),
    "exchange": lambda: call(316, -100, b"own", -100, victim.encode(), 2),
    "fifo": lambda: os.mkfifo(out + "/new"),
    "device": lambda: os.mknod("disk", 0o60600, os.makedev(8, 0)),
    "character device": lambda: os.mknod("tty", 0o20600, os.makedev(4, 1)),
    "through a link": lambda: (os.symlink(out, "link"), os.open("link/new", os.O_WRONLY | os.O_CREAT)),
}.items():
    held(name + " outside", attempt)

# Modes with which a program runs as its owner or group.
for mode in [0o4755, 0o2755, 0o6755]:
    created, unnamed = os.O_CREAT | os.O_WRONLY, os.O_TMPFILE | os.O_RDWR
    how = {flags: (ctypes.c_uint64 * 3)(flags, mode, 0) for flags in [created, unnamed]}
    for name, attempt in {
        "chmod": lambda: call(90, b"own", mode),
        "fchmod": lambda: call(91, own.fileno(), mode),
        "fchmodat": lambda: call(268, -100, b"own", mode),
        "fchmodat2": lambda: call(452, -100, b"own", mode, 0),
        "fchmodat2 of a descriptor": lambda: call(452, own.fileno(), b"", mode, 0x1000),
        "chmod with high bits": lambda: call(90, b"own", mode + (1 << 32)),
        "creat": lambda: call(85, b"made", mode),
        "open": lambda: call(2, b"made", created, mode),
        "open without a name": lambda: call(2, b".", unnamed, mode),
        "openat": lambda: call(257, -100, b"made", created, mode),
        "openat without a name": lambda: call(257, -100, b".", unnamed, mode),
        "openat with high bits": lambda: call(257, -100, b"made", created + (1 << 32), mode),
        "mknod": lambda: call(133, b"made", stat.S_IFREG | mode, 0),
        "mknodat": lambda: call(259, -100, b"made", stat.S_IFREG | mode, 0),
    }.items():
        held("%s, mode %o" % (name, mode), attempt, PERM)
    held("openat2, mode %o" % mode, lambda: call(437, -100, b"made", how[created], 24), [errno.ENOSYS])
    held("openat2 without a name, mode %o" % mode, lambda: call(437, -100, b".", how[unnamed], 24), [errno.ENOSYS])
held("capability of a file", lambda: os.setxattr("own", "security.capability", struct.pack("<5I", 0x2000001, 1, 0, 0, 0)), PERM)
is_open("reading outside", lambda: open(victim).read())
is_open("mode of a file outside", lambda: os.chmod(victim, 0o640))
is_open("times of a file outside", lambda: os.utime(victim, (0, 0)))
is_open("extended attribute of a file outside", lambda: os.setxattr(victim, "user.x", b"y"))
is_open("shared memory of System V", lambda: call(29, 0, 4096, 0o600 | 0o1000))
is_open("memory file", lambda: os.memfd_create("x"))
is_open("kernel log", lambda: call(103, 3, ctypes.create_string_buffer(64), 64))
is_open("user namespace", lambda: os.close(os.open("/proc/self/ns/user", os.O_RDONLY)) or call(272, 0x10000000))
held("rights in a user namespace", lambda: os.write(os.open("/proc/self/uid_map", os.O_WRONLY), b"0 %d 1" % os.getuid()))

# Settings of the kernel.
for top in ["/proc/sys", "/proc/irq", "/sys"]:
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                held(path, lambda: os.close(os.open(path, os.O_WRONLY)))
for path in ["/proc/sysrq-trigger", "/etc/passwd", "/etc/shadow", "/root/.bashrc", "/tmp", "/var/tmp", "/dev/shm"]:
    held("writing to " + path, lambda: os.open(path + "/x" if os.path.isdir(path) else path, os.O_WRONLY | os.O_CREAT))
