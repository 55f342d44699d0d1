//! A hook that is a command: JSON on its standard input, JSON on its standard output.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use plimsoll::compact::request::HookText;
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

/// How long a hook may take where its configuration does not say.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most that a hook may print.
const MOST_OUTPUT: usize = 1_000_000;
/// So much of standard error is kept, to say why a hook failed.
const MOST_ERRORS: usize = 4_000;
/// How long is waited for the last of an output after its command has ended.
const GRACE: Duration = Duration::from_millis(200);

/// A command of the configuration.
pub struct CommandHook {
    setup: HookCommand,
    directory: PathBuf,
    keys: ProviderKeys,
    sandbox: Sandbox,
}

/// What a hook may answer before a call.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BeforeReply {
    input: Option<Value>,
    deny: Option<String>,
}

/// What a hook may answer after a call.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AfterReply {
    output: Option<String>,
    append: Option<String>,
}

/// What a hook may answer after a compaction in the middle of a turn.
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
    /// A command that runs in a project's directory, without variables that hold these keys, in the sandbox of commands with what
    /// is granted to it.
    pub fn new(setup: HookCommand, directory: &Path, sandbox: &Sandbox, keys: ProviderKeys) -> CommandHook {
        let sandbox = sandbox.granting(&setup.grants);
        CommandHook { setup, directory: directory.to_owned(), keys, sandbox }
    }

    /// Run the command, and give what it answers; the default where it says nothing.
    async fn ask<T: Default + DeserializeOwned>(
        &self,
        event: HookEvent,
        about: &Value,
    ) -> Result<T, HookError> {
        let said = self.tell(event, about).await?;
        if said.iter().all(u8::is_ascii_whitespace) {
            return Ok(T::default());
        }
        // An object, and no list: serde would take an empty one for an answer without fields.
        let object = serde_json::from_slice::<Map<String, Value>>(&said);
        let answer = object.and_then(|fields| serde_json::from_value(Value::Object(fields)));
        answer.map_err(|error| {
            let begin: String = String::from_utf8_lossy(&said).chars().take(60).collect();
            let begin = redacted(&clean(&begin, 60));
            HookError(format!("it printed what is no answer: {error}; it begins with `{begin}`"))
        })
    }

    /// Run the command, and give what it prints.
    async fn tell(&self, event: HookEvent, about: &Value) -> Result<Vec<u8>, HookError> {
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
            self.setup.command.split_first().ok_or_else(|| HookError("it has no command".to_owned()))?;
        let path = std::env::var_os("PATH");
        let mut command = self.sandbox.command(program, &self.directory, path.as_deref()).map_err(failed)?;
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        remove_keys(&mut command, &self.keys);
        // Whatever happens from here on, also if this future is dropped, it ends with everything it started.
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
                // A hook need not read what it is given.
                let _ = stdin.write_all(input.as_bytes()).await;
                drop(stdin);
                Ok(())
            };
            let read = async {
                let is_too_much = read_to(&mut stdout, &mut said, MOST_OUTPUT).await;
                if is_too_much { Err(()) } else { Ok(()) }
            };
            let complain = async {
                read_to(&mut stderr, &mut errors, MOST_ERRORS).await;
                // The rest is read as well: a full pipe would stop the hook.
                let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
                Ok(())
            };
            tokio::try_join!(write, read, complain).is_err()
        };
        // A process that the hook left behind may hold its output open.
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
            _ if is_too_much => return Err(HookError(format!("it printed more than {MOST_OUTPUT} bytes"))),
            _ if !has_ended => format!("it took longer than {} s", limit.as_secs_f64()),
            Some(status) if status.success() => return Ok(said),
            Some(status) => format!("it failed ({status})"),
            None => "it failed".to_owned(),
        };
        let why = redacted(&clean(&String::from_utf8_lossy(&errors), 500));
        let why = Some(why).filter(|why| has_ended && !why.is_empty()).map(|why| format!(": {why}"));
        let hint = failure_hint(&self.sandbox, "beside its `command` in `[[hooks]]`");
        Err(HookError(format!("{failed}{}{}", why.unwrap_or_default(), hint.unwrap_or_default())))
    }
}

/// Read until the end or until there is more than `most`; says whether there was.
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
                    Err(HookError("it wants both to replace and to add; it may do one of them".to_owned()))
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
            // There is nothing to answer, so that anything may be printed.
            self.tell(HookEvent::Compacted, &about).await.map(drop)
        })
    }
}
