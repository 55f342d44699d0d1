//! Compactions with a summary by a model or a command, which is accepted or rejected as a whole.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use plimsoll::compact::{Rejection, Reply, Summariser, SummaryForm, SummaryRequest};
use plimsoll::plan::CompactPlan;
use plimsoll::{Limits, Log, Pivot, Plan, Policy, Tokens};
use plimsoll_agent::Model;
use plimsoll_config::Flags;
use plimsoll_sandbox::ProcessGroup;
use plimsoll_session::{Climb, ClimbOutcome, ClimbStep, SummaryFailure};
use plimsoll_store::random_ids;

use crate::config::HostConfig;
use crate::drive::StoredSession;
use crate::error::{HostError, reason};
use crate::host::Host;
use crate::input::WholeSession;
use crate::reduce::{Reduced, compacted, too_little};

/// Maximum number of characters of a failing command's error output that are shown.
const SHOWN: u64 = 500;
/// Maximum size of a command's output in bytes. No summary is larger, because the largest windows have fewer characters.
const MAX_OUTPUT: u64 = 16 << 20;
/// Size of the summariser's window for extracted summaries. No request is sent, so the history need not be split into chunks.
const NO_LIMIT: u64 = 1 << 40;

/// Source of summaries.
#[non_exhaustive]
pub enum SummarySource {
    /// A model.
    Model(Box<Model>, tokio::runtime::Runtime),
    /// A command that reads the request.
    Command(String),
    /// No model: the summary is extracted from the history.
    Offline,
}

/// Lets the user change a summary before it is used.
pub type EditSummary<'a> = &'a dyn Fn(Reply) -> Result<Reply, HostError>;

/// A planned summary.
#[derive(Debug)]
#[non_exhaustive]
pub enum Summary {
    /// A summary was written: its plan and its text.
    Written(Box<CompactPlan>, String),
    /// No summary helps, but the window is over its line and would be reduced in other ways.
    OtherPlans(Vec<Plan>),
    /// There is too little to summarise.
    TooLittle,
}

impl Host {
    /// Loads the configuration, and determines the source of the summary: the command, the model, or neither.
    pub fn summary_source(
        &self,
        flags: &Flags,
        command: Option<&str>,
    ) -> Result<(HostConfig, SummarySource), HostError> {
        let Some(name) = flags.model.as_deref().filter(|_| command.is_none()) else {
            let source =
                command.map_or(SummarySource::Offline, |command| SummarySource::Command(command.to_owned()));
            return Ok((self.config(&Flags { model: None, ..flags.clone() })?, source));
        };
        let (config, run) = self.run_config(flags)?;
        let model = Model::configured(&run, name)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok((config, SummarySource::Model(Box::new(model), runtime)))
    }
}

impl StoredSession {
    /// Replaces older messages by a summary.
    pub fn compact(
        &self,
        source: &SummarySource,
        edit: Option<EditSummary<'_>>,
        config: &HostConfig,
        force: bool,
        host: &Host,
    ) -> Result<Reduced, HostError> {
        let mut driver = self.drive(config, force, Some(source.summariser(self.limits)), host)?;
        let nothing = too_little(driver.log(), &config.policy);
        let climb = driver.begin_compaction(None)?;
        let climbed = source.climb(climb, edit, &config.policy, host)?;
        let verdict = climbed.outcome.verdict.clone();
        let receipts = driver.commit(climbed)?;
        driver.close()?;
        Ok(compacted(receipts, &verdict, nothing))
    }
}

impl WholeSession {
    /// Creates the summary that would replace older messages.
    pub fn summarise(
        &self,
        source: &SummarySource,
        edit: Option<EditSummary<'_>>,
        policy: &Policy,
        host: &Host,
    ) -> Result<Summary, HostError> {
        let context = self.context(policy, Some(source.summariser(self.limits)));
        let climb = Climb::of_log(self.log.clone(), context, random_ids());
        self.summary_of(source.climb(climb, edit, policy, host)?)
    }

    /// Creates the summary that is possible without a model. Runs a complete climb and discards its result, because a summary
    /// that is as long as what it replaces is only rejected during the climb.
    pub fn summarise_offline(&self, policy: &Policy, host: &Host) -> Result<Summary, HostError> {
        let climb = Climb::of_log(self.log.clone(), self.context(policy, None), random_ids());
        let climbed = host.during("summarising", || climb_alone(climb))?;
        let receipts = climbed.outcome.reduction.receipts.iter();
        let others: Vec<Plan> = receipts.map(|receipt| receipt.plan.clone()).collect();
        Ok(match self.summary_of(climbed)? {
            Summary::TooLittle if !others.is_empty() => Summary::OtherPlans(others),
            made => made,
        })
    }

    fn summary_of(&self, climbed: ClimbOutcome) -> Result<Summary, HostError> {
        let reduction = climbed.outcome.reduction;
        let plan = reduction.receipts.iter().find_map(|receipt| match &receipt.plan {
            Plan::Compact(plan) => Some(plan.clone()),
            _ => None,
        });
        let Some(plan) = plan else { return Ok(Summary::TooLittle) };
        let mut log: Log = self.log.clone();
        reduction.commit(&mut log)?;
        let text = Pivot::newest(&log).map(|pivot| pivot.text(&log).to_string());
        Ok(Summary::Written(Box::new(plan), text.unwrap_or_default()))
    }
}

/// Time budget for all summary requests of a compaction, including retries, but not for edits by the user.
pub(crate) struct SummaryTime {
    seconds: u64,
    left: Duration,
}

impl SummaryTime {
    pub(crate) fn of(policy: &Policy) -> SummaryTime {
        let seconds = policy.compact.max_seconds;
        SummaryTime { seconds, left: Duration::from_secs(seconds) }
    }

    /// Calls `ask` with the remaining time. `ask` returns `None` on a timeout.
    fn limit<T>(
        &mut self,
        ask: impl FnOnce(Duration) -> Option<Result<T, HostError>>,
    ) -> Result<T, HostError> {
        let begun = Instant::now();
        let asked = ask(self.left);
        self.left = self.left.saturating_sub(begun.elapsed());
        let seconds = self.seconds;
        asked.unwrap_or_else(|| Err(HostError::failed(Rejection::TimedOut { seconds }.to_string())))
    }
}

/// Climbs the ladder without a summariser.
pub(crate) fn climb_alone(mut climb: Climb) -> Result<ClimbOutcome, HostError> {
    loop {
        match climb.step()? {
            ClimbStep::Ask(_) => drop(climb.answer(Err("offline: no model is used".to_owned()))?),
            ClimbStep::Done(climbed) => return Ok(*climbed),
        }
    }
}

impl SummarySource {
    fn name(&self) -> String {
        match self {
            SummarySource::Model(model, _) => format!("`{}`", model.name),
            SummarySource::Command(command) => format!("`{command}`"),
            SummarySource::Offline => "the edited text".to_owned(),
        }
    }

    /// Returns the summariser for the engine. For a command, whose window is unknown, it has the window of the session.
    pub(crate) fn summariser(&self, session: Limits) -> Summariser {
        match self {
            SummarySource::Model(model, _) => {
                let limits = model.limits.filter(|limits| limits.context > Tokens::ZERO);
                Summariser::named(model.name.model.clone(), limits.unwrap_or(session))
            }
            SummarySource::Command(_) => Summariser::named("command".to_owned(), session),
            SummarySource::Offline => Summariser::own(Limits::new(NO_LIMIT, 0)),
        }
    }

    /// Requests a summary within the remaining time of the compaction.
    pub(crate) fn ask(
        &self,
        request: &SummaryRequest,
        time: &mut SummaryTime,
        host: &Host,
    ) -> Result<Reply, HostError> {
        let asking = match request.of {
            1 => format!("asking {}", self.name()),
            of => format!("asking {}, {} of {of}", self.name(), request.chunk),
        };
        host.during(&asking, || {
            time.limit(|left| match self {
                SummarySource::Model(model, runtime) => {
                    let summary = async { tokio::time::timeout(left, model.summarise(request)).await };
                    let summary = runtime.block_on(summary).ok()?;
                    Some(summary.map_err(HostError::failed))
                }
                SummarySource::Command(command) => {
                    Some(run(command, text_of(request), left).transpose()?.map(Reply::finished))
                }
                SummarySource::Offline => Some(Err(HostError::failed("offline: no model is used"))),
            })
        })
    }

    /// Creates the error for a failed summary.
    pub(crate) fn failed(&self, why: &str) -> HostError {
        HostError::failed(format!("no summary from {}: {why}", self.name()))
            .hint("nothing was changed; `--offline` summarises without a model")
    }

    /// Climbs with summaries of the model or command, or with the extracted one. The user only edits the last one, because
    /// earlier ones are only input of the next request.
    fn climb(
        &self,
        mut climb: Climb,
        edit: Option<EditSummary<'_>>,
        policy: &Policy,
        host: &Host,
    ) -> Result<ClimbOutcome, HostError> {
        let mut time = SummaryTime::of(policy);
        let edited = |request: &SummaryRequest, reply: Reply| match edit {
            Some(edit) if request.chunk == request.of => edit(reply),
            _ => Ok(reply),
        };
        if !matches!(self, SummarySource::Offline) {
            let ask = |request: &SummaryRequest| edited(request, self.ask(request, &mut time, host)?);
            return climb.summarise(ask).map_err(|failure| match failure {
                SummaryFailure::Asking(error) if !error.is_failure() => error,
                SummaryFailure::Asking(error) => self.failed(error.message()),
                SummaryFailure::Session(error) => error.into(),
                SummaryFailure::NotTaken(why) => {
                    self.failed(&why.map_or_else(|| "it was not asked".to_owned(), |why| why.to_string()))
                }
            });
        }
        loop {
            match climb.step()? {
                ClimbStep::Ask(request) => {
                    let Some(text) = climb.offline().map(|text| text.to_string()) else {
                        return Err(HostError::negative("too little to summarise without a model"));
                    };
                    let extracted = Reply { is_extracted: true, ..Reply::finished(text) };
                    climb.answer(Ok(edited(&request, extracted)?))?;
                }
                // A rejected text is an error: other reductions must not replace the one that the user has written.
                ClimbStep::Done(climbed) => {
                    return match climbed.outcome.rejections.last() {
                        Some(why) => Err(self.failed(&why.to_string())),
                        None => Ok(*climbed),
                    };
                }
            }
        }
    }
}

/// Formats a request as one text.
fn text_of(request: &SummaryRequest) -> String {
    match &request.form {
        SummaryForm::Separate { system, prompt } => format!("{system}\n\n{prompt}\n"),
        SummaryForm::Appended { prompt, .. } => format!("{prompt}\n"),
    }
}

/// Runs a command with a request as its input, and returns its output; `None` on a timeout, which kills the command and all
/// processes that it has started.
fn run(command: &str, request: String, left: Duration) -> Result<Option<String>, HostError> {
    let failed =
        |error: io::Error| HostError::failed(format!("cannot run it: {}", reason(&error))).caused_by(error);
    // Absolute, because `PATH` may contain a directory of the project, where an agent's command could have put its own `sh`.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = ProcessGroup::start(&mut shell).map_err(failed)?;
    let child = group.child();
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (waiter, (done, ended)) = (group.waiter(), mpsc::channel());
    // On its own thread, and without its result: the command may answer before it has read its input, or never read it.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(request.as_bytes())));
    std::thread::spawn(move || {
        let said = std::thread::spawn(move || stderr.map(read_output));
        let output = stdout.map(read_output);
        let said = said.join().ok().flatten();
        waiter.wait();
        // The send fails after the timeout, when the receiver is gone.
        let _ = done.send((output, said));
    });
    let Ok((output, said)) = ended.recv_timeout(left) else {
        group.end();
        return Ok(None);
    };
    let status = group.wait().map_err(failed)?;
    let output = output.transpose().map_err(failed)?.unwrap_or_default();
    if output.len() as u64 > MAX_OUTPUT {
        return Err(HostError::failed(format!("its output has more than {} MB", MAX_OUTPUT >> 20)));
    }
    if !status.success() {
        let said = said.transpose().map_err(failed)?.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let said = plimsoll::tail(said.trim(), plimsoll::Chars(SHOWN)).to_owned();
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        return Err(HostError::failed(format!("it failed with {status}{said}")));
    }
    Ok(Some(String::from_utf8_lossy(&output).trim().to_owned()))
}

/// Reads an output to its end, or one byte beyond the limit. Then the pipe is closed.
fn read_output(output: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    output.take(MAX_OUTPUT + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
