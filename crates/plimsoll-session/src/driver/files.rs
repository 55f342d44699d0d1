//! Recording changes of files, before they are made.

use std::sync::Arc;

use plimsoll::PartId;
#[cfg(feature = "async")]
use plimsoll::{Message, MessageId, Part, PartBody};
use plimsoll_store::KeptFile;
#[cfg(feature = "async")]
use serde_json::{Value, json};

use super::Driver;
use crate::changes::FileChange;
#[cfg(feature = "async")]
use crate::changes::{RevertRecord, own_field};
use crate::error::SessionError;

impl Driver {
    pub(super) fn keep_content(
        &mut self,
        part: &PartId,
        tool: &str,
        change: &FileChange,
        content: Option<&[u8]>,
    ) -> Result<(), SessionError> {
        let file = KeptFile {
            handle: change.handle(part),
            part: part.clone(),
            tool: tool.to_owned(),
            shown: format!("`{}` before the change", change.path),
        };
        // Something is stored even if there is no file: the handle proves that this archive made the record.
        let absent = format!("`{}` was not there.\n", change.path);
        let mut content = content.unwrap_or(absent.as_bytes());
        let (now, archive) = (self.now(), Arc::clone(&self.archive));
        self.keep_lease()?;
        Ok(archive.keep_file(&self.lease.claim(), file, &mut content, now)?)
    }
}

#[cfg(feature = "async")]
impl Driver {
    /// Ids of the notice of a revert, so that content can be stored for it before it is appended.
    pub(crate) fn name_revert(&mut self) -> (MessageId, PartId) {
        let now = self.now();
        (self.ids.message(now), self.ids.part(now))
    }

    pub(crate) fn keep_for_revert(
        &mut self,
        part: &PartId,
        change: &FileChange,
        content: Option<&[u8]>,
    ) -> Result<(), SessionError> {
        self.keep_content(part, "revert", change, content)
    }

    pub(crate) fn begin_revert(
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

    pub(crate) fn end_revert(&mut self, part: &PartId, more: &str) -> Result<(), SessionError> {
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
