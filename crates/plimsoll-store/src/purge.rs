//! Destroying content in records, and the placeholder that remains.

use std::collections::BTreeSet;

use plimsoll::log::{Mark, Shared};
use plimsoll::plan::ShedPlan;
use plimsoll::prune::PrunePlan;
use plimsoll::{Message, MessageId, Part, PartId, Plan, Receipt, Text};
use regex::Regex;
use serde_json::Value;

use crate::error::StoreError;
use crate::store::PurgeTarget;

/// Replaces destroyed content.
pub(crate) const TOMBSTONE: &str = "[purged]";

/// Fields of the structure of a log: names, kinds and states. They are not content and are not destroyed.
const STRUCTURE: [&str; 26] = [
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
    "finish",
    "promptID",
    "tail_start_id",
];

/// Fields below which tools and hosts may put anything.
const FREE: [&str; 4] = ["input", "metadata", "attachments", "args"];

/// Destroyed content, by its location. Pins and contracts of summaries may quote it elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quoted {
    pub(crate) parts: BTreeSet<PartId>,
    pub(crate) messages: BTreeSet<MessageId>,
}

/// Destroys content in records.
pub(crate) struct Scrubber {
    /// Pattern to destroy; `None` destroys everything.
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

    /// Counts the places that would be destroyed.
    pub(crate) fn count(&self, text: &str) -> u64 {
        // Replacing blank text would turn an empty summary, which is ignored, into a valid one.
        if text.trim().is_empty() {
            return 0;
        }
        match &self.pattern {
            Some(pattern) => pattern.find_iter(text).count() as u64,
            None => u64::from(text != TOMBSTONE),
        }
    }

    /// Destroys content in a text. Returns the number of places.
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

    fn scrub_text(&self, text: &mut Text) -> u64 {
        let mut scrubbed = text.as_str().to_owned();
        let places = self.scrub(&mut scrubbed);
        *text = Text::from(scrubbed);
        places
    }

    /// Destroys content in a part, except in its marks. Returns what remains and the number of places.
    pub(crate) fn scrub_part(&self, part: &Part) -> Result<(Part, u64), StoreError> {
        let mut value = serde_json::to_value(part.clone().without_marks())?;
        let places = self.scrub_value(&mut value);
        let mut scrubbed: Part = serde_json::from_value(value)?;
        scrubbed.id = part.id.clone();
        Ok((scrubbed, places))
    }

    /// Destroys content in a message's metadata. Returns the number of places.
    pub(crate) fn scrub_info(&self, message: &mut Message) -> Result<u64, StoreError> {
        let bare = Message { parts: Shared::default(), ..message.clone() };
        let mut value = serde_json::to_value(bare)?;
        let places = self.scrub_value(&mut value);
        if places > 0 {
            let (id, parts) = (message.info.id.clone(), std::mem::take(&mut message.parts));
            *message = serde_json::from_value(value)?;
            (message.info.id, message.parts) = (id, parts);
        }
        Ok(places)
    }

    /// Destroys content in a mark. Returns the number of places.
    pub(crate) fn scrub_mark(&self, mark: &mut Mark) -> Result<u64, StoreError> {
        let mut value = serde_json::to_value(&*mark)?;
        let places = self.scrub_value(&mut value);
        if places > 0 {
            *mark = serde_json::from_value(value)?;
        }
        Ok(places)
    }

    /// Destroys content in the quotes of a receipt, or only in its quotes `of` some content. Returns the number of
    /// places. The rest of a receipt is ids and figures; destroying those would make it unreadable.
    pub(crate) fn scrub_receipt(&self, receipt: &mut Receipt, of: Option<&Quoted>) -> u64 {
        let mut places = 0;
        if of.is_none() {
            places += self.scrub(&mut receipt.reason);
        }
        let is_wanted = |part: &PartId| of.is_none_or(|of| of.parts.contains(part));
        match &mut receipt.plan {
            Plan::Pin(plan) => {
                for item in plan.items.iter_mut().filter(|item| is_wanted(&item.part)) {
                    places += self.scrub_text(&mut item.text);
                }
            }
            Plan::Prune(PrunePlan { items, .. }) | Plan::Shed(ShedPlan { cleared: items, .. }) => {
                for item in items.iter_mut().filter(|item| is_wanted(&item.part)) {
                    places += self.scrub_text(&mut item.names);
                }
            }
            Plan::Edit(plan) => {
                for item in plan.items.iter_mut().filter(|item| is_wanted(&item.part)) {
                    places += self.scrub_text(&mut item.text);
                }
            }
            Plan::Range(plan) if is_wanted(&plan.host) => places += self.scrub_text(&mut plan.text),
            Plan::Compact(plan) => {
                let is_wanted = |source: &Option<MessageId>| {
                    of.is_none_or(|of| source.as_ref().is_some_and(|id| of.messages.contains(id)))
                };
                for item in plan.contract.iter_mut().filter(|item| is_wanted(&item.source)) {
                    places += self.scrub(&mut item.text);
                }
            }
            _ => {}
        }
        places
    }

    /// Destroys content in all texts of a record that are not structure. Returns the number of places.
    pub(crate) fn scrub_value(&self, value: &mut Value) -> u64 {
        self.scrub_below(value, false)
    }

    /// Below [`FREE`] fields, field names and numbers are content as well.
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
