//! Overrides of a preset: by a policy file, by the environment, or by several layers of both.

use serde_json::{Map, Value};

use super::{ForkPolicy, Policy, PolicyError, Preset, guide};

/// Fields to change, and the preset that they override.
///
/// Layers are merged before anything is validated, so that a field of one layer may depend on a field of another:
///
/// ```
/// use plimsoll::policy::{Overrides, Preset};
/// use serde_json::json;
/// let user = Overrides::from_value(json!({ "preset": "opencode", "prune": { "protectTokens": 30000 } }))?;
/// let project = Overrides::from_value(json!({ "prune": { "activeTurns": 4 } }))?;
/// let policy = user.with_higher(project).policy()?;
/// assert_eq!((policy.prune.protect_tokens.0, policy.prune.active_turns), (30_000, 4));
/// # Ok::<(), plimsoll::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The preset. Defaults to `plimsoll`.
    pub preset: Option<Preset>,
    /// The fields, nested as in a policy file.
    pub fields: Map<String, Value>,
}

/// A field that the environment sets.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Setting {
    /// Name of the variable.
    pub variable: String,
    /// Path of the field.
    pub field: String,
    /// Value of the field.
    pub value: Value,
}

/// Variables that are not named after their field, OpenCode's equivalents, the field that each sets, and the type of
/// its value.
const NAMED: [(&str, &str, &str, Named); 3] = [
    ("OUTPUT_TOKEN_MAX", "OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX", "overflow.outputCap", Named::Number),
    ("DISABLE_AUTOCOMPACT", "OPENCODE_DISABLE_AUTOCOMPACT", "overflow.auto", Named::Off),
    ("DISABLE_PRUNE", "OPENCODE_DISABLE_PRUNE", "prune.enabled", Named::Off),
];

#[derive(Clone, Copy)]
enum Named {
    /// A number above 0.
    Number,
    /// Switches the field off unless it is empty, `0` or `false`.
    Off,
}

impl Overrides {
    /// Reads a policy file. A named fork policy and the guide's section are expanded to their fields.
    pub fn from_value(value: Value) -> Result<Overrides, PolicyError> {
        let Value::Object(mut fields) = value else {
            return Err(wrong("policy", "expected an object"));
        };
        let section = fields.shift_remove("TokenManagement");
        let mut preset = match fields.shift_remove("preset") {
            Some(Value::String(name)) => Some(name.parse::<Preset>()?),
            Some(_) => return Err(wrong("preset", "expected the name of a preset")),
            None => None,
        };
        if let Some(name) = fields.get("fork").and_then(Value::as_str) {
            let fork = match name {
                "tiered" => ForkPolicy::tiered(),
                "fitted" => ForkPolicy::fitted(),
                "uniform" => ForkPolicy::uniform(),
                _ => return Err(wrong("fork", "expected `tiered`, `fitted`, `uniform` or an object")),
            };
            fields.insert("fork".into(), json(&fork)?);
        }
        if let Some(section) = section {
            let base = *preset.get_or_insert(Preset::Openfork);
            let mut spec = base.spec();
            guide::apply(&mut spec, section)?;
            let mut changed = changes(&json(&base.spec())?, json(&spec)?).unwrap_or_default();
            merge(&mut changed, Value::Object(fields));
            fields = match changed {
                Value::Object(fields) => fields,
                _ => Map::new(),
            };
        }
        Ok(Overrides { preset, fields })
    }

    /// Returns these overrides with those of a layer above applied. Fields of `above` win.
    #[must_use]
    pub fn with_higher(self, above: Overrides) -> Overrides {
        let mut fields = Value::Object(self.fields);
        merge(&mut fields, Value::Object(above.fields));
        let fields = if let Value::Object(fields) = fields { fields } else { Map::new() };
        Overrides { preset: above.preset.or(self.preset), fields }
    }

    /// Applies the overrides to the preset and validates the result.
    pub fn policy(self) -> Result<Policy, PolicyError> {
        let mut merged = json(&self.preset.unwrap_or(Preset::Plimsoll).spec())?;
        merge(&mut merged, Value::Object(self.fields));
        checked(merged)
    }
}

impl Setting {
    /// Returns the settings of the environment. If two of them set the same field, the later one wins. The caller looks
    /// the variables up, because the engine does not read the environment.
    ///
    /// Every field has a variable: `prune.protectTokens` is `PLIMSOLL_PRUNE_PROTECT_TOKENS`. Numbers and booleans are
    /// written as in JSON, lists as JSON or separated by commas, `truncate.toolLimits` and `overflow.models` as JSON.
    /// In addition there are `PLIMSOLL_OUTPUT_TOKEN_MAX`, `PLIMSOLL_DISABLE_AUTOCOMPACT` and `PLIMSOLL_DISABLE_PRUNE`,
    /// and with `opencode` also OpenCode's names for these three.
    pub fn all(opencode: bool, lookup: impl Fn(&str) -> Option<String>) -> Result<Vec<Setting>, PolicyError> {
        let mut settings = Vec::new();
        for (ours, theirs, field, named) in NAMED {
            let names = [opencode.then(|| theirs.to_owned()), Some(variable(ours))];
            for name in names.into_iter().flatten() {
                let Some(text) = lookup(&name) else { continue };
                let value = match named {
                    Named::Number => match text.trim().parse::<u64>() {
                        Ok(number) if number > 0 => Some(number.into()),
                        _ => {
                            let why = format!("expected a whole number above 0, found `{text}`");
                            return Err(PolicyError::Field { field: name, why });
                        }
                    },
                    Named::Off => (!matches!(text.as_str(), "" | "0" | "false")).then_some(false.into()),
                };
                let setting = |value| Setting { variable: name, field: field.to_owned(), value };
                settings.extend(value.map(setting));
            }
        }
        for (field, like) in fields() {
            let variable = variable_of(&field);
            let Some(text) = lookup(&variable) else { continue };
            let value = read(&text, &like).map_err(|expected| {
                let why = format!("expected {expected}, found `{text}`");
                PolicyError::Field { field: variable.clone(), why }
            })?;
            settings.push(Setting { variable, field, value });
        }
        Ok(settings)
    }

    /// Returns the names of all environment variables, except OpenCode's equivalents.
    pub fn variables() -> Vec<String> {
        let fields = fields().into_iter().map(|(field, _)| variable_of(&field));
        NAMED.iter().map(|named| variable(named.0)).chain(fields).collect()
    }

    /// Converts settings to overrides.
    pub fn overrides(settings: &[Setting]) -> Overrides {
        let mut all = Overrides::default();
        for Setting { field, value, .. } in settings {
            let mut nested = value.clone();
            for key in field.rsplit('.') {
                nested = Value::Object(Map::from_iter([(key.to_owned(), nested)]));
            }
            if let Value::Object(fields) = nested {
                all = all.with_higher(Overrides { preset: None, fields });
            }
        }
        all
    }
}

/// All fields of a policy by path, with the default preset's value, which shows the type.
fn fields() -> Vec<(String, Value)> {
    // Serialising a preset cannot fail. If it did, there would be no fields, and the tests of variables would fail.
    let Ok(Value::Object(sections)) = json(&Preset::Plimsoll.spec()) else { return Vec::new() };
    let mut fields = Vec::new();
    for (section, value) in sections {
        match value {
            Value::Object(section_fields) => {
                fields.extend(
                    section_fields.into_iter().map(|(name, like)| (format!("{section}.{name}"), like)),
                );
            }
            like => fields.push((section, like)),
        }
    }
    fields
}

/// `prune.protectTokens` becomes `PLIMSOLL_PRUNE_PROTECT_TOKENS`.
fn variable_of(field: &str) -> String {
    let mut name = String::new();
    for letter in field.chars() {
        if letter.is_ascii_uppercase() || letter == '.' {
            name.push('_');
        }
        if letter != '.' {
            name.push(letter.to_ascii_uppercase());
        }
    }
    variable(&name)
}

fn variable(name: &str) -> String {
    format!("PLIMSOLL_{name}")
}

/// Parses the text of a variable as a value of the same type as `like`. The error is the expected type.
fn read(text: &str, like: &Value) -> Result<Value, &'static str> {
    let trimmed = text.trim();
    let parsed = || serde_json::from_str::<Value>(trimmed).ok();
    match like {
        Value::String(_) => Ok(text.into()),
        Value::Bool(_) => match trimmed {
            "true" | "1" => Ok(true.into()),
            "false" | "0" => Ok(false.into()),
            _ => Err("`true` or `false`"),
        },
        Value::Array(_) if trimmed.starts_with('[') => parsed().ok_or("a list"),
        Value::Array(_) => {
            let items = trimmed.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(items.map(Value::from).collect())
        }
        Value::Object(_) => parsed().filter(Value::is_object).ok_or("a JSON object"),
        Value::Number(_) | Value::Null => {
            let number = |value: &Value| value.is_number() || value.is_null();
            parsed().filter(number).ok_or("a number")
        }
    }
}

/// Validates a policy with all fields.
pub(super) fn checked(fields: Value) -> Result<Policy, PolicyError> {
    let spec = serde_path_to_error::deserialize(fields).map_err(|error| PolicyError::Field {
        field: error.path().to_string(),
        why: error.inner().to_string(),
    })?;
    Policy::new(spec)
}

/// Merges `over` into `base`: objects field by field, everything else is replaced.
pub(super) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// The parts of `after` that differ from `before`. `None` if they are equal.
fn changes(before: &Value, after: Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let changed = after.into_iter().filter_map(|(key, value)| {
                let change = changes(before.get(&key).unwrap_or(&Value::Null), value)?;
                Some((key, change))
            });
            Some(changed.collect::<Map<_, _>>()).filter(|map| !map.is_empty()).map(Value::Object)
        }
        (before, after) => (*before != after).then_some(after),
    }
}

pub(super) fn json(value: &impl serde::Serialize) -> Result<Value, PolicyError> {
    serde_json::to_value(value).map_err(|error| PolicyError::Json(error.to_string()))
}

fn wrong(field: &str, why: &str) -> PolicyError {
    PolicyError::Field { field: field.into(), why: why.into() }
}
