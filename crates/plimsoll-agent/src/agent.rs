//! An agent: who speaks, with which model and tools, under which limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll::compact::request::{HookText, Summariser};
use plimsoll::{BelievedUsage, Policy, SessionId, Tokens};
use plimsoll_config::{McpServer, ProviderKeys, ToolSwitch};
use plimsoll_sandbox::{EffectiveRules, Permissions, Sandbox, SandboxConfig, matches};
use plimsoll_session::{Counting, DriverHandle, SessionError, Settings};
use plimsoll_store::{Archive, Clock, TakeOver};

use crate::ask::Asker;
use crate::builtin::{BASE_PROMPT, DEFAULT_AGENT};
use crate::error::AgentError;
use crate::event::{Event, EventSink};
use crate::hooks::Hooks;
use crate::ledger::FileLedger;
use crate::model::Model;
use crate::run::Conversation;
use crate::setup::surroundings;
use crate::tasks::{SpendMeter, TaskBoard};
use crate::tools::ToolSet;

/// An agent that can run sessions. Cloning it shares its model's connections.
#[derive(Clone)]
pub struct Agent {
    /// Where sessions are kept.
    pub archive: Arc<Archive>,
    /// The model.
    pub model: Model,
    /// Who speaks, and what it may do.
    pub profile: Profile,
    /// How the window is kept under the line.
    pub policy: Arc<Policy>,
    /// Who summarises.
    pub compaction: Compaction,
    /// A small model that gives new sessions a title; without one it is made of the first words.
    pub title_model: Option<Model>,
    /// How tokens are counted.
    pub counting: Counting,
    /// MCP servers by the name that their tools begin with. A conversation starts its own.
    pub mcp: Arc<BTreeMap<String, McpServer>>,
    /// Confines MCP servers as it does commands; each may have grants of its own.
    pub sandbox: Arc<Sandbox>,
    /// Keys of providers, which MCP servers are not given.
    pub keys: ProviderKeys,
    /// The directory it works in.
    pub directory: PathBuf,
    /// Who runs the session, in words for a person who finds it taken.
    pub holder: String,
    /// Whether a session is taken although another process runs it.
    pub take_over: TakeOver,
    /// For how long the right to run a session is taken and renewed.
    pub lease: Duration,
    /// The time.
    pub clock: Clock,
    /// Asks a person about calls that no rule decides; without one they are denied.
    pub asker: Option<Arc<dyn Asker>>,
    /// Have a say in calls and compactions, one after the other.
    pub hooks: Vec<Arc<dyn Hooks>>,
    /// Receives every event.
    pub events: EventSink,
    /// Runs its background tasks; without one it has none.
    pub tasks: Option<Arc<TaskBoard>>,
    /// What the run that launched it spends, for a background task: what it spends is charged there too.
    pub charged_to: Option<Arc<SpendMeter>>,
    /// What its user should know of how it is set up, told whenever a session is opened.
    pub notices: Vec<String>,
}

/// Who speaks, and what it may do.
#[derive(Clone)]
pub struct Profile {
    /// The agent's name, recorded with its answers.
    pub name: String,
    /// The system prompt, in pieces from the most stable to the least.
    pub system: Vec<String>,
    /// What it can do.
    pub tools: ToolSet,
    /// Tools that it has or has not, where they are known only later: those of MCP servers. The last that matches decides.
    pub switches: Vec<ToolSwitch>,
    /// What of that it may do.
    pub permissions: Permissions,
    /// So many of these rules, from the first, hold for all agents; those of this one and of flags follow.
    pub general_rules: usize,
    /// Places that only a rule which names them opens for changes, wherever they lie.
    pub closed: Vec<PathBuf>,
    /// What those that launched it have and may, for a background task: it may do nothing that one of them may not.
    pub bounds: Vec<Bound>,
    /// Whether a run waits for the session's background tasks when the model has said its last word, and lets it answer
    /// what came of them. A host that stays takes their notes later instead.
    pub awaits_tasks: bool,
    /// When a run ends at the latest.
    pub limits: RunLimits,
}

/// When a run ends at the latest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLimits {
    /// After so many answers of the model.
    pub steps: u64,
    /// Once so many tokens were charged.
    pub tokens: Option<u64>,
    /// Once it has cost so many dollars, as far as prices are known.
    pub cost: Option<f64>,
    /// A call that gave the same result so many times is told to the model, and ends the run when it is made again; 0 for
    /// never.
    pub repeats: u32,
    /// After so many answers in a row that broke off, the run ends.
    pub broken_answers: u32,
    /// After so many requests in a row that the provider refused as too long, the run ends.
    pub refusals: u32,
}

impl Default for RunLimits {
    fn default() -> RunLimits {
        RunLimits { steps: 200, tokens: None, cost: None, repeats: 3, broken_answers: 3, refusals: 5 }
    }
}

/// Who summarises.
#[derive(Clone, Default)]
pub struct Compaction {
    /// The model; the session's own, in the form that its cache holds already, if none is named.
    pub model: Option<Model>,
    /// Takes the place of the engine's instruction.
    pub prompt: Option<String>,
    /// Added to the instruction.
    pub context: Vec<String>,
    /// The longest summary; as the policy and the model's limits have it if it is not set.
    pub output: Option<Tokens>,
}

/// What one agent has and may, as a bound for the tasks that it launches.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// What it may do.
    pub permissions: Permissions,
    /// So many of these rules, from the first, hold for all agents.
    pub general_rules: usize,
    /// Tools that it has or has not. The last that matches decides.
    pub switches: Vec<ToolSwitch>,
}

impl Bound {
    /// Whether it has a tool of that name, by its switches alone.
    pub(crate) fn has(&self, tool: &str) -> bool {
        is_on(&self.switches, tool)
    }
}

fn is_on(switches: &[ToolSwitch], tool: &str) -> bool {
    switches.iter().rev().find(|switch| matches(&switch.tool, tool)).is_none_or(|switch| switch.on)
}

impl Profile {
    /// Whether it has a tool of that name, by its switches and by those of the agents above it. A tool that one of them is
    /// without would let it do through a task what it cannot do itself.
    pub(crate) fn wants(&self, tool: &str) -> bool {
        is_on(&self.switches, tool) && self.bounds.iter().all(|bound| bound.has(tool))
    }

    /// Returns the rules that decide about calls. `granted` are those that the user has agreed to in this session.
    pub(crate) fn rules<'a>(&'a self, granted: &'a Permissions) -> EffectiveRules<'a> {
        let above = self.bounds.iter().map(|bound| &bound.permissions);
        EffectiveRules::new(&self.permissions).within(above).closing(&self.closed).granting(granted)
    }

    /// What bounds the tasks of this agent: what bounds it, and what it has and may itself.
    pub(crate) fn bounds_below(&self) -> Vec<Bound> {
        let own = Bound {
            permissions: self.permissions.clone(),
            general_rules: self.general_rules,
            switches: self.switches.clone(),
        };
        self.bounds.iter().cloned().chain([own]).collect()
    }
}

impl Agent {
    /// An agent with the default policy, the builtin tools and nothing allowed but reading in its directory.
    pub fn new(archive: Arc<Archive>, model: Model, directory: &Path) -> Agent {
        let policy = Arc::new(Policy::default());
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let sandbox = Arc::new(Sandbox::new(SandboxConfig::default()));
        let profile = Profile {
            name: DEFAULT_AGENT.into(),
            system: vec![format!("{BASE_PROMPT}\n\n{}", surroundings(&directory))],
            tools: ToolSet::builtin(&policy, &sandbox),
            switches: Vec::new(),
            permissions: Permissions::default(),
            general_rules: 0,
            closed: Vec::new(),
            bounds: Vec::new(),
            awaits_tasks: false,
            limits: RunLimits::default(),
        };
        Agent {
            archive,
            model,
            profile,
            policy,
            compaction: Compaction::default(),
            title_model: None,
            counting: Counting::Calibrated,
            mcp: Arc::default(),
            sandbox,
            keys: ProviderKeys::default(),
            directory,
            holder: format!("process {}", std::process::id()),
            take_over: TakeOver::Never,
            lease: Duration::from_secs(60),
            clock: Clock::default(),
            asker: None,
            hooks: Vec::new(),
            events: Arc::new(|_| {}),
            tasks: None,
            charged_to: None,
            notices: Vec::new(),
        }
    }

    /// The same agent with background tasks, and with the tools for them that its configuration lets it have.
    pub fn with_tasks(mut self, board: &Arc<TaskBoard>) -> Agent {
        let name = &self.profile.name;
        let own = board.tools(name).into_iter().filter(|tool| board.offers(name, &tool.spec().name));
        self.profile.tools = own.fold(std::mem::take(&mut self.profile.tools), ToolSet::with_shared);
        self.tasks = Some(Arc::clone(board));
        self
    }

    /// Open a session of the archive, to run it.
    pub async fn open(&self, session: &SessionId) -> Result<Conversation, AgentError> {
        let driver = DriverHandle::open(Arc::clone(&self.archive), session.clone(), self.settings()).await?;
        self.tell(&Event::Opened {
            session: session.clone(),
            model: self.model.name.to_string(),
            agent: self.profile.name.clone(),
        });
        // A background task is set up as its parent is, whose user was told.
        for text in self.notices.iter().filter(|_| self.profile.bounds.is_empty()) {
            self.tell(&Event::Notice { text: text.clone() });
        }
        if let Some(board) = &self.tasks {
            // Tasks whose process has gone are found when their parent is opened, and it is told.
            board.look_after(session).await?;
        }
        let tools = self.profile.tools.clone();
        let files = driver.run(move |driver| {
            let files = FileLedger::of_log(driver.log());
            tools.reopen(driver.log(), &files);
            Ok(files)
        });
        let files = files.await?;
        Ok(Conversation::new(self.clone(), session.clone(), driver, files))
    }

    /// Begin a session and open it.
    pub async fn begin(&self, title: &str) -> Result<Conversation, AgentError> {
        let (archive, clock) = (Arc::clone(&self.archive), self.clock.clone());
        let new = plimsoll_store::NewSession {
            title: title.to_owned(),
            agent: Some(self.profile.name.clone()),
            model: Some(self.model.name.model.clone()),
            directory: Some(self.directory.display().to_string()),
            ..plimsoll_store::NewSession::default()
        };
        // The store blocks, so it is called off the host's threads.
        let made = tokio::task::spawn_blocking(move || {
            let now = clock.now();
            let id = plimsoll_store::random_ids().session(now);
            archive.store().create(plimsoll_store::NewSession { id, ..new }, now)
        });
        let made = made.await.map_err(|error| AgentError::Internal(error.to_string()))?;
        self.open(&made.map_err(SessionError::from)?.id).await
    }

    pub(crate) fn settings(&self) -> Settings {
        let limits = self.model.limits;
        let known = self.policy.limits(&self.model.name.model, limits);
        let mut summariser = match &self.compaction.model {
            Some(model) => {
                let name = model.name.to_string();
                Summariser::named(name, self.policy.limits(&model.name.model, model.limits))
            }
            None => Summariser::own(known),
        };
        if let Some(longest) = self.compaction.output {
            let own = summariser.limits.output;
            summariser.limits.output = if own == Tokens::ZERO { longest } else { own.min(longest) };
        }
        Settings {
            policy: Arc::clone(&self.policy),
            limits,
            provider: Some(self.model.name.provider.clone()),
            summariser: Some(summariser),
            hook: self.own_summary_text(),
            counting: self.counting.clone(),
            // What another tool recorded is of requests with its own system prompt and tools.
            believed: BelievedUsage::Own,
            holder: self.holder.clone(),
            take_over: self.take_over.clone(),
            lease: self.lease,
            clock: self.clock.clone(),
            ..Settings::new(self.model.name.model.clone())
        }
    }

    /// What the agent itself has to say about a summary.
    pub(crate) fn own_summary_text(&self) -> HookText {
        let (context, prompt) = (self.compaction.context.clone(), self.compaction.prompt.clone());
        HookText { context, prompt, focus: None }
    }

    pub(crate) fn tell(&self, event: &Event) {
        (self.events)(event);
    }
}

/// So much is asked for at least, however little room the window leaves.
pub(crate) const LEAST_ANSWER: Tokens = Tokens(256);
