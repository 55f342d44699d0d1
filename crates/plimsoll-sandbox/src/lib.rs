#![doc = include_str!("../README.md")]

mod config;
#[cfg(unix)]
mod files;
mod origin;
mod permissions;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod sandbox;

pub use config::{Grants, SandboxConfig, SandboxMode};
#[cfg(unix)]
pub use files::{
    FileContent, FileEntry, MAX_FILE_BYTES, ReplaceError, open_file, remove_empty_directory, require_no_links,
};
pub use origin::Origin;
pub use permissions::{
    Access, Action, BadRule, EXTERNAL_DIRECTORY, EffectiveRules, PermissionRequest, PermissionRule,
    Permissions, Subject, matches, parse_allow,
};
#[cfg(unix)]
pub use process::{ProcessGroup, ProcessWaiter, needed_environment};
#[cfg(unix)]
pub use sandbox::{Confinement, Guard, Sandbox, restrict_search_paths};
