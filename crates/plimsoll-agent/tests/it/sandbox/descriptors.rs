//! Descriptors that this process inherited: no hook and no server inherits them.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_agent::CommandHook;
use plimsoll_config::{Grants, HookCommand, HookEvent, McpConnection, McpServer, Origin, ProviderKeys};
use plimsoll_testkit::server::{ModelServer, Reply};
use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::json;

use super::Yard;
use crate::support::{Dock, run};

/// Makes a descriptor inheritable, like one that a shell opened for this process.
fn inherit(descriptor: &(impl AsFd + AsRawFd)) -> RawFd {
    fcntl_setfd(descriptor, FdFlags::empty()).unwrap();
    descriptor.as_raw_fd()
}

/// Opens a file that can be written through a descriptor of this process.
fn open_file(yard: &Yard) -> File {
    File::create(yard.outside.join("open")).unwrap()
}

fn leaked(yard: &Yard) -> String {
    std::fs::read_to_string(yard.outside.join("open")).unwrap()
}

#[tokio::test]
async fn a_hook_inherits_nothing() {
    let mut yard = Yard::new().await;
    let file = open_file(&yard);
    let line = format!("echo leaked > /proc/self/fd/{}", inherit(&file));
    let setup = HookCommand {
        event: HookEvent::ToolAfter,
        command: ["sh", "-c", &line].map(str::to_owned).to_vec(),
        timeout: Some(Duration::from_secs(20)),
        tools: None,
        // Confined, it could not write there at all.
        grants: Grants::default().unconfined(true),
        origin: Origin::BuiltIn,
        problem: None,
    };
    let hook = CommandHook::new(
        setup,
        &yard.dock.agent.directory,
        &yard.dock.agent.sandbox,
        ProviderKeys::default(),
    );
    yard.dock.agent.hooks.push(Arc::new(hook));
    yard.talk = yard.dock.begin().await;
    yard.bash("true").await;
    assert_eq!(leaked(&yard), "");
}

#[tokio::test]
async fn a_server_inherits_nothing() {
    let mut dock = Dock::new(ModelServer::start().unwrap());
    let file = File::create(dock.directory.path().join("open")).unwrap();
    let line = format!("echo leaked > /proc/self/fd/{}; touch ran", inherit(&file));
    let connection = McpConnection::Local {
        command: ["sh", "-c", &line].map(str::to_owned).to_vec(),
        environment: Vec::new(),
        directory: None,
    };
    let timeout = Some(Duration::from_secs(5));
    let grants = Grants::default().unconfined(true);
    let setup = McpServer { connection, enabled: true, timeout, grants, problem: None };
    dock.agent.mcp = Arc::new([("t".to_owned(), setup)].into());
    let talk = &mut dock.begin().await;
    dock.server.push_all([Reply::new().call("c1", "list", json!({})), Reply::new().text("Thanks.")]);
    run(talk, "Do it").await;
    assert!(dock.agent.directory.join("ran").exists());
    assert_eq!(std::fs::read_to_string(dock.directory.path().join("open")).unwrap(), "");
}
