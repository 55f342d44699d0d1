//! Settings of the store: where it is, what its writes survive, how long spilled outputs stay.

use std::path::{Path, PathBuf};

use plimsoll::Millis;
use plimsoll_store::{Durability, Retention};
use serde_json::{Value, json};

use crate::surroundings::Surroundings;

/// What can be said, and the variables that say it.
pub(super) const SETTINGS: [&str; 5] =
    ["store", "durability", "spills.keep", "spills.age", "spills.mostBytes"];
pub(super) const VARIABLES: [&str; 5] = [
    "PLIMSOLL_STORE",
    "PLIMSOLL_DURABILITY",
    "PLIMSOLL_SPILLS_KEEP",
    "PLIMSOLL_SPILLS_AGE",
    "PLIMSOLL_SPILLS_MOST_BYTES",
];
/// The fields of the section.
pub(super) const SPILLS: [&str; 3] = ["keep", "age", "mostBytes"];
/// What is shown: to keep spills is to give them no age.
pub(super) const FIELDS: [&str; 4] = ["store", "durability", "spills.age", "spills.mostBytes"];

/// What one layer says about the store.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreLayer {
    path: Option<PathBuf>,
    durability: Option<Durability>,
    /// How old spills may get; nothing inside means any age.
    age: Option<Option<Millis>>,
    most_bytes: Option<u64>,
}

impl StoreLayer {
    /// One that says nothing but where it is.
    pub(super) fn at(path: PathBuf) -> StoreLayer {
        StoreLayer { path: Some(path), ..StoreLayer::default() }
    }

    /// Take one setting; relative paths are meant from `folder`.
    pub(super) fn set(&mut self, field: &str, value: &Value, folder: &Path) -> Result<(), String> {
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
                self.age = Some(if keep { None } else { Retention::default().age });
            }
            "spills.age" => {
                let age = value.as_str().and_then(duration);
                let age = age
                    .ok_or_else(|| format!("expected an age as \"7d\", \"12h\" or \"30m\", found {value}"));
                self.age = Some(Some(age?));
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
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static str> + use<> {
        let set =
            [self.path.is_some(), self.durability.is_some(), self.age.is_some(), self.most_bytes.is_some()];
        FIELDS.into_iter().zip(set).filter_map(|(field, set)| set.then_some(field))
    }

    /// It, and where it is silent what a lighter layer says.
    pub(super) fn over(self, lighter: StoreLayer) -> StoreLayer {
        StoreLayer {
            path: self.path.or(lighter.path),
            durability: self.durability.or(lighter.durability),
            age: self.age.or(lighter.age),
            most_bytes: self.most_bytes.or(lighter.most_bytes),
        }
    }
}

/// Where Plimsoll keeps sessions, and how.
#[derive(Clone, Debug)]
pub(crate) struct StoreConfig {
    /// The database; nothing where nobody names one and there is no home.
    pub(crate) path: Option<PathBuf>,
    /// What an acknowledged write survives.
    pub(crate) durability: Durability,
    /// How long spilled outputs stay.
    pub(crate) retention: Retention,
}

impl From<StoreLayer> for StoreConfig {
    fn from(layer: StoreLayer) -> StoreConfig {
        let age = layer.age.unwrap_or(Retention::default().age);
        StoreConfig {
            path: layer.path,
            durability: layer.durability.unwrap_or_default(),
            retention: Retention { age, most_bytes: layer.most_bytes },
        }
    }
}

impl StoreConfig {
    /// Find the place where nobody names it, and the home in one that begins with it.
    pub(super) fn settle(&mut self, around: &Surroundings) {
        self.path = match self.path.take() {
            Some(path) => match path.strip_prefix("~") {
                Ok(rest) => around.home.as_ref().map(|home| home.join(rest)),
                Err(_) => Some(path),
            },
            None => usual(around),
        };
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "path": self.path,
            "durability": durability(self.durability),
            "spills": { "age": self.retention.age, "mostBytes": self.retention.most_bytes },
        })
    }

    /// The values of [`FIELDS`] for people.
    pub(super) fn shown(&self, around: &Surroundings) -> [String; 4] {
        let path = self.path.as_deref().map(|path| around.short(path));
        let bytes = self.retention.most_bytes.map(|bytes| bytes.to_string());
        [
            path.unwrap_or_else(|| "nowhere".to_owned()),
            durability(self.durability).to_owned(),
            self.retention.age.map_or_else(|| "any".to_owned(), age),
            bytes.unwrap_or_else(|| "any".to_owned()),
        ]
    }
}

fn usual(around: &Surroundings) -> Option<PathBuf> {
    let data = around.path("XDG_DATA_HOME");
    let data = data.or_else(|| around.path("LOCALAPPDATA").filter(|_| cfg!(windows)));
    let data = data.or_else(|| around.below_home(".local/share"));
    data.map(|data| data.join("plimsoll").join("plimsoll.db"))
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => "process",
        Durability::Power => "power",
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

/// An age in the largest unit that does not round it; weeks are told as days.
fn age(age: Millis) -> String {
    let whole = UNITS[1..].iter().find(|(_, millis)| age.0.is_multiple_of(*millis));
    whole.map_or_else(|| format!("{} ms", age.0), |(unit, millis)| format!("{}{unit}", age.0 / millis))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{age, duration};

    #[test]
    fn ages_have_a_number_and_a_unit() {
        for (text, told) in [("7d", "7d"), ("1w", "7d"), ("90m", "90m"), ("120m", "2h"), ("5s", "5s")] {
            assert_eq!(age(duration(text).unwrap()), told);
        }
        for wrong in ["", "7", "d", "0d", "-1d", "7 days", "99999999999999999w"] {
            assert!(duration(wrong).is_none(), "{wrong}");
        }
    }
}
