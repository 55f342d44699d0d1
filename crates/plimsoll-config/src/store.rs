//! Settings of the store: where it is, what its writes survive, how long spilled outputs stay.

use std::path::{Path, PathBuf};

use plimsoll::Millis;
use serde_json::Value;

use crate::environment::Environment;

/// What can be said, and the variables that say it.
pub(crate) const SETTINGS: [&str; 5] =
    ["store", "durability", "spills.keep", "spills.age", "spills.mostBytes"];
pub(crate) const VARIABLES: [&str; 5] = [
    "PLIMSOLL_STORE",
    "PLIMSOLL_DURABILITY",
    "PLIMSOLL_SPILLS_KEEP",
    "PLIMSOLL_SPILLS_AGE",
    "PLIMSOLL_SPILLS_MOST_BYTES",
];
/// The fields of the section.
pub(crate) const SPILLS: [&str; 3] = ["keep", "age", "mostBytes"];
/// The settings of the store as they are shown: to keep spills is to give them no age.
pub const STORE_FIELDS: [&str; 4] = ["store", "durability", "spills.age", "spills.mostBytes"];

/// What one layer says about the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreLayer {
    path: Option<PathBuf>,
    durability: Option<Durability>,
    age: Option<SpillAge>,
    most_bytes: Option<u64>,
}

impl StoreLayer {
    /// One that says nothing but where it is.
    pub(crate) fn at(path: PathBuf) -> StoreLayer {
        StoreLayer { path: Some(path), ..StoreLayer::default() }
    }

    /// Take one setting; relative paths are meant from `folder`.
    pub(crate) fn set(&mut self, field: &str, value: &Value, folder: &Path) -> Result<(), String> {
        match field {
            "store" => {
                let path = value.as_str().filter(|path| !path.is_empty()).ok_or("expected a path")?;
                let is_home = path == "~" || path.starts_with("~/");
                self.path = Some(if is_home { path.into() } else { folder.join(path) });
            }
            "durability" => {
                self.durability = Some(match value.as_str() {
                    Some("process") => Durability::Process,
                    Some("power") => Durability::Power,
                    _ => return Err(format!("expected \"process\" or \"power\", found {value}")),
                });
            }
            "spills.keep" | "spills.age" if self.age.is_some() => {
                return Err("`keep` and `age` say how long spills stay; leave one out".to_owned());
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
                self.most_bytes = Some(bytes?);
            }
        }
        Ok(())
    }

    /// The fields it sets, by the names they are shown under.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static str> + use<> {
        let set =
            [self.path.is_some(), self.durability.is_some(), self.age.is_some(), self.most_bytes.is_some()];
        STORE_FIELDS.into_iter().zip(set).filter_map(|(field, set)| set.then_some(field))
    }

    /// It, and where it is silent what a lighter layer says.
    pub(crate) fn over(self, lighter: StoreLayer) -> StoreLayer {
        StoreLayer {
            path: self.path.or(lighter.path),
            durability: self.durability.or(lighter.durability),
            age: self.age.or(lighter.age),
            most_bytes: self.most_bytes.or(lighter.most_bytes),
        }
    }
}

/// Where Plimsoll keeps sessions, and how: plain values, which the caller turns into those of the store it opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreConfig {
    /// The database; nothing where nothing names one and there is no home.
    pub path: Option<PathBuf>,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// How old spilled outputs may get.
    pub spill_age: SpillAge,
    /// Most bytes of all spilled outputs; the store's own limit where it is not set.
    pub spill_bytes: Option<u64>,
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process.
    #[default]
    Process,
    /// A power cut.
    Power,
}

/// How old spilled outputs may get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpillAge {
    /// As old as the store lets them by itself.
    #[default]
    Default,
    /// Any age.
    Any,
    /// No older than this.
    AtMost(Millis),
}

impl StoreLayer {
    /// All layers together, with the default place where none names one and the home in a path that begins with `~`.
    pub(crate) fn settle(self, env: &Environment) -> StoreConfig {
        let path = match self.path {
            Some(path) => match path.strip_prefix("~") {
                Ok(rest) => env.home.as_ref().map(|home| home.join(rest)),
                Err(_) => Some(path),
            },
            None => env.data_folder().map(|folder| folder.join("plimsoll.db")),
        };
        StoreConfig {
            path,
            durability: self.durability.unwrap_or_default(),
            spill_age: self.age.unwrap_or_default(),
            spill_bytes: self.most_bytes,
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
