//! Orders that have ended: "do not commit yet" no longer applies after "commit and push", or after the agent committed
//! with the user's consent. Without this, a summary would repeat such orders as rules.

use std::collections::BTreeMap;

use super::call::{Call, Outcome};
use super::commands::command_lines;
use super::shell;
use super::user::UserWords;
use crate::pattern::Regex;
use crate::prose::{Pattern, WordList, bounded, matches, patterns_of, sentences, words_of};

/// Requests, permissions and actions that may end an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LaterActions {
    /// Verbs of the user's requests, each with the number of kept messages up to the newest such request.
    asked: BTreeMap<String, usize>,
    /// Verbs of what the user allowed, in the same form.
    allowed: BTreeMap<String, usize>,
    /// Actions of the agent, each with the number of the user's messages before the newest such action.
    done: BTreeMap<FileOp, usize>,
}

/// An action of the agent that users often forbid for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FileOp {
    Commit,
    Push,
    Edit,
    Install,
}

impl LaterActions {
    /// Records the actions of a call, after `turns` messages of the user.
    pub(super) fn note(&mut self, call: &Call, has_changed: bool, turns: usize) {
        if call.outcome != Outcome::Ended {
            return;
        }
        if has_changed {
            self.done.insert(FileOp::Edit, turns);
        }
        for program in command_lines(call).iter().flat_map(|line| shell::programs(line)) {
            let deed = match (program.name(), program.operands().next().unwrap_or_default()) {
                ("git", "commit") => FileOp::Commit,
                ("git", "push") => FileOp::Push,
                ("git", _) => continue,
                (_, "install" | "add" | "ci") => FileOp::Install,
                _ => continue,
            };
            self.done.insert(deed, turns);
        }
    }

    /// Records what the user asked for and allowed.
    pub(super) fn record_requests(&mut self, words: &[UserWords]) {
        static ASKED: Pattern = Pattern::new(|| {
            let before = patterns_of(include_str!("../../words/superseded/before_request.txt"));
            Regex::new(&format!(
                r"(?i)(?:^\W*|[.!;,:—–-]\s*|\b(?:and|then) )(?:(?:{before})[ ,.!]+)*(\p{{L}}+)"
            ))
            .ok()
        });
        static ALLOWED: Pattern = Pattern::new(|| {
            let allows = patterns_of(include_str!("../../words/superseded/permissions.txt"));
            Regex::new(&format!(r"(?i)\b(?:{allows})[ ,]+(?:now |also |just )?(\p{{L}}+)")).ok()
        });
        let verbs = |pattern: &Pattern, sentence: &str| -> Vec<String> {
            let Some(pattern) = pattern.as_ref() else { return Vec::new() };
            let found = pattern.captures_iter(sentence).filter_map(|found| found.get(1));
            found.map(|verb| stem(verb.as_str())).collect()
        };
        for (place, said) in words.iter().enumerate() {
            for sentence in said.whole.lines().flat_map(sentences) {
                let sentence = &*bounded(sentence);
                let lower = sentence.to_lowercase();
                let is_question = sentence.ends_with(['?', '？']);
                // "Can you commit it?" asks for it, "did you commit it?" does not.
                if is_question && !lower.contains("can you") && !lower.contains("could you") {
                    continue;
                }
                let place = place + 1;
                self.asked.extend(verbs(&ASKED, sentence).into_iter().map(|verb| (verb, place)));
                self.allowed.extend(verbs(&ALLOWED, sentence).into_iter().map(|verb| (verb, place)));
            }
        }
    }

    /// Whether an order has ended. `said` is the number of kept messages, and `turns` the number of the user's
    /// messages, up to the one with the order. Both are 0 for an order from before this history.
    pub(super) fn supersedes(&self, order: &str, said: usize, turns: usize) -> bool {
        let Some(order) = Order::of(order) else { return false };
        let asked = if order.is_lasting { &self.allowed } else { &self.asked };
        let is_asked = |verb: &String| asked.get(verb).is_some_and(|place| *place > said);
        // The user must have sent a message between the order and the action; otherwise the agent disobeyed the order.
        let is_done = |(deed, before): (&FileOp, &usize)| *before > turns && order.forbids(*deed);
        order.verbs.iter().any(is_asked) || order.is_temporary && self.done.iter().any(is_done)
    }
}

/// A prohibition.
struct Order {
    verbs: Vec<String>,
    /// Whether it applies only for a while.
    is_temporary: bool,
    /// Whether it has no end, so that only an explicit permission lifts it.
    is_lasting: bool,
}

impl Order {
    fn of(sentence: &str) -> Option<Order> {
        static NOT: Pattern = Pattern::new(|| {
            Regex::new(
                r"(?i)\b(?:do not|don'?t|don’t|never|not)\s+(?:(?:ever|just|start|begin|try|want you) )?(?:to )?(\p{L}+)(?:,? (?:or|and|nor) (\p{L}+))?",
            )
            .ok()
        });
        static TEMPORARY: Pattern = Pattern::new(|| {
            let temporary = patterns_of(include_str!("../../words/superseded/temporary.txt"));
            Regex::new(&format!(r"(?i)\b(?:{temporary})\b")).ok()
        });
        static LASTING: Pattern =
            Pattern::new(|| Regex::new(r"(?i)\b(?:never|ever|under no circumstances)\b").ok());
        let found = NOT.as_ref()?.captures(sentence)?;
        let verbs = (1..=2).filter_map(|group| found.get(group)).map(|verb| stem(verb.as_str())).collect();
        let (is_temporary, is_lasting) = (matches(&TEMPORARY, sentence), matches(&LASTING, sentence));
        Some(Order { verbs, is_temporary, is_lasting })
    }

    /// Whether the order forbids an action.
    fn forbids(&self, deed: FileOp) -> bool {
        static EDITS: WordList =
            WordList::new(|| words_of(include_str!("../../words/superseded/edits.txt")).collect());
        self.verbs.iter().any(|verb| match deed {
            FileOp::Commit => verb == "commit",
            FileOp::Push => verb == "push",
            FileOp::Install => verb == "install",
            FileOp::Edit => EDITS.contains(&verb.as_str()),
        })
    }
}

/// A verb without its ending: `committing` as `commit`.
fn stem(verb: &str) -> String {
    let verb = verb.to_lowercase();
    let Some(stem) = verb.strip_suffix("ing").filter(|stem| stem.len() > 2) else { return verb };
    let mut letters = stem.chars().rev();
    match (letters.next(), letters.next()) {
        (Some(last), Some(before)) if last == before => stem[..stem.len() - last.len_utf8()].to_owned(),
        _ => stem.to_owned(),
    }
}
