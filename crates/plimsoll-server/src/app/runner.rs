//! One run per session.
//!
//! A session is opened, under its lease, when something is to be written to it, and released after it was idle for a while.
//! A prompt to an idle session starts a run. A prompt to a running session joins the run: it is stored in the session's inbox,
//! the run takes it in before its next request, and both callers get the answer that ends the run. The inbox is durable, so
//! an accepted prompt survives a crash at any point. A compaction is a run too. A prompt to a background task that runs here
//! joins the task's own run in the same way.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::{Message, SessionId};
use plimsoll_agent::{Agent, AgentError, Conversation, PROMPT_NOTE, RunEnd, RunReport};
use plimsoll_config::PermissionRule;
use plimsoll_session::SessionHandle;
use plimsoll_store::{NewNote, Note, PageRequest};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::app::events;
use crate::app::project::Project;
use crate::app::shape::Scene;
use crate::app::{App, blocking};
use crate::error::{ApiError, ApiResult};

/// Time that running sessions have to stop when the server ends.
const STOP: Duration = Duration::from_secs(8);

/// Recorded for an answer that a run had not finished when it ended without its own doing.
const INTERRUPTED: &str = "Interrupted: the run was given up.";

/// Maximum number of sessions whose background tasks are listened for.
const REMEMBERED: usize = 10_000;

/// Agent, model and options of a session's runs. Another choice reopens the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Choice {
    /// The agent; the session's if not set.
    pub(crate) agent: Option<String>,
    /// The model, as `provider/model`; the session's if not set.
    pub(crate) model: Option<String>,
    /// Text after the system prompt.
    pub(crate) system: Option<String>,
    /// Tools that are switched off.
    pub(crate) without: Vec<String>,
}

/// Result of a run: the newest answer.
pub(crate) type Answered = ApiResult<Value>;

/// A prompt that was stored.
pub(crate) struct Accepted {
    /// The stored message.
    pub(crate) message: Message,
    /// The answer that ends the run; `None` if none was requested.
    pub(crate) answer: Option<oneshot::Receiver<Answered>>,
}

/// The runners of all sessions that are open, running, or were so recently.
#[derive(Default)]
pub(crate) struct Runners {
    all: Mutex<HashMap<SessionId, Arc<Runner>>>,
    /// Sessions that this server has run, with their directories: their background tasks are answered when they end.
    known: Mutex<HashSet<SessionId>>,
    /// Tasks that run in this process.
    tasks: Mutex<HashSet<SessionId>>,
    /// Permissions that users granted permanently, by session. They outlast the release of an idle session.
    granted: Mutex<HashMap<SessionId, Vec<PermissionRule>>>,
    is_stopping: CancellationToken,
}

/// The runner of one session.
pub(crate) struct Runner {
    session: SessionId,
    project: Arc<Project>,
    state: tokio::sync::Mutex<State>,
    /// Cancels the run that is under way.
    cancel: Mutex<CancellationToken>,
    /// Whether a run is under way, for readers that must not wait.
    busy: std::sync::atomic::AtomicBool,
    /// The session while it is open.
    handle: Mutex<Option<SessionHandle>>,
    /// Moves with each use.
    uses: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The open session; a run takes it.
    open: Option<Open>,
    is_running: bool,
    waiting: Vec<oneshot::Sender<Answered>>,
    /// Prompts that joined the run and want no answer. They do not prolong the run.
    silent: HashSet<String>,
}

/// First action of a run. Afterwards the run answers the prompts that joined it.
enum Job {
    /// Answers the newest prompt.
    Prompt,
    /// Answers the notes that have come.
    Notes,
    /// Compacts the session, and reports whether something was reduced.
    Compact { focus: Option<String>, done: oneshot::Sender<ApiResult<bool>> },
}

struct Open {
    conversation: Conversation,
    choice: Choice,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runners {
    /// Returns the runner of a session.
    pub(crate) fn get(&self, project: &Arc<Project>, session: &SessionId) -> Arc<Runner> {
        self.remember(session);
        let mut all = lock(&self.all);
        let runner = all.entry(session.clone()).or_insert_with(|| {
            Arc::new(Runner {
                session: session.clone(),
                project: Arc::clone(project),
                state: tokio::sync::Mutex::default(),
                cancel: Mutex::default(),
                busy: false.into(),
                handle: Mutex::default(),
                uses: AtomicU64::new(0),
            })
        });
        Arc::clone(runner)
    }

    fn existing(&self, session: &SessionId) -> Option<Arc<Runner>> {
        lock(&self.all).get(session).cloned()
    }

    /// Remembers that the ends of a session's background tasks are to be answered here.
    pub(crate) fn remember(&self, session: &SessionId) {
        let mut known = lock(&self.known);
        if known.len() < REMEMBERED {
            known.insert(session.clone());
        }
    }

    /// Remembers what a user has allowed in a session from now on.
    pub(crate) fn grant(&self, session: &SessionId, rule: PermissionRule) {
        let mut granted = lock(&self.granted);
        if granted.len() < REMEMBERED || granted.contains_key(session) {
            granted.entry(session.clone()).or_default().push(rule);
        }
    }

    /// Forgets a session that was removed.
    pub(crate) fn forget(&self, session: &SessionId) {
        lock(&self.all).remove(session);
        lock(&self.known).remove(session);
        lock(&self.granted).remove(session);
    }

    pub(crate) fn task_began(&self, task: &SessionId) {
        lock(&self.tasks).insert(task.clone());
    }

    pub(crate) fn task_ended(&self, task: &SessionId) {
        lock(&self.tasks).remove(task);
    }

    /// Whether a session is a task that runs in this process.
    fn runs_task(&self, session: &SessionId) -> bool {
        lock(&self.tasks).contains(session)
    }

    /// The sessions of a directory that are running, and tasks that do.
    pub(crate) fn busy(&self, project: &Project) -> Vec<SessionId> {
        let all = lock(&self.all);
        let running = all.values().filter(|runner| runner.is_busy() && runner.project.name == project.name);
        let mut busy: Vec<SessionId> = running.map(|runner| runner.session.clone()).collect();
        busy.extend(lock(&self.tasks).iter().cloned());
        busy
    }

    /// Whether a session is running here.
    pub(crate) fn is_busy(&self, session: &SessionId) -> bool {
        self.existing(session).is_some_and(|runner| runner.is_busy())
    }

    /// Returns a handle of a session for what may happen during a run, and opens the session if it is not open.
    pub(crate) async fn handle(
        &self,
        app: &Arc<App>,
        project: &Arc<Project>,
        session: &SessionId,
    ) -> ApiResult<SessionHandle> {
        project.session(session).await?;
        let runner = self.get(project, session);
        let mut state = runner.state.lock().await;
        if state.is_running {
            // The run owns the session. Its handle supports the operations that are safe during a run.
            let running = lock(&runner.handle).clone();
            return running.ok_or_else(|| ApiError::busy(session, "the session is busy"));
        }
        let handle = runner.opened(app, &mut state, Choice::default()).await?.conversation.handle().clone();
        runner.release_later(app);
        Ok(handle)
    }

    /// Returns the handle of a session that was opened here last. It is of no use if the session was released since.
    pub(crate) fn open_handle(&self, session: &SessionId) -> Option<SessionHandle> {
        lock(&self.existing(session)?.handle).clone()
    }

    /// Cancels the run of a session.
    pub(crate) fn abort(&self, session: &SessionId) {
        if let Some(runner) = self.existing(session) {
            lock(&runner.cancel).cancel();
        }
    }

    /// A note has come for a session: one that is idle answers it.
    pub(crate) fn on_note(&self, app: &Arc<App>, session: &SessionId) {
        let is_known = lock(&self.known).contains(session);
        // A task takes in its notes itself.
        let is_running = self.is_busy(session) || self.runs_task(session);
        if !is_known || is_running || self.is_stopping.is_cancelled() {
            return;
        }
        let Some(runner) = self.existing(session) else {
            let (app, session) = (Arc::clone(app), session.clone());
            app.clone().spawn(async move {
                // The session was released since, so its directory is read from its record.
                if let Some(project) = project_of(&app, &session).await {
                    let runner = app.runners.get(&project, &session);
                    runner.answer_notes(&app).await;
                }
            });
            return;
        };
        let app = Arc::clone(app);
        app.clone().spawn(async move { runner.answer_notes(&app).await });
    }

    /// Interrupts all runs, and releases all sessions.
    pub(crate) async fn stop(&self) {
        self.is_stopping.cancel();
        let all: Vec<Arc<Runner>> = lock(&self.all).values().cloned().collect();
        all.iter().for_each(|runner| lock(&runner.cancel).cancel());
        let stopping = async {
            for runner in &all {
                runner.idle().await;
                runner.release().await;
            }
        };
        if tokio::time::timeout(STOP, stopping).await.is_err() {
            tracing::warn!("some runs did not stop in time; their sessions can continue from what is stored");
        }
    }
}

async fn project_of(app: &Arc<App>, session: &SessionId) -> Option<Arc<Project>> {
    for project in app.projects().await {
        if project.session(session).await.is_ok() {
            return Some(project);
        }
    }
    None
}

impl Runner {
    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }

    /// Stores a prompt. Unless `no_reply` is set, a run answers it: the one under way, or a new one.
    pub(crate) async fn prompt(
        self: &Arc<Self>,
        app: &Arc<App>,
        message: Message,
        choice: Choice,
        no_reply: bool,
    ) -> ApiResult<Accepted> {
        if app.runners.is_stopping.is_cancelled() {
            return Err(ApiError::unavailable("the server is stopping"));
        }
        let mut state = self.state.lock().await;
        let (answer, answered) = oneshot::channel();
        if state.is_running {
            self.send(app, &message).await?;
            match no_reply {
                true => drop(state.silent.insert(message.info.id.to_string())),
                false => state.waiting.push(answer),
            }
            return Ok(Accepted { message, answer: (!no_reply).then_some(answered) });
        }
        if app.runners.runs_task(&self.session) {
            self.send(app, &message).await?;
            let (runner, app) = (Arc::clone(self), Arc::clone(app));
            let waiting = (!no_reply).then_some(answer);
            app.clone().spawn(async move { runner.answer_after_task(&app, waiting).await });
            return Ok(Accepted { message, answer: (!no_reply).then_some(answered) });
        }
        let open = self.opened(app, &mut state, choice).await?;
        let session = open.conversation.session_mut();
        session.settle(INTERRUPTED).await?;
        session.append(message.clone()).await?;
        open.conversation.give_title(&message.text()).await?;
        self.project.database.changed.notify_one();
        if no_reply {
            self.release_later(app);
            return Ok(Accepted { message, answer: None });
        }
        state.waiting.push(answer);
        self.start(app, &mut state, Job::Prompt);
        Ok(Accepted { message, answer: Some(answered) })
    }

    /// Stores a prompt for the run under way.
    async fn send(&self, app: &Arc<App>, message: &Message) -> ApiResult<()> {
        let note = NewNote {
            id: message.info.id.to_string(),
            kind: PROMPT_NOTE.to_owned(),
            data: serde_json::to_value(message).map_err(|error| ApiError::internal(error.to_string()))?,
        };
        let (opened, session, now) = (self.project.database.opened.clone(), self.session.clone(), app.now());
        blocking(move || Ok(opened.archive.store().send(&session, note, now)?)).await?;
        // The message becomes part of the log at the run's next step. Clients show it from now on.
        let scene = Scene::of_project(&self.project);
        let publish =
            |kind: &str, properties: Value| app.hub.publish(app, &self.project.name, kind, properties);
        let info = scene.info(&self.session, message);
        publish("message.updated", json!({ "sessionID": self.session, "info": info }));
        for part in &message.parts {
            let part = scene.part(&self.session, &message.info, part);
            publish("message.part.updated", json!({ "sessionID": self.session, "part": part, "time": now }));
        }
        Ok(())
    }

    /// Lets the model answer notes, such as ends of background tasks, if the session is idle.
    async fn answer_notes(self: &Arc<Self>, app: &Arc<App>) {
        let mut state = self.state.lock().await;
        let is_stopping = app.runners.is_stopping.is_cancelled();
        if state.is_running || is_stopping || !self.has_notes(&state.silent).await {
            return;
        }
        let choice = state.open.as_ref().map(|open| open.choice.clone()).unwrap_or_default();
        // Another process may run it, which then answers the notes.
        if self.opened(app, &mut state, choice).await.is_ok() {
            self.start(app, &mut state, Job::Notes);
        }
    }

    /// Waits until the task that this session is has ended, and then answers a prompt that joined it: with the task's last answer,
    /// or, if the task ended before it took the prompt in, with a new run.
    async fn answer_after_task(self: &Arc<Self>, app: &Arc<App>, waiting: Option<oneshot::Sender<Answered>>) {
        let (board, stopping) = (&self.project.board, &app.runners.is_stopping);
        while app.runners.runs_task(&self.session) && !stopping.is_cancelled() {
            const LOOK: Duration = Duration::from_millis(200);
            let ended = board.wait(&self.session, LOOK, stopping).await;
            if ended.is_err() || ended.is_ok_and(|task| !task.status.is_active()) {
                // Its lease is released before its end is reported.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let mut state = self.state.lock().await;
        if stopping.is_cancelled() {
            return;
        }
        if !state.is_running && self.has_notes(&state.silent).await {
            match (self.opened(app, &mut state, Choice::default()).await, &waiting) {
                (Ok(_), Some(_)) => self.start(app, &mut state, Job::Notes),
                // The prompt belongs to the log, but is not to be answered.
                (Ok(open), None) => drop(open.conversation.take_notes().await),
                (Err(error), _) => {
                    if let Some(waiting) = waiting {
                        let _ = waiting.send(Err(error));
                    }
                    return;
                }
            }
        }
        let Some(waiting) = waiting else { return self.release_later(app) };
        match state.is_running {
            true => state.waiting.push(waiting),
            false => drop(waiting.send(self.outcome(&Ok(None), &Choice::default()).await)),
        }
    }

    /// Whether there are notes to answer, other than prompts that want no answer.
    async fn has_notes(&self, silent: &HashSet<String>) -> bool {
        let (opened, session) = (self.project.database.opened.clone(), self.session.clone());
        let found = blocking(move || Ok(opened.archive.store().notes(&session, 0)?)).await;
        let is_wanted =
            |note: &Note| plimsoll_agent::is_answered_note(&note.kind) && !silent.contains(&note.id);
        found.is_ok_and(|notes| notes.iter().any(is_wanted))
    }

    /// Returns the open session, with this choice of agent and model.
    async fn opened<'s>(
        self: &Arc<Self>,
        app: &Arc<App>,
        state: &'s mut State,
        choice: Choice,
    ) -> ApiResult<&'s mut Open> {
        self.uses.fetch_add(1, Ordering::SeqCst);
        if let Some(open) = &mut state.open {
            let wanted = choice.or(&open.choice);
            let is_still_ours = open.conversation.handle().keep_lease().await.is_ok();
            if is_still_ours && wanted == open.choice {
                // Borrowed again, because a borrow that is returned lasts to the end of the function.
                return state.open.as_mut().ok_or_else(|| ApiError::internal("the session was closed"));
            }
        }
        let choice = match state.open.take() {
            Some(open) => {
                let wanted = choice.or(&open.choice);
                // Fails if another process has taken the session, and then there is nothing to release.
                let _ = open.conversation.close().await;
                wanted
            }
            None => choice,
        };
        let agent = self.agent(app, &choice).await?;
        let conversation = agent.open(&self.session).await?;
        *lock(&self.handle) = Some(conversation.handle().clone());
        let lease = conversation.handle().lease().await?;
        self.project.host.leases.hold(&self.project.database.opened.archive, &lease);
        Ok(state.open.insert(Open { conversation, choice }))
    }

    /// The agent that runs the session.
    async fn agent(&self, app: &Arc<App>, choice: &Choice) -> ApiResult<Agent> {
        let (project, session, wanted) = (Arc::clone(&self.project), self.session.clone(), choice.clone());
        let mut agent = blocking(move || {
            let opened = &project.database.opened;
            let mut overrides = project.setup.overrides_for(opened, &session)?;
            if wanted.agent.is_some() {
                overrides.agent = wanted.agent;
            }
            if wanted.model.is_some() {
                overrides.model = wanted.model;
            }
            Ok(project.setup.agent(opened, &overrides)?)
        })
        .await?;
        let (weak, directory, session) =
            (Arc::downgrade(app), self.project.name.clone(), self.session.clone());
        let database = Arc::clone(&self.project.database);
        agent.events = Arc::new(move |event| {
            let Some(app) = weak.upgrade() else { return };
            database.changed.notify_one();
            events::on_session_event(&app, &directory, &session, event);
        });
        agent.asker = Some(Arc::new(events::QuestionAsker::new(app, &self.project.name)));
        let board = &self.project.board;
        if board.limits().depth > 0 {
            agent = agent.with_tasks(board);
        }
        let mut agent = self.project.setup.agent_in(board, agent, &self.session).await?;
        agent.profile.awaits_tasks = false;
        // A task is bounded by those that launched it, and asks again.
        if agent.profile.bounds.is_empty() {
            let granted = lock(&app.runners.granted).get(&self.session).cloned();
            agent.profile.permissions.rules.extend(granted.into_iter().flatten());
        }
        agent.profile.system.extend(choice.system.clone());
        let tools = std::mem::take(&mut agent.profile.tools);
        agent.profile.tools = tools.filter(|tool| !choice.without.iter().any(|off| off == tool));
        Ok(agent)
    }

    /// Starts a run with the open session.
    fn start(self: &Arc<Self>, app: &Arc<App>, state: &mut State, job: Job) {
        let Some(open) = state.open.take() else { return };
        let cancel = CancellationToken::new();
        *lock(&self.cancel) = cancel.clone();
        state.is_running = true;
        self.busy.store(true, Ordering::SeqCst);
        if app.runners.is_stopping.is_cancelled() {
            cancel.cancel();
        }
        let (runner, app) = (Arc::clone(self), Arc::clone(app));
        app.clone().spawn(async move { runner.run(&app, open, cancel, job).await });
    }

    async fn run(self: Arc<Self>, app: &Arc<App>, mut open: Open, cancel: CancellationToken, job: Job) {
        self.publish_status(app, "busy");
        let conversation = &mut open.conversation;
        let mut ended = match job {
            Job::Prompt => conversation.go_on(&cancel).await.map(Some),
            Job::Notes => conversation.answer_notes(&cancel).await,
            Job::Compact { focus, done } => {
                let compacted = conversation.compact_on(focus.as_deref(), &cancel).await;
                // Only the caller gets the error. Prompts that joined meanwhile are still answered.
                let _ = done.send(compacted.map(|figures| !figures.is_empty()).map_err(ApiError::from));
                Ok(None)
            }
        };
        let mut state = loop {
            let state = self.state.lock().await;
            // A prompt joins while it holds the lock, so that none can come between this and the end.
            let goes_on = ended.is_ok() && !cancel.is_cancelled() && self.has_notes(&state.silent).await;
            if !goes_on {
                break state;
            }
            drop(state);
            ended = match conversation.answer_notes(&cancel).await {
                // Nothing was new after all.
                Ok(None) => ended,
                other => other,
            };
        };
        if ended.is_err() || cancel.is_cancelled() || !state.silent.is_empty() {
            // Accepted prompts belong to the log, also if they are not answered now.
            let _ = conversation.take_notes().await;
        }
        state.silent.clear();
        let answered = self.outcome(&ended, &open.choice).await;
        // Without a turn there may be no answer yet.
        if let (Err(error), false) = (&answered, matches!(ended, Ok(None))) {
            let properties = json!({ "sessionID": self.session, "error": error.for_session() });
            app.hub.publish(app, &self.project.name, "session.error", properties);
        }
        state.is_running = false;
        state.open = Some(open);
        self.busy.store(false, Ordering::SeqCst);
        if app.hub.has_readers() {
            // A client takes a session that is idle for complete.
            self.project.reported().await;
        }
        self.publish_status(app, "idle");
        app.hub.publish(app, &self.project.name, "session.idle", json!({ "sessionID": self.session }));
        for waiting in state.waiting.drain(..) {
            // A caller that has gone needs no answer.
            let _ = waiting.send(answered.clone());
        }
        self.release_later(app);
    }

    /// Returns the result for callers that wait for a run: the newest answer, or the error that prevented one.
    async fn outcome(&self, ended: &Result<Option<RunReport>, AgentError>, choice: &Choice) -> Answered {
        if let Err(error) = ended {
            let chosen = choice.model.as_deref().and_then(|model| model.split_once('/'));
            let default = || self.project.default_model().map(|(provider, _)| provider.to_owned());
            let provider = chosen.map(|(provider, _)| provider.to_owned()).or_else(default);
            return Err(ApiError::of_agent(error, provider.as_deref().unwrap_or("unknown")));
        }
        let scene = Scene::of_project(&self.project);
        let (opened, session) = (self.project.database.opened.clone(), self.session.clone());
        let newest = blocking(move || {
            const LOOK_BACK: u64 = 20;
            let request = PageRequest { from: None, oldest_first: false, most: LOOK_BACK };
            let page = opened.archive.store().page(&session, &request)?;
            Ok(page.messages.into_iter().find(Message::is_assistant))
        });
        match newest.await? {
            Some(message) => Ok(scene.message(&self.session, &message)),
            None => {
                let is_cancelled = matches!(ended, Ok(Some(RunReport { end: RunEnd::Cancelled, .. })));
                let why = if is_cancelled { "the run was aborted" } else { "the model gave no answer" };
                Err(ApiError::conflict(why))
            }
        }
    }

    fn publish_status(&self, app: &App, status: &str) {
        let properties = json!({ "sessionID": self.session, "status": { "type": status } });
        app.hub.publish(app, &self.project.name, "session.status", properties);
    }

    /// Does something with the open session, once no run is under way.
    pub(crate) async fn with_conversation<T>(
        self: &Arc<Self>,
        app: &Arc<App>,
        choice: Choice,
        work: impl AsyncFnOnce(&mut Conversation) -> ApiResult<T>,
    ) -> ApiResult<T> {
        let mut state = self.state.lock().await;
        if state.is_running {
            return Err(ApiError::busy(&self.session, "the session is busy"));
        }
        let open = self.opened(app, &mut state, choice).await?;
        let done = work(&mut open.conversation).await;
        self.project.database.changed.notify_one();
        self.release_later(app);
        done
    }

    /// Compacts the session, after the run that is under way.
    pub(crate) async fn compact(
        self: &Arc<Self>,
        app: &Arc<App>,
        choice: Choice,
        focus: Option<&str>,
    ) -> ApiResult<bool> {
        let mut state = loop {
            self.idle().await;
            let state = self.state.lock().await;
            if !state.is_running {
                break state;
            }
        };
        if app.runners.is_stopping.is_cancelled() {
            return Err(ApiError::unavailable("the server is stopping"));
        }
        self.opened(app, &mut state, choice).await?;
        let (done, compacted) = oneshot::channel();
        self.start(app, &mut state, Job::Compact { focus: focus.map(str::to_owned), done });
        drop(state);
        compacted.await.map_err(|_| ApiError::unavailable("the server is stopping"))?
    }

    /// Waits until no run is under way.
    pub(crate) async fn idle(&self) {
        loop {
            let waiting = {
                let mut state = self.state.lock().await;
                if !state.is_running {
                    return;
                }
                let (sender, receiver) = oneshot::channel();
                state.waiting.push(sender);
                receiver
            };
            let _ = waiting.await;
        }
    }

    /// Releases the session at once.
    pub(crate) async fn release(&self) {
        if let Some(open) = self.state.lock().await.open.take() {
            // A lease that cannot be released runs out.
            let _ = open.conversation.close().await;
        }
    }

    /// Releases the session if it is not used again for a while.
    fn release_later(self: &Arc<Self>, app: &Arc<App>) {
        let seen = self.uses.load(Ordering::SeqCst);
        let (runner, app) = (Arc::clone(self), Arc::clone(app));
        app.clone().spawn(async move {
            let stopping = app.runners.is_stopping.clone();
            tokio::select! {
                () = tokio::time::sleep(app.options.idle_release) => {}
                () = stopping.cancelled() => return,
            }
            let mut state = runner.state.lock().await;
            if state.is_running || runner.uses.load(Ordering::SeqCst) != seen {
                return;
            }
            if let Some(open) = state.open.take() {
                let _ = open.conversation.close().await;
            }
            drop(state);
            let mut all = lock(&app.runners.all);
            // The map and this task: anything else may be about to use it.
            const UNUSED: usize = 2;
            if Arc::strong_count(&runner) <= UNUSED {
                all.remove(&runner.session);
            }
        });
    }
}

impl Choice {
    /// Returns this choice, completed by an earlier one. Text and tools of a prompt hold for its run only.
    fn or(&self, earlier: &Choice) -> Choice {
        let agent = self.agent.clone().or_else(|| earlier.agent.clone());
        // An agent may have a model of its own.
        let keeps_model = self.agent.is_none() || self.agent == earlier.agent;
        let model = self.model.clone().or_else(|| earlier.model.clone().filter(|_| keeps_model));
        Choice { agent, model, system: self.system.clone(), without: self.without.clone() }
    }
}
