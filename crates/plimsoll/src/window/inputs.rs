//! Inputs of calls with their long strings cut or replaced.

use serde_json::{Value, json};

use crate::chars::{Chars, Text, cut_middle};
use crate::log::Input;

/// An input with its long strings cut, still of the shape the tool's schema asks for. Where that does not help
/// (many short strings), the input is replaced by the cut text of itself.
pub(super) fn cut_input(input: &Input, keep: Chars, head_share: f64) -> Input {
    let shorter = Input::from(map_strings(input.value(), &mut |text| {
        let is_long = text.len() as u64 > keep.0;
        is_long.then(|| cut_middle(&Text::from(text), keep, head_share).as_str().to_owned())
    }));
    if shorter.json().chars() <= keep + keep {
        return shorter;
    }
    json!({ "cut": cut_middle(input.json(), keep, head_share).as_str() }).into()
}

/// A value whose strings are replaced by what `change` returns for them; those for which it returns `None` stay.
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
