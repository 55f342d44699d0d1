//! Terminals, other devices and private files, which commands cannot open for reading.

use std::os::fd::AsRawFd;
use std::process::Command;

use plimsoll_sandbox::{Guard, SandboxConfig, SandboxMode};

use crate::support::{Terminal, Yard, can, has_python};

#[test]
fn no_way_of_opening_a_terminal_reads_what_is_typed_there() {
    if !can(&[Guard::Reads, Guard::Memory]) || !has_python() {
        return;
    }
    let terminal = Terminal::open();
    let yard = Yard::new();
    for command in [
        "timeout 2 cat THEIRS",
        "timeout 2 head -n 1 < THEIRS",
        "timeout 2 head -n 1 <> THEIRS",
        "timeout 2 dd if=THEIRS iflag=nonblock count=1",
        "ln -s THEIRS link && timeout 2 cat link",
        "cd /dev/pts && timeout 2 cat ./$(basename THEIRS)",
        "timeout 2 cat /proc/self/root/THEIRS",
        "timeout 2 cat /proc/self/cwd/../../../../../../THEIRS",
        "timeout 2 cat /proc/AGENT/fd/NUMBER",
        "timeout 2 cat /proc/AGENT/root/THEIRS",
        "exec 3< /dev/pts && timeout 2 cat /proc/self/fd/3/$(basename THEIRS)",
        "timeout 2 unshare -r cat THEIRS",
        "timeout 2 unshare -rm cat THEIRS",
        "timeout 2 unshare -rm bash -c 'mount -t devpts devpts . && cat ./$(basename THEIRS)'",
        "timeout 2 script -qc 'cat THEIRS' out",
        "timeout 2 cat /dev/tty",
        "timeout 2 cat /dev/console",
        "timeout 2 head -c 1 /dev/ptmx",
    ] {
        let command = command
            .replace("THEIRS", &terminal.path)
            .replace("AGENT", &std::process::id().to_string())
            .replace("NUMBER", &terminal.shell.as_raw_fd().to_string());
        let reply = yard.bash(&command);
        assert!(reply.contains("[exit code") && !reply.contains("hunter2"), "{command}: {reply}");
        assert!(!reply.contains("[exit code 124]"), "opened, and waits for a key: {command}: {reply}");
    }
    let reply = yard.python(
        &r#"
import ctypes, os, select
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, opened):
    try:
        descriptor = opened()
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), "")
        print("OPENED", name, os.read(descriptor, 100))
    except OSError as error:
        print("refused", name, error.errno)
flags = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK
attempt("open", lambda: os.open("THEIRS", flags))
attempt("open to write as well", lambda: os.open("THEIRS", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
attempt("openat", lambda: os.open(os.path.basename("THEIRS"), flags, dir_fd=os.open("/dev/pts", os.O_PATH)))
attempt("reopen", lambda: os.open("/proc/self/fd/%d" % os.open("THEIRS", os.O_PATH), flags))
how = (ctypes.c_uint64 * 3)(flags, 0, 0)
attempt("openat2", lambda: libc.syscall(437, -100, b"THEIRS", how, 24))
attempt("io_uring", lambda: libc.syscall(425, 8, ctypes.create_string_buffer(120)))
agent = libc.syscall(434, AGENT, 0)
attempt("descriptor of another process", lambda: libc.syscall(438, agent, NUMBER, 0))
tree = libc.syscall(428, -100, b"/dev/pts", 1)
attempt("a copy of the mount", lambda: os.open(os.path.basename("THEIRS"), flags, dir_fd=tree))
"#
        .replace("THEIRS", &terminal.path)
        .replace("AGENT", &std::process::id().to_string())
        .replace("NUMBER", &terminal.shell.as_raw_fd().to_string()),
    );
    assert!(!reply.contains("OPENED") && reply.matches("refused").count() == 8, "{reply}");
    assert_eq!(terminal.left(), Terminal::TYPED, "all of it is left for the program in that terminal");
    // Without the sandbox it is read, so that the attempts above are real ones.
    let terminal = Terminal::open();
    let yard = Yard::with(SandboxConfig::default().mode(SandboxMode::Off));
    let reply = yard.bash(&format!("timeout 20 head -n 1 {}", terminal.path));
    assert_eq!(reply, Terminal::TYPED);
}

#[test]
fn devices_that_keep_nothing_are_open_and_all_others_closed() {
    if !can(&[Guard::Reads]) {
        return;
    }
    let yard = Yard::new();
    let program = "for file in $(find /dev -type c -o -type b); do \
                   dd if=$file of=/dev/null bs=1 count=0 iflag=nonblock status=none 2>/dev/null && echo $file; done; true";
    let reply = yard.bash(program);
    let mut open: Vec<&str> = reply.lines().collect();
    open.sort_unstable();
    assert_eq!(open, ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"]);
}

#[test]
fn ordinary_reading_works() {
    let yard = Yard::new();
    std::fs::write(yard.outside.join("note"), "seen").unwrap();
    for (command, expected) in [
        ("cat OUT/note", "seen"),
        ("head -c 4 /dev/urandom | wc -c", "4"),
        ("echo a | cat /dev/stdin", "a"),
        ("echo a | cat /dev/fd/0", "a"),
        ("cat /proc/self/fd/0 < OUT/note", "seen"),
        ("diff <(echo a) <(echo a) && echo same", "same"),
        ("cat /dev/stdin <<< here", "here"),
        (
            "head -c 0 /etc/passwd /proc/self/status /proc/cpuinfo /sys/kernel/uevent_seqnum && echo read",
            "read",
        ),
        ("echo kept > $TMPDIR/a && cat $TMPDIR/a", "kept"),
        ("git --version > /dev/null && ls / > /dev/null && ls /dev > /dev/null && echo listed", "listed"),
    ] {
        let reply = yard.bash(command);
        assert_eq!(reply.trim().lines().last().unwrap_or_default(), expected, "{command}: {reply}");
    }
}

#[test]
fn terminals_that_the_user_opens_can_be_used() {
    if !can(&[Guard::Reads]) || !has_python() {
        return;
    }
    let yard = Yard::with(SandboxConfig::default().write(["/dev/ptmx", "/dev/pts"]));
    let reply = yard.python("import pty, os\npty.spawn(['sh', '-c', 'test -t 0 && echo a terminal'])");
    assert!(reply.contains("a terminal"), "{reply}");
}

#[test]
fn private_files_can_be_neither_read_nor_locked() {
    if !can(&[Guard::Reads]) || !has_python() {
        return;
    }
    let mut yard = Yard::new();
    for name in ["store.db", "store.db-wal", "beside.txt"] {
        std::fs::write(yard.outside.join(name), "open").unwrap();
    }
    std::fs::create_dir(yard.outside.join("spill")).unwrap();
    std::fs::write(yard.outside.join("spill/blob"), "an output").unwrap();
    let private = ["store.db", "store.db-wal", "spill"].map(|name| yard.outside.join(name));
    yard.confine(SandboxConfig::default().private(private));
    let reply = yard.python(
        r#"
import fcntl, os
for name in ["store.db", "store.db-wal", "spill/blob"]:
    for path in ["OUT/" + name, "/proc/self/rootOUT/" + name]:
        try:
            fcntl.lockf(os.open(path, os.O_RDONLY), fcntl.LOCK_SH, 0, 0)
            print("LOCKED", name)
        except OSError as error:
            print("refused", name, error.errno)
print(open("OUT/beside.txt").read())
"#,
    );
    assert!(!reply.contains("LOCKED") && reply.matches("refused").count() == 6, "{reply}");
    assert!(!reply.contains(" 2\n"), "the files exist: {reply}");
    assert!(reply.trim().ends_with("open"), "{reply}");
}

/// Set in a test process with its own mounts, which the same test has started.
const OWN_MOUNTS: &str = "PLIMSOLL_TEST_OWN_MOUNTS";

#[test]
fn private_files_are_closed_by_every_mount() {
    if !can(&[Guard::Reads]) {
        return;
    }
    if std::env::var_os(OWN_MOUNTS).is_none() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: only root mounts something");
            return;
        }
        let mut inner = Command::new("unshare");
        inner.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe().unwrap());
        inner.args(["--exact", "reads::private_files_are_closed_by_every_mount", "--nocapture"]);
        let output = inner.env(OWN_MOUNTS, "1").output().unwrap();
        let reply = String::from_utf8_lossy(&output.stdout);
        assert!(reply.contains("1 passed"), "{reply}{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let (terminal, mut yard) = (Terminal::open(), Yard::new());
    let directory = yard.directory();
    let store = directory.join("plimsoll.db");
    std::fs::write(&store, "sessions").unwrap();
    for (how, place, point) in [
        ("--bind", "/dev/pts", "terminals"),
        ("--rbind", "/dev", "devices"),
        ("--bind", directory.to_str().unwrap(), "again"),
    ] {
        std::fs::create_dir(yard.outside.join(point)).unwrap();
        let mounted = Command::new("mount").args([how, place]).arg(yard.outside.join(point)).status();
        assert!(mounted.unwrap().success());
    }
    std::fs::write(yard.outside.join("again/open"), "open").unwrap();
    let name = terminal.path.rsplit('/').next().unwrap();
    let reads = [
        format!("timeout 2 cat OUT/terminals/{name}"),
        format!("timeout 2 cat OUT/devices/pts/{name}"),
        "timeout 2 head -c 1 OUT/devices/ptmx".to_owned(),
        "head -c 1 OUT/again/plimsoll.db".to_owned(),
    ];
    for is_private in [true, false] {
        let private = if is_private { vec![store.clone()] } else { Vec::new() };
        yard.confine(SandboxConfig::default().private(private));
        for command in &reads {
            let reply = yard.bash(command);
            // Without being named the database is a file like others, and its other mount shows it.
            let is_denied = is_private || !command.contains("plimsoll.db");
            assert_eq!(reply.contains("Permission denied"), is_denied, "{command}: {reply}");
        }
        assert_eq!(yard.bash("cat OUT/again/open"), "open");
    }
    assert_eq!(terminal.left(), Terminal::TYPED);
}
