//! An agent: who speaks, with which model and tools, under which limits.

mod background;
mod profile;
mod tool;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::compact::request::{HookText, Summariser};
use plimsoll::{BelievedUsage, Policy, Tokens};
use plimsoll_config::{McpServer, ProviderKeys};
use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::Sandbox;
use plimsoll_session::{Counting, Overhead, Session, SessionBuilder, SessionModel};
use plimsoll_store::{Archive, Clock, TakeOver};

use crate::ask::Asker;
use crate::event::{Event, EventSink};
use crate::hooks::Hooks;
use crate::model::Model;
use crate::spend::SpendMeter;
pub use background::{AwaitingSession, BackgroundTasks, TasksFuture};
pub use profile::{Bound, Profile};
pub use tool::{Tool, ToolCall, ToolError, ToolSet};
pub(crate) use tool::{number, optional_text, text};

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
    pub tasks: Option<Arc<dyn BackgroundTasks>>,
    /// What the run that launched it spends, for a background task: what it spends is charged there too.
    pub charged_to: Option<Arc<SpendMeter>>,
    /// What its user should know of how it is set up, told whenever a session is opened.
    pub notices: Vec<String>,
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

impl Agent {
    /// Settings of the sessions that this agent runs.
    pub(crate) fn builder(&self) -> SessionBuilder {
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
        Session::builder(Arc::clone(&self.archive))
            .policy(Arc::clone(&self.policy))
            .model(&self.model)
            .summariser(summariser)
            .summary_hook(self.own_summary_text())
            .overhead(overhead(&self.profile.system, &self.profile.tools.specs()))
            .counting(self.counting.clone())
            // What another tool recorded is of requests with its own system prompt and tools.
            .believed_usage(BelievedUsage::Own)
            .holder(self.holder.clone())
            .take_over(self.take_over.clone())
            .lease(self.lease)
            .clock(self.clock.clone())
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

impl From<&Model> for SessionModel {
    fn from(model: &Model) -> SessionModel {
        let name = SessionModel::new(model.name.model.clone()).provider(model.name.provider.clone());
        name.limits(model.limits).price(model.price)
    }
}

/// The system prompt and the tools of an agent, as the session counts them.
pub(crate) fn overhead(system: &[String], specs: &[ToolSpec]) -> Overhead {
    Overhead::default().system(system.join("\n\n")).tools(declared(specs))
}

/// Declarations of tools, one text for each.
pub(crate) fn declared(specs: &[ToolSpec]) -> Vec<String> {
    specs.iter().map(|tool| format!("{}\n{}\n{}", tool.name, tool.description, tool.schema)).collect()
}
