//! Completion of commands and their arguments.

use std::sync::{Arc, Mutex, PoisonError};

use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::messages::COMMANDS;

/// Candidates for the arguments of commands, collected before a line is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Choices {
    /// Sessions with their titles.
    pub(super) sessions: Vec<(String, String)>,
    /// Models.
    pub(super) models: Vec<String>,
    /// Agents with their descriptions.
    pub(super) agents: Vec<(String, String)>,
    /// Receipts that can be undone, with their titles.
    pub(super) receipts: Vec<(String, String)>,
    /// Handles of content outside the window.
    pub(super) handles: Vec<String>,
}

/// Completes input after a slash.
pub(super) struct CommandCompleter(pub(super) Arc<Mutex<Choices>>);

impl Completer for CommandCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let choices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let typed = line.get(..pos).unwrap_or(line);
        let found = complete(typed, &choices).into_iter().map(|(start, value, about)| Suggestion {
            value,
            description: (!about.is_empty()).then_some(about),
            span: Span::new(start, pos.max(start)),
            append_whitespace: true,
            ..Suggestion::default()
        });
        CompletionResult::fresh(found.collect::<Vec<_>>())
    }
}

/// Completions with their start and description.
fn complete(typed: &str, choices: &Choices) -> Vec<(usize, String, String)> {
    let Some(command) = typed.strip_prefix('/').filter(|rest| !rest.starts_with('/')) else {
        return Vec::new();
    };
    let Some((name, rest)) = command.split_once(' ') else {
        let fits = COMMANDS.iter().filter(|known| known.name.starts_with(command));
        return fits.map(|known| (0, format!("/{}", known.name), known.does.to_owned())).collect();
    };
    let begins = typed.len() - rest.trim_start().len();
    let word = rest.trim_start();
    let bare = |names: &[String]| names.iter().map(|name| (name.clone(), String::new())).collect::<Vec<_>>();
    let all = match name {
        "resume" => choices.sessions.clone(),
        "model" => bare(&choices.models),
        "agent" => choices.agents.clone(),
        "undo" => choices.receipts.clone(),
        "recall" => bare(&choices.handles),
        _ => Vec::new(),
    };
    let fits = all.into_iter().filter(|(name, _)| name.contains(word));
    fits.map(|(name, about)| (begins, name, about)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Choices, complete};

    #[test]
    fn commands_and_their_arguments_are_completed() {
        let choices = Choices {
            sessions: vec![("ses_1".into(), "Fix the build".into()), ("ses_2".into(), "文字".into())],
            models: vec!["anthropic/claude".into(), "openai/gpt".into()],
            ..Choices::default()
        };
        let values =
            |typed| complete(typed, &choices).into_iter().map(|(_, value, _)| value).collect::<Vec<_>>();
        assert_eq!(values("/comp"), ["/compact"]);
        assert_eq!(values("/re"), ["/recall", "/receipts", "/revert", "/resume"]);
        assert_eq!(values("/resume "), ["ses_1", "ses_2"]);
        assert_eq!(values("/model gpt"), ["openai/gpt"]);
        assert_eq!(complete("/resume  ses_2", &choices)[0].0, 9);
        for nothing in ["", "hello /co", "//comp", "/pin ses", "/nonsense x"] {
            assert!(values(nothing).is_empty(), "{nothing}");
        }
    }
}
