//! Edits: text that the user changed or removed in the conversation.
//!
//! An edit is a mark on a part, like every reduction: the log keeps the original, recall finds it, and undoing the
//! receipt brings it back. Unlike the marks of other reductions, an edit is part of the conversation that the user
//! sees, so hosts show edited text instead of the original ([`Part::edited`]). A tool call and its result are removed
//! together: providers reject one without the other.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::chars::Text;
use crate::log::{Ids, Log, LogError, Message, MessageId, Millis, Part, PartBody, PartId};
use crate::pairs::{Place, separate_pairs};
use crate::plan::{EditItem, EditPlan, Plan};
use crate::policy::Policy;
use crate::receipt::{Receipt, Stamp};
use crate::tokens::Tokens;

/// A requested edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Shows this text instead of that of a part.
    Text(PartId, Text),
    /// Removes a part, and the other half of a tool call.
    RemovePart(PartId),
    /// Removes all parts of a message.
    RemoveMessage(MessageId),
    /// Removes a message and all that follow, except notices, compactions and what is still being written.
    RemoveSince(MessageId),
}

/// Reason why something cannot be edited.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EditError {
    /// The message or part does not exist.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The new text is empty.
    #[error("the new text of part `{0}` is empty; remove the part instead")]
    Empty(PartId),
    /// The part has no text that can be changed.
    #[error("part `{0}` is not a text; only texts can be changed")]
    NotText(PartId),
    /// The part or message was already removed.
    #[error("`{0}` was already removed")]
    Removed(String),
    /// The part already has this text.
    #[error("part `{0}` already has this text")]
    Unchanged(PartId),
    /// A summary is kept consistent with what it replaces.
    #[error("`{0}` belongs to a compaction; undo its receipt instead")]
    Summary(String),
    /// The message is still being written.
    #[error("message `{0}` is still being written")]
    Open(MessageId),
}

/// Plans an edit.
pub fn plan(log: &Log, edit: &Edit) -> Result<EditPlan, EditError> {
    match edit {
        Edit::Text(id, text) => {
            let (message, part) = find(log, id)?;
            changeable(message, part)?;
            let PartBody::Text(said) = &part.body else { return Err(EditError::NotText(id.clone())) };
            if text.trim().is_empty() {
                return Err(EditError::Empty(id.clone()));
            }
            if part.edited().unwrap_or(&said.text) == text {
                return Err(EditError::Unchanged(id.clone()));
            }
            Ok(EditPlan { items: vec![item(message, part, text.clone())] })
        }
        Edit::RemovePart(id) => {
            let (message, part) = find(log, id)?;
            changeable(message, part)?;
            Ok(removal(log, &BTreeSet::from([id])))
        }
        Edit::RemoveMessage(id) => {
            let message = &log[log.place(id)?];
            if message.is_open() {
                return Err(EditError::Open(id.clone()));
            }
            let parts: Vec<&Part> = message.parts.iter().filter(|part| !part.is_removed()).collect();
            if parts.is_empty() {
                return Err(EditError::Removed(id.to_string()));
            }
            parts.iter().try_for_each(|part| changeable(message, part))?;
            Ok(removal(log, &parts.into_iter().map(|part| &part.id).collect()))
        }
        Edit::RemoveSince(id) => {
            let messages = log[log.place(id)?..].iter().filter(|message| !message.is_notice());
            let parts = messages.flat_map(|message| {
                message.parts.iter().filter(|part| changeable(message, part).is_ok()).map(|part| &part.id)
            });
            let parts: BTreeSet<&PartId> = parts.collect();
            if parts.is_empty() {
                return Err(EditError::Removed(id.to_string()));
            }
            Ok(removal(log, &parts))
        }
    }
}

fn find<'l>(log: &'l Log, id: &PartId) -> Result<(&'l Message, &'l Part), EditError> {
    let part = log.part(id)?;
    let holds = |message: &&Message| message.parts.iter().any(|part| part.id == *id);
    let missing = || LogError::Missing { kind: "part", id: id.to_string() };
    Ok((log.iter().find(holds).ok_or_else(missing)?, part))
}

fn changeable(message: &Message, part: &Part) -> Result<(), EditError> {
    if part.is_removed() {
        return Err(EditError::Removed(part.id.to_string()));
    }
    if message.is_open() {
        return Err(EditError::Open(message.info.id.clone()));
    }
    // The summary of a range is shown in one of its parts, and the others are empty.
    let is_summarised = part.replaced().is_some() && !part.is_edited();
    if message.info.summary || message.marker().is_some() || is_summarised {
        return Err(EditError::Summary(part.id.to_string()));
    }
    Ok(())
}

fn item(message: &Message, part: &Part, text: Text) -> EditItem {
    let unpins = text.is_empty() && part.pins().next().is_some();
    EditItem { part: part.id.clone(), message: message.info.id.clone(), text, unpins }
}

/// Plans the removal of parts, with the other halves of their calls.
fn removal(log: &Log, wanted: &BTreeSet<&PartId>) -> EditPlan {
    let messages = log.messages();
    let pairs = separate_pairs(messages, &(0..messages.len()).collect::<Vec<_>>());
    let calls: BTreeMap<Place, Place> = pairs.iter().map(|(call, result)| (*result, *call)).collect();
    let mut places: BTreeSet<Place> = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        let parts = message.parts.iter().enumerate().filter(|(_, part)| wanted.contains(&part.id));
        for (index, _) in parts {
            let other = pairs.get(&(at, index)).or_else(|| calls.get(&(at, index)));
            places.extend(std::iter::once((at, index)).chain(other.copied()));
        }
    }
    let parts = places.into_iter().map(|(at, index)| (&messages[at], &messages[at].parts[index]));
    let items = parts
        .filter(|(_, part)| !part.is_removed())
        .map(|(message, part)| item(message, part, Text::default()));
    EditPlan { items: items.collect() }
}

impl EditPlan {
    /// Applies the plan and returns the receipt; `weigh` returns the tokens of the next request.
    pub fn apply(
        self,
        log: &mut Log,
        ids: &mut Ids,
        now: Millis,
        policy: &Policy,
        weigh: impl Fn(&Log) -> Tokens,
    ) -> Result<Receipt, LogError> {
        let before = weigh(log);
        let stamp = Stamp { ids, now, policy, reason: "the user edited the conversation" };
        let mut receipt = stamp.receipt(Plan::Edit(self), before, before);
        receipt.plan.mark(log, &receipt.id, now)?;
        receipt.after = weigh(log);
        Ok(receipt)
    }
}
