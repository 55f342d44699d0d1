//! Many sessions at once.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testkit::server::ModelServer;

use crate::support::{TestServer, echo, prompt};

const SESSIONS: usize = 200;

/// Maximum growth of the server's memory over the last two loads. It levels off after about five, when the pools of the allocator
/// are full.
const GROWTH: u64 = 48 << 20;

/// Variables of the process that is the server: its directories, and the address of the model.
const FOLDER: &str = "PLIMSOLL_TEST_LOAD_FOLDER";
const MODEL: &str = "PLIMSOLL_TEST_LOAD_MODEL";

/// Ends the server, also if the test fails.
struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl ServerProcess {
    /// Memory of the process in bytes.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
    }
}

/// Not a test: the server of the test below, in a separate process. It ends when its standard input closes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test"]
async fn serve_for_load() {
    let (Some(folder), Ok(model)) = (std::env::var_os(FOLDER), std::env::var(MODEL)) else { return };
    let root = std::path::Path::new(&folder).join("root");
    let (server, run) = TestServer::bind(std::path::Path::new(&folder), root, &model, |_| {}).await;
    println!("\naddress {server}");
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    tokio::select! {
        () = run => {}
        _ = ended => {}
    }
}

/// Starts this program again as the server. The clients and the model stay in this process.
async fn server() -> (TestServer, ServerProcess) {
    let (folder, root) = TestServer::directories();
    let model = ModelServer::builder().keep_requests(20).answering(echo).start().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["load::serve_for_load", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER, folder.path()).env(MODEL, model.url());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.into_iter().find_map(|line| line.strip_prefix("address ").map(str::to_owned));
    let address = address.expect("an address").parse().unwrap();
    (TestServer::elsewhere(folder, root, model, address), ServerProcess(child))
}

/// Prompts many sessions at once. Every stream must report the end of each run.
async fn load(server: &TestServer) {
    let mut readers = Vec::new();
    for _ in 0..SESSIONS {
        let mut reader = server.events("/event").await;
        readers.push(tokio::spawn(async move { reader.count("\"type\":\"session.idle\"", SESSIONS).await }));
    }
    let turns = (0..SESSIONS).map(|number| async move {
        let id = server.session().await;
        let text = format!("session {number}");
        assert_eq!(server.prompt(&id, &text).await, format!("echo: {text}"));
        id
    });
    let sessions = futures_util::future::join_all(turns).await;
    for reader in readers {
        reader.await.unwrap();
    }
    for id in sessions {
        let note = format!("/session/{id}/message");
        let mut body = prompt("a note");
        body["noReply"] = serde_json::json!(true);
        server.post(&note, body).await.ok();
        server.send("DELETE", &format!("/session/{id}"), &[], "").await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_with_event_readers_are_answered_in_flat_memory() {
    let (server, process) = server().await;
    let begun = Instant::now();
    let mut used = Vec::new();
    for _ in 0..4 {
        load(&server).await;
        used.push(process.memory());
    }
    println!("memory of the server after each load: {used:?}");
    // The first loads fill pools and caches.
    let grown = used[3].saturating_sub(used[1]);
    assert!(grown < GROWTH, "grew by {grown} bytes: {used:?}");
    assert!(begun.elapsed() < Duration::from_secs(180), "{:?}", begun.elapsed());
}
