//! A project with a sandbox, and what its commands try to reach.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use plimsoll_sandbox::{Guard, Sandbox, SandboxConfig};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// Whether the kernel enforces these guards; if not, it is said.
pub(crate) fn can(guards: &[Guard]) -> bool {
    let sandbox = Sandbox::new(SandboxConfig::default());
    let missing: Vec<_> = guards.iter().filter(|guard| !sandbox.confinement().holds(**guard)).collect();
    if !missing.is_empty() {
        println!("SKIPPED: this kernel cannot hold {missing:?}");
    }
    missing.is_empty()
}

/// Whether python exists, for what a shell cannot try; if not, it is said.
pub(crate) fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("SKIPPED: there is no python3");
    }
    found
}

/// Set in a test process that runs as an ordinary user because the same test, as root, has started it.
const AS_USER: &str = "PLIMSOLL_TEST_AS_USER";

/// Runs a test as an ordinary user as well, if this process is root's: each may do what the other may not. A process that is not
/// root's can only try the one.
pub(crate) fn also_as_user(test: &str) {
    if std::env::var_os(AS_USER).is_some() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED as root: this process is an ordinary user's");
        return;
    }
    let (mut command, _copy) = user_command();
    let output = command.args(["--exact", test, "--include-ignored", "--nocapture"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    println!("as an ordinary user:\n{told}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "as an ordinary user: {told}{errors}");
}

/// This test binary as it is started for user 1000, with the folder that holds a copy of it if it needs one.
fn user_command() -> (Command, Option<TempDir>) {
    let setpriv = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=1000", "--regid=1000", "--clear-groups"]);
        command.env(AS_USER, "1").env("TMPDIR", "/tmp").env("HOME", "/nonexistent").current_dir("/");
        command
    };
    let own = std::env::current_exe().unwrap();
    let reached = setpriv().args(["test", "-x"]).arg(&own).status().expect("there must be a `setpriv`");
    let mut command = setpriv();
    if reached.success() {
        command.arg(own);
        return (command, None);
    }
    // The binary may be in a folder that is root's alone.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let copy = folder.path().join("it");
    std::fs::copy(&own, &copy).unwrap();
    command.arg(copy);
    (command, Some(folder))
}

/// How long output is read after a shell has ended: it does not wait for `command > >(tee log)`.
const FLUSH: Duration = Duration::from_millis(100);

/// A project whose commands are confined, and a directory beside it.
pub(crate) struct Yard {
    folder: TempDir,
    sandbox: Sandbox,
    pub(crate) project: PathBuf,
    pub(crate) outside: PathBuf,
}

impl Yard {
    pub(crate) fn new() -> Yard {
        Yard::with(SandboxConfig::default())
    }

    pub(crate) fn with(config: SandboxConfig) -> Yard {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let (project, outside) = (path.join("project"), path.join("outside"));
        std::fs::create_dir(&project).unwrap();
        std::fs::create_dir(&outside).unwrap();
        Yard { folder, sandbox: Sandbox::new(config), project, outside }
    }

    /// Confines commands in another way from now on.
    pub(crate) fn confine(&mut self, config: SandboxConfig) {
        self.sandbox = self.sandbox.with_config(config);
    }

    /// The directory that the project and the one beside it are in.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.project.join(name), content).unwrap();
    }

    /// Runs a command line, and returns what it prints and how it ended. `OUT` is the directory beside the project.
    pub(crate) fn bash(&self, line: &str) -> String {
        let line = line.replace("OUT", self.outside.to_str().unwrap());
        let path = std::env::var_os("PATH");
        let mut command = self.sandbox.command("bash", &self.project, path.as_deref()).unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        command.arg("-c").arg(line).stdin(Stdio::null());
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut group = self.sandbox.spawn(&mut command, &self.project).unwrap();
        // The command has the only ends of the pipe that are written to.
        drop(command);
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = reader.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
        group.waiter().wait();
        let flushed = output.recv_timeout(FLUSH);
        let status = group.end().unwrap();
        let mut told = flushed.or_else(|_| output.recv_timeout(Duration::from_secs(10))).unwrap();
        match (status.code(), status.signal()) {
            (Some(0), _) => {}
            (Some(code), _) => told += &format!("\n[exit code {code}]\n"),
            (None, signal) => told += &format!("\n[ended by signal {}]\n", signal.unwrap_or_default()),
        }
        told
    }

    /// The output of a Python program that is run confined.
    pub(crate) fn python(&self, program: &str) -> String {
        self.write("try.py", &program.replace("OUT", self.outside.to_str().unwrap()));
        self.bash("python3 try.py")
    }
}

/// A terminal of the user's, in which something was typed that nothing has read yet.
pub(crate) struct Terminal {
    _keyboard: File,
    pub(crate) shell: File,
    pub(crate) path: String,
}

impl Terminal {
    pub(crate) const TYPED: &str = "hunter2-typed\n";

    pub(crate) fn open() -> Terminal {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let path = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK;
        let shell = rustix::fs::open(path.as_str(), flags, rustix::fs::Mode::empty()).unwrap();
        let mut keyboard = File::from(keyboard);
        keyboard.write_all(Terminal::TYPED.as_bytes()).unwrap();
        Terminal { _keyboard: keyboard, shell: shell.into(), path }
    }

    /// What the program in the terminal gets to read.
    pub(crate) fn left(mut self) -> String {
        let mut line = [0; 64];
        let count = self.shell.read(&mut line).unwrap_or(0);
        String::from_utf8_lossy(&line[..count]).into_owned()
    }
}

/// A process outside the sandbox, which ends with the test.
pub(crate) struct Bystander(Child);

impl Bystander {
    pub(crate) fn new() -> Bystander {
        let mut command = Command::new("sleep");
        command.arg("600").env("BYSTANDER_SECRET", "hunter2").stdin(Stdio::null()).stdout(Stdio::null());
        Bystander(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
