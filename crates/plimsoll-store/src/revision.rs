//! The number of a session's writes.

use serde::{Deserialize, Serialize};

/// Number of writes to one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revision(pub u64);
