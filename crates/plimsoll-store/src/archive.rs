//! The archive: a store and a place for spilled outputs, as one.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll::truncate::{self, Address, Spill};
use plimsoll::{
    Handle, Ids, Message, MessageId, Millis, Part, PartBody, PartId, Policy, Receipt, Reduction, Role,
    SessionId, Text,
};
use serde::Serialize;

use crate::blobs::{Blobs, Directory};
use crate::error::StoreError;
use crate::recall::{Ask, Hit, Recalled};
use crate::session::{Findings, PageRequest};
use crate::sqlite::{Durability, SqliteStore, random_ids};
use crate::store::{Claim, SpillRecord, Store};

/// A store, the outputs that were spilled from it, and how long they stay.
pub struct Archive {
    store: Box<dyn Store>,
    blobs: Result<Arc<dyn Blobs>, String>,
    ids: Mutex<Ids>,
    /// The copy that was made of an older database before it was upgraded.
    pub copy: Option<PathBuf>,
    /// How long spilled outputs stay.
    pub retention: Retention,
}

/// How long spilled outputs stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Older ones go; none means that they stay as long as their session.
    pub age: Option<Millis>,
    /// The oldest go when all together take more than this on disk.
    pub most_bytes: Option<u64>,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { age: Some(Millis(7 * 24 * 3_600 * 1_000)), most_bytes: None }
    }
}

/// A tool's output after layer 1.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What goes into the log.
    pub shown: Text,
    /// What was done, if anything was cut.
    pub receipt: Option<Receipt>,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    /// Spills that expired.
    pub expired: u64,
    /// Files that were removed.
    pub removed: u64,
    /// Parts that were added to the index for searches.
    pub indexed: u64,
}

/// So much of the beginning and the end of an output is held while it streams by: more than any limit allows.
const HELD: usize = 4 << 20;
/// So much of what is shown is remembered with a spill, for when it has expired.
const SHOWN: usize = 200;
/// What was staged longer ago than this was left behind by a process that died.
const STALE: Millis = Millis(3_600 * 1_000);

impl Archive {
    /// The embedded default: a SQLite database, and spills in a directory beside it, as the policy says.
    pub fn open(
        path: impl AsRef<Path>,
        policy: &Policy,
        durability: Durability,
    ) -> Result<Archive, StoreError> {
        let path = path.as_ref();
        let store = SqliteStore::open(path, durability)?;
        let folder = path.parent().unwrap_or(Path::new(".")).join(&policy.truncate.spill_directory);
        let copy = store.copy().map(Path::to_path_buf);
        Ok(Archive { copy, ..Archive::new(Box::new(store), spill_directory(policy, folder)) })
    }

    /// Any store and any place for spills, or why there is none.
    pub fn new(store: Box<dyn Store>, blobs: Result<Arc<dyn Blobs>, String>) -> Archive {
        Archive { store, blobs, ids: Mutex::new(random_ids()), copy: None, retention: Retention::default() }
    }

    /// Everything in memory, gone with the process: for tests, replays and plans.
    pub fn in_memory() -> Archive {
        Archive::new(Box::new(crate::MemoryStore::new()), Ok(Arc::new(crate::MemoryBlobs::default())))
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        // Names are made one at a time; a panic elsewhere leaves nothing half made.
        self.ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Layer 1: cut a tool's output as it arrives, and keep the whole before anybody is told. Where it cannot be
    /// kept it is cut all the same, and the receipt says why the rest is lost.
    pub fn take_output(
        &self,
        claim: &Claim,
        part: &PartId,
        tool: &str,
        output: &mut dyn Read,
        policy: &Policy,
        now: Millis,
    ) -> Result<Taken, StoreError> {
        let mut ends = Ends::new(output);
        // Short outputs, which is most of them, touch no disk.
        let whole =
            ends.fill(held(tool, policy)).map_err(StoreError::io("cannot read the output of the tool"))?;
        let early = whole.then(|| truncate::plan(&ends.head, tool, policy));
        let staged = if early.as_ref().is_some_and(|plan| !plan.wants_spill()) {
            None
        } else {
            Some(match (&self.blobs, policy.truncate.spill) {
                (_, false) => Err(None),
                (Err(why), true) => Err(Some(why.clone())),
                (Ok(blobs), true) => blobs.stage(&mut ends).map_err(|error| Some(error.to_string())),
            })
        };
        // Whatever was not staged goes by all the same, to be counted.
        ends.skip().map_err(StoreError::io("cannot read the output of the tool"))?;
        let plan = early.unwrap_or_else(|| ends.plan(tool, policy));
        if !plan.loses() {
            return Ok(Taken {
                shown: Text::from(String::from_utf8_lossy(&ends.head).into_owned()),
                receipt: None,
            });
        }
        let spill = match staged {
            Some(Ok(staged)) => {
                let blob = staged.blob().clone();
                let handle = format!("spill_{}", &blob.hash[..32]);
                // The file is compressed and in a private directory: no tool of an agent can read it.
                let saved = Spill::Saved(Address::Handle(handle.clone()));
                let shown: String = plan.render(&saved).as_str().chars().take(SHOWN).collect();
                let record = SpillRecord {
                    handle,
                    hash: blob.hash,
                    part: Some(part.clone()),
                    tool: tool.to_owned(),
                    bytes: blob.bytes,
                    stored: blob.stored,
                    created: now,
                    shown,
                    expired: None,
                };
                match self.store.add_spill(claim, record, Box::new(move || staged.keep())) {
                    Ok(()) => saved,
                    Err(error @ StoreError::Io { .. }) => Spill::Failed(error.to_string()),
                    Err(error) => return Err(error),
                }
            }
            Some(Err(Some(why))) => Spill::Failed(why),
            Some(Err(None)) | None => Spill::Off,
        };
        let shown = plan.render(&spill);
        let receipt = Receipt::of_truncate(plan, &spill, policy, &mut self.ids(), now);
        self.store.reduce(
            claim,
            Reduction { receipts: vec![receipt.clone()], ..Reduction::default() },
            None,
            now,
        )?;
        Ok(Taken { shown, receipt: Some(receipt) })
    }

    /// Bring back what a handle names: a spilled output, a part, a message, or a run of messages (`first..last`).
    pub fn recall(&self, handle: &str, ask: &Ask) -> Result<Recalled, StoreError> {
        if handle.starts_with("spill_") {
            return Recalled::of(&self.spilled(handle)?, ask);
        }
        let (first, last) = handle.split_once("..").unwrap_or((handle, handle));
        let session = self.store.owner(first)?;
        if first == last
            && let Ok(part) = self.store.part(&session, &PartId::new(first))
        {
            return Recalled::of(&told_part(&part), ask);
        }
        let mut text = String::new();
        for message in self.messages(&session, &MessageId::new(first), &MessageId::new(last))? {
            text.push_str(&told(&message));
        }
        Recalled::of(&text, ask)
    }

    /// The whole of a spilled output.
    fn spilled(&self, handle: &str) -> Result<String, StoreError> {
        let spill = self.store.spill(handle)?;
        if let Some(at) = spill.expired {
            return Err(StoreError::Expired { handle: handle.to_owned(), at, shown: spill.shown });
        }
        let lost = |why: String| StoreError::Lost { handle: handle.to_owned(), why };
        let blobs = self.blobs.as_ref().map_err(|why| lost(why.clone()))?;
        let mut content = blobs.get(&spill.hash)?.ok_or_else(|| lost("its file was removed".into()))?;
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(|error| lost(format!("its file is damaged: {error}")))?;
        if blake3::hash(&bytes).to_hex().as_str() != spill.hash {
            return Err(lost("its file holds something else".into()));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn messages(
        &self,
        session: &SessionId,
        first: &MessageId,
        last: &MessageId,
    ) -> Result<Vec<Message>, StoreError> {
        let mut messages = vec![self.store.message(session, first)?];
        let mut from = Some(first.clone());
        while messages.last().is_some_and(|message| message.info.id != *last) {
            let request = PageRequest { from: from.take(), oldest_first: true, most: 500 };
            let page = self.store.page(session, &request)?;
            let end = page.messages.iter().position(|message| message.info.id == *last);
            let take = end.map_or(page.messages.len(), |end| end + 1);
            if take == 0 {
                let why = format!("message `{last}` does not come after `{first}`");
                return Err(StoreError::Refused(why));
            }
            messages.extend(page.messages.into_iter().take(take));
            from = messages.last().map(|message| message.info.id.clone());
        }
        Ok(messages)
    }

    /// Search everything that is out of a session's window, spilled outputs too.
    pub fn search(&self, session: &SessionId, ask: &Ask) -> Result<Vec<Hit>, StoreError> {
        let mut hits = self.store.search(session, ask)?;
        for spill in self.store.spills(session)?.into_iter().filter(|spill| spill.expired.is_none()) {
            let used: usize = hits.iter().map(|hit| hit.found.matches as usize).sum();
            let bytes: usize =
                hits.iter().flat_map(|hit| &hit.found.lines).map(|line| line.text.len() + 1).sum();
            let (matches, left) =
                (ask.most_matches.saturating_sub(used), ask.most_bytes.saturating_sub(bytes));
            if matches == 0 || left == 0 {
                if let Some(last) = hits.last_mut() {
                    last.found.cut = true;
                }
                break;
            }
            // One that is gone does not hide the others.
            let Ok(text) = self.spilled(&spill.handle) else { continue };
            let found = Recalled::of(&text, &Ask { most_matches: matches, most_bytes: left, ..ask.clone() })?;
            if found.matches > 0 {
                hits.push(Hit { handle: spill.handle, message: None, tool: Some(spill.tool), found });
            }
        }
        Ok(hits)
    }

    /// Remove a session, and the spills that nobody else needs.
    pub fn remove(&self, claim: &Claim, now: Millis) -> Result<(), StoreError> {
        let spills = self.store.spills(&claim.session)?;
        self.store.remove(claim, now)?;
        self.forget(spills.into_iter().map(|spill| spill.hash).collect())?;
        Ok(())
    }

    /// Let go of spills that are too old or too many, of files that nobody needs, and bring the index for searches
    /// up to date. To be done now and then, [`SWEEP`] apart is often enough; a [`Sweeper`] does it.
    pub fn sweep(&self, now: Millis) -> Result<Swept, StoreError> {
        let before = self.retention.age.map(|age| Millis(now.0.saturating_sub(age.0)));
        let expired = self.store.expire_spills(before, self.retention.most_bytes, now)?;
        let mut removed = 0;
        if let Ok(blobs) = &self.blobs {
            removed = self.forget(blobs.list()?)?;
            blobs.sweep(Millis(now.0.saturating_sub(STALE.0)))?;
        }
        Ok(Swept { expired, removed, indexed: self.store.index()? })
    }

    fn forget(&self, hashes: Vec<String>) -> Result<u64, StoreError> {
        let Ok(blobs) = &self.blobs else { return Ok(0) };
        let blobs = Arc::clone(blobs);
        self.store.forget(hashes, Box::new(move |hash| blobs.remove(hash)))
    }

    /// Look for damage: in the database, and for spills whose content is not there.
    pub fn check(&self) -> Result<Findings, StoreError> {
        let mut findings = self.store.check()?;
        let mut note = |problem: String| {
            if !findings.problems.contains(&problem) {
                findings.problems.push(problem);
            }
        };
        let filter = crate::session::Filter { all: true, ..Default::default() };
        let sessions = match self.store.sessions(&filter) {
            Ok(sessions) => sessions,
            Err(error) => {
                note(error.to_string());
                Vec::new()
            }
        };
        for session in sessions {
            let told = |error: StoreError| format!("session `{}`: {error}", session.id);
            match self.store.spills(&session.id) {
                Ok(spills) => {
                    for spill in spills.into_iter().filter(|spill| spill.expired.is_none()) {
                        if let Err(error) = self.spilled(&spill.handle) {
                            note(told(error));
                        }
                    }
                }
                Err(error) => note(told(error)),
            }
        }
        Ok(findings)
    }
}

/// Sweeps an archive now and then, as long as it is held.
pub struct Sweeper {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Sweep right away and then every so often. `clock` tells the time; `told` is given what each sweep did.
    pub fn start(
        archive: Arc<Archive>,
        every: Duration,
        clock: impl Fn() -> Millis + Send + 'static,
        told: impl Fn(Result<Swept, StoreError>) + Send + 'static,
    ) -> Result<Sweeper, StoreError> {
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            loop {
                told(archive.sweep(clock()));
                // Whoever lets go of the sweeper ends the wait.
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

/// A sweep this often keeps spills within their retention.
pub const SWEEP: Duration = Duration::from_secs(3_600);

/// How much of an output must be held so that nothing that may stay is missing.
fn held(tool: &str, policy: &Policy) -> usize {
    let rules = &policy.truncate;
    let own = rules.tool_limits.get(tool).unwrap_or(&rules.default_limit).0.saturating_mul(4);
    let bytes = if rules.tool_limit_overrides_bytes { own } else { rules.max_bytes };
    HELD.max(usize::try_from(bytes.saturating_mul(2)).unwrap_or(usize::MAX).min(1 << 30))
}

fn spill_directory(policy: &Policy, folder: PathBuf) -> Result<Arc<dyn Blobs>, String> {
    if !policy.truncate.spill {
        return Err("spilling is switched off".into());
    }
    // Made when it is first needed: where nothing is spilled, there is no directory.
    Ok(Arc::new(Directory::at(folder)))
}

/// A part as text.
fn told_part(part: &Part) -> String {
    match &part.body {
        PartBody::Tool(tool) => tool.state.result().map(|text| text.as_str().to_owned()).unwrap_or_default(),
        PartBody::Compaction(marker) => {
            marker.summary.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default()
        }
        PartBody::ToolCall(call) => {
            call.input.as_ref().map(|input| input.json().to_string()).unwrap_or_default()
        }
        _ => crate::recall::part_text(part).map(|text| text.as_str().to_owned()).unwrap_or_default(),
    }
}

/// A message as text: who speaks, what is said, what tools were given and what they answered.
fn told(message: &Message) -> String {
    let role = match &message.info.role {
        Some(Role::User) => "user",
        Some(Role::Assistant) => "assistant",
        Some(Role::System) => "system",
        _ => "message",
    };
    let mut text = format!("── {role} {}\n", message.info.id);
    for part in &message.parts {
        if let PartBody::Tool(tool) = &part.body {
            let input = tool.state.input.as_ref().map(|input| input.json().to_string()).unwrap_or_default();
            text.push_str(&format!("[{}] {input}\n", tool.tool));
        }
        let said = told_part(part);
        if !said.is_empty() {
            text.push_str(said.trim_end_matches('\n'));
            text.push('\n');
        }
    }
    text
}

/// Handles that a receipt names, as they are typed.
pub fn handles(receipt: &Receipt) -> Vec<String> {
    receipt.handles.iter().map(Handle::to_string).collect()
}

/// A stream of which the beginning and the end are held, and all of which is counted.
struct Ends<'a> {
    source: &'a mut dyn Read,
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    /// How much of the head has been handed on.
    handed: usize,
    bytes: u64,
    newlines: u64,
    done: bool,
}

impl<'a> Ends<'a> {
    fn new(source: &'a mut dyn Read) -> Ends<'a> {
        Ends {
            source,
            head: Vec::new(),
            tail: Default::default(),
            handed: 0,
            bytes: 0,
            newlines: 0,
            done: false,
        }
    }

    /// Read so much into the head; says whether that was all.
    fn fill(&mut self, most: usize) -> std::io::Result<bool> {
        let read = Read::take(&mut *self.source, most as u64).read_to_end(&mut self.head)?;
        self.bytes += read as u64;
        self.newlines += self.head.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.done = read < most;
        Ok(self.done)
    }

    /// Let the rest go by.
    fn skip(&mut self) -> std::io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        self.handed = self.head.len();
        while self.read(&mut buffer)? > 0 {}
        Ok(())
    }

    /// What stays of it. The middle that was not held is longer than anything that could stay.
    fn plan(&mut self, tool: &str, policy: &Policy) -> truncate::TruncatePlan {
        if self.tail.is_empty() {
            return truncate::plan(&self.head, tool, policy);
        }
        let ends = [&self.head[..], self.tail.make_contiguous()].concat();
        let mut plan = truncate::plan(&ends, tool, policy);
        plan.original_bytes = self.bytes;
        plan.original_lines = self.newlines + 1;
        plan
    }
}

impl Read for Ends<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.handed < self.head.len() {
            let count = buffer.len().min(self.head.len() - self.handed);
            buffer[..count].copy_from_slice(&self.head[self.handed..self.handed + count]);
            self.handed += count;
            return Ok(count);
        }
        if self.done {
            return Ok(0);
        }
        let count = self.source.read(buffer)?;
        self.done = count == 0;
        self.bytes += count as u64;
        self.newlines += buffer[..count].iter().filter(|byte| **byte == b'\n').count() as u64;
        self.tail.extend(&buffer[..count]);
        let over = self.tail.len().saturating_sub(HELD);
        self.tail.drain(..over);
        Ok(count)
    }
}
