//! Whatever a checkout's files say, nothing of it widens anything before it is trusted.

use plimsoll_config::{Action, Config, Flags};
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::support::Home;

/// Keys of OpenCode's files and ours, so that random values often stand where they mean something.
const KEYS: [&str; 44] = [
    "model",
    "small_model",
    "provider",
    "providers",
    "agent",
    "agents",
    "mode",
    "permission",
    "permissions",
    "tools",
    "mcp",
    "compaction",
    "tool_output",
    "instructions",
    "anthropic",
    "mine",
    "npm",
    "api",
    "options",
    "baseURL",
    "base_url",
    "apiKey",
    "key",
    "headers",
    "authorization",
    "models",
    "m",
    "limit",
    "context",
    "cost",
    "price",
    "input",
    "build",
    "prompt",
    "bash",
    "*",
    "git *",
    "type",
    "command",
    "environment",
    "url",
    "enabled",
    "auto",
    "prune",
];

const TEXTS: [&str; 14] = [
    "allow",
    "ask",
    "deny",
    "evil/x",
    "https://evil.example",
    "{env:HOME}",
    "{file:/etc/passwd}",
    "@ai-sdk/anthropic",
    "@ai-sdk/openai-compatible",
    "../x.md",
    "docs/x.md",
    "openai-chat",
    "10s",
    "",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(&TEXTS[..]).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        Just(Value::Null),
        any::<f64>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 5, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from), object(inner),]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let pair = (prop::sample::select(&KEYS[..]), inner);
    let pairs = prop::collection::vec(pair, 0..6);
    pairs.prop_map(|pairs| {
        Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    })
}

/// A value as TOML; what TOML has no word for is left out.
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
        Value::Number(number) if number.is_f64() => Some("1.5".to_owned()),
        other => Some(other.to_string()),
    }
}

/// Everything that a checkout must not touch: where conversations go, with which keys, what runs, what is said.
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
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn p10_no_file_of_a_checkout_widens_anything(top in object(value()), with_toml in any::<bool>()) {
        let home = Home::new().with(
            ".config/plimsoll/config.toml",
            "model = \"mine/m\"\n[providers.mine]\napi = \"openai\"\nkey = \"k\"\nbase_url = \"https://mine\"\n\
             [mcp.mine]\ncommand = [\"mine\"]\nenabled = false\n[permissions]\nbash = \"ask\"\n",
        );
        let around = home.around(&home.project, &[("ANTHROPIC_API_KEY", "sk")]);
        let load = || Config::load(&Flags::default(), &around);
        let before = guarded(&load().unwrap());
        if with_toml {
            let fields: &Map<String, Value> = top.as_object().unwrap();
            let lines = fields.iter().filter_map(|(key, value)| Some(format!("{key:?} = {}", toml(value)?)));
            home.write("project/plimsoll.toml", &lines.collect::<Vec<_>>().join("\n"));
        } else {
            home.write("project/opencode.json", &top.to_string());
        }
        // A file may be refused as a whole, or stop a run; it must not get its way.
        if let Ok(config) = load()
            && let Some(after) = guarded(&config)
        {
            prop_assert_eq!(Some(after), before);
        }
    }
}
