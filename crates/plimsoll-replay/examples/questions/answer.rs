//! Decides whether a text answers a question.

use std::collections::BTreeSet;

use plimsoll::window::Block;
use plimsoll::{PartId, Window};

use super::ask::{Need, Question};
use super::words::words;

/// A text that is searched for answers.
pub(crate) struct Haystack {
    pub(crate) text: String,
    words: BTreeSet<String>,
    lines: Vec<BTreeSet<String>>,
    /// Names that contain dots and dashes, such as file names.
    names: BTreeSet<String>,
    /// Calls whose results are shown.
    shown: BTreeSet<PartId>,
}

impl Haystack {
    pub(crate) fn of_text(text: &str) -> Haystack {
        let text = expand(text);
        let lines = text.lines().map(|line| words(line).into_iter().collect()).collect();
        let names =
            text.split(|c: char| !is_name_char(c)).map(|name| name.trim_matches(['.', '-']).to_lowercase());
        Haystack {
            words: words(&text).into_iter().collect(),
            names: names.filter(|name| !name.is_empty()).collect(),
            lines,
            shown: BTreeSet::new(),
            text,
        }
    }

    /// Collects everything that a window shows.
    pub(crate) fn of_window(window: &Window) -> Haystack {
        let (mut text, mut shown) = (String::new(), BTreeSet::new());
        for block in window.messages.iter().flat_map(|message| &message.blocks) {
            match block {
                Block::Text { text: words, .. } | Block::Reasoning { text: words, .. } => {
                    text.push_str(words);
                }
                // Escaped line ends would otherwise become part of the next word.
                Block::Call { input, .. } => text.push_str(&input.json().replace("\\n", "\n")),
                Block::Result { text: words, cleared, part, .. } => {
                    text.push_str(words);
                    if !cleared {
                        shown.insert(part.clone());
                    }
                }
                _ => {}
            }
            text.push('\n');
        }
        Haystack { shown, ..Haystack::of_text(&text) }
    }

    pub(crate) fn answers(&self, question: &Question) -> bool {
        if question.shown_by.as_ref().is_some_and(|part| self.shown.contains(part)) {
            return true;
        }
        let found = question.needs.iter().filter(|need| self.has(need)).count();
        let on_a_line = question.on_one_line.is_empty() || self.has_line(question);
        found >= question.least && on_a_line
    }

    fn has(&self, need: &Need) -> bool {
        match need {
            Need::Word(word) => self.words.contains(word),
            Need::Name(name) => self.names.contains(name),
        }
    }

    /// Whether one line contains the words of the question and one of the outcome words.
    fn has_line(&self, question: &Question) -> bool {
        let words = || {
            question.needs.iter().filter_map(|need| match need {
                Need::Word(word) => Some(word),
                Need::Name(_) => None,
            })
        };
        self.lines.iter().any(|line| {
            let found = words().filter(|word| line.contains(*word)).count();
            found >= question.least && question.on_one_line.iter().any(|word| line.contains(word))
        })
    }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Expands braces as shells do: `{a,b}.rs` becomes `a.rs b.rs`.
fn expand(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        let braces = word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
        let is_list =
            |stems: &str| stems.contains(',') && !stems.contains(['"', ':', '(', '=']) && stems.len() < 2_000;
        match braces.filter(|(_, (stems, _))| is_list(stems)) {
            Some((before, (stems, ending))) => {
                let all: Vec<String> =
                    stems.split(',').map(|stem| format!("{before}{stem}{}", ending.trim_end())).collect();
                out.push_str(&all.join(" "));
                out.push_str(if word.ends_with('\n') { "\n" } else { " " });
            }
            None => out.push_str(word),
        }
    }
    out
}
