//! Size of a window after its last reduction, for a driver that was opened since.
//!
//! A reduction makes the newest usage stale, and figures for users stay on its scale until the next answer. That scale
//! is not stored: it belongs to a counter that has learned from answers, and a new driver's counter has learned
//! nothing. What the receipt says the window weighed afterwards is stored, and is a scale together with the new
//! counter's estimate of the same window. Marks could be taken back in the log instead, which the engine does for hosts
//! without receipts ([`Load::before_reductions`]); messages that a summary replaces are not loaded, so that this would
//! not help after a compaction.

use plimsoll::compact::CompactionContext;
use plimsoll::{Load, Log, Message, MessageId, Plan, Receipt, Scale, SessionId, Tokens, UsageTrust};
use plimsoll_store::Archive;
use plimsoll_tokens::records_usage;

use crate::settings::Settings;

/// Size of the window after the last reduction.
#[derive(Clone, Debug)]
pub(crate) struct Reduced {
    /// The newest message at the time.
    newest: MessageId,
    tokens: Tokens,
}

impl Reduced {
    /// Returns the last reduction of a session, if it made the usage of the newest answer stale and that usage is this
    /// model's.
    pub(crate) fn of(
        archive: &Archive,
        session: &SessionId,
        settings: &Settings,
        log: &Log,
    ) -> Option<Reduced> {
        let counted = |message: &&Message| {
            records_usage(message) && message.info.error.is_none() && !message.info.summary
        };
        let answer = log.iter().rev().find(counted)?;
        let is_own = settings.believed == UsageTrust::Any || answer.is_asked_here();
        let is_same_model = answer.info.model_id.as_ref().is_none_or(|model| *model == settings.model.name);
        if !(is_own && is_same_model) {
            return None;
        }
        // Without them figures are estimates. The session is opened all the same.
        let receipts = archive.store().newest_receipts(session, 2).ok()?;
        let last = receipts.first().filter(|receipt| weighs_window(receipt))?;
        // The receipt of an undoing has the sizes of what it undoes, the other way round. They are those of the window
        // only if nothing was reduced in between.
        let undoes_the_last =
            last.undoes.is_none() || last.undoes.as_ref() == receipts.get(1).map(|undone| &undone.id);
        let answered = answer.info.time.as_ref().and_then(|time| time.completed.or(time.created));
        let is_newer = answered.is_some_and(|answered| last.at >= answered);
        let was_there = |message: &&Message| {
            message.info.time.as_ref().and_then(|time| time.created).is_none_or(|created| created <= last.at)
        };
        let newest = log.iter().rev().find(was_there)?.info.id.clone();
        (undoes_the_last && is_newer).then_some(Reduced { newest, tokens: last.after })
    }

    /// Returns the scale on which the window weighed that much then.
    pub(crate) fn scale(&self, context: &CompactionContext, log: &Log) -> Scale {
        let messages = log.messages();
        let count =
            messages.iter().rposition(|message| message.info.id == self.newest).map_or(0, |at| at + 1);
        let estimate = context.estimate(&messages[..count]);
        context.scale(
            &Load { tokens: self.tokens, estimate, usage_of: Some(self.newest.clone()), least: Tokens::ZERO },
            messages,
        )
    }
}

/// Whether the sizes of a receipt are those of the whole window.
fn weighs_window(receipt: &Receipt) -> bool {
    match receipt.plan {
        Plan::Prune(_) | Plan::Compact(_) | Plan::Range(_) | Plan::Shed(_) | Plan::Pin(_) | Plan::Edit(_) => {
            true
        }
        // `Truncate`, `Fork` and `Purge`: their sizes are of an output, a digest, and nothing.
        _ => false,
    }
}
