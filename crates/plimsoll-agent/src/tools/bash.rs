//! `bash`: a command line.

use std::ffi::OsString;
use std::io::{PipeReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use plimsoll_providers::{Secret, ToolSpec};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::{Value, json};

use super::{Tool, ToolCall, ToolError, number, text};
use crate::permissions::{Access, Subject};

/// How long a command may take where the model does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// How long it may take at most.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// How often a running command is looked after.
const TICK: Duration = Duration::from_millis(50);
/// How long is waited for the last of an output after its command has ended.
const GRACE: Duration = Duration::from_millis(500);
/// How long is waited for it in all.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// A command that prints more is ended: what it prints goes to the disk that holds the sessions.
const MAX_OUTPUT: u64 = 4 << 30;
/// Keys of model providers, which are no business of what a model runs.
const HIDDEN: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"];

/// Runs a command line.
pub struct Bash {
    spec: ToolSpec,
    hidden: Vec<Secret>,
}

impl Bash {
    /// The tool.
    pub fn new() -> Bash {
        let description = format!(
            "Runs a command line with bash in the project's directory and gives what it prints, standard error included, \
             and its exit code where that is not 0. There is no terminal and no input. It ends after {} seconds unless \
             `timeout` says otherwise (at most {}), with every process it has started.",
            DEFAULT_TIMEOUT.as_secs(),
            MAX_TIMEOUT.as_secs()
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command line."},
                "timeout": {"type": "integer", "minimum": 1, "description": "Seconds it may take."}
            },
            "required": ["command"]
        });
        Bash { spec: ToolSpec { name: "bash".into(), description, schema }, hidden: Vec::new() }
    }

    /// Run commands without the variables that hold one of these secrets. A command that may read everything can still find them, in
    /// files or in the environment of this process.
    pub fn hiding(self, hidden: Vec<Secret>) -> Bash {
        Bash { hidden, ..self }
    }
}

impl Default for Bash {
    fn default() -> Bash {
        Bash::new()
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

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let line = text(call.input, "command")?;
        let asked = number(call.input, "timeout")?.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let timeout = asked.clamp(Duration::from_secs(1), MAX_TIMEOUT);
        let (mut running, output) = Running::start(line, call.directory, &self.hidden)?;
        let deadline = Instant::now() + timeout;
        let mut last = LineTracker::default();
        let end = loop {
            match output.recv_timeout(TICK) {
                Ok(piece) => last.write(out, &piece)?,
                Err(RecvTimeoutError::Timeout) => {}
                // Standard output was closed; the command may go on.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
            }
            if running.has_ended() {
                break End::Exit;
            }
            if call.cancel.is_cancelled() {
                break End::Cancelled;
            }
            if last.1 > MAX_OUTPUT {
                break End::TooMuch;
            }
            if Instant::now() >= deadline {
                break End::TimedOut;
            }
        };
        // Whatever it has left in the background ends with the call; then nothing holds the output open any more.
        let status = running.kill();
        // A process that has left the group may hold the output open, and print for ever.
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until
            && let Ok(piece) = output.recv_timeout(GRACE)
        {
            last.write(out, &piece)?;
        }
        match end {
            End::Cancelled => Err(ToolError::Cancelled),
            End::TimedOut => last.note(out, &format!("[timed out after {} s]", timeout.as_secs())),
            End::TooMuch => last.note(out, &format!("[ended: it printed more than {} GB]", MAX_OUTPUT >> 30)),
            End::Exit => match status.map(|status| (status.code(), status.signal())) {
                Some((Some(0), _)) => Ok(()),
                Some((Some(code), _)) => last.note(out, &format!("[exit code {code}]")),
                Some((None, Some(signal))) => last.note(out, &format!("[ended by signal {signal}]")),
                Some((None, None)) | None => last.note(out, "[it is not known how it ended]"),
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

/// Remembers whether the output ended a line, so that a note stands on one of its own, and how much there was.
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

/// A command with its process group, which ends with it.
struct Running {
    child: Child,
    is_over: bool,
}

impl Running {
    fn start(
        line: &str,
        directory: &Path,
        hidden: &[Secret],
    ) -> Result<(Running, Receiver<Vec<u8>>), ToolError> {
        let failed = |error: std::io::Error| ToolError::Failed(format!("cannot run bash: {error}"));
        // One pipe for both, so that what is printed stays in order.
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        let errors = writer.try_clone().map_err(failed)?;
        let mut command = Command::new("bash");
        command.arg("-c").arg(line).current_dir(directory);
        command.stdin(Stdio::null()).stdout(writer).stderr(errors).process_group(0);
        let holds_key =
            |value: &OsString| hidden.iter().any(|key| value.as_encoded_bytes() == key.expose().as_bytes());
        let keys = std::env::vars_os().filter(|(_, value)| holds_key(value)).map(|(name, _)| name);
        for name in keys.chain(HIDDEN.map(OsString::from)) {
            command.env_remove(name);
        }
        let child = command.spawn().map_err(failed)?;
        // The command holds the only ends of the pipe that are written to.
        drop(command);
        let (sender, output) = sync_channel(16);
        let thread = std::thread::Builder::new().name("plimsoll-bash".into());
        thread.spawn(move || forward(reader, &sender)).map_err(failed)?;
        Ok((Running { child, is_over: false }, output))
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether the command has ended. It is not waited for yet: as long as it is not, its number belongs to no other
    /// process, and its group can be ended safely.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let found = self.pid().map(|pid| waitid(WaitId::Pid(pid), options));
        !matches!(found, Some(Ok(None)))
    }

    /// End the whole group, and say how the command itself has ended.
    fn kill(&mut self) -> Option<ExitStatus> {
        if self.is_over {
            return None;
        }
        self.is_over = true;
        if let Some(group) = self.pid() {
            // A group that is gone already is what is wanted.
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.child.wait().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn forward(mut reader: PipeReader, output: &SyncSender<Vec<u8>>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = reader.read(&mut buffer) {
        if output.send(buffer[..count].to_vec()).is_err() {
            return;
        }
    }
}
