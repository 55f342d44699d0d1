//! Notices and progress, which a host reports in addition to its results.

use std::fmt;

/// Information for the user in addition to the result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// Importance.
    pub level: Level,
    /// The text.
    pub text: String,
    /// The next step, if there is one.
    pub hint: Option<String>,
}

/// Importance of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// A choice or an action of the host.
    Info,
    /// Something that the user may not expect.
    Note,
    /// A possible loss.
    Warning,
}

impl Notice {
    /// Creates a notice.
    pub fn new(level: Level, text: impl Into<String>) -> Notice {
        Notice { level, text: text.into(), hint: None }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::Info => "",
            Level::Note => "note: ",
            Level::Warning => "warning: ",
        })?;
        f.write_str(&self.text)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Receives notices and progress of a host. The default implementation ignores them.
pub trait Reporter: Send + Sync {
    /// Receives a notice.
    fn notice(&self, notice: &Notice) {
        let _ = notice;
    }

    /// Begins to report progress of some work, until the returned value is dropped.
    fn progress(&self, what: &str, work: Work) -> Box<dyn Progress> {
        let _ = (what, work);
        Box::new(Silent)
    }
}

/// Known amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work {
    /// A single step of unknown length.
    Step,
    /// Bytes to read, with their number.
    Bytes(Option<u64>),
    /// Number of items.
    Items(u64),
}

/// Progress of some work.
pub trait Progress: Send + Sync {
    /// Sets the amount of work that is done.
    fn at(&self, place: u64) {
        let _ = place;
    }

    /// Counts an item as done.
    fn step(&self) {}

    /// Adds items to the expected number.
    fn more(&self, count: u64) {
        let _ = count;
    }

    /// Changes the name of the work.
    fn rename(&self, what: &str) {
        let _ = what;
    }
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Reporter for Silent {}

impl Progress for Silent {}
