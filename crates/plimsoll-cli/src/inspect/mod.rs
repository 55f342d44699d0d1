//! `plimsoll inspect`: what is in a session's window, what of it was recorded, and where its tokens go.

mod render;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use plimsoll::Tokens;
use plimsoll::log::Note;
use plimsoll_formats::Transcript;
use plimsoll_host::{Host, RecordedFigures, SessionWindow, WindowSource, quoted};
use plimsoll_import::Scope;
use plimsoll_session::{Weigher, WindowReport};
use serde::Serialize;

use self::render::Page;
pub(crate) use self::render::cut_middle;
use crate::args::{InputArgs, InspectArgs};
use crate::error::CommandResult;
use crate::output::Output;

/// A session, weighed, and what it was read from.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Inspected {
    #[serde(flatten)]
    source: About,
    /// What its providers counted.
    recorded: RecordedFigures,
    /// The model's window, and how it is known.
    context: Tokens,
    context_source: WindowSource,
    #[serde(flatten)]
    report: WindowReport,
}

/// What a transcript is, and what of it was not shown to a model or not understood.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct About {
    format: String,
    session: Option<String>,
    title: Option<String>,
    model: Option<String>,
    directory: Option<String>,
    /// Sub-agents in the same file.
    side_chains: usize,
    /// Other sessions in the same file.
    other_sessions: usize,
    /// The last line is cut off.
    torn: bool,
    /// What was not understood, by kind.
    skipped: BTreeMap<String, u64>,
    /// Known records that hold nothing a model was shown, by kind.
    unused: BTreeMap<String, u64>,
    /// Values that are not what they should be: the first of them, and how many there are.
    notes: Vec<Note>,
    wrong_values: u64,
}

impl About {
    fn of(transcript: &Transcript) -> About {
        let Transcript { format, info, side_chains, other_sessions, skipped, unused, notes, torn, .. } =
            transcript;
        About {
            format: format.to_string(),
            session: info.id.clone(),
            title: info.title.clone(),
            model: info.model.clone(),
            directory: info.directory.clone(),
            side_chains: side_chains.len(),
            other_sessions: other_sessions.len(),
            torn: *torn,
            skipped: skipped.clone(),
            unused: unused.clone(),
            notes: notes.first().to_vec(),
            wrong_values: notes.count(),
        }
    }
}

/// The arguments that named a session, to be typed again; `None` if it was found by its directory or piped.
fn named(args: &InputArgs) -> Option<String> {
    let file = args.file.as_deref().filter(|file| *file != Path::new("-")).map(quoted);
    let id = args.session.as_ref().map(|id| format!("--session {}", quoted(Path::new(id))));
    let both: Vec<String> = file.into_iter().chain(id).collect();
    (!both.is_empty()).then(|| both.join(" "))
}

/// Show what is in the window of a session.
pub(crate) fn run(args: &InspectArgs, host: &Host, output: &mut Output) -> CommandResult {
    let config = host.config(&args.input.policy.flags())?;
    let mut weigher = Weigher::with_log(&config.policy);
    // It is weighed as it is read, so that it may be larger than the memory.
    let transcript = host.input(args.input.spec(), Scope::All)?.visit(&mut |message| weigher.add(message))?;
    let recorded = RecordedFigures::at(&transcript.recorded, transcript.info.started);
    let window = SessionWindow::of(&transcript, &recorded, &config, args.input.policy.context);
    let inspected = Inspected {
        source: About::of(&transcript),
        recorded,
        context: window.limits.context,
        context_source: window.source,
        report: weigher.finish(window.limits, transcript.info.directory.as_deref()),
    };
    if output.json {
        output.json(&inspected)?;
    } else {
        let session = named(&args.input);
        let page = Page { inspected: &inspected, width: output.width(), log: args.log, session };
        output.report(&page.render())?;
    }
    Ok(ExitCode::SUCCESS)
}
