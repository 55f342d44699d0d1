//! Keys that are never shown.

use std::fmt;

/// A key. `Debug` does not show it, and there is no `Display` and no serialisation.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keep a key. White space around it, as files and shells leave it, is no part of it.
    pub fn new(key: impl AsRef<str>) -> Secret {
        Secret(key.as_ref().trim().to_owned())
    }

    /// The key itself, for the header it is sent in.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A text without this key, and without anything else that looks like one.
    ///
    /// Providers quote the key they were given, in full or in part, and a gateway's address may carry one.
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
