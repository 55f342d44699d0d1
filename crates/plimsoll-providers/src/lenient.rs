//! Deserialisers for values that servers send in violation of the format.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads a count of tokens. Servers send `12.0`, `null` and `-1`. A count that cannot be read is treated as missing,
/// because an answer is worth more than its count.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let float = |value: &Value| value.as_f64().filter(|float| *float >= 0.0).map(|float| float as u64);
    Ok(value.as_u64().or_else(|| float(&value)))
}

/// Reads `null` for a list or an object as its default.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
