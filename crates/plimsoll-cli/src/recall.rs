//! `plimsoll recall`: shows or searches content outside the window.

use std::io::{self, Write};
use std::process::ExitCode;

use plimsoll::{SessionId, Tokens};
use plimsoll_host::{Host, HostError, OpenStore, RecallRequest, is_receipt_id};
use plimsoll_store::{Recalled, Scope, Search};

use crate::args::RecallArgs;
use crate::error::CommandResult;
use crate::output::{Output, counted, note, printable};
use crate::style::{QUIET, paint};

/// Exit code if some content could not be searched, whether or not the rest matched: as in `grep`, this must not be mistaken
/// for a negative result.
const UNSEARCHED: u8 = 3;

/// Shows content, or searches it.
pub(crate) fn run(args: &RecallArgs, host: &Host, output: &mut Output) -> CommandResult {
    let opened = host.open_default()?;
    let mut handle = args.handle.clone();
    if let Some(receipt) = args.handle.as_deref().filter(|handle| is_receipt_id(handle)) {
        // A receipt with one handle recalls it; with several it lists them.
        let (receipt, handles) = opened.receipt_handles(receipt)?;
        let [one] = handles.as_slice() else {
            if output.json {
                output.json(&handles)?;
                return Ok(ExitCode::SUCCESS);
            }
            let count = counted(handles.len(), "handle");
            note(&format!("`{}` has {count}; pass one to `plimsoll recall`", receipt.id));
            handles.iter().try_for_each(|handle| output.text(&printable(handle)))?;
            return Ok(ExitCode::SUCCESS);
        };
        handle = Some(one.clone());
    }
    let search = args.grep.as_ref().map(|pattern| Search {
        pattern: pattern.clone(),
        literal: args.fixed_strings,
        ignore_case: args.ignore_case,
        context: args.context_lines,
    });
    let request = RecallRequest { handle, lines: args.lines, search, max_bytes: args.max_bytes };
    let Some(handle) = request.handle.as_deref() else {
        return search_session(&opened, args, &request, host, output);
    };
    let session = args.session.as_ref().map(|id| opened.session(id, host)).transpose()?;
    let scope = session.as_ref().map_or(Scope::Everywhere, |session| Scope::Session(&session.id));
    match &session {
        _ if args.raw => {
            opened.copy_content(scope, handle, &request, &mut Bytes(output))?;
            output.flush()?;
            Ok(ExitCode::SUCCESS)
        }
        Some(session) if !output.json => answer(&opened, &session.id, &request, host, output),
        _ => recall(&opened, scope, handle, &request, host, output),
    }
}

/// Searches the content outside the window of a session.
fn search_session(
    opened: &OpenStore,
    args: &RecallArgs,
    request: &RecallRequest,
    host: &Host,
    output: &mut Output,
) -> CommandResult {
    if args.session.is_some() && request.search.is_none() {
        return Err(HostError::usage("recalling from a session needs a handle or `--grep PATTERN`"));
    }
    let session = opened.session_or_newest(args.session.as_deref(), host)?;
    if args.session.is_none() {
        note(&format!("Plimsoll: `{}` in `{}`", session.id, host.short(&opened.path)));
    }
    if !output.json {
        return answer(opened, &session.id, request, host, output);
    }
    let hits = opened.search_content(&session.id, request, host)?;
    output.json(&hits)?;
    Ok(match hits.is_empty() {
        true => ExitCode::from(1),
        false if hits.iter().any(|hit| hit.unsearched.is_some()) => ExitCode::from(UNSEARCHED),
        false => ExitCode::SUCCESS,
    })
}

/// Answers within a session as its model would be answered.
fn answer(
    opened: &OpenStore,
    session: &SessionId,
    request: &RecallRequest,
    host: &Host,
    output: &mut Output,
) -> CommandResult {
    let answer = opened.recall_text(session, request, host)?;
    for line in answer.text.lines() {
        output.text(&printable(line))?;
    }
    output.flush()?;
    if answer.has_more {
        // The answer says how a model continues; the user has flags for it.
        note("output truncated; select with `--lines A-B` or `--grep`, or raise `--max-bytes`");
    }
    Ok(match (answer.is_partial, answer.is_negative) {
        (true, _) => ExitCode::from(UNSEARCHED),
        (false, true) => ExitCode::from(1),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Standard output for unmodified bytes.
struct Bytes<'a>(&'a mut Output);

impl Write for Bytes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.bytes(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn recall(
    opened: &OpenStore,
    scope: Scope<'_>,
    handle: &str,
    request: &RecallRequest,
    host: &Host,
    output: &mut Output,
) -> CommandResult {
    let recalled = opened.recall(scope, handle, request, host)?;
    let (found, is_search) = (&recalled.found, request.search.is_some());
    let code = if is_search && found.matches == 0 { ExitCode::from(1) } else { ExitCode::SUCCESS };
    if output.json {
        output.json(&recalled)?;
        return Ok(code);
    }
    if recalled.handle != handle || scope == Scope::Everywhere {
        let (handle, what) = (printable(&recalled.handle), printable(&recalled.what));
        note(&format!("`{handle}`, {what}, in `{}`", recalled.session));
    }
    if is_search {
        lines(found, output)?;
    } else if !found.lines.is_empty() {
        output.text(&found.text())?;
    }
    output.flush()?;
    let all = Tokens(found.all_lines);
    if let (Some((first, _)), true) = (request.lines, found.lines.is_empty() && !is_search) {
        note(&format!("line {first} does not exist: the content has {all} lines"));
        return Ok(ExitCode::from(1));
    }
    if is_search && found.matches == 0 {
        note(&format!("no match in {all} lines"));
    }
    if found.lossy {
        note("bytes that are not UTF-8 are shown as `\u{fffd}`; `--raw` writes them unchanged");
    }
    if found.cut {
        let most = Tokens(request.max_bytes as u64);
        note(&format!(
            "truncated after {most} bytes; raise `--max-bytes`, or select with `--lines A-B` or `--grep`"
        ));
    }
    Ok(code)
}

/// Prints lines with their numbers: `12:` for a match, `12-` for context, and `--` for a gap.
fn lines(recalled: &Recalled, output: &mut Output) -> Result<(), HostError> {
    let mut before: Option<u64> = None;
    for line in &recalled.lines {
        if before.is_some_and(|before| before + 1 < line.number)
            && recalled.lines.iter().any(|line| !line.is_match)
        {
            output.text("--")?;
        }
        let sign = if line.is_match { ':' } else { '-' };
        let number = paint(QUIET, &format!("{}{sign}", line.number));
        output.painted(&format!("{number}{}", printable(&line.text)))?;
        before = Some(line.number);
    }
    Ok(())
}
