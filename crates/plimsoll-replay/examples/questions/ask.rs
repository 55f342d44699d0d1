//! Creates questions about a recorded session that is cut at some point, from the rest of the recording.

use std::collections::BTreeSet;

use plimsoll::log::ToolPart;
use plimsoll::{Message, PartId};
use serde_json::Value;

use super::calls::{changed, command, failed, input, input_text, path, result, said, spoken, tools};
use super::words::{Rarity, content_words, identifiers, sentences, words};

/// Something that an answer must contain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// A word, in lower case.
    Word(String),
    /// A name that contains dots or dashes, in lower case.
    Name(String),
}

/// A question and what its answer must contain.
pub(crate) struct Question {
    pub(crate) kind: Kind,
    /// Subject of the question, for the dump.
    pub(crate) about: String,
    pub(crate) needs: Vec<Need>,
    /// Minimum number of needs that must be met.
    pub(crate) least: usize,
    /// Words of which one must be on the same line as the needs; empty if there is no such condition.
    pub(crate) on_one_line: Vec<String>,
    /// A call whose result, if shown, answers the question.
    pub(crate) shown_by: Option<PartId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Asked,
    Rules,
    Answers,
    Files,
    Commands,
    Outcomes,
    Failures,
    Decisions,
    Todos,
    Environment,
    Next,
    Names,
}

impl Kind {
    pub(crate) const ALL: [Kind; 12] = [
        Kind::Asked,
        Kind::Rules,
        Kind::Answers,
        Kind::Files,
        Kind::Commands,
        Kind::Outcomes,
        Kind::Failures,
        Kind::Decisions,
        Kind::Todos,
        Kind::Environment,
        Kind::Next,
        Kind::Names,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Asked => "asked",
            Kind::Rules => "rules",
            Kind::Answers => "answers",
            Kind::Files => "files",
            Kind::Commands => "commands",
            Kind::Outcomes => "outcomes",
            Kind::Failures => "failures",
            Kind::Decisions => "decisions",
            Kind::Todos => "todos",
            Kind::Environment => "environment",
            Kind::Next => "next",
            Kind::Names => "names",
        }
    }

    /// Maximum number of questions of a kind for one cut, so that no kind and no session dominates.
    fn most(self) -> usize {
        match self {
            Kind::Files => 8,
            Kind::Asked | Kind::Decisions | Kind::Names => 6,
            Kind::Rules | Kind::Commands | Kind::Todos | Kind::Next => 5,
            Kind::Answers | Kind::Outcomes | Kind::Failures | Kind::Environment => 4,
        }
    }
}

/// Number of calls after the cut that count as the next steps.
const NEXT_CALLS: usize = 10;
/// Number of words taken from each end of a long message.
const ENDS: usize = 60;

/// Returns the questions about a session that is cut before the message at `cut`.
pub(crate) fn ask(messages: &[Message], cut: usize) -> Vec<Question> {
    let (before, after) = messages.split_at(cut);
    let mut rarity = Rarity::default();
    before.iter().for_each(|message| rarity.add(&message.text()));
    let asker = Asker { before, after, rarity, known: text_of(before), later: text_of(after) };
    let kinds = [
        asker.asked(),
        asker.rules(),
        asker.answers(),
        asker.files(),
        asker.commands(),
        asker.outcomes(),
        asker.failures(),
        asker.decisions(),
        asker.todos(),
        asker.environment(),
        asker.next(),
        asker.names(),
    ];
    let mut questions = Vec::new();
    for kind in kinds {
        let most = kind.first().map_or(0, |question| question.kind.most());
        questions.extend(kind.into_iter().take(most));
    }
    questions
}

/// Returns all text, calls and results.
fn text_of(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        text.push_str(&message.text());
        text.push('\n');
        for tool in tools(message) {
            text.push_str(&input_text(tool).replace("\\n", "\n"));
            text.push('\n');
            text.push_str(result(tool));
            text.push('\n');
        }
    }
    text
}

struct Asker<'a> {
    before: &'a [Message],
    after: &'a [Message],
    rarity: Rarity,
    known: String,
    later: String,
}

fn word_needs(words: Vec<String>) -> Vec<Need> {
    words.into_iter().map(Need::Word).collect()
}

fn share(count: usize, percent: usize) -> usize {
    (count * percent).div_ceil(100).max(1)
}

fn question(kind: Kind, about: &str, needs: Vec<Need>, percent: usize) -> Question {
    let about: String = about.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(100).collect();
    let least = share(needs.len(), percent);
    Question { kind, about, needs, least, on_one_line: Vec::new(), shown_by: None }
}

/// Returns a file's name and its directory as needs.
fn file_needs(path: &str) -> Vec<Need> {
    let mut names = path.trim_end_matches('/').rsplit('/').filter(|name| !name.is_empty());
    let name = names.next().unwrap_or(path);
    let directory = names.next().filter(|directory| *directory != "." && *directory != "..");
    std::iter::once(name)
        .chain(directory)
        .map(|name| Need::Name(name.trim_matches(['.', '-']).to_lowercase()))
        .collect()
}

impl Asker<'_> {
    fn tools_before(&self) -> impl DoubleEndedIterator<Item = (PartId, &ToolPart)> {
        let parts = self.before.iter().flat_map(|message| &message.parts);
        parts.filter_map(|part| Some((part.id.clone(), part.as_tool()?)))
    }

    fn next_calls(&self) -> impl Iterator<Item = &ToolPart> {
        self.after.iter().flat_map(tools).take(NEXT_CALLS)
    }

    /// Asks about the newest messages of the user and the first.
    fn asked(&self) -> Vec<Question> {
        let said: Vec<String> =
            self.before.iter().map(spoken).filter(|text| words(text).len() >= 4).collect();
        let first = said.first().into_iter();
        let newest = said.iter().skip(1).rev();
        let texts = first.chain(newest).map(|text| {
            let all: Vec<&str> = text.split_whitespace().collect();
            let ends = if all.len() > 2 * ENDS {
                [&all[..ENDS], &all[all.len() - ENDS..]].concat().join(" ")
            } else {
                text.clone()
            };
            question(Kind::Asked, text, word_needs(self.rarity.rarest(&ends, 8)), 65)
        });
        texts.filter(|question| question.needs.len() >= 2).collect()
    }

    /// Asks about sentences in which the user says how to work.
    fn rules(&self) -> Vec<Question> {
        let cues = [
            "never",
            "always",
            "do not",
            "don't",
            "must",
            "make sure",
            "only",
            "instead",
            "不要",
            "必须",
            "必須",
        ];
        let mut found = Vec::new();
        for text in self.before.iter().rev().map(spoken) {
            // Pasted text is not a rule.
            let lines = text.lines().filter(|line| line.len() < 400).collect::<Vec<_>>().join("\n");
            for sentence in sentences(&lines) {
                let lower = sentence.to_lowercase();
                let is_rule = cues.iter().any(|cue| {
                    lower.match_indices(cue).any(|(at, _)| !cue.is_ascii() || is_alone(&lower, at, cue.len()))
                });
                let count = content_words(&sentence).len();
                if is_rule && (3..=30).contains(&count) && !sentence.ends_with('?') {
                    found.push(question(
                        Kind::Rules,
                        &sentence,
                        word_needs(self.rarity.rarest(&sentence, 8)),
                        75,
                    ));
                }
            }
        }
        found
    }

    /// Asks about the user's answers to questions of the agent. An answer must be found together with its question.
    fn answers(&self) -> Vec<Question> {
        let mut found = Vec::new();
        for (_, tool) in self.tools_before().rev() {
            let name = tool.tool.to_lowercase();
            if !["question", "askuser", "ask_user", "request_user_input"]
                .iter()
                .any(|word| name.contains(word))
            {
                continue;
            }
            let mut parts = result(tool).split("\"=\"");
            let mut asked =
                parts.next().and_then(|part| part.rsplit_once('"')).map_or("", |(_, asked)| asked);
            for part in parts {
                let answer = part.split('"').next().unwrap_or_default();
                let mut needs = word_needs(self.rarity.rarest(answer, 4));
                needs.extend(word_needs(self.rarity.rarest(asked, 4)));
                found.push(question(Kind::Answers, &format!("{asked} = {answer}"), needs, 70));
                asked = part.rsplit_once('"').map_or("", |(_, asked)| asked);
            }
        }
        // A short message after a question is its answer.
        for (place, message) in self.before.iter().enumerate().rev() {
            let answer = spoken(message);
            let count = words(&answer).len();
            let asked = self.before[..place].iter().rev().map(said).find(|text| !text.trim().is_empty());
            let asked =
                asked.and_then(|text| sentences(&text).pop()).filter(|text| text.ends_with(['?', '？']));
            if let Some(asked) = asked.filter(|_| (1..=12).contains(&count)) {
                let mut needs = word_needs(self.rarity.rarest(&asked, 5));
                needs.extend(word_needs(self.rarity.rarest(&answer, 4)));
                found.push(question(Kind::Answers, &format!("{asked} = {answer}"), needs, 70));
            }
        }
        found.retain(|question| question.needs.len() >= 3);
        found
    }

    fn changed_files(&self) -> Vec<String> {
        let mut files: Vec<String> = Vec::new();
        for (_, tool) in self.tools_before() {
            for path in changed(tool) {
                files.retain(|known| !known.ends_with(&path) && !path.ends_with(known.as_str()));
                files.push(path);
            }
        }
        files
    }

    /// Asks about changed files: first those that the rest needs, then the newest.
    fn files(&self) -> Vec<Question> {
        let mut files = self.changed_files();
        files.reverse();
        let is_needed = |path: &String| self.later.contains(path.rsplit('/').next().unwrap_or(path));
        files.sort_by_key(|path| !is_needed(path));
        files.iter().map(|path| question(Kind::Files, path, file_needs(path), 100)).collect()
    }

    /// Asks about commands that build, test or run something and are run again after the cut.
    fn commands(&self) -> Vec<Question> {
        let later: BTreeSet<String> =
            self.after.iter().flat_map(tools).filter_map(command).filter_map(|line| subject(&line)).collect();
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for (_, tool) in self.tools_before().rev() {
            let Some(subject) = command(tool).and_then(|line| subject(&line)) else { continue };
            if later.contains(&subject) && seen.insert(subject.clone()) {
                found.push(question(Kind::Commands, &subject, word_needs(words(&subject)), 100));
            }
        }
        found
    }

    /// Asks how the newest builds and test runs ended.
    fn outcomes(&self) -> Vec<Question> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for (part, tool) in self.tools_before().rev() {
            let Some(subject) = command(tool).and_then(|line| subject(&line)) else { continue };
            let is_check =
                ["test", "build", "check", "lint", "tsc", "pytest", "clippy", "compile", "vitest", "jest"];
            let has_check = words(&subject).iter().any(|word| is_check.contains(&word.as_str()));
            if !has_check || !seen.insert(subject.clone()) {
                continue;
            }
            let beside: &[&str] = match failed(tool) {
                true => &["failed", "fails", "failing", "error", "errors", "exit", "fail", "failure"],
                false => &[
                    "ok",
                    "passed",
                    "passes",
                    "pass",
                    "succeeded",
                    "succeeds",
                    "success",
                    "clean",
                    "green",
                    "built",
                    "0",
                ],
            };
            let mut asked = question(
                Kind::Outcomes,
                &format!("{subject}: {}", beside[0]),
                word_needs(words(&subject)),
                60,
            );
            asked.on_one_line = beside.iter().map(|word| (*word).to_owned()).collect();
            asked.shown_by = Some(part);
            found.push(asked);
        }
        found
    }

    /// Asks about approaches that did not work, in the agent's words.
    fn failures(&self) -> Vec<Question> {
        const CUES: &[&str] = &[
            "didn't work",
            "did not work",
            "doesn't work",
            "does not work",
            "won't work",
            "reverted",
            "revert the",
            "failed because",
            "fails because",
            "not supported",
            "can't use",
            "cannot use",
            "couldn't",
            "could not",
            "is blocked",
            "blocked by",
            "gave up",
            "abandon",
            "no longer works",
            "isn't available",
            "is not available",
            "not available",
            "not possible",
            "dead end",
            "ruled out",
        ];
        self.sentences_with(Kind::Failures, CUES, 0, 65)
    }

    /// Asks about decisions and their reasons, in the agent's words, if the rest of the session mentions their names
    /// again.
    fn decisions(&self) -> Vec<Question> {
        const CUES: &[&str] = &[
            "because",
            "decided",
            "instead of",
            "rather than",
            "so that",
            "will use",
            "going with",
            "chose",
            "root cause",
            "the cause",
            "the problem is",
            "the issue is",
            "the bug",
            "the fix",
            "fixed",
            "turns out",
            "by design",
            "therefore",
            "因為",
            "因为",
            "所以",
            "決定",
            "决定",
        ];
        self.sentences_with(Kind::Decisions, CUES, 1, 65)
    }

    /// Returns sentences of the agent with one of the cues, ranked by how many of their names the rest of the session
    /// uses.
    fn sentences_with(&self, kind: Kind, cues: &[&str], least_used: usize, percent: usize) -> Vec<Question> {
        let mut found: Vec<(usize, usize, Question)> = Vec::new();
        let mut seen = BTreeSet::new();
        for (place, message) in self.before.iter().enumerate() {
            for sentence in sentences(&said(message)) {
                let lower = sentence.to_lowercase();
                let is_guess = lower.starts_with("let me")
                    || lower.starts_with("i'll")
                    || lower.ends_with('?')
                    || lower.ends_with(':');
                if is_guess
                    || !cues.iter().any(|cue| lower.contains(cue))
                    || !(40..600).contains(&sentence.len())
                {
                    continue;
                }
                let names = names_in(&sentence);
                let used = names.iter().filter(|name| self.later.contains(name.as_str())).count();
                if names.is_empty() || used < least_used || !seen.insert(lower) {
                    continue;
                }
                found.push((
                    used,
                    place,
                    question(kind, &sentence, word_needs(self.rarity.rarest(&sentence, 10)), percent),
                ));
            }
        }
        found.sort_by_key(|(used, place, _)| std::cmp::Reverse((*used, *place)));
        found.into_iter().map(|(_, _, question)| question).collect()
    }

    /// Asks about open items of the newest todo list.
    fn todos(&self) -> Vec<Question> {
        let lists = self.tools_before().rev().filter(|(_, tool)| {
            let name = tool.tool.to_lowercase();
            name.contains("todo") || name.contains("plan")
        });
        let mut lists = lists.filter_map(|(_, tool)| {
            ["todos", "plan", "items"].iter().find_map(|key| input(tool).get(*key)?.as_array())
        });
        let Some(list) = lists.next() else { return Vec::new() };
        let open = list.iter().filter(|item| item.get("status").and_then(Value::as_str) != Some("completed"));
        let texts = open
            .filter_map(|item| ["content", "step", "text"].iter().find_map(|key| item.get(*key)?.as_str()));
        texts.map(|text| question(Kind::Todos, text, word_needs(content_words(text)), 80)).collect()
    }

    /// Asks about URLs, variables and directories that were known before the cut and that the rest uses.
    fn environment(&self) -> Vec<Question> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        // Only variables that a command set or used, not those that a file mentions.
        let ran: String =
            self.tools_before().filter_map(|(_, tool)| command(tool)).collect::<Vec<_>>().join("\n");
        let ran = ran.to_lowercase();
        for line in self.after.iter().flat_map(tools).filter_map(command).take(40) {
            let pieces = line
                .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '(' | ')' | '|' | '&'));
            for piece in pieces {
                let piece = piece.trim_start_matches("./").trim_end_matches(['/', ',', '\\']);
                let variable =
                    piece.split_once('=').map(|(name, _)| name).or_else(|| piece.strip_prefix('$'));
                let variable = variable.filter(|name| {
                    name.len() >= 4
                        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
                });
                let need = match (
                    variable,
                    piece.split_once("localhost:").or_else(|| piece.split_once("127.0.0.1:")),
                ) {
                    (Some(name), _) => Need::Word(name.to_lowercase()),
                    (None, Some((_, rest))) => {
                        Need::Word(rest.chars().take_while(char::is_ascii_digit).collect())
                    }
                    _ => continue,
                };
                let text = match &need {
                    Need::Word(word) | Need::Name(word) => word.clone(),
                };
                let is_shells = matches!(text.as_str(), "home" | "path" | "exit" | "pwd" | "user" | "null");
                if !text.is_empty() && !is_shells && ran.contains(&text) && seen.insert(text) {
                    found.push(question(Kind::Environment, piece, vec![need], 100));
                }
            }
        }
        found
    }

    /// Asks about targets of the next calls that were known before the cut.
    fn next(&self) -> Vec<Question> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for tool in self.next_calls() {
            // Claude Code's own files are not part of the work.
            let file = path(tool).filter(|path| !path.contains("/.claude/"));
            let file = file.or_else(|| changed(tool).into_iter().next());
            let asked = match (file, command(tool).and_then(|line| subject(&line))) {
                (Some(path), _) => {
                    let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
                    let known = self.known.contains(&name);
                    known.then(|| question(Kind::Next, &path, file_needs(&path), 100))
                }
                (None, Some(subject)) => {
                    let known = self
                        .tools_before()
                        .filter_map(|(_, tool)| command(tool))
                        .any(|line| line.contains(&subject));
                    known.then(|| question(Kind::Next, &subject, word_needs(words(&subject)), 100))
                }
                (None, None) => None,
            };
            found.extend(asked.filter(|asked| seen.insert(asked.about.clone())));
        }
        found
    }

    /// Asks about identifiers that were known before the cut and that the next calls use, except in text that they
    /// write into files.
    fn names(&self) -> Vec<Question> {
        let known = identifiers(&self.known);
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for tool in self.next_calls() {
            for name in identifiers(&unwritten(input(tool), "")) {
                if known.contains(&name) && seen.insert(name.clone()) {
                    found.push(question(Kind::Names, &name, vec![Need::Word(name.to_lowercase())], 100));
                }
            }
        }
        found
    }
}

fn is_alone(text: &str, at: usize, length: usize) -> bool {
    let inner = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    !inner(text[..at].chars().next_back()) && !inner(text[at + length..].chars().next())
}

/// Returns the names in a sentence: text in code marks, and identifiers.
fn names_in(sentence: &str) -> BTreeSet<String> {
    let marked = sentence.split('`').skip(1).step_by(2).map(str::to_owned);
    let mut names: BTreeSet<String> = marked.filter(|name| (3..60).contains(&name.len())).collect();
    names.extend(identifiers(sentence));
    names
}

/// Programs that build, test, run or deploy something.
const PROGRAMS: &str = " cargo go make just npm pnpm yarn npx bun bunx deno tsx node python python3 pytest pip pip3 uv poetry tox ruff mypy \
    ruby bundle rails rake rspec php composer phpunit docker docker-compose kubectl helm terraform mvn gradle gradlew dotnet tsc jest vitest \
    eslint biome playwright cmake ctest ninja bazel swift flutter mix forge anchor solana gh vercel npm.cmd npx.cmd sqlite3 psql alembic \
    uvicorn R Rscript ";

/// Reduces a command to its program and first operands: `cargo test -p x` becomes `cargo test`. `None` if it only
/// inspects files.
fn subject(line: &str) -> Option<String> {
    // The text of a here-document is not a command.
    let line = line.split("<<").next().unwrap_or(line);
    let pieces = line.split("&&").flat_map(|piece| piece.split([';', '|', '\n']));
    let mut best = None;
    for piece in pieces {
        let is_wrapper = |word: &&str| {
            word.contains('=')
                || matches!(*word, "sudo" | "timeout" | "time" | "nice")
                || word.parse::<u64>().is_ok()
        };
        let mut words = piece.split_whitespace().skip_while(is_wrapper);
        let Some(program) = words.next() else { continue };
        let is_script = program.starts_with("./") && program.len() > 3;
        let program = program.rsplit('/').next().unwrap_or(program);
        if !is_script && !PROGRAMS.contains(&format!(" {program} ")) {
            continue;
        }
        let most = if matches!(program, "npm" | "pnpm" | "npx" | "docker" | "uv" | "python" | "python3") {
            2
        } else {
            1
        };
        let is_plain = |word: &&str| {
            word.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':'))
        };
        let operands: Vec<&str> =
            words.take_while(is_plain).filter(|word| !word.starts_with('-')).take(most).collect();
        if is_script || !operands.is_empty() {
            best = Some([&[program], operands.as_slice()].concat().join(" "));
        }
    }
    best
}

/// Returns the texts of an input, except for what is written into files.
fn unwritten(value: &Value, key: &str) -> String {
    const WRITTEN: &[&str] = &[
        "content",
        "old_string",
        "new_string",
        "oldString",
        "newString",
        "oldText",
        "newText",
        "old_str",
        "new_str",
        "file_text",
        "edits",
        "patch",
        "diff",
        "todos",
        "plan",
    ];
    match value {
        _ if WRITTEN.contains(&key) => String::new(),
        Value::String(text) if text.contains("*** Begin Patch") => String::new(),
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(|item| unwritten(item, key)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| unwritten(value, key)).collect(),
        _ => String::new(),
    }
}
