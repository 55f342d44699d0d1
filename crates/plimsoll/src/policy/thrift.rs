//! Setting for saving money under the line.

use std::fmt;

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Whether the window is reduced under the line to save money.
///
/// A provider's cache makes old content cheap to send and changes expensive. Under the line, a change is made only if
/// savings of earlier reductions pay for it. `docs/POLICY.md` has the arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Thrift {
    /// The window is reduced only when it crosses the line.
    Off,
    /// Clears old tool outputs and inputs by the rules of `prune`, and compacts a window that is at least half full, if
    /// savings already made pay for it. The current turn stays whole.
    #[default]
    Careful,
    /// Clears almost all outputs except the newest, and compacts at a third of the line, expecting that the session
    /// continues. Costs less and keeps less in the window.
    Frugal,
}

impl<'de> Deserialize<'de> for Thrift {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Thrift, D::Error> {
        deserializer.deserialize_str(ThriftName)
    }
}

/// Names the choices if something else was found. In earlier versions, `[thrift]` was a section with fields.
struct ThriftName;

impl Visitor<'_> for ThriftName {
    type Value = Thrift;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`off`, `careful` or `frugal`")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Thrift, E> {
        match name {
            "off" => Ok(Thrift::Off),
            "careful" => Ok(Thrift::Careful),
            "frugal" => Ok(Thrift::Frugal),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }
}
