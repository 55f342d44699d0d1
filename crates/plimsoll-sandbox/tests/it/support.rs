//! A project with a sandbox, and targets of its commands.

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

/// Returns whether the kernel enforces these guards, and prints if it does not.
pub(crate) fn can(guards: &[Guard]) -> bool {
    let sandbox = Sandbox::new(SandboxConfig::default());
    let missing: Vec<_> = guards.iter().filter(|guard| !sandbox.confinement().holds(**guard)).collect();
    if !missing.is_empty() {
        println!("SKIPPED: this kernel cannot hold {missing:?}");
    }
    missing.is_empty()
}

/// Returns whether python exists, for what a shell cannot do, and prints if it does not.
pub(crate) fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("SKIPPED: python3 is missing");
    }
    found
}

/// How long to read output after a shell has ended, because it does not wait for `command > >(tee log)`.
const FLUSH: Duration = Duration::from_millis(100);

/// A project whose commands are confined, and a directory next to it.
pub(crate) struct Yard {
    directory: TempDir,
    sandbox: Sandbox,
    pub(crate) project: PathBuf,
    pub(crate) outside: PathBuf,
}

impl Yard {
    pub(crate) fn new() -> Yard {
        Yard::with(SandboxConfig::default())
    }

    pub(crate) fn with(config: SandboxConfig) -> Yard {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let (project, outside) = (path.join("project"), path.join("outside"));
        std::fs::create_dir(&project).unwrap();
        std::fs::create_dir(&outside).unwrap();
        Yard { directory, sandbox: Sandbox::new(config), project, outside }
    }

    /// Changes the settings of the sandbox.
    pub(crate) fn confine(&mut self, config: SandboxConfig) {
        self.sandbox = self.sandbox.with_config(config);
    }

    /// Returns the parent of both directories.
    pub(crate) fn directory(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.project.join(name), content).unwrap();
    }

    /// Runs a command line, and returns its output and exit status. `OUT` is the directory next to the project.
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
        let mut reply = flushed.or_else(|_| output.recv_timeout(Duration::from_secs(10))).unwrap();
        match (status.code(), status.signal()) {
            (Some(0), _) => {}
            (Some(code), _) => reply += &format!("\n[exit code {code}]\n"),
            (None, signal) => reply += &format!("\n[ended by signal {}]\n", signal.unwrap_or_default()),
        }
        reply
    }

    /// Runs a Python program and returns its output.
    pub(crate) fn python(&self, program: &str) -> String {
        self.write("try.py", &program.replace("OUT", self.outside.to_str().unwrap()));
        self.bash("python3 try.py")
    }
}

/// A terminal of the user with unread input.
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

    /// Returns the input that is left for the program in the terminal.
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
