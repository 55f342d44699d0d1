//! The last steps: objects of the newest calls and the names in them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::call::{Call, Outcome};
use super::changes::paths;
use super::commands::{command_lines, one_line};
use super::shell;
use crate::chars::Chars;
use crate::prose::{plain, shorten};
use crate::redact::redact;

/// An action of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The action in the past tense.
    pub verb: &'static str,
    /// Object of the step: the end of a file's path, a command, a pattern.
    pub object: String,
}

/// Collects the newest steps.
pub(super) struct Steps {
    newest: VecDeque<Step>,
    /// The identifiers in the inputs of the newest calls.
    names: VecDeque<BTreeSet<String>>,
    most: usize,
    longest: Chars,
}

impl Steps {
    /// `most` is the number of calls to keep, `longest` the maximum length of a command line or pattern.
    pub(super) fn new(most: u64, longest: Chars) -> Steps {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Steps { newest: VecDeque::new(), names: VecDeque::new(), most, longest }
    }

    /// Records a call.
    pub(super) fn note(&mut self, call: &Call) {
        for step in self.steps(call) {
            // A repeated step is kept once, at its newest position.
            self.newest.retain(|known| *known != step);
            self.newest.push_back(step);
            if self.newest.len() > self.most {
                self.newest.pop_front();
            }
        }
        // Todo lists do not contain identifiers.
        if !call.tool.contains("todo")
            && !call.tool.starts_with("task")
            && !call.is_named(&["plan", "question", "input"])
        {
            let mut names = BTreeSet::new();
            identifiers(call.input, &mut names);
            self.names.push_back(names);
        }
        while self.names.len() > self.most {
            self.names.pop_front();
        }
    }

    /// Returns the steps, the newest last, and the names in them, the most used first.
    pub(super) fn finish(self) -> (Vec<Step>, Vec<String>) {
        let mut weights: BTreeMap<String, f64> = BTreeMap::new();
        let mut calls: BTreeMap<String, usize> = BTreeMap::new();
        self.names.iter().flatten().for_each(|name| *calls.entry(name.clone()).or_default() += 1);
        // A name in most calls belongs to the tool, not to the work.
        let kept = self.names.len();
        let of_the_tool = |name: &str| kept >= 8 && calls.get(name).is_some_and(|count| count * 2 > kept);
        for (age, names) in self.names.into_iter().rev().enumerate() {
            // A name used twice some calls ago counts as much as one used once just now.
            let weight = FADING.powi(i32::try_from(age).unwrap_or(i32::MAX));
            for name in names.into_iter().filter(|name| !of_the_tool(name)) {
                *weights.entry(name).or_default() += weight;
            }
        }
        let mut names: Vec<(String, f64)> = weights.into_iter().collect();
        names.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let names = names.into_iter().map(|(name, _)| redact(&name).text).collect();
        (self.newest.into(), names)
    }

    fn steps(&self, call: &Call) -> Vec<Step> {
        let failed = call.outcome != Outcome::Ended;
        let changes = call.is_named(&[
            "edit",
            "write",
            "multiedit",
            "replace",
            "editor",
            "create",
            "patch",
            "notebookedit",
        ]) && !matches!(call.field(&["command"]), Some("view" | "read"));
        let patched = paths(call.input);
        let lines = command_lines(call);
        if !patched.is_empty() && (changes || lines.is_empty() && call.field(&["pattern", "query"]).is_none())
        {
            let verb = match (changes || call.field(&PATH_FIELDS).is_none(), failed) {
                (true, false) => "edited",
                (true, true) => "tried to edit",
                (false, _) => "read",
            };
            return patched
                .iter()
                .map(|path| Step { verb, object: redact(&end_of_path(path)).text })
                .collect();
        }
        if !lines.is_empty() {
            let lines = lines.iter().filter_map(|line| {
                let programs = shell::programs(line);
                let texts = programs.iter().map(|program| one_line(&program.line()));
                // The other programs of a pipe only filter the output of the first.
                let is_trimmed = programs.first().is_some_and(|program| program.piped);
                let texts: Vec<String> = texts.take(if is_trimmed { 1 } else { usize::MAX }).collect();
                let text = if texts.is_empty() { one_line(line) } else { texts.join("; ") };
                let text = plain(&redact(&text).text);
                (!text.is_empty())
                    .then(|| Step { verb: "ran", object: format!("`{}`", shorten(&text, self.longest)) })
            });
            return lines.collect();
        }
        if let Some(pattern) = call.field(&["pattern", "query", "regex"]) {
            let text = shorten(&plain(&redact(pattern).text), self.longest);
            return vec![Step { verb: "searched", object: format!("`{text}`") }];
        }
        Vec::new()
    }
}

/// Decay of a name's weight per call.
const FADING: f64 = 0.9;
/// Length of a name. A shorter word is too common to be useful, and a longer one is data.
const NAME: std::ops::RangeInclusive<usize> = 6..=48;

/// Collects identifiers in the strings of an input: compound words such as `snake_case` and `camelCase`.
fn identifiers(input: &Value, found: &mut BTreeSet<String>) {
    match input {
        Value::String(text) => {
            // Also splits at backslashes, so that escapes in a script do not become part of the next word.
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            let words = words.filter(|word| NAME.contains(&word.len()) && is_identifier(word));
            found.extend(words.map(str::to_owned));
        }
        Value::Array(items) => items.iter().for_each(|item| identifiers(item, found)),
        Value::Object(map) => {
            // Paths are listed with the files.
            let inner = map.iter().filter(|(key, _)| {
                !PATH_FIELDS.contains(&key.as_str()) && *key != "workdir" && *key != "cwd"
            });
            inner.for_each(|(_, value)| identifiers(value, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_identifier(word: &str) -> bool {
    let joined = word.trim_matches('_').contains('_');
    let humps = word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    let digits = word.chars().filter(char::is_ascii_digit).count();
    (joined || humps) && word.starts_with(|c: char| c.is_alphabetic() || c == '_') && digits * 3 < word.len()
}

const PATH_FIELDS: [&str; 6] = ["filePath", "file_path", "path", "file", "notebook_path", "target_file"];

/// The last two names of a path.
pub(crate) fn end_of_path(path: &str) -> String {
    let path = path.replace('\\', "/");
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    slashes.nth(1).map_or(path.clone(), |at| path[at + 1..].to_owned())
}
