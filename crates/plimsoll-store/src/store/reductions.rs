//! What left the window, and how it comes back.

use plimsoll::{MessageId, Millis, Receipt, ReceiptId, Reduction, SessionId, Tokens};

use super::session::CompactionRecord;
use super::{Claim, Revision};
use crate::error::StoreError;

/// Reductions, their receipts, and undoing them. Methods block; see the [module](super).
pub trait Reductions {
    /// Record what a climb of the ladder did to a window: the messages it appended, the marks it set, its
    /// receipts; all or nothing. It is refused as [`Stale`](StoreError::Stale) if another reduction, undoing, pin or
    /// purge was committed after the revision it was planned on; messages that came since are no reason. One whose
    /// receipts are there already is the same again, and changes nothing.
    fn reduce(
        &self,
        claim: &Claim,
        reduction: Reduction,
        planned_on: Option<Revision>,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// The receipts of a session, oldest first: those after one, no more than `most`.
    fn receipts(
        &self,
        session: &SessionId,
        after: Option<&ReceiptId>,
        most: u64,
    ) -> Result<Vec<Receipt>, StoreError>;

    /// The newest receipts of a session, the newest first, no more than `most`.
    fn newest_receipts(&self, session: &SessionId, most: u64) -> Result<Vec<Receipt>, StoreError>;

    /// One receipt, and its session.
    fn receipt(&self, id: &ReceiptId) -> Result<(SessionId, Receipt), StoreError>;

    /// Ids of receipts that begin with a prefix, of all sessions, at most `most`.
    fn receipts_like(&self, prefix: &str, most: usize) -> Result<Vec<ReceiptId>, StoreError>;

    /// Undo a reduction of the claimed session; gives the receipt of that.
    fn undo(&self, claim: &Claim, id: &ReceiptId, now: Millis) -> Result<Receipt, StoreError>;

    /// Correct what a receipt of the claimed session says the window weighed before and after. An undoing is recorded with
    /// the sizes of what it undoes, the other way round; those of the window are known only once it is done.
    fn resize_receipt(
        &self,
        claim: &Claim,
        id: &ReceiptId,
        before: Tokens,
        after: Tokens,
    ) -> Result<(), StoreError>;

    /// The compactions of a session, oldest first: those after the one with a marker, no more than `most`.
    fn compactions(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: u64,
    ) -> Result<Vec<CompactionRecord>, StoreError>;
}
