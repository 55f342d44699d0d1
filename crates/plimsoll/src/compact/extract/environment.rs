//! The section with the environment: directory, branch, addresses, variables, versions.

use super::room::Written;
use crate::chars::Chars;
use crate::facts::Facts;
use crate::prose::shorten;

/// A property of the environment and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Property {
    label: &'static str,
    values: Vec<String>,
}

/// Labels in the order in which they are shown.
const LABELS: [&str; 5] = ["Directory", "Branch", "Addresses", "Variables", "Versions"];
/// Number of leading labels that have a single value, the newest.
const SINGLE: usize = 2;
/// Maximum number of values of one property.
const MOST: usize = 8;

/// Merges the environment of this history with that of an earlier summary.
pub(super) fn merge(earlier: &[String], facts: &Facts) -> Vec<Property> {
    let environment = &facts.environment;
    let found: [Vec<String>; 5] = [
        environment.directory.iter().cloned().collect(),
        environment.branch.iter().cloned().collect(),
        facts.addresses.clone(),
        environment.variables.clone(),
        environment.versions.clone(),
    ];
    let name = |value: &str| value.split(['=', ' ']).next().unwrap_or_default().to_owned();
    let merged = LABELS.iter().zip(found).enumerate().map(|(place, (label, newer))| {
        let older = earlier.iter().find_map(|line| line.strip_prefix(label)?.strip_prefix(": "));
        let older = older
            .into_iter()
            .flat_map(|values| values.split(", "))
            .map(|value| value.trim_matches('`').to_owned());
        let is_newer = |value: &String| newer.iter().any(|known| name(known) == name(value));
        let keeps_older = place >= SINGLE || newer.is_empty();
        let older: Vec<String> = older.filter(|value| keeps_older && !is_newer(value)).collect();
        Property { label, values: older.into_iter().chain(newer).collect() }
    });
    merged.filter(|property| !property.values.is_empty()).collect()
}

/// Writes a line for each property with its newest values.
pub(super) fn write(properties: &[Property], room: Chars) -> Written {
    let mut out = String::new();
    let mut complete = true;
    for Property { label, values } in properties {
        let newest: Vec<String> =
            values.iter().skip(values.len().saturating_sub(MOST)).map(|value| format!("`{value}`")).collect();
        let line = format!("- {label}: {}", newest.join(", "));
        let left = room.saturating_sub(Chars::of(&out) + Chars(1));
        // A cut value would be wrong: only the newest value is shown, or none.
        if Chars::of(&line) > left {
            complete = false;
            let newest = format!("- {label}: {}", newest.last().map(String::as_str).unwrap_or_default());
            if Chars::of(&newest) > left {
                continue;
            }
            out.push_str(if out.is_empty() { "" } else { "\n" });
            out.push_str(&newest);
            continue;
        }
        out.push_str(if out.is_empty() { "" } else { "\n" });
        out.push_str(&shorten(&line, left));
    }
    Written { text: out, complete }
}
