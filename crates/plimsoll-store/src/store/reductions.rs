//! Reductions of the window, and undoing them.

use plimsoll::{MessageId, Millis, Receipt, ReceiptId, Reduction, SessionId, Tokens};

use super::session::CompactionRecord;
use super::{Claim, Revision};
use crate::error::StoreError;

/// Reductions, their receipts, and undoing them. Methods block; see [`Store`](super::Store).
pub trait Reductions {
    /// Records the result of a climb of the ladder: appended messages, marks and receipts, all or nothing. Returns
    /// [`Stale`](StoreError::Stale) if another reduction, undo, pin or purge was committed after the revision it was
    /// planned on; messages that arrived since do not matter. Repeating it, recognised by its receipts, changes
    /// nothing.
    fn reduce(
        &self,
        claim: &Claim,
        reduction: Reduction,
        planned_on: Option<Revision>,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// Receipts of a session, oldest first, after `after`, at most `most`.
    fn receipts(
        &self,
        session: &SessionId,
        after: Option<&ReceiptId>,
        most: u64,
    ) -> Result<Vec<Receipt>, StoreError>;

    /// Receipts of a session, newest first, at most `most`.
    fn newest_receipts(&self, session: &SessionId, most: u64) -> Result<Vec<Receipt>, StoreError>;

    /// Returns a receipt and its session.
    fn receipt(&self, id: &ReceiptId) -> Result<(SessionId, Receipt), StoreError>;

    /// Ids of receipts that start with a prefix, of all sessions, at most `most`.
    fn receipts_like(&self, prefix: &str, most: usize) -> Result<Vec<ReceiptId>, StoreError>;

    /// Undoes a reduction of the claimed session. Returns the receipt of the undo.
    fn undo(&self, claim: &Claim, id: &ReceiptId, now: Millis) -> Result<Receipt, StoreError>;

    /// Corrects the window sizes before and after in a receipt of the claimed session. An undo is first recorded with
    /// the swapped sizes of the reduction, because the sizes of the window are known only afterwards.
    fn resize_receipt(
        &self,
        claim: &Claim,
        id: &ReceiptId,
        before: Tokens,
        after: Tokens,
    ) -> Result<(), StoreError>;

    /// Compactions of a session, oldest first, after the one with marker `after`, at most `most`.
    fn compactions(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: u64,
    ) -> Result<Vec<CompactionRecord>, StoreError>;
}
