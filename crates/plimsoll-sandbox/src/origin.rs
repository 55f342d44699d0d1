//! Sources of rules and settings.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Source of a rule or a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Origin {
    /// A default of the program.
    BuiltIn,
    /// A preset, by name.
    Preset(&'static str),
    /// A configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// Line number, counted from 1, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<usize>,
    },
    /// An environment variable.
    Variable(String),
    /// A command-line flag.
    Flag(&'static str),
    /// The user's answer to a question.
    Answer,
    /// A rule that a client has set for one session.
    Session,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BuiltIn => f.write_str("built in"),
            Origin::Preset(name) => write!(f, "preset {name}"),
            Origin::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Origin::File { path, line: None } => write!(f, "{}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(name) => f.write_str(name),
            Origin::Answer => f.write_str("your answer"),
            Origin::Session => f.write_str("a rule of this session"),
        }
    }
}
