//! Sets up agents from the configuration.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Policy, Tokens};
use plimsoll_config::{AgentConfig, HookCommand, ProviderKeys, ResolvedModel, RunConfig};
use plimsoll_providers::ProviderError;
use plimsoll_sandbox::{PermissionRule, Permissions, Sandbox, SandboxConfig};
use plimsoll_session::Counting;
use plimsoll_store::{Archive, Clock, TakeOver};
use serde_json::Value;

use crate::agent::{Agent, Compaction, Profile, ToolSet};
use crate::builtin::{BASE_PROMPT, BUILT_IN, DEFAULT_AGENT, over_built_in};
use crate::confinement::closed_notice;
use crate::error::AgentSetupError;
use crate::hooks::{CommandHook, Hooks, hook_notices};
use crate::instructions::Instructions;
use crate::model::Model;
use crate::skills::{SkillEntry, SkillPlace, find_skills, skill_places};
use crate::spend::RunLimits;
use crate::tools::{Bash, Skill, Webfetch};

/// Agents reserved for the runtime's own requests. Users cannot run them.
pub(crate) const INTERNAL: [&str; 2] = ["compaction", "title"];

/// Settings of the user for one run.
#[derive(Clone, Debug, Default)]
pub struct RunOverrides {
    /// Name of the agent.
    pub agent: Option<String>,
    /// Model, as `provider/model`.
    pub model: Option<String>,
    /// Rules that override all rules of the configuration.
    pub allow: Vec<PermissionRule>,
}

impl RunOverrides {
    /// Checks whether the agent can be set up, before anything is created for it.
    pub fn check(&self, run: &RunConfig) -> Result<(), AgentSetupError> {
        self.resolve(run).map(drop)
    }

    /// Returns the name of the agent from the overrides or the configuration.
    fn agent_name<'a>(&'a self, run: &'a RunConfig) -> &'a str {
        self.agent.as_deref().or(run.default_agent.as_deref()).unwrap_or(DEFAULT_AGENT)
    }

    fn resolve(&self, run: &RunConfig) -> Result<(AgentConfig, Model), AgentSetupError> {
        let name = self.agent_name(run);
        let own = agent_of(run, name)?;
        let model = match (&self.model, run.resolve_agent_model(name)) {
            (None, Some(model)) => model?,
            (wish, _) => run.resolve_model(wish.as_deref())?,
        };
        let model = Model::of_agent(model, &own)?;
        Ok((own, model))
    }
}

impl Agent {
    /// Creates an agent with the default policy and the built-in tools, which may only read in its directory.
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

    /// Creates an agent from the configuration and overrides.
    pub fn configured(
        archive: Arc<Archive>,
        policy: Policy,
        run: &RunConfig,
        overrides: &RunOverrides,
        directory: &Path,
        home: Option<&Path>,
    ) -> Result<Agent, AgentSetupError> {
        let name = overrides.agent_name(run);
        let (own, model) = overrides.resolve(run)?;
        let mut agent = Agent::new(archive, model, directory);
        agent.policy = Arc::new(policy);
        let profile = &mut agent.profile;
        profile.name = name.to_owned();
        agent.sandbox = Arc::new(agent.sandbox.with_config(run.sandbox.clone()));
        agent.keys = run.keys.clone();
        let hook = |hook: &HookCommand| {
            Arc::new(CommandHook::new(hook.clone(), &agent.directory, &agent.sandbox, run.keys.clone()))
        };
        agent.hooks = run.hooks.iter().map(|setup| hook(setup) as Arc<dyn Hooks>).collect();
        let bash =
            Bash::new(Arc::clone(&agent.sandbox)).hiding(run.keys.clone()).in_project(&agent.directory);
        let webfetch = Webfetch::configured(run.webfetch.clone());
        let mut tools = ToolSet::builtin(&agent.policy, &agent.sandbox).with(bash).with(webfetch);
        let skills = skills(run, &agent.directory, home);
        if !skills.is_empty() {
            tools = tools.with(Skill::new(skills));
        }
        profile.tools = tools.filter(|tool| own.has_tool(tool).unwrap_or(true));
        profile.switches.clone_from(&own.tools);
        if let Some(refusal) = agent.sandbox.refusal().filter(|_| profile.tools.get("bash").is_some()) {
            return Err(AgentSetupError::NotConfined(refusal));
        }
        if let Some(prompt) = &own.prompt {
            profile.system[0] = format!("{}\n\n{}", prompt.trim_end(), surroundings(directory));
        }
        let Instructions { text, mut notices } = Instructions::read(run, home);
        profile.system.extend(text);
        notices.extend(hook_notices(run, &agent.directory, &agent.sandbox));
        notices.extend(closed_notice(&agent.sandbox, &agent.directory));
        profile.closed.clone_from(&run.sandbox.closed);
        agent.notices = notices;
        profile.permissions.rules.clone_from(&run.permissions.rules);
        profile.general_rules = run.permissions.rules.len();
        profile.permissions.rules.extend(own.permissions.rules.iter().chain(&overrides.allow).cloned());
        if let Some(steps) = own.steps.into_iter().chain(run.caps.steps).min() {
            profile.limits.steps = u64::from(steps);
        }
        (profile.limits.tokens, profile.limits.cost) = (run.caps.tokens, run.caps.cost);
        let compacting = internal_agent(run, "compaction")?;
        let compaction = match run.resolve_agent_model("compaction") {
            Some(model) => Some(Model::of_agent(model?, &compacting)?),
            None => None,
        };
        agent.compaction = Compaction {
            model: compaction,
            prompt: compacting.prompt,
            context: Vec::new(),
            output: compacting.output.map(Tokens),
        };
        agent.mcp = Arc::new(run.mcp.clone());
        // A missing title is not a reason to fail.
        let is_disabled =
            run.agents.get("title").is_some_and(|agent| agent.disabled || agent.problem.is_some());
        let titling = run.resolve_agent_model("title").or_else(|| run.resolve_small_model());
        let titling = titling.filter(|_| !is_disabled).and_then(Result::ok);
        agent.title_model = titling.and_then(|model| Model::resolved(model).ok());
        Ok(agent)
    }
}

impl Model {
    /// Creates a configured model by its name, `provider/model`.
    pub fn configured(run: &RunConfig, name: &str) -> Result<Model, AgentSetupError> {
        Ok(Model::resolved(run.resolve_model(Some(name))?)?)
    }

    /// Creates a model from its resolved configuration.
    pub fn resolved(resolved: ResolvedModel) -> Result<Model, ProviderError> {
        let ResolvedModel { model, endpoint, client, limits, price, .. } = resolved;
        let options = endpoint.request_options();
        let client = plimsoll_providers::Client::new(endpoint, client)?;
        Ok(Model { name: model, client, limits, price, options, refused_thoughts: None })
    }

    /// Creates a model with the options of a configured agent.
    fn of_agent(mut resolved: ResolvedModel, agent: &AgentConfig) -> Result<Model, ProviderError> {
        resolved.client.total = agent.timeout.unwrap_or(resolved.client.total);
        let mut model = Model::resolved(resolved)?;
        let options = &mut model.options;
        options.temperature = agent.temperature.or(options.temperature);
        options.max_tokens = agent.output.or(options.max_tokens);
        options.extra.extend(agent.options.clone());
        options.extra.extend(agent.top_p.map(|share| ("top_p".to_owned(), Value::from(share))));
        Ok(model)
    }
}

/// Returns the configuration of an agent, merged over its built-in one.
fn agent_of(run: &RunConfig, name: &str) -> Result<AgentConfig, AgentSetupError> {
    let own = run.agents.get(name);
    let is_there = own.map_or(BUILT_IN.contains(&name), |agent| !agent.disabled);
    match own {
        Some(AgentConfig { problem: Some(problem), .. }) if is_there => {
            Err(AgentSetupError::bad_reference(problem))
        }
        own if is_there => Ok(over_built_in(name, own.cloned().unwrap_or_default())),
        // The default agent cannot be disabled.
        _ if name == DEFAULT_AGENT => Ok(over_built_in(name, AgentConfig::default())),
        _ => Err(AgentSetupError::UnknownAgent { name: name.to_owned(), known: agent_names(run) }),
    }
}

/// Returns the names of all agents: built-in ones, then those of the configuration.
pub fn agent_names(run: &RunConfig) -> Vec<String> {
    let is_on =
        |name: &str| run.agents.get(name).is_none_or(|agent| !agent.disabled) || name == DEFAULT_AGENT;
    let others = run.agents.keys().map(String::as_str);
    let others = others.filter(|name| !INTERNAL.contains(name) && !BUILT_IN.contains(name));
    BUILT_IN.into_iter().chain(others).filter(|name| is_on(name)).map(str::to_owned).collect()
}

/// Returns the description of an agent; empty if it has none.
pub fn agent_description(run: &RunConfig, name: &str) -> String {
    agent_of(run, name).ok().and_then(|agent| agent.description).unwrap_or_default()
}

/// Returns the configuration of an internal agent. A disabled one has the defaults.
fn internal_agent(run: &RunConfig, name: &str) -> Result<AgentConfig, AgentSetupError> {
    match run.agents.get(name).filter(|agent| !agent.disabled) {
        Some(AgentConfig { problem: Some(problem), .. }) => Err(AgentSetupError::bad_reference(problem)),
        Some(agent) => Ok(agent.clone()),
        None => Ok(AgentConfig::default()),
    }
}

/// Returns the part of the system prompt about the agent's environment.
fn surroundings(directory: &Path) -> String {
    format!("Project directory: {}\nPlatform: {}", directory.display(), std::env::consts::OS)
}

/// Returns the skills of the home, the project and the configuration.
fn skills(run: &RunConfig, project: &Path, home: Option<&Path>) -> Vec<SkillEntry> {
    let configured = run.skills.iter().filter_map(|source| {
        Some(SkillPlace { directory: source.place(home)?, within: source.within.clone() })
    });
    find_skills(&skill_places(project, home, configured.collect()))
}
