//! A local server that sends scripted bytes.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Policy, Window};
use plimsoll_providers::{
    Client, ClientOptions, Endpoint, Prompt, Request, RequestOptions, RetryPolicy, Secret, Wire,
};
use plimsoll_testkit::History;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// The answer to one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// Status line and headers, without the empty line.
    pub(crate) head: String,
    /// The body, in pieces with a delay before each.
    pub(crate) pieces: Vec<(Duration, Vec<u8>)>,
    /// Whether the connection is broken instead of closed.
    pub(crate) broken: bool,
}

impl Answer {
    pub(crate) fn status(status: u16, body: &str) -> Answer {
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}",
            body.len()
        );
        Answer { head, pieces: vec![(Duration::ZERO, body.as_bytes().to_vec())], broken: false }
    }

    pub(crate) fn with_header(mut self, header: &str) -> Answer {
        self.head = format!("{}\r\n{header}", self.head);
        self
    }

    /// An event stream that ends with the connection.
    pub(crate) fn stream(body: &str) -> Answer {
        Answer::pieces(&[(0, body)])
    }

    pub(crate) fn pieces(pieces: &[(u64, &str)]) -> Answer {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close".to_owned();
        let piece = |(wait, text): &(u64, &str)| (Duration::from_millis(*wait), text.as_bytes().to_vec());
        Answer { head, pieces: pieces.iter().map(piece).collect(), broken: false }
    }

    /// A chunked stream that breaks off.
    pub(crate) fn cut(body: &str) -> Answer {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked".to_owned();
        let chunk = format!("{:x}\r\n{body}\r\n", body.len());
        Answer { head, pieces: vec![(Duration::ZERO, chunk.into_bytes())], broken: true }
    }
}

/// A server that sends its answers in order, and repeats the last.
pub(crate) struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    /// Number of connections that the client closed before they were fully answered.
    dropped: Arc<Mutex<usize>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(answers: Vec<Answer>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let dropped: Arc<Mutex<usize>> = Arc::default();
        let (seen, lost) = (Arc::clone(&requests), Arc::clone(&dropped));
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (seen, lost, answers) = (Arc::clone(&seen), Arc::clone(&lost), answers.clone());
                tokio::spawn(async move {
                    if serve(stream, &answers, &seen).await.is_err() {
                        *lost.lock().await += 1;
                    }
                });
            }
        });
        Server { port, requests, dropped, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) async fn requests(&self) -> Vec<String> {
        self.requests.lock().await.clone()
    }

    pub(crate) async fn dropped(&self) -> usize {
        *self.dropped.lock().await
    }

    pub(crate) fn client(&self, wire: Wire, retry: RetryPolicy) -> Client {
        self.client_of(Endpoint::new(wire, &self.url(), Some(Secret::new("k-test"))).unwrap(), retry)
    }

    pub(crate) fn client_of(&self, endpoint: Endpoint, retry: RetryPolicy) -> Client {
        Client::new(endpoint, ClientOptions { retry, ..ClientOptions::default() }).unwrap()
    }
}

async fn serve(mut stream: TcpStream, answers: &[Answer], seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                break;
            }
        }
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..read]);
    }
    let answer = {
        let mut seen = seen.lock().await;
        seen.push(String::from_utf8_lossy(&request).into_owned());
        answers[(seen.len() - 1).min(answers.len() - 1)].clone()
    };
    if !answer.head.is_empty() {
        stream.write_all(format!("{}\r\n\r\n", answer.head).as_bytes()).await?;
    }
    for (wait, piece) in &answer.pieces {
        // Notices a client that hangs up while nothing is being written.
        tokio::select! {
            () = tokio::time::sleep(*wait) => stream.write_all(piece).await?,
            read = stream.read(&mut buffer) => {
                read?;
                return Err(std::io::ErrorKind::ConnectionReset.into());
            }
        }
    }
    if !answer.broken {
        stream.shutdown().await?;
    }
    Ok(())
}

pub(crate) fn request(wire: Wire) -> Request {
    let window = Window::of(&History::new().user("go").messages(), &Policy::default());
    let options = RequestOptions::default();
    Request::build(wire, &Prompt::new("test", "some-model", &window, &options)).unwrap()
}
