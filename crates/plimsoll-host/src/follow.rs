//! Follows a session while it grows.
//!
//! Claude Code, Codex and pi append to their session files, so only records after the newest message are read. Everything else is
//! read again from its beginning: databases, documents that are rewritten each time, and files that were truncated, replaced, or
//! whose new records refer to earlier ones.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use plimsoll::{Message, Tokens};
use plimsoll_formats::{Chain, Format, Restart, Transcript, visit_from};
use plimsoll_import::Scope;
use plimsoll_session::{MeasuredBy, Weigher};
use serde::Serialize;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::host::Host;
use crate::input::{Input, InputSource, InputSpec};
use crate::recorded::{RecordedFigures, SessionWindow};

/// Maximum number of messages held until the next restart is known.
const MAX_WAITING: usize = 512;
/// Inverse of the maximum share of time spent on reading.
const IDLE_SHARE: u32 = 10;
/// Number of bytes before a restart that are compared, to detect a file that was replaced.
const SEAM: u64 = 1 << 10;

/// State of a session relative to its line.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WindowStatus {
    /// Id of the session.
    pub session: Option<String>,
    /// Title.
    pub title: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Tokens in the window.
    pub tokens: Tokens,
    /// The line; `None` if the policy has none.
    pub line: Option<Tokens>,
    /// Tokens left before the line is reached; 0 beyond it.
    pub left: Option<Tokens>,
    /// Share of the line that is used, in percent.
    pub percent: Option<u64>,
    /// The model's window.
    pub context: Tokens,
    /// Number of messages in the log.
    pub messages: usize,
    /// Whether `tokens` comes from recorded usage instead of an estimate.
    pub measured: bool,
}

/// Follows a session.
pub struct Follower<'a> {
    host: &'a Host,
    config: &'a HostConfig,
    spec: &'a dyn Fn() -> InputSpec,
    /// Context window set by the user.
    asked: Option<u64>,
    seen: Option<FollowedFile>,
    weighed: Option<Weighed<'a>>,
    /// Earliest times of the next poll, and of the next read from the beginning.
    next_poll: Instant,
    next_whole: Instant,
}

/// State of the file or database at the last read.
struct FollowedFile {
    name: String,
    place: Option<PathBuf>,
    stamp: Stamp,
}

/// The part of a session that was read, up to a restart.
struct Weighed<'a> {
    weigher: Weigher<'a>,
    transcript: Transcript,
    largest: Option<Tokens>,
    restart: Restart,
    /// The bytes of the file before the restart, and the identity of the file.
    seam: Vec<u8>,
    file: FileId,
}

impl<'a> Follower<'a> {
    /// Creates a follower of the session that `spec` names. A stream is read once.
    pub fn new(host: &'a Host, config: &'a HostConfig, spec: &'a dyn Fn() -> InputSpec) -> Follower<'a> {
        let now = Instant::now();
        let (next_poll, next_whole) = (now, now);
        Follower { host, config, spec, asked: None, seen: None, weighed: None, next_poll, next_whole }
    }

    /// Reads the session from its beginning.
    pub fn read(&mut self) -> Result<WindowStatus, HostError> {
        let begun = Instant::now();
        let spec = (self.spec)();
        self.asked = spec.flags.context;
        let input = self.host.input(spec, Scope::All)?;
        // Taken before the read, so that the next poll notices writes during it.
        let seen = FollowedFile {
            name: input.name.clone(),
            place: input.place.clone(),
            stamp: stamp(input.place.as_deref()),
        };
        self.weighed = None;
        let read = self.read_whole(input, seen.place.as_deref());
        self.seen = Some(seen);
        self.next_whole = rested(begun);
        read
    }

    /// Returns the status if the session was written to since the last poll or, with `for_newer`, if another session is now the
    /// newest.
    ///
    /// Reads take at most a fixed share of the time: the longer one takes, the longer the next one is delayed.
    pub fn poll(&mut self, for_newer: bool) -> Option<Result<WindowStatus, HostError>> {
        let begun = Instant::now();
        if begun < self.next_poll {
            return None;
        }
        let whole = self.next_whole;
        let polled = self.poll_now(for_newer);
        // After a read from the beginning, appended records can be read without a delay.
        if self.next_whole == whole {
            self.next_poll = rested(begun);
        }
        polled
    }

    fn poll_now(&mut self, for_newer: bool) -> Option<Result<WindowStatus, HostError>> {
        let may_read = Instant::now() >= self.next_whole;
        let Some(FollowedFile { name, place, stamp: then }) = &self.seen else {
            return may_read.then(|| self.read());
        };
        let is_newer = || {
            let spec = (self.spec)();
            matches!(spec.source, InputSource::Newest)
                && self.host.input(spec, Scope::All).is_ok_and(|input| input.name != *name)
        };
        if for_newer && is_newer() {
            // Another session: the time that the previous one took does not count.
            return Some(self.read());
        }
        // A session without a file came from a stream, which can be read only once.
        let place = place.clone()?;
        let now = stamp(Some(&place));
        if now == *then {
            return None;
        }
        if let Some(status) = self.read_appended(&place) {
            self.seen.iter_mut().for_each(|seen| seen.stamp = now);
            return Some(Ok(status));
        }
        may_read.then(|| self.read())
    }

    fn read_whole(&mut self, input: Input, place: Option<&Path>) -> Result<WindowStatus, HostError> {
        let file = place.and_then(|place| FileId::of(&std::fs::metadata(place).ok()?));
        let mut weigher = Weigher::new(&self.config.policy);
        let mut waiting = VecDeque::new();
        let mut sink = |message| {
            waiting.push_back(message);
            if waiting.len() > MAX_WAITING
                && let Some(oldest) = waiting.pop_front()
            {
                weigher.add(oldest);
            }
        };
        let transcript = input.visit(&mut sink)?;
        let largest = RecordedFigures::of(&transcript.recorded).largest_exchange;
        let rest = settle(&mut weigher, waiting.into(), transcript.restart.as_ref());
        if rest.is_empty() {
            return Ok(self.status(weigher, rest, &transcript, largest));
        }
        let status = self.status(weigher.clone(), rest, &transcript, largest);
        let seam = |restart: &Restart| {
            let mut opened = File::open(place?).ok()?;
            let is_same = file.is_some() && FileId::of(&opened.metadata().ok()?) == file;
            is_same.then(|| seam(&mut opened, restart).ok())?
        };
        if let (Some(restart), Some(file)) = (transcript.restart.clone(), file)
            && let Some(seam) = seam(&restart)
        {
            self.weighed = Some(Weighed { weigher, transcript, largest, restart, seam, file });
        }
        Ok(status)
    }

    /// Reads appended records and returns the new status; `None` if something else changed.
    fn read_appended(&mut self, place: &Path) -> Option<WindowStatus> {
        // Taken, so that after any failure below the session is read from its beginning.
        let Weighed { mut weigher, transcript, largest, restart, seam: known, file } = self.weighed.take()?;
        let mut opened = File::open(place).ok()?;
        let is_same = FileId::of(&opened.metadata().ok()?) == Some(file);
        // The file may have been shorter than the number of compared bytes.
        if !is_same || !seam(&mut opened, &restart).ok()?.starts_with(&known) {
            return None;
        }
        let mut messages: Vec<Message> = Vec::new();
        let rest = visit_from(&restart, BufReader::new(opened), &mut |chain, message| {
            if chain == Chain::Main {
                messages.push(message);
            }
        });
        let rest = rest.ok()??;
        // A resumed session of Claude Code has several ids.
        let is_other = rest.info.id.is_some() && rest.info.id != transcript.info.id;
        if is_other && rest.format != Format::ClaudeCode {
            return None;
        }
        let largest = largest.max(RecordedFigures::of(&rest.recorded).largest_exchange);
        let transcript = merge(transcript, &rest);
        let next = rest.restart.unwrap_or_else(|| restart.clone());
        let messages = settle(&mut weigher, messages, Some(&next));
        if messages.is_empty() {
            return None;
        }
        let status = self.status(weigher.clone(), messages, &transcript, largest);
        let seam = seam(&mut File::open(place).ok()?, &next).ok()?;
        self.weighed = Some(Weighed { weigher, transcript, largest, restart: next, seam, file });
        Some(status)
    }

    fn status(
        &self,
        mut weigher: Weigher<'_>,
        rest: Vec<Message>,
        transcript: &Transcript,
        largest: Option<Tokens>,
    ) -> WindowStatus {
        rest.into_iter().for_each(|message| weigher.add(message));
        let figures = RecordedFigures { largest_exchange: largest, ..RecordedFigures::default() };
        let window = SessionWindow::of(transcript, &figures, self.config, self.asked);
        let info = &transcript.info;
        let found = weigher.finish(window.limits, info.directory.as_deref());
        WindowStatus {
            session: info.id.clone(),
            title: info.title.clone(),
            model: info.model.clone(),
            tokens: found.window,
            line: found.line,
            left: found.left(),
            percent: found.percent(),
            context: window.limits.context,
            messages: found.messages,
            measured: found.measured == MeasuredBy::Usage,
        }
    }
}

/// Returns the earliest time of the next read, after one that began at this time and has ended now.
fn rested(begun: Instant) -> Instant {
    Instant::now() + begun.elapsed() * IDLE_SHARE
}

/// Weighs the messages before the restart, and returns the others. If no message has the restart's id, weighs all.
fn settle(weigher: &mut Weigher<'_>, mut messages: Vec<Message>, restart: Option<&Restart>) -> Vec<Message> {
    let is_first = |message: &Message| restart.is_some_and(|restart| message.info.id == *restart.message());
    let place = messages.iter().position(is_first).unwrap_or(messages.len());
    let rest = messages.split_off(place);
    messages.into_iter().for_each(|message| weigher.add(message));
    rest
}

/// Adds the metadata of newly read records to that of a session.
fn merge(mut known: Transcript, rest: &Transcript) -> Transcript {
    let later = &rest.info;
    let info = &mut known.info;
    for (known, later) in [(&mut info.title, &later.title), (&mut info.model, &later.model)] {
        if later.is_some() {
            known.clone_from(later);
        }
    }
    info.context = later.context.or(info.context);
    known
}

fn seam(file: &mut File, restart: &Restart) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte earlier, to include the line break before it.
    file.seek(SeekFrom::Start(restart.offset().saturating_sub(1)))?;
    file.take(SEAM).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(metadata: &Metadata) -> Option<FileId> {
        use std::os::unix::fs::MetadataExt;
        metadata.is_file().then(|| FileId(metadata.dev(), metadata.ino()))
    }
}

/// Identity, size and time of a file, and of the write-ahead log if it is a database.
type Stamp = [Option<(FileId, u64, SystemTime)>; 2];

fn stamp(place: Option<&Path>) -> Stamp {
    let Some(place) = place else { return [None; 2] };
    let of = |path: &Path| -> Option<(FileId, u64, SystemTime)> {
        let metadata = std::fs::metadata(path).ok()?;
        Some((FileId::of(&metadata)?, metadata.len(), metadata.modified().ok()?))
    };
    // New messages are in the log of a database long before its file changes.
    let mut log = place.as_os_str().to_owned();
    log.push("-wal");
    [of(place), of(Path::new(&log))]
}
