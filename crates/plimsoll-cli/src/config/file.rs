//! A configuration or policy file: TOML with the place of every value, or JSON.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll::Preset;
use plimsoll::policy::Overrides;
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::names::{check_key, leaves};
use super::store::StoreLayer;
use super::{Layer, Origin};
use crate::error::{CliError, reason};

/// What a file says.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
    /// The policy it names, and where.
    pub(super) policy: Option<(String, Origin)>,
    /// The context window it names.
    pub(super) context: Option<u64>,
    /// What it says about the store.
    pub(super) store: StoreLayer,
    /// The fields of a policy.
    pub(super) fields: Map<String, Value>,
    /// The lines of all keys of a TOML file, by path.
    lines: BTreeMap<String, usize>,
}

impl ConfigFile {
    /// Read a file, as TOML or as JSON by its name.
    pub(super) fn read(path: &Path) -> Result<ConfigFile, CliError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            CliError::usage(format!("cannot read `{}`: {}", path.display(), reason(&error)))
        })?;
        let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        ConfigFile::parse(&text, path, is_toml)
    }

    fn parse(text: &str, path: &Path, is_toml: bool) -> Result<ConfigFile, CliError> {
        let path = path.to_owned();
        let mut file = ConfigFile {
            path,
            policy: None,
            context: None,
            store: StoreLayer::default(),
            fields: Map::new(),
            lines: BTreeMap::new(),
        };
        file.fields = if is_toml { file.toml(text)? } else { file.json(text)? };
        file.check_keys()?;
        file.take_policy()?;
        file.take_context()?;
        file.take_store()?;
        Ok(file)
    }

    /// The same as a layer of the configuration. It has a preset where the file names one, or has the guide's section.
    pub(super) fn layer(&self) -> Result<Layer, CliError> {
        let mut value = self.fields.clone();
        let preset = self.policy.as_ref().filter(|(name, _)| name.parse::<Preset>().is_ok());
        if let Some((name, _)) = preset {
            value.insert("preset".to_owned(), name.as_str().into());
        }
        let overrides = Overrides::from_value(Value::Object(value)).map_err(|error| {
            let known = self.fields_at(&self.fields);
            super::placed(&error, &known)
        })?;
        let mut origins = self.fields_at(&overrides.fields);
        if self.context.is_some() {
            origins.insert("context".to_owned(), self.place("context"));
        }
        origins.extend(self.store.fields().map(|field| (field.to_owned(), self.place(field))));
        Ok(Layer { chosen: None, overrides, context: self.context, store: self.store.clone(), origins })
    }

    /// Where fields are. What stands in no line, because it was written out from a name or from the guide's section,
    /// is in the file as a whole.
    fn fields_at(&self, fields: &Map<String, Value>) -> BTreeMap<String, Origin> {
        let fields = fields.iter().flat_map(|(key, value)| leaves(key, value));
        fields.map(|(field, _)| (field.clone(), self.place(&field))).collect()
    }

    fn place(&self, field: &str) -> Origin {
        // What is inside a list or an inline table has the line of what it is in.
        let mut known = field;
        loop {
            if let Some(line) = self.lines.get(known) {
                return Origin::File { path: self.path.clone(), line: Some(*line) };
            }
            match known.rfind('.') {
                Some(end) => known = &known[..end],
                None => return Origin::File { path: self.path.clone(), line: None },
            }
        }
    }

    fn toml(&mut self, text: &str) -> Result<Map<String, Value>, CliError> {
        let table = DeTable::parse(text).map_err(|error| {
            let place = error.span().map(|span| place(text, span.start));
            let place = place.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
            let message = error.message().replace('\n', ", ");
            CliError::usage(format!("{}{place}: not valid TOML: {message}", self.path.display()))
        })?;
        self.table(text, table.get_ref(), "")
    }

    fn table(&mut self, text: &str, table: &DeTable<'_>, path: &str) -> Result<Map<String, Value>, CliError> {
        let mut fields = Map::new();
        for (key, value) in table {
            let name = key.get_ref().to_string();
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.lines.insert(path.clone(), place(text, key.span().start).0);
            fields.insert(name, self.value(text, value, &path)?);
        }
        Ok(fields)
    }

    fn value(&mut self, text: &str, value: &Spanned<DeValue<'_>>, path: &str) -> Result<Value, CliError> {
        let whole =
            |number: &toml::de::DeInteger<'_>| i64::from_str_radix(number.as_str(), number.radix()).ok();
        match value.get_ref() {
            DeValue::String(string) => Ok(Value::from(string.as_ref())),
            DeValue::Boolean(on) => Ok((*on).into()),
            DeValue::Integer(number) => whole(number).map(Value::from).ok_or(number.as_str()),
            DeValue::Float(number) => {
                number.as_str().parse::<f64>().map(Value::from).map_err(|_| number.as_str())
            }
            DeValue::Datetime(_) => Err("a date"),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| self.value(text, item, path));
                return Ok(Value::Array(items.collect::<Result<_, _>>()?));
            }
            DeValue::Table(table) => return Ok(Value::Object(self.table(text, table, path)?)),
        }
        .map_err(|found| {
            let origin = self.place(path);
            CliError::usage(format!("{origin}: `{path}`: {found} is no value of any setting"))
        })
    }

    fn json(&self, text: &str) -> Result<Map<String, Value>, CliError> {
        let path = self.path.display();
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Ok(fields),
            Ok(_) => Err(CliError::usage(format!("{path}: a policy is a JSON object"))),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default();
                Err(CliError::usage(format!("{path}:{line}:{column}: not valid JSON: {message}")))
            }
        }
    }

    fn check_keys(&self) -> Result<(), CliError> {
        for (section, value) in &self.fields {
            let mut paths = vec![vec![section.clone()]];
            if let (Some(fields), true) = (value.as_object(), section != "TokenManagement") {
                paths.extend(fields.keys().map(|key| vec![section.clone(), key.clone()]));
            }
            for path in paths {
                let Err(near) = check_key(&path) else { continue };
                let name = path.join(".");
                let hint = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "`plimsoll config --schema` describes all fields".to_owned(),
                };
                let message = format!("{}: there is no setting `{name}`", self.place(&name));
                return Err(CliError::usage(message).hint(hint));
            }
        }
        Ok(())
    }

    fn take_policy(&mut self) -> Result<(), CliError> {
        for key in ["policy", "preset"] {
            let Some(value) = self.fields.shift_remove(key) else { continue };
            let origin = self.place(key);
            let Value::String(name) = value else {
                return Err(CliError::usage(format!(
                    "{origin}: `{key}`: expected the name of a preset or a file"
                )));
            };
            if self.policy.is_some() {
                let message = format!("{origin}: `policy` and `preset` say the same; leave one out");
                return Err(CliError::usage(message));
            }
            if let ("preset", Err(error)) = (key, name.parse::<Preset>()) {
                let hint = "`policy` takes the path of a policy file";
                return Err(CliError::usage(format!("{origin}: {error}")).hint(hint));
            }
            self.policy = Some((name, origin));
        }
        Ok(())
    }

    fn take_store(&mut self) -> Result<(), CliError> {
        let spills = match self.fields.shift_remove("spills") {
            Some(Value::Object(spills)) => spills,
            None => Map::new(),
            Some(_) => {
                let origin = self.place("spills");
                return Err(CliError::usage(format!("{origin}: `spills`: expected a section with fields")));
            }
        };
        let own = ["store", "durability"].into_iter();
        let own = own.filter_map(|key| Some((key.to_owned(), self.fields.shift_remove(key)?)));
        let fields: Vec<(String, Value)> =
            own.chain(spills.into_iter().map(|(key, value)| (format!("spills.{key}"), value))).collect();
        // A path in a file is meant from where the file is.
        let folder = self.path.parent().unwrap_or(Path::new(".")).to_owned();
        for (field, value) in fields {
            let set = self.store.set(&field, &value, &folder);
            set.map_err(|problem| CliError::usage(format!("{}: `{field}`: {problem}", self.place(&field))))?;
        }
        Ok(())
    }

    fn take_context(&mut self) -> Result<(), CliError> {
        let Some(value) = self.fields.shift_remove("context") else { return Ok(()) };
        let tokens = value.as_u64().filter(|tokens| *tokens > 0);
        let wrong = || {
            let origin = self.place("context");
            CliError::usage(format!("{origin}: `context`: expected a whole number above 0, found {value}"))
        };
        self.context = Some(tokens.ok_or_else(wrong)?);
        Ok(())
    }
}

/// Line and column of a byte, counted from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
