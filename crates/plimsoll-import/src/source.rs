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

/// Start of every SQLite database, and Plimsoll's application id at its offset.
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
    /// Something that can be read only once, such as standard input.
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

/// Opens a path, and determines its kind by its first bytes.
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
    /// The source of a session that was found. Stored sessions are read from `store`.
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

    /// Number of bytes to read, if it is known.
    pub fn size(&self) -> Option<u64> {
        match self {
            Source::File(file) => file.metadata().ok().map(|metadata| metadata.len()),
            Source::Session(source, _) => source.size(),
            _ => None,
        }
    }

    /// Reads everything, or what the window is made of. Only a stored session distinguishes the two.
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
    /// transcript has everything except the messages.
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
            // It was copied to a file above.
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

    fn go_on(&mut self, at: u64) {
        self.at = at;
        (self.on_read)(at);
    }
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.go_on(self.at + count as u64);
        Ok(count)
    }
}

impl<R: Seek> Seek for Counted<'_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = self.inner.seek(to)?;
        self.go_on(at);
        Ok(at)
    }

    // Querying the position must not discard a reader's buffer.
    fn stream_position(&mut self) -> io::Result<u64> {
        self.inner.stream_position()
    }

    // Nor must a short seek: readers of trees seek from record to record, and the default implementation refills the
    // buffer each time. A session of 100 MB was read 25 times because of that.
    fn seek_relative(&mut self, offset: i64) -> io::Result<()> {
        self.inner.seek_relative(offset)?;
        self.go_on(self.at.saturating_add_signed(offset));
        Ok(())
    }
}

impl<R: BufRead> BufRead for Counted<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        self.go_on(self.at + count as u64);
    }
}
