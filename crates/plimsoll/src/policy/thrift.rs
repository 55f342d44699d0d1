//! The one choice about saving money under the line.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Whether the window is reduced under the line to save money.
///
/// A provider's cache makes old content cheap to send and changes expensive. Under the line, a change is made only if it
/// has paid for itself out of what earlier reductions saved: `docs/POLICY.md` has the arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Thrift {
    /// Never: the window is reduced only when it crosses the line.
    Off,
    /// Old tool outputs and inputs are cleared by the rules of `prune`, and a window that is at least half full is
    /// compacted, each only out of savings already made. The running turn stays whole.
    #[default]
    Careful,
    /// Clears almost everything but the newest outputs and compacts at a third of the line, on the expectation that the
    /// session continues. Costs less and keeps less in the window.
    Frugal,
}

impl<'de> Deserialize<'de> for Thrift {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Thrift, D::Error> {
        deserializer.deserialize_str(ThriftName)
    }
}

/// Names the choices if something else was found: the section `[thrift]` had fields before.
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
