//! `bash`: runs a command line.

use std::io::{self, PipeReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use plimsoll_config::ProviderKeys;
use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, Confinement, ProcessGroup, ProcessWaiter, Sandbox, Subject};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::agent::{Tool, ToolCall, ToolError, number, text};
use crate::confinement::{closed_text_for_model, text_for_model};
use crate::process::remove_keys;

/// Default timeout of a command.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum timeout.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// How long to read output after the shell has ended, because the shell does not wait for `command > >(tee log)`. Every
/// call that leaves a background process pays this time.
const FLUSH: Duration = Duration::from_millis(100);
/// How long to wait for further output after everything has ended.
const GRACE: Duration = Duration::from_millis(500);
/// Total time limit for further output.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Maximum size of an output in bytes, because it is stored on the disk of the sessions.
const MAX_OUTPUT: u64 = 4 << 30;
/// Runs a command line.
pub struct Bash {
    spec: ToolSpec,
    keys: ProviderKeys,
    sandbox: Arc<Sandbox>,
}

impl Bash {
    /// Creates a tool that runs its commands in this sandbox.
    pub fn new(sandbox: impl Into<Arc<Sandbox>>) -> Bash {
        let sandbox = sandbox.into();
        let description = format!(
            "Runs a bash command in the project directory and returns its combined standard output and standard error, and \
             the exit code if it is not 0. Standard input is empty and no terminal is attached. The command and all its \
             child processes are killed when it ends or after `timeout` (default: {} seconds, maximum: {}).{}",
            DEFAULT_TIMEOUT.as_secs(),
            MAX_TIMEOUT.as_secs(),
            text_for_model(&sandbox)
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "Command to run."},
                "timeout": {"type": "integer", "minimum": 1, "description": "Timeout in seconds."}
            },
            "required": ["command"]
        });
        Bash {
            spec: ToolSpec { name: "bash".into(), description, schema },
            keys: ProviderKeys::default(),
            sandbox,
        }
    }

    /// Removes variables that contain these keys from the environment of commands. A command can still find keys in
    /// files that it may read, but not in the environment of this process if the sandbox holds [`Guard::Memory`].
    ///
    /// [`Guard::Memory`]: plimsoll_sandbox::Guard::Memory
    pub fn hiding(self, keys: ProviderKeys) -> Bash {
        Bash { keys, ..self }
    }

    /// Describes to the model what is closed to commands in this project, if anything.
    pub(crate) fn in_project(mut self, directory: &Path) -> Bash {
        self.spec.description.push_str(closed_text_for_model(&self.sandbox, directory).unwrap_or_default());
        self
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Act
    }

    fn subject(&self, input: &Value, _: &Path) -> Result<Subject, ToolError> {
        Ok(Subject::Command(text(input, "command")?.to_owned()))
    }

    fn confinement(&self) -> Option<&Confinement> {
        Some(self.sandbox.confinement())
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let line = text(call.input, "command")?;
        let asked = number(call.input, "timeout")?.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let timeout = asked.clamp(Duration::from_secs(1), MAX_TIMEOUT);
        let (mut running, signs) = self.start(line, call)?;
        let deadline = Instant::now() + timeout;
        let mut last = LineTracker::default();
        let mut is_closed = false;
        let end = loop {
            // Checked here too, because continuous output would keep a cancelled call alive.
            if call.cancel.is_cancelled() {
                break End::Cancelled;
            }
            match signs.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Sign::Output(piece)) => last.write(out, &piece)?,
                // The command closed its output and may still run.
                Ok(Sign::Closed) => is_closed = true,
                Ok(Sign::Ended) => break End::Exit,
                Ok(Sign::Cancelled) => break End::Cancelled,
                Err(RecvTimeoutError::Timeout) => break End::TimedOut,
                // The reading and waiting threads are gone, so the exit status is unknown.
                Err(RecvTimeoutError::Disconnected) => break End::Exit,
            }
            if last.1 > MAX_OUTPUT {
                break End::TooMuch;
            }
            if Instant::now() >= deadline {
                break End::TimedOut;
            }
        };
        let mut drain = |patience: Duration, most: Duration| -> Result<(), ToolError> {
            let until = Instant::now() + most;
            while !is_closed && Instant::now() < until {
                match signs.recv_timeout(patience) {
                    Ok(Sign::Output(piece)) => last.write(out, &piece)?,
                    Ok(Sign::Closed) => is_closed = true,
                    Ok(Sign::Ended | Sign::Cancelled) => {}
                    Err(_) => break,
                }
            }
            Ok(())
        };
        if matches!(end, End::Exit) {
            drain(FLUSH, FLUSH)?;
        }
        // Background processes end with the call; then nothing holds the output open.
        let status = running.kill();
        // If the system cannot end all processes, one of them may hold the output open and print forever.
        drain(GRACE, LAST_WORDS)?;
        match end {
            End::Cancelled => Err(ToolError::Cancelled),
            End::TimedOut => last.note(out, &format!("[timed out after {} s]", timeout.as_secs())),
            End::TooMuch => {
                last.note(out, &format!("[killed: it printed more than {} GB]", MAX_OUTPUT >> 30))
            }
            End::Exit => match status.map(|status| (status.code(), status.signal())) {
                Some((Some(0), _)) => Ok(()),
                Some((Some(code), _)) => last.note(out, &format!("[exit code {code}]")),
                Some((None, Some(signal))) => last.note(out, &format!("[ended by signal {signal}]")),
                Some((None, None)) | None => last.note(out, "[exit status unknown]"),
            },
        }
    }
}

enum End {
    Exit,
    TimedOut,
    TooMuch,
    Cancelled,
}

/// Event of a running command.
enum Sign {
    Output(Vec<u8>),
    /// The output was closed.
    Closed,
    Ended,
    Cancelled,
}

/// Last byte and size of the output, so that a note starts on a new line.
#[derive(Default)]
struct LineTracker(Option<u8>, u64);

impl LineTracker {
    fn write(&mut self, out: &mut dyn Write, piece: &[u8]) -> Result<(), ToolError> {
        out.write_all(piece)?;
        self.0 = piece.last().copied().or(self.0);
        self.1 += piece.len() as u64;
        Ok(())
    }

    fn note(&self, out: &mut dyn Write, note: &str) -> Result<(), ToolError> {
        let newline = if self.0.is_some_and(|last| last != b'\n') { "\n" } else { "" };
        Ok(writeln!(out, "{newline}{note}")?)
    }
}

impl Bash {
    fn start(&self, line: &str, call: &ToolCall<'_>) -> Result<(Running, Receiver<Sign>), ToolError> {
        let failed = |error: io::Error| ToolError::Failed(format!("cannot run bash: {error}"));
        // One pipe for both, to preserve the order.
        let (reader, writer) = io::pipe().map_err(failed)?;
        let errors = writer.try_clone().map_err(failed)?;
        let path = std::env::var_os("PATH");
        let mut command = self.sandbox.command("bash", call.directory, path.as_deref()).map_err(failed)?;
        command.arg("-c").arg(line);
        // Without input, a command that asks a question fails at once instead of waiting for its timeout.
        command.stdin(Stdio::null()).stdout(writer).stderr(errors);
        remove_keys(&mut command, &self.keys);
        let group = self.sandbox.spawn(&mut command, call.directory).map_err(failed)?;
        // The command must hold the only write ends of the pipe.
        drop(command);
        let mut running = Running { group, waker: None };
        // Bounded: a command that prints faster than the disk has to wait.
        let (sender, signs) = sync_channel(16);
        let thread = |name: &str| std::thread::Builder::new().name(format!("plimsoll-{name}"));
        let (output, ended) = (sender.clone(), sender.clone());
        thread("bash").spawn(move || forward(reader, &output)).map_err(failed)?;
        let waiter = running.group.waiter();
        thread("bash-wait").spawn(move || report_end(waiter, &ended)).map_err(failed)?;
        let cancel = call.cancel.clone();
        let waker = call.runtime.spawn(async move {
            cancel.cancelled().await;
            // If the channel is full, its receiver is busy and checks the token itself.
            let _ = sender.try_send(Sign::Cancelled);
        });
        running.waker = Some(waker.abort_handle());
        Ok((running, signs))
    }
}

/// A command with its child processes, which end when this is dropped.
struct Running {
    group: ProcessGroup,
    /// Waits for the run to be cancelled.
    waker: Option<AbortHandle>,
}

impl Running {
    /// Ends all processes, and returns the exit status of the command; `None` if they were ended before.
    fn kill(&mut self) -> Option<ExitStatus> {
        if let Some(waker) = self.waker.take() {
            waker.abort();
        }
        (!self.group.is_over()).then(|| self.group.end()).flatten()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn report_end(waiter: ProcessWaiter, signs: &SyncSender<Sign>) {
    waiter.wait();
    let _ = signs.send(Sign::Ended);
}

fn forward(mut reader: PipeReader, signs: &SyncSender<Sign>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = reader.read(&mut buffer) {
        if signs.send(Sign::Output(buffer[..count].to_vec())).is_err() {
            return;
        }
    }
    let _ = signs.send(Sign::Closed);
}
