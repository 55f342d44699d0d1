//! Shows values without the secrets in them.

use plimsoll::redact::redact;
use serde_json::Value;

use super::reference::{Piece, pieces};

/// Words in names of variables that contain secrets.
const SECRET: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CRED"];

/// Suffixes of variables that contain a command, its options, or a path that code or keys are loaded from.
const RUNS: [&str; 27] = [
    "ASKPASS", "COMMAND", "CMD", "HELPER", "PROVIDER", "PROCESS", "PROGRAM", "SHELL", "EDITOR", "PAGER",
    "HOOK", "HOOKS", "PLUGIN", "PLUGINS", "PRELOAD", "OPTIONS", "OPTS", "ARGS", "FLAGS", "PATH", "FILE",
    "DIR", "HOME", "SOCK", "SCRIPT", "STARTUP", "EXEC",
];

/// Whether a variable decides which program runs or what it loads, although its name looks like a secret: `GIT_ASKPASS`,
/// `*_CREDENTIAL_PROVIDER`, Go's `GOAUTH`. The user must see these values before trusting them.
fn decides_what_runs(name: &str) -> bool {
    name == "GOAUTH" || RUNS.iter().any(|end| name.ends_with(end))
}

/// Whether a value is a key, or may contain one.
fn is_secret(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["providers", _, "key"] | ["providers" | "mcp", _, "headers", ..] => true,
        ["mcp", _, "environment", name, ..] => {
            let name = name.to_ascii_uppercase();
            SECRET.iter().any(|word| name.contains(word)) && !decides_what_runs(&name)
        }
        ["mcp", _, "environment"] => true,
        _ => false,
    }
}

/// Returns a value for display. References stay, because they show where a key comes from; keys and what looks like one
/// are masked.
pub(crate) fn masked(path: &[String], value: &Value) -> Value {
    show(path, value, &|text| redact(text).text)
}

/// Returns a value that the user is asked to trust. Everything that is not a key by its location is shown in full: text
/// that looks like a key could be a part of a command.
pub(crate) fn reviewed(path: &[String], value: &Value) -> Value {
    show(path, value, &str::to_owned)
}

fn show(path: &[String], value: &Value, plain: &dyn Fn(&str) -> String) -> Value {
    let is_secret = is_secret(path);
    match value {
        Value::String(text) if is_secret => hide(text).into(),
        Value::String(text) => plain(text).into(),
        Value::Array(items) => items.iter().map(|item| show(path, item, plain)).collect(),
        Value::Object(fields) => {
            let below = |name: &String| path.iter().cloned().chain([name.clone()]).collect::<Vec<_>>();
            fields.iter().map(|(name, value)| (name.clone(), show(&below(name), value, plain))).collect()
        }
        other if is_secret && !other.is_null() => "(set)".into(),
        other => other.clone(),
    }
}

fn hide(text: &str) -> String {
    let shown = pieces(text).into_iter().map(|piece| match piece {
        Piece::Variable(name) => format!("{{env:{name}}}"),
        Piece::File(path) => format!("{{file:{path}}}"),
        Piece::Text("Bearer ") => "Bearer ".to_owned(),
        Piece::Text(_) => "(set)".to_owned(),
    });
    shown.collect()
}
