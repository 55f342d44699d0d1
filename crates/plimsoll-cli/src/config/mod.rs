//! `plimsoll config`, `trust` and `untrust`.

mod show;
mod trust;

use plimsoll_config::Origin;
use plimsoll_host::Host;
use serde_json::Value;

use crate::output::escaped;

pub(crate) use show::run;
pub(crate) use trust::{trust, untrust};

/// Formats the origin of a value, with `~` for the home directory. A checkout chooses its path, so characters that a
/// terminal would hide or reorder are escaped.
fn short_origin(origin: &Origin, host: &Host) -> String {
    let origin = match origin {
        Origin::File { path, line } => {
            Origin::File { path: host.short(path).into(), line: *line }.to_string()
        }
        other => other.to_string(),
    };
    escaped(&origin)
}

/// Formats a value in full. It comes from an untrusted file, so characters that a terminal would hide or reorder are
/// escaped.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key:?} = {}", written(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
