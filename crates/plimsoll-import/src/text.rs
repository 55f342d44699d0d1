//! Titles of sessions: their first printable words.

use plimsoll::facts::typed_words;
use plimsoll::{Message, first_words};
use serde::{Deserialize, Serialize};

/// Maximum length of a title from a prompt.
pub(crate) const TITLE: usize = 80;
/// Maximum number of prompts that are searched for one that the user has typed.
const PROMPTS: usize = 20;

/// Finds the first words that the user has typed, or else the host's first words.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FirstPrompt {
    seen: usize,
    /// The host's first words, in case there are no typed ones.
    first: Option<String>,
    found: Option<String>,
}

impl FirstPrompt {
    pub(crate) fn see(&mut self, message: &Message) {
        if self.found.is_some() || self.seen == PROMPTS || !message.starts_turn() {
            return;
        }
        self.seen += 1;
        let typed = first_words(&typed_words(message), TITLE);
        if !typed.is_empty() {
            self.found = Some(typed);
            return;
        }
        let words = first_words(&message.text(), TITLE);
        if !words.is_empty() {
            self.first.get_or_insert(words);
        }
    }

    pub(crate) fn words(&self) -> String {
        self.found.as_ref().or(self.first.as_ref()).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::Message;
    use serde_json::json;

    use super::FirstPrompt;

    fn first_prompt(messages: &[Message]) -> String {
        let mut prompts = FirstPrompt::default();
        messages.iter().for_each(|message| prompts.see(message));
        prompts.words()
    }

    fn user(text: &str, synthetic: bool) -> Message {
        let part = json!({ "type": "text", "text": text, "synthetic": synthetic });
        serde_json::from_value(json!({ "info": { "role": "user" }, "parts": [part] })).unwrap_or_default()
    }

    #[test]
    fn a_title_consists_of_words_that_the_user_typed() {
        let skill = "Base directory for this skill: /skills/review\n\n# Review";
        let cases: [(&[(&str, bool)], &str); 6] = [
            (
                &[("- loop: again", true), ("/w/a.rs:\n1 fn a() {}", true), ("fix the build", false)],
                "fix the build",
            ),
            (&[(skill, false), ("and the tests", false)], "and the tests"),
            (
                &[("<command-name>/review</command-name><command-args>only src</command-args>", false)],
                "/review only src",
            ),
            (&[("<mcp-resource-update>x</mcp-resource-update>", false), ("go on", false)], "go on"),
            (
                &[
                    ("# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>be brief</INSTRUCTIONS>", false),
                    ("hello", false),
                ],
                "hello",
            ),
            (&[("only a host speaks", true)], "only a host speaks"),
        ];
        for (texts, title) in cases {
            let messages: Vec<Message> = texts.iter().map(|(text, is_host)| user(text, *is_host)).collect();
            assert_eq!(first_prompt(&messages), title);
        }
    }
}
