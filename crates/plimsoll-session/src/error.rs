//! Why an operation on a session failed.

use plimsoll::LogError;
use plimsoll::edit::EditError;
use plimsoll::fork::NoRoom;
use plimsoll::pin::PinError;
use plimsoll_store::StoreError;
use thiserror::Error;

/// Why an operation on a session failed. The session is unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The store rejected a write, or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log rejected a change.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Something cannot be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// Something cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A child's window has no room for any digest of its parent.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// Operations came in an order that the types cannot rule out, such as the input of a call before the call.
    #[error("{0}")]
    OutOfOrder(&'static str),
    /// The part is not a tool call.
    #[error("part `{0}` is not a tool call")]
    NotACall(plimsoll::PartId),
    /// The part is out of view, and its message must be named instead.
    #[error("part `{0}` is out of view; name its message")]
    OutOfView(plimsoll::PartId),
    /// The work was stopped because its caller no longer needs the result.
    #[error("stopped")]
    Stopped,
    /// The output of a tool could not be read to its end.
    #[error("cannot read the output of the tool: {0}")]
    Output(#[source] std::io::Error),
    /// The session was closed.
    #[error("the session is closed")]
    Closed,
    /// No thread could be started for the session.
    #[error("cannot start a thread for the session: {0}")]
    Thread(#[source] std::io::Error),
}
