//! Names in a model's summary that the history does not contain, a sign that the model invented them.

use std::collections::BTreeSet;

use crate::chars::Text;
use crate::log::{Message, PartBody};
use crate::names::{self, NameKind};

/// Maximum number of names that are listed.
const MOST: usize = 20;
/// Shorter words occur in every text, so finding them proves nothing.
const SHORTEST: usize = 4;

/// Returns the paths, identifiers and hashes of a summary that contain a word which neither `history` nor the prior
/// summary contains, in their order, without duplicates.
pub(super) fn unknown_names<'a>(
    summary: &str,
    history: impl IntoIterator<Item = &'a Message>,
    prior: Option<&Text>,
) -> Vec<String> {
    let candidates = candidates(summary);
    if candidates.is_empty() {
        return candidates;
    }
    let wanted: BTreeSet<String> = candidates.iter().flat_map(|name| words(name)).collect();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut read = |text: &str| {
        known.extend(words(text).filter(|word| wanted.contains(word)));
    };
    prior.into_iter().for_each(|prior| read(prior));
    for message in history {
        for part in &message.parts {
            match &part.body {
                PartBody::Text(text) => read(&text.text),
                PartBody::Reasoning(thought) => read(&thought.text),
                PartBody::Tool(tool) => {
                    tool.state.input.iter().for_each(|input| read(input.json()));
                    tool.state.result().into_iter().for_each(|text| read(text));
                }
                PartBody::ToolCall(call) => call.input.iter().for_each(|input| read(input.json())),
                PartBody::ToolResult(result) => read(&result.text),
                PartBody::File(file) => file.filename.iter().for_each(|name| read(name)),
                _ => {}
            }
        }
    }
    let is_unknown = |name: &String| words(name).any(|word| !known.contains(&word));
    candidates.into_iter().filter(is_unknown).take(MOST).collect()
}

/// Paths, identifiers and hashes in a text. Ordinary words are not checked, because models paraphrase.
fn candidates(text: &str) -> Vec<String> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    names::each_name(text, |name, kind| {
        let is_number = kind == NameKind::Number && !name.chars().any(char::is_alphabetic);
        let is_checked = !is_number && words(name).next().is_some();
        if is_checked && seen.insert(name.to_lowercase()) {
            found.push(name.to_owned());
        }
    });
    found
}

/// The words of a text that are long enough to be looked up, in lower case.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| word.len() >= SHORTEST).map(str::to_lowercase)
}
