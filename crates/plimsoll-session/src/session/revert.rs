//! Records reverts of files.

use plimsoll::{MessageId, PartId};

use super::Session;
use crate::changes::{FileChange, RevertRecord};
use crate::error::SessionError;

/// Records a revert: first the content that it replaces, then a notice that the model reads before the next prompt,
/// then the outcome. Each is stored when its call returns, so that a process that dies in between leaves a revert that
/// can be repeated.
#[derive(Debug)]
#[must_use = "a revert is announced before files are changed"]
pub struct RevertRecorder<'s> {
    session: &'s mut Session,
    message: MessageId,
    part: PartId,
}

impl<'s> RevertRecorder<'s> {
    pub(super) async fn begin(session: &'s mut Session) -> Result<RevertRecorder<'s>, SessionError> {
        let (message, part) = session.run(|driver| Ok(driver.name_revert())).await?;
        Ok(RevertRecorder { session, message, part })
    }

    /// Returns the id of the notice.
    pub fn message(&self) -> &MessageId {
        &self.message
    }

    /// Stores the content of a file that the revert is about to replace.
    pub async fn keep(&self, change: &FileChange, content: Option<Vec<u8>>) -> Result<(), SessionError> {
        let (part, change) = (self.part.clone(), change.clone());
        self.session.run(move |driver| driver.keep_for_revert(&part, &change, content.as_deref())).await
    }

    /// Appends the notice. Files may be changed once this has returned.
    pub async fn announce(&self, text: &str, record: RevertRecord) -> Result<(), SessionError> {
        let (ids, text) = ((self.message.clone(), self.part.clone()), text.to_owned());
        self.session.run(move |driver| driver.begin_revert(ids, &text, &record)).await
    }

    /// Records that the revert is done, and adds its outcome to the notice.
    pub async fn complete(self, outcome: &str) -> Result<(), SessionError> {
        let (part, outcome) = (self.part, outcome.to_owned());
        self.session.run(move |driver| driver.end_revert(&part, &outcome)).await
    }
}
