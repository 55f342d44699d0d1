//! A limit for the nesting of JSON that comes from models and providers.
//!
//! JSON is read and walked by recursion, so readers have a limit; that of `serde_json` is 127 levels. A value that
//! arrives with 127 levels is stored inside a part, a message and a document: it could be written, but never read
//! again.

use serde_json::Value;

/// Maximum nesting that is kept as structure.
const MAX_DEPTH: usize = 100;

/// Returns the value, or its JSON as a string if it is nested more than 100 levels deep.
///
/// ```
/// use plimsoll::log::flatten_deep;
/// use serde_json::{Value, json};
/// let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
/// assert_eq!(flatten_deep(nested(100)), nested(100));
/// assert_eq!(flatten_deep(nested(101)), Value::String(format!("{}1{}", "[".repeat(101), "]".repeat(101))));
/// ```
pub fn flatten_deep(value: Value) -> Value {
    if is_deeper(&value, MAX_DEPTH) { Value::String(value.to_string()) } else { value }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let mut inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(map) => Box::new(map.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return false,
    };
    levels == 0 || inner.any(|value| is_deeper(value, levels - 1))
}
