//! `plimsoll recall`: what is out of the window, brought back or searched.

use std::process::ExitCode;

use plimsoll::policy::RecallPolicy;
use plimsoll::recall::{Lookup, RecallContent, RecallQuery};
use plimsoll::{Chars, Policy, SessionId};
use plimsoll_session::look_up;
use plimsoll_store::{Recalled, Scope, Search, Selection, Session, StoreError};

use crate::args::RecallArgs;
use crate::error::CliError;
use crate::output::{Output, counted, note, printable};
use crate::progress::Progress;
use crate::receipts;
use crate::store::Opened;
use crate::style::{QUIET, paint};
use crate::surroundings::Surroundings;

type Done = Result<ExitCode, CliError>;

/// The exit code if something could not be searched, whether or not the rest matches: as `grep` has it, which must not
/// be taken for a no.
const UNSEARCHED: u8 = 3;

/// Bring content back, or look for something in it.
pub(crate) fn run(args: &RecallArgs, around: &Surroundings, output: &mut Output) -> Done {
    let opened = Opened::usual(around)?;
    if let Some(receipt) = args.handle.as_deref().filter(|handle| handle.starts_with("rcp_")) {
        return of_receipt(receipt, &opened, args, around, output);
    }
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
            match &session {
                _ if args.raw => copy(&opened, scope, handle, &ask, output),
                Some(session) if !output.json => answer(&opened, &session.id, args, &ask, output),
                _ => recall(&opened, scope, handle, &ask, output),
            }
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
            if output.json {
                return hits(&opened, &session.id, &ask, output);
            }
            answer(&opened, &session.id, args, &ask, output)
        }
    }
}

/// Bring back what left the window by a receipt: its only handle, or a list of all.
fn of_receipt(
    id: &str,
    opened: &Opened,
    args: &RecallArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Done {
    let (_, receipt) = receipts::find(opened, id)?;
    let handles = plimsoll_store::handles(&receipt);
    match handles.as_slice() {
        [] => Err(CliError::no(format!("nothing can be recalled by `{}`: {}", receipt.id, receipt.plan))),
        [handle] => run(&RecallArgs { handle: Some(handle.clone()), ..args.clone() }, around, output),
        handles => {
            if output.json {
                output.json(&handles)?;
                return Ok(ExitCode::SUCCESS);
            }
            note(&format!(
                "`{}` has {}; `plimsoll recall` shows one",
                receipt.id,
                counted(handles.len(), "handle")
            ));
            handles.iter().try_for_each(|handle| output.text(&printable(handle)))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Answer within a session as its model would be answered.
fn answer(
    opened: &Opened,
    session: &SessionId,
    args: &RecallArgs,
    ask: &Selection,
    output: &mut Output,
) -> Done {
    let search = args.grep.as_ref().map(|pattern| pattern_of(pattern, args)).transpose()?;
    let (from, to) = args.lines.unzip();
    let query = RecallQuery { handle: args.handle.clone(), from, to, search, ..RecallQuery::default() };
    let policy = RecallPolicy {
        max_chars: Chars(args.most as u64),
        max_matches: u64::MAX,
        context_lines: args.context_lines as u64,
        ..Policy::default().recall.clone()
    };
    let found = Progress::during("recalling", || look_up(&opened.archive, session, &query, &policy));
    let found = found.map_err(|error| match &args.handle {
        Some(handle) => unknown(opened, handle, error, ask),
        None => refused(error, ask),
    })?;
    let (has_matched, is_partial) = match &found {
        Lookup::Found(content) => (content.excerpt.as_ref().is_none_or(|excerpt| excerpt.matches > 0), false),
        Lookup::Searched(contents) => {
            let is_unsearched = |content: &RecallContent| content.unsearched.is_some();
            (!contents.iter().all(is_unsearched), contents.iter().any(is_unsearched))
        }
        _ => (false, false),
    };
    let told = query.answer(&found, &policy);
    for line in told.text.lines() {
        output.text(&printable(line))?;
    }
    output.flush()?;
    if told.next.is_some() {
        // The answer says how a model goes on; a person has flags for it.
        note("there is more: `--lines A-B` or `--grep` chooses, `--most BYTES` gives more at once");
    }
    if is_partial {
        return Ok(ExitCode::from(UNSEARCHED));
    }
    let is_no = told.is_error || (query.search.is_some() && !has_matched);
    Ok(if is_no { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The regular expression that a query searches for.
fn pattern_of(pattern: &str, args: &RecallArgs) -> Result<String, CliError> {
    let pattern = if args.literal { regex::escape(pattern) } else { pattern.to_owned() };
    if let Err(error) = regex::Regex::new(&pattern) {
        return Err(invalid(&pattern, &error.to_string()));
    }
    Ok(if args.ignore_case { format!("(?i){pattern}") } else { pattern })
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

/// Everything of a session that is out of its window and matches, for programs.
fn hits(opened: &Opened, session: &SessionId, ask: &Selection, output: &mut Output) -> Done {
    let hits = Progress::during("searching", || opened.archive.search(session, ask));
    let hits = hits.map_err(|error| refused(error, ask))?;
    output.json(&hits)?;
    Ok(match hits.is_empty() {
        true => ExitCode::from(1),
        false if hits.iter().any(|hit| hit.unsearched.is_some()) => ExitCode::from(UNSEARCHED),
        false => ExitCode::SUCCESS,
    })
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

fn invalid(pattern: &str, why: &str) -> CliError {
    // The last line says what is wrong, those before it draw it.
    let problem = why.lines().last().unwrap_or(why).trim_start_matches("error: ");
    CliError::usage(format!("invalid pattern `{pattern}`: {problem}")).hint("`--literal` takes it as it is")
}

/// Why it was not brought back.
fn refused(error: StoreError, ask: &Selection) -> CliError {
    match (error, &ask.search) {
        (StoreError::Refused(why), Some(search)) if why.starts_with("invalid pattern") => {
            invalid(&search.pattern, &why)
        }
        (error @ StoreError::Missing { .. }, _) => CliError::usage(error.to_string())
            .hint("handles are in what the window shows in place of content, and in `plimsoll receipts`"),
        (error, _) => error.into(),
    }
}
