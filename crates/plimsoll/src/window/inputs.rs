//! Inputs of calls with their long strings cut or replaced.

use serde_json::{Value, json};

use crate::chars::{Chars, Text, cut_middle};
use crate::log::Input;

/// Returns an input with its long strings cut, in the shape that the tool's schema requires. If that does not help
/// (many short strings), the input becomes the cut text of its JSON.
pub(super) fn cut_input(input: &Input, keep: Chars, head_share: f64) -> Input {
    let shorter = Input::from(map_strings(input.value(), &mut |text| {
        // There are never more chars than bytes, so this includes all strings that are too long.
        let is_long = text.len() as u64 > keep.0;
        is_long.then(|| cut_middle(&Text::from(text), keep, head_share).as_str().to_owned())
    }));
    // Twice the limit leaves room for keys and short values, which are not cut.
    if shorter.json().chars() <= keep + keep {
        return shorter;
    }
    json!({ "cut": cut_middle(input.json(), keep, head_share).as_str() }).into()
}

/// Returns a value whose strings are replaced by the result of `change`; `None` leaves a string unchanged.
pub(super) fn map_strings(value: &Value, change: &mut impl FnMut(&str) -> Option<String>) -> Value {
    match value {
        Value::String(text) => Value::String(change(text).unwrap_or_else(|| text.clone())),
        Value::Array(items) => Value::Array(items.iter().map(|item| map_strings(item, change)).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, item)| (key.clone(), map_strings(item, change))).collect())
        }
        other => other.clone(),
    }
}
