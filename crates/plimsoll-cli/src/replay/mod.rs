//! `plimsoll replay`: what each policy would have done to recorded sessions.

mod chart;
mod figures;
mod finding;
mod listing;
mod page;
mod show;

use std::path::Path;
use std::process::ExitCode;

use plimsoll_host::{
    Existing, Host, HostError, InputSpec, ReplayRequest, SessionReplay, WindowSource, require_absent, write,
};

use crate::args::{InputArgs, PolicyArgs, ReplayArgs};
use crate::error::{CommandResult, print_all_but_worst, print_error};
use crate::output::{Output, note};

/// Replays sessions and shows the results.
pub(crate) fn replay(args: &ReplayArgs, host: &Host, output: &mut Output) -> CommandResult {
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    // Checked before the work, not after it.
    args.html.as_deref().map_or(Ok(()), |file| require_absent(file, existing))?;
    let request = ReplayRequest {
        stop: None,
        policies: args.policy.clone(),
        context: args.context,
        output: args.max_output,
        overhead: args.overhead,
        price: args.price_as.clone(),
        prices: args.prices.clone(),
        cache_minutes: args.cache_minutes,
    };
    if args.list_policies || args.list_prices {
        let (rules, prices) = (host.replay_rules(&request.policies)?, request.prices()?);
        if args.list_policies {
            listing::policies(&rules, output)?;
        } else {
            let inputs = args.files.iter().map(|file| input_of(args, Some(file))).collect();
            let models = host.priced_models(inputs, &request, &prices)?;
            listing::prices(&prices, &models, output)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let inputs = match args.files.as_slice() {
        [] => vec![input_of(args, None)],
        files => files.iter().map(|file| input_of(args, Some(file))).collect(),
    };
    let (replays, failed) = host.replay(inputs, &request)?;
    // One bad file among many does not stop the others, but it is reported.
    if replays.sessions.is_empty() {
        return print_all_but_worst(failed).map_or(Ok(ExitCode::SUCCESS), Err);
    }
    failed.iter().for_each(print_error);
    if let Some(file) = &args.html {
        write(file, page::page(&replays, &request.prices()?).as_bytes(), existing)
            .map_err(|error| HostError::failed(format!("cannot write `{}`: {error}", file.display())))?;
        note(&format!("wrote `{}`", file.display()));
    }
    if output.json {
        output.json(&replays)?;
    } else {
        show::show(&replays, args.per_session, output)?;
    }
    Ok(if failed.iter().any(HostError::is_failure) { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// Returns one of the inputs, as other commands read theirs.
fn input_of(args: &ReplayArgs, source: Option<&Path>) -> InputSpec {
    let (file, session) = (source.map(Path::to_path_buf), args.session.clone());
    InputArgs { file, session, strict: args.strict, policy: PolicyArgs::default() }.spec()
}

/// Formats the window that a session was replayed in, and whether it is a guess.
fn window_words(session: &SessionReplay) -> String {
    let context = figures::count(session.context);
    match session.context_source {
        WindowSource::LargestRequest => {
            format!("in a window of {context} tokens ({})", session.context_source.words())
        }
        _ => format!("in a window of {context} tokens"),
    }
}
