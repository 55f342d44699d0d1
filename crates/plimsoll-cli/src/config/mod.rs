//! `plimsoll config`, `trust` and `untrust`.

mod show;
mod trust;

use plimsoll_config::Origin;
use plimsoll_host::Host;
use serde_json::Value;

use crate::output::escaped;

pub(crate) use show::run;
pub(crate) use trust::{trust, untrust};

/// Where a value comes from, with `~` for the home. A path may be chosen by a checkout, so whatever a terminal would hide or
/// reorder is escaped.
fn short_origin(origin: &Origin, host: &Host) -> String {
    let origin = match origin {
        Origin::File { path, line } => {
            Origin::File { path: host.short(path).into(), line: *line }.to_string()
        }
        other => other.to_string(),
    };
    escaped(&origin)
}

/// A value in full, with everything escaped that a terminal would hide or reorder: it comes from an untrusted file.
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
