//! Hooks that are commands: JSON on standard input, JSON on standard output.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use plimsoll::compact::HookText;
use plimsoll::redact::redact;
use plimsoll_config::{HookCommand, HookEvent, ProviderKeys};
use plimsoll_sandbox::Sandbox;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::{
    AfterTool, BeforeTool, CompactionContext, HookError, HookFuture, HookedCall, HookedResult, Hooks,
};
use crate::confinement::failure_hint;
use crate::process::{remove_keys, wait_for_end};
use crate::untrusted::clean;

/// Default timeout of a hook.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a hook's output, in bytes.
const MAX_OUTPUT: usize = 1_000_000;
/// Maximum size of standard error that is quoted when a hook fails.
const MAX_ERRORS: usize = 4_000;
/// How long to wait for the rest of the output after the command has ended.
const GRACE: Duration = Duration::from_millis(200);

/// A hook that runs a command of the configuration.
pub struct CommandHook {
    setup: HookCommand,
    directory: PathBuf,
    keys: ProviderKeys,
    sandbox: Sandbox,
}

/// Reply before a call.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BeforeReply {
    input: Option<Value>,
    deny: Option<String>,
}

/// Reply after a call.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AfterReply {
    output: Option<String>,
    append: Option<String>,
}

/// Reply after a compaction during a turn.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AutocontinueReply {
    enabled: bool,
}

impl Default for AutocontinueReply {
    fn default() -> AutocontinueReply {
        AutocontinueReply { enabled: true }
    }
}

impl CommandHook {
    /// Creates a hook whose command runs in a project's directory without the variables that contain these keys, in the
    /// sandbox of commands extended by the hook's grants.
    pub fn new(setup: HookCommand, directory: &Path, sandbox: &Sandbox, keys: ProviderKeys) -> CommandHook {
        let sandbox = sandbox.granting(&setup.grants);
        CommandHook { setup, directory: directory.to_owned(), keys, sandbox }
    }

    /// Runs the command and parses its reply; no output means the default.
    async fn ask<T: Default + DeserializeOwned>(
        &self,
        event: HookEvent,
        about: &Value,
    ) -> Result<T, HookError> {
        let said = self.request_reply(event, about).await?;
        if said.iter().all(u8::is_ascii_whitespace) {
            return Ok(T::default());
        }
        // Requires an object: serde would accept an empty list as a reply without fields.
        let object = serde_json::from_slice::<Map<String, Value>>(&said);
        let answer = object.and_then(|fields| serde_json::from_value(Value::Object(fields)));
        answer.map_err(|error| {
            let begin: String = String::from_utf8_lossy(&said).chars().take(60).collect();
            let begin = redacted(&clean(&begin, 60));
            HookError(format!("its output is not a valid reply: {error}; it begins with `{begin}`"))
        })
    }

    /// Runs the command and returns its output.
    async fn request_reply(&self, event: HookEvent, about: &Value) -> Result<Vec<u8>, HookError> {
        if let Some(problem) = &self.setup.problem {
            return Err(HookError(problem.clone()));
        }
        let mut input = json!({ "event": event.name(), "directory": self.directory });
        if let (Value::Object(all), Value::Object(fields)) = (&mut input, about) {
            all.extend(fields.clone());
        }
        self.run(&input.to_string()).await
    }

    async fn run(&self, input: &str) -> Result<Vec<u8>, HookError> {
        let failed = |error: io::Error| HookError(format!("it cannot be run: {error}"));
        let (program, arguments) =
            self.setup.command.split_first().ok_or_else(|| HookError("its command is empty".to_owned()))?;
        let path = std::env::var_os("PATH");
        let mut command = self.sandbox.command(program, &self.directory, path.as_deref()).map_err(failed)?;
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        remove_keys(&mut command, &self.keys);
        // From here on, the command and its children are ended when this future completes or is dropped.
        let mut group = self.sandbox.spawn(&mut command, &self.directory).map_err(failed)?;
        let child = group.child();
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(HookError("its pipes could not be opened".to_owned()));
        };
        let mut stdin = ChildStdin::from_std(stdin).map_err(failed)?;
        let mut stdout = ChildStdout::from_std(stdout).map_err(failed)?;
        let mut stderr = ChildStderr::from_std(stderr).map_err(failed)?;
        let (mut said, mut errors) = (Vec::new(), Vec::new());
        let limit = self.setup.timeout.unwrap_or(TIMEOUT);
        let until = Instant::now() + limit;
        let talk = async {
            let write = async {
                // A hook need not read its input.
                let _ = stdin.write_all(input.as_bytes()).await;
                drop(stdin);
                Ok(())
            };
            let read = async {
                let is_too_much = read_to(&mut stdout, &mut said, MAX_OUTPUT).await;
                if is_too_much { Err(()) } else { Ok(()) }
            };
            let complain = async {
                read_to(&mut stderr, &mut errors, MAX_ERRORS).await;
                // Read the rest as well: a full pipe would block the hook.
                let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
                Ok(())
            };
            tokio::try_join!(write, read, complain).is_err()
        };
        // A background process of the hook may keep its output open.
        let ended = async {
            wait_for_end(&group, limit).await;
            tokio::time::sleep(GRACE).await;
        };
        let is_too_much = tokio::select! {
            biased;
            is_too_much = talk => is_too_much,
            () = ended => false,
        };
        if !is_too_much {
            wait_for_end(&group, until.saturating_duration_since(Instant::now())).await;
        }
        let has_ended = group.has_ended();
        let status = group.end();
        let failed = match status {
            _ if is_too_much => return Err(HookError(format!("it printed more than {MAX_OUTPUT} bytes"))),
            _ if !has_ended => format!("it took longer than {} s", limit.as_secs_f64()),
            Some(status) if status.success() => return Ok(said),
            Some(status) => format!("it failed ({status})"),
            None => "it failed".to_owned(),
        };
        let why = redacted(&clean(&String::from_utf8_lossy(&errors), 500));
        let why = Some(why).filter(|why| has_ended && !why.is_empty()).map(|why| format!(": {why}"));
        let hint = failure_hint(&self.sandbox, "next to its `command` in `[[hooks]]`");
        Err(HookError(format!("{failed}{}{}", why.unwrap_or_default(), hint.unwrap_or_default())))
    }
}

/// Reads to the end or until there are more than `most` bytes. Returns whether there were.
async fn read_to(from: &mut (impl AsyncRead + Unpin), into: &mut Vec<u8>, most: usize) -> bool {
    let mut limited = from.take(most as u64 + 1);
    let _ = limited.read_to_end(into).await;
    into.len() > most
}

fn redacted(text: &str) -> String {
    redact(text).text
}

impl Hooks for CommandHook {
    fn name(&self) -> String {
        redacted(&clean(&self.setup.command.join(" "), 80))
    }

    fn is_for(&self, event: HookEvent, tool: Option<&str>) -> bool {
        self.setup.event == event && tool.is_none_or(|tool| self.setup.is_for(tool))
    }

    fn before_tool<'a>(&'a self, call: &'a HookedCall) -> HookFuture<'a, BeforeTool> {
        Box::pin(async move {
            let about = serde_json::to_value(call).unwrap_or_default();
            let BeforeReply { input, deny } = self.ask(HookEvent::ToolBefore, &about).await?;
            Ok(match (deny, input) {
                (Some(words), _) => BeforeTool::Refuse(words),
                (None, Some(input)) => BeforeTool::Change(input),
                (None, None) => BeforeTool::Go,
            })
        })
    }

    fn after_tool<'a>(&'a self, call: &'a HookedCall, result: HookedResult<'a>) -> HookFuture<'a, AfterTool> {
        Box::pin(async move {
            let mut about = serde_json::to_value(call).unwrap_or_default();
            if let (Value::Object(about), Ok(Value::Object(result))) =
                (&mut about, serde_json::to_value(result))
            {
                about.extend(result);
            }
            match self.ask(HookEvent::ToolAfter, &about).await? {
                AfterReply { output: Some(_), append: Some(_) } => {
                    Err(HookError("it returned both `output` and `append`; only one is allowed".to_owned()))
                }
                AfterReply { output: Some(text), .. } => Ok(AfterTool::Replace(text)),
                AfterReply { append: Some(text), .. } => Ok(AfterTool::Append(text)),
                AfterReply { .. } => Ok(AfterTool::Keep),
            }
        })
    }

    fn compacting<'a>(&'a self, compaction: &'a CompactionContext) -> HookFuture<'a, HookText> {
        Box::pin(async move {
            self.ask(HookEvent::Compacting, &serde_json::to_value(compaction).unwrap_or_default()).await
        })
    }

    fn autocontinue<'a>(&'a self, compaction: &'a CompactionContext) -> HookFuture<'a, bool> {
        Box::pin(async move {
            let about = serde_json::to_value(compaction).unwrap_or_default();
            let reply: AutocontinueReply = self.ask(HookEvent::Autocontinue, &about).await?;
            Ok(reply.enabled)
        })
    }

    fn compacted<'a>(&'a self, compaction: &'a CompactionContext) -> HookFuture<'a, ()> {
        Box::pin(async move {
            let about = serde_json::to_value(compaction).unwrap_or_default();
            // This event has no reply, so any output is accepted.
            self.request_reply(HookEvent::Compacted, &about).await.map(drop)
        })
    }
}
