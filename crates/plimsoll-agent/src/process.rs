//! Processes of the agent: without the keys of model providers, and waited for asynchronously.

use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

use plimsoll_config::ProviderKeys;
use plimsoll_providers::Secret;
use plimsoll_sandbox::ProcessGroup;

/// Interval at which a process that should end is checked.
const TICK: Duration = Duration::from_millis(10);

/// Variables that always hold keys of model providers, and the password of a server that runs agents.
const KEYS: [&str; 4] =
    ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENCODE_SERVER_PASSWORD"];

/// Removes the variables of this process that hold a key of a model provider from a command's environment.
pub(crate) fn remove_keys(command: &mut Command, keys: &ProviderKeys) {
    let own =
        ProviderKeys::of_values(KEYS.iter().filter_map(|name| std::env::var(name).ok()).map(Secret::new));
    let is_key = |name: &OsString, value: &OsString| {
        keys.are_exposed_by(name, value) || own.are_exposed_by(name, value)
    };
    let found = std::env::vars_os().filter(|(name, value)| is_key(name, value)).map(|(name, _)| name);
    for name in found.chain(KEYS.map(OsString::from)) {
        command.env_remove(name);
    }
}

/// Waits until a process has ended by itself, for at most this long.
pub(crate) async fn wait_for_end(group: &ProcessGroup, most: Duration) {
    let until = Instant::now() + most;
    while !group.has_ended() && Instant::now() < until {
        tokio::time::sleep(TICK).await;
    }
}
