#![doc = include_str!("../README.md")]

mod cache;
mod error;
mod export;
mod find;
mod import;
mod keeping;
mod names;
mod places;
mod report;
mod resume;
mod short_ids;
mod source;
mod state;
mod stored;
mod survey;
mod text;
mod tool;
mod weigh;
mod weighed;
mod write;

pub use cache::WeighedCache;
pub use error::{ImportError, reason};
pub use export::{Exported, OnDamage, export};
pub use find::{Found, Scope, Search, SessionStorage, projects_around, row_with_id};
pub use import::Drift;
pub use places::{Places, Problem};
pub use report::{ImportOptions, NewSessionReason, Outcome, OutdatedCopy, Report};
pub use short_ids::ShortIds;
pub use source::{FileKind, OnRead, Source, open};
pub use stored::{Extent, KeptCounts, about, transcript, visit};
pub use survey::Survey;
pub use tool::Tool;
pub use weigh::weigh_all;
pub use weighed::Weighed;
