//! Settings that clients store with a session: permission rules, metadata, the time at which it was archived.

use plimsoll_agent::{PERMISSION_SETTING, SessionRule};
use plimsoll_host::PendingRevert;
use plimsoll_store::Session;
use serde::Deserialize;
use serde_json::{Map, Number, Value, json};

use crate::error::{ApiError, ApiResult};

/// Maximum size of the settings of a session, in bytes: every list of sessions has them.
const MAX_BYTES: usize = 64 << 10;

/// Maximum number of permission rules of a session, each of which is compared with every call.
const MAX_RULES: usize = 1_000;

const METADATA: &str = "metadata";
const ARCHIVED: &str = "archived";

/// Changes of the settings of a session, as a request has them.
#[derive(Default, Deserialize)]
pub(crate) struct SettingsPatch {
    metadata: Option<Map<String, Value>>,
    /// Rules that are added to those of the session.
    permission: Option<Vec<SessionRule>>,
    time: Option<Times>,
}

#[derive(Default, Deserialize)]
struct Times {
    archived: Option<Number>,
}

impl SettingsPatch {
    pub(crate) fn is_empty(&self) -> bool {
        let is_archived = self.time.as_ref().is_some_and(|time| time.archived.is_some());
        self.metadata.is_none() && self.permission.as_ref().is_none_or(Vec::is_empty) && !is_archived
    }

    /// Applies the changes, and checks the limits of the result.
    pub(crate) fn apply(self, settings: &mut Map<String, Value>) -> ApiResult<()> {
        if let Some(metadata) = self.metadata {
            settings.insert(METADATA.to_owned(), Value::Object(metadata));
        }
        if let Some(archived) = self.time.and_then(|time| time.archived) {
            settings.insert(ARCHIVED.to_owned(), Value::Number(archived));
        }
        if let Some(rules) = self.permission.filter(|rules| !rules.is_empty()) {
            let known = settings.entry(PERMISSION_SETTING).or_insert_with(|| json!([]));
            if let Some(known) = known.as_array_mut() {
                known.extend(rules.iter().map(|rule| json!(rule)));
                if known.len() > MAX_RULES {
                    let message = format!("a session can have at most {MAX_RULES} permission rules");
                    return Err(ApiError::bad_request("Payload", message));
                }
            }
        }
        if Value::Object(settings.clone()).to_string().len() > MAX_BYTES {
            let message =
                format!("metadata and permission rules of a session can have at most {MAX_BYTES} bytes");
            return Err(ApiError::bad_request("Payload", message));
        }
        Ok(())
    }
}

/// Returns the settings of a fork: the restrictions apply to it too.
pub(crate) fn of_fork(session: &Session) -> Map<String, Value> {
    let rules = session.settings.get_key_value(PERMISSION_SETTING);
    rules.into_iter().map(|(name, rules)| (name.clone(), rules.clone())).collect()
}

/// Adds the settings to a session as clients see it.
pub(crate) fn show(session: &Session, shown: &mut Value) {
    for name in [PERMISSION_SETTING, METADATA] {
        if let Some(value) = session.settings.get(name) {
            shown[name] = value.clone();
        }
    }
    if let Some(archived) = session.settings.get(ARCHIVED) {
        shown["time"]["archived"] = archived.clone();
    }
    if let Some(revert) = PendingRevert::of(session) {
        shown["revert"] = json!({ "messageID": revert.message });
    }
}
