//! npm's `@modelcontextprotocol/server-everything`, over both transports; see `just mcp-everything`.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use plimsoll_agent::McpChange;
use plimsoll_config::{McpConnection, McpServer};
use serde_json::json;

use super::{call, changes, dock, fake::setup, until};

/// The server's script.
const SCRIPT: &str = "PLIMSOLL_MCP_EVERYTHING";

fn script() -> Option<String> {
    let script = std::env::var(SCRIPT).ok();
    if script.is_none() {
        println!("skipped: {SCRIPT} is not set; `just mcp-everything` sets it");
    }
    script
}

#[tokio::test]
async fn everything_over_standard_input_and_output() {
    let Some(script) = script() else { return };
    let command = ["node", &script, "stdio"].map(str::to_owned).to_vec();
    exercise(setup(McpConnection::Local { command, environment: Vec::new(), directory: None })).await;
}

#[tokio::test]
async fn everything_over_http() {
    let Some(script) = script() else { return };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut node = Command::new("node");
    node.args([&script, "streamableHttp"]).env("PORT", port.to_string());
    let _server = Ended(node.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("the server does not listen", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    exercise(setup(McpConnection::Remote { url, headers: Vec::new() })).await;
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

async fn exercise(server: McpServer) {
    let dock = dock([("every", server)]).allow("every_*");
    let mut talk = dock.begin().await;
    let said = call(&dock, &mut talk, "every_echo", json!({"message": "hello"})).await;
    assert_eq!(said.trim(), "Echo: hello", "{:?}", changes(&dock));
    println!("{:?}", dock.server.last().unwrap().tools);
    for (tool, input, expected) in [
        ("get-sum", json!({"a": 2, "b": 3}), "5"),
        ("get-sum", json!({"a": "two"}), "nvalid"),
        ("trigger-long-running-operation", json!({"duration": 1, "steps": 2}), "completed"),
        ("get-tiny-image", json!({}), "[image, image/png, "),
        ("get-annotated-message", json!({"messageType": "error"}), "Error"),
        ("get-resource-links", json!({"count": 2}), "[link to the resource "),
        ("get-resource-reference", json!({"resourceType": "Text", "resourceId": 1}), "[resource "),
        ("get-structured-content", json!({"location": "Chicago"}), "temperature"),
        ("get-roots-list", json!({}), "/project"),
        ("list_resources", json!({}), "demo://resource/"),
        ("read_resource", json!({"uri": "demo://resource/dynamic/text/1"}), "[resource demo://resource/"),
    ] {
        let said = call(&dock, &mut talk, &format!("every_{tool}"), input).await;
        println!("--- {tool}\n{said}");
        assert!(said.contains(expected), "{tool}: {said}");
    }
    let output = changes(&dock);
    assert!(matches!(output[..], [McpChange::Started { tools: 10.. }]), "{output:?}");
    dock.server.assert_legal();
    talk.close().await.unwrap();
}
