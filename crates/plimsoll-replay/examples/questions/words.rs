//! Splits text into words, and decides which of them carry meaning.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the words in lower case. In scripts without spaces, each character is a word.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.chars() {
        let alone = c as u32 >= 0x2e80;
        if !is_inner(c) || alone {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| is_inner(c)) {
            word.extend(c.to_lowercase());
        }
        if alone {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_inner(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Words without a meaning of their own.
const EMPTY: &str = " the and for with that this from are was were have has had not but you your our can could should would will \
    all any its into about also just then than them they there here what when where which while how why who use using used make \
    makes made please now let get got like want need needs some more most very only each other one two new see file files \
    code sure okay yes first next last same still been being does did done doing don t s m re ll ve it is in on of to a an as at by or \
    if so we i me my be do no up out der die das und ist nicht que los las una por para con ";

/// Returns the meaningful words of a text, each once, in order.
pub(crate) fn content_words(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let says = |word: &String| {
        let is_script = word.chars().next().is_some_and(|c| c as u32 >= 0x2e80);
        (is_script || word.len() >= 3) && !EMPTY.contains(&format!(" {word} "))
    };
    words(text).into_iter().filter(says).filter(|word| seen.insert(word.clone())).collect()
}

/// Number of messages that contain each word.
#[derive(Default)]
pub(crate) struct Rarity(BTreeMap<String, usize>);

impl Rarity {
    pub(crate) fn add(&mut self, text: &str) {
        let words: BTreeSet<String> = words(text).into_iter().collect();
        words.into_iter().for_each(|word| *self.0.entry(word).or_default() += 1);
    }

    /// Returns at most `most` of the rarest content words of a text, in their order.
    pub(crate) fn rarest(&self, text: &str, most: usize) -> Vec<String> {
        let words = content_words(text);
        let mut places: Vec<usize> = (0..words.len()).collect();
        places.sort_by_key(|place| (self.0.get(&words[*place]).copied().unwrap_or(0), *place));
        places.truncate(most);
        places.sort_unstable();
        places.into_iter().map(|place| words[place].clone()).collect()
    }
}

/// Returns identifiers of several words: `snake_case`, `camelCase`, at least eight characters.
pub(crate) fn identifiers(text: &str) -> BTreeSet<String> {
    let text = text.replace("\\n", "\n");
    let found = text.split(|c: char| !is_inner(c)).filter(|word| is_identifier(word));
    found.map(str::to_owned).collect()
}

fn is_identifier(word: &str) -> bool {
    let joined = word.trim_matches('_').contains('_')
        || word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    word.len() >= 8 && word.len() <= 60 && joined && !word.starts_with(|c: char| c.is_ascii_digit())
}

/// Splits a text without its code blocks into sentences. A line break ends one.
pub(crate) fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            let mut rest = line.trim();
            while let Some(at) = rest
                .find(['。', '？', '！'])
                .map(|at| at + '。'.len_utf8())
                .into_iter()
                .chain([". ", "? ", "! "].iter().filter_map(|stop| rest.find(stop)).map(|at| at + 1))
                .min()
            {
                found.push(rest[..at].trim().to_owned());
                rest = rest[at..].trim_start();
            }
            found.push(rest.to_owned());
        }
    }
    found.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    found
}
