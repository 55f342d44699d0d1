//! A scripted model, a temporary store, and an agent between them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll::{Counter, Limits, Message, Policy, PolicySpec, Preset, SessionId, Tokens};
use plimsoll_agent::{Agent, Conversation, Event, Model, RunReport};
use plimsoll_providers::{ClientOptions, Endpoint, ModelRef, RetryPolicy, Secret, Wire};
use plimsoll_store::{Archive, Durability, PageRequest};
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use plimsoll_tokens::ModelTable;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The three wires, with their providers' names.
pub(crate) const WIRES: [(Wire, &str); 3] =
    [(Wire::Anthropic, "anthropic"), (Wire::Chat, "openai-chat"), (Wire::Responses, "openai")];

pub(crate) struct Dock {
    pub(crate) server: ModelServer,
    pub(crate) directory: TempDir,
    pub(crate) archive: Arc<Archive>,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
    pub(crate) agent: Agent,
}

impl Dock {
    /// A model with a window of 32,000 tokens on Anthropic's wire, under the `plimsoll` preset.
    pub(crate) fn new(server: ModelServer) -> Dock {
        Dock::on(Wire::Anthropic, server)
    }

    pub(crate) fn on(wire: Wire, server: ModelServer) -> Dock {
        let directory = tempfile::tempdir().unwrap();
        let archive = open_archive(directory.path());
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        std::fs::create_dir(directory.path().join("project")).unwrap();
        let mut agent =
            Agent::new(Arc::clone(&archive), model(wire, &server.url()), &directory.path().join("project"));
        agent.policy = policy(|_| {});
        let output = Arc::clone(&events);
        agent.events = Arc::new(move |event| output.lock().unwrap().push(event.clone()));
        Dock { server, directory, archive, events, agent }
    }

    pub(crate) fn with_policy(mut self, change: impl FnOnce(&mut PolicySpec)) -> Dock {
        self.agent.policy = policy(change);
        self
    }

    pub(crate) fn allow(mut self, rule: &str) -> Dock {
        self.agent.profile.permissions.rules.push(plimsoll_agent::parse_allow(rule, None).unwrap());
        self
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.directory.path().join("project").join(name), content).unwrap();
    }

    pub(crate) async fn begin(&self) -> Conversation {
        self.agent.begin("").await.unwrap()
    }

    /// Names of the events so far.
    pub(crate) fn happened(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        events.iter().map(name_of).collect()
    }

    pub(crate) fn log(&self, session: &SessionId) -> Vec<Message> {
        let request = PageRequest { from: None, oldest_first: true, most: 100_000 };
        self.archive.store().page(session, &request).unwrap().messages
    }
}

pub(crate) fn open_archive(directory: &Path) -> Arc<Archive> {
    Arc::new(Archive::open(directory.join("plimsoll.db"), &Policy::default(), Durability::Process).unwrap())
}

/// Kills this process, like `kill -9`: nothing is closed, flushed or released.
pub(crate) fn die() -> ! {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    loop {
        std::thread::park();
    }
}

pub(crate) fn name_of(event: &Event) -> String {
    let value = serde_json::to_value(event).unwrap();
    let kind = value["type"].as_str().unwrap().to_owned();
    match kind.as_str() {
        "reduced" => value["kind"].as_str().unwrap().to_owned(),
        _ => kind,
    }
}

/// The `plimsoll` preset with changes. Tests set whatever they rely on.
pub(crate) fn policy(change: impl FnOnce(&mut PolicySpec)) -> Arc<Policy> {
    let mut spec = Preset::Plimsoll.policy().into_spec();
    change(&mut spec);
    Arc::new(Policy::new(spec).unwrap())
}

pub(crate) fn provider(wire: Wire) -> &'static str {
    WIRES.iter().find(|(known, _)| *known == wire).unwrap().1
}

pub(crate) fn model(wire: Wire, url: &str) -> Model {
    let retry = RetryPolicy { base: Duration::from_millis(5), ..RetryPolicy::default() };
    model_with(wire, url, ClientOptions { idle: Duration::from_secs(20), retry, ..ClientOptions::default() })
}

pub(crate) fn model_with(wire: Wire, url: &str, options: ClientOptions) -> Model {
    let endpoint = Endpoint::new(wire, url, Some(Secret::new("sk-test-0123456789abcdef"))).unwrap();
    let name = ModelRef { provider: provider(wire).into(), model: "scripted".into() };
    let mut model = Model::new(name, endpoint, &ModelTable::default(), options).unwrap();
    model.limits = Some(Limits::new(32_000, 4_000));
    model
}

pub(crate) async fn run(conversation: &mut Conversation, prompt: &str) -> RunReport {
    conversation.run(prompt, &CancellationToken::new()).await.unwrap()
}

/// Lines of about 25 tokens each.
pub(crate) fn lines(count: usize) -> String {
    (0..count)
        .map(|n| format!("line {n}: the quick brown fox jumps over the lazy dog and runs away {n} times\n"))
        .collect()
}

/// Returns whether a request asks for a summary.
pub(crate) fn is_summary(request: &Captured) -> bool {
    let asked = request.last_user_text();
    asked.contains("## Goal")
        || asked.contains("about to leave your view")
        || request.system.contains("You write the summary")
        || request.system.contains("conversation summarizer")
}

/// A valid summary.
pub(crate) const SUMMARY: &str =
    "## Goal\nRead the file.\n\n## Progress\n### Done\n- It was read.\n\n## Next steps\n- Go on.";

/// A model that writes summaries on request, reads a file as often as the newest prompt says, and then reports it.
pub(crate) fn reader() -> impl Fn(&Captured) -> Reply + Send + Sync + 'static {
    read_after(Reply::new())
}

/// Like [`reader`], with this text or reasoning first. It counts the calls for each prompt itself, because a compaction
/// removes the calls of a turn from its view.
pub(crate) fn read_after(before: Reply) -> impl Fn(&Captured) -> Reply + Send + Sync + 'static {
    let made: Mutex<HashMap<String, usize>> = Mutex::default();
    move |request| {
        if is_summary(request) {
            return Reply::new().text(SUMMARY);
        }
        let prompts =
            request.messages.iter().filter(|message| message.role == "user").map(|message| message.text());
        let prompt = prompts.rev().find(|text| text.contains("Read it ")).unwrap_or_default();
        let after = prompt.rsplit("Read it ").next().unwrap_or_default();
        let wanted: usize = after.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let mut made = made.lock().unwrap();
        let made = made.entry(after.to_owned()).or_default();
        if *made < wanted {
            *made += 1;
            let input = json!({ "path": "big.txt", "limit": 99 + *made });
            return before.clone().call(format!("call_{}_{made}", request.tokens), "read", input);
        }
        before.clone().text(format!("Read {made} times."))
    }
}

/// Counts characters divided by four, and cancels a run at the first text of a kind.
pub(crate) struct CancellingCounter {
    cancel: CancellationToken,
    is_last: fn(&str) -> bool,
    after: AtomicUsize,
}

impl CancellingCounter {
    pub(crate) fn at(cancel: &CancellationToken, is_last: fn(&str) -> bool) -> Arc<CancellingCounter> {
        Arc::new(CancellingCounter { cancel: cancel.clone(), is_last, after: AtomicUsize::new(0) })
    }

    /// Number of texts that were counted after the run was cancelled.
    pub(crate) fn counted_after(&self) -> usize {
        self.after.load(Ordering::SeqCst)
    }
}

impl Counter for CancellingCounter {
    fn name(&self) -> &'static str {
        "cancelling"
    }

    fn count(&self, text: &str) -> Tokens {
        if self.cancel.is_cancelled() {
            self.after.fetch_add(1, Ordering::SeqCst);
        } else if (self.is_last)(text) {
            self.cancel.cancel();
            // The loop must notice it while this thread counts.
            std::thread::sleep(Duration::from_millis(100));
        }
        Tokens(text.len() as u64 / 4)
    }
}
