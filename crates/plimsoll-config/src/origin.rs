//! Where a value comes from.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// Plimsoll's own default.
    BuiltIn,
    /// The preset.
    Preset(&'static str),
    /// A file, and the line if it is known.
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<usize>,
    },
    /// A variable.
    Variable(String),
    /// A flag.
    Flag(&'static str),
    /// A person who was asked.
    Answer,
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
        }
    }
}
