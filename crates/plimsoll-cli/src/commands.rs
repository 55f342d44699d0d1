//! The commands that show what the engine makes of a session.

use std::process::ExitCode;

use plimsoll::compact::ladder::{Situation, Trigger};
use plimsoll::compact::request::Summariser;
use plimsoll::fork::child::{Child, fork_for};
use plimsoll::fork::history::task_text;
use plimsoll::prune::Pressure;
use plimsoll::redact::redact_messages;
use plimsoll::{CharCounter, Counter, Fixed, Limits, Load, Millis, Plan, Tokens, prune};
use plimsoll_session::UsageScale;
use plimsoll_tokens::Bpe;
use serde_json::{Value, json};

use crate::args::{CompactArgs, ForkArgs, PruneArgs};
use crate::config::Config;
use crate::error::CliError;
use crate::input::{self, Whole};
use crate::output::{Output, counted, note, percent};
use crate::plans::{self, Contents, Page, WindowSizes};
use crate::progress::Progress;
use crate::range;
use crate::reduce;
use crate::summarise;
use crate::surroundings::Surroundings;
use crate::tasks;

type Done = Result<ExitCode, CliError>;

/// A history as context for another agent.
pub(crate) fn fork(args: &ForkArgs, around: &Surroundings, output: &mut Output) -> Done {
    if let Some(prompt) = &args.run {
        return tasks::fork(args, prompt, around, output);
    }
    let Config { policy, context, .. } = Config::load(&args.input.policy, around)?;
    let mut messages = input::transcript(&args.input, around)?.messages;
    let redacted = if args.redact { redact_messages(&mut messages).len() } else { 0 };
    let task = args.child_task.as_deref().map(str::trim);
    if task == Some("") {
        return Err(CliError::usage("`--task` has no text"));
    }
    let task = task.map(task_text);
    let fixed = Fixed::default();
    let child = Child { limits: Limits::new(context, 0), fixed, task: task.as_deref().unwrap_or("") };
    let counter = Larger(policy.count);
    let digest = Progress::during("forking", || {
        let digest = plimsoll::fork::fork(&messages, &policy.fork);
        // No text has more tokens than bytes. Most digests fit by that alone and need not be counted.
        let most = digest.message().map(|message| Tokens(message.len() as u64) + counter.message_overhead());
        match child.room(&policy, &policy.count) {
            Some(room) if most.is_some_and(|most| most > room) => {
                fork_for(&messages, &policy, &child, &counter)
            }
            _ => Ok(digest),
        }
    });
    let digest = digest.map_err(|no_room| {
        let hint = format!("a context window of {} is too small; give a larger --context", Tokens(context));
        CliError::no(no_room.to_string()).hint(hint)
    })?;
    if output.json {
        let mut told = json!(digest);
        if let (Some(task), Value::Object(fields)) = (&task, &mut told) {
            fields.insert("task".to_owned(), task.as_str().into());
        }
        if let (true, Value::Object(fields)) = (args.redact, &mut told) {
            fields.insert("redacted".to_owned(), redacted.into());
        }
        output.json(&told)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(message) = digest.message() else {
        note("there is no history to give");
        return Ok(ExitCode::from(1));
    };
    let message = match &task {
        Some(task) => format!("{message}\n\n{task}"),
        None => message,
    };
    output.text(&message)?;
    output.flush()?;
    if args.redact {
        note(&format!("replaced {}", counted(redacted, "secret")));
    }
    if args.stats {
        let tokens = counter.count(&message);
        let share = percent(tokens, Tokens(context));
        note(&Plan::Fork(digest.stats).detail());
        note(&format!("about {tokens} tokens, {share} % of a context window of {}", Tokens(context)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Counts by length and by a real vocabulary, and takes the larger. Nobody says which model the digest is for, and
/// four chars a token are far too many for scripts other than Latin.
struct Larger(CharCounter);

impl Counter for Larger {
    fn name(&self) -> &'static str {
        "larger of chars and o200k"
    }

    fn count(&self, text: &str) -> Tokens {
        self.0.count(text).max(Bpe::O200k.count(text))
    }
}

/// Which old tool outputs would be cleared.
pub(crate) fn prune(args: &PruneArgs, around: &Surroundings, output: &mut Output) -> Done {
    if args.apply {
        return reduce::prune(args, around, output);
    }
    let config = Config::load(&args.input.policy, around)?;
    let Whole { log, limits, directory, counts: _counts } = input::whole_log(&args.input, &config, around)?;
    let policy = config.policy;
    let plan = Progress::during("planning", || {
        // The scale counts the whole session, so it is made only where something was chosen.
        if let Some(choice) = args.choice.choice()
            && let Some(scale) = UsageScale::of(&log, &policy)
        {
            return scale.plan_choice(&log, &policy, &choice, limits);
        }
        let load = Load::of(&log, &policy, Fixed::default(), &policy.count);
        let pressure = Some(Pressure { load: load.tokens, limits });
        match args.choice.choice() {
            Some(choice) => prune::plan_choice(&log, &policy, &choice, pressure),
            None => prune::plan(&log, &policy, pressure),
        }
    });
    let there = reduce::other_tools(&plan, &log, &policy);
    let planned = Plan::Prune(plan.clone());
    let sizes = WindowSizes::planned(&planned, &log, &policy, limits);
    let contents = Contents::of(&log, directory.as_deref(), [&planned]);
    if output.json {
        output.json(&plans::as_json(&plan, sizes, &contents))?;
    } else {
        let page = Page { contents: &contents, width: output.width(), handles: false };
        output.painted(&page.plan(&planned, sizes))?;
    }
    there.iter().for_each(|there| note(there));
    Ok(ExitCode::SUCCESS)
}

/// Which messages a summary would take the place of.
pub(crate) fn compact(args: &CompactArgs, around: &Surroundings, output: &mut Output) -> Done {
    if args.apply && !args.offline && args.model.is_none() && args.command.is_none() {
        return Err(CliError::usage("`--apply` needs a summary").hint(
            "`--model PROVIDER/MODEL` or `--command CMD` makes one, `--offline` does without a model",
        ));
    }
    if let (Some(from), Some(to)) = (&args.from, &args.to) {
        return range::compact(args, (from, to), around, output);
    }
    if args.model.is_some() || args.command.is_some() || args.edit {
        return summarise::compact(args, around, output);
    }
    if args.apply {
        return reduce::compact(&args.input, args.force, around, output);
    }
    let config = Config::load(&args.input.policy, around)?;
    let Whole { log, limits, directory, counts: _counts } = input::whole_log(&args.input, &config, around)?;
    let policy = config.policy;
    // The clock only stamps what is appended, and nothing is appended here.
    let situation = Situation { trigger: Trigger::Manual, ..Situation::new(&policy, limits, Millis(0)) };
    let mut situation =
        Situation { summariser: (!args.offline).then(|| Summariser::own(limits)), ..situation };
    if let Some(scale) = UsageScale::of(&log, &policy) {
        scale.weigh_in(&mut situation);
    }
    if args.offline {
        return summarise::show_offline(&log, situation, &policy, output);
    }
    let plan = Progress::during("planning", || situation.plan_compaction(&log));
    let Some(plan) = plan else {
        if output.json {
            output.json(&json!(null))?;
        }
        note(&reduce::too_little(&log, &policy));
        return Ok(ExitCode::from(1));
    };
    if output.json {
        output.json(&plan)?;
    } else {
        let planned = Plan::Compact(plan);
        let sizes = WindowSizes::planned(&planned, &log, &policy, limits);
        let contents = Contents::of(&log, directory.as_deref(), [&planned]);
        let page = Page { contents: &contents, width: output.width(), handles: false };
        output.painted(&page.plan(&planned, sizes))?;
    }
    Ok(ExitCode::SUCCESS)
}
