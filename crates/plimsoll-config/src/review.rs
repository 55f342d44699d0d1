//! What trusting a project would mean.

use std::path::PathBuf;

use serde::Serialize;

use crate::guard::GuardedSetting;
use crate::ledger::{Ledger, LedgerError, TrustedFile, TrustedProject};
use crate::surroundings::Surroundings;

/// What trusting a project would mean: what would take effect, and the files it is about.
#[derive(Debug, Serialize)]
pub struct Review {
    /// The project's directory, by its canonical path.
    pub directory: PathBuf,
    /// The files as they were when their settings were read.
    pub files: Vec<TrustedFile>,
    /// What would take effect.
    pub settings: Vec<GuardedSetting>,
}

impl Ledger {
    /// Trust a project with the files that were reviewed, in place of others it may have been trusted with.
    pub fn trust(around: &Surroundings, review: &Review) -> Result<(), LedgerError> {
        let paths = review.files.iter().map(|file| &file.path).chain([&review.directory]);
        if let Some(path) = paths.into_iter().find(|path| path.to_str().is_none()) {
            return Err(LedgerError::NotUtf8 { path: path.clone() });
        }
        Ledger::change(around, |trusted| {
            trusted.retain(|project| project.directory != review.directory);
            trusted.push(TrustedProject { directory: review.directory.clone(), files: review.files.clone() });
            trusted.sort_by(|a, b| a.directory.cmp(&b.directory));
        })
    }
}
