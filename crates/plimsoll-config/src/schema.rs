//! The JSON Schema of a configuration file.

use plimsoll::Policy;
use serde_json::{Value, json};

use crate::run;

/// Returns the schema of a policy, extended by the settings of the store and of runs.
pub(crate) fn config_schema() -> Value {
    let mut schema = Policy::schema();
    let mut run = run::schema();
    let definitions = run.get_mut("$defs").map(Value::take);
    let properties = run.get_mut("properties").map(Value::take);
    let add = |schema: &mut Value, section: &str, more: Option<Value>| {
        let (Some(Value::Object(more)), Some(map)) = (more, schema.as_object_mut()) else { return };
        let section = map.entry(section).or_insert_with(|| json!({}));
        if let Value::Object(section) = section {
            section.extend(more);
        }
    };
    add(&mut schema, "$defs", definitions);
    let own = json!({
        "policy": { "type": "string", "description": "A preset or a policy file." },
        "context": {
            "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string", "pattern": "^[0-9][0-9_,.]*[kKmM]?$" }],
            "description": "Context window in tokens: `128000` or `\"128k\"`.",
        },
        "store": { "type": "string", "description": "Path of the database, relative to this file." },
        "durability": {
            "enum": ["process", "power"],
            "description": "What an acknowledged write survives: a crash of the process, or a power cut.",
        },
        "spills": {
            "type": "object",
            "additionalProperties": false,
            "description": "How long spilled outputs are kept.",
            "properties": {
                "keep": { "type": "boolean", "description": "Whether they are kept regardless of age." },
                "age": { "type": "string", "description": "Maximum age: `7d`, `12h`, `30m`." },
                "maxBytes": { "type": "integer", "minimum": 0, "description": "Maximum bytes of all spilled outputs." },
            },
        },
    });
    add(&mut schema, "properties", Some(own));
    add(&mut schema, "properties", properties);
    schema
}
