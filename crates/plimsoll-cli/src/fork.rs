//! `plimsoll fork`: a session's history as context for another agent.

use std::process::ExitCode;

use plimsoll::fork::task_text;
use plimsoll::{Counter, Plan, Tokens};
use plimsoll_host::{Host, HostError, MaxCounter};
use serde_json::{Value, json};

use crate::args::ForkArgs;
use crate::error::CommandResult;
use crate::output::{Output, counted, note, percent};
use crate::tasks;

/// Prints a digest of a session, or runs a task with its context.
pub(crate) fn run(args: &ForkArgs, host: &Host, output: &mut Output) -> CommandResult {
    if let Some(prompt) = &args.run {
        return tasks::fork(args, prompt, host, output);
    }
    let config = host.config(&args.input.policy.flags())?;
    let messages = host.transcript(args.input.spec())?.messages;
    let task = args.child_task.as_deref().map(str::trim);
    if task == Some("") {
        return Err(HostError::usage("`--task` is empty"));
    }
    let task = task.map(task_text);
    let forked = host.fork_digest(messages, task.as_deref(), args.redact, &config)?;
    let (digest, redacted) = (forked.digest, forked.redacted);
    if output.json {
        let mut value = json!(digest);
        if let (Some(task), Value::Object(fields)) = (&task, &mut value) {
            fields.insert("task".to_owned(), task.as_str().into());
        }
        if let (true, Value::Object(fields)) = (args.redact, &mut value) {
            fields.insert("redacted".to_owned(), redacted.into());
        }
        output.json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(message) = digest.message() else {
        note("the session has no history to fork");
        return Ok(ExitCode::from(1));
    };
    let message = match &task {
        Some(task) => format!("{message}\n\n{task}"),
        None => message,
    };
    output.text(&message)?;
    output.flush()?;
    if args.redact {
        note(&format!("redacted {}", counted(redacted, "secret")));
    }
    if args.stats {
        let (tokens, context) = (MaxCounter(config.policy.count).count(&message), Tokens(config.context));
        note(&Plan::Fork(digest.stats).detail());
        note(&format!(
            "about {tokens} tokens, {} % of a context window of {context}",
            percent(tokens, context)
        ));
    }
    Ok(ExitCode::SUCCESS)
}
