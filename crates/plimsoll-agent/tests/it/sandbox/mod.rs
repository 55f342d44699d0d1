//! The sandbox of `bash`, tried from inside: each test runs commands that try to get out.
//!
//! A test is skipped, with a line that says so, where the kernel cannot hold what it is about.

mod descriptors;
mod measures;
mod network;
mod processes;
mod reads;
mod writes;

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use plimsoll_agent::tools::Bash;
use plimsoll_agent::{Conversation, Event, Guard, Sandbox};
use plimsoll_config::{SandboxConfig, SandboxMode};
use plimsoll_testkit::server::{ModelServer, Reply};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::support::{Dock, run};

/// Whether the kernel holds these; if not, it is said.
pub(crate) fn can(guards: &[Guard]) -> bool {
    let sandbox = Sandbox::new(SandboxConfig::default());
    let missing: Vec<_> = guards.iter().filter(|guard| !sandbox.confinement().holds(**guard)).collect();
    if !missing.is_empty() {
        println!("SKIPPED: this kernel cannot hold {missing:?}");
    }
    missing.is_empty()
}

/// Whether python is there, for what a shell cannot try; if not, it is said.
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("SKIPPED: there is no python3");
    }
    found
}

/// Says that a test runs as an ordinary user because the same test, as root, has started it.
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
    let output = user_command().args(["--exact", test, "--include-ignored", "--nocapture"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    println!("as an ordinary user:\n{told}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "as an ordinary user: {told}{errors}");
}

/// This test binary as it is started for user 1000.
fn user_command() -> Command {
    static PROGRAM: std::sync::OnceLock<(PathBuf, Option<tempfile::TempDir>)> = std::sync::OnceLock::new();
    let setpriv = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=1000", "--regid=1000", "--clear-groups"]);
        command.env(AS_USER, "1").env("TMPDIR", "/tmp").env("HOME", "/nonexistent").current_dir("/");
        command
    };
    let (program, _) = PROGRAM.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let reached = setpriv().args(["test", "-x"]).arg(&own).status().expect("there must be a `setpriv`");
        if reached.success() {
            return (own, None);
        }
        // It may lie in a folder that is root's alone.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let copy = folder.path().join("it");
        std::fs::copy(&own, &copy).unwrap();
        (copy, Some(folder))
    });
    let mut command = setpriv();
    command.arg(program);
    command
}

/// A project whose commands are confined, and a directory beside it.
pub(crate) struct Yard {
    pub(crate) dock: Dock,
    talk: Conversation,
    pub(crate) outside: PathBuf,
}

impl Yard {
    async fn new() -> Yard {
        Yard::with(SandboxConfig::default()).await
    }

    pub(crate) async fn with(config: SandboxConfig) -> Yard {
        let mut dock = Dock::new(ModelServer::start().unwrap()).allow("bash");
        dock.agent.profile.tools = dock.agent.profile.tools.clone().with(Bash::confined(config));
        // Commands that fail in the same words are what these tests are made of.
        dock.agent.profile.limits.repeats = 0;
        let outside = dock.folder.path().canonicalize().unwrap().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let talk = dock.begin().await;
        Yard { dock, talk, outside }
    }

    /// Confines commands in another way from now on.
    pub(crate) async fn confine(&mut self, config: SandboxConfig) {
        self.dock.agent.profile.tools = self.dock.agent.profile.tools.clone().with(Bash::confined(config));
        self.talk = self.dock.begin().await;
    }

    /// What the model is answered when it runs a command. `OUT` is the directory beside the project.
    pub(crate) async fn bash(&mut self, command: &str) -> String {
        let command = command.replace("OUT", self.outside.to_str().unwrap());
        let id = format!("call_{}", self.dock.server.requests().len());
        let input = json!({ "command": command });
        self.dock.server.push_all([Reply::new().call(&id, "bash", input), Reply::new().text("Thanks.")]);
        run(&mut self.talk, "Do it").await;
        self.dock.server.last().unwrap().result(&id).unwrap().to_owned()
    }

    /// The output of a Python program that is run confined.
    async fn python(&mut self, program: &str) -> String {
        self.dock.write("try.py", &program.replace("OUT", self.outside.to_str().unwrap()));
        self.bash("python3 try.py").await
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

#[tokio::test]
async fn what_is_enforced_is_told_once_and_the_model_knows() {
    let mut yard = Yard::new().await;
    yard.bash("true").await;
    yard.bash("true").await;
    let events = yard.dock.events.lock().unwrap().clone();
    let told: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Confined { confinement, .. } => Some(confinement.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 1, "once in a conversation");
    assert_eq!(told[0], *Sandbox::new(SandboxConfig::default()).confinement());
    let sent = yard.dock.server.last().unwrap().body.to_string();
    assert_eq!(sent.contains("Commands are confined"), told[0].holds(Guard::Writes));
    assert_eq!(sent.contains("There is no network"), told[0].holds(Guard::Network));
}

#[tokio::test]
async fn a_sandbox_that_is_off_holds_nothing_but_still_ends_what_was_started() {
    let config = SandboxConfig { mode: SandboxMode::Off, ..SandboxConfig::default() };
    let mut yard = Yard::with(config).await;
    assert_eq!(yard.bash("echo x > OUT/new && cat OUT/new").await.trim(), "x");
    assert!(!yard.dock.server.last().unwrap().body.to_string().contains("Commands are confined"));
    assert_eq!(Bash::new().refusal(), None, "`auto` never refuses");
}

#[tokio::test]
async fn sandboxes_lie_in_each_other() {
    if !can(&[Guard::Writes]) {
        return;
    }
    // An agent that is run by an agent is confined twice; a test binary cannot be one, so the kernel's part is tried: the
    // system calls that confine are still there, and what the outer one forbids stays forbidden.
    let mut yard = Yard::new().await;
    let told = yard.bash("bash -c 'bash -c \"echo x > OUT/new\"'").await;
    assert!(told.contains("Permission denied"), "{told}");
}
