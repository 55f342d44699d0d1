//! Extracts what the user typed from a message: removes the wrappers of hosts and editors, shortens pasted logs and
//! code, and detects bare acknowledgements.

use std::sync::LazyLock;

use crate::chars::Chars;
use crate::pattern::Regex;
use crate::policy::SummaryPolicy;
use crate::prose::{Pattern, WordList, matches, normal, shorten, words_of};
use crate::work;

/// Elements whose content the host wrote. They are removed with their content.
static HOST_TAGS: WordList =
    WordList::new(|| words_of(include_str!("../../words/strip/host_tags.txt")).collect());

/// First words of messages that hosts write in the user's name.
const HOST_STARTS: &[&str] = &[
    "Caveat: The messages below were generated",
    "[Request interrupted by user",
    "OBSERVATION:",
    "# AGENTS.md instructions for ",
];

/// First words of a skill that a host inserts, and the label before the user's arguments to it.
const SKILL: (&str, &str) = ("Base directory for this skill:", "\nARGUMENTS: ");

/// Elements around the user's own words. Only the tags are removed.
static USER_TAGS: WordList =
    WordList::new(|| words_of(include_str!("../../words/strip/user_tags.txt")).collect());

/// Lines between text that an editor added and the user's words after it.
const REQUEST_LINES: [&str; 3] = ["## My request for Codex:", "## My request:", "## User request:"];

/// Prompt templates of hosts: the texts before and after the user's words.
const TEMPLATES: [(&str, &str); 1] =
    [("User-provided focus or constraints (honor these):\n", "\n## How to investigate")];

/// Returns what the user typed, with its lines. Empty if the user typed nothing.
pub(super) fn own_words(text: &str) -> String {
    let text = within_template(after_request_line(text));
    // A command that the user ran in a shell comes with its output.
    if let Some((command, _)) = text.split_once("\n```").filter(|(command, _)| command.starts_with("Ran `")) {
        return command.trim().to_owned();
    }
    if text.trim_start().starts_with(SKILL.0) {
        return text.rsplit_once(SKILL.1).map_or("", |(_, words)| words).trim().to_owned();
    }
    let text = without_host_elements(text);
    let command = slash_command(&text.command);
    let mut kept: Vec<&str> = Vec::new();
    for line in work::read(&text.rest).lines() {
        let trimmed = line.trim();
        let host = HOST_STARTS.iter().any(|start| trimmed.starts_with(start));
        let image = trimmed.starts_with("[Image") && trimmed.ends_with(']') && trimmed.len() < 80;
        if !host && !image {
            kept.push(line.trim_end());
        }
    }
    let joined = kept.join("\n");
    let words = joined.trim();
    match command {
        // A slash command without arguments is for the host; with arguments it is a request.
        Some(command) if !words.is_empty() => format!("{command} {words}"),
        _ => words.to_owned(),
    }
}

fn after_request_line(text: &str) -> &str {
    REQUEST_LINES.iter().find_map(|line| text.split_once(line)).map_or(text, |(_, words)| words)
}

fn within_template(text: &str) -> &str {
    let words = TEMPLATES.iter().find_map(|(before, behind)| {
        let words = text.split_once(before)?.1;
        Some(words.split_once(behind).map_or(words, |(words, _)| words))
    });
    words.filter(|words| !words.trim().is_empty()).unwrap_or(text)
}

struct Stripped {
    rest: String,
    /// The content of a `command-name`, if there was one.
    command: String,
}

fn without_host_elements(text: &str) -> Stripped {
    let mut stripped = Stripped { rest: String::with_capacity(text.len()), command: String::new() };
    let mut rest = text;
    // If there is no `>` in the rest, no tag ends there. The rest is searched for one only once, to stay linear.
    let mut has_ends = true;
    while let Some(open) = work::find(rest, "<") {
        stripped.rest.push_str(&rest[..open]);
        rest = &rest[open..];
        let inner = rest[1..].strip_prefix('/').unwrap_or(&rest[1..]);
        let name = |tags: &[&'static str]| {
            let starts = |tag: &&'static str| {
                inner.strip_prefix(*tag).is_some_and(|after| after.starts_with(['>', ' ', '\n', '/']))
            };
            tags.iter().copied().find(starts)
        };
        let (host, user) = (name(&HOST_TAGS), name(&USER_TAGS));
        let is_tag = has_ends && (host.is_some() || user.is_some());
        let end_of_tag = is_tag.then(|| work::find(rest, ">").map(|at| at + 1)).flatten();
        has_ends &= !is_tag || end_of_tag.is_some();
        match (host, user, end_of_tag) {
            (Some(tag), _, Some(end)) if !rest.starts_with("</") => {
                let close = format!("</{tag}>");
                let content = &rest[end..];
                let length = work::find(content, &close);
                if tag == "command-name" {
                    content[..length.unwrap_or(0)].trim().clone_into(&mut stripped.command);
                }
                // An element that is never closed was cut off; everything after it is from the host.
                rest = length.map_or("", |length| &content[length + close.len()..]);
            }
            (Some(_), _, Some(end)) | (_, Some(_), Some(end)) => rest = &rest[end..],
            _ => {
                stripped.rest.push('<');
                rest = &rest[1..];
            }
        }
    }
    stripped.rest.push_str(rest);
    stripped
}

fn slash_command(name: &str) -> Option<&str> {
    Some(name).filter(|name| name.starts_with('/'))
}

/// Shortens pasted logs, traces and code to their most informative lines.
pub(super) fn without_pastes(text: &str, policy: &SummaryPolicy) -> String {
    let mut out: Vec<String> = Vec::new();
    for block in blocks(text, policy) {
        match block {
            Block::Words(line) => out.push(line.to_owned()),
            Block::Paste(lines) => out.extend(shorten_paste(&lines, policy)),
        }
    }
    out.join("\n")
}

/// Removes everything that looks pasted or quoted.
pub(super) fn typed_only(text: &str, policy: &SummaryPolicy) -> String {
    let all_quoted = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('>'));
    let lines = blocks(text, policy).into_iter().filter_map(|block| match block {
        Block::Words(line) if all_quoted => Some(line.trim_start().trim_start_matches(['>', ' '])),
        Block::Words(line) => Some(line).filter(|line| !line.trim_start().starts_with('>')),
        Block::Paste(_) => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

enum Block<'a> {
    Words(&'a str),
    Paste(Vec<&'a str>),
}

/// Separates typed lines from runs of lines that come from a program or a file.
fn blocks<'a>(text: &'a str, policy: &SummaryPolicy) -> Vec<Block<'a>> {
    let least = usize::try_from(policy.paste_run).unwrap_or(usize::MAX);
    let mut blocks: Vec<Block> = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    let mut fenced: Option<Vec<&str>> = None;
    let flush = |run: &mut Vec<&'a str>, blocks: &mut Vec<Block<'a>>| {
        let lines = std::mem::take(run);
        let sure = lines.iter().any(|line| line.len() > 400);
        if lines.len() >= least || sure {
            blocks.push(Block::Paste(lines));
        } else {
            blocks.extend(lines.into_iter().map(Block::Words));
        }
    };
    for line in work::read(text).lines() {
        if let Some(lines) = &mut fenced {
            lines.push(line);
            if line.trim_start().starts_with("```") {
                blocks.extend(fenced.take().map(Block::Paste));
            }
        } else if line.trim_start().starts_with("```") {
            flush(&mut run, &mut blocks);
            fenced = Some(vec![line]);
        } else if is_output(line) || (!run.is_empty() && line.trim().is_empty()) {
            run.push(line);
        } else {
            flush(&mut run, &mut blocks);
            blocks.push(Block::Words(line));
        }
    }
    flush(&mut run, &mut blocks);
    blocks.extend(fenced.map(Block::Paste));
    blocks
}

/// Whether a line looks like program output.
fn is_output(line: &str) -> bool {
    static OUTPUT: Pattern = Pattern::new(|| {
        Regex::new(
            r#"(?x)
            ^\s+at\s+\S.*[(:] | ^\s*File\ ".*",\ line\ \d+ | ^Traceback\  | ^\s*\^+\s*$ | ^\s*[|│]\s | ^\s*\d+\s*[|│]
            | ^\[?\d{4}-\d\d-\d\d[T\ ]\d\d: | ^\[?\d\d:\d\d:\d\d | ^\s*-->\s | ^\s*=\s(?:note|help):
            | ^(?:error|warning)(?:\[\w+\])?:\s | ^npm\ (?:ERR!|error|warn) | ^\s*[\w./\\-]+\(\d+,\d+\):\ (?:error|warning)
            | ^[\w./\\-]+:\d+:\d+:?\s | ^\s*(?:ERROR|WARN|INFO|DEBUG|FATAL|TRACE)\b[\s:\]]
            | ^(?:\$|>|➜|❯|PS\ [A-Z]:)\s*\S | ^~?/\S+\s.*[>$%]\s | ^diff\ --git | ^@@\s | ^(?:---|\+\+\+)\ [ab]/ | ^\s*[+-]\s?\d+\s
            | ^\s*[{}\[\]();,]+\s*$ | ^\s*"[^"]+":\s | ^\{"|^\[\{ | ^\s*(?:Error|TypeError|\w+Error|\w+Exception):\s
            | ^(?:import|from|const|let|var|export|function|def|class|fn|pub|use|package|\#include)\s.*[;{:(=]
            | node:internal | ^\s*(?:code|errno|syscall|path|stack):\ ['"\-\d] | ^Node\.js\ v\d | ^Caused\ by: | [─━═]{6,}
            "#,
        )
        .ok()
    });
    matches(&OUTPUT, line) || is_noise(line)
}

/// Whether a long line consists mostly of non-letters, like paths, hashes and data.
fn is_noise(line: &str) -> bool {
    let trimmed = line.trim();
    if trimmed.len() < 40 || trimmed.contains(". ") {
        return false;
    }
    let (mut letters, mut spaces, mut all) = (0usize, 0usize, 0usize);
    for c in work::read(trimmed).chars() {
        all += 1;
        letters += usize::from(c.is_alphabetic());
        spaces += usize::from(c == ' ');
    }
    letters * 2 < all || (spaces == 0 && all > 120)
}

/// The most informative lines of a paste: those with an error, else the first.
fn shorten_paste(lines: &[&str], policy: &SummaryPolicy) -> Vec<String> {
    static ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)\berror\b|\w+Error:|exception|panicked|fail(?:ed|ure)|cannot|not found|denied").ok()
    });
    let most = usize::try_from(policy.pasted_lines).unwrap_or(usize::MAX);
    let content: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with("```"))
        .collect();
    if content.len() <= most && content.iter().all(|line| Chars::of(line) <= policy.sentence_chars) {
        return content.into_iter().map(str::to_owned).collect();
    }
    let telling = content.iter().filter(|line| ERROR.as_ref().is_some_and(|error| error.is_match(line)));
    let mut chosen: Vec<&str> = telling.copied().take(most).collect();
    if chosen.is_empty() {
        chosen = content.iter().copied().take(most).collect();
    }
    let mut out: Vec<String> =
        chosen.iter().map(|line| shorten(line.trim(), policy.sentence_chars)).collect();
    if content.len() > chosen.len() {
        out.push(format!("[… {} more lines pasted]", content.len() - chosen.len()));
    }
    out
}

/// Whether a message only agrees, thanks, or asks the agent to continue.
pub(super) fn is_acknowledgement(text: &str) -> bool {
    static NODS: WordList =
        WordList::new(|| words_of(include_str!("../../words/strip/acknowledgements.txt")).collect());
    // Cheap check before the text is split.
    if text.trim().len() > LONGEST_NOD {
        return false;
    }
    let words: Vec<String> = normal(text)
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    // A longer message says something, whatever the words.
    words.len() <= 5 && words.iter().all(|word| NODS.contains(&word.as_str()))
}

/// Maximum length of an acknowledgement in bytes.
const LONGEST_NOD: usize = 200;

/// Whether a message is only a command to the host, such as `/model`.
pub(super) fn is_host_command(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('/')
        && !text.contains(char::is_whitespace)
        && text[1..].chars().all(|c| c.is_alphanumeric() || c == '-' || c == ':' || c == '_')
}
