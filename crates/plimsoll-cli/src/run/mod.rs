//! `plimsoll run`: runs an agent on a prompt and prints its answer.

pub(crate) mod progress;

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_agent::{Agent, AgentError, RunEnd, RunReport, StopReason};
use plimsoll_host::{AgentSetup, Host, HostError, OpenStore, agent_failed, reason, taken_from_living};
use tokio_util::sync::CancellationToken;

use crate::args::RunArgs;
use crate::error::CommandResult;
use crate::interrupt;
use crate::output::{Output, note};

use progress::RunProgress;

/// Time that background tasks have to stop when the command ends.
pub(crate) const TASKS_STOP: Duration = Duration::from_secs(10);

/// Runs an agent.
pub(crate) fn run(args: &RunArgs, host: &Host, output: &mut Output) -> CommandResult {
    let prompt = prompt_of(args)?;
    let setup = host.agent_setup(args.agent.options())?;
    let (opened, session) = setup.open()?;
    let overrides = match &session {
        Some(id) => setup.overrides_for(&opened, id)?,
        None => setup.overrides(),
    };
    let mut agent = setup.agent(&opened, &overrides)?;
    let cancel = CancellationToken::new();
    interrupt::cancel_first(cancel.clone());
    let progress = Arc::new(RunProgress::new(output.json, args.agent.thinking));
    let listener = Arc::clone(&progress);
    agent.events = Arc::new(move |event| listener.event(event));
    let board = setup.board(&opened, None, Arc::clone(&agent.events));
    if board.limits().depth > 0 {
        agent = agent.with_tasks(&board);
    }
    // Tasks end with this process, so the run waits for them.
    agent.profile.awaits_tasks = true;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if let Some(id) = &session {
        agent = runtime.block_on(setup.agent_in(&board, agent, id))?;
    }
    let done = runtime.block_on(async {
        let work = Run { setup: &setup, opened: &opened, host, progress: &progress, cancel: &cancel };
        let done = work.run(&agent, session, prompt.as_deref()).await;
        // Tasks that are still running after a limit, a failure or an interrupt can be resumed.
        board.close(TASKS_STOP).await;
        done
    });
    // Does not wait for remaining work, such as a session title.
    runtime.shutdown_background();
    match done {
        Ok(report) => {
            progress.finish(&report);
            Ok(exit_of(&report.end))
        }
        Err(error) => {
            progress.failed(&error);
            Err(agent_failed(error, "plimsoll run --continue"))
        }
    }
}

/// Everything a run needs.
struct Run<'a> {
    setup: &'a AgentSetup,
    opened: &'a OpenStore,
    host: &'a Host,
    progress: &'a Arc<RunProgress>,
    cancel: &'a CancellationToken,
}

impl Run<'_> {
    async fn run(
        &self,
        agent: &Agent,
        session: Option<SessionId>,
        prompt: Option<&str>,
    ) -> Result<RunReport, AgentError> {
        let mut conversation = match session {
            Some(id) => self.setup.open_conversation(agent, &id).await?,
            None => agent.begin("").await?,
        };
        let lease = conversation.handle().lease().await?;
        if let Some(holder) = taken_from_living(&lease) {
            note(&format!("note: took over the session from `{holder}`, which can no longer write to it"));
        }
        self.host.leases.hold(&self.opened.archive, &lease);
        let follower = self.progress.follow(&self.opened.archive, conversation.session());
        let report = match prompt {
            Some(prompt) => conversation.run(prompt, self.cancel).await,
            // Results of tasks that have ended since come first: the model may have finished its turn before.
            None => match conversation.take_notes().await {
                Ok(true) => conversation.continue_run(self.cancel).await,
                Ok(false) => conversation.resume(self.cancel).await,
                Err(error) => Err(error),
            },
        };
        drop(follower);
        let closed = conversation.close().await;
        report.and_then(|report| closed.map(|()| report))
    }
}

/// Returns the prompt from the command line or standard input.
fn prompt_of(args: &RunArgs) -> Result<Option<String>, HostError> {
    let words = args.prompt.join(" ");
    let is_piped = !io::stdin().is_terminal();
    let reads = words.trim() == "-" || (words.trim().is_empty() && is_piped && !args.agent.continues());
    let text = if reads {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(|error| {
            HostError::usage(format!("cannot read the prompt from standard input: {}", reason(&error)))
        })?;
        text
    } else {
        words
    };
    match text.trim() {
        "" if args.agent.continues() => Ok(None),
        "" => Err(HostError::usage("no prompt").hint(
            "pass one as an argument or on standard input: `plimsoll run \"what is in this directory?\"`",
        )),
        text => Ok(Some(text.to_owned())),
    }
}

/// Exit code of a run.
fn exit_of(end: &RunEnd) -> ExitCode {
    match end {
        RunEnd::Finished { reason } => match StopReason::of(reason) {
            StopReason::Done => ExitCode::SUCCESS,
            _ => ExitCode::from(1),
        },
        RunEnd::Cancelled => ExitCode::from(interrupt::INTERRUPTED_CODE),
        // Limits, hooks and repetition: the model was not done.
        _ => ExitCode::from(1),
    }
}
