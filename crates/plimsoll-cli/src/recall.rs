//! `plimsoll recall`: what is out of the window, brought back or searched.

use std::process::ExitCode;

use plimsoll_store::{Recalled, Scope, Search, Selection, Session, StoreError};

use crate::args::RecallArgs;
use crate::error::CliError;
use crate::output::{Output, note, printable};
use crate::progress::Progress;
use crate::store::Opened;
use crate::style::{HEADING, QUIET, paint};
use crate::surroundings::Surroundings;

type Done = Result<ExitCode, CliError>;

/// Bring content back, or look for something in it.
pub(crate) fn run(args: &RecallArgs, around: &Surroundings, output: &mut Output) -> Done {
    let opened = Opened::usual(around)?;
    let search = args.grep.as_ref().map(|pattern| Search {
        pattern: pattern.clone(),
        literal: args.literal,
        ignore_case: args.ignore_case,
        context: args.context_lines,
    });
    // Bytes are bound enough for somebody who can ask for more of them.
    let ask = Selection { lines: args.lines, search, most_bytes: args.most, most_matches: usize::MAX };
    match (&args.handle, &args.session) {
        (Some(handle), session) => {
            let session = session.as_ref().map(|id| opened.session(id, around)).transpose()?;
            let scope = session.as_ref().map_or(Scope::Everywhere, |session| Scope::Session(&session.id));
            if args.raw {
                return copy(&opened, scope, handle, &ask, output);
            }
            recall(&opened, scope, handle, &ask, output)
        }
        (None, Some(_)) if ask.search.is_none() => {
            Err(CliError::usage("a session is searched with `--grep PATTERN`"))
        }
        (None, session) => {
            let chosen = session.is_none();
            let session = opened.chosen(session.as_deref(), around)?;
            if chosen {
                note(&format!("Plimsoll: `{}` in `{}`", session.id, around.short(&opened.path)));
            }
            everywhere(&opened, &session.id, &ask, output)
        }
    }
}

/// Write content as it is stored.
fn copy(opened: &Opened, scope: Scope<'_>, handle: &str, ask: &Selection, output: &mut Output) -> Done {
    struct Bytes<'a>(&'a mut Output);
    impl std::io::Write for Bytes<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.bytes(bytes).map(|()| bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            self.0.flush()
        }
    }
    let copied = opened.archive.copy_to(scope, handle, ask.lines, &mut Bytes(output));
    copied.map_err(|error| unknown(opened, handle, error, ask))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn recall(opened: &Opened, scope: Scope<'_>, handle: &str, ask: &Selection, output: &mut Output) -> Done {
    let recalled = Progress::during("recalling", || opened.archive.recall(scope, handle, ask));
    let recalled = recalled.map_err(|error| unknown(opened, handle, error, ask))?;
    let found = &recalled.found;
    let code = if ask.search.is_some() && found.matches == 0 { ExitCode::from(1) } else { ExitCode::SUCCESS };
    if output.json {
        output.json(&recalled)?;
        return Ok(code);
    }
    if recalled.handle != handle || scope == Scope::Everywhere {
        let (handle, what) = (printable(&recalled.handle), printable(&recalled.what));
        note(&format!("`{handle}`, {what}, in `{}`", recalled.session));
    }
    if ask.search.is_some() {
        lines(found, output)?;
    } else if !found.lines.is_empty() {
        output.text(&found.text())?;
    }
    output.flush()?;
    if let (Some((first, _)), true) = (ask.lines, found.lines.is_empty() && ask.search.is_none()) {
        note(&format!("there is no line {first}: it has {}", plimsoll::Tokens(found.all_lines)));
        return Ok(ExitCode::from(1));
    }
    if ask.search.is_some() && found.matches == 0 {
        note(&format!("nothing matches in {} lines", plimsoll::Tokens(found.all_lines)));
    }
    if found.lossy {
        note("bytes that are not UTF-8 are shown as `\u{fffd}`; `--raw` writes them as they are");
    }
    if found.cut {
        cut(ask);
    }
    Ok(code)
}

/// Why a handle names nothing.
fn unknown(opened: &Opened, handle: &str, error: StoreError, ask: &Selection) -> CliError {
    match error {
        StoreError::Missing { .. } if opened.sessions().is_ok_and(|all| is_session(&all, handle)) => {
            CliError::usage(format!("`{handle}` is a session, not a handle"))
                .hint(format!("`plimsoll recall --session {handle} --grep PATTERN` searches it"))
        }
        error => refused(error, ask),
    }
}

fn is_session(all: &[Session], id: &str) -> bool {
    all.iter().any(|session| session.id.as_str().starts_with(id))
}

fn everywhere(opened: &Opened, session: &plimsoll::SessionId, ask: &Selection, output: &mut Output) -> Done {
    let hits = Progress::during("searching", || opened.archive.search(session, ask));
    let hits = hits.map_err(|error| refused(error, ask))?;
    let code = if hits.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS };
    if output.json {
        output.json(&hits)?;
        return Ok(code);
    }
    for (at, hit) in hits.iter().enumerate() {
        if at > 0 {
            output.text("")?;
        }
        let tool = hit.tool.as_deref().map(|tool| format!("  {}", printable(tool)));
        output.painted(&format!(
            "{}{}",
            paint(HEADING, &printable(&hit.handle)),
            tool.unwrap_or_default()
        ))?;
        lines(&hit.found, output)?;
    }
    output.flush()?;
    if hits.is_empty() {
        note(&format!("nothing that is out of the window of `{session}` matches"));
    }
    if hits.iter().any(|hit| hit.found.cut) {
        cut(ask);
    }
    Ok(code)
}

/// Lines with their numbers: `12:` where it matches, `12-` around it, and `--` where some are left out.
fn lines(recalled: &Recalled, output: &mut Output) -> Result<(), CliError> {
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

fn cut(ask: &Selection) {
    let most = plimsoll::Tokens(ask.most_bytes as u64);
    note(&format!(
        "cut after {most} bytes; `--most BYTES` gives more, `--lines A-B` or `--grep` a part of it"
    ));
}

/// Why it was not brought back.
fn refused(error: StoreError, ask: &Selection) -> CliError {
    match (error, &ask.search) {
        (StoreError::Refused(why), Some(search)) if why.starts_with("invalid pattern") => {
            // The last line says what is wrong, those before it draw it.
            let problem = why.lines().last().unwrap_or(&why).trim_start_matches("error: ");
            CliError::usage(format!("invalid pattern `{}`: {problem}", search.pattern))
                .hint("`--literal` takes it as it is")
        }
        (error @ StoreError::Missing { .. }, _) => CliError::usage(error.to_string())
            .hint("handles are in what the window shows in place of content, and in `plimsoll receipts`"),
        (error, _) => error.into(),
    }
}
