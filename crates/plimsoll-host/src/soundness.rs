//! Notices about unknown records and invalid values in transcripts.

use plimsoll::log::{Note, Notes};
use plimsoll_formats::Transcript;

use crate::error::HostError;
use crate::host::Host;
use crate::words::counted;

/// Maximum number of list items in a notice.
const SHOWN: usize = 5;

/// Reports that a session is empty, which is not an error.
pub(crate) fn report_if_empty(name: &str, messages: usize, transcript: &Transcript, host: &Host) {
    if messages == 0 && transcript.side_chains.is_empty() {
        host.info(format!("{name} is an empty session"));
    }
}

/// Reports unknown records and invalid values, or fails if the transcript must be strict.
pub(crate) fn check(transcript: &Transcript, name: &str, strict: bool, host: &Host) -> Result<(), HostError> {
    let unknown: Vec<String> =
        transcript.skipped.iter().map(|(kind, count)| format!("{count} of `{kind}`")).collect();
    let unknown = unknown.join(", ");
    let mut all = transcript.notes.clone();
    transcript.side_chains.iter().for_each(|chain| all.append(&chain.notes));
    let (wrong, notes) = (wrong_values(&all), all.first());
    if strict && !unknown.is_empty() {
        let message = format!("{name} has records of unknown kinds: {unknown}");
        return Err(HostError::failed(message).hint("omit `--strict` to skip them"));
    }
    if let (true, Some(Note { at, problem, .. })) = (strict, notes.first()) {
        let message = format!("{name} has {wrong}, the first at {at}: {problem}");
        return Err(HostError::failed(message).hint("omit `--strict` to read the rest"));
    }
    if !unknown.is_empty() {
        let broken = transcript.broken.as_ref();
        let place = broken.map(|broken| format!(" (line {}: {})", broken.line, problem(&broken.problem)));
        let place = place.unwrap_or_default();
        host.note(format!("{name} has records of unknown kinds: {unknown}{place}"));
    }
    if !notes.is_empty() {
        host.note(format!("{name} has {wrong}:"));
        notes.iter().take(SHOWN).for_each(|each| host.info(format!("  {each}")));
        let more = all.count().saturating_sub(SHOWN as u64);
        if more > 0 {
            host.info(format!("  and {more} more; `plimsoll inspect --json` lists them"));
        }
    }
    if !transcript.other_sessions.is_empty() {
        let all = counted(transcript.other_sessions.len() + 1, "session");
        let own = transcript.info.id.as_deref().unwrap_or("without an id");
        let ids: Vec<&str> = transcript.other_sessions.iter().filter_map(|info| info.id.as_deref()).collect();
        let more = match ids.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        host.note(format!(
            "{name} contains {all}; using `{own}`, not {}{more} (choose another with `--session`)",
            ids[..ids.len().min(SHOWN)].join(", ")
        ));
    }
    if transcript.torn {
        host.note(format!("the last line of {name} is incomplete; the session may still be written to"));
    }
    Ok(())
}

/// Formats the number of invalid values.
fn wrong_values(notes: &Notes) -> String {
    match notes.count() {
        1 => "1 invalid value".to_owned(),
        count => format!("{count} invalid values"),
    }
}

/// Strips the position from a JSON error. Each line is parsed separately, so it always says line 1; the caller adds the real one.
fn problem(text: &str) -> &str {
    text.split(" at line 1 column ").next().unwrap_or(text)
}
