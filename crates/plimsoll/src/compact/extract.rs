//! A summary without a model: deterministic, bounded, honest about how it was made.
//!
//! It keeps what a session cannot go on without: what the user wants and demanded, the files touched, the
//! commands and how they ended, errors, open tasks, the last words. Everything else stays in the log.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::chars::{Chars, Text, cut_middle, head, tail};
use crate::count::{Counter, Tokens};
use crate::log::{Message, PartBody, Role, ToolPart, ToolStatus};
use crate::redact::redact;

/// Said first, so that nobody takes the summary for more than it is.
const MADE_WITHOUT_MODEL: &str = "(This summary was made without a model, by picking out facts.)";

/// Summarise `history` in at most `most` tokens. `prior` is the summary of what came before it.
pub fn extract(history: &[&Message], prior: Option<&Text>, most: Tokens, counter: &dyn Counter) -> Text {
    let facts = Facts::collect(history);
    // Start generous and take less of everything until it fits.
    let mut share = 1.0;
    loop {
        let text = Text::from(redact(&facts.render(history, prior, share)).text);
        let size = counter.count_text(&text);
        if size <= most {
            return text;
        }
        if share < 0.05 {
            let limit = text.chars().share(most.0 as f64 / size.0 as f64 * 0.9);
            return cut_middle(&text, limit, 0.7);
        }
        share *= (most.0 as f64 / size.0 as f64).clamp(0.3, 0.9);
    }
}

#[derive(Default)]
struct Facts {
    requests: Vec<String>,
    constraints: Vec<String>,
    read: Vec<String>,
    changed: Vec<String>,
    commands: Vec<String>,
    errors: Vec<String>,
    todos: Vec<String>,
    last_words: String,
}

impl Facts {
    fn collect(history: &[&Message]) -> Facts {
        let mut facts = Facts::default();
        for message in history {
            let text = message.text();
            if message.is_assistant() {
                if !text.trim().is_empty() {
                    facts.last_words = text;
                }
            } else if !is_laid_down(message) && !text.trim().is_empty() {
                facts.constraints.extend(constraints(&text));
                facts.requests.push(text);
            }
            for part in &message.parts {
                match &part.body {
                    PartBody::Tool(tool) => facts.tool(tool),
                    PartBody::ToolResult(result) if result.is_error == Some(true) => {
                        facts.errors.push(one_line(&result.text, Chars(200)));
                    }
                    _ => {}
                }
            }
        }
        facts
    }

    fn tool(&mut self, tool: &ToolPart) {
        let input = tool.state.input.as_ref().map(|input| input.value());
        let name = tool.tool.to_lowercase();
        let input = input.unwrap_or(&Value::Null);
        let changes = ["write", "edit", "patch", "create", "replace", "delete", "move", "rename"];
        let files =
            if changes.iter().any(|verb| name.contains(verb)) { &mut self.changed } else { &mut self.read };
        files.extend(paths(input));
        if let Some(command) = command(input) {
            self.commands.push(format!("`{}` → {}", one_line(&command, Chars(160)), outcome(tool)));
        }
        if name.contains("todo") {
            self.todos = open_todos(input);
        }
        if tool.state.status == ToolStatus::Error {
            let error = tool.state.result().map(|text| one_line(text, Chars(240))).unwrap_or_default();
            self.errors.push(format!("{}: {error}", tool.tool));
        } else if let Some(line) = tool.state.output.as_ref().and_then(|text| error_line(text)) {
            self.errors.push(format!("{}: {line}", tool.tool));
        }
    }

    /// Write the summary, taking `share` of what there could be of everything.
    fn render(&self, history: &[&Message], prior: Option<&Text>, share: f64) -> String {
        let few = |most: usize| ((most as f64 * share) as usize).max(1);
        let short = |chars: u64| Chars(chars).share(share).max(Chars(60));
        let mut out = Outline { text: MADE_WITHOUT_MODEL.to_owned() };
        if let (Some(first), Some(last)) = (history.first(), history.last()) {
            let (first, last) = (&first.info.id, &last.info.id);
            out.line(&format!(
                "Messages `{first}` to `{last}` are out of the window; recall them for details."
            ));
        }
        out.heading("## Goal");
        if let Some(first) = self.requests.first() {
            out.bullet(&block(first, short(800)));
        }
        if self.requests.len() > 1 {
            let newest = self.requests.iter().skip(1).rev().take(few(4)).rev();
            newest.for_each(|request| out.bullet(&format!("then: {}", block(request, short(400)))));
        }
        out.list("## Constraints", &newest_of(&self.constraints, few(16)), short(300));
        out.heading("## Work");
        out.list("### Commands", &newest_of(&self.commands, few(20)), short(300));
        out.list("### Errors seen", &newest_of(&self.errors, few(8)), short(240));
        out.list("### Open tasks", &newest_of(&self.todos, few(20)), short(200));
        out.heading("## Last state");
        if !self.last_words.is_empty() {
            out.bullet(&block(&self.last_words, short(1_200)));
        }
        out.heading("## Files");
        let changed = newest_of(&self.changed, few(40));
        out.list("Changed:", &changed, short(200));
        let read: Vec<&str> =
            newest_of(&self.read, few(40)).into_iter().filter(|path| !changed.contains(path)).collect();
        out.list("Read:", &read, short(200));
        if let Some(prior) = prior {
            out.heading("## Earlier summary");
            out.line(&cut_middle(&Text::from(redact(prior).text), short(6_000), 0.8));
        }
        out.text
    }
}

struct Outline {
    text: String,
}

impl Outline {
    fn line(&mut self, line: &str) {
        self.text.push('\n');
        self.text.push_str(line);
    }

    fn heading(&mut self, heading: &str) {
        self.text.push('\n');
        self.line(heading);
    }

    fn bullet(&mut self, text: &str) {
        self.line(&format!("- {text}"));
    }

    fn list(&mut self, heading: &str, items: &[&str], limit: Chars) {
        if items.is_empty() {
            return;
        }
        self.line(heading);
        items.iter().for_each(|item| self.bullet(&one_line(item, limit)));
    }
}

/// The newest `most` different items, oldest first.
fn newest_of(items: &[String], most: usize) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let newest = items.iter().rev().filter(|item| !item.is_empty() && seen.insert(item.as_str()));
    let mut newest: Vec<&str> = newest.take(most).map(String::as_str).collect();
    newest.reverse();
    newest
}

/// Whether the host speaks here, as itself or in the user's name.
fn is_laid_down(message: &Message) -> bool {
    if message.info.role == Some(Role::System) {
        return true;
    }
    let mut texts = message.parts.iter().filter_map(|part| match &part.body {
        PartBody::Text(text) => Some(text.synthetic == Some(true)),
        _ => None,
    });
    texts.clone().next().is_some() && texts.all(|synthetic| synthetic)
}

/// Sentences in which the user demands or rules something out.
fn constraints(text: &str) -> Vec<String> {
    const CUES: [&str; 22] = [
        "must",
        "never",
        "always",
        "don't",
        "do not",
        "dont",
        "only",
        "should",
        "shouldn't",
        "make sure",
        "without",
        "instead of",
        "prefer",
        "required",
        "at least",
        "at most",
        "avoid",
        "keep",
        "no more than",
        "not allowed",
        "ensure",
        "exactly",
    ];
    let sentences = text.split(['\n', ';']).flat_map(|line| line.split_inclusive(". "));
    sentences
        .map(str::trim)
        .filter(|sentence| sentence.len() > 8 && sentence.len() < 2_000)
        .filter(|sentence| {
            let lower = format!(" {} ", sentence.to_lowercase());
            CUES.iter().any(|cue| {
                lower.match_indices(cue).any(|(at, _)| {
                    let before = lower[..at].chars().next_back();
                    let after = lower[at + cue.len()..].chars().next();
                    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
                    edge(before) && edge(after)
                })
            })
        })
        .map(|sentence| one_line(sentence, Chars(300)))
        .collect()
}

/// Paths in a tool's input: the usual fields, and the file headers of a patch.
pub fn paths(input: &Value) -> Vec<String> {
    const KEYS: [&str; 8] = [
        "filePath",
        "file_path",
        "path",
        "file",
        "filename",
        "notebook_path",
        "target_file",
        "absolute_path",
    ];
    const HEADERS: [&str; 3] = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
    let fields = KEYS.iter().filter_map(|key| input.get(*key)?.as_str());
    let mut found: Vec<String> = fields.filter(|path| path.len() < 400).map(str::to_owned).collect();
    let patch = ["patch", "patchText", "input"].iter().find_map(|key| input.get(*key)?.as_str());
    let patch = patch.or(input.as_str()).unwrap_or_default();
    let headers =
        patch.lines().filter_map(|line| HEADERS.iter().find_map(|header| line.strip_prefix(header)));
    found.extend(headers.map(|path| path.trim().to_owned()));
    found
}

fn command(input: &Value) -> Option<String> {
    match input.get("command").or_else(|| input.get("cmd"))? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            Some(words.join(" "))
        }
        _ => None,
    }
}

/// How a command ended: its exit code where known, and the last thing it printed.
fn outcome(tool: &ToolPart) -> String {
    let metadata = tool.state.extra.get("metadata");
    let exit = metadata.and_then(|m| m.get("exit").or_else(|| m.get("exit_code"))?.as_i64());
    let last = tool.state.result().map(|text| tail(text, Chars(2_000)));
    let last = last.and_then(|text| text.lines().rev().map(str::trim).find(|line| !line.is_empty()));
    let last = last.map(|line| one_line(line, Chars(120)));
    match (&tool.state.status, exit, last) {
        (ToolStatus::Pending | ToolStatus::Running, ..) => "interrupted".to_owned(),
        (_, Some(code), Some(line)) if code != 0 => format!("exit {code}: {line}"),
        (_, Some(code), None) if code != 0 => format!("exit {code}"),
        (ToolStatus::Error, _, Some(line)) => format!("failed: {line}"),
        (ToolStatus::Error, _, None) => "failed".to_owned(),
        (_, _, Some(line)) => line,
        (_, _, None) => "no output".to_owned(),
    }
}

fn open_todos(input: &Value) -> Vec<String> {
    let todos = input.get("todos").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let open = todos.iter().filter(|todo| {
        let status = todo.get("status").and_then(Value::as_str).unwrap_or_default();
        !matches!(status, "completed" | "cancelled")
    });
    open.filter_map(|todo| todo.get("content").or_else(|| todo.get("text"))?.as_str())
        .map(|todo| one_line(todo, Chars(200)))
        .collect()
}

/// The last line near the end of an output that speaks of an error.
fn error_line(text: &str) -> Option<String> {
    const SIGNS: [&str; 6] = ["error:", "error[", "Error:", "FAILED", "panicked at", "Traceback"];
    let lines = tail(text, Chars(4_000)).lines().rev();
    let line = lines.take(80).find(|line| SIGNS.iter().any(|sign| line.contains(sign)))?;
    Some(one_line(line, Chars(200)))
}

/// Several lines as one, cut to a length.
fn one_line(text: &str, limit: Chars) -> String {
    // Redacted before it is cut: half a key no longer looks like one.
    let near = head(text, Chars(limit.0.saturating_mul(4)));
    let joined = redact(near).text.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = head(&joined, limit);
    if first.len() < joined.len() || near.len() < text.len() { format!("{first}…") } else { joined }
}

/// A paragraph cut to a length, indented so that it stays inside its bullet.
fn block(text: &str, limit: Chars) -> String {
    cut_middle(&Text::from(redact(text.trim()).text), limit, 0.7).replace('\n', "\n  ")
}
