//! `read`: reads a file by lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::Path;

use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, MAX_FILE_BYTES, Subject, open_file};
use serde_json::{Value, json};

use super::files;
use super::write::path_of;
use crate::agent::{Tool, ToolCall, ToolError, number};

/// Default number of lines.
const LINES: u64 = 2_000;
/// A file with a zero byte among this many first bytes counts as binary.
const LOOK: usize = 8_192;

/// Reads a file.
pub struct Read {
    spec: ToolSpec,
}

impl Read {
    /// Creates the tool.
    pub fn new() -> Read {
        let description = format!(
            "Reads a text file. Each line is prefixed with its line number and a tab. Returns the first {LINES} lines by \
             default; use `offset` and `limit` for other lines."
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path of the file, absolute or relative to the project directory."},
                "offset": {"type": "integer", "minimum": 1, "description": "Number of the first line to read, from 1. Default: 1."},
                "limit": {"type": "integer", "minimum": 1, "description": "Maximum number of lines to read."}
            },
            "required": ["path"]
        });
        Read { spec: ToolSpec { name: "read".into(), description, schema } }
    }
}

impl Default for Read {
    fn default() -> Read {
        Read::new()
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Read
    }

    fn subject(&self, input: &Value, directory: &Path) -> Result<Subject, ToolError> {
        files::subject_of(path_of(input)?, directory)
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let path = call.path()?;
        let name = files::display_path(path, call.directory);
        if path.is_dir() {
            return Err(ToolError::Input(format!("`{name}` is a directory: use `list`")));
        }
        let failed = |error| files::cannot_read(path, call, &error);
        let file = open_file(path).map_err(failed)?;
        // A file that is too large to be changed is not hashed.
        let is_on = file.metadata().map_err(failed)?.len() <= MAX_FILE_BYTES;
        let file = files::Cancellable::new(file, call.cancel);
        let hashed = Hashed { file, hasher: blake3::Hasher::new(), is_on };
        let mut reader = BufReader::with_capacity(LOOK, hashed);
        let beginning = reader.fill_buf().map_err(failed)?;
        if beginning.starts_with(b"\xff\xfe") || beginning.starts_with(b"\xfe\xff") {
            return Err(ToolError::Failed(format!(
                "`{name}` is text in UTF-16; with `bash`, `iconv -f UTF-16 -t UTF-8 FILE` shows it"
            )));
        }
        if beginning.contains(&0) {
            return Err(ToolError::Failed(format!("`{name}` is a binary file")));
        }
        let first = number(call.input, "offset")?.unwrap_or(1).max(1);
        let most = number(call.input, "limit")?.unwrap_or(LINES);
        let (mut line, mut place) = (Vec::new(), 0_u64);
        loop {
            line.clear();
            // Bounded, so that a file with one endless line is not read into memory.
            let read = (&mut reader).take(1 << 20).read_until(b'\n', &mut line).map_err(failed)?;
            if read == 0 {
                break;
            }
            if call.cancel.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            place += 1;
            if place < first {
                continue;
            }
            if place - first >= most {
                let left = format!("[There are more lines: continue with offset {place}.]\n");
                out.write_all(left.as_bytes())?;
                break;
            }
            write!(out, "{place}\t")?;
            out.write_all(&line)?;
            if !line.ends_with(b"\n") {
                out.write_all(b"\n")?;
            }
        }
        if place < first {
            let what = if place == 0 { "is empty".to_owned() } else { format!("has only {place} lines") };
            writeln!(out, "[`{name}` {what}.]")?;
        }
        if reader.get_ref().is_on {
            // The rest of the file is hashed too, because a later change is checked against the whole file.
            std::io::copy(&mut reader, &mut std::io::sink()).map_err(failed)?;
            call.note_seen(path, reader.into_inner().hasher.finalize())?;
        }
        Ok(())
    }
}

/// Hashes a file while it is read.
struct Hashed<'a> {
    file: files::Cancellable<'a, File>,
    hasher: blake3::Hasher,
    is_on: bool,
}

impl std::io::Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        if self.is_on {
            self.hasher.update(&buffer[..count]);
        }
        Ok(count)
    }
}
