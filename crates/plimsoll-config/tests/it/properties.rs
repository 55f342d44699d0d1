//! Property: whatever a checkout's files contain, nothing of it widens permissions before it is trusted.

use plimsoll_config::{Action, Config, Flags};
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::support::Home;

/// Keys in OpenCode's files and in ours that have an effect.
const PLACES: [&str; 44] = [
    "model",
    "small_model",
    "instructions",
    "permission",
    "permission.bash",
    "permission.bash.git *",
    "tools.bash",
    "provider.mine.npm",
    "provider.mine.api",
    "provider.mine.env",
    "provider.mine.options.baseURL",
    "provider.mine.options.apiKey",
    "provider.mine.options.headers.authorization",
    "provider.anthropic.options.baseURL",
    "provider.anthropic.models.m.limit.context",
    "provider.anthropic.models.m.cost.input",
    "agent.build",
    "agent.build.prompt",
    "agent.build.model",
    "agent.build.steps",
    "agent.build.tools.bash",
    "agent.build.permission.bash",
    "mode.build.prompt",
    "mcp.mine.enabled",
    "mcp.x.command",
    "mcp.x.url",
    "mcp.x.environment.PATH",
    "compaction.auto",
    "max_steps",
    "max_cost",
    "permissions",
    "permissions.bash",
    "permissions.bash.git *",
    "providers.mine.api",
    "providers.mine.base_url",
    "providers.mine.key",
    "providers.mine.headers.authorization",
    "providers.mine.timeout",
    "providers.anthropic.base_url",
    "providers.anthropic.models.m.context",
    "agents.build.prompt",
    "agents.build.model",
    "agents.build.tools.bash",
    "agents.build.permission.bash",
];

const TEXTS: [&str; 11] = [
    "allow",
    "ask",
    "deny",
    "evil/x",
    "https://evil.example",
    "{env:HOME}",
    "{file:/etc/passwd}",
    "@ai-sdk/anthropic",
    "docs/x.md",
    "openai-chat",
    "10s",
];

fn leaf() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(&TEXTS[..]).prop_map(Value::from);
    prop_oneof![
        4 => text(),
        2 => prop::collection::vec(text(), 1..3).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<u32>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => Just(Value::Object(Map::new())),
    ]
}

/// A file with some of the keys, each with a value that may be of the wrong type.
fn file(is_ours: bool) -> impl Strategy<Value = Value> {
    let of_kind = move |place: &&str| {
        let section = place.split('.').next().unwrap_or_default();
        let ours = ["permissions", "providers", "agents", "max_steps", "max_cost"];
        let both = ["model", "small_model", "instructions", "mcp"];
        both.contains(&section) || ours.contains(&section) == is_ours
    };
    let places: Vec<&str> = PLACES.into_iter().filter(of_kind).collect();
    let settings = prop::collection::vec((prop::sample::select(places), leaf()), 1..7);
    settings.prop_map(|settings| {
        let mut top = Value::Object(Map::new());
        for (place, value) in settings {
            let mut at = &mut top;
            for name in place.split('.') {
                if !at.is_object() {
                    *at = Value::Object(Map::new());
                }
                at = at.as_object_mut().unwrap().entry(name).or_insert(Value::Null);
            }
            *at = value;
        }
        top
    })
}

/// Formats a value as TOML; `None` for null.
fn toml(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Array(items) => {
            Some(format!("[{}]", items.iter().filter_map(toml).collect::<Vec<_>>().join(", ")))
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(key, value)| Some(format!("{key:?} = {}", toml(value)?)));
            Some(format!("{{ {} }}", fields.collect::<Vec<_>>().join(", ")))
        }
        other => Some(other.to_string()),
    }
}

/// Everything that a checkout must not change: where conversations are sent, with which keys, which commands run, which
/// text the model reads.
fn guarded(config: &Config) -> Option<String> {
    let run = config.run.as_ref().ok()?;
    let providers = run.providers.iter().filter(|(_, provider)| provider.wire.is_some());
    let providers: Vec<_> = providers
        .map(|(name, provider)| {
            let key = provider.key.as_ref().map(|key| key.expose().to_owned());
            (name, provider.wire, &provider.base_url, key, provider.headers.len(), provider.client)
        })
        .collect();
    let agents: Vec<_> =
        run.agents.values().map(|agent| (&agent.prompt, &agent.model, agent.steps)).collect();
    let agents: Vec<_> = agents.into_iter().filter(|agent| *agent != (&None, &None, None)).collect();
    let rules =
        run.permissions.rules.iter().chain(run.agents.values().flat_map(|agent| &agent.permissions.rules));
    let wide: Vec<_> = rules.filter(|rule| rule.action != Action::Deny).collect();
    Some(format!(
        "{:?} {:?} {providers:?} {agents:?} {wide:?} {:?} {:?}",
        run.model, run.small_model, run.mcp, run.caps
    ))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p10_properties_no_file_of_a_checkout_widens_anything((with_toml, top) in any::<bool>().prop_flat_map(|ours| (Just(ours), file(ours)))) {
        let home = Home::new().with(
            ".config/plimsoll/config.toml",
            "model = \"mine/m\"\n[providers.mine]\napi = \"openai\"\nkey = \"k\"\nbase_url = \"https://mine\"\n\
             [mcp.mine]\ncommand = [\"mine\"]\nenabled = false\n[permissions]\nbash = \"ask\"\n",
        );
        let env = home.env(&home.project, &[("ANTHROPIC_API_KEY", "sk")]);
        let load = || Config::load(&Flags::default(), &env);
        let before = guarded(&load().unwrap());
        if with_toml {
            let fields: &Map<String, Value> = top.as_object().unwrap();
            let lines = fields.iter().filter_map(|(key, value)| Some(format!("{key:?} = {}", toml(value)?)));
            home.write("project/plimsoll.toml", &lines.collect::<Vec<_>>().join("\n"));
        } else {
            home.write("project/opencode.json", &top.to_string());
        }
        // A file may be rejected as a whole, or make runs impossible, but it must not have an effect.
        if let Ok(config) = load()
            && let Some(after) = guarded(&config)
        {
            prop_assert_eq!(Some(after), before);
        }
    }
}
