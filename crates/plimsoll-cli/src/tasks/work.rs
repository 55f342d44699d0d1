//! Tasks that run in this process: `plimsoll fork SESSION --run` and `plimsoll tasks resume`.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll::SessionId;
use plimsoll_agent::tasks::{Launch, ResumeOutcome, Task, TaskStatus, fork_text, short_id};
use plimsoll_agent::{Event, EventSink, RunOverrides, TaskBoard};
use plimsoll_host::{Host, HostError, InputSource};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::output::missing_result;
use super::progress_text;
use crate::args::{ForkArgs, ResumeArgs, TaskFork};
use crate::error::CommandResult;
use crate::interrupt;
use crate::output::{Output, first_words, note, printable, write_json};
use crate::run::TASKS_STOP;
use crate::run::progress::event_line;
use crate::style::{QUIET, paint};

/// Default agent of a forked task.
const FORK_AGENT: &str = "general";
/// Maximum number of characters of a default description.
const DESCRIPTION: usize = 40;
const TICK: Duration = Duration::from_millis(100);
/// Interval at which a task is polled.
const POLL: Duration = Duration::from_secs(1);
/// Time that a queued resume has to begin after the previous run.
const PENDING: Duration = Duration::from_secs(5);

/// Starts a task with a session's context, and follows it to its end.
pub(crate) fn fork(args: &ForkArgs, prompt: &str, host: &Host, output: &mut Output) -> CommandResult {
    let prompt = prompt.trim();
    if prompt.is_empty() {
        return Err(HostError::usage("the prompt of the task is empty"));
    }
    // Standard input is not read here.
    let source = match (&args.input.file, &args.input.session) {
        (Some(file), session) => InputSource::File(file.clone(), session.clone()),
        (None, Some(id)) => InputSource::Session(id.clone()),
        (None, None) => InputSource::Newest,
    };
    let mut options = args.task.options();
    options.session = Some(host.session_to_fork(source)?);
    options.flags.policy.clone_from(&args.input.policy.policy);
    options.flags.context = args.input.policy.context;
    let setup = host.agent_setup(options)?;
    let agent = args.agent.clone().or_else(|| Some(FORK_AGENT.to_owned()));
    setup.require_any_model(&RunOverrides { agent, model: args.model.clone(), ..setup.overrides() })?;
    let (opened, session) = setup.open()?;
    let session = session.ok_or_else(|| HostError::usage("no session to fork"))?;
    let mut overrides = setup.overrides_for(&opened, &session)?;
    if overrides.check(&setup.run).is_err() {
        // The parent is only read, so the task's model will do for it if no other is configured.
        overrides.model = args.model.clone().or(overrides.model);
    }
    let history = args.inherit == Some(TaskFork::History);
    let own = opened.archive.store().session(&session)?.agent;
    let name = args.agent.clone().or(own.filter(|_| history)).unwrap_or_else(|| FORK_AGENT.to_owned());
    let child = RunOverrides { agent: Some(name.clone()), model: args.model.clone(), ..overrides.clone() };
    child.check(&setup.run)?;
    let worker = Worker::begin(output);
    let mut agent = setup.agent(&opened, &overrides)?;
    agent.events = worker.events();
    let board = setup.board(&opened, None, worker.events());
    if board.limits().depth > 0 {
        agent = agent.with_tasks(&board);
    }
    let description = args.description.clone().unwrap_or_else(|| first_words(prompt, DESCRIPTION));
    let launch = Launch {
        description,
        prompt: prompt.to_owned(),
        agent: name,
        model: args.model.clone(),
        fork: true,
        way: args.inherit.map(Into::into),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        worker.hold_lines();
        // The session is only read: a chat may be running in it.
        let caller = board.caller_of(&session, agent.clone()).await?;
        let task = board.launch(&caller, launch).await?;
        worker.print_context(&task);
        worker.follow_to_end(&board, task).await
    });
    runtime.shutdown_background();
    let task = done?;
    worker.finish(&task, 1, output)
}

/// Resumes a task and follows it to its end.
pub(super) fn resume(args: &ResumeArgs, host: &Host, output: &mut Output) -> CommandResult {
    let prompt = args.prompt.join(" ");
    if prompt.trim().is_empty() {
        return Err(HostError::usage("the prompt is empty"));
    }
    let task_session = super::open(host)?;
    let (task, _) = task_session.find(&args.task)?;
    let opened = task_session.opened;
    let mut options = args.run.options();
    // An existing task has its own model, even if none is configured.
    options.flags.model = Some(task.data.model.clone());
    options.session = Some(task.id.to_string());
    let setup = host.at_task(&task, &opened)?.agent_setup(options)?;
    let worker = Worker::begin(output);
    let board = setup.board(&opened, None, worker.events());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done: Result<_, HostError> = runtime.block_on(async {
        match board.resume(None, &task.id, prompt.trim()).await? {
            ResumeOutcome::Begun(task) => {
                let run = task.run();
                Ok(Ok((worker.follow_to_end(&board, task).await?, run)))
            }
            ResumeOutcome::Queued(task) => Ok(Err(task)),
        }
    });
    runtime.shutdown_background();
    match done? {
        Ok((task, run)) => worker.finish(&task, run, output),
        Err(queued) => {
            if output.json {
                output.json(&queued)?;
            } else {
                let id = short_id(&queued.id, []);
                output.text(&format!("{id} is running; it is resumed when its current run has ended"))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Follows a task to its end and prints its progress.
struct Worker {
    json: bool,
    bar: ProgressBar,
    cancel: CancellationToken,
    held: HeldLines,
    /// Newest run of each task whose end was printed.
    ended: Arc<Mutex<BTreeMap<SessionId, u32>>>,
}

/// Lines that wait until the task's context was printed: a short task ends before it is known. `None` if nothing waits.
type HeldLines = Arc<Mutex<Option<Vec<String>>>>;

impl Worker {
    fn begin(output: &Output) -> Worker {
        let cancel = CancellationToken::new();
        interrupt::cancel_first(cancel.clone());
        let is_seen = !output.json && io::stderr().is_terminal();
        let target = if is_seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        Worker { json: output.json, bar, cancel, held: Arc::default(), ended: Arc::default() }
    }

    /// Prints events to standard error, or as JSON to standard output.
    fn events(&self) -> EventSink {
        let (json, bar, held) = (self.json, self.bar.clone(), Arc::clone(&self.held));
        let ended = Arc::clone(&self.ended);
        Arc::new(move |event| {
            if let Event::TaskEnded { task, run, .. } = event {
                ended.lock().unwrap_or_else(PoisonError::into_inner).insert(task.clone(), *run);
            }
            if json {
                return print_json(&serde_json::to_value(event).unwrap_or_default());
            }
            if let Event::TaskProgress { progress, .. } = event {
                bar.set_message(printable(&progress_text(progress)));
            }
            let Some(line) = event_line(event) else { return };
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            match held.as_mut() {
                Some(held) if !matches!(event, Event::TaskLaunched { .. }) => held.push(line),
                _ => bar.suspend(|| print_note(&line)),
            }
        })
    }

    /// Holds back everything but the launch until [`print_context`](Worker::print_context).
    fn hold_lines(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    /// Prints what the task inherited, and the lines that were held back.
    fn print_context(&self, task: &Task) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let receipt = task.data.fork.as_ref().filter(|_| !self.json);
        let receipt = receipt.map(|fork| format!("  context: {}", fork_text(fork)));
        for line in receipt.into_iter().chain(held.take().unwrap_or_default()) {
            self.bar.suspend(|| print_note(&line));
        }
    }

    fn end_is_printed(&self, task: &Task) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.get(&task.id).is_some_and(|run| *run >= task.run())
    }

    /// Waits until the task and its queued resumes have ended, or the user interrupts.
    async fn follow_to_end(&self, board: &Arc<TaskBoard>, task: Task) -> Result<Task, HostError> {
        self.bar.enable_steady_tick(TICK);
        let mut task = task;
        let mut pending = None;
        while !self.cancel.is_cancelled() {
            task = board.wait(&task.id, POLL, &self.cancel).await?;
            if task.status.is_active() {
                pending = None;
                continue;
            }
            // A queued resume begins in this process a moment later.
            let since = *pending.get_or_insert_with(std::time::Instant::now);
            // The end is recorded before its event arrives.
            let is_done = task.data.pending.is_none() && self.end_is_printed(&task);
            if board.active_here() == 0 && (is_done || since.elapsed() > PENDING) {
                break;
            }
            tokio::time::sleep(TICK).await;
        }
        board.close(TASKS_STOP).await;
        self.bar.finish_and_clear();
        Ok(board.task(&task.id).await?)
    }

    /// Prints the answer of the run that was started here and returns its exit code. A queued resume is another run with
    /// its own answer.
    fn finish(&self, task: &Task, run: u32, output: &mut Output) -> CommandResult {
        let own = usize::try_from(run).ok().and_then(|run| task.data.runs.get(run.checked_sub(1)?));
        let own = own.filter(|_| run < task.run());
        let result = own.map_or(&task.data.result, |own| &own.result);
        let status = own.and_then(|own| own.end).unwrap_or(task.status);
        if self.json {
            let mut value = serde_json::to_value(task).unwrap_or_default();
            if let Value::Object(fields) = &mut value {
                fields.insert("type".into(), "task".into());
                fields.insert("run".into(), run.into());
            }
            print_json(&value);
        } else if let Some(result) = result {
            output.words(result.trim_end())?;
            output.flush()?;
        }
        let id = short_id(&task.id, []);
        if own.is_some() {
            note(&format!("a queued resume ran after this; `plimsoll tasks show {id}` has its answer"));
        }
        Ok(match status {
            TaskStatus::Completed => ExitCode::SUCCESS,
            TaskStatus::Interrupted => {
                note(&format!("resume it with `plimsoll tasks resume {id} \"continue\"`"));
                ExitCode::from(interrupt::INTERRUPTED_CODE)
            }
            _ => {
                note(&missing_result(task));
                ExitCode::from(1)
            }
        })
    }
}

fn print_note(line: &str) {
    let _ = writeln!(anstream::stderr(), "{}", paint(QUIET, &printable(line)));
}

fn print_json(value: &Value) {
    let mut out = anstream::stdout().lock();
    // If the reader closes the pipe, the task continues: its work is stored.
    let _ = write_json(&mut out, value).and_then(|()| out.flush());
}
