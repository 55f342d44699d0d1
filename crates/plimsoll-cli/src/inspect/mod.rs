//! `plimsoll inspect`: what fills a session's window, and what was recorded.

mod render;

use std::path::Path;
use std::process::ExitCode;

use plimsoll_host::{Host, quoted};

use self::render::Page;
pub(crate) use self::render::cut_middle;
use crate::args::{InputArgs, InspectArgs};
use crate::error::CommandResult;
use crate::output::Output;

/// Shows the contents of a session's window.
pub(crate) fn run(args: &InspectArgs, host: &Host, output: &mut Output) -> CommandResult {
    let config = host.config(&args.input.policy.flags())?;
    let inspected = host.inspect(args.input.spec(), &config)?;
    if output.json {
        output.json(&inspected)?;
    } else {
        let session = named(&args.input);
        let page = Page { inspected: &inspected, width: output.width(), log: args.log, session };
        output.report(&page.render())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the arguments that named the session, for suggested commands; `None` if it was found by its directory or piped.
fn named(args: &InputArgs) -> Option<String> {
    let file = args.file.as_deref().filter(|file| *file != Path::new("-")).map(quoted);
    let id = args.session.as_ref().map(|id| format!("--session {}", quoted(Path::new(id))));
    let both: Vec<String> = file.into_iter().chain(id).collect();
    (!both.is_empty()).then(|| both.join(" "))
}
