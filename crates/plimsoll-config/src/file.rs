//! Reads a configuration or policy file: TOML with the line of every key, or JSON.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll::Preset;
use plimsoll::policy::Overrides;
use plimsoll_sandbox::Origin;
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::bounded::read_in_time;
use crate::error::ConfigError;
use crate::layer::{Layer, placed};
use crate::names::{self, check_key, leaves};
use crate::notice::Notice;
use crate::opencode;
use crate::paths::parent_directory;
use crate::run::{RunLayer, RunSource, SECTIONS, Tree};
use crate::store::StoreLayer;

/// Maximum size of a file. It may come with a checkout and must not fill the memory of a command that reads it.
const MAX_BYTES: u64 = 1_000_000;

/// Content of a file.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// BLAKE3 hash of the content, by which changes are detected.
    pub(crate) hash: String,
    /// The policy that the file names, and where.
    pub(crate) policy: Option<(String, Origin)>,
    /// The context window that the file sets.
    pub(crate) context: Option<u64>,
    /// Settings of the store.
    pub(crate) store: StoreLayer,
    /// Settings of the store as written in the file.
    pub(crate) store_values: Vec<(String, Value)>,
    /// The fields of a policy.
    pub(crate) fields: Map<String, Value>,
    /// Settings of a run.
    pub(crate) run: Tree,
    /// Why the settings of a run cannot be used.
    pub(crate) problem: Option<Arc<ConfigError>>,
    /// Directory that relative paths of instructions start from.
    pub(crate) base: PathBuf,
    /// Keys that have no effect.
    pub(crate) notices: Vec<Notice>,
    /// Lines of all keys of a TOML or OpenCode file, by path.
    lines: BTreeMap<String, usize>,
}

impl ConfigFile {
    /// Reads a file as TOML, JSON or OpenCode's format, depending on its name.
    pub(crate) fn read(path: &Path) -> Result<ConfigFile, ConfigError> {
        if opencode::is_own_name(path) {
            return Ok(ConfigFile::read_opencode(path));
        }
        ConfigFile::of_text(&read_text(path)?, path)
    }

    /// Reads a policy file that the user named for this command. It may be a pipe (`--policy <(generate)`).
    pub(crate) fn read_named(path: &Path) -> Result<ConfigFile, ConfigError> {
        if path.is_file() {
            return ConfigFile::read(path);
        }
        let mut bytes = Vec::new();
        let read =
            std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        ConfigFile::of_text(&checked_text(path, read.map(|_| bytes))?, path)
    }

    fn of_text(text: &str, path: &Path) -> Result<ConfigFile, ConfigError> {
        let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        ConfigFile::parse(text, path, is_toml)
    }

    /// Reads a file of OpenCode. An error in it is kept as the reason why no agent can run: the file belongs to another
    /// tool and must not stop commands that need no model.
    pub(crate) fn read_opencode(path: &Path) -> ConfigFile {
        let text = read_text(path);
        let mut file = ConfigFile::empty(path, text.as_deref().unwrap_or_default());
        opencode::owner(path).clone_into(&mut file.base);
        match text.and_then(|text| opencode::read(&text, path)) {
            Ok(translation) => {
                file.fields = translation.fields;
                file.run = translation.run;
                file.lines = translation.lines;
                file.notices = translation.notices;
                file.problem = translation.problem.map(Arc::new);
            }
            Err(error) => file.problem = Some(Arc::new(error)),
        }
        file
    }

    fn empty(path: &Path, text: &str) -> ConfigFile {
        ConfigFile {
            path: path.to_owned(),
            hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
            policy: None,
            context: None,
            store: StoreLayer::default(),
            store_values: Vec::new(),
            fields: Map::new(),
            run: Tree::default(),
            problem: None,
            base: parent_directory(path).to_owned(),
            notices: Vec::new(),
            lines: BTreeMap::new(),
        }
    }

    fn parse(text: &str, path: &Path, is_toml: bool) -> Result<ConfigFile, ConfigError> {
        let mut file = ConfigFile::empty(path, text);
        file.fields = if is_toml { file.toml(text)? } else { file.json(text)? };
        file.check_keys()?;
        file.take_policy()?;
        file.take_context()?;
        file.take_store()?;
        file.take_run();
        Ok(file)
    }

    /// Converts the file into a layer. The layer has a preset if the file names one or contains the guide's section.
    pub(crate) fn layer(&self) -> Result<Layer, ConfigError> {
        let mut value = self.fields.clone();
        let preset = self.policy.as_ref().filter(|(name, _)| name.parse::<Preset>().is_ok());
        if let Some((name, _)) = preset {
            value.insert("preset".to_owned(), name.as_str().into());
        }
        let overrides = Overrides::from_value(Value::Object(value)).map_err(|error| {
            let known = self.fields_at(&self.fields);
            placed(&error, &known)
        })?;
        let mut origins = self.fields_at(&overrides.fields);
        if self.context.is_some() {
            origins.insert("context".to_owned(), self.place("context"));
        }
        origins.extend(self.store.fields().map(|field| (field.to_owned(), self.place(field))));
        let run = RunLayer::of_source(&RunSource {
            values: &self.run,
            base: &self.base,
            problem: self.problem.clone(),
            place: &|key| self.place(key),
        });
        Ok(Layer { chosen: None, overrides, context: self.context, store: self.store.clone(), run, origins })
    }

    fn take_run(&mut self) {
        for section in SECTIONS {
            if let Some(value) = self.fields.shift_remove(section) {
                self.run.0.insert(section.to_owned(), value);
            }
        }
    }

    /// Returns the origin of each field. Fields that were expanded from a name or from the guide's section have no
    /// line, so their origin is the whole file.
    fn fields_at(&self, fields: &Map<String, Value>) -> BTreeMap<String, Origin> {
        let fields = fields.iter().flat_map(|(key, value)| leaves(key, value));
        fields.map(|(field, _)| (field.clone(), self.place(&field))).collect()
    }

    /// Returns the origin of a key, or the whole file if the key has no line.
    pub(crate) fn place(&self, field: &str) -> Origin {
        // A key inside a list or an inline table has the line of that.
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

    fn toml(&mut self, text: &str) -> Result<Map<String, Value>, ConfigError> {
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map(|span| place(text, span.start));
            let message = error.message().replace('\n', ", ");
            ConfigError::Syntax { path: self.path.clone(), at, language: "TOML", message }
        })?;
        self.table(text, table.get_ref(), "")
    }

    fn table(
        &mut self,
        text: &str,
        table: &DeTable<'_>,
        path: &str,
    ) -> Result<Map<String, Value>, ConfigError> {
        let mut fields = Map::new();
        // The last matching permission rule decides, so rules keep the order in which they are written.
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let name = key.get_ref().to_string();
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.lines.insert(path.clone(), place(text, key.span().start).0);
            fields.insert(name, self.value(text, value, &path)?);
        }
        Ok(fields)
    }

    fn value(&mut self, text: &str, value: &Spanned<DeValue<'_>>, path: &str) -> Result<Value, ConfigError> {
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
                let items = items.iter().enumerate().map(|(number, item)| {
                    let path = format!("{path}.{number}");
                    self.lines.insert(path.clone(), place(text, item.span().start).0);
                    self.value(text, item, &path)
                });
                return Ok(Value::Array(items.collect::<Result<_, _>>()?));
            }
            DeValue::Table(table) => return Ok(Value::Object(self.table(text, table, path)?)),
        }
        .map_err(|found| self.wrong(path, format!("`{path}`: {found} is not a valid value for any setting")))
    }

    fn json(&self, text: &str) -> Result<Map<String, Value>, ConfigError> {
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Ok(fields),
            Ok(_) => Err(self.wrong("", "a policy is a JSON object".to_owned())),
            Err(error) => {
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default().to_owned();
                let at = Some((error.line(), error.column()));
                Err(ConfigError::Syntax { path: self.path.clone(), at, language: "JSON", message })
            }
        }
    }

    fn check_keys(&self) -> Result<(), ConfigError> {
        for (section, value) in &self.fields {
            let mut paths = vec![vec![section.clone()]];
            if let (Some(fields), true) = (value.as_object(), section != "TokenManagement") {
                paths.extend(fields.keys().map(|key| vec![section.clone(), key.clone()]));
            }
            if let (Some(fields), true) = (value.as_object(), SECTIONS.contains(&section.as_str())) {
                paths.extend(paths_below(std::slice::from_ref(section), fields));
            }
            for path in paths {
                let Err(nearest) = check_key(&path) else { continue };
                let key = path.join(".");
                return Err(ConfigError::UnknownKey { origin: self.place(&key), key, nearest });
            }
        }
        Ok(())
    }

    fn wrong(&self, key: &str, problem: String) -> ConfigError {
        ConfigError::Value { origin: self.place(key), problem }
    }

    fn take_policy(&mut self) -> Result<(), ConfigError> {
        for key in ["policy", "preset"] {
            let Some(value) = self.fields.shift_remove(key) else { continue };
            let origin = self.place(key);
            let Value::String(name) = value else {
                return Err(self.wrong(key, format!("`{key}`: expected the name of a preset or a file")));
            };
            if self.policy.is_some() {
                let problem = "`policy` and `preset` are the same setting; remove one".to_owned();
                return Err(ConfigError::Value { origin, problem });
            }
            if let ("preset", Err(source)) = (key, name.parse::<Preset>()) {
                return Err(ConfigError::UnknownPreset { origin, source });
            }
            self.policy = Some((name, origin));
        }
        Ok(())
    }

    fn take_store(&mut self) -> Result<(), ConfigError> {
        let spills = match self.fields.shift_remove("spills") {
            Some(Value::Object(spills)) => spills,
            None => Map::new(),
            Some(_) => {
                return Err(self.wrong("spills", "`spills`: expected a section with fields".to_owned()));
            }
        };
        let own = ["store", "durability"].into_iter();
        let own = own.filter_map(|key| Some((key.to_owned(), self.fields.shift_remove(key)?)));
        let fields: Vec<(String, Value)> =
            own.chain(spills.into_iter().map(|(key, value)| (format!("spills.{key}"), value))).collect();
        // Relative paths in a file start from the file's directory.
        let directory = self.path.parent().unwrap_or(Path::new(".")).to_owned();
        for (field, value) in fields {
            let set = self.store.set(&field, &value, &directory);
            set.map_err(|problem| self.wrong(&field, format!("`{field}`: {problem}")))?;
            self.store_values.push((field, value));
        }
        Ok(())
    }

    fn take_context(&mut self) -> Result<(), ConfigError> {
        let Some(value) = self.fields.shift_remove("context") else { return Ok(()) };
        let number = value.as_u64().filter(|tokens| *tokens > 0);
        let tokens = number.or_else(|| names::tokens(value.as_str()?));
        let wrong = || self.wrong("context", format!("`context`: expected {}, found {value}", names::TOKENS));
        self.context = Some(tokens.ok_or_else(wrong)?);
        Ok(())
    }
}

/// Reads the text of a regular file.
fn read_text(path: &Path) -> Result<String, ConfigError> {
    checked_text(path, read_in_time(path, MAX_BYTES + 1).map(|head| head.bytes))
}

fn checked_text(path: &Path, read: io::Result<Vec<u8>>) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let bytes = read.map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        let origin = Origin::File { path: path.to_owned(), line: None };
        let problem = "larger than 1,000,000 bytes, the maximum for a configuration file".to_owned();
        return Err(ConfigError::Value { origin, problem });
    }
    String::from_utf8(bytes).map_err(|error| unreadable(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// Returns every path in a section.
fn paths_below(above: &[String], fields: &Map<String, Value>) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (name, value) in fields {
        let path: Vec<String> = above.iter().cloned().chain([name.clone()]).collect();
        paths.push(path.clone());
        if let Some(fields) = value.as_object() {
            paths.extend(paths_below(&path, fields));
        }
    }
    paths
}

/// Returns the line and column of a byte, counted from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
