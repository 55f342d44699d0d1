//! Reverts that a client can still take back.
//!
//! As in OpenCode, a session whose files were reverted keeps its messages until the next prompt: clients hide those after the
//! revert and can show them again. The next prompt removes them from the conversation.

use plimsoll::MessageId;
use plimsoll::edit::{Edit, EditError};
use plimsoll_session::{SessionError, SessionHandle};
use plimsoll_store::Session;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Name of the revert in [`Session::settings`](plimsoll_store::Session::settings).
const SETTING: &str = "revert";

/// A revert that can still be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRevert {
    /// The first message that is hidden.
    #[serde(rename = "messageID")]
    pub message: MessageId,
    /// The notice about restored files; `None` if no file was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<MessageId>,
}

impl PendingRevert {
    /// Returns the revert of a session, if there is one.
    pub fn of(session: &Session) -> Option<PendingRevert> {
        PendingRevert::deserialize(session.settings.get(SETTING)?).ok()
    }

    /// Stores it with the session, in place of an earlier one.
    pub async fn store(self, session: &SessionHandle) -> Result<(), SessionError> {
        session.update_settings(move |settings| drop(settings.insert(SETTING.to_owned(), json!(self)))).await
    }

    /// Forgets the revert of a session: its messages are shown again.
    pub async fn clear(session: &SessionHandle) -> Result<(), SessionError> {
        session.update_settings(|settings| drop(settings.shift_remove(SETTING))).await
    }

    /// Removes the hidden messages of a session from its conversation, because it continues. The log keeps them.
    pub async fn finish(session: &SessionHandle) -> Result<(), SessionError> {
        let Some(revert) = PendingRevert::of(&session.record().await?) else { return Ok(()) };
        match session.edit(&revert.message, Edit::RemoveSince(revert.message.clone())).await {
            // A process that died here has removed them already.
            Ok(_) | Err(SessionError::Edit(EditError::Removed(_) | EditError::Log(_))) => {}
            Err(error) => return Err(error),
        }
        PendingRevert::clear(session).await
    }
}
