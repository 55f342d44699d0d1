//! Fields that a source wrote and the engine does not know.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use serde_json::{Map, Value};

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// Unknown fields, unchanged. Dereferences to the [`Map`] it holds.
///
/// Most messages and parts have no such fields, and an empty map takes 72 bytes of each struct it is in: a session of
/// 100,000 short messages needed more memory for empty maps than for its texts. Without fields this is one pointer.
///
/// ```
/// use plimsoll::log::Extra;
/// let mut extra = Extra::default();
/// assert!(extra.get("cwd").is_none());
/// extra.insert("cwd".into(), "/home".into());
/// assert_eq!(extra["cwd"], "/home");
/// ```
#[derive(Clone, Default)]
pub struct Extra(Option<Box<Map<String, Value>>>);

impl Deref for Extra {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Map<String, Value> {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for Extra {
    fn deref_mut(&mut self) -> &mut Map<String, Value> {
        self.0.get_or_insert_default()
    }
}

impl From<Map<String, Value>> for Extra {
    fn from(map: Map<String, Value>) -> Extra {
        Extra((!map.is_empty()).then(|| Box::new(map)))
    }
}

impl From<Extra> for Map<String, Value> {
    fn from(extra: Extra) -> Map<String, Value> {
        extra.0.map(|map| *map).unwrap_or_default()
    }
}

// A map from which everything was removed again equals one that was never made.
impl PartialEq for Extra {
    fn eq(&self, other: &Extra) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
