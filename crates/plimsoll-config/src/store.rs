//! Settings of the store: its path, the durability of writes, the retention of spilled outputs.

use std::path::{Path, PathBuf};

use plimsoll::Millis;
use serde_json::Value;

use crate::environment::Environment;

/// The settings, and the variables that set them.
pub(crate) const SETTINGS: [&str; 5] =
    ["store", "durability", "spills.keep", "spills.age", "spills.maxBytes"];
pub(crate) const VARIABLES: [&str; 5] = [
    "PLIMSOLL_STORE",
    "PLIMSOLL_DURABILITY",
    "PLIMSOLL_SPILLS_KEEP",
    "PLIMSOLL_SPILLS_AGE",
    "PLIMSOLL_SPILLS_MAX_BYTES",
];
/// Fields of the section `spills`.
pub(crate) const SPILLS: [&str; 3] = ["keep", "age", "maxBytes"];
/// Settings of the store for display. `spills.keep` is shown as an unlimited age.
pub const STORE_FIELDS: [&str; 4] = ["store", "durability", "spills.age", "spills.maxBytes"];

/// Settings of the store in a single layer.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreLayer {
    path: Option<PathBuf>,
    durability: Option<Durability>,
    age: Option<SpillAge>,
    max_bytes: Option<u64>,
}

impl StoreLayer {
    /// Creates a layer that only sets the path.
    pub(crate) fn at(path: PathBuf) -> StoreLayer {
        StoreLayer { path: Some(path), ..StoreLayer::default() }
    }

    /// Sets a field; relative paths start from `directory`.
    pub(crate) fn set(&mut self, field: &str, value: &Value, directory: &Path) -> Result<(), String> {
        match field {
            "store" => {
                let path = value.as_str().filter(|path| !path.is_empty()).ok_or("expected a path")?;
                let is_home = path == "~" || path.starts_with("~/");
                self.path = Some(if is_home { path.into() } else { directory.join(path) });
            }
            "durability" => {
                self.durability = Some(match value.as_str() {
                    Some("process") => Durability::Process,
                    Some("power") => Durability::Power,
                    _ => return Err(format!("expected \"process\" or \"power\", found {value}")),
                });
            }
            "spills.keep" | "spills.age" if self.age.is_some() => {
                return Err("`keep` and `age` say how long spills stay; remove one".to_owned());
            }
            "spills.keep" => {
                let keep = value.as_bool().ok_or_else(|| format!("expected true or false, found {value}"))?;
                self.age = Some(if keep { SpillAge::Any } else { SpillAge::Default });
            }
            "spills.age" => {
                let age = value.as_str().and_then(duration);
                let age = age
                    .ok_or_else(|| format!("expected an age as \"7d\", \"12h\" or \"30m\", found {value}"));
                self.age = Some(SpillAge::AtMost(age?));
            }
            _ => {
                let bytes =
                    value.as_u64().ok_or_else(|| format!("expected a whole number of bytes, found {value}"));
                self.max_bytes = Some(bytes?);
            }
        }
        Ok(())
    }

    /// Returns the fields that the layer sets, by their display names.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static str> + use<> {
        let set =
            [self.path.is_some(), self.durability.is_some(), self.age.is_some(), self.max_bytes.is_some()];
        STORE_FIELDS.into_iter().zip(set).filter_map(|(field, set)| set.then_some(field))
    }

    /// Falls back to a layer with lower priority.
    pub(crate) fn over(self, lighter: StoreLayer) -> StoreLayer {
        StoreLayer {
            path: self.path.or(lighter.path),
            durability: self.durability.or(lighter.durability),
            age: self.age.or(lighter.age),
            max_bytes: self.max_bytes.or(lighter.max_bytes),
        }
    }
}

/// Path and settings of the store, as plain values that the caller converts to those of the store it opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreConfig {
    /// Path of the database; `None` if it is not set and there is no home directory.
    pub path: Option<PathBuf>,
    /// Failures that an acknowledged write survives.
    pub durability: Durability,
    /// Maximum age of spilled outputs.
    pub spill_age: SpillAge,
    /// Maximum bytes of all spilled outputs; the store's default if it is not set.
    pub spill_bytes: Option<u64>,
}

/// Failures that an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the process.
    #[default]
    Process,
    /// A power cut.
    Power,
}

/// Maximum age of spilled outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpillAge {
    /// The store's default.
    #[default]
    Default,
    /// Unlimited.
    Any,
    /// At most this age.
    AtMost(Millis),
}

impl StoreLayer {
    /// Returns the merged settings, with the default path if none is set, and the home directory for `~`.
    pub(crate) fn settle(self, env: &Environment) -> StoreConfig {
        let path = match self.path {
            Some(path) => match path.strip_prefix("~") {
                Ok(rest) => env.home.as_ref().map(|home| home.join(rest)),
                Err(_) => Some(path),
            },
            None => env.data_directory().map(|directory| directory.join("plimsoll.db")),
        };
        StoreConfig {
            path,
            durability: self.durability.unwrap_or_default(),
            spill_age: self.age.unwrap_or_default(),
            spill_bytes: self.max_bytes,
        }
    }
}

const UNITS: [(char, u64); 5] =
    [('w', 604_800_000), ('d', 86_400_000), ('h', 3_600_000), ('m', 60_000), ('s', 1_000)];

fn duration(text: &str) -> Option<Millis> {
    let unit = text.chars().last()?;
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let count: u64 = text.strip_suffix(unit)?.trim().parse().ok().filter(|count| *count > 0)?;
    Some(Millis(count.checked_mul(*millis)?))
}

#[cfg(test)]
mod tests {
    use plimsoll::Millis;

    use super::duration;

    #[test]
    fn ages_have_a_number_and_a_unit() {
        for (text, millis) in [("7d", 604_800_000), ("1w", 604_800_000), ("90m", 5_400_000), ("5s", 5_000)] {
            assert_eq!(duration(text), Some(Millis(millis)), "{text}");
        }
        for wrong in ["", "7", "d", "0d", "-1d", "7 days", "99999999999999999w"] {
            assert!(duration(wrong).is_none(), "{wrong}");
        }
    }
}
