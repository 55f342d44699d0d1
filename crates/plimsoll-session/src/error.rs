//! Why the driver did not do what it was asked.

use plimsoll::LogError;
use plimsoll::fork::child::NoRoom;
use plimsoll::pin::PinError;
use plimsoll_store::StoreError;
use thiserror::Error;

/// Why the driver did not do what it was asked. Whatever it is, the session is as it was before the call.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log refused a change.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Something cannot be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// A child's window has no room for any digest of its parent.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The host called in an order that makes no sense, such as writing an answer that was not begun.
    #[error("{0}")]
    OutOfOrder(&'static str),
    /// The part is no tool call.
    #[error("part `{0}` is no tool call")]
    NotACall(plimsoll::PartId),
    /// The part is out of view, and its message must be named instead.
    #[error("part `{0}` is out of view; name its message")]
    OutOfView(plimsoll::PartId),
    /// The host stopped what it had asked for.
    #[error("stopped")]
    Stopped,
    /// The output of a tool could not be read to its end.
    #[error("cannot read the output of the tool: {0}")]
    Output(#[source] std::io::Error),
}
