//! Values that are shown without the secrets in them.

use plimsoll::redact::redact;
use serde_json::Value;

use super::reference::{Piece, pieces};

/// Sections whose values are keys, or hold them.
fn is_secret(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(
        path.as_slice(),
        ["providers", _, "key"] | ["providers" | "mcp", _, "headers", ..] | ["mcp", _, "environment", ..]
    )
}

/// A value for people: references stay, for they say where a key comes from; the keys themselves do not.
pub(crate) fn masked(path: &[String], value: &Value) -> Value {
    let is_secret = is_secret(path);
    match value {
        Value::String(text) if is_secret => hide(text).into(),
        Value::String(text) => redact(text).text.into(),
        Value::Array(items) => items.iter().map(|item| masked(path, item)).collect(),
        Value::Object(fields) => {
            let below = |name: &String| path.iter().cloned().chain([name.clone()]).collect::<Vec<_>>();
            fields.iter().map(|(name, value)| (name.clone(), masked(&below(name), value))).collect()
        }
        other if is_secret && !other.is_null() => "(hidden)".into(),
        other => other.clone(),
    }
}

fn hide(text: &str) -> String {
    let shown = pieces(text).into_iter().map(|piece| match piece {
        Piece::Variable(name) => format!("{{env:{name}}}"),
        Piece::File(path) => format!("{{file:{path}}}"),
        Piece::Text("Bearer ") => "Bearer ".to_owned(),
        Piece::Text(_) => "(hidden)".to_owned(),
    });
    shown.collect()
}
