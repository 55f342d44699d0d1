//! Why there is no configuration: what is wrong, where, and what to do.

use std::io;
use std::path::PathBuf;

use plimsoll::PolicyError;
use plimsoll_sandbox::Origin;
use thiserror::Error;

const SCHEMA: &str = "`plimsoll config --schema` describes all fields";

/// Why the layers make no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is neither TOML nor JSON, whichever its name says.
    #[error("{}{}: not valid {language}: {message}", path.display(), place(*at))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line and column, counted from 1.
        at: Option<(usize, usize)>,
        /// `TOML` or `JSON`.
        language: &'static str,
        /// What the parser says.
        message: String,
    },
    /// A file has a key that is no setting.
    #[error("{origin}: there is no setting `{key}`")]
    UnknownKey {
        /// Where.
        origin: Origin,
        /// The key.
        key: String,
        /// The key that may have been meant.
        nearest: Option<String>,
    },
    /// The environment has a variable that looks like one of ours and is none.
    #[error("the environment has `{name}`, which is no setting")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The variable that may have been meant.
        nearest: Option<String>,
    },
    /// A setting has a value that it cannot have.
    #[error("{origin}: {problem}")]
    Value {
        /// Where.
        origin: Origin,
        /// What is wrong with it.
        problem: String,
    },
    /// A variable has a text that its field cannot have.
    #[error("{0}")]
    Variable(#[source] PolicyError),
    /// The fields make no policy.
    #[error("{}{problem}", origin.as_ref().map(|origin| format!("{origin}: ")).unwrap_or_default())]
    Policy {
        /// Where the field comes from that is at fault, if it is one and not the preset's.
        origin: Option<Origin>,
        /// What is wrong with it.
        problem: String,
    },
    /// A policy was named that is neither a preset nor a file.
    #[error("{}{source}", before(origin))]
    UnknownPolicy {
        /// Who named it.
        origin: Origin,
        /// Which presets there are.
        source: PolicyError,
    },
    /// `preset` names no preset.
    #[error("{origin}: {source}")]
    UnknownPreset {
        /// Where.
        origin: Origin,
        /// Which presets there are.
        source: PolicyError,
    },
    /// A policy file has a setting of the store.
    #[error("{}: a policy says nothing about the store, and this has `{field}`", path.display())]
    StoreInPolicy {
        /// The file.
        path: PathBuf,
        /// The setting.
        field: &'static str,
    },
    /// A policy file has a setting of a run.
    #[error("{}: a policy says nothing about a run, and this has `{field}`", path.display())]
    RunInPolicy {
        /// The file.
        path: PathBuf,
        /// The setting.
        field: String,
    },
}

impl ConfigError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let meant = |nearest: &Option<String>, otherwise: &str| match nearest {
            Some(name) => format!("did you mean `{name}`?"),
            None => otherwise.to_owned(),
        };
        Some(match self {
            ConfigError::UnknownKey { nearest, .. } => meant(nearest, SCHEMA),
            ConfigError::UnknownVariable { nearest, .. } => meant(
                nearest,
                "`plimsoll config` lists all fields; `prune.minTokens` is `PLIMSOLL_PRUNE_MIN_TOKENS`",
            ),
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

/// A flag was typed a moment ago and need not be named.
fn before(origin: &Origin) -> String {
    if matches!(origin, Origin::Flag(_)) { String::new() } else { format!("{origin}: ") }
}
