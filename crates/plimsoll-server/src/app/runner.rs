//! One run per session.
//!
//! A session is opened under its lease for the first write, and released when it has been idle for a while. A prompt to an idle
//! session starts a run. A prompt to a running session joins the run: it is stored in the session's inbox, the run includes it
//! in its next request, and both callers get the answer that ends the run. The inbox is durable, so an accepted prompt survives
//! a crash at any point. A compaction is a run too. A prompt to a background task that runs here joins the task's own run in
//! the same way.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::{Message, SessionId};
use plimsoll_agent::{Agent, AgentError, Conversation, PROMPT_NOTE, RunEnd, RunReport};
use plimsoll_config::PermissionRule;
use plimsoll_host::PendingRevert;
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

/// Time that running sessions have to finish when the server stops.
const STOP: Duration = Duration::from_secs(8);

/// Error recorded for an unfinished answer of a run that ended unexpectedly.
const INTERRUPTED: &str = "Interrupted: the run was given up.";

/// Maximum number of sessions whose background tasks are answered when they end.
const REMEMBERED: usize = 10_000;

/// Agent, model and options of a session's runs. A different choice reopens the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Choice {
    /// The agent; the session's own if `None`.
    pub(crate) agent: Option<String>,
    /// The model, as `provider/model`; the session's own if `None`.
    pub(crate) model: Option<String>,
    /// Text after the system prompt.
    pub(crate) system: Option<String>,
    /// Disabled tools.
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

/// Runners of all sessions that are open or running, or recently were.
#[derive(Default)]
pub(crate) struct Runners {
    all: Mutex<HashMap<SessionId, Arc<Runner>>>,
    /// Sessions that this server has run: they answer their background tasks when those end.
    known: Mutex<HashSet<SessionId>>,
    /// Tasks that run in this process.
    tasks: Mutex<HashSet<SessionId>>,
    /// Permissions that users granted permanently, by session. Kept here because an idle session is released.
    granted: Mutex<HashMap<SessionId, Vec<PermissionRule>>>,
    is_stopping: CancellationToken,
}

/// The runner of one session.
pub(crate) struct Runner {
    session: SessionId,
    project: Arc<Project>,
    state: tokio::sync::Mutex<State>,
    /// Cancels the current run.
    cancel: Mutex<CancellationToken>,
    /// Whether a run is active, for readers that must not wait for the lock on `state`.
    busy: AtomicBool,
    /// The session while it is open.
    handle: Mutex<Option<SessionHandle>>,
    /// Number of uses, by which a delayed release notices that the session was used again.
    uses: AtomicU64,
    /// Whether the settings of the session have changed since it was opened.
    is_outdated: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The open session. A run takes it and puts it back.
    open: Option<Open>,
    is_running: bool,
    waiting: Vec<oneshot::Sender<Answered>>,
    /// Prompts with `noReply` that joined the run. They do not extend it.
    silent: HashSet<String>,
}

/// First action of a run. Afterwards the run answers the prompts that joined it.
enum Job {
    /// Answers the newest prompt.
    Prompt,
    /// Answers new notes.
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
                is_outdated: AtomicBool::new(false),
            })
        });
        Arc::clone(runner)
    }

    fn existing(&self, session: &SessionId) -> Option<Arc<Runner>> {
        lock(&self.all).get(session).cloned()
    }

    /// Registers a session, so that it answers its background tasks when they end.
    pub(crate) fn remember(&self, session: &SessionId) {
        let mut known = lock(&self.known);
        if known.len() < REMEMBERED {
            known.insert(session.clone());
        }
    }

    /// Records a permission that a user granted permanently in a session.
    pub(crate) fn grant(&self, session: &SessionId, rule: PermissionRule) {
        let mut granted = lock(&self.granted);
        if granted.len() < REMEMBERED || granted.contains_key(session) {
            granted.entry(session.clone()).or_default().push(rule);
        }
    }

    /// Drops the state of a removed session.
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

    /// Returns the running sessions of a directory, and all running tasks.
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

    /// Returns a handle for operations that are safe during a run. Opens the session if it is not open.
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
            // The run owns the session, but its handle supports operations that are safe during a run.
            let running = lock(&runner.handle).clone();
            return running.ok_or_else(|| ApiError::busy(session, "the session is busy"));
        }
        let handle = runner.opened(app, &mut state, Choice::default()).await?.conversation.handle().clone();
        runner.release_later(app);
        Ok(handle)
    }

    /// Returns the handle of a session from its last opening here. It fails if the session has been released since.
    pub(crate) fn open_handle(&self, session: &SessionId) -> Option<SessionHandle> {
        lock(&self.existing(session)?.handle).clone()
    }

    /// Cancels the run of a session.
    pub(crate) fn abort(&self, session: &SessionId) {
        if let Some(runner) = self.existing(session) {
            lock(&runner.cancel).cancel();
        }
    }

    /// Starts a run for a new note, if its session is idle.
    pub(crate) fn on_note(&self, app: &Arc<App>, session: &SessionId) {
        let is_known = lock(&self.known).contains(session);
        // The run of a task reads its own notes.
        let is_running = self.is_busy(session) || self.runs_task(session);
        if !is_known || is_running || self.is_stopping.is_cancelled() {
            return;
        }
        let Some(runner) = self.existing(session) else {
            let (app, session) = (Arc::clone(app), session.clone());
            app.clone().spawn(async move {
                // The runner was dropped when the session was released, so the directory is read from the session's record.
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

    /// Stores a prompt. Unless `no_reply` is set, the current run or a new one answers it.
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
        PendingRevert::finish(session).await?;
        session.append(message.clone()).await?;
        open.conversation.set_initial_title(&message.text()).await?;
        self.project.database.changed.notify_one();
        if no_reply {
            self.release_later(app);
            return Ok(Accepted { message, answer: None });
        }
        state.waiting.push(answer);
        self.start(app, &mut state, Job::Prompt);
        Ok(Accepted { message, answer: Some(answered) })
    }

    /// Stores a prompt for the current run.
    async fn send(&self, app: &Arc<App>, message: &Message) -> ApiResult<()> {
        let note = NewNote {
            id: message.info.id.to_string(),
            kind: PROMPT_NOTE.to_owned(),
            data: serde_json::to_value(message).map_err(|error| ApiError::internal(error.to_string()))?,
        };
        let (opened, session, now) = (self.project.database.opened.clone(), self.session.clone(), app.now());
        blocking(move || Ok(opened.archive.store().send(&session, note, now)?)).await?;
        // The message enters the log at the run's next step, and the change feed reports it only then. Clients should show it
        // now.
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
        // Fails if another process runs the session; that process then answers the notes.
        let Ok(open) = self.opened(app, &mut state, choice).await else { return };
        if PendingRevert::finish(open.conversation.handle()).await.is_ok() {
            self.start(app, &mut state, Job::Notes);
        }
    }

    /// For a session that is a running task: waits until the task has ended, and then answers a prompt that joined it, with the
    /// task's last answer, or with a new run if the task ended before it read the prompt.
    async fn answer_after_task(self: &Arc<Self>, app: &Arc<App>, waiting: Option<oneshot::Sender<Answered>>) {
        let (board, stopping) = (&self.project.board, &app.runners.is_stopping);
        while app.runners.runs_task(&self.session) && !stopping.is_cancelled() {
            const POLL: Duration = Duration::from_millis(200);
            let ended = board.wait(&self.session, POLL, stopping).await;
            if ended.is_err() || ended.is_ok_and(|task| !task.status.is_active()) {
                // The end is stored first, then the lease is released, and only then the end is reported, which removes the task
                // from `runs_task`. Without a pause the loop would spin until then.
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
                // The prompt becomes part of the log without being answered.
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

    /// Returns the session, opened with this choice of agent and model.
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
            let is_outdated = self.is_outdated.swap(false, Ordering::SeqCst);
            if is_still_ours && wanted == open.choice && !is_outdated {
                // Borrowed again: the borrow checker extends a conditionally returned borrow to the end of the function.
                return state.open.as_mut().ok_or_else(|| ApiError::internal("the session was closed"));
            }
        }
        let choice = match state.open.take() {
            Some(open) => {
                let wanted = choice.or(&open.choice);
                // Fails if another process has taken over the session; there is nothing to release then.
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

    /// Creates the agent that runs the session.
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
        // Only for sessions without bounds: a task's permissions are bounded by its ancestors', so what a user granted in it
        // once must not widen them, and it asks again.
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
            Job::Prompt => conversation.continue_run(&cancel).await.map(Some),
            Job::Notes => conversation.answer_notes(&cancel).await,
            Job::Compact { focus, done } => {
                let compacted = conversation.compact_on(focus.as_deref(), &cancel).await;
                // The error goes to the caller only; `Ok` here lets prompts that joined meanwhile be answered.
                let _ = done.send(compacted.map(|figures| !figures.is_empty()).map_err(ApiError::from));
                Ok(None)
            }
        };
        let mut state = loop {
            let state = self.state.lock().await;
            // Prompts join under this lock. It is kept until `is_running` is reset, so none can join between the check and the
            // end.
            let goes_on = ended.is_ok() && !cancel.is_cancelled() && self.has_notes(&state.silent).await;
            if !goes_on {
                break state;
            }
            drop(state);
            ended = match conversation.answer_notes(&cancel).await {
                // The notes needed no answer, so the previous result stands.
                Ok(None) => ended,
                other => other,
            };
        };
        if ended.is_err() || cancel.is_cancelled() || !state.silent.is_empty() {
            // Accepted prompts become part of the log even if they are not answered.
            let _ = conversation.take_notes().await;
        }
        state.silent.clear();
        let answered = self.outcome(&ended, &open.choice).await;
        // A compaction or an empty run adds no answer, so a missing answer is not an error then.
        if let (Err(error), false) = (&answered, matches!(ended, Ok(None))) {
            let properties = json!({ "sessionID": self.session, "error": error.for_session() });
            app.hub.publish(app, &self.project.name, "session.error", properties);
        }
        state.is_running = false;
        state.open = Some(open);
        self.busy.store(false, Ordering::SeqCst);
        if app.hub.has_readers() {
            // Clients read an idle session as complete, so its last changes must be reported first.
            self.project.reported().await;
        }
        self.publish_status(app, "idle");
        app.hub.publish(app, &self.project.name, "session.idle", json!({ "sessionID": self.session }));
        for waiting in state.waiting.drain(..) {
            // The send fails if the caller has disconnected.
            let _ = waiting.send(answered.clone());
        }
        self.release_later(app);
    }

    /// Returns the result for callers that wait for a run: the newest answer or an error.
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

    /// Runs `work` on the open session. Fails if a run is active.
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

    /// Compacts the session after the current run.
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
        let open = self.opened(app, &mut state, choice).await?;
        PendingRevert::finish(open.conversation.handle()).await?;
        let (done, compacted) = oneshot::channel();
        self.start(app, &mut state, Job::Compact { focus: focus.map(str::to_owned), done });
        drop(state);
        compacted.await.map_err(|_| ApiError::unavailable("the server is stopping"))?
    }

    /// Waits for the end of a run that was aborted: a client that aborts and then writes does not wait in between.
    pub(crate) async fn aborted(&self) {
        if lock(&self.cancel).is_cancelled() {
            let _ = tokio::time::timeout(STOP, self.idle()).await;
        }
    }

    /// Opens the session again at its next use, because its settings have changed.
    pub(crate) fn reopen_later(&self) {
        self.is_outdated.store(true, Ordering::SeqCst);
    }

    /// Waits until no run is active.
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
            // A lease that cannot be released expires.
            let _ = open.conversation.close().await;
        }
    }

    /// Releases the session later, unless it is used again before.
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
            // References by the map and this task. Any other owner may be about to open the session, and a second runner could be
            // created next to its own.
            const UNUSED: usize = 2;
            if Arc::strong_count(&runner) <= UNUSED {
                all.remove(&runner.session);
            }
        });
    }
}

impl Choice {
    /// Returns this choice, completed by an earlier one. System text and disabled tools of a prompt apply to its run only.
    fn or(&self, earlier: &Choice) -> Choice {
        let agent = self.agent.clone().or_else(|| earlier.agent.clone());
        // Another agent may be configured with its own model, which the earlier choice would override.
        let keeps_model = self.agent.is_none() || self.agent == earlier.agent;
        let model = self.model.clone().or_else(|| earlier.model.clone().filter(|_| keeps_model));
        Choice { agent, model, system: self.system.clone(), without: self.without.clone() }
    }
}
