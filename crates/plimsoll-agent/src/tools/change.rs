//! Changes of files by `write` and `edit`.

use std::io;
use std::path::Path;

use plimsoll_sandbox::{FileContent, FileEntry, ReplaceError};
use plimsoll_session::FileChange;
use similar::TextDiff;

use super::files;
use crate::agent::{ToolCall, ToolError};
use crate::event::Event;
use crate::ledger::FileLedger;

/// Returns the content of a file that is about to be changed, if the model has seen it; `None` if the file does not
/// exist.
pub(super) fn known_content(call: &ToolCall<'_>) -> Result<Option<FileContent>, ToolError> {
    known_content_at(call.path()?, call.directory, call.files)
}

/// Like [`known_content`], before the call is made.
pub(super) fn known_content_at(
    path: &Path,
    directory: &Path,
    ledger: &FileLedger,
) -> Result<Option<FileContent>, ToolError> {
    let name = files::display_path(path, directory);
    let failed = |error: io::Error| ToolError::Failed(format!("cannot change `{name}`: {error}"));
    if path.is_dir() {
        return Err(ToolError::Input(format!("`{name}` is a directory")));
    }
    let Some(place) = FileEntry::find(path).map_err(failed)? else { return Ok(None) };
    let Some(content) = place.read().map_err(failed)? else { return Ok(None) };
    match ledger.seen(path) {
        None => Err(ToolError::Failed(format!(
            "`{name}` exists and you have not read it: `read` it first, then make the change"
        ))),
        Some(seen) if seen != *content.hash().as_bytes() => Err(stale(&name)),
        Some(_) if !place.may_write() => Err(ToolError::Failed(format!("`{name}` is not writable"))),
        Some(_) => Ok(Some(content)),
    }
}

fn stale(name: &str) -> ToolError {
    ToolError::Failed(format!(
        "`{name}` was changed since you last read or wrote it: `read` it again, then make the change"
    ))
}

/// Stores the old content, records the change, and makes it.
pub(super) fn change_file(
    call: &ToolCall<'_>,
    old: Option<&FileContent>,
    new: &[u8],
) -> Result<(), ToolError> {
    let path = call.path()?;
    let name = files::display_path(path, call.directory);
    let failed = |error: io::Error| ToolError::Failed(format!("cannot change `{name}`: {error}"));
    if call.cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let after = blake3::hash(new);
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| ToolError::Failed(format!("the name of `{name}` is not valid UTF-8")))
    };
    let directories = FileEntry::missing_directories(path).map_err(failed)?;
    let change = FileChange {
        path: text(path)?,
        before: old.map(|old| old.hash().to_hex().to_string()),
        after: Some(after.to_hex().to_string()),
        mode: old.map(|old| old.mode),
        directories: directories.iter().map(|directory| text(directory)).collect::<Result<_, _>>()?,
    };
    let keep = call.record.keep_file(&change, old.map(|old| old.bytes.clone()));
    call.runtime.block_on(keep).map_err(|error| {
        ToolError::Failed(format!("`{name}` was not changed because its content cannot be stored: {error}"))
    })?;
    (call.events)(&Event::FileKept {
        part: call.part.clone(),
        path: path.to_owned(),
        handle: change.handle(call.part),
    });
    let place = FileEntry::create_directories(path).map_err(failed)?;
    match place.replace(old, new, None) {
        Ok(()) => {
            call.files.note(path, *after.as_bytes());
            Ok(())
        }
        Err(ReplaceError::Changed) => Err(stale(&name)),
        Err(error) => Err(ToolError::Failed(format!("cannot change `{name}`: {error}"))),
    }
}

/// Returns a change as removed and added lines, for the user. It is complete; the host decides how much fits the
/// screen.
pub(super) fn diff(old: &[u8], new: &[u8]) -> String {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let diff = TextDiff::configure().timeout(std::time::Duration::from_millis(500)).diff_lines(&*old, &*new);
    diff.unified_diff().context_radius(3).to_string()
}
