//! What is destroyed of a record, and what is left in its place.

use regex::Regex;
use serde_json::Value;

use crate::error::StoreError;
use crate::store::PurgeTarget;

/// Stands where content was destroyed.
pub(crate) const TOMBSTONE: &str = "[purged]";

/// Fields that hold the log together: names, kinds and states. They are not content and stay.
const STRUCTURE: [&str; 23] = [
    "id",
    "type",
    "role",
    "tool",
    "status",
    "callID",
    "callId",
    "call_id",
    "messageID",
    "messageId",
    "sessionID",
    "sessionId",
    "parentID",
    "parentId",
    "part",
    "receipt",
    "undoes",
    "by",
    "effect",
    "after",
    "first",
    "last",
    "marker",
];

/// Below these anything may stand.
const FREE: [&str; 4] = ["input", "metadata", "attachments", "args"];

/// Destroys content in records.
pub(crate) struct Scrubber {
    /// What is destroyed; everything without it.
    pattern: Option<Regex>,
}

impl Scrubber {
    pub(crate) fn new(target: &PurgeTarget) -> Result<Scrubber, StoreError> {
        let PurgeTarget::Match(pattern) = target else { return Ok(Scrubber { pattern: None }) };
        let refused = |why: String| StoreError::Refused(format!("invalid pattern `{pattern}`: {why}"));
        let compiled = Regex::new(pattern).map_err(|error| refused(error.to_string()))?;
        if compiled.is_match("") {
            return Err(refused("it matches everything; `--part` destroys all of a part".to_owned()));
        }
        Ok(Scrubber { pattern: Some(compiled) })
    }

    /// In how many places there is something to be destroyed.
    pub(crate) fn count(&self, text: &str) -> u64 {
        match &self.pattern {
            Some(pattern) => pattern.find_iter(text).count() as u64,
            None => u64::from(!text.is_empty() && text != TOMBSTONE),
        }
    }

    /// Destroy it; gives in how many places.
    pub(crate) fn scrub(&self, text: &mut String) -> u64 {
        let count = self.count(text);
        if count > 0 {
            *text = match &self.pattern {
                Some(pattern) => pattern.replace_all(text, TOMBSTONE).into_owned(),
                None => TOMBSTONE.to_owned(),
            };
        }
        count
    }

    /// Destroy it in all texts of a record that are content; gives in how many places.
    pub(crate) fn scrub_value(&self, value: &mut Value) -> u64 {
        self.scrub_below(value, false)
    }

    /// Where a tool or a host was free to write what it liked, names of fields and numbers are content as well.
    fn scrub_below(&self, value: &mut Value, is_free: bool) -> u64 {
        match value {
            Value::String(text) => self.scrub(text),
            Value::Number(number) if is_free => {
                let count = self.count(&number.to_string());
                if count > 0 {
                    *value = Value::String(TOMBSTONE.to_owned());
                }
                count
            }
            Value::Array(items) => items.iter_mut().map(|item| self.scrub_below(item, is_free)).sum(),
            Value::Object(fields) => {
                let mut count = 0;
                for (name, value) in fields.iter_mut() {
                    if is_free || !STRUCTURE.contains(&name.as_str()) || !value.is_string() {
                        count += self.scrub_below(value, is_free || FREE.contains(&name.as_str()));
                    }
                }
                if is_free && fields.keys().any(|name| self.count(name) > 0) {
                    let scrubbed = std::mem::take(fields).into_iter().map(|(mut name, value)| {
                        count += self.scrub(&mut name);
                        (name, value)
                    });
                    *fields = scrubbed.collect();
                }
                count
            }
            _ => 0,
        }
    }
}
