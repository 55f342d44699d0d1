//! The sandbox of `bash`, tried from inside: each test runs commands that try to get out.
//!
//! A test is skipped, with a line that says so, where the kernel cannot hold what it is about.

mod descriptors;
mod measures;
mod network;
mod processes;
mod writes;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use plimsoll_agent::tools::Bash;
use plimsoll_agent::{Conversation, Event, Guard, Sandbox};
use plimsoll_config::{SandboxConfig, SandboxMode};
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::json;

use crate::support::{Dock, run};

/// Whether the kernel holds these; if not, it is said.
fn can(guards: &[Guard]) -> bool {
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

/// A project whose commands are confined, and a directory beside it.
struct Yard {
    dock: Dock,
    talk: Conversation,
    outside: PathBuf,
}

impl Yard {
    async fn new() -> Yard {
        Yard::with(SandboxConfig::default()).await
    }

    async fn with(config: SandboxConfig) -> Yard {
        let mut dock = Dock::new(ModelServer::start().unwrap()).allow("bash");
        dock.agent.profile.tools = dock.agent.profile.tools.clone().with(Bash::confined(config));
        // Commands that fail in the same words are what these tests are made of.
        dock.agent.profile.limits.repeats = 0;
        let outside = dock.folder.path().canonicalize().unwrap().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let talk = dock.begin().await;
        Yard { dock, talk, outside }
    }

    /// What the model is answered when it runs a command. `OUT` is the directory beside the project.
    async fn bash(&mut self, command: &str) -> String {
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

/// A process outside the sandbox, which ends with the test.
struct Bystander(Child);

impl Bystander {
    fn new() -> Bystander {
        let mut command = Command::new("sleep");
        command.arg("600").env("BYSTANDER_SECRET", "hunter2").stdin(Stdio::null()).stdout(Stdio::null());
        Bystander(command.spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn is_alive(&mut self) -> bool {
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
