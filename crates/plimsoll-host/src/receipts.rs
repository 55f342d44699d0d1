//! Receipts and pins of stored sessions, and undo.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::log::Effect;
use plimsoll::{Counter, MessageId, PartId, Plan, Receipt, ReceiptId, SessionId, Text, Tokens, pin};
use plimsoll_config::Flags;
use plimsoll_session::SessionError;
use plimsoll_store::{Session, StoreError};
use serde::Serialize;

use crate::config::HostConfig;
use crate::drive::{DriveOptions, StoredSession};
use crate::error::HostError;
use crate::host::Host;
use crate::store::OpenStore;

/// Prefix of receipt ids.
const PREFIX: &str = "rcp_";
/// Minimum length of a shortened id. Shorter ones would only contain a part of the time.
const SHORTEST: usize = PREFIX.len() + 12;
/// Maximum number of receipts that are listed if an id is ambiguous.
const LISTED: usize = 10;
/// Maximum depth of forks of forks.
const MAX_FORKS: usize = 100;

/// Whether a text is a receipt id or prefix.
pub fn is_receipt_id(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// A reduction that was undone.
#[derive(Debug)]
#[non_exhaustive]
pub struct Undone {
    /// The session.
    pub session: Session,
    /// The receipt that was undone.
    pub receipt: Receipt,
    /// The receipt of the undo.
    pub undo: Receipt,
}

/// Text that is pinned.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PinnedText {
    /// The receipt of the pin.
    pub receipt: ReceiptId,
    /// The message.
    pub message: MessageId,
    /// The part.
    pub part: PartId,
    /// Tokens of the text.
    pub tokens: Tokens,
    /// The text.
    pub text: Text,
}

impl Host {
    /// Undoes a reduction: the one with the named receipt, or the newest of a session.
    pub fn undo(&self, what: Option<&str>, force: bool) -> Result<Undone, HostError> {
        let config = self.config(&Flags::default())?;
        let opened = self.open_store(&config)?;
        let (session, receipt) = match what.filter(|what| is_receipt_id(what)) {
            Some(id) => opened.receipt(id)?,
            None => opened.newest_undoable(&opened.session_or_newest(what, self)?)?,
        };
        if matches!(receipt.plan, Plan::Truncate(_)) {
            let handle = plimsoll_store::handles(&receipt).pop().unwrap_or_else(|| "HANDLE".to_owned());
            let message = format!("`{}` truncated an output on arrival and cannot be undone", receipt.id);
            return Err(HostError::negative(message)
                .hint(format!("the full output is stored: `plimsoll recall {handle}`")));
        }
        let session = opened.archive.store().session(&session)?;
        let options = DriveOptions { force, ..DriveOptions::default() };
        let mut driver = opened.drive(&session, &config, options, self)?;
        let undo = match driver.undo(&receipt.id) {
            // Passed on as it is, because it names the receipt of the earlier undo.
            Err(SessionError::Store(error @ StoreError::Undone { .. })) => {
                return Err(HostError::negative(error.to_string()).caused_by(error));
            }
            other => other?,
        };
        driver.close()?;
        Ok(Undone { session, receipt, undo })
    }
}

impl OpenStore {
    /// Finds the receipt with this id or prefix, and its session.
    pub fn receipt(&self, id: &str) -> Result<(SessionId, Receipt), HostError> {
        let store = self.archive.store();
        match store.receipt(&ReceiptId::new(id)) {
            Err(StoreError::Missing { .. }) => {}
            other => return Ok(other?),
        }
        // The common prefix alone would match all receipts.
        let is_known = id.len() > PREFIX.len();
        let mut found = Vec::new();
        for near in store.receipts_like(id, LISTED)?.into_iter().filter(|_| is_known) {
            found.push(store.receipt(&near)?);
        }
        if found.len() > 1 {
            let receipts = found.iter().map(|(_, receipt)| receipt);
            let list: String =
                receipts.map(|receipt| format!("\n  {}  {}", receipt.id, receipt.plan.title())).collect();
            return Err(HostError::usage(format!("receipt id `{id}` is ambiguous:{list}"))
                .hint("pass a longer prefix of the id"));
        }
        found.pop().ok_or_else(|| {
            HostError::usage(format!("unknown receipt `{id}`"))
                .hint("list the receipts of a session with `plimsoll receipts SESSION`")
        })
    }

    /// Returns all receipts of a session, oldest first.
    pub fn receipts(&self, session: &SessionId) -> Result<Vec<Receipt>, StoreError> {
        self.archive.store().receipts(session, None, u64::MAX)
    }

    /// Returns the receipts of a session and, up to the time of the fork, of the sessions it was forked from.
    pub fn receipts_in_view(&self, session: &SessionId) -> Result<Vec<Receipt>, StoreError> {
        let (mut id, mut all, mut until) = (session.clone(), Vec::new(), None);
        // Limited, because a damaged database may contain a cycle.
        for _ in 0..MAX_FORKS {
            let session = self.archive.store().session(&id)?;
            let mut receipts = self.receipts(&id)?;
            receipts.retain(|receipt| until.is_none_or(|until| receipt.at <= until));
            all.splice(0..0, receipts);
            let Some(point) = session.forked_from else { break };
            until = Some(until.map_or(session.created, |until| session.created.min(until)));
            id = point.session;
        }
        Ok(all)
    }

    /// Finds the newest receipt of a session that can still be undone.
    fn newest_undoable(&self, session: &Session) -> Result<(SessionId, Receipt), HostError> {
        let receipts = self.receipts(&session.id)?;
        let is_open = |receipt: &&Receipt| receipt.can_undo() && undone_by(receipt, &receipts).is_none();
        let found = receipts.iter().rev().find(is_open).cloned();
        found.map(|receipt| (session.id.clone(), receipt)).ok_or_else(|| {
            HostError::negative(format!("session `{}` has nothing to undo", session.id)).hint(
                "undo in another session with `plimsoll undo SESSION`, or list receipts with `plimsoll receipts SESSION`",
            )
        })
    }

    /// Abbreviates ids to prefixes that are unique in the whole database, because any receipt can be named.
    pub fn short_receipt_ids(&self, receipts: &[Receipt]) -> Result<BTreeMap<ReceiptId, String>, HostError> {
        let store = self.archive.store();
        let short = |id: &ReceiptId| -> Result<String, HostError> {
            let text = id.as_str();
            for (end, _) in text.char_indices().filter(|(end, _)| *end >= SHORTEST) {
                if store.receipts_like(&text[..end], 2)?.len() == 1 {
                    return Ok(text[..end].to_owned());
                }
            }
            Ok(text.to_owned())
        };
        receipts.iter().map(|receipt| Ok((receipt.id.clone(), short(&receipt.id)?))).collect()
    }
}

/// Returns the receipts that are in force: neither undone nor an undo.
pub fn in_force(receipts: &[Receipt]) -> impl Iterator<Item = &Receipt> {
    let undone: BTreeSet<&ReceiptId> =
        receipts.iter().filter_map(|receipt| receipt.undoes.as_ref()).collect();
    receipts.iter().filter(move |receipt| receipt.undoes.is_none() && !undone.contains(&receipt.id))
}

/// Returns the receipt of the undo of another receipt.
pub fn undone_by<'a>(receipt: &Receipt, all: &'a [Receipt]) -> Option<&'a ReceiptId> {
    all.iter().find(|other| other.undoes.as_ref() == Some(&receipt.id)).map(|other| &other.id)
}

impl StoredSession {
    /// Pins a message, a part or a phrase.
    pub fn pin(
        &self,
        what: &str,
        config: &HostConfig,
        force: bool,
        host: &Host,
    ) -> Result<Receipt, HostError> {
        let mut driver = self.drive(config, force, None, host)?;
        let target = driver.find_pin(what)?;
        let receipt = driver.pin(&target)?;
        driver.close()?;
        Ok(receipt)
    }
}

impl OpenStore {
    /// Returns the pins of a session, and their budget in tokens.
    pub fn pins(
        &self,
        session: &Session,
        config: &HostConfig,
    ) -> Result<(Vec<PinnedText>, Tokens), HostError> {
        let limits = self.limits(session, config, None)?;
        let log = self.archive.store().window(&session.id)?;
        let pinned = plimsoll::log::pins(&log).map(|(message, part, text)| {
            let holds = |effect: &Effect| matches!(effect, Effect::Pin(pinned) if pinned == text);
            let mark = part.marks.iter().find(|mark| mark.is_active() && holds(&mark.effect));
            PinnedText {
                receipt: mark.and_then(|mark| mark.receipt.clone()).unwrap_or_default(),
                message: message.info.id.clone(),
                part: part.id.clone(),
                tokens: config.policy.count.count_text(text),
                text: text.clone(),
            }
        });
        Ok((pinned.collect(), pin::budget(&config.policy, Some(limits))))
    }
}
