//! Attempts to write outside the project.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_sandbox::{Guard, SandboxConfig, SandboxMode};
use rstest::rstest;

use crate::support::{Yard, can, has_python};

/// Returns the entries of a directory with their contents.
fn contents(directory: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let read = |entry: std::fs::DirEntry| {
        let kind = entry.file_type().unwrap();
        let content =
            if kind.is_file() { std::fs::read_to_string(entry.path()).unwrap() } else { String::new() };
        (entry.file_name().into_string().unwrap(), content)
    };
    entries.map(read).collect()
}

#[rstest]
#[case::by_path("echo x > OUT/new")]
#[case::over_a_file("echo x > OUT/victim")]
#[case::at_its_end("echo x >> OUT/victim")]
#[case::by_dots("echo x > ../outside/new")]
#[case::from_there("cd OUT && echo x > new")]
#[case::through_a_linked_directory("ln -s OUT link && echo x > link/new")]
#[case::through_a_linked_file("ln -s OUT/victim link && echo x > link")]
#[case::by_a_hard_link("ln OUT/victim hard && echo x > hard")]
#[case::by_renaming_out("echo x > a && mv a OUT/new")]
#[case::by_renaming_in("mv OUT/victim stolen")]
#[case::by_exchanging("echo x > a && mv --exchange a OUT/victim")]
#[case::by_its_descriptor("exec 3< OUT/victim; echo x > /proc/self/fd/3")]
#[case::by_the_descriptor_of_its_directory("exec 3< OUT; echo x > /proc/self/fd/3/new")]
#[case::by_the_root_of_a_process("echo x > /proc/self/root/OUT/new")]
#[case::by_truncation("truncate -s 0 OUT/victim")]
#[case::by_removal("rm -f OUT/victim; rmdir OUT/empty; test -e OUT/victim && test -e OUT/empty && false")]
#[case::a_directory("mkdir OUT/new")]
#[case::a_link("ln -s x OUT/new")]
#[case::a_pipe("mkfifo OUT/new")]
#[case::a_copy("echo x > a && cp a OUT/new")]
#[case::dd("echo x | dd of=OUT/victim conv=notrunc")]
#[case::tee("echo x | tee OUT/new")]
#[case::sed("sed -i s/kept/gone/ OUT/victim")]
#[case::nested("bash -c 'bash -c \"echo x > OUT/new\"'")]
#[case::without_environment("env -i /bin/bash -c 'echo x > OUT/new'")]
#[case::in_the_background("(echo x > OUT/new) & wait $!")]
#[case::nohup("nohup bash -c 'echo x > OUT/new'")]
#[case::in_a_session_of_its_own("setsid -w bash -c 'echo x > OUT/new'")]
#[case::in_a_user_namespace("unshare -r bash -c 'echo x > OUT/new'")]
#[case::in_a_mount_namespace("unshare -m bash -c 'mount --bind . OUT && echo x > new && false'")]
#[case::by_mounting("mount --bind . OUT")]
#[case::in_another_root("unshare -r chroot / bash -c 'echo x > OUT/new'")]
#[case::by_a_function("f() { echo x > OUT/new; }; f")]
#[case::by_eval("eval 'echo x > OU''T/new'")]
fn a_write_outside_fails(#[case] command: &str) {
    if !can(&[Guard::Writes, Guard::Truncation]) {
        return;
    }
    let yard = Yard::new();
    std::fs::write(yard.outside.join("victim"), "kept").unwrap();
    std::fs::create_dir(yard.outside.join("empty")).unwrap();
    let before = contents(&yard.outside);
    let output = yard.bash(command);
    assert!(output.contains("[exit code"), "{output}");
    assert_eq!(contents(&yard.outside), before, "{output}");
}

/// The kernel itself empties the directory `work` below the work directory of an overlay, without asking Landlock. An
/// overlay needs no `mount`: the newer calls prepare one in a user namespace.
#[test]
fn an_overlay_in_a_user_namespace_empties_no_directory_outside() {
    if !can(&[Guard::Writes, Guard::Network]) || !has_python() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let yard = Yard::new();
    std::fs::create_dir(yard.outside.join("work")).unwrap();
    std::fs::write(yard.outside.join("work/victim"), "kept").unwrap();
    let output = yard.python(
        r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
NEW_USER, NEW_MOUNTS, SET_FLAG, SET_STRING, CREATE = 0x10000000, 0x20000, 0, 1, 6
def call(name, number, *arguments):
    result = libc.syscall(number, *arguments)
    print(name, "DONE" if result >= 0 else ctypes.get_errno())
    return result
os.mkdir("lower")
os.mkdir("upper")
libc.unshare(NEW_USER | NEW_MOUNTS)
overlay = call("fsopen", 430, b"overlay", 0)
call("userxattr", 431, overlay, SET_FLAG, b"userxattr", None, 0)
for key, value in (("lowerdir", "lower"), ("upperdir", "upper")):
    call(key, 431, overlay, SET_STRING, key.encode(), (os.getcwd() + "/" + value).encode(), 0)
call("workdir", 431, overlay, SET_STRING, b"workdir", b"OUT", 0)
call("create", 431, overlay, CREATE, None, None, 0)
call("fsmount", 432, overlay, 0, 0)
call("fspick", 433, -100, b"/", 0)
call("open_tree", 428, -100, b"OUT", 1)
call("open_tree_attr", 467, -100, b"OUT", 1, None, 0)
"#,
    );
    assert!(!output.contains("DONE") && output.contains("fsopen 1"), "{output}");
    assert_eq!(std::fs::read_to_string(yard.outside.join("work/victim")).unwrap(), "kept", "{output}");
}

#[test]
fn writes_by_system_calls_fail_too() {
    if !can(&[Guard::Writes, Guard::Truncation]) || !has_python() {
        return;
    }
    let yard = Yard::new();
    std::fs::write(yard.outside.join("victim"), "kept").unwrap();
    let before = contents(&yard.outside);
    let output = yard.python(
        r#"
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
out, project = "OUT", os.getcwd()
def attempt(name, what):
    try:
        what()
        print("DONE", name)
    except OSError as error:
        print("refused", name, error.errno)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "syscall")
open("a", "w").close()
directory = os.open(out, os.O_RDONLY)
victim = os.open(out + "/victim", os.O_RDONLY)
attempt("openat", lambda: os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=directory))
attempt("nameless", lambda: os.open(out, os.O_WRONLY | os.O_TMPFILE))
attempt("truncate", lambda: os.truncate(out + "/victim", 0))
attempt("ftruncate", lambda: os.ftruncate(victim, 0))
attempt("renameat", lambda: os.rename("a", "new", dst_dir_fd=directory))
attempt("linkat", lambda: os.link("a", "new", dst_dir_fd=directory))
attempt("linkat in", lambda: os.link(out + "/victim", "hard"))
attempt("mmap", lambda: mmap.mmap(victim, 4, mmap.MAP_SHARED, mmap.PROT_WRITE))
attempt("device", lambda: os.mknod("disk", 0o60600, os.makedev(8, 0)))
attempt("character device", lambda: os.mknod("memory", 0o20600, os.makedev(1, 1)))
attempt("io_uring", lambda: call(425, 8, ctypes.create_string_buffer(120)))
attempt("open_by_handle_at", lambda: call(304, directory, ctypes.create_string_buffer(128), 0))
attempt("oom score", lambda: open("/proc/%d/oom_score_adj" % os.getppid(), "w").write("0"))
attempt("kernel setting", lambda: open("/proc/sys/kernel/core_pattern", "w"))
"#,
    );
    assert!(!output.contains("DONE") && output.matches("refused").count() == 14, "{output}");
    assert_eq!(contents(&yard.outside), before, "{output}");
}

#[test]
fn ordinary_commands_work_in_the_sandbox() {
    let yard = Yard::new();
    for (command, expected) in [
        ("echo x > a && mkdir -p d/e && mv a d/e/b && ln d/e/b c && cat c && rm -r d", "x"),
        // `openat2` is refused, which newer versions use if the kernel has it.
        ("mkdir t && tar cf t.tar c && tar xf t.tar -C t && cat t/c", "x"),
        ("echo x > /dev/null && head -c 4 /dev/zero | wc -c", "4"),
        ("echo seen > /dev/stderr", "seen"),
        ("echo seen | tee /dev/stdout | wc -l", "2"),
        ("cat <(echo one) > >(cat)", "one"),
        ("cat <<END\nhere\nEND", "here"),
        ("printf '#!/bin/sh\necho run' > s.sh && chmod +x s.sh && ./s.sh", "run"),
        ("timeout 0.2 sleep 5; echo $? after", "124 after"),
        ("set -m; (sleep 0.1; echo job) & fg > /dev/null", "job"),
        ("sleep 300 & kill $! && wait $!; echo $?", "143"),
        ("ulimit -n 64 && ulimit -n", "64"),
        ("mktemp | grep -c \"^$TMPDIR/\"", "1"),
        ("[ \"$TMPDIR\" != /tmp ] && echo mine > $TMPDIR/note && stat -c %a $TMPDIR", "700"),
        // A later call finds it.
        ("cat $TMPDIR/note", "mine"),
        (
            "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --format=%s",
            "x",
        ),
    ] {
        let output = yard.bash(command);
        assert_eq!(output.trim(), expected, "{command}");
    }
}

#[test]
fn the_configuration_opens_more() {
    if !can(&[Guard::Writes]) {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let file = cache.path().join("lock");
    std::fs::write(&file, "").unwrap();
    let write = vec![cache.path().join("open"), file, cache.path().join("missing")];
    std::fs::create_dir(&write[0]).unwrap();
    let yard = Yard::with(SandboxConfig::default().write(write));
    let directory = cache.path().display();
    let output = yard.bash(&format!("echo x > {directory}/open/a && echo y > {directory}/lock && echo done"));
    assert_eq!(output.trim(), "done");
    for closed in ["b", "missing", "missing/a"] {
        let output = yard.bash(&format!("echo x > {directory}/{closed}"));
        assert!(output.contains("[exit code 1]"), "{closed}: {output}");
    }
}

#[test]
fn a_disabled_sandbox_enforces_nothing() {
    let yard = Yard::with(SandboxConfig::default().mode(SandboxMode::Off));
    assert_eq!(yard.bash("echo x > OUT/new && cat OUT/new").trim(), "x");
}

/// An agent that is run by an agent is confined twice. A test binary cannot be one, so the kernel's part is tried: the
/// system calls that confine still exist, and what the outer sandbox forbids stays forbidden.
#[test]
fn sandboxes_can_be_nested() {
    if !can(&[Guard::Writes]) {
        return;
    }
    let output = Yard::new().bash("bash -c 'bash -c \"echo x > OUT/new\"'");
    assert!(output.contains("Permission denied"), "{output}");
}
