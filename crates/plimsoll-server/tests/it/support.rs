//! A server with a scripted model, and a small HTTP client: what a test sends is exactly what is on the wire.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_host::{AgentOptions, Environment, Flags, Host};
use plimsoll_server::{Metrics, Server, ServerOptions};
use plimsoll_store::{Archive, Durability};
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than anything in these tests should take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The key of the model's provider.
pub(crate) const KEY: &str = "sk-key-of-the-provider";

pub(crate) struct TestServer {
    pub(crate) model: ModelServer,
    pub(crate) address: SocketAddr,
    pub(crate) root: PathBuf,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
    directory: tempfile::TempDir,
}

/// Answers with the last words of the user.
pub(crate) fn echo(captured: &Captured) -> Reply {
    Reply::new().text(format!("echo: {}", captured.last_user_text()))
}

impl TestServer {
    pub(crate) async fn start() -> TestServer {
        TestServer::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        TestServer::answering(echo, change).await
    }

    /// A server whose project and home directory have files before it starts.
    pub(crate) async fn prepared(prepare: impl FnOnce(&Path, &Path)) -> TestServer {
        let (directory, root) = TestServer::directories();
        prepare(&root, &directory.path().join("home"));
        let model = ModelServer::builder().keep_requests(20).answering(echo).start().unwrap();
        TestServer::serve(directory, root, model, |_| {}).await
    }

    pub(crate) fn directories() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("below")).unwrap();
        let root = root.canonicalize().unwrap();
        (directory, root)
    }

    /// A server whose model answers by itself.
    pub(crate) async fn answering(
        answer: impl Fn(&Captured) -> Reply + Send + Sync + 'static,
        change: impl FnOnce(&mut ServerOptions),
    ) -> TestServer {
        let (directory, root) = TestServer::directories();
        let model = ModelServer::builder().keep_requests(20).answering(answer).start().unwrap();
        TestServer::serve(directory, root, model, change).await
    }

    async fn serve(
        directory: tempfile::TempDir,
        root: PathBuf,
        model: ModelServer,
        change: impl FnOnce(&mut ServerOptions),
    ) -> TestServer {
        let stop = CancellationToken::new();
        let server = TestServer::build(directory.path(), root.clone(), &model.url(), change).await;
        let address = server.address();
        let running = Some(tokio::spawn(server.run(stop.clone())));
        TestServer { model, address, root, stop, running, directory }
    }

    /// A server of another process.
    pub(crate) fn elsewhere(
        directory: tempfile::TempDir,
        root: PathBuf,
        model: ModelServer,
        address: SocketAddr,
    ) -> TestServer {
        TestServer { model, address, root, stop: CancellationToken::new(), running: None, directory }
    }

    /// The address of a new server, and its run.
    pub(crate) async fn bind(
        directory: &Path,
        root: PathBuf,
        model: &str,
        change: impl FnOnce(&mut ServerOptions),
    ) -> (SocketAddr, impl Future<Output = ()>) {
        let server = TestServer::build(directory, root, model, change).await;
        (server.address(), server.run(CancellationToken::new()))
    }

    async fn build(
        directory: &Path,
        root: PathBuf,
        model: &str,
        change: impl FnOnce(&mut ServerOptions),
    ) -> Server {
        let flags = Flags { model: Some("openai-chat/scripted".to_owned()), ..Flags::default() };
        let mut options = ServerOptions {
            port: 0,
            agent: AgentOptions { flags, ..AgentOptions::default() },
            idle_release: Duration::from_millis(300),
            metrics: Some(Metrics::default()),
            ..ServerOptions::default()
        };
        change(&mut options);
        let home = directory.join("home").display().to_string();
        let variables = [
            ("HOME", home),
            ("OPENAI_BASE_URL", model.to_owned()),
            ("OPENAI_API_KEY", KEY.to_owned()),
            ("PATH", std::env::var("PATH").unwrap_or_default()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        Server::bind(Host::new(Environment::new(root, variables)), options).await.unwrap()
    }

    /// Stops the server and waits until it has ended.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            tokio::time::timeout(PATIENCE, running).await.expect("the server ends").unwrap();
        }
    }

    /// Starts a new server in the directories of this one.
    pub(crate) async fn again(self) -> TestServer {
        TestServer::serve(self.directory, self.root, self.model, |_| {}).await
    }

    /// The home directory of the server's user.
    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// A second connection to the database, as another process would open it.
    pub(crate) fn archive(&self) -> Arc<Archive> {
        let path = self.directory.path().join("home/.local/share/plimsoll/sessions.db");
        let path = if path.exists() { path } else { find_database(self.directory.path()) };
        Arc::new(Archive::open(&path, &plimsoll::Policy::default(), Durability::Process).unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, &[], &body.to_string()).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        self.raw(&format!("{head}\r\n{body}")).await
    }

    /// Sends bytes and reads until the server closes the connection.
    pub(crate) async fn raw(&self, text: &str) -> Answer {
        let exchange = async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            // The server may refuse and close before everything is written.
            let _ = stream.write_all(text.as_bytes()).await;
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes).await;
            Answer::parse(&bytes)
        };
        tokio::time::timeout(PATIENCE, exchange).await.expect("an answer in time")
    }

    /// Creates a session and returns its id.
    pub(crate) async fn session(&self) -> String {
        let created = self.post("/session", json!({ "title": "test" })).await.ok();
        created["id"].as_str().unwrap().to_owned()
    }

    /// Prompts a session and returns the answer's text.
    pub(crate) async fn prompt(&self, session: &str, text: &str) -> String {
        let answer = self.post(&format!("/session/{session}/message"), prompt(text)).await.ok();
        text_of(&answer)
    }

    /// Opens an event stream.
    pub(crate) async fn events(&self, path: &str) -> EventStream {
        EventStream::open(self.address, path).await
    }
}

fn find_database(directory: &Path) -> PathBuf {
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "db") {
                return path;
            }
        }
    }
    panic!("the server has no database")
}

pub(crate) fn prompt(text: &str) -> Value {
    json!({ "parts": [{ "type": "text", "text": text }] })
}

/// The text of a message.
pub(crate) fn text_of(message: &Value) -> String {
    let parts = message["parts"].as_array().unwrap_or_else(|| panic!("no message: {message}"));
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunk(body) } else { body.to_owned() };
        Answer { status, head: head.to_owned(), body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The body of an answer with status 200.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }
}

fn unchunk(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(piece) = rest.get(..size).filter(|_| size > 0) else { break };
        text.push_str(piece);
        body = rest.get(size + 2..).unwrap_or_default();
    }
    text
}

/// The place of a text at or after another place.
fn find_from(text: &str, mut from: usize, wanted: &str) -> Option<usize> {
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    text[from..].find(wanted).map(|place| from + place)
}

/// An open event stream.
pub(crate) struct EventStream {
    stream: TcpStream,
    received: String,
    /// Number of bytes in which no end of a frame was found.
    searched: usize,
    pub(crate) head: String,
}

impl EventStream {
    async fn open(address: SocketAddr, path: &str) -> EventStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut events = EventStream { stream, received: String::new(), searched: 0, head: String::new() };
        while !events.received.contains("\r\n\r\n") {
            assert!(events.fill().await, "the stream ended: {}", events.received);
        }
        let (head, rest) = events.received.split_once("\r\n\r\n").unwrap();
        (events.head, events.received) = (head.to_owned(), rest.to_owned());
        assert!(events.head.starts_with("HTTP/1.1 200"), "{}", events.head);
        events
    }

    /// Reads more; `false` once the stream has ended.
    async fn fill(&mut self) -> bool {
        let mut buffer = vec![0; 65_536];
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut buffer)).await;
        let read = read.expect("an event in time").unwrap_or(0);
        self.received.push_str(&String::from_utf8_lossy(&buffer[..read]));
        read > 0
    }

    /// Reads until a text has come this often.
    pub(crate) async fn count(&mut self, text: &str, times: usize) {
        let mut seen = 0;
        while seen < times {
            while let Some(place) = self.received.find(text) {
                self.received.drain(..place + text.len());
                seen += 1;
            }
            // The text may be cut in two.
            let mut keep = self.received.len().saturating_sub(text.len());
            while !self.received.is_char_boundary(keep) {
                keep -= 1;
            }
            self.received.drain(..keep);
            self.searched = 0;
            assert!(seen >= times || self.fill().await, "the stream ended after {seen} of {times}");
        }
    }

    /// The next event; `None` once the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            // Sizes of chunks stand between the frames. What was searched before is not searched again: a frame may be large.
            if let Some(begin) = self.received.find("data: ")
                && let Some(end) = find_from(&self.received, begin.max(self.searched), "\n\n")
            {
                let frame = self.received[begin + 6..end].to_owned();
                self.received.drain(..end + 2);
                self.searched = 0;
                return Some(serde_json::from_str(&frame).unwrap_or_else(|_| panic!("no JSON: {frame}")));
            }
            self.searched = self.received.len().saturating_sub(1);
            if !self.fill().await {
                return None;
            }
        }
    }

    /// The next event that is wanted, and those before it.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let reading = async {
            let mut seen = Vec::new();
            loop {
                let event = self.next().await.unwrap_or_else(|| panic!("the stream ended after {seen:#?}"));
                let is_last = wanted(&event);
                seen.push(event);
                if is_last {
                    return seen;
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the event in time")
    }

    /// Events up to one of this type.
    pub(crate) async fn until_type(&mut self, kind: &str) -> Vec<Value> {
        self.until(|event| event["type"] == kind).await
    }
}
