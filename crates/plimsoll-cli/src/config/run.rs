//! The configuration of a run.

use plimsoll_config::{Flags, Origin, RunConfig};

use super::{Config, StoreConfig, tell_left_out, tell_notices};
use crate::args::AgentArgs;
use crate::error::CliError;
use crate::surroundings::Surroundings;

/// What `--allow` names the network of commands by; every other name is a tool.
pub(crate) const NETWORK: &str = "network";

/// What a run stands on.
pub(crate) struct ForRun {
    /// Policy and store.
    pub(crate) config: Config,
    /// Models, agents and permissions.
    pub(crate) run: RunConfig,
    /// The context window, where a flag, a variable or a file names one; otherwise the model's own counts.
    pub(crate) context: Option<u64>,
}

/// What holds here for a run with these flags. What is left out and what has no effect is said once.
pub(crate) fn load_run(args: &AgentArgs, around: &Surroundings) -> Result<ForRun, CliError> {
    let flags = Flags {
        policy: args.policy.clone(),
        context: args.context,
        store: around.store.clone(),
        model: args.model.clone(),
        max_steps: args.max_steps,
        max_cost: args.max_cost,
        max_tokens: args.max_tokens,
        sandbox: args.sandbox,
        network: args.allow.iter().any(|rule| rule == NETWORK),
    };
    let config = plimsoll_config::Config::load(&flags, around)?;
    tell_left_out(&config, around, |_| true);
    tell_notices(&config, around);
    let is_context_named = config.origin("context") != Origin::BuiltIn;
    let plimsoll_config::Config { policy, context, store, run, .. } = config;
    let run = run.map_err(|error| CliError::usage(error.to_string()))?;
    let store = StoreConfig::new(&store, &policy);
    let named = is_context_named.then_some(context);
    let prices = super::prices_of(run.providers.values());
    let config = Config { policy, context, is_context_named, store, prices };
    Ok(ForRun { config, run, context: named })
}
