//! `compact` with a model or a command that summarises: asked, edited if wanted, and taken or refused as a whole.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, ExitCode, Stdio};

use plimsoll::compact::accept::Reply;
use plimsoll::compact::ladder::{Situation, Trigger, Verdict};
use plimsoll::compact::request::{Summariser, SummaryForm, SummaryRequest};
use plimsoll::pivot::Pivot;
use plimsoll::receipt::CompactPlan;
use plimsoll::{Limits, Log, Millis, Plan, Policy, Tokens};
use plimsoll_agent::Model;
use plimsoll_session::{Climb, ClimbOutcome, ClimbStep, SummaryFailure, UsageScale};
use serde_json::json;

use crate::agent::setup_failed;
use crate::args::{AgentArgs, CompactArgs};
use crate::config::{self, Config, ForRun};
use crate::error::{CliError, reason};
use crate::input::{self, Whole};
use crate::output::{Output, note};
use crate::plans::{Contents, Page, WindowSizes};
use crate::progress::Progress;
use crate::reduce;
use crate::store;
use crate::surroundings::Surroundings;

/// So much of what a failing command said is told.
const TOLD: usize = 500;

/// Who makes the summary.
pub(crate) enum Asked {
    /// A model.
    Model(Box<Model>, tokio::runtime::Runtime),
    /// A command that reads the request.
    Command(String),
    /// No model: it is extracted from the history.
    Offline,
}

/// The summary that is extracted needs no room of a summariser's own, so all of the history is one request.
const NO_LIMIT: u64 = 1 << 40;

/// Compact a file or a stored session with a summary of a model's or a command's.
pub(crate) fn compact(
    args: &CompactArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let (config, asked) = load(args, around)?;
    let editor = args.edit.then(|| editor(around)).transpose()?;
    let ask = |request: &SummaryRequest, extracted: Option<String>| -> Result<Reply, CliError> {
        let reply = match extracted {
            Some(text) => Reply { is_extracted: true, ..Reply::finished(text) },
            None => Progress::during(&asked.asking(request), || asked.ask(request))?,
        };
        match &editor {
            // What comes before the last is read by the summariser alone.
            Some(editor) if request.chunk == request.of => edit(reply, editor, around),
            _ => Ok(reply),
        }
    };
    if args.apply {
        let (opened, session, limits) = reduce::stored(&args.input, &config, around)?;
        let summariser = Some(asked.summariser(limits));
        let mut driver = opened.driver_with(&session, &config, args.force, Some(limits), summariser)?;
        let nothing = reduce::too_little(driver.log(), &config.policy);
        let climb = driver.begin_compaction(None)?;
        let climbed = climb_with(climb, &asked, ask)?;
        let verdict = climbed.outcome.verdict.clone();
        let receipts = driver.commit(climbed)?;
        driver.close()?;
        if receipts.is_empty() {
            if output.json {
                output.json(&json!({ "session": session.id, "receipts": [] }))?;
            }
            note(&nothing);
            return Ok(ExitCode::from(1));
        }
        let done = reduce::tell(&opened, &session, &receipts, output)?;
        if verdict != Verdict::Fits {
            note(&verdict.to_string());
        }
        return Ok(done);
    }
    let Whole { log, limits, .. } = input::whole_log(&args.input, &config, around)?;
    // The clock only stamps what is appended, and that is not kept.
    let mut situation = Situation {
        trigger: Trigger::Manual,
        summariser: Some(asked.summariser(limits)),
        ..Situation::new(&config.policy, limits, Millis(0))
    };
    if let Some(scale) = UsageScale::of(&log, &config.policy) {
        scale.weigh_in(&mut situation);
    }
    let nothing = reduce::too_little(&log, &config.policy);
    let climb = Climb::of_log(log.clone(), situation, store::ids());
    let climbed = climb_with(climb, &asked, ask)?;
    let Some((plan, summary)) = summary_of(climbed, log)? else {
        if output.json {
            output.json(&json!(null))?;
        }
        note(&nothing);
        return Ok(ExitCode::from(1));
    };
    if output.json {
        output.json(&json!({ "summary": summary, "plan": plan }))?;
    } else {
        output.words(&summary)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Show the summary that can be made without a model. The climb that applying would make is made and not kept: a summary
/// that is as long as what it stands for is not taken, and only the climb can tell.
pub(crate) fn show_offline(
    log: &Log,
    situation: Situation,
    policy: &Policy,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let nothing = reduce::too_little(log, policy);
    let limits = situation.limits;
    let mut climb = Climb::of_log(log.clone(), situation, store::ids());
    let climbed = Progress::during("summarising", || -> Result<ClimbOutcome, CliError> {
        loop {
            match climb.step()? {
                ClimbStep::Ask(_) => drop(climb.answer(Err("no model is asked here".to_owned()))?),
                ClimbStep::Done(climbed) => return Ok(*climbed),
            }
        }
    })?;
    let others: Vec<Plan> =
        climbed.outcome.reduction.receipts.iter().map(|receipt| receipt.plan.clone()).collect();
    match summary_of(climbed, log.clone())? {
        Some((plan, summary)) if output.json => {
            output.json(&json!({ "summary": summary, "plan": plan }))?;
        }
        Some((_, summary)) => output.words(&summary)?,
        None if others.is_empty() => {
            if output.json {
                output.json(&json!(null))?;
            }
            note(&nothing);
            return Ok(ExitCode::from(1));
        }
        // A window that is over its line is made smaller in other ways where no summary helps.
        None if output.json => output.json(&json!({ "summary": null, "plans": others }))?,
        None => {
            let contents = Contents::of(log, None, &others);
            let page = Page { contents: &contents, width: output.width(), handles: false };
            for plan in &others {
                output.painted(&page.plan(plan, WindowSizes::planned(plan, log, policy, limits)))?;
            }
            note(&format!("no summary: {nothing}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Climb with summaries of the model or command that is asked, or with the one that is extracted.
fn climb_with(
    mut climb: Climb,
    asked: &Asked,
    mut ask: impl FnMut(&SummaryRequest, Option<String>) -> Result<Reply, CliError>,
) -> Result<ClimbOutcome, CliError> {
    if !matches!(asked, Asked::Offline) {
        return climb.summarise(|request| ask(request, None)).map_err(|error| refused(error, asked));
    }
    loop {
        match climb.step()? {
            ClimbStep::Ask(request) => {
                let extracted = climb.offline().map(|text| text.to_string());
                let Some(extracted) = extracted else {
                    return Err(CliError::no("there is too little to make a summary of without a model"));
                };
                climb.answer(Ok(ask(&request, Some(extracted))?))?;
            }
            ClimbStep::Done(climbed) => {
                // What a person wrote is taken or refused; nothing else is done in its place.
                let is_refused = !climbed.outcome.rejections.is_empty();
                let rejection = climbed.outcome.rejections.last().cloned();
                return match is_refused {
                    true => Err(refused(SummaryFailure::NotTaken(rejection), asked)),
                    false => Ok(*climbed),
                };
            }
        }
    }
}

/// The plan and the text of what a climb came to.
fn summary_of(climbed: ClimbOutcome, mut log: Log) -> Result<Option<(CompactPlan, String)>, CliError> {
    let reduction = climbed.outcome.reduction;
    let plan = reduction.receipts.iter().find_map(|receipt| match &receipt.plan {
        Plan::Compact(plan) => Some(plan.clone()),
        _ => None,
    });
    let Some(plan) = plan else { return Ok(None) };
    reduction.commit(&mut log)?;
    let text = Pivot::newest(&log).map(|pivot| pivot.text(&log).to_string());
    Ok(Some((plan, text.unwrap_or_default())))
}

/// The configuration, and who is asked by it.
pub(crate) fn load(args: &CompactArgs, around: &Surroundings) -> Result<(Config, Asked), CliError> {
    let policy = args.input.policy.clone();
    if let Some(command) = &args.command {
        return Ok((Config::load(&policy, around)?, Asked::Command(command.clone())));
    }
    if args.model.is_none() {
        return Ok((Config::load(&policy, around)?, Asked::Offline));
    }
    let agent = AgentArgs {
        model: args.model.clone(),
        policy: policy.policy,
        context: policy.context,
        ..AgentArgs::default()
    };
    let ForRun { config, run, .. } = config::load_run(&agent, around)?;
    let name = args.model.as_deref().unwrap_or_default();
    let model = Model::configured(&run, name).map_err(setup_failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok((config, Asked::Model(Box::new(model), runtime)))
}

impl Asked {
    fn name(&self) -> String {
        match self {
            Asked::Model(model, _) => format!("`{}`", model.name),
            Asked::Command(command) => format!("`{command}`"),
            Asked::Offline => "yours".to_owned(),
        }
    }

    /// What is going on while it is asked.
    pub(crate) fn asking(&self, request: &SummaryRequest) -> String {
        match request.of {
            1 => format!("asking {}", self.name()),
            of => format!("asking {}, {} of {of}", self.name(), request.chunk),
        }
    }

    /// Why it has no summary.
    pub(crate) fn failed(&self, error: &CliError) -> CliError {
        let message = format!("no summary of {}: {}", self.name(), error.message());
        CliError::failed(message).hint("nothing was changed; `--offline` makes one without a model")
    }

    /// What the engine has to know of it. A command says nothing of its window, so that of the session counts.
    pub(crate) fn summariser(&self, session: Limits) -> Summariser {
        if matches!(self, Asked::Offline) {
            return Summariser::own(Limits::new(NO_LIMIT, 0));
        }
        let limits = match self {
            Asked::Model(model, _) => model.limits.filter(|limits| limits.context > Tokens::ZERO),
            Asked::Command(_) | Asked::Offline => None,
        };
        let name = match self {
            Asked::Model(model, _) => model.name.model.clone(),
            Asked::Command(_) | Asked::Offline => "command".to_owned(),
        };
        Summariser::named(name, limits.unwrap_or(session))
    }

    pub(crate) fn ask(&self, request: &SummaryRequest) -> Result<Reply, CliError> {
        match self {
            Asked::Model(model, runtime) => {
                runtime.block_on(model.summarise(request)).map_err(CliError::failed)
            }
            Asked::Command(command) => run(command, &text_of(request)).map(Reply::finished),
            Asked::Offline => Err(CliError::failed("no model is asked here")),
        }
    }
}

/// A request as one text.
fn text_of(request: &SummaryRequest) -> String {
    match &request.form {
        SummaryForm::Separate { system, prompt } => format!("{system}\n\n{prompt}\n"),
        SummaryForm::Appended { prompt, .. } => format!("{prompt}\n"),
    }
}

/// What a command prints to what it is given.
fn run(command: &str, request: &str) -> Result<String, CliError> {
    let failed = |error: io::Error| CliError::failed(format!("cannot run it: {}", reason(&error)));
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let given = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // It may answer before it has read everything, or read nothing at all.
        scope.spawn(move || given.map(|mut given| given.write_all(request.as_bytes())));
        child.wait_with_output()
    });
    let output = output.map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = plimsoll::chars::tail(said.trim(), plimsoll::Chars(TOLD as u64)).to_owned();
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        return Err(CliError::failed(format!("it ended with {}{said}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The editor of the person at the terminal.
pub(crate) fn editor(around: &Surroundings) -> Result<String, CliError> {
    let named = ["VISUAL", "EDITOR"].into_iter().find_map(|name| around.variable(name));
    named.map(str::to_owned).filter(|editor| !editor.trim().is_empty()).ok_or_else(|| {
        CliError::usage("`--edit` needs an editor")
            .hint("name one in VISUAL or EDITOR: `EDITOR=nano plimsoll compact …`")
    })
}

/// A summary as a person leaves it.
pub(crate) fn edit(reply: Reply, editor: &str, around: &Surroundings) -> Result<Reply, CliError> {
    let failed = |error: io::Error| CliError::failed(format!("cannot edit the summary: {}", reason(&error)));
    let mut file = tempfile::Builder::new().prefix("plimsoll-").suffix(".md").tempfile().map_err(failed)?;
    writeln!(file, "{}", reply.text.trim_end()).map_err(failed)?;
    file.flush().map_err(failed)?;
    // An editor may come with flags, so the shell takes it apart; the file is passed beside it.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{editor} \"$1\""), "plimsoll"]).arg(file.path());
    command.current_dir(&around.directory);
    if !io::stdout().is_terminal() {
        // What is printed may be piped elsewhere; an editor draws on the terminal that errors go to.
        command.stdout(io::stderr());
    }
    let status = command.status().map_err(failed)?;
    if !status.success() {
        return Err(CliError::failed(format!("cannot edit the summary: `{editor}` ended with {status}")));
    }
    // Editors may put another file in its place, so it is opened by its name.
    let text = std::fs::read_to_string(file.path()).map_err(failed)?;
    match text.trim() {
        "" => Err(CliError::no("the summary was emptied, and nothing was done")),
        text => Ok(Reply { text: text.to_owned(), is_edited: true, ..reply }),
    }
}

/// Why there is no summary.
fn refused(failure: SummaryFailure<CliError>, asked: &Asked) -> CliError {
    match failure {
        SummaryFailure::Asking(error) if !error.is_failure() => error,
        SummaryFailure::Asking(error) => asked.failed(&error),
        SummaryFailure::Session(error) => error.into(),
        SummaryFailure::NotTaken(rejection) => {
            let why = rejection.map_or_else(|| "it was not asked".to_owned(), |why| why.to_string());
            let message = format!("no summary of {}: {why}", asked.name());
            CliError::failed(message).hint("nothing was changed; `--offline` makes one without a model")
        }
    }
}
