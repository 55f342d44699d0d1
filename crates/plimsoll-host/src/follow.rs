//! A session that is followed while it grows.
//!
//! Sessions of Claude Code, Codex and pi are files that are appended to: only what came since the newest message is read.
//! Everything else is read from its beginning: databases, documents that are rewritten each time, and a file in which
//! something reached back, was cut, or was replaced.

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

/// Maximum number of messages that wait until it is known where reading can be resumed.
const MOST_WAITING: usize = 512;
/// Reading takes at most one part in this many of the time.
const IDLE_SHARE: u32 = 10;
/// Number of bytes at a restart that are compared, to see whether the file is still the one that was read.
const SEAM: u64 = 1 << 10;

/// How far a session is from its line.
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
    /// Tokens left until the line; 0 beyond it.
    pub left: Option<Tokens>,
    /// Share of the line that is used, in percent.
    pub percent: Option<u64>,
    /// The model's window.
    pub context: Tokens,
    /// Number of messages in the log.
    pub messages: usize,
    /// Whether `tokens` is known from recorded usage, rather than estimated.
    pub measured: bool,
}

/// Follows a session.
pub struct Follower<'a> {
    host: &'a Host,
    config: &'a HostConfig,
    spec: &'a dyn Fn() -> InputSpec,
    /// The context window that the user named.
    asked: Option<u64>,
    seen: Option<Seen>,
    weighed: Option<Weighed<'a>>,
    /// When the session may be looked at again, and when it may be read from its beginning.
    next_look: Instant,
    next_whole: Instant,
}

/// State of the file or database when it was last read.
struct Seen {
    name: String,
    place: Option<PathBuf>,
    stamp: Stamp,
}

/// The part of a session that was read, up to where reading can be resumed.
struct Weighed<'a> {
    weigher: Weigher<'a>,
    transcript: Transcript,
    largest: Option<Tokens>,
    restart: Restart,
    /// The bytes of the file at the restart, and which file it is.
    seam: Vec<u8>,
    file: FileId,
}

impl<'a> Follower<'a> {
    /// Creates a follower of what `spec` names. A stream is read once.
    pub fn new(host: &'a Host, config: &'a HostConfig, spec: &'a dyn Fn() -> InputSpec) -> Follower<'a> {
        let now = Instant::now();
        let (next_look, next_whole) = (now, now);
        Follower { host, config, spec, asked: None, seen: None, weighed: None, next_look, next_whole }
    }

    /// Reads the session from its beginning.
    pub fn read(&mut self) -> Result<WindowStatus, HostError> {
        let begun = Instant::now();
        let spec = (self.spec)();
        self.asked = spec.flags.context;
        let input = self.host.input(spec, Scope::All)?;
        // Before it is read: what is written meanwhile is found by the next look.
        let seen = Seen {
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

    /// Returns the status if something was written since or, with `for_newer`, if another session is the newest.
    ///
    /// Neither takes more than a share of the time: a look that took long is not repeated soon, and a session that has to
    /// be read from its beginning waits longer the longer that takes.
    pub fn look(&mut self, for_newer: bool) -> Option<Result<WindowStatus, HostError>> {
        let begun = Instant::now();
        if begun < self.next_look {
            return None;
        }
        let whole = self.next_whole;
        let looked = self.look_now(for_newer);
        // After a whole reading what was appended can be read at once.
        if self.next_whole == whole {
            self.next_look = rested(begun);
        }
        looked
    }

    fn look_now(&mut self, for_newer: bool) -> Option<Result<WindowStatus, HostError>> {
        let may_read = Instant::now() >= self.next_whole;
        let Some(Seen { name, place, stamp: then }) = &self.seen else {
            return may_read.then(|| self.read());
        };
        let is_newer = || {
            let spec = (self.spec)();
            matches!(spec.source, InputSource::Newest)
                && self.host.input(spec, Scope::All).is_ok_and(|input| input.name != *name)
        };
        if for_newer && is_newer() {
            // However long the one before took.
            return Some(self.read());
        }
        // Without a file the session came from a stream, which is read once.
        let place = place.clone()?;
        let now = stamp(Some(&place));
        if now == *then {
            return None;
        }
        if let Some(status) = self.go_on(&place) {
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
            if waiting.len() > MOST_WAITING
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

    /// Returns the status after what was appended, if only something was appended.
    fn go_on(&mut self, place: &Path) -> Option<WindowStatus> {
        let Weighed { mut weigher, transcript, largest, restart, seam: known, file } = self.weighed.take()?;
        let mut opened = File::open(place).ok()?;
        let is_same = FileId::of(&opened.metadata().ok()?) == Some(file);
        // The file may have ended within the seam.
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
        // A session of Claude Code that was resumed has several ids.
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

/// When something that was begun then, and is done now, may be done again.
fn rested(begun: Instant) -> Instant {
    Instant::now() + begun.elapsed() * IDLE_SHARE
}

/// Weighs the messages before the restart, and returns the others. If the restart is not among the messages, all are weighed.
fn settle(weigher: &mut Weigher<'_>, mut messages: Vec<Message>, restart: Option<&Restart>) -> Vec<Message> {
    let is_first = |message: &Message| restart.is_some_and(|restart| message.info.id == *restart.message());
    let place = messages.iter().position(is_first).unwrap_or(messages.len());
    let rest = messages.split_off(place);
    messages.into_iter().for_each(|message| weigher.add(message));
    rest
}

/// Updates what is known about a session after more of it was read.
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
    // With the end of the line before it.
    file.seek(SeekFrom::Start(restart.offset().saturating_sub(1)))?;
    file.take(SEAM).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Which file it is, whatever it is called.
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
    let mut log = place.as_os_str().to_owned();
    log.push("-wal");
    [of(place), of(Path::new(&log))]
}
