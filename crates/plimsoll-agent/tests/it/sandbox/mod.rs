//! The sandbox as the agent uses it: what the model and the user are told, and what hooks and servers inherit. What the sandbox holds
//! is tried in the tests of `plimsoll-sandbox`.

mod descriptors;
mod measures;
mod processes;
mod reads;

use std::path::PathBuf;
use std::process::Command;

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
        dock.agent.profile.tools = dock.agent.profile.tools.clone().with(Bash::new(Sandbox::new(config)));
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
async fn of_a_sandbox_that_is_off_the_model_is_told_nothing() {
    let mut yard = Yard::with(SandboxConfig::default().mode(SandboxMode::Off)).await;
    assert_eq!(yard.bash("echo x > OUT/new && cat OUT/new").await.trim(), "x");
    assert!(!yard.dock.server.last().unwrap().body.to_string().contains("Commands are confined"));
    assert_eq!(yard.dock.agent.sandbox.refusal(), None, "`auto` never refuses");
}

#[tokio::test]
async fn the_model_is_told_where_else_commands_may_write() {
    if !can(&[Guard::Writes]) {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let mut yard = Yard::with(SandboxConfig::default().write([cache.path().join("open")])).await;
    yard.bash("true").await;
    assert!(yard.dock.server.last().unwrap().body.to_string().contains("/open"));
}
