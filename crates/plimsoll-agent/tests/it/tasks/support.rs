//! A dock with a board.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_agent::tasks::{
    Caller, Launch, Roster, RosterAgent, RosterError, Task, TaskBoard, TaskLimits, TaskStatus,
};
use plimsoll_agent::{Agent, Conversation};
use plimsoll_config::AgentFork;
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::Dock;

/// Agents that differ only in their names: `build`, `helper`, and `boss`, whose tasks may launch tasks.
pub(crate) struct Crew {
    template: Agent,
    pub(crate) fork: Option<AgentFork>,
}

impl Crew {
    pub(crate) fn of(agent: &Agent) -> Crew {
        Crew { template: agent.clone(), fork: None }
    }
}

impl Roster for Crew {
    fn agent(&self, name: &str, _: Option<&str>) -> Result<RosterAgent, RosterError> {
        if !["build", "helper", "boss"].contains(&name) {
            return Err(format!("Agent \"{name}\" not found. Make sure the agent is registered.").into());
        }
        let mut agent = self.template.clone();
        agent.profile.name = name.to_owned();
        Ok(RosterAgent { agent, is_own_model: false, fork: self.fork })
    }

    fn has_task_tool(&self, agent: &str, _: &str, is_task: bool) -> bool {
        !is_task || agent == "boss"
    }
}

pub(crate) struct TaskDock {
    pub(crate) dock: Dock,
    pub(crate) board: Arc<TaskBoard>,
    pub(crate) agent: Agent,
}

impl TaskDock {
    pub(crate) fn new(server: ModelServer) -> TaskDock {
        TaskDock::with(Dock::new(server), TaskLimits::default(), None)
    }

    pub(crate) fn with(dock: Dock, limits: TaskLimits, fork: Option<AgentFork>) -> TaskDock {
        let crew = Crew { template: dock.agent.clone(), fork };
        let board = TaskBoard::new(Arc::clone(&dock.archive), Arc::new(crew), limits, "the test");
        let mut agent = dock.agent.clone().with_tasks(&board);
        agent.profile.awaits_tasks = true;
        TaskDock { dock, board, agent }
    }

    pub(crate) async fn begin(&self) -> Conversation {
        self.agent.begin("").await.unwrap()
    }

    pub(crate) fn caller(&self, talk: &Conversation) -> Caller {
        Caller::new(self.agent.clone(), talk.session().clone(), talk.handle().clone())
    }

    pub(crate) async fn launch(&self, talk: &Conversation, prompt: &str) -> Task {
        self.board.launch(&self.caller(talk), launch(prompt)).await.unwrap()
    }

    /// Waits until a task has ended.
    pub(crate) async fn ended(&self, id: &SessionId) -> Task {
        let cancel = tokio_util::sync::CancellationToken::new();
        let task = self.board.wait(id, Duration::from_secs(30), &cancel).await.unwrap();
        assert!(!task.status.is_active(), "the task has not ended: {task:?}");
        // Its end is recorded before the cleanup.
        let begun = std::time::Instant::now();
        while self.board.active_here() > 0 && self.board.task(id).await.unwrap().run() == task.run() {
            let all = self.board.tasks(None).await;
            assert!(begun.elapsed() < Duration::from_secs(30), "something is still at work: {all:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        task
    }

    /// Waits until a task has this status.
    pub(crate) async fn reaches(&self, id: &SessionId, status: TaskStatus) -> Task {
        for _ in 0..5_000 {
            let task = self.board.task(id).await.unwrap();
            if task.status == status {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("the task never was {status}: {:?}", self.board.task(id).await)
    }

    pub(crate) fn project(&self) -> std::path::PathBuf {
        Path::new(&self.dock.directory.path().join("project")).to_owned()
    }
}

pub(crate) fn launch(prompt: &str) -> Launch {
    Launch {
        description: format!("About {prompt}"),
        prompt: prompt.to_owned(),
        agent: "helper".into(),
        model: None,
        fork: false,
        way: None,
    }
}

/// A call of `background_task`.
pub(crate) fn task_call(id: &str, prompt: &str, fork: bool) -> Reply {
    Reply::new().call(id, "background_task", task_input(prompt, fork))
}

pub(crate) fn task_input(prompt: &str, fork: bool) -> Value {
    json!({ "description": format!("About {prompt}"), "prompt": prompt, "agent": "helper", "fork": fork })
}

/// Returns whether a request is from the child with this prompt.
pub(crate) fn is_child(request: &Captured, prompt: &str) -> bool {
    let users = request.messages.iter().filter(|message| message.role == "user");
    let texts: Vec<String> = users.map(|message| message.text()).collect();
    texts.iter().any(|text| text == prompt || text.contains(&format!("<task>\n{prompt}\n</task>")))
}

/// Returns the user messages in a session's log that were not typed, oldest first.
pub(crate) fn injected_messages(dock: &TaskDock, session: &SessionId) -> Vec<String> {
    let log = dock.dock.log(session);
    let notices = log.iter().filter(|message| message.is_user() && message.text().contains("Task Progress:"));
    notices.map(|message| message.text()).collect()
}
