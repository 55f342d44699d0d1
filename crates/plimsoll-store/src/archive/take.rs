//! Layer 1: truncates outputs as they arrive, and stores the full text before the window refers to it.

use std::io::Read;
use std::path::Path;

use plimsoll::truncate::{Address, OutputEnds, Spill, TruncatePlan};
use plimsoll::{Millis, PartId, Policy, Receipt, Reduction, SessionId, SpillAs, Text};
use serde::{Deserialize, Serialize};

use super::Archive;
use crate::blobs::{Staged, spill_handle};
use crate::error::StoreError;
use crate::store::{Claim, SpillRecord};

/// A tool's output after layer 1.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CapturedOutput {
    /// The text for the log.
    pub shown: Text,
    /// Receipt of the truncation, if there was one. It says so if the rest is lost.
    pub receipt: Option<Receipt>,
    /// Why the store does not have the receipt, if it could not be written. If a record could be left next to the
    /// spilled output, the next sweep enters it.
    pub unrecorded: Option<String>,
    /// Why reading the output failed, if it did. What had arrived by then was taken.
    pub broken_off: Option<String>,
}

/// A record that the store could not take, kept next to the blobs until it can.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pending {
    pub(super) session: SessionId,
    pub(super) spill: Option<SpillRecord>,
    pub(super) receipt: Option<Receipt>,
}

/// Length of the shown text that is stored with a spill, for messages after it expired.
const SHOWN: usize = 200;

impl Archive {
    /// Layer 1: truncates a tool's output as it arrives, and stores the full text before the window names it.
    ///
    /// An output cannot be read twice. Once its first byte was read, this always returns it: if the full text cannot be
    /// stored, it is still truncated, and the receipt has the reason why the rest is lost. If the database cannot be
    /// written, a record is left next to the spilled output, by which it can be recalled and which the next sweep
    /// enters.
    pub fn take_output(
        &self,
        claim: &Claim,
        part: &PartId,
        tool: &str,
        output: &mut dyn Read,
        policy: &Policy,
        now: Millis,
    ) -> Result<CapturedOutput, StoreError> {
        // A missing session is an error of the caller, and is reported before the output is consumed. A database that
        // cannot be read right now is not.
        if let Err(error @ StoreError::Missing { .. }) = self.store.session(&claim.session) {
            return Err(error);
        }
        let mut source = Source::new(output, OutputEnds::new(tool, policy));
        // Most outputs are short and are never written to disk.
        let early = source.read_ahead().then(|| source.ends.plan(tool, policy));
        let staged = if early.as_ref().is_some_and(|plan| !plan.wants_spill()) {
            None
        } else {
            Some(match (&self.blobs, policy.truncate.spill) {
                (_, false) => Err(None),
                (Err(why), true) => Err(Some(why.clone())),
                (Ok(blobs), true) => blobs.stage(&mut source).map_err(|error| Some(error.to_string())),
            })
        };
        // The rest is read only to be counted.
        source.skip();
        let broken_off = source.failed.take().map(|error| error.to_string());
        let plan = early.unwrap_or_else(|| source.ends.plan(tool, policy));
        if !plan.loses_content() {
            let (head, tail) = source.ends.held();
            let shown = Text::from(String::from_utf8_lossy(&[head, tail].concat()).into_owned());
            return Ok(CapturedOutput { shown, receipt: None, unrecorded: None, broken_off });
        }
        drop(source);
        let taken = match staged {
            Some(Ok(mut staged)) => match staged.put() {
                Ok(()) => self.record_spill(claim, part, plan, staged, policy, now),
                Err(error) => self.record(claim, plan, &Spill::Failed(error.to_string()), policy, now),
            },
            Some(Err(Some(why))) => self.record(claim, plan, &Spill::Failed(why), policy, now),
            Some(Err(None)) | None => self.record(claim, plan, &Spill::Off, policy, now),
        };
        Ok(CapturedOutput { broken_off, ..taken })
    }

    /// Stores content that belongs to a call and is not shown, such as an image. Returns its handle.
    pub fn store_hidden(
        &self,
        claim: &Claim,
        part: &PartId,
        tool: &str,
        shown: &str,
        content: &mut dyn Read,
        now: Millis,
    ) -> Result<String, StoreError> {
        let blobs = self.blobs.as_ref().map_err(|why| StoreError::Refused(why.clone()))?;
        let mut staged = blobs.stage(content)?;
        staged.put()?;
        let blob = staged.blob().clone();
        let record = SpillRecord {
            handle: spill_handle(&blob.hash),
            hash: blob.hash,
            blob: blob.name,
            part: Some(part.clone()),
            tool: tool.to_owned(),
            bytes: blob.bytes,
            stored: blob.stored,
            created: now,
            shown: shown.chars().take(SHOWN).collect(),
            expired: None,
        };
        let handle = record.handle.clone();
        // The blob's lock is held until the row exists: a sweep treats an unlocked blob without a row as a leftover.
        self.store.add_spill(claim, record).map(|()| handle)
    }

    /// Records a truncation whose full text is stored.
    fn record_spill(
        &self,
        claim: &Claim,
        part: &PartId,
        plan: TruncatePlan,
        staged: Box<dyn Staged>,
        policy: &Policy,
        now: Millis,
    ) -> CapturedOutput {
        let blob = staged.blob().clone();
        let handle = spill_handle(&blob.hash);
        let is_file = policy.truncate.spill_as == SpillAs::File;
        // The blob is compressed and in a private directory: no tool of an agent can read it.
        let saved = Spill::Saved(Address::Handle(handle.clone()));
        let record = SpillRecord {
            handle,
            hash: blob.hash,
            blob: blob.name.clone(),
            part: Some(part.clone()),
            tool: plan.tool.clone(),
            bytes: blob.bytes,
            stored: blob.stored + if is_file { blob.bytes } else { 0 },
            created: now,
            shown: plan.render(&saved).as_str().chars().take(SHOWN).collect(),
            expired: None,
        };
        let error = match self.store.add_spill(claim, record.clone()) {
            Ok(()) => {
                // Only after a row names it: a sweep removes plain files that no row needs.
                let file = is_file.then(|| self.plain_file(&record.handle, &blob.name)).flatten();
                let shown = plan.render(&file.map_or_else(|| saved.clone(), Spill::Saved));
                return CapturedOutput { shown, ..self.record(claim, plan, &saved, policy, now) };
            }
            Err(error) => error,
        };
        // The caller may no longer write to a session that was removed or taken over.
        let is_ours = !matches!(error, StoreError::Missing { .. } | StoreError::Fenced { .. });
        if is_ours && let Ok(blobs) = &self.blobs {
            let receipt = Receipt::of_truncate(plan.clone(), &saved, policy, &mut self.ids(), now);
            let pending = Pending {
                session: claim.session.clone(),
                spill: Some(record),
                receipt: Some(receipt.clone()),
            };
            if self.leave(&pending, &receipt).is_ok() {
                // The lock is released only now, when the record exists: otherwise a sweep would treat the blob as a
                // leftover.
                drop(staged);
                let shown = plan.render(&saved);
                let unrecorded = Some(error.to_string());
                return CapturedOutput { shown, receipt: Some(receipt), unrecorded, broken_off: None };
            }
            drop(staged);
            // No row names the blob, and its name is never used again.
            let _ = blobs.remove(&blob.name);
        }
        self.record(claim, plan, &Spill::Failed(error.to_string()), policy, now)
    }

    /// Returns the address of a blob as a plain file. Without one the handle is shown, by which the content can be
    /// recalled.
    fn plain_file(&self, handle: &str, name: &str) -> Option<Address> {
        let path = self.blobs.as_ref().ok()?.copy_out(handle, name).ok()??;
        Some(Address::Path(path.to_str()?.to_owned()))
    }

    /// Whether a path is the plain file of a spilled output that a session can see.
    pub fn is_spilled_file(&self, session: &SessionId, path: &Path) -> bool {
        let (Ok(blobs), Some(handle)) = (&self.blobs, path.file_stem().and_then(|stem| stem.to_str())) else {
            return false;
        };
        let Some(own) = blobs.copy_path(handle) else { return false };
        // Compares resolved paths: a tool may open the file through a link.
        let is_own = own.canonicalize().is_ok_and(|own| own == path);
        let is_seen = || self.kept_file(session, handle).is_ok_and(|kept| kept.is_some());
        is_own && is_seen()
    }

    /// Records a truncation.
    fn record(
        &self,
        claim: &Claim,
        plan: TruncatePlan,
        spill: &Spill,
        policy: &Policy,
        now: Millis,
    ) -> CapturedOutput {
        let shown = plan.render(spill);
        let receipt = Receipt::of_truncate(plan, spill, policy, &mut self.ids(), now);
        let reduction = Reduction { receipts: vec![receipt.clone()], ..Reduction::default() };
        let unrecorded = self.store.reduce(claim, reduction, None, now).err();
        if let Some(error) = &unrecorded
            && !matches!(error, StoreError::Missing { .. } | StoreError::Fenced { .. })
        {
            let (session, receipt) = (claim.session.clone(), receipt.clone());
            let pending = Pending { session, spill: None, receipt: Some(receipt.clone()) };
            // If this fails too, the caller still has the receipt and learns that the store does not.
            let _ = self.leave(&pending, &receipt);
        }
        let unrecorded = unrecorded.map(|error| error.to_string());
        CapturedOutput { shown, receipt: Some(receipt), unrecorded, broken_off: None }
    }

    fn leave(&self, pending: &Pending, receipt: &Receipt) -> Result<(), StoreError> {
        let blobs = self.blobs.as_ref().map_err(|why| StoreError::Refused(why.clone()))?;
        blobs.put_pending(receipt.id.as_str(), &serde_json::to_vec(pending)?)
    }
}

/// A stream that is counted as a whole and of which the head and the tail are held. A read error ends it.
struct Source<'a> {
    source: &'a mut dyn Read,
    ends: OutputEnds,
    /// Number of held bytes that were read ahead, and of those that were passed on.
    ahead: usize,
    handed: usize,
    is_done: bool,
    failed: Option<std::io::Error>,
}

impl<'a> Source<'a> {
    fn new(source: &'a mut dyn Read, ends: OutputEnds) -> Source<'a> {
        Source { source, ends, ahead: 0, handed: 0, is_done: false, failed: None }
    }

    /// Reads as much of the start as is held. Returns whether that was everything.
    fn read_ahead(&mut self) -> bool {
        let mut buffer = vec![0; 1 << 16];
        while !self.is_done && self.ends.held().1.is_empty() {
            self.ahead += self.pull(&mut buffer);
        }
        self.is_done
    }

    fn pull(&mut self, buffer: &mut [u8]) -> usize {
        let count = loop {
            match self.source.read(buffer) {
                Ok(count) => break count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed = Some(error);
                    break 0;
                }
            }
        };
        self.is_done = count == 0;
        self.ends.push(&buffer[..count]);
        count
    }

    /// Reads the rest without storing it.
    fn skip(&mut self) {
        let mut buffer = vec![0; 1 << 16];
        while !self.is_done {
            self.pull(&mut buffer);
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.handed < self.ahead {
            // Nothing more is read before all of this is passed on, so head and tail are unchanged.
            let (head, tail) = self.ends.held();
            let rest = match self.handed.checked_sub(head.len()) {
                Some(at) => &tail[at..],
                None => &head[self.handed..],
            };
            let count = buffer.len().min(rest.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            self.handed += count;
            return Ok(count);
        }
        Ok(if self.is_done { 0 } else { self.pull(buffer) })
    }
}
