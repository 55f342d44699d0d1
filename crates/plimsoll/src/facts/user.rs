//! The user's words: prompts, answers to the agent's questions, reasons for refusing a permission, and what was typed
//! while the agent worked.

use std::collections::BTreeSet;

use serde_json::Value;

use super::call::Call;
use super::steps::end_of_path;
use super::strip::{is_acknowledgement, is_host_command, own_words, without_pastes};
use crate::chars::{Chars, head, tail};
use crate::log::{Message, MessageId, Part, PartBody, Role};
use crate::pattern::Regex;
use crate::policy::SummaryPolicy;
use crate::prose::{Pattern, matches, normal, patterns_of, pieces, plain, shorten, shorten_ends};
use crate::redact::redact;
use crate::work;

/// A text of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserWords {
    /// The text, without wrappers, with pastes shortened, redacted.
    pub text: String,
    /// The text with complete pastes, in which sentences are searched.
    pub(crate) whole: String,
    /// Kind of the text.
    pub kind: UserTextKind,
    /// The message that has it.
    pub source: MessageId,
    /// Number of the user's messages up to this one, including short ones that are not kept.
    pub(crate) turn: usize,
}

/// Kind of a text of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserTextKind {
    /// A prompt.
    Prompt,
    /// An answer to a question of the agent.
    Answer,
    /// The reason for refusing a permission.
    Refusal,
    /// A message sent while the agent worked.
    Interjection,
}

/// Returns the text that the user typed in a message, without wrappers and texts that a host wrote in the user's name.
/// Empty if the user typed nothing.
///
/// ```
/// use plimsoll::Message;
/// use plimsoll::facts::typed_words;
/// let text = "<system-reminder>be brief</system-reminder>\nfix the build";
/// assert_eq!(typed_words(&Message::user("msg_1".into(), "prt_1".into(), text)), "fix the build");
/// ```
pub fn typed_words(message: &Message) -> String {
    let words: Vec<String> = message.parts.iter().filter_map(typed_in).collect();
    words.join("\n")
}

/// Whether a part contains text that the user typed.
pub fn is_typed(part: &Part) -> bool {
    typed_in(part).is_some()
}

fn typed_in(part: &Part) -> Option<String> {
    match &part.body {
        PartBody::Text(text) if text.synthetic != Some(true) && text.ignored != Some(true) => {
            Some(own_words(&text.text)).filter(|words| !words.is_empty())
        }
        _ => None,
    }
}

/// Collects the user's words.
pub(super) struct Gathered<'p> {
    pub(super) words: Vec<UserWords>,
    seen: BTreeSet<String>,
    /// The question at the end of the agent's newest text.
    asked: Option<String>,
    /// Number of messages in which the user typed something.
    pub(super) turns: usize,
    policy: &'p SummaryPolicy,
}

impl<'p> Gathered<'p> {
    pub(super) fn new(policy: &'p SummaryPolicy) -> Gathered<'p> {
        Gathered { words: Vec::new(), seen: BTreeSet::new(), asked: None, turns: 0, policy }
    }

    /// Records the question at the end of a message of the agent. The user's next words may answer it.
    pub(super) fn record_question(&mut self, message: &Message) {
        let mut texts = message.parts.iter().filter_map(|part| match &part.body {
            PartBody::Text(text) if text.ignored != Some(true) => Some(text.text.trim()),
            _ => None,
        });
        if let Some(text) = texts.rfind(|text| !text.is_empty()) {
            self.asked = question_in(text);
        }
    }

    /// Records a message that is not from the model. Returns whether the user started a turn with it.
    pub(super) fn message(&mut self, message: &Message) -> bool {
        let id = &message.info.id;
        if matches!(message.info.role, Some(Role::System | Role::Other(_))) || message.marker().is_some() {
            return false;
        }
        for part in &message.parts {
            let PartBody::Text(text) = &part.body else { continue };
            if text.ignored != Some(true) {
                queued(&text.text).iter().for_each(|queued| self.add(queued, UserTextKind::Interjection, id));
            }
        }
        let typed = typed_words(message);
        let beside_results = message.parts.iter().any(|part| matches!(part.body, PartBody::ToolResult(_)));
        let kind = if beside_results { UserTextKind::Interjection } else { UserTextKind::Prompt };
        let is_turn = !typed.trim().is_empty() && !beside_results;
        self.turns += usize::from(!typed.trim().is_empty());
        match self.asked.take_if(|_| is_turn) {
            // A short answer means nothing without its question.
            Some(asked) if is_answer(&typed) => {
                self.add_after(
                    &format!("(asked: {}) ", redact(&asked).text),
                    &typed,
                    UserTextKind::Answer,
                    id,
                );
            }
            _ => self.add(&typed, kind, id),
        }
        is_turn
    }

    /// Whether the user's newest message starts with a contradiction.
    pub(super) fn contradicts(&self) -> bool {
        static AGAINST: Pattern = Pattern::new(|| {
            let before = patterns_of(include_str!("../../words/user/before_contradiction.txt"));
            let words = patterns_of(include_str!("../../words/user/contradictions.txt"));
            let inner = patterns_of(include_str!("../../words/user/contradictions_inner.txt"));
            Regex::new(&format!(r"(?i)^\W*(?:(?:{before})\W+)*(?:{words})\b|^\W*(?:{inner})")).ok()
        });
        self.words.last().is_some_and(|words| matches(&AGAINST, head(&words.text, Chars(120))))
    }

    /// Records what the user said through a tool.
    pub(super) fn call(&mut self, call: &Call) {
        if call.is_named(&["question", "ask", "askuserquestion", "input", "followup", "questions"]) {
            for (question, answer) in answers(call) {
                let question = shorten(&question, self.policy.min_words.max(Chars(80)));
                let asked = if question.is_empty() { String::new() } else { format!("(asked: {question}) ") };
                self.add_after(&asked, &answer, UserTextKind::Answer, call.source);
            }
        }
        if let Some(reason) = refusal(call) {
            self.add_after(&format!("(refused {}) ", call.tool), &reason, UserTextKind::Refusal, call.source);
        }
        for queued in queued(call.result) {
            self.add(&queued, UserTextKind::Interjection, call.source);
        }
    }

    fn add(&mut self, text: &str, kind: UserTextKind, source: &MessageId) {
        self.add_after("", text, kind, source);
    }

    /// Adds a text after a prefix that states its kind.
    fn add_after(&mut self, before: &str, text: &str, kind: UserTextKind, source: &MessageId) {
        let text = text.trim();
        if text.is_empty()
            || is_host_command(text)
            || (kind == UserTextKind::Prompt && is_acknowledgement(text))
        {
            return;
        }
        // Redacted before anything is cut, because half of a key is not recognised as one.
        let whole = redact(text).text;
        // A prompt that was sent again after an interruption is kept once.
        let before = redact(before).text;
        if !self.seen.insert(normal(&format!("{before}{whole}"))) {
            return;
        }
        let text = format!("{before}{}", aligned(&short_paths(&without_pastes(&whole, self.policy))));
        self.words.push(UserWords { text, whole, kind, source: source.clone(), turn: self.turns });
    }
}

/// Number of sentences at the end of a text that are searched for a question, because options may follow it.
const LAST_SENTENCES: usize = 5;
/// Maximum length of a question that is repeated with its answer.
const QUESTION: Chars = Chars(200);

/// The question at the end of a text of the agent.
fn question_in(text: &str) -> Option<String> {
    let pieces = pieces(tail(text, Chars(2_000)));
    let last = pieces.iter().rev().take(LAST_SENTENCES).find(|piece| piece.text.ends_with(['?', '？']))?;
    Some(shorten_ends(&last.text, QUESTION))
}

/// Whether a message answers the question before it and is too short to be understood on its own.
fn is_answer(text: &str) -> bool {
    static ANSWER: Pattern = Pattern::new(|| {
        let words = patterns_of(include_str!("../../words/user/answers.txt"));
        let inner = patterns_of(include_str!("../../words/user/answers_inner.txt"));
        Regex::new(&format!(r"(?i)^\W*(?:{words})\b|^(?:{inner})")).ok()
    });
    let (text, words) = (text.trim(), text.split_whitespace().count());
    let is_question = text.ends_with(['?', '？']);
    !is_question && Chars::of(text) <= Chars(120) && (words <= 4 || words <= 20 && matches(&ANSWER, text))
}

/// Removes the indent that all lines except the first share, and repeated empty lines.
fn aligned(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let full = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    let shared = full.map(indent).min().unwrap_or(0);
    let mut out = String::new();
    for line in text.trim().lines() {
        let line = line.get(shared.min(indent(line))..).unwrap_or(line).trim_end();
        if line.is_empty() && (out.is_empty() || out.ends_with("\n\n")) {
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// Shortens long paths to their last names. Paths of screenshots and temporary directories fill a line and say nothing.
fn short_paths(text: &str) -> String {
    if !text.split([' ', '\n']).any(is_long_path) {
        return text.to_owned();
    }
    let short = |word: &str| match is_long_path(word) {
        true => format!("…/{}", end_of_path(word)),
        false => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(short).collect::<Vec<_>>().join(" ");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn is_long_path(word: &str) -> bool {
    word.len() > LONG_PATH
        && word.trim_start_matches(['\'', '"', '`', '(']).starts_with(['/', '~'])
        && word.matches('/').count() > 3
}

/// Maximum length of a path that is not shortened.
const LONG_PATH: usize = 60;

/// Messages that the user sent while the agent worked and that the host inserted into another text.
fn queued(text: &str) -> Vec<String> {
    const SIGNS: [&str; 4] = [
        "The user sent a new message while you were working:",
        "The user sent the following message:",
        "The user sent a message while you were working:",
        "New message from the user:",
    ];
    const ENDS: [&str; 4] = [
        "\nIMPORTANT: After completing",
        "\nPlease address this message",
        "</system-reminder>",
        "\nThis is how the user",
    ];
    // All signs contain this, so most texts are searched only once.
    if !work::read(text).contains("he user") {
        return Vec::new();
    }
    let signs = SIGNS.iter().flat_map(|sign| text.match_indices(sign));
    let mut signs: Vec<(usize, usize)> = signs.map(|(at, sign)| (at, at + sign.len())).collect();
    signs.sort_unstable();
    // A message ends at the next one at the latest, so no text is read twice.
    let ends = signs.iter().skip(1).map(|(next, _)| *next).chain([text.len()]);
    let messages = signs.iter().zip(ends).map(|((_, start), end)| &text[*start..end]);
    let until_end = |message: &str| {
        let end = ENDS.iter().filter_map(|end| work::find(message, end)).min();
        own_words(&message[..end.unwrap_or(message.len())])
    };
    messages.map(until_end).collect()
}

/// The user's answers, each with its question.
fn answers(call: &Call) -> Vec<(String, String)> {
    if call.failed() || call.result.trim().is_empty() {
        return Vec::new();
    }
    let questions =
        call.input.get("questions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let title = |question: &Value| {
        let title = ["question", "header", "text"].iter().find_map(|key| question.get(*key)?.as_str());
        plain(title.unwrap_or_default())
    };
    // Metadata with one list of answers for each question.
    if let Some(lists) = call.metadata.get("answers").and_then(Value::as_array) {
        let pairs =
            questions.iter().zip(lists).map(|(question, given)| pair(&title(question), &joined(given)));
        return pairs.flatten().collect();
    }
    // A JSON result with answers by the id or the text of the question.
    let parsed: Option<Value> = serde_json::from_str(call.result.trim()).ok();
    if let Some(Value::Object(given)) = parsed.as_ref().and_then(|parsed| parsed.get("answers")) {
        let pairs = given.iter().map(|(name, answer)| {
            let question =
                questions.iter().find(|question| question.get("id").and_then(Value::as_str) == Some(name));
            pair(&question.map_or_else(|| name.clone(), title), &joined(answer))
        });
        return pairs.flatten().collect();
    }
    if call.result.contains("\"=\"") {
        return quoted_pairs(call.result);
    }
    let asked = call.field(&["question", "prompt", "message"]).map(plain).unwrap_or_default();
    pair(&asked, &own_words(call.result)).into_iter().collect()
}

/// The pairs in a sentence like `…: "question"="answer", "question"="answer". …`. Both may contain quotes.
fn quoted_pairs(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut parts = text.split("\"=\"").peekable();
    let mut question =
        parts.next().and_then(|part| part.split_once('"')).map_or("", |(_, question)| question);
    while let Some(part) = parts.next() {
        let (answer, next) = match parts.peek() {
            Some(_) => part.rsplit_once("\", \"").unwrap_or((part, "")),
            None => (part.rsplit_once('"').map_or(part, |(answer, _)| answer), ""),
        };
        found.extend(pair(&plain(question), answer));
        question = next;
    }
    found
}

/// A question and its answer, if the user answered.
fn pair(question: &str, answer: &str) -> Option<(String, String)> {
    let answer = answer.replace(" (Recommended)", "").replace(" (Recomendado)", "");
    let said = !answer.trim().is_empty() && !answer.contains("unavailable in");
    said.then(|| (question.trim().to_owned(), answer))
}

/// The texts of an answer, at any depth.
fn joined(answer: &Value) -> String {
    match answer {
        Value::String(text) => text.trim_start_matches("user_note: ").to_owned(),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(joined).filter(|text| !text.is_empty()).collect();
            texts.join("; ")
        }
        Value::Object(map) => {
            match map.get("answers").or_else(|| map.get("answer")).or_else(|| map.get("text")) {
                Some(inner) => joined(inner),
                None => String::new(),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// The user's reason for refusing a call.
fn refusal(call: &Call) -> Option<String> {
    static REASON: Pattern = Pattern::new(|| {
        Regex::new(
            r"(?is)(?:the user said|with the following feedback|the user provided the following (?:reason|feedback)[^:]{0,80}|rejected by (?:the )?user)\s*:\s*(.+)",
        )
        .ok()
    });
    if !call.failed() {
        return None;
    }
    let reason = REASON.as_ref()?.captures(head(call.result, Chars(8_000)))?.get(1)?.as_str();
    let reason = reason.split("\n\nNote: The user's next message").next().unwrap_or(reason);
    Some(own_words(reason)).filter(|reason| !reason.is_empty())
}

#[cfg(test)]
mod tests {
    use super::queued;

    #[test]
    fn a_queued_message_ends_where_the_next_begins() {
        let text = "done\nThe user sent the following message: use tabs\n\
                    New message from the user: and no semicolons\nPlease address this message";
        assert_eq!(queued(text), ["use tabs", "and no semicolons"]);
    }
}
