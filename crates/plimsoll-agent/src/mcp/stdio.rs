//! A server that is a local process, connected through standard input and output.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{ChildStderr, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use plimsoll::redact::redact;
use plimsoll_config::ProviderKeys;
use plimsoll_providers::Secret;
use plimsoll_sandbox::{ProcessGroup, Sandbox, needed_environment};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;

use crate::confinement::failure_hint;
use crate::process::{remove_keys, wait_for_end};
use crate::untrusted::clean;

/// Maximum size of a message in bytes. It is held in memory as a whole, and again after parsing.
pub(super) const LARGEST_MESSAGE: usize = 16 << 20;
/// Maximum length of a logged line of standard error, in characters.
const LONGEST_NOTE: usize = 500;
/// Maximum number of logged bytes of standard error for one start. The rest is read and dropped.
const MAX_NOTES: usize = 256 << 10;
/// Number of the last lines that are quoted when a server fails.
const LAST_NOTES: usize = 5;

/// A running server, its process group, and the reason why its output was rejected, if it was.
pub(super) struct ServerProcess {
    group: ProcessGroup,
    notes: Notes,
    broken: Arc<OnceLock<String>>,
    /// Added to messages about its end.
    hint: String,
}

/// The pipes for messages.
pub(super) struct ServerPipes {
    pub(super) input: ChildStdin,
    pub(super) output: BoundedLines<ChildStdout>,
}

/// Settings for starting a server's command.
pub(super) struct Launcher {
    /// The project, which is the working directory and writable.
    pub(super) project: PathBuf,
    pub(super) sandbox: Sandbox,
    pub(super) keys: ProviderKeys,
}

impl Launcher {
    /// Returns the hint to append when a server fails.
    pub(super) fn failure_hint(&self, server: &str) -> String {
        failure_hint(&self.sandbox, &format!("in `[mcp.{server}]`")).unwrap_or_default()
    }
}

/// Returns the `PATH` of a server with this environment.
fn path_for(environment: &[(String, Secret)]) -> Option<OsString> {
    let own = environment.iter().find(|(name, _)| name == "PATH");
    own.map(|(_, path)| path.expose().into()).or_else(|| std::env::var_os("PATH"))
}

impl ServerProcess {
    pub(super) fn start(
        name: &str,
        command: &[String],
        environment: &[(String, Secret)],
        directory: Option<&Path>,
        launcher: &Launcher,
    ) -> Result<(ServerProcess, ServerPipes), String> {
        let (program, arguments) = command.split_first().ok_or("its command is empty")?;
        let failed = |error: io::Error| format!("cannot run `{program}`: {error}");
        let path = path_for(environment);
        let directory = directory.unwrap_or(&launcher.project);
        let mut prepared = launcher.sandbox.command(program, directory, path.as_deref()).map_err(failed)?;
        prepared.args(arguments).env_clear().envs(needed_environment());
        remove_keys(&mut prepared, &launcher.keys);
        prepared.envs(environment.iter().map(|(name, value)| (name, value.expose())));
        prepared.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = launcher.sandbox.spawn(&mut prepared, &launcher.project).map_err(failed)?;
        let child = group.child();
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("its pipes could not be opened".to_owned());
        };
        let notes = Notes::follow(name, errors, environment).map_err(failed)?;
        let broken = Arc::default();
        let pipes = ServerPipes {
            input: ChildStdin::from_std(input).map_err(failed)?,
            output: BoundedLines {
                inner: ChildStdout::from_std(output).map_err(failed)?,
                length: 0,
                broken: Arc::clone(&broken),
            },
        };
        Ok((ServerProcess { group, notes, broken, hint: launcher.failure_hint(name) }, pipes))
    }

    /// Describes why the server stopped: invalid output, exit status, last lines of standard error.
    pub(super) async fn post_mortem(&mut self) -> String {
        // The output is closed slightly before the process has ended.
        wait_for_end(&self.group, std::time::Duration::from_millis(200)).await;
        let how = match self.broken.get() {
            Some(why) => why.clone(),
            None if self.group.has_ended() => match self.group.end() {
                Some(status) => format!("it has ended ({status})"),
                None => "it has ended".to_owned(),
            },
            None => "it has closed its output".to_owned(),
        };
        if self.group.has_ended() {
            self.notes.settle().await;
        }
        match self.notes.last() {
            Some(said) => format!("{how}; its last output: {said}{}", self.hint),
            None => format!("{how}{}", self.hint),
        }
    }

    /// Ends the server with its group after a grace period. Its input must be closed by now.
    pub(super) async fn close(&mut self, grace: std::time::Duration) {
        wait_for_end(&self.group, grace).await;
        let _ = self.group.end();
    }
}

/// Standard error of a server, for the log and for error messages.
struct Notes {
    last: Arc<Mutex<VecDeque<String>>>,
    /// Notified when everything was read.
    all_read: Option<oneshot::Receiver<()>>,
}

impl Notes {
    fn follow(name: &str, mut errors: ChildStderr, environment: &[(String, Secret)]) -> io::Result<Notes> {
        let last: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let (kept, name, secrets) = (Arc::clone(&last), name.to_owned(), environment.to_vec());
        let (is_read, all_read) = oneshot::channel();
        let follow = move || {
            let _is_read = is_read;
            let (mut line, mut left) = (Vec::new(), MAX_NOTES);
            let mut buffer = vec![0; 8 << 10];
            // Read to the end, including what is not logged: a full pipe would block the server.
            while let Ok(count @ 1..) = errors.read(&mut buffer) {
                for byte in &buffer[..count] {
                    if *byte != b'\n' {
                        // At most four bytes for each character; the rest of the line is not shown.
                        if line.len() < LONGEST_NOTE * 4 {
                            line.push(*byte);
                        }
                        continue;
                    }
                    left = note(&name, &mut line, &secrets, &kept, left);
                }
            }
            note(&name, &mut line, &secrets, &kept, left);
        };
        std::thread::Builder::new().name("plimsoll-mcp-notes".into()).spawn(follow)?;
        Ok(Notes { last, all_read: Some(all_read) })
    }

    /// Waits briefly until the standard error of an ended server was read. A child process of it may keep the pipe
    /// open.
    async fn settle(&mut self) {
        if let Some(all_read) = self.all_read.take() {
            let _ = tokio::time::timeout(std::time::Duration::from_secs(1), all_read).await;
        }
    }

    fn last(&self) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        (!last.is_empty()).then(|| last.iter().map(String::as_str).collect::<Vec<_>>().join(" | "))
    }
}

/// Logs a line and remembers it. Returns how many bytes may still be logged.
fn note(
    name: &str,
    line: &mut Vec<u8>,
    secrets: &[(String, Secret)],
    last: &Mutex<VecDeque<String>>,
    left: usize,
) -> usize {
    let bytes = std::mem::take(line);
    let text = strip_secrets(&clean(&String::from_utf8_lossy(&bytes), LONGEST_NOTE), secrets);
    if text.is_empty() || left == 0 {
        return left;
    }
    tracing::info!(server = name, "MCP server: {text}");
    let left = left.saturating_sub(bytes.len());
    if left == 0 {
        tracing::warn!(server = name, "log limit of this MCP server reached; further output is not logged");
    }
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    last.push_back(text);
    if last.len() > LAST_NOTES {
        last.pop_front();
    }
    left
}

/// Removes from a text the values that a server received, and whatever looks like a key.
pub(super) fn strip_secrets(text: &str, secrets: &[(String, Secret)]) -> String {
    let mut text = text.to_owned();
    for (name, value) in secrets {
        // Short values are not keys, and would match everywhere.
        if value.expose().len() >= 6 {
            text = text.replace(value.expose(), &format!("({name})"));
        }
    }
    redact(&text).text
}

/// Reader whose lines may not be longer than a message. `rmcp` drops a longer line, and the call would wait for its
/// timeout; here the connection ends with a reason.
pub(super) struct BoundedLines<R> {
    inner: R,
    length: usize,
    broken: Arc<OnceLock<String>>,
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        self.length = match read.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => read.len() - end - 1,
            None => self.length + read.len(),
        };
        if self.length > LARGEST_MESSAGE {
            let why = format!("it sent a message of more than {} MB", LARGEST_MESSAGE >> 20);
            let _ = self.broken.set(why.clone());
            return Poll::Ready(Err(io::Error::other(why)));
        }
        Poll::Ready(Ok(()))
    }
}
