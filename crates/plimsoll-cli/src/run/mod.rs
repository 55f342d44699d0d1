//! `plimsoll run`: an agent works on a prompt, and its answer is printed.

pub(crate) mod tell;

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_agent::{Agent, AgentError, RunEnd, RunReport, Stop};
use tokio_util::sync::CancellationToken;

use crate::agent::{Setup, agent_in, failed, open};
use crate::args::RunArgs;
use crate::error::CliError;
use crate::interrupt;
use crate::output::{Output, note};
use crate::store::{self, Opened};
use crate::surroundings::Surroundings;

use tell::Teller;

/// So long background tasks have to stop when the command ends.
pub(crate) const TASKS_STOP: Duration = Duration::from_secs(10);

/// Run an agent.
pub(crate) fn run(args: &RunArgs, around: &Surroundings, output: &mut Output) -> Result<ExitCode, CliError> {
    let prompt = prompt_of(args)?;
    let setup = Setup::load(&args.agent, around)?;
    let (opened, session) = setup.open()?;
    let overrides = match &session {
        Some(id) => setup.overrides_for(&opened, id)?,
        None => setup.overrides(),
    };
    let mut agent = setup.agent(&opened, &overrides)?;
    let cancel = CancellationToken::new();
    interrupt::cancel_first(cancel.clone());
    let teller = Arc::new(Teller::new(output.json, args.agent.thinking));
    let told = Arc::clone(&teller);
    agent.events = Arc::new(move |event| told.tell(event));
    let board = setup.board(&opened, None, Arc::clone(&agent.events));
    if board.limits().depth > 0 {
        agent = agent.with_tasks(&board);
    }
    // The process ends with the run, and its tasks with the process: they are waited for.
    agent.profile.awaits_tasks = true;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if let Some(id) = &session {
        agent = runtime.block_on(agent_in(&setup, &board, agent, id))?;
    }
    let done = runtime.block_on(async {
        let done = work(&agent, session, prompt.as_deref(), &opened, &teller, &cancel).await;
        // What still works when the run has reached a limit, failed or was interrupted can be resumed.
        board.close(TASKS_STOP).await;
        done
    });
    // Whatever still runs, such as a title that never comes, does not keep the command.
    runtime.shutdown_background();
    match done {
        Ok(report) => {
            teller.finish(&report);
            Ok(exit_of(&report.end))
        }
        Err(error) => {
            teller.failed(&error);
            Err(failed(&error, "plimsoll run --continue"))
        }
    }
}

async fn work(
    agent: &Agent,
    session: Option<SessionId>,
    prompt: Option<&str>,
    opened: &Opened,
    teller: &Arc<Teller>,
    cancel: &CancellationToken,
) -> Result<RunReport, AgentError> {
    let mut conversation = match session {
        Some(id) => open(agent, &id).await?,
        None => agent.begin("").await?,
    };
    let lease = conversation.handle().lease().await?;
    if let Some(holder) = store::taken_from_living(&lease) {
        note(&format!("note: the session was taken from `{holder}`, whose writes are refused now"));
    }
    interrupt::give_back(&opened.archive, &lease);
    let follower = teller.follow(&opened.archive, conversation.session());
    let report = match prompt {
        Some(prompt) => conversation.run(prompt, cancel).await,
        // Tasks that have ended since are answered first: the model may have said its last word before they did.
        None => match conversation.take_notes().await {
            Ok(true) => conversation.go_on(cancel).await,
            Ok(false) => conversation.resume(cancel).await,
            Err(error) => Err(error),
        },
    };
    drop(follower);
    let closed = conversation.close().await;
    report.and_then(|report| closed.map(|()| report))
}

/// The prompt: words of the command line, standard input, or both.
fn prompt_of(args: &RunArgs) -> Result<Option<String>, CliError> {
    let words = args.prompt.join(" ");
    let is_piped = !io::stdin().is_terminal();
    let reads = words.trim() == "-" || (words.trim().is_empty() && is_piped && !args.agent.goes_on());
    let text = if reads {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(|error| {
            CliError::usage(format!(
                "cannot read the prompt from standard input: {}",
                crate::error::reason(&error)
            ))
        })?;
        text
    } else {
        words
    };
    match text.trim() {
        "" if args.agent.goes_on() => Ok(None),
        "" => Err(CliError::usage("there is no prompt")
            .hint("`plimsoll run \"what is in this directory?\"`, or a prompt from standard input")),
        text => Ok(Some(text.to_owned())),
    }
}

/// What scripts are told.
fn exit_of(end: &RunEnd) -> ExitCode {
    match end {
        RunEnd::Finished { reason } => match Stop::of(reason) {
            Stop::Done => ExitCode::SUCCESS,
            Stop::Cut | Stop::Filtered => ExitCode::from(1),
        },
        RunEnd::Steps
        | RunEnd::Tokens
        | RunEnd::Cost
        | RunEnd::Repeating { .. }
        | RunEnd::StoppedByHook { .. } => ExitCode::from(1),
        RunEnd::Cancelled => ExitCode::from(interrupt::INTERRUPTED_CODE),
    }
}
