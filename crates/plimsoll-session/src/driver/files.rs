//! Recording changes of files, before they are made.

use plimsoll::{Message, MessageId, Part, PartBody, PartId};
use plimsoll_store::Keeping;
use serde_json::{Value, json};

use super::Driver;
use crate::changes::{FileChange, RevertRecord, own_field};
use crate::error::SessionError;

impl Driver {
    /// Keep what a file holds and record how it is about to change, in the part of a call. When this returns both are
    /// stored, and the file may be changed. `content` is what it holds, if it is there.
    pub fn keep_file(
        &mut self,
        call: &PartId,
        change: &FileChange,
        content: Option<&[u8]>,
    ) -> Result<(), SessionError> {
        let tool = self.log.part(call)?.as_tool().map(|tool| tool.tool.clone());
        let tool = tool.ok_or_else(|| SessionError::NotACall(call.clone()))?;
        self.keep_content(call, &tool, change, content)?;
        let record = json!(change);
        self.note_call(call, "files", |files| match files {
            Value::Array(files) => files.push(record),
            other => *other = Value::Array(vec![record]),
        })
    }

    fn keep_content(
        &mut self,
        part: &PartId,
        tool: &str,
        change: &FileChange,
        content: Option<&[u8]>,
    ) -> Result<(), SessionError> {
        let keeping = Keeping {
            handle: change.handle(part),
            part: part.clone(),
            tool: tool.to_owned(),
            shown: format!("`{}` as it was before", change.path),
        };
        // Also where there was no file: the handle is what tells a record from a claim.
        let absent = format!("`{}` was not there.\n", change.path);
        let mut content = content.unwrap_or(absent.as_bytes());
        let (now, archive) = (self.now(), std::sync::Arc::clone(&self.archive));
        self.keep_lease()?;
        Ok(archive.keep(&self.lease.claim(), keeping, &mut content, now)?)
    }

    /// Record that a call has shown the model a file with content of this hash.
    pub fn note_seen(&mut self, call: &PartId, path: &str, hash: &str) -> Result<(), SessionError> {
        let (path, hash) = (path.to_owned(), Value::from(hash));
        self.note_call(call, "seen", |seen| match seen {
            Value::Object(seen) => drop(seen.insert(path, hash)),
            other => *other = json!({ path: hash }),
        })
    }

    fn note_call(
        &mut self,
        call: &PartId,
        field: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<(), SessionError> {
        self.advance_call(call, |state| change(own_field(&mut state.extra, field)))
    }

    /// The name of the part that will tell of a revert, so that content can be kept for it before it is there.
    pub fn name_revert(&mut self) -> (MessageId, PartId) {
        let now = self.now();
        (self.ids.message(now), self.ids.part(now))
    }

    /// Keep what a file holds before a revert changes it.
    pub fn keep_for_revert(
        &mut self,
        part: &PartId,
        change: &FileChange,
        content: Option<&[u8]>,
    ) -> Result<(), SessionError> {
        self.keep_content(part, "revert", change, content)
    }

    /// Record that files are about to be put back, in words that the model reads before the next prompt.
    pub fn begin_revert(
        &mut self,
        (message, part): (MessageId, PartId),
        text: &str,
        record: &RevertRecord,
    ) -> Result<(), SessionError> {
        let mut notice = Message::notice(message, part, text).at(self.now());
        for part in &mut notice.parts {
            *own_field(&mut part.extra, "revert") = json!(record);
        }
        self.append(notice).map(drop)
    }

    /// Record what came of it; `more` is added to the words.
    pub fn end_revert(&mut self, part: &PartId, more: &str) -> Result<(), SessionError> {
        let mut part: Part = self.log.part(part)?.clone();
        if let PartBody::Text(said) = &mut part.body {
            said.text.push_str(more);
        }
        if let Value::Object(record) = own_field(&mut part.extra, "revert") {
            record.insert("isDone".into(), Value::Bool(true));
        }
        self.advance(part)
    }
}
