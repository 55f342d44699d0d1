//! Sources of transcripts.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use plimsoll::Message;
use plimsoll_formats::database::Database;
use plimsoll_formats::{Chain, Transcript};
use plimsoll_store::{Session, Store};

use crate::error::ImportError;
use crate::find::{Found, SessionStorage};
use crate::stored::{self, Extent};

/// First bytes of SQLite databases, and Plimsoll's application id with its offset.
const SQLITE: &[u8] = b"SQLite format 3\0";
const OURS: &[u8] = b"Plim";
const HEADER: usize = 72;
const BUFFER: usize = 1 << 16;

/// Progress callback, with the number of bytes read so far.
pub type OnRead<'a> = &'a dyn Fn(u64);

/// A source of a transcript.
pub enum Source<'s> {
    /// A file.
    File(File),
    /// A reader that can be read only once, such as standard input.
    Stream(Box<dyn Read + 's>),
    /// One session of a file or stream that may contain several, by its id or a prefix of it.
    Session(Box<Source<'s>>, String),
    /// A session of a tool's database: the one with this id, or the newest.
    Row(Database, Option<String>),
    /// A session of a store.
    Stored(&'s dyn Store, Box<Session>),
}

/// Kind of a path.
pub enum FileKind {
    /// A directory.
    Directory,
    /// A Plimsoll store.
    Store,
    /// Another database; OpenCode's or goose's if it contains sessions.
    Database,
    /// A file that may be a transcript.
    Transcript(Source<'static>),
}

/// Determines the kind of a path by the first bytes of its file.
pub fn open(path: &Path) -> io::Result<FileKind> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Ok(FileKind::Directory);
    }
    let mut beginning = Vec::new();
    file.by_ref().take(HEADER as u64).read_to_end(&mut beginning)?;
    if beginning.starts_with(SQLITE) {
        return Ok(if beginning.ends_with(OURS) { FileKind::Store } else { FileKind::Database });
    }
    if !metadata.is_file() {
        let whole = Cursor::new(beginning).chain(file);
        return Ok(FileKind::Transcript(Source::Stream(Box::new(whole))));
    }
    file.rewind()?;
    Ok(FileKind::Transcript(Source::File(file)))
}

impl<'s> Source<'s> {
    /// Creates the source of a session that was found. Stored sessions are read from `store`.
    pub fn of(found: &Found, store: Option<&'s dyn Store>) -> Result<Source<'s>, ImportError> {
        match (&found.kept, store) {
            (SessionStorage::Stored(session), Some(store)) => Ok(Source::Stored(store, session.clone())),
            (SessionStorage::Row(_), _) => {
                Ok(Source::Row(Database::open(&found.path)?, Some(found.id.clone())))
            }
            (SessionStorage::File | SessionStorage::Stored(_), _) => {
                Ok(Source::File(File::open(&found.path)?))
            }
        }
    }

    /// Returns the number of bytes to read, if known.
    pub fn size(&self) -> Option<u64> {
        match self {
            Source::File(file) => file.metadata().ok().map(|metadata| metadata.len()),
            Source::Session(source, _) => source.size(),
            _ => None,
        }
    }

    /// Reads all messages or only those of the window. Only stored sessions distinguish the two.
    pub fn read(self, extent: Extent, on_read: OnRead<'_>) -> Result<Transcript, ImportError> {
        Ok(match self {
            Source::Stored(store, session) => stored::transcript(store, &session, extent)?,
            Source::File(file) => {
                plimsoll_formats::read(Counted::new(BufReader::with_capacity(BUFFER, file), on_read))?
            }
            Source::Stream(stream) => {
                plimsoll_formats::read(Counted::new(BufReader::with_capacity(BUFFER, stream), on_read))?
            }
            Source::Session(source, id) => match *source {
                Source::File(file) => {
                    let input = Counted::new(BufReader::with_capacity(BUFFER, file), on_read);
                    plimsoll_formats::read_session(input, &id)?
                }
                Source::Stream(stream) => {
                    let input = Counted::new(BufReader::with_capacity(BUFFER, stream), on_read);
                    plimsoll_formats::read_session(input, &id)?
                }
                other => other.read(extent, on_read)?,
            },
            Source::Row(database, id) => database.read(id.as_deref())?,
        })
    }

    /// Visits the messages one by one, first those of the session, then those of its sub-agents. Can be repeated. The
    /// returned transcript has no messages.
    pub fn visit(
        &mut self,
        on_read: OnRead<'_>,
        sink: &mut dyn FnMut(Chain, Message),
    ) -> Result<Transcript, ImportError> {
        if let Source::Stream(stream) = self {
            *self = Source::File(spooled(&mut Counted::new(BufReader::new(stream), on_read))?);
        }
        if let Source::Session(source, _) = self
            && let Source::Stream(stream) = source.as_mut()
        {
            **source = Source::File(spooled(&mut Counted::new(BufReader::new(stream), on_read))?);
        }
        Ok(match self {
            Source::Session(source, id) => match source.as_mut() {
                Source::File(file) => {
                    file.rewind()?;
                    let input = Counted::new(BufReader::with_capacity(BUFFER, file), on_read);
                    plimsoll_formats::visit_session(input, id, sink)?
                }
                other => other.visit(on_read, sink)?,
            },
            Source::File(file) => {
                file.rewind()?;
                plimsoll_formats::visit(Counted::new(BufReader::with_capacity(BUFFER, file), on_read), sink)?
            }
            Source::Row(database, id) => database.visit(id.as_deref(), sink)?,
            Source::Stored(store, session) => {
                stored::visit(*store, session, &mut |message| sink(Chain::Main, message))?
            }
            // Replaced by a copy in a file above.
            Source::Stream(_) => return Err(ImportError::Unsettled),
        })
    }
}

/// Copies a reader to a temporary file.
fn spooled(reader: &mut dyn Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(reader, &mut file)?;
    Ok(file)
}

/// A reader that reports its progress.
struct Counted<'a, R> {
    inner: R,
    at: u64,
    on_read: OnRead<'a>,
}

impl<'a, R> Counted<'a, R> {
    fn new(inner: R, on_read: OnRead<'a>) -> Counted<'a, R> {
        Counted { inner, at: 0, on_read }
    }

    fn advance(&mut self, at: u64) {
        self.at = at;
        (self.on_read)(at);
    }
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.advance(self.at + count as u64);
        Ok(count)
    }
}

impl<R: Seek> Seek for Counted<'_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = self.inner.seek(to)?;
        self.advance(at);
        Ok(at)
    }

    // The default implementation seeks, which would discard the reader's buffer.
    fn stream_position(&mut self) -> io::Result<u64> {
        self.inner.stream_position()
    }

    // Keeps the buffer for short seeks as well: readers of trees seek from record to record, and the default implementation
    // refills the buffer each time. A session of 100 MB was read 25 times because of that.
    fn seek_relative(&mut self, offset: i64) -> io::Result<()> {
        self.inner.seek_relative(offset)?;
        self.advance(self.at.saturating_add_signed(offset));
        Ok(())
    }
}

impl<R: BufRead> BufRead for Counted<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        self.advance(self.at + count as u64);
    }
}
