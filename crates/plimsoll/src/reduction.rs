//! A reduction that was planned on a snapshot and is committed onto the log.
//!
//! A climb may call a model, which takes long, and the log keeps growing meanwhile. So a climb works on a copy, and
//! its result is committed in one step onto the current log. It hides nothing that was added in between:
//! a summary replaces only what it was made from.

use crate::log::{Log, LogError, Message, MessageId, PartBody, Role};
use crate::plan::Plan;
use crate::receipt::Receipt;

/// The result of a climb.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reduction {
    /// Messages to append: markers, summaries, the request to continue.
    pub appended: Vec<Message>,
    /// The receipts; their plans determine the marks.
    pub receipts: Vec<Receipt>,
    /// The newest message of the snapshot; `None` if it was planned on the log itself.
    pub seen: Option<MessageId>,
    /// Messages of the snapshot that can still change: answers being written, calls without a result.
    pub open: Vec<Message>,
}

impl Reduction {
    /// Returns whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.receipts.is_empty() && self.appended.is_empty()
    }

    /// Applies the reduction atomically to the log that it was planned on, or to a later state of that log.
    ///
    /// ```
    /// use plimsoll::{Log, Message, Reduction};
    /// let mut log = Log::new();
    /// Reduction::default().commit(&mut log)?;
    /// # Ok::<(), plimsoll::LogError>(())
    /// ```
    pub fn commit(&self, log: &mut Log) -> Result<(), LogError> {
        let effects = || self.receipts.iter().flat_map(|receipt| receipt.plan.effects());
        effects().try_for_each(|(part, _)| self.has_part(log, part))?;
        let missed = self.missed(log)?;
        let appended = self.appended_before(missed.map(|place| &log[place].info.id), |id| log.place(id).ok());
        appended.iter().try_for_each(|message| log.check_new(message))?;
        appended.into_iter().try_for_each(|message| log.append(message))?;
        for receipt in &self.receipts {
            receipt.plan.mark(log, &receipt.id, receipt.at)?;
        }
        Ok(())
    }

    /// Removes the request to continue if the log has grown since the snapshot. It would otherwise come
    /// after newer messages and be taken for the newest prompt.
    pub fn without_stale_continuation(mut self, log: &Log) -> Result<Reduction, LogError> {
        if self.missed(log)?.is_none() {
            return Ok(self);
        }
        self.appended.retain(|message| !message.is_continue());
        for receipt in &mut self.receipts {
            if let Plan::Compact(plan) = &mut receipt.plan {
                plan.continuation = None;
            }
        }
        Ok(self)
    }

    fn has_part(&self, log: &Log, part: &crate::PartId) -> Result<(), LogError> {
        let ours = self.appended.iter().flat_map(|message| &message.parts).any(|known| known.id == *part);
        if ours { Ok(()) } else { log.part(part).map(|_| ()) }
    }

    /// Returns the first message that the snapshot did not have, or not completely.
    fn missed(&self, log: &Log) -> Result<Option<usize>, LogError> {
        let seen = self.seen.as_ref().map(|seen| log.place(seen)).transpose()?;
        // Without a snapshot, it was planned on the log itself.
        let next = seen.map_or(log.len(), |seen| seen + 1);
        let is_conversation = |message: &Message| message.info.role != Some(Role::System);
        let new = (next..log.len()).find(|place| is_conversation(&log[*place]));
        let mut grown = None;
        for message in &self.open {
            let place = log.place(&message.info.id)?;
            if !same_content(message, &log[place]) {
                grown = Some(grown.map_or(place, |earlier: usize| earlier.min(place)));
            }
        }
        Ok(new.into_iter().chain(grown).min())
    }

    /// Returns the messages to append to a log in which `missed` is the first message that the snapshot did not have completely:
    /// the tail of a summary that would hide it begins with it. `place` returns the place of a message.
    pub fn appended_before<P: Ord>(
        &self,
        missed: Option<&MessageId>,
        place: impl Fn(&MessageId) -> Option<P>,
    ) -> Vec<Message> {
        let mut appended = self.appended.clone();
        let Some(missed) = missed else { return appended };
        for part in appended.iter_mut().flat_map(|message| &mut message.parts) {
            if let PartBody::Compaction(marker) = &mut part.body {
                let shown = marker.tail_start.as_ref().and_then(&place);
                if shown.is_none() || shown > place(missed) {
                    marker.tail_start = Some(missed.clone());
                }
            }
        }
        appended
    }
}

/// Returns whether two states of a message have the same content, apart from marks.
pub fn same_content(one: &Message, other: &Message) -> bool {
    one.info == other.info
        && one.parts.len() == other.parts.len()
        && one.parts.iter().zip(&other.parts).all(|(one, other)| {
            let bare = |part: &crate::Part| part.clone().without_marks();
            one == other || bare(one) == bare(other)
        })
}
