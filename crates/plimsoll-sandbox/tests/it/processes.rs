//! Other processes: signals to them, access to their memory, and processes that try to outlive their call.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_sandbox::{Guard, Sandbox, SandboxConfig, SandboxMode};
use rstest::rstest;

use crate::support::{Bystander, Yard, can, has_python};

/// Directory and command of the host that is killed; set only for it.
const DIRECTORY: &str = "PLIMSOLL_KILLED_DIRECTORY";
const COMMAND: &str = "PLIMSOLL_KILLED_COMMAND";

/// Number of processes that run `sleep` with this time. Each test has its own.
fn sleepers(time: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| *line == format!("sleep\0{time}\0").into_bytes()).count()
}

/// Waits until there are none: a killed process needs a moment to end.
fn await_none(time: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if sleepers(time) == 0 {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn other_processes_cannot_be_signalled() {
    if !can(&[Guard::Signals]) {
        return;
    }
    let yard = Yard::new();
    let mut bystander = Bystander::new();
    let pid = bystander.pid();
    for command in [
        format!("kill -9 {pid}"),
        format!("kill -0 {pid}"),
        format!("bash -c 'kill -9 {pid}'"),
        format!("setsid -w bash -c 'kill -9 {pid}'"),
        format!("env -i bash -c 'kill -9 {pid}'"),
        format!("unshare -r bash -c 'kill -9 {pid}'"),
        // That of this process, which is the agent.
        "kill -9 $PPID".into(),
        format!("prlimit --pid {pid} --cpu=0:0"),
    ] {
        let output = yard.bash(&command);
        assert!(output.contains("[exit code"), "{command}: {output}");
    }
    let output = yard.bash("kill -9 -1; echo on my own");
    assert!(output.contains("on my own"), "{output}");
    let output = yard.bash("kill -9 0");
    assert!(output.contains("ended by signal 9"), "{output}");
    assert!(bystander.is_alive());
}

#[test]
fn priority_and_processors_of_other_processes_cannot_be_changed() {
    if !can(&[Guard::Network]) || !has_python() {
        return;
    }
    let yard = Yard::new();
    let bystander = Bystander::new();
    let scheduling = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", bystander.pid())).unwrap();
        let fields: Vec<String> = stat.rsplit_once(") ").unwrap().1.split(' ').map(str::to_owned).collect();
        let status = std::fs::read_to_string(format!("/proc/{}/status", bystander.pid())).unwrap();
        let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap().to_owned();
        // Priority, nice value, real-time priority and policy.
        ([15, 16, 37, 38].map(|field| fields[field].clone()), allowed)
    };
    let before = scheduling();
    let program = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *arguments):
    if libc.syscall(*arguments) < 0:
        print("refused", name, ctypes.get_errno())
    else:
        print("DONE", name)
parameter = (ctypes.c_int * 1)(0)
attributes = (ctypes.c_uint32 * 12)(48, 0, 0, 0, 5)
processors = (ctypes.c_uint64 * 16)(1)
for name, pid in [("other", PID), ("agent", os.getppid()), ("as 64 bits", PID + (1 << 32))]:
    attempt(name + " setpriority", 141, 0, pid, 19)
    attempt(name + " setpriority of a group", 141, 1, pid, 19)
    attempt(name + " ioprio_set", 251, 1, pid, 3 << 13)
    attempt(name + " sched_setscheduler", 144, pid, 3, parameter)
    attempt(name + " sched_setparam", 142, pid, parameter)
    attempt(name + " sched_setattr", 314, pid, attributes, 0)
    attempt(name + " sched_setaffinity", 203, pid, 128, processors)
    attempt(name + " prlimit64", 302, pid, 0, (ctypes.c_uint64 * 2)(1, 1), 0)
    attempt(name + " migrate_pages", 256, pid, 64, processors, processors)
    attempt(name + " move_pages", 279, pid, 1, (ctypes.c_uint64 * 1)(0), 0, parameter, 2)
    attempt(name + " kcmp", 312, os.getpid(), pid, 1, 0, 0)
    attempt(name + " process_madvise", 440, libc.syscall(434, pid, 0), (ctypes.c_uint64 * 2)(4096, 4096), 1, 20, 0)
for which in [1, 2]:
    attempt("setpriority of many", 141, which, 0, 19)
    attempt("ioprio_set of many", 251, which + 1, 0, 3 << 13)
"#;
    let output = yard.python(&program.replace("PID", &bystander.pid().to_string()));
    if cfg!(target_arch = "x86_64") {
        assert!(!output.contains("DONE") && output.matches("refused").count() == 40, "{output}");
    }
    assert_eq!(scheduling(), before);
    for (command, expected) in [
        // The tests themselves may run with a nice value.
        ("expr $(nice -n 5 nice) - $(nice)", "5"),
        ("ionice -c 3 true && echo done", "done"),
        ("taskset -c 0 true && echo done", "done"),
        ("chrt --batch 0 true && echo done", "done"),
        ("printf 'all:\n\t@echo made\n' > Makefile && nice make", "made"),
    ] {
        assert_eq!(yard.bash(command).trim(), expected, "{command}");
    }
    // Without the sandbox it is changed, so that the attempts above are real ones.
    let yard = Yard::with(SandboxConfig::default().mode(SandboxMode::Off));
    yard.bash(&format!("renice -n 19 -p {}", bystander.pid()));
    assert_ne!(scheduling(), before);
}

#[test]
fn other_processes_cannot_be_looked_into() {
    if !can(&[Guard::Memory]) {
        return;
    }
    let yard = Yard::new();
    let bystander = Bystander::new();
    let pid = bystander.pid();
    // It is started before its environment is in place.
    let is_seen = || {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        environment.windows(7).any(|seen| seen == b"hunter2")
    };
    while !is_seen() {
        std::thread::sleep(Duration::from_millis(1));
    }
    for (look, file) in [
        ("cat", "environ"),
        ("cat", "mem"),
        ("cat", "maps"),
        ("readlink", "fd/0"),
        ("ls", "cwd/"),
        ("ls", "root/"),
        ("readlink", "exe"),
        ("cat", "auxv"),
    ] {
        let output = yard.bash(&format!("{look} /proc/{pid}/{file}"));
        assert!(output.contains("[exit code") && !output.contains("hunter2"), "{file}: {output}");
    }
    assert!(yard.bash("cat /proc/$PPID/environ").contains("[exit code 1]"), "the agent's own");
    let output = yard.bash("cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep SECRET");
    assert!(!output.contains("hunter2"), "{output}");
    if has_python() {
        // Attach (16) to the bystander, to the agent and to a child; then take a descriptor of the bystander's (438).
        let program = format!(
            "import ctypes, os, time\nlibc = ctypes.CDLL(None, use_errno=True)\nchild = os.fork()\n\
             if child == 0:\n    time.sleep(60)\n\
             print(*[libc.ptrace(16, pid, 0, 0) for pid in ({pid}, os.getppid(), child)])\n\
             print(libc.syscall(438, libc.syscall(434, {pid}, 0), 0, 0))\n"
        );
        let output = yard.python(&program);
        assert_eq!(output.split_whitespace().collect::<Vec<_>>(), ["-1", "-1", "0", "-1"], "{output}");
    }
}

/// A command of root could make a program of the system run as root for every user.
#[rstest]
#[case::chmod("cp /bin/true new; chmod u+s new")]
#[case::chmod_of_the_group("cp /bin/true new; chmod 2755 new")]
#[case::elsewhere("chmod 6755 ELSEWHERE")]
#[case::install("install -m 4755 /bin/true new")]
#[case::at_creation("python3 -c 'import os; os.open(\"new\", os.O_CREAT | os.O_WRONLY, 0o4755)'")]
#[case::as_a_node("python3 -c 'import os; os.mknod(\"new\", 0o104755)'")]
#[case::without_a_name_at_first(
    "python3 -c 'import os; made = os.open(\".\", os.O_TMPFILE | os.O_RDWR, 0o6755)
os.link(f\"/proc/self/fd/{made}\", \"new\", src_dir_fd=made, follow_symlinks=True)'"
)]
// The mode is in a structure, which a seccomp filter does not see.
#[case::by_openat2(
    "python3 -c 'import ctypes, os; how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o6755, 0)
ctypes.CDLL(None).syscall(437, -100, b\"new\", how, ctypes.c_size_t(24))'"
)]
#[case::by_openat2_without_a_name_at_first(
    "python3 -c 'import ctypes, os; how = (ctypes.c_uint64 * 3)(os.O_TMPFILE | os.O_RDWR, 0o6755, 0)
made = ctypes.CDLL(None).syscall(437, -100, b\".\", how, ctypes.c_size_t(24))
os.link(f\"/proc/self/fd/{made}\", \"new\", src_dir_fd=made, follow_symlinks=True)'"
)]
// Root could keep the mode of a file that it writes to.
#[case::with_new_content("echo > raised")]
fn no_file_gets_a_mode_that_raises_rights(#[case] command: &str) {
    if !can(&[Guard::Network]) || command.starts_with("python3") && !has_python() {
        return;
    }
    assert_eq!(raised_modes(&Yard::new(), command), [] as [String; 0], "{command}");
    // Without the sandbox it works, so the attempt is a real one.
    let is_real = rustix::process::geteuid().is_root() || !command.ends_with("> raised");
    if is_real {
        let yard = Yard::with(SandboxConfig::default().mode(SandboxMode::Off));
        assert_eq!(raised_modes(&yard, command).len(), 1, "{command}");
    }
}

/// Runs a command, and returns the changed files that have such a mode then.
fn raised_modes(yard: &Yard, command: &str) -> Vec<String> {
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    let raised = yard.project.join("raised");
    yard.write("raised", "");
    std::fs::set_permissions(&raised, PermissionsExt::from_mode(0o6755)).unwrap();
    yard.bash(&command.replace("ELSEWHERE", &elsewhere.path().display().to_string()));
    // Other modes can be set as before.
    assert!(!yard.bash("echo x > plain && chmod 1755 plain && test -x plain").contains("[exit code"));
    let paths = [yard.project.join("new"), elsewhere.path().to_owned(), raised];
    let found = paths.into_iter().filter_map(|path| {
        let found = path.metadata().ok()?;
        let is_untouched = path.ends_with("raised") && found.len() == 0;
        let mode = found.permissions().mode();
        (mode & 0o6000 != 0 && !is_untouched).then(|| format!("{} has {mode:o}", path.display()))
    });
    found.collect()
}

#[test]
fn running_a_setuid_program_gains_no_rights() {
    if !can(&[Guard::Writes]) {
        return;
    }
    let yard = Yard::new();
    let output = yard.bash("grep -h NoNewPrivs /proc/self/status; bash -c 'grep Seccomp: /proc/self/status'");
    assert_eq!(output.split_whitespace().collect::<Vec<_>>(), ["NoNewPrivs:", "1", "Seccomp:", "2"]);
}

#[rstest]
#[case::background("sleep T &")]
#[case::nohup("nohup sleep T &")]
#[case::session("setsid sleep T &")]
#[case::session_in_a_subshell("(setsid sleep T &)")]
#[case::daemon("setsid -f setsid -f sleep T")]
#[case::without_environment("env -i setsid -f sleep T")]
#[case::job_of_its_own("set -m; sleep T & disown")]
#[case::closed_output("setsid -f sleep T <&- >&- 2>&-")]
#[case::namespace("(unshare -pf setsid sleep T || setsid sleep T) & sleep 0.2")]
#[case::stopped("setsid -f sleep T; sleep 0.1; pkill -STOP -f 'sleep T'; true")]
#[case::deaf("setsid -f bash -c 'trap \"\" TERM HUP INT; exec sleep T'; sleep 0.1")]
fn nothing_outlives_its_call(#[case] command: &str) {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    if !can(&[Guard::Processes]) {
        return;
    }
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let time = format!("31{}.{number}", std::process::id());
    let yard = Yard::new();
    let seen = format!(
        "{}\nfor i in 1 2 3 4 5 6 7 8 9; do pgrep -fx 'sleep {time}' && break; sleep 0.1; done; true",
        command.replace('T', &time)
    );
    let output = yard.bash(&seen);
    assert!(output.lines().any(|line| line.trim().parse::<u32>().is_ok()), "it ran: {output}");
    assert!(await_none(&time), "{command}");
}

#[test]
fn without_a_sandbox_processes_with_the_mark_end_with_the_call() {
    let yard = Yard::with(SandboxConfig::default().mode(SandboxMode::Off));
    let time = format!("32{}", std::process::id());
    yard.bash(&format!("setsid -f setsid -f sleep {time}; nohup sleep {time} & sleep 0.3"));
    assert!(cfg!(not(target_os = "linux")) || await_none(&time));
}

/// A command in the agent's session could open its terminal by `/dev/tty`, whatever the other guards.
#[rstest]
#[case::confined(SandboxMode::Auto)]
#[case::off(SandboxMode::Off)]
fn a_command_has_its_own_session_and_no_terminal(#[case] mode: SandboxMode) {
    let yard = Yard::with(SandboxConfig::default().mode(mode));
    let output = yard.bash("cat /proc/$$/stat; cat < /dev/tty");
    let fields: Vec<&str> = output.split_whitespace().collect();
    assert_eq!((fields[0], fields[6]), (fields[5], "0"), "{output}");
    assert!(output.contains("[exit code 1]"), "{output}");
}

#[test]
fn the_end_of_one_command_does_not_end_other_commands() {
    let (one, other) = (Yard::new(), Yard::new());
    let long = std::thread::spawn(move || one.bash("setsid -f sleep 3600; sleep 1.5; echo alive"));
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..3 {
        assert_eq!(other.bash("echo short").trim(), "short");
    }
    assert_eq!(long.join().unwrap().trim(), "alive");
}

/// The host that is killed: does nothing unless it was started as one.
#[test]
fn the_killed_host() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    let sandbox = Sandbox::new(SandboxConfig::default());
    let mut command = sandbox.command("bash", directory, None).unwrap();
    command.args(["-c", &std::env::var(COMMAND).unwrap()]);
    let _group = sandbox.spawn(&mut command, directory).unwrap();
    while !directory.join("started").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn processes_end_with_a_killed_host() {
    if !can(&[Guard::Processes]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let time = format!("34{}", std::process::id());
    let command = format!("setsid -f sleep {time}; sleep {time} & touch started; sleep {time}");
    let mut host = Command::new(std::env::current_exe().unwrap());
    host.args(["--exact", "processes::the_killed_host"]).stdin(Stdio::null());
    host.env(DIRECTORY, directory.path()).env(COMMAND, command).stdout(Stdio::null()).stderr(Stdio::null());
    let status = host.status().unwrap();
    assert!(!status.success(), "it was killed");
    assert!(directory.path().join("started").exists());
    assert!(await_none(&time), "what it had started has ended");
}
