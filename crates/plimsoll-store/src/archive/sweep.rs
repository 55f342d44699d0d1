//! Retention: expires spills, and removes files and rows that nothing needs, in small steps.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll::Millis;
use serde::Serialize;

use super::Archive;
use super::take::Pending;
use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::recall::Scope;
use crate::store::{ExpiredSpill, HandleMatch, HandleTarget};

/// Retention of spilled outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Maximum age; `None` keeps them as long as their session.
    pub age: Option<Millis>,
    /// Maximum size of all spills on disk; beyond it, the oldest expire.
    pub max_bytes: Option<u64>,
}

impl Retention {
    /// The recommendation of the token management guide: seven days.
    pub const GUIDE: Retention = Retention { age: Some(Millis(7 * 24 * 3_600 * 1_000)), max_bytes: None };
}

impl Default for Retention {
    /// Keeps spills as long as their session, up to 10 GB in total. Everything that a window refers to should exist
    /// when a model asks for it, however long ago the tool ran. The limit protects the disk.
    fn default() -> Retention {
        Retention { age: None, max_bytes: Some(10_000_000_000) }
    }
}

/// Result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SweepReport {
    /// Spills that expired, oldest first.
    pub expired: Vec<ExpiredSpill>,
    /// Number of files that were removed.
    pub removed: u64,
    /// Number of parts that were added to the search index.
    pub indexed: u64,
    /// Number of records that the store could not take when they were made, and has taken now.
    pub recorded: u64,
    /// Number of purges that were finished after their process died.
    pub purged: u64,
    /// Why other purges are unfinished: for example, another process reads the database. The next sweep tries again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpurged: Option<String>,
    /// Bytes by which the database shrank.
    pub freed: u64,
}

/// Number of spills and blobs that are processed in one transaction.
const STEP: usize = 256;
/// Number of changes that a sweep leaves in the feed. A reader that is further behind finds a gap and reads the
/// sessions themselves. Without a limit the feed would have a row for every piece of text that was ever streamed.
const KEPT_CHANGES: u64 = 100_000;
/// Interval between sweeps that keeps spills within their retention.
pub const SWEEP: Duration = Duration::from_secs(3_600);

impl Archive {
    /// Expires spills by retention, removes files that nothing needs, and updates the search index, in short
    /// transactions. Once in [`SWEEP`] is often enough; a [`Sweeper`] does that.
    ///
    /// The order matters: records that wait for the store are entered first, because they name blobs that would
    /// otherwise look like leftovers. Rows are marked as expired before their files are removed, so that a kill in
    /// between leaves a file without a row and never a row without a file.
    pub fn sweep(&self, now: Millis) -> Result<SweepReport, StoreError> {
        let mut swept = SweepReport { recorded: self.record_pending()?, ..SweepReport::default() };
        let before = self.retention.age.map(|age| Millis(now.0.saturating_sub(age.0)));
        loop {
            let expired = self.store.expire_spills(before, self.retention.max_bytes, now, STEP)?;
            if expired.is_empty() {
                break;
            }
            swept.expired.extend(expired);
        }
        swept.removed = self.finish_deleting()? + self.remove_leftovers(now)?;
        if let Ok(blobs) = &self.blobs {
            swept.removed += blobs.sweep()? + self.remove_plain_files(&**blobs)?;
        }
        self.store.sweep_stages(crate::store::ABANDONED)?;
        self.store.finish_removals()?;
        swept.indexed = self.store.index()?;
        while self.store.trim_feed(KEPT_CHANGES)? > 0 {}
        match self.store.finish_purges() {
            Ok(purged) => swept.purged = purged,
            Err(error @ (StoreError::Refused(_) | StoreError::Busy { .. })) => {
                swept.unpurged = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        // Last, because all steps above free pages.
        swept.freed = self.store.give_back()?;
        Ok(swept)
    }

    /// Bounded cleanup that hosts do after a run: expires at most 256 spills by retention, and removes their files and
    /// those of processes that died while they wrote. Does this at most once in [`SWEEP`] for each open archive; `None`
    /// if it is not due. The rest is left for the next call, or for a [`sweep`](Archive::sweep).
    pub fn tidy(&self, now: Millis) -> Result<Option<SweepReport>, StoreError> {
        let last = self.tidied.load(Ordering::Relaxed);
        let is_due = last == 0 || now.0.saturating_sub(last) >= SWEEP.as_millis() as u64;
        // If several runs of this process end at once, one of them does it.
        let is_ours =
            || self.tidied.compare_exchange(last, now.0.max(1), Ordering::Relaxed, Ordering::Relaxed);
        if !is_due || is_ours().is_err() {
            return Ok(None);
        }
        let Ok(blobs) = &self.blobs else { return Ok(None) };
        let before = self.retention.age.map(|age| Millis(now.0.saturating_sub(age.0)));
        let expired = self.store.expire_spills(before, self.retention.max_bytes, now, STEP)?;
        let mut removed = self.delete_step(&**blobs)? + blobs.sweep()?;
        for spill in
            expired.iter().filter(|spill| blobs.copy_path(&spill.handle).is_some_and(|path| path.exists()))
        {
            removed += u64::from(self.remove_plain_file(&**blobs, &spill.handle)?);
        }
        Ok(Some(SweepReport { expired, removed, ..SweepReport::default() }))
    }

    /// Removes the blobs that are marked for deletion, and confirms it.
    pub(super) fn finish_deleting(&self) -> Result<u64, StoreError> {
        let Ok(blobs) = &self.blobs else { return Ok(0) };
        let mut removed = 0;
        loop {
            match self.delete_step(&**blobs)? {
                0 => return Ok(removed),
                more => removed += more,
            }
        }
    }

    /// Removes at most [`STEP`] of the blobs that are marked for deletion, and confirms it.
    fn delete_step(&self, blobs: &dyn Blobs) -> Result<u64, StoreError> {
        let names = self.store.deleting(STEP)?;
        for name in &names {
            blobs.remove(name)?;
        }
        let removed = names.len() as u64;
        if removed > 0 {
            // After the files: a kill in between repeats a removal, which does nothing for a missing file.
            self.store.confirm_deleted(names)?;
        }
        Ok(removed)
    }

    /// Removes blobs that were put by processes that died before they committed the row.
    pub(super) fn remove_leftovers(&self, now: Millis) -> Result<u64, StoreError> {
        let Ok(blobs) = &self.blobs else { return Ok(0) };
        let mut removed = 0;
        let mut after: Option<String> = None;
        loop {
            let names = blobs.list(after.as_deref(), STEP)?;
            let Some(last) = names.last().cloned() else { return Ok(removed) };
            after = Some(last);
            let mut left: Vec<String> = self.store.unneeded(names)?;
            // In this order: a living process commits its row, or leaves a record of it, before it releases the lock.
            // So an unlocked blob has its row or record by now, or will never have one.
            left.retain(|name| !blobs.is_being_added(name));
            if left.is_empty() {
                continue;
            }
            // Read only if something is left, because it opens every pending record.
            let recorded = self.pending_blobs()?;
            left.retain(|name| !recorded.contains(name));
            let names = self.store.mark_deleting(left, now)?;
            for name in &names {
                blobs.remove(name)?;
            }
            removed += names.len() as u64;
            self.store.confirm_deleted(names)?;
        }
    }

    /// Removes plain files of outputs that expired or whose sessions were removed.
    fn remove_plain_files(&self, blobs: &dyn Blobs) -> Result<u64, StoreError> {
        let mut removed = 0;
        for handle in blobs.copies()? {
            removed += u64::from(self.remove_plain_file(blobs, &handle)?);
        }
        Ok(removed)
    }

    /// Removes the plain file of an output that no session needs. Returns whether it existed.
    fn remove_plain_file(&self, blobs: &dyn Blobs, handle: &str) -> Result<bool, StoreError> {
        let found = self.store.find_handles(Scope::Everywhere, handle, 1)?;
        let is_needed = |found: &HandleMatch| match &found.target {
            HandleTarget::Spill(spill) => spill.handle == handle && spill.expired.is_none(),
            HandleTarget::Part | HandleTarget::Message => false,
        };
        let is_left = !found.iter().any(is_needed);
        if is_left {
            blobs.remove_copy(handle)?;
        }
        Ok(is_left)
    }

    fn pending_blobs(&self) -> Result<HashSet<String>, StoreError> {
        let Ok(blobs) = &self.blobs else { return Ok(HashSet::new()) };
        let records = blobs.pending(usize::MAX)?.into_iter();
        let records = records.filter_map(|(_, record)| serde_json::from_slice::<Pending>(&record).ok());
        Ok(records.filter_map(|record| Some(record.spill?.blob)).collect())
    }

    /// Enters the records that the store could not take when they were made.
    pub(super) fn record_pending(&self) -> Result<u64, StoreError> {
        let Ok(blobs) = &self.blobs else { return Ok(0) };
        let mut recorded = 0;
        for (id, record) in blobs.pending(usize::MAX)? {
            // An unreadable record was cut off while it was written; its output was reported as lost then.
            if let Ok(pending) = serde_json::from_slice::<Pending>(&record) {
                match self.store.record_late(&pending.session, pending.spill, pending.receipt) {
                    Ok(()) => recorded += 1,
                    // Its session was removed; the blob is removed as a leftover.
                    Err(StoreError::Missing { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            blobs.remove_pending(&id)?;
        }
        Ok(recorded)
    }
}

/// Sweeps an archive periodically until it is dropped.
pub struct Sweeper {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Sweeps at once and then periodically. `clock` returns the time; `on_sweep` gets the result of each sweep.
    pub fn start(
        archive: Arc<Archive>,
        every: Duration,
        clock: impl Fn() -> Millis + Send + 'static,
        on_sweep: impl Fn(Result<SweepReport, StoreError>) + Send + 'static,
    ) -> Result<Sweeper, StoreError> {
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            loop {
                on_sweep(archive.sweep(clock()));
                // Dropping the sweeper ends the wait.
                if stopped.recv_timeout(every) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("plimsoll-sweep".into()).spawn(work);
        let thread = thread.map_err(StoreError::io("cannot start sweeping"))?;
        Ok(Sweeper { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A running sweep is completed.
            let _ = thread.join();
        }
    }
}
