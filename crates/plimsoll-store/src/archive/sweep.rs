//! Letting go of what is too old, too much or left over, a little at a time.

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

/// How long spilled outputs stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Older ones go; none means that they stay as long as their session.
    pub age: Option<Millis>,
    /// The oldest go when all together take more than this on disk.
    pub most_bytes: Option<u64>,
}

impl Retention {
    /// What the token management guide says: seven days.
    pub const GUIDE: Retention = Retention { age: Some(Millis(7 * 24 * 3_600 * 1_000)), most_bytes: None };
}

impl Default for Retention {
    /// As long as their session, and together no more than 10 GB as they lie on disk. What a session's window names should
    /// be there when a model asks for it, however long ago the tool ran; the bound is for disks, not for order.
    fn default() -> Retention {
        Retention { age: None, most_bytes: Some(10_000_000_000) }
    }
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    /// Spills that expired, the oldest first.
    pub expired: Vec<ExpiredSpill>,
    /// Files that were removed.
    pub removed: u64,
    /// Parts that were added to the index for searches.
    pub indexed: u64,
    /// Records that the store could not take when they were made, and has taken now.
    pub recorded: u64,
    /// Purges whose process died, and that are finished now.
    pub purged: u64,
    /// Why some are not: another process reads the database, say. The next sweep tries again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpurged: Option<String>,
    /// Bytes by which the database has become smaller.
    pub freed: u64,
}

/// So many spills expire, and so many blobs are looked at, in one transaction.
const STEP: usize = 256;
/// A sweep this often keeps spills within their retention.
pub const SWEEP: Duration = Duration::from_secs(3_600);

impl Archive {
    /// Let go of spills that are too old or too many, of files that nothing needs, and bring the index for searches up to
    /// date, in transactions that are short. To be done now and then, [`SWEEP`] apart is often enough; a [`Sweeper`] does
    /// it.
    pub fn sweep(&self, now: Millis) -> Result<Swept, StoreError> {
        let mut swept = Swept { recorded: self.record_pending()?, ..Swept::default() };
        let before = self.retention.age.map(|age| Millis(now.0.saturating_sub(age.0)));
        loop {
            let expired = self.store.expire_spills(before, self.retention.most_bytes, now, STEP)?;
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
        match self.store.finish_purges() {
            Ok(purged) => swept.purged = purged,
            Err(error @ (StoreError::Refused(_) | StoreError::Busy { .. })) => {
                swept.unpurged = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        swept.freed = self.store.give_back()?;
        Ok(swept)
    }

    /// Bounded cleanup that hosts make by themselves after a run: lets go of at most 256 spills that are past their
    /// retention, removes their files, and those of processes that died while they wrote. It is made at most once in
    /// [`SWEEP`] for each open archive; `None` if it is not due. What is left is for the next one, or for a
    /// [`sweep`](Archive::sweep).
    pub fn tidy(&self, now: Millis) -> Result<Option<Swept>, StoreError> {
        let last = self.tidied.load(Ordering::Relaxed);
        let is_due = last == 0 || now.0.saturating_sub(last) >= SWEEP.as_millis() as u64;
        // Of several runs that end at once in this process, one does it.
        let is_ours =
            || self.tidied.compare_exchange(last, now.0.max(1), Ordering::Relaxed, Ordering::Relaxed);
        if !is_due || is_ours().is_err() {
            return Ok(None);
        }
        let Ok(blobs) = &self.blobs else { return Ok(None) };
        let before = self.retention.age.map(|age| Millis(now.0.saturating_sub(age.0)));
        let expired = self.store.expire_spills(before, self.retention.most_bytes, now, STEP)?;
        let mut removed = self.delete_step(&**blobs)? + blobs.sweep()?;
        for spill in
            expired.iter().filter(|spill| blobs.copy_path(&spill.handle).is_some_and(|path| path.exists()))
        {
            removed += u64::from(self.remove_plain_file(&**blobs, &spill.handle)?);
        }
        Ok(Some(Swept { expired, removed, ..Swept::default() }))
    }

    /// Remove the blobs that are marked as being deleted, and confirm it.
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

    /// Remove at most [`STEP`] of the blobs that are marked as being deleted, and confirm it.
    fn delete_step(&self, blobs: &dyn Blobs) -> Result<u64, StoreError> {
        let names = self.store.deleting(STEP)?;
        for name in &names {
            blobs.remove(name)?;
        }
        let removed = names.len() as u64;
        if removed > 0 {
            self.store.confirm_deleted(names)?;
        }
        Ok(removed)
    }

    /// Remove blobs that were put by processes that died before they committed the row.
    pub(super) fn remove_leftovers(&self, now: Millis) -> Result<u64, StoreError> {
        let Ok(blobs) = &self.blobs else { return Ok(0) };
        let mut removed = 0;
        let mut after: Option<String> = None;
        loop {
            let names = blobs.list(after.as_deref(), STEP)?;
            let Some(last) = names.last().cloned() else { return Ok(removed) };
            after = Some(last);
            let mut left: Vec<String> = self.store.unneeded(names)?;
            // In this order: a process that lives commits its row, or leaves a record of it, before it lets go of the
            // lock. So what is not locked has its row or its record by now, or will never have one.
            left.retain(|name| !blobs.is_being_added(name));
            if left.is_empty() {
                continue;
            }
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

    /// Remove plain files of outputs that expired or whose sessions are gone.
    fn remove_plain_files(&self, blobs: &dyn Blobs) -> Result<u64, StoreError> {
        let mut removed = 0;
        for handle in blobs.copies()? {
            removed += u64::from(self.remove_plain_file(blobs, &handle)?);
        }
        Ok(removed)
    }

    /// Removes the plain file of an output that no session needs. Returns whether it was removed.
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

    /// Tell the store what it could not take when it was made.
    pub(super) fn record_pending(&self) -> Result<u64, StoreError> {
        let Ok(blobs) = &self.blobs else { return Ok(0) };
        let mut recorded = 0;
        for (id, record) in blobs.pending(usize::MAX)? {
            // One that cannot be read was cut off while it was written, and what it stood for was said to be lost.
            if let Ok(pending) = serde_json::from_slice::<Pending>(&record) {
                match self.store.record_late(&pending.session, pending.spill, pending.receipt) {
                    Ok(()) => recorded += 1,
                    // Its session was removed; the blob goes as a leftover.
                    Err(StoreError::Missing { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            blobs.remove_pending(&id)?;
        }
        Ok(recorded)
    }
}

/// Sweeps an archive now and then, as long as it is held.
pub struct Sweeper {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Sweep right away and then every so often. `clock` tells the time; `on_sweep` is given what each sweep did.
    pub fn start(
        archive: Arc<Archive>,
        every: Duration,
        clock: impl Fn() -> Millis + Send + 'static,
        on_sweep: impl Fn(Result<Swept, StoreError>) + Send + 'static,
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
            // A sweep under way comes to its end.
            let _ = thread.join();
        }
    }
}
