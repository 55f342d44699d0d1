//! A scripted model server: Anthropic Messages, OpenAI Chat Completions and OpenAI Responses on one port, with and
//! without streaming.
//!
//! Replies are scripted independently of the wire format, in a queue or by a function of the request. Each request is
//! captured, checked against the rules of its provider, and looked up in a model of the provider's prompt cache. An
//! illegal request is answered with 400 in the provider's format, and fails the test when the server is dropped. Faults
//! can be injected.
//!
//! The server has its own thread and runtime, so blocking tests, async tests and child processes can use it.
//!
//! ```
//! use plimsoll_testkit::server::{ModelServer, Reply};
//!
//! let server = ModelServer::start()?;
//! server.push(Reply::new().text("Hello."));
//! // … a client sends a request to `server.url()` …
//! # drop(server);
//! # Ok::<(), std::io::Error>(())
//! ```

mod cache;
mod captured;
mod check;
mod fault;
mod flatten;
mod gate;
mod http;
mod overflow;
mod render;
mod reply;
mod script;
mod segments;
mod sign;
mod state;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

pub use cache::CacheReport;
pub use captured::{AnswerEnd, Captured, CapturedMessage, CapturedPart, Progress};
pub use fault::{Fault, StreamError};
pub use gate::Gate;
pub use overflow::OverflowShape;
pub use reply::{Finish, Reply};
pub use script::{SCRIPT_HELP, Script, ScriptError};

use state::{Shared, State};

/// Builder of a [`ModelServer`].
#[derive(Default)]
pub struct ServerBuilder {
    name: Option<String>,
    port: u16,
    window: Option<u64>,
    overflow: Option<OverflowShape>,
    cache_minimum: Option<u64>,
    is_lenient: bool,
    log: Option<PathBuf>,
    kept_requests: Option<usize>,
    answer: Option<Answer>,
}

/// Decides the reply to a request.
pub(crate) type Answer = Arc<dyn Fn(&Captured) -> Reply + Send + Sync>;

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServerBuilder").field("port", &self.port).finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// Sets the provider's name. It is part of the signatures of thoughts: a server rejects those of other names.
    pub fn name(mut self, name: &str) -> ServerBuilder {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the port. Zero selects a free one.
    pub fn port(mut self, port: u16) -> ServerBuilder {
        self.port = port;
        self
    }

    /// Answers requests of more tokens than this with an overflow error.
    pub fn window(mut self, tokens: u64) -> ServerBuilder {
        self.window = Some(tokens);
        self
    }

    /// Sets the provider whose overflow error is used. Defaults to the wire format's own provider.
    pub fn overflow_shape(mut self, shape: OverflowShape) -> ServerBuilder {
        self.overflow = Some(shape);
        self
    }

    /// Sets the minimum length of a prefix in Anthropic's cache, in tokens. It differs between models.
    pub fn cache_minimum(mut self, tokens: u64) -> ServerBuilder {
        self.cache_minimum = Some(tokens);
        self
    }

    /// Answers illegal requests as if they were legal. Problems are still in [`Captured::problems`].
    pub fn lenient(mut self) -> ServerBuilder {
        self.is_lenient = true;
        self
    }

    /// Appends a line of JSON for each request to a file.
    pub fn log(mut self, file: impl Into<PathBuf>) -> ServerBuilder {
        self.log = Some(file.into());
        self
    }

    /// Sets the number of newest requests to keep, for tests that send thousands.
    pub fn keep_requests(mut self, count: usize) -> ServerBuilder {
        self.kept_requests = Some(count);
        self
    }

    /// Decides replies with a function if the queue is empty.
    pub fn answering(mut self, answer: impl Fn(&Captured) -> Reply + Send + Sync + 'static) -> ServerBuilder {
        self.answer = Some(Arc::new(answer));
        self
    }

    /// Starts the server. It is listening when this returns.
    pub fn start(self) -> io::Result<ModelServer> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut state = State::new(self.name.as_deref().unwrap_or("testkit"));
        state.window = self.window;
        state.overflow = self.overflow;
        state.is_lenient = self.is_lenient;
        state.answer = self.answer;
        if let Some(count) = self.kept_requests {
            state.kept_requests = count;
        }
        if let Some(tokens) = self.cache_minimum {
            state.cache_minimum = tokens;
        }
        if let Some(file) = self.log {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
            state.log = Some(file);
        }
        let shared = Shared::new(state);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let serving = shared.clone();
        let run = move || {
            runtime.block_on(http::serve(listener, serving, stopped));
            // Functions of tests may still run in threads of the runtime. Waiting for them could take forever.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("scripted-model".into()).spawn(run)?;
        Ok(ModelServer { address, shared, stop: Some(stop), thread: Some(thread) })
    }
}

/// A scripted model server on the loopback interface. Dropping it stops it, and panics if it has received illegal
/// requests and the test is not already failing.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Shared,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server whose replies are pushed.
    pub fn start() -> io::Result<ModelServer> {
        ModelServer::builder().start()
    }

    /// Starts a server whose replies are decided by a function of the request.
    pub fn answering(answer: impl Fn(&Captured) -> Reply + Send + Sync + 'static) -> io::Result<ModelServer> {
        ModelServer::builder().answering(answer).start()
    }

    /// Returns a builder for a server with other settings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The base URL for Anthropic's clients, without `/v1`. Paths are served with and without `/v1`, so it works for
    /// OpenAI's clients too.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Adds a reply to the queue. The queue has precedence over a function or a repeated reply.
    pub fn push(&self, reply: Reply) {
        self.state().queue.push_back(reply);
    }

    /// Adds replies to the queue.
    pub fn push_all(&self, replies: impl IntoIterator<Item = Reply>) {
        self.state().queue.extend(replies);
    }

    /// Answers with this reply whenever the queue is empty.
    pub fn repeat(&self, reply: Reply) {
        self.state().answer = Some(Arc::new(move |_: &Captured| reply.clone()));
    }

    /// Number of replies left in the queue.
    pub fn left(&self) -> usize {
        self.state().queue.len()
    }

    /// From now on, answers requests of more tokens than this with an overflow error.
    pub fn window(&self, tokens: u64) {
        self.state().window = Some(tokens);
    }

    /// Clears the prompt cache, as providers do after some minutes.
    pub fn forget_cache(&self) {
        self.state().cache.clear();
    }

    /// Number of received requests, including those that are not kept.
    pub fn received(&self) -> usize {
        self.state().received
    }

    /// The kept requests, including rejected ones.
    pub fn requests(&self) -> Vec<Captured> {
        self.state().requests.clone()
    }

    /// The newest request.
    pub fn last(&self) -> Option<Captured> {
        self.state().requests.last().cloned()
    }

    /// Problems of requests so far.
    pub fn problems(&self) -> Vec<String> {
        self.state().problems.clone()
    }

    /// Returns the problems and clears them, so that the server does not panic because of them.
    pub fn take_problems(&self) -> Vec<String> {
        std::mem::take(&mut self.state().problems)
    }

    /// Panics if a request was illegal, or if no reply was left for one.
    pub fn assert_legal(&self) {
        let problems = self.take_problems();
        assert!(problems.is_empty(), "the model server rejected requests:\n- {}", problems.join("\n- "));
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has already been reported.
            let _ = thread.join();
        }
        if !std::thread::panicking() {
            self.assert_legal();
        }
    }
}
