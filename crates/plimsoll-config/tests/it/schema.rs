//! The schema of a configuration file.

use plimsoll_config::{Action, Config, Flags};
#[cfg(feature = "schema")]
use serde_json::Value;

use crate::support::Home;

#[cfg(feature = "schema")]
/// `just schema` updates the file.
#[cfg(feature = "schema")]
#[test]
#[allow(clippy::disallowed_methods)]
fn the_schema_in_the_tree_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/config.schema.json");
    let schema = format!("{}\n", serde_json::to_string_pretty(&Config::schema()).unwrap());
    if std::env::var("PLIMSOLL_BLESS").is_ok() {
        std::fs::write(path, &schema).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(stored == schema, "schema/config.schema.json is out of date: run `just schema`");
}

#[cfg(feature = "schema")]
#[test]
fn the_schema_describes_every_setting() {
    let schema = Config::schema();
    let properties = schema["properties"].as_object().unwrap();
    let own = ["policy", "context", "store", "durability", "spills", "prune", "TokenManagement"];
    let run = [
        "model",
        "small_model",
        "providers",
        "agents",
        "permissions",
        "mcp",
        "instructions",
        "skills",
        "max_cost",
        "sandbox",
        "webfetch",
    ];
    for name in own.into_iter().chain(run) {
        assert!(properties.contains_key(name), "{name}");
    }
    // Every reference has a target, in both of the merged schemas.
    fn check(value: &Value, schema: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
                    assert!(schema.pointer(name.trim_start_matches('#')).is_some(), "{name}");
                }
                fields.values().for_each(|value| check(value, schema));
            }
            Value::Array(items) => items.iter().for_each(|value| check(value, schema)),
            _ => {}
        }
    }
    check(&schema, &schema);
}

#[test]
fn the_examples_of_the_documentation_are_read() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CONFIGURATION.md")).unwrap();
    let blocks: Vec<&str> =
        text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() > 3);
    for block in blocks {
        let home = Home::new().with(".config/plimsoll/config.toml", block);
        let config = home.load();
        let run = config.run.unwrap();
        assert!(config.notices.is_empty() && config.left_out.is_empty(), "{block}");
        if block.contains("[providers.local]") {
            let env = home.env(&home.project, &[("LOCAL_KEY", "k")]);
            let run = Config::load(&Flags::default(), &env).unwrap().run.unwrap();
            let model = run.resolve_small_model().unwrap().unwrap();
            assert_eq!((model.model.model.as_str(), model.limits.unwrap().context.0), ("qwen3:8b", 32_768));
        }
        if block.contains("[agents.review]") {
            assert_eq!(run.agents.len(), 2);
            assert_eq!(run.permissions.rule("bash", "git push x").unwrap().action, Action::Deny);
        }
    }
}
