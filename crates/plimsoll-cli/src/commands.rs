//! The commands: each reads, asks the engine, and renders its answer.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use plimsoll::compact::extract::extract;
use plimsoll::compact::ladder::{Situation, Trigger};
use plimsoll::count::{request_tokens, window_message_tokens};
use plimsoll::prune::Pressure;
use plimsoll::truncate::Spill;
use plimsoll::{
    Block, Fixed, Limits, Load, Message, Millis, Plan, Policy, Window, WindowMessage, WindowRole, prune,
};
use plimsoll_formats::{Chain, Format};
use serde_json::json;

use crate::args::{
    Cli, CompactArgs, ConfigArgs, ConvertArgs, ForkArgs, InputArgs, PlanArgs, PruneArgs, TruncateArgs,
};
use crate::error::CliError;
use crate::input;
use crate::inspect::Scale;
use crate::output::{Output, note, printable};

type Done = Result<ExitCode, CliError>;

/// Where the tokens go.
pub(crate) fn inspect(args: &PlanArgs, output: &mut Output) -> Done {
    let policy = input::policy(&args.input.policy)?;
    let mut scale = Scale::new(&policy);
    // A file is weighed as it is read, so that it may be larger than the memory.
    match args.input.file.as_deref().filter(|file| file.is_file()) {
        Some(path) => {
            let file = BufReader::with_capacity(1 << 16, File::open(path)?);
            let name = format!("`{}`", path.display());
            let visited = plimsoll_formats::visit(file, &mut |chain, message| {
                if chain == Chain::Main {
                    scale.add(message);
                }
            });
            let visited =
                visited.map_err(|error| CliError::failed(format!("cannot read {name}: {error}")))?;
            input::check(&visited, &name, args.input.strict)?;
        }
        None => input::transcript(&args.input)?.messages.into_iter().for_each(|message| scale.add(message)),
    }
    let inspection = scale.read(Limits::new(args.context, 0));
    if output.json {
        output.json(&inspection)?;
    } else {
        output.text(&inspection.render())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The same conversation in another format.
pub(crate) fn convert(args: &ConvertArgs, output: &mut Output) -> Done {
    let to: Format = args
        .to
        .parse()
        .map_err(|error: plimsoll_formats::UnknownFormat| CliError::usage(error.to_string()))?;
    let transcript = input::transcript(&args.input)?;
    let written = plimsoll_formats::write(to, &transcript.info, &transcript.messages);
    let written = written.map_err(|error| CliError::failed(error.to_string()))?;
    output.json(&written)?;
    Ok(ExitCode::SUCCESS)
}

/// What the model would be given now.
pub(crate) fn window(args: &InputArgs, output: &mut Output) -> Done {
    let policy = input::policy(&args.policy)?;
    let log = input::log(args)?;
    let window = Window::of(&log, &policy);
    let tokens = request_tokens(&window, Fixed::default(), &policy.count);
    if output.json {
        output.json(&json!({ "messages": window.messages, "pivot": window.pivot, "tokens": tokens }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for message in &window.messages {
        output.text(&heading(message, &policy))?;
        for block in &message.blocks {
            output.text(&printable(&shown(block)))?;
        }
        output.text("")?;
    }
    note(&format!("{} messages, about {tokens} tokens", window.messages.len()));
    Ok(ExitCode::SUCCESS)
}

fn heading(message: &WindowMessage, policy: &Policy) -> String {
    let role = match message.role {
        WindowRole::System => "system",
        WindowRole::User => "user",
        WindowRole::Assistant => "assistant",
        WindowRole::Tool => "tool",
    };
    let tokens = window_message_tokens(message, &policy.count);
    let from = message.message.as_ref().map(|id| format!("  {id}")).unwrap_or_default();
    format!("── {role}  {tokens} tokens{from}")
}

fn shown(block: &Block) -> String {
    match block {
        Block::Text { text, .. } => text.to_string(),
        Block::Reasoning { text, .. } => format!("[reasoning]\n{text}"),
        Block::Call { tool, input, .. } => format!("[call] {tool} {}", input.json()),
        Block::Result { tool, text, is_error, .. } => {
            format!("[{}] {tool}\n{text}", if *is_error { "error" } else { "result" })
        }
        Block::File { mime, filename, .. } => {
            let (mime, name) = (mime.as_deref(), filename.as_deref());
            format!("[file] {} {}", mime.unwrap_or("unknown"), name.unwrap_or("unnamed"))
        }
    }
}

/// A history as context for another agent.
pub(crate) fn fork(args: &ForkArgs, output: &mut Output) -> Done {
    let policy = input::policy(&args.input.policy)?;
    let messages = input::transcript(&args.input)?.messages;
    let digest = plimsoll::fork::fork(&messages, &policy.fork);
    if output.json {
        output.json(&digest)?;
    } else if let Some(message) = digest.message() {
        output.text(&message)?;
    }
    if args.stats && !output.json {
        note(&Plan::Fork(digest.stats).detail());
    }
    Ok(ExitCode::SUCCESS)
}

/// Which old tool outputs would be cleared.
pub(crate) fn prune(args: &PruneArgs, output: &mut Output) -> Done {
    let args = &args.from;
    let policy = input::policy(&args.input.policy)?;
    let log = input::log(&args.input)?;
    let limits = Limits::new(args.context, 0);
    let load = Load::of(&log, &policy, Fixed::default(), &policy.count);
    let plan = prune::plan(&log, &policy, Some(Pressure { load: load.tokens, limits }));
    if output.json {
        output.json(&plan)?;
    } else {
        output.text(&Plan::Prune(plan).detail())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Which messages a summary would take the place of.
pub(crate) fn compact(args: &CompactArgs, output: &mut Output) -> Done {
    let PlanArgs { input: from, context } = &args.from;
    let policy = input::policy(&from.policy)?;
    let log = input::log(from)?;
    let limits = policy.limits("", Some(Limits::new(*context, 0)));
    // The clock only stamps what is appended, and nothing is appended here.
    let situation = Situation { trigger: Trigger::Manual, ..Situation::new(&policy, limits, Millis(0)) };
    let situation = Situation { summariser: (!args.offline).then_some(limits), ..situation };
    let Some(plan) = situation.plan_compaction(&log) else {
        note("there is too little to summarise");
        return Ok(ExitCode::from(1));
    };
    if !args.offline {
        if output.json {
            output.json(&plan)?;
        } else {
            output.text(&Plan::Compact(plan).detail())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let first = log.place(&plan.first).map_err(|error| CliError::failed(error.to_string()))?;
    let last = log.place(&plan.last).map_err(|error| CliError::failed(error.to_string()))?;
    let head: Vec<&Message> = log[first..=last].iter().filter(|message| !message.info.summary).collect();
    let prior = plimsoll::pivot::Pivot::newest(&log).map(|pivot| pivot.text(&log));
    let summary = extract(&head, prior.as_ref(), policy.compact.extractive_tokens, &policy.count);
    if output.json {
        output.json(&json!({ "summary": summary, "plan": plan }))?;
    } else {
        output.text(&summary)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Cut a tool's output as layer 1 would.
pub(crate) fn truncate(args: &TruncateArgs, output: &mut Output) -> Done {
    let policy = input::policy(&args.policy)?;
    let bytes = input::stdin_bytes()?;
    let plan = plimsoll::truncate::plan(&bytes, &args.tool, &policy);
    let spill = match &args.spill_dir {
        Some(directory) if plan.wants_spill() => spill(directory, &bytes),
        _ => Spill::Off,
    };
    let shown = plan.render(&spill);
    if output.json {
        output.json(&json!({ "output": shown, "plan": plan, "spill": spill }))?;
    } else if plan.loses() {
        output.text(&shown)?;
    } else {
        output.bytes(&bytes)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Keep the whole output. Where that fails, the output is still cut and says that the rest is lost.
fn spill(directory: &Path, bytes: &[u8]) -> Spill {
    // Named by content, so that running twice keeps one file.
    let path = directory.join(format!("{}.txt", blake3::hash(bytes).to_hex()));
    match std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, bytes)) {
        Ok(()) => Spill::Saved(path.display().to_string()),
        Err(error) => Spill::Failed(error.to_string()),
    }
}

/// Show or check a policy.
pub(crate) fn config(args: &ConfigArgs, output: &mut Output) -> Done {
    if args.schema {
        output.text(&pretty(&Policy::schema())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    match input::policy(&args.policy) {
        Ok(policy) if args.check => {
            note(&format!("policy `{}` is consistent", policy.name));
            Ok(ExitCode::SUCCESS)
        }
        Ok(policy) => {
            if output.json {
                output.json(&policy)?;
            } else {
                output.text(&pretty(&policy)?)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if args.check => {
            error.tell();
            Ok(ExitCode::from(1))
        }
        Err(error) => Err(error),
    }
}

/// A completion script for a shell.
pub(crate) fn completions(shell: Shell, output: &mut Output) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "plimsoll", &mut script);
    output.bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}

fn pretty(value: &impl serde::Serialize) -> Result<String, CliError> {
    serde_json::to_string_pretty(value).map_err(|error| CliError::failed(error.to_string()))
}
