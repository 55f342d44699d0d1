//! Recall by handle and search, on a store and its blobs.

use std::io::{Read, Write};

use plimsoll::{MessageId, PartId, SessionId};

use super::take::Pending;
use super::{Archive, keep};
use crate::error::StoreError;
use crate::recall::{
    Hit, INPUT, Recall, Recalled, Scope, Selection, copy_lines, describe, format_message, format_part,
    input_text, tool_of,
};
use crate::store::{HandleMatch, HandleTarget, PageRequest, SpillRecord, Store};

/// Maximum number of candidates that are listed for an ambiguous handle.
const CANDIDATES: usize = 20;
/// Number of messages of a range that are held at a time.
const PAGE: u64 = 20;

/// Content of a handle.
struct Content {
    session: SessionId,
    handle: String,
    what: String,
    source: Source,
}

enum Source {
    Text(String),
    Spill(Box<SpillRecord>),
    Messages(MessageId, MessageId),
}

impl Archive {
    /// Returns the content of a handle: a spilled output, a part (`prt_…:input` for the input of a call), a message, or
    /// a range of messages (`first..last`). An unambiguous prefix of a handle is enough.
    pub fn recall(&self, scope: Scope<'_>, handle: &str, wanted: &Selection) -> Result<Recall, StoreError> {
        let content = self.content(scope, handle)?;
        let found = self.read(&content, |reader| Recalled::read(reader, wanted))?;
        Ok(Recall { session: content.session, handle: content.handle, what: content.what, found })
    }

    /// Writes the content of a handle byte for byte, whole or a range of lines. Returns where it was found, without
    /// lines.
    pub fn copy_to(
        &self,
        scope: Scope<'_>,
        handle: &str,
        lines: Option<(u64, u64)>,
        out: &mut dyn Write,
    ) -> Result<Recall, StoreError> {
        let content = self.content(scope, handle)?;
        self.read(&content, |reader| copy_lines(reader, lines, out))?;
        let found = Recalled::default();
        Ok(Recall { session: content.session, handle: content.handle, what: content.what, found })
    }

    /// Searches everything outside a session's window, spilled outputs included.
    pub fn search(&self, session: &SessionId, wanted: &Selection) -> Result<Vec<Hit>, StoreError> {
        let mut hits = self.store.search(session, wanted)?;
        let mut after = 0;
        loop {
            let page = self.store.spills(session, after, 100)?;
            let is_output =
                |spill: &SpillRecord| spill.expired.is_none() && !spill.handle.starts_with(keep::KEPT_PREFIX);
            for spill in page.spills.into_iter().filter(is_output) {
                wanted.stop.check()?;
                let used: usize = hits.iter().map(|hit| hit.found.matches as usize).sum();
                let bytes: usize =
                    hits.iter().flat_map(|hit| &hit.found.lines).map(|line| line.text.len() + 1).sum();
                let (matches, left) =
                    (wanted.max_matches.saturating_sub(used), wanted.max_bytes.saturating_sub(bytes));
                if matches == 0 || left == 0 {
                    if let Some(last) = hits.last_mut() {
                        last.found.cut = true;
                    }
                    return Ok(hits);
                }
                let wanted = Selection { max_matches: matches, max_bytes: left, ..wanted.clone() };
                // A missing spill is reported and does not hide the others.
                match self.read_spill(&spill, |reader| Recalled::read(reader, &wanted)) {
                    Ok(found) if found.matches > 0 => {
                        let tool = Some(spill.tool);
                        hits.push(Hit { handle: spill.handle, message: None, tool, found, unsearched: None });
                    }
                    Ok(_) => {}
                    Err(error @ (StoreError::Lost { .. } | StoreError::Io { .. })) => {
                        let why = match error {
                            StoreError::Lost { why, .. } => why,
                            other => other.to_string(),
                        };
                        hits.push(Hit::unsearched(&spill.handle, None, Some(&spill.tool), why));
                    }
                    Err(error) => return Err(error),
                }
            }
            match page.next {
                Some(next) => after = next,
                None => return Ok(hits),
            }
        }
    }

    fn content(&self, scope: Scope<'_>, handle: &str) -> Result<Content, StoreError> {
        if let Some((first, last)) = handle.split_once("..") {
            let first = self.message_of(scope, first)?;
            let last = self.message_of(scope, last)?;
            return Ok(Content {
                session: first.session,
                handle: format!("{}..{}", first.handle, last.handle),
                what: "messages".to_owned(),
                source: Source::Messages(MessageId::new(first.handle), MessageId::new(last.handle)),
            });
        }
        let (name, is_input) = match handle.strip_suffix(INPUT) {
            Some(name) => (name, true),
            None => (handle, false),
        };
        let found = self.one(scope, name)?;
        let (session, handle) = (found.session, found.handle);
        match found.target {
            HandleTarget::Spill(spill) => {
                let what = keep::describe(&spill.handle, &spill.tool);
                Ok(Content { session, handle, what, source: Source::Spill(spill) })
            }
            HandleTarget::Part => {
                let part = self.store.handle_part(&session, &PartId::new(handle.as_str()))?;
                let (handle, what, text) = if is_input {
                    let tool = tool_of(&part).unwrap_or_default();
                    let text = input_text(&part).unwrap_or_default();
                    (format!("{handle}{INPUT}"), format!("input of {tool}"), text)
                } else {
                    (handle, describe(&part), format_part(&part))
                };
                Ok(Content { session, handle, what, source: Source::Text(text) })
            }
            HandleTarget::Message => {
                let id = MessageId::new(handle.as_str());
                let source = Source::Messages(id.clone(), id);
                Ok(Content { session, handle, what: "message".to_owned(), source })
            }
        }
    }

    fn message_of(&self, scope: Scope<'_>, handle: &str) -> Result<HandleMatch, StoreError> {
        let found = self.one(scope, handle)?;
        match found.target {
            HandleTarget::Message => Ok(found),
            _ => Err(StoreError::missing("message", handle)),
        }
    }

    /// Resolves a handle that must name one thing.
    fn one(&self, scope: Scope<'_>, handle: &str) -> Result<HandleMatch, StoreError> {
        let mut found = self.store.find_handles(scope, handle, CANDIDATES)?;
        if found.is_empty() {
            found = self.pending_spills(scope, handle)?;
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 if handle.starts_with("spill_") => Err(StoreError::missing("spilled output", handle)),
            0 => Err(StoreError::missing("part, message or spilled output", handle)),
            _ => Err(StoreError::Ambiguous {
                handle: handle.to_owned(),
                candidates: found.into_iter().map(|found| found.handle).collect(),
            }),
        }
    }

    /// Returns matching spills that are not in the store yet.
    fn pending_spills(&self, scope: Scope<'_>, handle: &str) -> Result<Vec<HandleMatch>, StoreError> {
        let Ok(blobs) = &self.blobs else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (_, record) in blobs.pending(usize::MAX)? {
            let Ok(Pending { session, spill: Some(spill), .. }) = serde_json::from_slice(&record) else {
                continue;
            };
            let is_seen = match scope {
                Scope::Session(asking) => *asking == session,
                Scope::Everywhere => true,
            };
            if is_seen && spill.handle.starts_with(handle) {
                let (handle, target) = (spill.handle.clone(), HandleTarget::Spill(Box::new(spill)));
                found.push(HandleMatch { session, handle, target });
            }
        }
        Ok(found)
    }

    fn read<T>(
        &self,
        content: &Content,
        take: impl FnOnce(&mut dyn Read) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &content.source {
            Source::Text(text) => take(&mut text.as_bytes()),
            Source::Spill(spill) => self.read_spill(spill, take),
            Source::Messages(first, last) => {
                let mut reader = MessageReader::new(&*self.store, &content.session, first, last);
                let taken = take(&mut reader);
                match reader.failed {
                    Some(error) => Err(error),
                    None => taken,
                }
            }
        }
    }

    /// Reads a spilled output and verifies its hash.
    pub(super) fn read_spill<T>(
        &self,
        spill: &SpillRecord,
        take: impl FnOnce(&mut dyn Read) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let handle = &spill.handle;
        let lost = |why: String| StoreError::Lost { handle: handle.clone(), why };
        let expired = |spill: &SpillRecord| {
            spill.expired.map(|at| StoreError::Expired {
                handle: handle.clone(),
                at,
                shown: spill.shown.clone(),
            })
        };
        if let Some(error) = expired(spill) {
            return Err(error);
        }
        let blobs = self.blobs.as_ref().map_err(|why| lost(why.clone()))?;
        let mut tried = spill.blob.clone();
        let mut content = blobs.get(&tried)?;
        // The record was read before the blob. Meanwhile the spill may have expired, or the same output may have been
        // stored again under another blob. The store says which; if it still names the blob that was tried, the content
        // is lost.
        while content.is_none() {
            let mut again = self.store.find_handles(Scope::Everywhere, handle, 1)?;
            let Some(HandleMatch { target: HandleTarget::Spill(again), .. }) = again.pop() else { break };
            if let Some(error) = expired(&again) {
                return Err(error);
            }
            if again.blob == tried {
                break;
            }
            tried = again.blob;
            content = blobs.get(&tried)?;
        }
        let content = content.ok_or_else(|| lost("its file was removed".into()))?;
        let mut reader = Verified { content, hasher: blake3::Hasher::new(), hash: &spill.hash, damage: None };
        let taken = take(&mut reader);
        match reader.damage {
            Some(why) => Err(lost(why)),
            None => taken,
        }
    }

    /// Reads a whole spilled output to verify it.
    pub(super) fn verify_spill(&self, spill: &SpillRecord) -> Result<(), StoreError> {
        self.read_spill(spill, |reader| {
            std::io::copy(reader, &mut std::io::sink())
                .map(drop)
                .map_err(StoreError::io("cannot read spilled content"))
        })
    }
}

/// Spilled content whose hash is verified as it is read.
struct Verified<'a> {
    content: Box<dyn Read + Send>,
    hasher: blake3::Hasher,
    hash: &'a str,
    damage: Option<String>,
}

impl Read for Verified<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = match self.content.read(buffer) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                self.damage = Some(format!("its file is damaged: {error}"));
                return Err(error);
            }
            count => count?,
        };
        self.hasher.update(&buffer[..count]);
        if count == 0 && !buffer.is_empty() && self.hasher.finalize().to_hex().as_str() != self.hash {
            let why = "its file does not match its hash";
            self.damage = Some(why.to_owned());
            return Err(std::io::Error::other(why));
        }
        Ok(count)
    }
}

/// Messages of a range as text, a few of them held at a time.
struct MessageReader<'a> {
    store: &'a dyn Store,
    session: &'a SessionId,
    first: &'a MessageId,
    last: &'a MessageId,
    from: Option<MessageId>,
    text: Vec<u8>,
    handed: usize,
    is_done: bool,
    failed: Option<StoreError>,
}

impl<'a> MessageReader<'a> {
    fn new(
        store: &'a dyn Store,
        session: &'a SessionId,
        first: &'a MessageId,
        last: &'a MessageId,
    ) -> MessageReader<'a> {
        let (text, handed, is_done, failed) = (Vec::new(), 0, false, None);
        MessageReader { store, session, first, last, from: None, text, handed, is_done, failed }
    }

    fn next(&mut self) -> Result<(), StoreError> {
        self.text.clear();
        self.handed = 0;
        let messages = match &self.from {
            None => vec![self.store.handle_message(self.session, self.first)?],
            Some(from) => {
                let request = PageRequest { from: Some(from.clone()), oldest_first: true, most: PAGE };
                self.store.handle_page(self.session, &request)?.messages
            }
        };
        let Some(newest) = messages.last() else {
            let why = format!("message `{}` does not come after `{}`", self.last, self.first);
            return Err(StoreError::Refused(why));
        };
        self.from = Some(newest.info.id.clone());
        for message in &messages {
            self.text.extend_from_slice(format_message(message).as_bytes());
            if message.info.id == *self.last {
                self.is_done = true;
                break;
            }
        }
        Ok(())
    }
}

impl Read for MessageReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.handed == self.text.len() {
            if self.is_done {
                return Ok(0);
            }
            if let Err(error) = self.next() {
                let failed = std::io::Error::other(error.to_string());
                (self.failed, self.is_done) = (Some(error), true);
                return Err(failed);
            }
        }
        let count = buffer.len().min(self.text.len() - self.handed);
        buffer[..count].copy_from_slice(&self.text[self.handed..self.handed + count]);
        self.handed += count;
        Ok(count)
    }
}
