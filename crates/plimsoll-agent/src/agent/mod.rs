//! An agent: profile, model, tools and limits.

mod background;
mod profile;
mod restriction;
mod tool;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::compact::{HookText, Summariser};
use plimsoll::{Policy, Tokens, UsageTrust};
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
pub use restriction::{PERMISSION_SETTING, SessionRule};
pub use tool::{Tool, ToolCall, ToolError, ToolSet};
pub(crate) use tool::{number, optional_text, text};

/// An agent that can run sessions. Cloning it shares its model's connections.
#[derive(Clone)]
pub struct Agent {
    /// Archive that stores the sessions.
    pub archive: Arc<Archive>,
    /// The model.
    pub model: Model,
    /// Name, system prompt, tools and permissions.
    pub profile: Profile,
    /// How the window is kept under the line.
    pub policy: Arc<Policy>,
    /// Settings of summaries.
    pub compaction: Compaction,
    /// Small model for titles; without one, the title is the first words of the prompt.
    pub title_model: Option<Model>,
    /// How tokens are counted.
    pub counting: Counting,
    /// MCP servers by the prefix of their tools. Each conversation starts its own.
    pub mcp: Arc<BTreeMap<String, McpServer>>,
    /// Sandbox of commands and MCP servers. Servers may have further grants.
    pub sandbox: Arc<Sandbox>,
    /// Keys of providers, which are removed from the environment of MCP servers.
    pub keys: ProviderKeys,
    /// The project's directory.
    pub directory: PathBuf,
    /// Description of this process, shown to a user who finds the session in use.
    pub holder: String,
    /// Whether to take over a session that another process runs.
    pub take_over: TakeOver,
    /// Duration of the session's lease, after which it is renewed.
    pub lease: Duration,
    /// The clock.
    pub clock: Clock,
    /// Asks the user about calls that no rule decides; without it they are denied.
    pub asker: Option<Arc<dyn Asker>>,
    /// Hooks, called in this order.
    pub hooks: Vec<Arc<dyn Hooks>>,
    /// Receives every event.
    pub events: EventSink,
    /// Runs background tasks; without it there are none.
    pub tasks: Option<Arc<dyn BackgroundTasks>>,
    /// For a background task: the meter of the run that launched it, which is charged too.
    pub charged_to: Option<Arc<SpendMeter>>,
    /// Messages about the configuration, reported whenever a session is opened.
    pub notices: Vec<String>,
}

/// Settings of summaries.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Compaction {
    /// The model. By default the session's own, in the form that its cache contains.
    pub model: Option<Model>,
    /// Replaces the engine's instruction.
    pub prompt: Option<String>,
    /// Text that is added to the instruction.
    pub context: Vec<String>,
    /// Maximum length of a summary. By default it follows from the policy and the model's limits.
    pub output: Option<Tokens>,
}

impl Agent {
    /// Returns the settings of this agent's sessions.
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
            // Usage recorded by another tool is for requests with other system prompts and tools.
            .believed_usage(UsageTrust::Own)
            .holder(self.holder.clone())
            .take_over(self.take_over.clone())
            .lease(self.lease)
            .clock(self.clock.clone())
    }

    /// Returns the agent's own text for summary requests.
    pub(crate) fn own_summary_text(&self) -> HookText {
        let (context, prompt) = (self.compaction.context.clone(), self.compaction.prompt.clone());
        HookText { context, prompt, focus: None }
    }

    pub(crate) fn emit(&self, event: &Event) {
        (self.events)(event);
    }
}

impl From<&Model> for SessionModel {
    fn from(model: &Model) -> SessionModel {
        let name = SessionModel::new(model.name.model.clone()).provider(model.name.provider.clone());
        name.limits(model.limits).price(model.price)
    }
}

/// Returns the system prompt and tools in the form that the session counts.
pub(crate) fn overhead(system: &[String], specs: &[ToolSpec]) -> Overhead {
    Overhead::default().system(system.join("\n\n")).tools(declared(specs))
}

/// Returns the declarations of tools, one text for each.
pub(crate) fn declared(specs: &[ToolSpec]) -> Vec<String> {
    specs.iter().map(|tool| format!("{}\n{}\n{}", tool.name, tool.description, tool.schema)).collect()
}
