//! `plimsoll run`: an agent works on a prompt, and its answer is printed.

mod tell;

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;
use std::sync::Arc;

use plimsoll::{Limits, SessionId, Tokens};
use plimsoll_agent::{
    Agent, AgentError, AgentSetupError, Conversation, RunEnd, RunOverrides, RunReport, Stop, parse_allow,
};
use plimsoll_session::SessionError;
use plimsoll_store::{PageRequest, StoreError};
use tokio_util::sync::CancellationToken;

use crate::args::RunArgs;
use crate::config::{self, ForRun};
use crate::error::CliError;
use crate::interrupt;
use crate::output::{Output, note};
use crate::store::{self, Opened};
use crate::surroundings::Surroundings;

use tell::Teller;

/// So many messages are looked at to find the model that spoke last.
const LOOK_BACK: u64 = 50;

/// Run an agent.
pub(crate) fn run(args: &RunArgs, around: &Surroundings, output: &mut Output) -> Result<ExitCode, CliError> {
    let prompt = prompt_of(args)?;
    let ForRun { config, run, context } = config::load_run(args, around)?;
    let allow = args
        .allow
        .iter()
        .filter(|rule| *rule != config::NETWORK)
        .map(|rule| parse_allow(rule, around.home.as_deref()))
        .collect::<Result<Vec<_>, _>>();
    let allow = allow.map_err(|error| CliError::usage(error.to_string()))?;
    let mut overrides = RunOverrides { agent: args.agent.clone(), model: args.model.clone(), allow };
    if !args.goes_on() {
        // A model that is missing is told of before a database is made.
        overrides.check(&run).map_err(setup_failed)?;
    }
    let (opened, session) = match (&args.session, args.resume) {
        (Some(id), _) => {
            let (opened, id) = store::session_or_import(id, Opened::made(&config)?, &config, around)?;
            (opened, Some(id))
        }
        (None, true) => {
            let opened = Opened::existing(&config, around)?;
            let id = opened.chosen(None, around)?.id;
            (opened, Some(id))
        }
        (None, false) => (Opened::made(&config)?, None),
    };
    if let Some(id) = session.as_ref().filter(|_| overrides.agent.is_none()) {
        // With its rules and limits, a session's agent goes on where it is still configured.
        let agent = opened.archive.store().session(id)?.agent;
        let same = RunOverrides { agent, ..overrides.clone() };
        if same.agent.is_some() && same.check(&run).is_ok() {
            overrides = same;
        }
    }
    if let Some(id) = session.as_ref().filter(|_| overrides.model.is_none() && args.agent.is_none()) {
        // A session goes on with the model it has, where that can still be reached.
        let same = RunOverrides { model: last_model(&opened, id)?, ..overrides.clone() };
        if same.model.is_some() && same.check(&run).is_ok() {
            overrides = same;
        }
    }
    let home = around.home.as_deref();
    let agent = Agent::configured(
        Arc::clone(&opened.archive),
        config.policy,
        &run,
        &overrides,
        &around.directory,
        home,
    );
    let mut agent = agent.map_err(setup_failed)?;
    if let Some(context) = context {
        let known = agent.model.limits.unwrap_or_default();
        agent.model.limits = Some(Limits { context: Tokens(context), input: None, ..known });
    }
    if agent.profile.limits.cost.is_some() && agent.model.price.is_none() {
        let message = format!(
            "the price of `{}` is not known, so no cost can be held against a limit",
            agent.model.name
        );
        return Err(CliError::usage(message).hint(
            "set its prices under `[providers.NAME.models.ID]`, or use `--max-tokens` in place of `--max-cost`",
        ));
    }
    agent.holder = store::holder();
    agent.take_over = args.force;
    let cancel = CancellationToken::new();
    interrupt::cancel_first(cancel.clone());
    let teller = Arc::new(Teller::new(output.json, args.thinking));
    let told = Arc::clone(&teller);
    agent.events = Arc::new(move |event| told.tell(event));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(work(&agent, session, prompt.as_deref(), &opened, &teller, &cancel));
    // Whatever still runs, such as a title that never comes, does not keep the command.
    runtime.shutdown_background();
    match done {
        Ok(report) => {
            teller.finish(&report);
            Ok(exit_of(&report.end))
        }
        Err(error) => {
            teller.failed(&error);
            Err(failed(&error))
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
    let lease = conversation.driver().run(|driver| Ok(driver.lease().clone())).await?;
    if let Some(holder) = lease.taken_from.as_ref().filter(|holder| !store::is_gone(holder)) {
        note(&format!("note: the session was taken from `{holder}`, whose writes are refused now"));
    }
    interrupt::give_back(&opened.archive, &lease);
    let follower = teller.follow(&opened.archive, conversation.session());
    let report = match prompt {
        Some(prompt) => conversation.run(prompt, cancel).await,
        None => conversation.resume(cancel).await,
    };
    drop(follower);
    let closed = conversation.close().await;
    report.and_then(|report| closed.map(|()| report))
}

/// Open a session; one whose process is gone is taken over.
async fn open(agent: &Agent, id: &SessionId) -> Result<Conversation, AgentError> {
    match agent.open(id).await {
        Err(AgentError::Session(SessionError::Store(StoreError::Leased { holder, .. })))
            if store::is_gone(&holder) =>
        {
            note(&format!("note: `{holder}` ran this session and is gone; it goes on from what was stored"));
            Agent { take_over: true, ..agent.clone() }.open(id).await
        }
        other => other,
    }
}

/// The prompt: words of the command line, standard input, or both.
fn prompt_of(args: &RunArgs) -> Result<Option<String>, CliError> {
    let words = args.prompt.join(" ");
    let is_piped = !io::stdin().is_terminal();
    let reads = words.trim() == "-" || (words.trim().is_empty() && is_piped && !args.goes_on());
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
        "" if args.goes_on() => Ok(None),
        "" => Err(CliError::usage("there is no prompt")
            .hint("`plimsoll run \"what is in this directory?\"`, or a prompt from standard input")),
        text => Ok(Some(text.to_owned())),
    }
}

/// The model that spoke last in a session, as `provider/model`.
fn last_model(opened: &Opened, session: &SessionId) -> Result<Option<String>, CliError> {
    let request = PageRequest { from: None, oldest_first: false, most: LOOK_BACK };
    let page = opened.archive.store().page(session, &request)?;
    let name = |message: &plimsoll::Message| {
        let provider = message.info.extra.get("providerID")?.as_str()?;
        let model = message.info.model_id.as_deref().filter(|_| !message.info.summary)?;
        Some(format!("{provider}/{model}"))
    };
    Ok(page.messages.iter().find_map(name))
}

fn setup_failed(error: AgentSetupError) -> CliError {
    match error {
        AgentSetupError::Model(error) => {
            let hint = error.hint();
            CliError::usage(error.to_string()).hint(hint)
        }
        AgentSetupError::UnknownAgent { .. } => CliError::usage(error.to_string())
            .hint("agents are described under `[agents.NAME]` of the configuration, or in `opencode.json`"),
        AgentSetupError::NotConfined(_) => CliError::usage(error.to_string())
            .hint("`--sandbox auto` confines commands as far as this system can"),
        AgentSetupError::BadReference(_) => CliError::usage(error.to_string()),
        AgentSetupError::Client(_) => CliError::failed(error.to_string()),
    }
}

fn failed(error: &AgentError) -> CliError {
    let told = CliError::failed(error.to_string());
    match error {
        AgentError::Session(SessionError::Store(StoreError::Leased { .. })) => {
            told.hint("`--force` takes it over")
        }
        AgentError::Provider(plimsoll_providers::ProviderError::Auth { .. }) => {
            told.hint("`plimsoll config` shows where the key comes from")
        }
        AgentError::Provider(_) => told.hint("nothing is lost: `plimsoll run --continue` goes on"),
        _ => told,
    }
}

/// What scripts are told.
fn exit_of(end: &RunEnd) -> ExitCode {
    match end {
        RunEnd::Finished { reason } => match Stop::of(reason) {
            Stop::Done => ExitCode::SUCCESS,
            Stop::Cut | Stop::Filtered => ExitCode::from(1),
        },
        RunEnd::Steps | RunEnd::Tokens | RunEnd::Cost | RunEnd::Repeating { .. } => ExitCode::from(1),
        RunEnd::Cancelled => ExitCode::from(interrupt::INTERRUPTED_CODE),
    }
}
