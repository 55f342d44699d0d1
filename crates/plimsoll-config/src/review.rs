//! Preview of trusting a project.

use std::path::PathBuf;

use serde::Serialize;

use crate::environment::Environment;
use crate::guard::GuardedSetting;
use crate::ledger::{Ledger, LedgerError, TrustedFile, TrustedProject};

/// Preview of trusting a project: the settings that would take effect, and the files they come from.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Review {
    /// Canonical path of the project's directory.
    pub directory: PathBuf,
    /// The files when their settings were read.
    pub files: Vec<TrustedFile>,
    /// Settings that would take effect.
    pub settings: Vec<GuardedSetting>,
}

impl Ledger {
    /// Trusts a project with the files that were reviewed. They replace previously trusted ones.
    pub fn trust(env: &Environment, review: &Review) -> Result<(), LedgerError> {
        let paths = review.files.iter().map(|file| &file.path).chain([&review.directory]);
        if let Some(path) = paths.into_iter().find(|path| path.to_str().is_none()) {
            return Err(LedgerError::NotUtf8 { path: path.clone() });
        }
        Ledger::change(env, |trusted| {
            trusted.retain(|project| project.directory != review.directory);
            trusted.push(TrustedProject { directory: review.directory.clone(), files: review.files.clone() });
            trusted.sort_by(|a, b| a.directory.cmp(&b.directory));
        })
    }
}
