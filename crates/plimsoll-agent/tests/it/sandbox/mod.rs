//! The sandbox in the agent: texts for the model and the user, and what hooks and servers inherit. The tests of
//! `plimsoll-sandbox` cover the sandbox itself.

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

/// Returns whether the kernel enforces these guards, and prints if it does not.
fn can(guards: &[Guard]) -> bool {
    let sandbox = Sandbox::new(SandboxConfig::default());
    let missing: Vec<_> = guards.iter().filter(|guard| !sandbox.confinement().holds(**guard)).collect();
    if !missing.is_empty() {
        println!("SKIPPED: this kernel cannot hold {missing:?}");
    }
    missing.is_empty()
}

/// Returns whether python exists, for what a shell cannot do, and prints if it does not.
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("SKIPPED: there is no python3");
    }
    found
}

/// A project whose commands are confined, and a directory next to it.
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
        // These tests consist of commands that fail with the same message.
        dock.agent.profile.limits.repeats = 0;
        let outside = dock.directory.path().canonicalize().unwrap().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let talk = dock.begin().await;
        Yard { dock, talk, outside }
    }

    /// Returns the result that the model receives for a command. `OUT` is the directory next to the project.
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
async fn the_confinement_is_reported_once_and_described_to_the_model() {
    let mut yard = Yard::new().await;
    yard.bash("true").await;
    yard.bash("true").await;
    let events = yard.dock.events.lock().unwrap().clone();
    let reply: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Confined { confinement, .. } => Some(confinement.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(reply.len(), 1, "once in a conversation");
    assert_eq!(reply[0], *Sandbox::new(SandboxConfig::default()).confinement());
    let sent = yard.dock.server.last().unwrap().body.to_string();
    assert_eq!(sent.contains("Commands run in a sandbox"), reply[0].holds(Guard::Writes));
    assert_eq!(sent.contains("Network access is disabled"), reply[0].holds(Guard::Network));
}

#[tokio::test]
async fn the_model_gets_no_text_about_a_disabled_sandbox() {
    let mut yard = Yard::with(SandboxConfig::default().mode(SandboxMode::Off)).await;
    assert_eq!(yard.bash("echo x > OUT/new && cat OUT/new").await.trim(), "x");
    assert!(!yard.dock.server.last().unwrap().body.to_string().contains("Commands run in a sandbox"));
    assert_eq!(yard.dock.agent.sandbox.refusal(), None, "`auto` never refuses");
}

#[tokio::test]
async fn the_tool_description_lists_other_writable_places() {
    if !can(&[Guard::Writes]) {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let mut yard = Yard::with(SandboxConfig::default().write([cache.path().join("open")])).await;
    yard.bash("true").await;
    assert!(yard.dock.server.last().unwrap().body.to_string().contains("/open"));
}
