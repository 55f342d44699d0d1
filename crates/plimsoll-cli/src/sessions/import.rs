//! `plimsoll sessions import`: stores transcripts as sessions.

use std::process::ExitCode;

use plimsoll_host::{Flags, Host, Importer};

use crate::args::{ImportArgs, InputArgs, PolicyArgs};
use crate::error::{CommandResult, print_all_but_worst};
use crate::output::Output;

/// Stores sessions, or updates stored ones.
pub(super) fn run(args: &ImportArgs, host: &Host, output: &mut Output) -> CommandResult {
    let config = host.config(&Flags::default())?;
    let mut importer = Importer::new(host, &config);
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for file in &args.files {
        let (file, session) = (Some(file.clone()), args.session.clone());
        let input = InputArgs { file, session, strict: args.strict, policy: PolicyArgs::default() };
        match importer.import(input.spec(), args.duplicate) {
            Ok(report) => {
                if !output.json {
                    output.text(report.id.as_str())?;
                    output.flush()?;
                }
                all.push(report);
            }
            Err(error) => failed.push(error),
        }
    }
    if output.json {
        output.json(&all)?;
    }
    // A bad file is reported, but does not stop the others.
    print_all_but_worst(failed).map_or(Ok(ExitCode::SUCCESS), Err)
}
