//! Errors of the configuration: the problem, its place, and what to do.

use std::io;
use std::path::PathBuf;

use plimsoll::PolicyError;
use plimsoll_sandbox::Origin;
use thiserror::Error;

const SCHEMA: &str = "`plimsoll config --schema` describes all fields";

/// Why the configuration cannot be loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A file is not valid TOML or JSON, whichever its name indicates.
    #[error("{}{}: not valid {language}: {message}", path.display(), place(*at))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line and column, counted from 1.
        at: Option<(usize, usize)>,
        /// `TOML` or `JSON`.
        language: &'static str,
        /// Message of the parser. The error itself is not kept as a `source`, because it quotes the line, which may contain a
        /// key.
        message: String,
    },
    /// A file has an unknown key.
    #[error("{origin}: unknown setting `{key}`")]
    UnknownKey {
        /// Location of the key.
        origin: Origin,
        /// The key.
        key: String,
        /// The most similar known key.
        nearest: Option<String>,
    },
    /// A setting has an invalid value.
    #[error("{origin}: {problem}")]
    Value {
        /// Location of the value.
        origin: Origin,
        /// The problem.
        problem: String,
    },
    /// A variable has a value that is invalid for its field.
    #[error("{0}")]
    Variable(#[source] PolicyError),
    /// The merged fields are not a valid policy.
    #[error("{}{problem}", origin.as_ref().map(|origin| format!("{origin}: ")).unwrap_or_default())]
    Policy {
        /// Location of the invalid field, unless it comes from the preset.
        origin: Option<Origin>,
        /// The problem.
        problem: String,
    },
    /// The named policy is neither a preset nor a file.
    #[error("{}{source}", before(origin))]
    UnknownPolicy {
        /// Location of the name.
        origin: Origin,
        /// Lists the presets.
        source: PolicyError,
    },
    /// `preset` is not the name of a preset.
    #[error("{origin}: {source}")]
    UnknownPreset {
        /// Location of the name.
        origin: Origin,
        /// Lists the presets.
        source: PolicyError,
    },
    /// A policy file contains a setting of the store.
    #[error("{}: a policy file cannot set `{field}`, which belongs to the store", path.display())]
    StoreInPolicy {
        /// The file.
        path: PathBuf,
        /// The setting.
        field: &'static str,
    },
    /// A policy file contains a setting of a run.
    #[error("{}: a policy file cannot set `{field}`, which belongs to runs", path.display())]
    RunInPolicy {
        /// The file.
        path: PathBuf,
        /// The setting.
        field: String,
    },
}

impl ConfigError {
    /// Returns what the user can do about the error.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            ConfigError::UnknownKey { nearest: Some(name), .. } => format!("did you mean `{name}`?"),
            ConfigError::UnknownKey { .. } => SCHEMA.to_owned(),
            ConfigError::Policy { .. } => SCHEMA.to_owned(),
            ConfigError::UnknownPolicy { .. } => "or give the path of a policy file".to_owned(),
            ConfigError::UnknownPreset { .. } => "`policy` takes the path of a policy file".to_owned(),
            ConfigError::StoreInPolicy { .. } | ConfigError::RunInPolicy { .. } => {
                "put it into `plimsoll.toml` or your own `config.toml`".to_owned()
            }
            ConfigError::Unreadable { .. }
            | ConfigError::Syntax { .. }
            | ConfigError::Value { .. }
            | ConfigError::Variable(_) => return None,
        })
    }
}

fn place(at: Option<(usize, usize)>) -> String {
    at.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default()
}

/// Omits a flag as the origin: the user has just typed it.
fn before(origin: &Origin) -> String {
    if matches!(origin, Origin::Flag(_)) { String::new() } else { format!("{origin}: ") }
}
