//! Opening Plimsoll's database of sessions.
//!
//! Functions that only read never create a database.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll::{Policy, SessionId};
use plimsoll_config::Flags;
use plimsoll_import::ImportError;
use plimsoll_store::{Archive, Filter, Session, SpillRecord, StoreError};

use crate::config::HostConfig;
use crate::error::{HostError, reason};
use crate::files;
use crate::host::Host;
use crate::report::{Level, Notice};

/// An open database.
#[derive(Clone)]
#[non_exhaustive]
pub struct OpenStore {
    /// The sessions and their spilled outputs.
    pub archive: Arc<Archive>,
    /// The file.
    pub path: PathBuf,
}

impl fmt::Debug for OpenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Host {
    /// Opens the configured database; `None` if it does not exist.
    pub fn open_existing(&self, config: &HostConfig) -> Result<Option<OpenStore>, HostError> {
        match &config.store.path {
            Some(path) if exists(path)? => self.open_at(path, config).map(Some),
            _ => Ok(None),
        }
    }

    /// Opens the configured database, which must exist.
    pub fn open_store(&self, config: &HostConfig) -> Result<OpenStore, HostError> {
        self.open_existing(config)?.ok_or_else(|| {
            let place = config.store.path.as_deref().map(|path| format!(" at `{}`", self.short(path)));
            let message = format!("no session database{} yet", place.unwrap_or_default());
            HostError::usage(message).hint("create one with `plimsoll sessions import FILE`")
        })
    }

    /// Opens the database of the default configuration, which must exist.
    pub fn open_default(&self) -> Result<OpenStore, HostError> {
        self.open_store(&self.config(&Flags::default())?)
    }

    /// Opens the configured database, and creates it if it does not exist.
    pub fn open_or_create(&self, config: &HostConfig) -> Result<OpenStore, HostError> {
        let Some(path) = &config.store.path else {
            return Err(HostError::usage("cannot store sessions: no home directory")
                .hint("set the database with `--store FILE` or PLIMSOLL_STORE"));
        };
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            files::create_private_directory(directory).map_err(|error| {
                HostError::failed(format!("cannot create `{}`: {}", directory.display(), reason(&error)))
                    .caused_by(error)
            })?;
        }
        self.open_at(path, config)
    }

    /// Opens the database in a file.
    pub fn open_at(&self, path: &Path, config: &HostConfig) -> Result<OpenStore, HostError> {
        // Enabled even if the policy does not spill now, because outputs that were spilled earlier must stay recallable.
        let mut spec = config.policy.clone().into_spec();
        spec.truncate.spill = true;
        let policy = Policy::new(spec).unwrap_or_else(|_| config.policy.clone());
        let mut archive = Archive::open(path, &policy, config.store.durability)?;
        archive.retention = config.store.retention;
        if let Some(copy) = &archive.copy {
            self.note(format!(
                "upgraded `{}` from an older version; a backup is at `{}`",
                path.display(),
                copy.display()
            ));
        }
        if let Some(loss) = &archive.loss {
            let text = format!("`{}`: {loss}. Some messages may be missing", path.display());
            let hint = Some("run `plimsoll sessions check` for details".to_owned());
            self.notice(&Notice { hint, ..Notice::new(Level::Warning, text) });
        }
        Ok(OpenStore { archive: Arc::new(archive), path: path.to_owned() })
    }
}

impl OpenStore {
    /// Returns all sessions, including tasks, ordered by their last write, newest first.
    pub fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        self.archive.store().sessions(&Filter { all: true, ..Filter::default() })
    }

    /// Fails if a checksum of the session is wrong, so that altered content is never exported as if it were intact.
    pub fn require_sound(&self, id: &SessionId) -> Result<(), HostError> {
        let damage = self.archive.store().damage(id)?;
        if damage.is_empty() { Ok(()) } else { Err(damaged(ImportError::Damaged { damage }, id)) }
    }

    /// Returns all spilled outputs of a session, including inherited ones.
    pub fn spills(&self, id: &SessionId) -> Result<Vec<SpillRecord>, StoreError> {
        let (mut spills, mut next) = (Vec::new(), Some(0));
        while let Some(after) = next {
            let page = self.archive.store().spills(id, after, 1_000)?;
            spills.extend(page.spills);
            next = page.next;
        }
        Ok(spills)
    }

    /// Returns the tasks of a session recursively, children before their parent.
    pub fn tasks_below(&self, session: &SessionId) -> Result<Vec<SessionId>, StoreError> {
        let mut found = Vec::new();
        for task in self.children(session)? {
            found.extend(self.tasks_below(&task.id)?);
            found.push(task.id);
        }
        Ok(found)
    }

    /// Returns the sessions that a session started.
    pub fn children(&self, session: &SessionId) -> Result<Vec<Session>, StoreError> {
        self.archive.store().sessions(&Filter { parent: Some(session.clone()), ..Filter::default() })
    }
}

/// Creates the error for a damaged session.
pub(crate) fn damaged(error: ImportError, id: &SessionId) -> HostError {
    let hint = format!("export what is readable with `plimsoll sessions export {id} --salvage`");
    HostError::failed(error.to_string()).hint(hint).caused_by(error)
}

/// Whether the database exists. Fails if that cannot be determined.
fn exists(path: &Path) -> Result<bool, HostError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(HostError::usage(format!("`{}` is a directory, not a database", path.display())))
        }
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => {
            let message = format!("cannot open `{}`: {}", path.display(), reason(&error));
            Err(HostError::failed(message).caused_by(error))
        }
    }
}
