//! Content of a single layer.

use std::collections::BTreeMap;

use plimsoll::PolicyError;
use plimsoll::policy::Overrides;
use plimsoll_sandbox::Origin;

use crate::error::ConfigError;
use crate::run::RunLayer;
use crate::store::StoreLayer;

/// Content of a single layer.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    /// Name of the policy, if the layer is a named policy; `None` for single settings.
    pub(crate) chosen: Option<String>,
    pub(crate) overrides: Overrides,
    pub(crate) context: Option<u64>,
    pub(crate) store: StoreLayer,
    pub(crate) run: RunLayer,
    pub(crate) origins: BTreeMap<String, Origin>,
}

/// Converts a policy error, adding the location of the invalid value.
pub(crate) fn placed(error: &PolicyError, origins: &BTreeMap<String, Origin>) -> ConfigError {
    let origin = match error {
        PolicyError::Field { field, .. } => origins.get(field).filter(|origin| **origin != Origin::BuiltIn),
        _ => None,
    };
    let mut problem = error.to_string();
    // Replaces serde's terms.
    for (theirs, ours) in [
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("unknown variant", "unknown choice"),
        ("invalid type: ", "found "),
        ("invalid value: ", "found "),
    ] {
        problem = problem.replace(theirs, ours);
    }
    if let Some(end) = problem.find("expected struct ") {
        problem.truncate(end);
        problem.push_str("expected a section with fields");
    }
    ConfigError::Policy { origin: origin.cloned(), problem }
}
