//! There is one loader of the configuration.

use plimsoll::{Limits, Tokens};
use plimsoll_host::Flags;

use crate::hosts::Place;

const CONFIG: &str = "model = \"local/harbour-1\"\n[providers.local]\napi = \"openai-chat\"\n\
    base_url = \"http://127.0.0.1:9/v1\"\n[providers.local.models.harbour-1]\ncontext = 24000\noutput = 2000\n\
    price = { input = 2, output = 8 }\n";

#[test]
fn a_session_and_a_run_see_the_same_limits_and_prices() {
    let place = Place::new();
    place.write(".config/plimsoll/config.toml", CONFIG);
    let host = place.host();
    let of_session = host.config(&Flags::default()).unwrap();
    let (of_run, run) = host.run_config(&Flags::default()).unwrap();
    let limits = Limits { output: Tokens(2_000), ..Limits::new(24_000, 0) };
    for config in [&of_session, &of_run] {
        assert_eq!(config.policy.limits("harbour-1", None), limits);
        assert_eq!(config.prices["harbour-1"].output, 8.0);
    }
    assert_eq!(run.resolve_model(None).unwrap().limits, Some(limits), "what a run would ask");
}

/// A window that the user names is used, also for a model whose window is configured.
#[test]
fn a_named_window_is_that_of_the_agent() {
    let place = Place::new();
    place.write(".config/plimsoll/config.toml", CONFIG);
    let host = place.host();
    let agent = |context: Option<u64>| {
        let flags = Flags { context, ..Flags::default() };
        let setup = host.agent_setup(plimsoll_host::AgentOptions { flags, ..Default::default() }).unwrap();
        let (opened, _) = setup.open().unwrap();
        let agent = setup.agent(&opened, &setup.overrides()).unwrap();
        agent.policy.limits(&agent.model.name.model, agent.model.limits)
    };
    assert_eq!(agent(None).context, Tokens(24_000));
    assert_eq!(agent(Some(64_000)).context, Tokens(64_000));
    // Unless the policy itself has an entry for the model.
    let policy = format!("{CONFIG}[overflow.models.harbour-1]\ncontext = 30000\n");
    place.write(".config/plimsoll/config.toml", &policy);
    assert_eq!(agent(Some(64_000)).context, Tokens(30_000));
}
