//! The store: sessions that lose nothing.

mod blobs;
mod error;
mod memory;
mod recall;
mod session;
mod sqlite;
mod store;

pub use blobs::{Blob, Blobs, Directory, Staged};
pub use error::StoreError;
pub use memory::MemoryStore;
pub use recall::{Ask, Hit, Line, Recalled, Search};
pub use session::{
    Change, CompactionRecord, Filter, Findings, ForkPoint, Lease, NewSession, Page, PageRequest, Session, Totals,
};
pub use sqlite::{Durability, SqliteStore, database_of_version};
pub use store::{Reduced, SpillRecord, Store};

/// Says of a call that nobody will answer any more.
pub(crate) const INTERRUPTED: &str = "Interrupted: the process that ran this tool ended before it answered.";
