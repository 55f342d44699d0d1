//! Keys that are never displayed.

use std::fmt;

/// A key. `Debug` does not show it, and there is no `Display` and no serialisation.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret. White space around it, which files and shells leave, is removed.
    pub fn new(key: impl AsRef<str>) -> Secret {
        Secret(key.as_ref().trim().to_owned())
    }

    /// Returns the key itself, for the header it is sent in.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns a text without this key and without anything else that looks like a key.
    ///
    /// Providers quote the key they received, in full or in part, and a gateway's URL may contain one.
    pub(crate) fn strip_from(&self, text: &str) -> String {
        let without = if self.0.len() < 4 { text.to_owned() } else { text.replace(&self.0, "[key]") };
        plimsoll::redact::redact(&without).text
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}
