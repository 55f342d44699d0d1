//! Facts of a history, collected in one pass and without a model.
//!
//! Nothing here interprets. A fact is something that was said or that a call did: the user's words, the agent's
//! reports, the newest todo list, changed files, commands and their outcomes, unresolved failures, the user's rules.
//! Every fact has the message it comes from, and every text in it is redacted.
//!
//! Collecting takes time linear in the history: each text is read a constant number of times. Of tool results only the
//! two ends are read, except for a few fixed phrases.

mod agent;
mod call;
mod changes;
mod commands;
mod environment;
mod instructions;
mod newest;
mod reads;
mod shell;
mod steps;
mod strip;
mod superseded;
mod todos;
mod user;

pub use agent::{Statement, Turn};
pub use changes::{Change, ChangedFile, paths};
pub use commands::{CommandRun, Commit, Ended, OpenError, shell_commands};
pub use environment::Environment;
pub use instructions::Instruction;
pub(crate) use instructions::is_instruction;
pub use reads::{FileRead, ReadLines, SeenLines, ShellReads, file_reads, shell_reads};
pub use steps::Step;
pub(crate) use steps::end_of_path;
pub use todos::{Todo, TodoList, TodoState};
pub use user::{UserTextKind, UserWords, is_typed, typed_words};

use self::call::{Call, Results};
use crate::chars::Chars;
use crate::log::Message;
use crate::policy::SummaryPolicy;

/// Facts of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// The user's words, oldest first.
    pub words: Vec<UserWords>,
    /// The agent's texts by turn, oldest first.
    pub turns: Vec<Turn>,
    /// The newest todo list.
    pub todos: Option<TodoList>,
    /// The newest commit.
    pub commit: Option<Commit>,
    /// Changed files, the last changed last.
    pub files: Vec<ChangedFile>,
    /// Commands that build, test or run something, the last run last.
    pub commands: Vec<CommandRun>,
    /// Local addresses at which something was served, the newest last.
    pub addresses: Vec<String>,
    /// Failures without a later success, the newest last.
    pub errors: Vec<OpenError>,
    /// Objects of the newest calls, the newest last.
    pub steps: Vec<Step>,
    /// Identifiers that the newest calls used, the most used first.
    pub names: Vec<String>,
    /// The user's rules that still apply, the newest last.
    pub instructions: Vec<Instruction>,
    /// Directory, branch, variables and versions.
    pub environment: Environment,
    /// Whether the user spoke last, so that the newest request waits for an answer.
    pub is_waiting: bool,
    later: superseded::LaterActions,
}

impl Facts {
    /// Collects the facts of a history. Skips summaries and markers.
    pub fn gather(history: &[&Message], policy: &SummaryPolicy) -> Facts {
        Facts::gather_unless(&|| false, history, policy)
    }

    /// Like [`gather`](Facts::gather), but skips the rest of the history once `is_stopped` returns `true`.
    pub(crate) fn gather_unless(
        is_stopped: &dyn Fn() -> bool,
        history: &[&Message],
        policy: &SummaryPolicy,
    ) -> Facts {
        let results = Results::collect(history);
        let scan = policy.result_chars;
        let mut words = user::Gathered::new(policy);
        let mut turns = agent::Turns::default();
        let mut todos = todos::Todos::default();
        let mut changes = changes::Changes::default();
        let mut commands = commands::Commands::new(policy.command_chars, scan);
        let mut steps = steps::Steps::new(policy.last_steps, policy.min_words.max(Chars(80)));
        let mut environment = environment::EnvironmentCollector::new(scan);
        let mut later = superseded::LaterActions::default();
        let (mut number, mut is_waiting) = (0, false);
        for message in history {
            if is_stopped() {
                break;
            }
            if message.info.summary {
                continue;
            }
            if message.is_assistant() {
                turns.message(message);
                words.record_question(message);
                is_waiting = false;
            } else if words.message(message) {
                turns.begin(words.contradicts());
                is_waiting = true;
            }
            for part in &message.parts {
                let Some(call) = Call::of(&message.info.id, part, &results, scan, number) else { continue };
                number += 1;
                words.call(&call);
                todos.note(&call);
                let has_changed = changes.note(&call);
                commands.note(&call);
                steps.note(&call);
                environment.note(&call);
                later.note(&call, has_changed, words.turns);
            }
        }
        later.record_requests(&words.words);
        let instructions = instructions::instructions(&words.words, &later, policy);
        let commit = commands.commit.take();
        let (commands, errors, addresses) = commands.finish();
        let (steps, mut names) = steps.finish();
        names.truncate(usize::try_from(policy.last_names).unwrap_or(usize::MAX));
        Facts {
            words: words.words,
            turns: turns.finish(),
            todos: todos.finish(),
            commit,
            files: changes.finish(),
            commands,
            addresses,
            errors,
            steps,
            names,
            instructions,
            environment: environment.finish(),
            is_waiting,
            later,
        }
    }

    /// Whether the user's words or the agent's actions in this history ended an earlier order.
    pub fn supersedes(&self, order: &str) -> bool {
        self.later.supersedes(order, 0, 0)
    }
}
