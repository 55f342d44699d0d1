//! Reading a session from a restart on.

use std::io::{BufRead, Seek, SeekFrom};

use plimsoll::{Message, PartBody};

use super::visit_restarted;
use crate::error::FormatError;
use crate::restart::Restart;
use crate::transcript::{Chain, Transcript};

/// Visits a session from a restart on, as [`visit`](crate::visit) would after all earlier records. The transcript contains
/// the metadata of these records, the next restart, and counts of faults and unused records for these records only.
///
/// Returns `None` if a record refers to earlier ones: a compaction, a rollback, another branch, the result of an earlier
/// call. In that case the messages that `sink` has received do not count.
///
/// ```
/// use std::io::Cursor;
/// use plimsoll_formats::{visit, visit_from};
/// let mut file = String::from(concat!(
///     r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"Hello"}}"#, "\n",
///     r#"{"type":"assistant","uuid":"2","parentUuid":"1","message":{"content":[{"type":"text","text":"Hi"}]}}"#, "\n",
/// ));
/// let restart = visit(Cursor::new(&file), &mut |_, _| {})?.restart.unwrap();
///
/// file.push_str(r#"{"type":"user","uuid":"3","parentUuid":"2","message":{"content":"How are you?"}}"#);
/// let mut texts = Vec::new();
/// let read = visit_from(&restart, Cursor::new(&file), &mut |_, message| texts.push(message.text()))?;
/// assert!(read.is_some());
/// assert_eq!(texts, ["Hi", "How are you?"]);
/// # Ok::<(), plimsoll_formats::FormatError>(())
/// ```
pub fn visit_from(
    restart: &Restart,
    mut input: impl BufRead + Seek,
    sink: &mut dyn FnMut(Chain, Message),
) -> Result<Option<Transcript>, FormatError> {
    input.seek(SeekFrom::Start(restart.offset))?;
    let (mut first, mut reaches_back) = (None, false);
    let mut transcript = visit_restarted(restart, input, &mut |chain, message| {
        if chain == Chain::Main {
            first.get_or_insert_with(|| message.info.id.clone());
            let result = |part: &plimsoll::Part| matches!(part.body, PartBody::ToolResult(_));
            reaches_back |= message.marker().is_some() || message.parts.iter().any(result);
        }
        sink(chain, message);
    })?;
    // The first record has a parent that is not read, unless it is the first of all.
    let missing = transcript.skipped.get("missing parent").copied().unwrap_or(0);
    reaches_back |= first.as_ref() != Some(&restart.message) || missing > 1;
    reaches_back |= !transcript.other_sessions.is_empty();
    reaches_back |= transcript.unused.contains_key("event_msg/thread_rolled_back");
    if let Some(next) = &mut transcript.restart {
        next.offset += restart.offset;
    }
    Ok((!reaches_back).then_some(transcript))
}
