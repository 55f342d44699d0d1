//! Reading what servers write beside the letter of the format.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A count of tokens. Servers write `12.0`, `null` and `-1`; a count that cannot be read is no reason to lose an
/// answer, so it counts as missing.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let float = |value: &Value| value.as_f64().filter(|float| *float >= 0.0).map(|float| float as u64);
    Ok(value.as_u64().or_else(|| float(&value)))
}

/// `null` where the format has a list or an object means the same as leaving it out.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
