//! Measures summaries without a model on real sessions, if available:
//! `PLIMSOLL_CORPUS=… cargo test --release -p plimsoll-formats --test it summary -- --ignored --nocapture`.
//!
//! Every session is cut before the call that ends the first 70 % of its calls. The part before the cut is
//! summarised at the default size, and four shares are measured:
//!
//! - `said`: user messages of which five consecutive words (or all, if there are fewer) are in the summary;
//! - `files`: files changed before the cut that the summary names;
//! - `used`: files and identifiers anywhere in the inputs of the ten calls after the cut, of those that were known before;
//! - `next`: like `used`, without what those calls write into files, which they invent or copy from what they just read.
//!
//! Wrappers, changes and names are recognised by simple rules of this test and not by the engine's, so that the measurement
//! does not depend on what it measures.
#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use plimsoll::log::{PartBody, ToolPart, ToolStatus};
use plimsoll::{Message, Policy, Text};
use plimsoll_formats::read;
use serde_json::Value;

/// Sessions with fewer calls contain too little work.
const MIN_CALLS: usize = 8;
/// Number of calls after the cut that are examined.
const NEXT_CALLS: usize = 10;
/// Number of consecutive words that count as a match.
const RUN: usize = 5;

fn summarise(before: &[&Message], policy: &Policy) -> Text {
    let most = policy.compact.extractive_tokens;
    plimsoll::compact::extract(before, None, most, &policy.summary, &policy.count)
}

/// A count and its total.
#[derive(Clone, Copy, Default)]
struct Share {
    found: usize,
    of: usize,
}

impl Share {
    fn count(items: impl IntoIterator<Item = bool>) -> Share {
        items.into_iter().fold(Share::default(), |share, found| Share {
            found: share.found + usize::from(found),
            of: share.of + 1,
        })
    }

    fn add(&mut self, other: Share) {
        self.found += other.found;
        self.of += other.of;
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.of == 0 {
            return f.pad("-");
        }
        f.pad(&format!("{}/{} {:.0}%", self.found, self.of, 100.0 * self.found as f64 / self.of as f64))
    }
}

#[test]
#[ignore = "needs PLIMSOLL_CORPUS"]
fn shares_in_a_summary_of_seventy_percent() {
    let directory =
        std::env::var("PLIMSOLL_CORPUS").expect("PLIMSOLL_CORPUS names a directory of transcripts");
    let policy = Policy::default();
    let mut found = Vec::new();
    files(Path::new(&directory), &mut found);
    let mut totals = [Share::default(); 4];
    let mut means = [(0.0, 0usize); 4];
    println!("{:24} {:>6} {:>12} {:>12} {:>12} {:>12}", "session", "tokens", "said", "files", "used", "next");
    for path in found {
        // Formats without a reader are skipped.
        let Ok(transcript) = read(BufReader::new(File::open(&path).unwrap())) else { continue };
        let messages: Vec<Message> = transcript
            .messages
            .into_iter()
            .filter(|message| !message.info.summary && message.marker().is_none())
            .collect();
        let Some(cut) = cut(&messages) else { continue };
        let (before, after) = messages.split_at(cut);
        let before: Vec<&Message> = before.iter().collect();
        let summary = summarise(&before, &policy);
        let size = summary.chars().0.div_ceil(4);
        let summary = expand(&summary);
        let shares = [
            said(&before, &summary),
            changed(&before, &summary),
            next(&before, after, &summary, true),
            next(&before, after, &summary, false),
        ];
        let [user, files, used, names] = shares;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        println!("{name:24} {size:>6} {user:>12} {files:>12} {used:>12} {names:>12}");
        for (place, share) in shares.into_iter().enumerate() {
            totals[place].add(share);
            if share.of > 0 {
                means[place].0 += share.found as f64 / share.of as f64;
                means[place].1 += 1;
            }
        }
    }
    let [user, files, used, names] = totals;
    println!("{:24} {:>6} {user:>12} {files:>12} {used:>12} {names:>12}", "together", "");
    let mean = means.map(|(sum, count)| format!("{:.0}%", 100.0 * sum / count.max(1) as f64));
    let [user, files, used, names] = mean;
    println!("{:24} {:>6} {user:>12} {files:>12} {used:>12} {names:>12}", "mean of the sessions", "");
    assert!(totals[0].of > 0, "no sessions in {directory}");
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|kind| kind != "log" && kind != "md") {
            found.push(path);
        }
    }
}

fn tools(message: &Message) -> impl Iterator<Item = &ToolPart> {
    message.parts.iter().filter_map(|part| part.as_tool())
}

/// Returns the message with the call that ends the first 70 % of the calls.
fn cut(messages: &[Message]) -> Option<usize> {
    let calls: usize = messages.iter().map(|message| tools(message).count()).sum();
    if calls < MIN_CALLS {
        return None;
    }
    let wanted = calls * 7 / 10;
    let mut seen = 0;
    messages.iter().position(|message| {
        seen += tools(message).count();
        seen > wanted
    })
}

/// Returns the share of user messages that the summary quotes.
fn said(before: &[&Message], summary: &str) -> Share {
    let summary = words(summary);
    let runs: BTreeSet<&[String]> = (1..=RUN).flat_map(|length| summary.windows(length)).collect();
    let messages = before.iter().filter(|message| message.is_turn());
    let texts = messages.map(|message| words(&spoken(message)));
    // Shorter messages are acknowledgements, whose meaning is in what they answer.
    let texts = texts.filter(|words| words.len() >= 3);
    Share::count(texts.map(|words| words.windows(RUN.min(words.len())).any(|run| runs.contains(run))))
}

/// Returns the user's own text in a message, without the texts and tags of the host.
fn spoken(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match &part.body {
        PartBody::Text(text) if text.synthetic != Some(true) && text.ignored != Some(true) => {
            Some(&text.text)
        }
        _ => None,
    });
    let mut text = texts.map(|text| text.as_str()).collect::<Vec<_>>().join("\n");
    for tag in [
        "system-reminder",
        "task-notification",
        "local-command-caveat",
        "local-command-stdout",
        "command-name",
        "command-message",
        "environment_context",
        "user_instructions",
        "turn_aborted",
    ] {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        while let Some(start) = text.find(&open) {
            let end = text[start..].find(&close).map_or(text.len(), |end| start + end + close.len());
            text.replace_range(start..end, " ");
        }
    }
    let text = text.replace("<command-args>", " ").replace("</command-args>", " ");
    if text.trim_start().starts_with("[Request interrupted") || text.trim_start().starts_with("OBSERVATION:")
    {
        return String::new();
    }
    text
}

/// Returns words in lower case; in scripts without spaces each character is a word.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.chars() {
        let alone = c as u32 >= 0x2e80;
        if !c.is_alphanumeric() || alone {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        if alone {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the share of changed files that the summary names: the file's name, and anywhere the directory's.
fn changed(before: &[&Message], summary: &str) -> Share {
    let mut changed = BTreeSet::new();
    for tool in before.iter().flat_map(|message| tools(message)).filter(|tool| succeeded(tool)) {
        let Some(input) = tool.state.input.as_ref().map(|input| input.value()) else { continue };
        if matches!(
            tool.tool.to_lowercase().as_str(),
            "edit" | "write" | "multiedit" | "notebookedit" | "str_replace_editor" | "editor" | "create"
        ) && input.get("command").and_then(Value::as_str) != Some("view")
        {
            let path = ["filePath", "file_path", "path", "notebook_path"]
                .iter()
                .find_map(|key| input.get(*key)?.as_str());
            changed.extend(path.map(|path| path.replace('\\', "/")));
        }
        // A patch may be inside a script inside a command, with escaped line ends.
        let text = input.to_string().replace("\\\\", "\\").replace("\\n", "\n");
        for line in text.lines().filter(|_| text.contains("*** Begin Patch")) {
            let header = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
            let path = header.iter().find_map(|header| line.strip_prefix(header));
            changed.extend(path.map(|path| path.trim().replace('\\', "/")));
        }
    }
    // The same file, once by its full path and once by its end.
    let all: Vec<String> = changed.iter().cloned().collect();
    changed.retain(|path| !all.iter().any(|other| other.ends_with(&format!("/{path}"))));
    Share::count(changed.iter().map(|path| {
        let mut names = path.rsplit('/');
        let name = names.next().unwrap_or_default();
        contains_name(summary, name) && names.next().is_none_or(|directory| summary.contains(directory))
    }))
}

fn succeeded(tool: &ToolPart) -> bool {
    let result = tool.state.result().map(|text| text.trim_start().to_lowercase()).unwrap_or_default();
    let start: String = result.chars().take(400).collect();
    tool.state.status == ToolStatus::Completed
        && ![
            "error",
            "<tool_use_error>",
            "exit code: 1",
            "exit code 1",
            "could not",
            "no changes",
            "execution error",
        ]
        .iter()
        .any(|sign| start.starts_with(sign))
        && !["script failed", "verification failed", "doesn't want to proceed"]
            .iter()
            .any(|sign| start.contains(sign))
}

/// Returns the share of names that the next calls use and that were known before which the summary contains.
fn next(before: &[&Message], after: &[Message], summary: &str, written_too: bool) -> Share {
    let mut known = String::new();
    for part in before.iter().flat_map(|message| &message.parts) {
        match &part.body {
            PartBody::Text(text) => known.push_str(&text.text),
            PartBody::Tool(tool) => {
                known.push_str(tool.state.input.as_ref().map_or("", |input| input.json()));
                known.push_str(tool.state.result().map_or("", |text| text.as_str()));
            }
            _ => {}
        }
        known.push('\n');
    }
    let known: BTreeSet<&str> = known.split(|c: char| !is_name_char(c)).collect();
    let calls = after.iter().flat_map(tools).take(NEXT_CALLS);
    let inputs = calls.filter_map(|tool| tool.state.input.as_ref());
    let used: BTreeSet<String> = inputs.flat_map(|input| names(input.value(), "", written_too)).collect();
    Share::count(
        used.iter().filter(|name| known.contains(name.as_str())).map(|name| contains_name(summary, name)),
    )
}

/// Returns the names in a tool's input: file names and longer identifiers, except those in written text.
fn names(input: &Value, key: &str, written_too: bool) -> BTreeSet<String> {
    const WRITTEN: [&str; 11] = [
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
    ];
    match input {
        _ if WRITTEN.contains(&key) && !written_too => BTreeSet::new(),
        Value::String(text) => {
            let text = text.replace("\\n", "\n");
            let is_patch = text.contains("*** Begin Patch") && !written_too;
            let lines = text.lines().filter(|line| !is_patch || line.starts_with("*** "));
            let words = lines.flat_map(|line| line.split(|c: char| !is_name_char(c)));
            let words = words.map(|word| word.trim_matches(['.', '-']));
            words.filter(|word| is_file(word) || is_identifier(word)).map(str::to_owned).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| names(item, key, written_too)).collect(),
        Value::Object(map) => map.iter().flat_map(|(key, value)| names(value, key, written_too)).collect(),
        _ => BTreeSet::new(),
    }
}

/// Expands braces as shells do: `{a,b}.rs` becomes `a.rs, b.rs`.
fn expand(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_inclusive(char::is_whitespace) {
        let braces = word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
        match braces.filter(|(_, (stems, _))| stems.contains(',') && !stems.contains('"')) {
            Some((before, (stems, ending))) => {
                let all: Vec<String> =
                    stems.split(',').map(|stem| format!("{before}{stem}{}", ending.trim_end())).collect();
                out.push_str(&all.join(" "));
                out.push_str(if ending.ends_with('\n') { "\n" } else { " " });
            }
            None => out.push_str(word),
        }
    }
    out
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-')
}

fn is_file(word: &str) -> bool {
    let Some((stem, kind)) = word.rsplit_once('.') else { return false };
    stem.chars().any(char::is_alphabetic)
        && (1..=5).contains(&kind.len())
        && kind.chars().all(|c| c.is_ascii_alphanumeric())
        && kind.chars().any(|c| c.is_ascii_alphabetic())
}

fn is_identifier(word: &str) -> bool {
    let plain = word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let joined = word.trim_matches('_').contains('_')
        || word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    plain && word.len() >= 8 && joined && !word.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether `name` occurs in `text` and not only as a part of a longer name.
fn contains_name(text: &str, name: &str) -> bool {
    let inner = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(name).any(|(at, _)| {
        !inner(text[..at].chars().next_back()) && !inner(text[at + name.len()..].chars().next())
    })
}
