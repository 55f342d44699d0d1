//! Descriptors that this process was given by its own parent: nothing that it starts inherits them.

use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_agent::CommandHook;
use plimsoll_config::{
    Grants, HookCommand, HookEvent, McpConnection, McpServer, Origin, ProviderKeys, SandboxConfig,
    SandboxMode,
};
use plimsoll_testkit::server::{ModelServer, Reply};
use rstest::rstest;
use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::json;

use super::Yard;
use crate::support::{Dock, run};

/// Make a descriptor one that children inherit, as one is that a shell opened for this process.
fn inherit(descriptor: &(impl AsFd + AsRawFd)) -> RawFd {
    fcntl_setfd(descriptor, FdFlags::empty()).unwrap();
    descriptor.as_raw_fd()
}

/// A file that may be written through a descriptor of this process.
fn open_file(yard: &Yard) -> File {
    File::create(yard.outside.join("open")).unwrap()
}

fn leaked(yard: &Yard) -> String {
    std::fs::read_to_string(yard.outside.join("open")).unwrap()
}

#[rstest]
#[case::confined(SandboxMode::Auto)]
#[case::not_confined(SandboxMode::Off)]
#[tokio::test]
async fn a_command_inherits_no_file(#[case] mode: SandboxMode) {
    let mut yard = Yard::with(SandboxConfig { mode, ..SandboxConfig::default() }).await;
    let file = open_file(&yard);
    let number = inherit(&file);
    let told = yard.bash(&format!("echo leaked >&{number}")).await;
    assert!(told.contains("Bad file descriptor"), "{told}");
    assert_eq!(leaked(&yard), "");
}

#[tokio::test]
async fn a_command_inherits_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let number = inherit(&socket);
    let mut yard = Yard::new().await;
    let told = yard.bash(&format!("echo leaked >&{number}")).await;
    assert!(told.contains("Bad file descriptor"), "{told}");
    drop(socket);
    let mut received = String::new();
    peer.read_to_string(&mut received).unwrap();
    assert_eq!(received, "");
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
        // Confined it could not write there by any way.
        grants: Grants { unconfined: true, ..Grants::default() },
        origin: Origin::BuiltIn,
        problem: None,
    };
    let hook = CommandHook::new(
        setup,
        &yard.dock.agent.directory,
        &SandboxConfig::default(),
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
    let file = File::create(dock.folder.path().join("open")).unwrap();
    let line = format!("echo leaked > /proc/self/fd/{}; touch ran", inherit(&file));
    let connection = McpConnection::Local {
        command: ["sh", "-c", &line].map(str::to_owned).to_vec(),
        environment: Vec::new(),
        directory: None,
    };
    let timeout = Some(Duration::from_secs(5));
    let grants = Grants { unconfined: true, ..Grants::default() };
    let setup = McpServer { connection, enabled: true, timeout, grants, problem: None };
    dock.agent.mcp = Arc::new([("t".to_owned(), setup)].into());
    let talk = &mut dock.begin().await;
    dock.server.push_all([Reply::new().call("c1", "list", json!({})), Reply::new().text("Thanks.")]);
    run(talk, "Do it").await;
    assert!(dock.agent.directory.join("ran").exists());
    assert_eq!(std::fs::read_to_string(dock.folder.path().join("open")).unwrap(), "");
}
