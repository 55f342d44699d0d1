//! The schema of a configuration file.

use plimsoll_config::Config;
use serde_json::Value;

/// `just schema` writes the file anew.
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

#[test]
fn the_schema_describes_every_setting() {
    let schema = Config::schema();
    let properties = schema["properties"].as_object().unwrap();
    let own = ["policy", "context", "store", "durability", "spills", "prune", "TokenManagement"];
    let run =
        ["model", "small_model", "providers", "agents", "permissions", "mcp", "instructions", "max_cost"];
    for name in own.into_iter().chain(run) {
        assert!(properties.contains_key(name), "{name}");
    }
    // Every reference leads somewhere, those of both schemas that were put together.
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
