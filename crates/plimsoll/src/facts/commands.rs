//! Commands that build, test or run something, their last outcomes, and unresolved failures.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::call::{Call, Outcome, is_named};
use super::newest::NewestLast;
use super::shell::{self, Program};
use crate::chars::{Chars, head, tail};
use crate::log::MessageId;
use crate::pattern::Regex;
use crate::prose::{Pattern, WordList, normal, shorten, words_of};
use crate::redact::redact;

/// A command that builds, tests or runs something.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandRun {
    /// The command line, without programs that only surround it, such as `cd`, `ls`, or a pipe into `tail`.
    pub line: String,
    /// Outcome of the last run.
    pub ended: Ended,
    /// Number of runs.
    pub runs: u64,
    /// The message with the last run.
    pub source: MessageId,
    /// How informative the command is: a test run more than an unknown program.
    pub(crate) weight: u8,
    /// Programs with their subcommands, such as `cargo test`.
    pub(crate) subjects: BTreeSet<String>,
    /// The number of the call that ran it last.
    pub(crate) order: usize,
}

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Succeeded, with figures if the program reported any (`12 passed`).
    Well(Option<String>),
    /// Failed, with figures or the exit code.
    Badly(Option<String>),
    /// Unknown: the output went through a pipe, or the command is still running.
    Unknown,
}

/// A failure without a later success.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenError {
    /// The call and its error.
    pub text: String,
    /// The message in which it failed.
    pub source: MessageId,
}

/// The newest commit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// Hash, if the output has it.
    pub hash: Option<String>,
    /// The first line of its message.
    pub subject: String,
    /// The message in which it was made.
    pub source: MessageId,
    /// The number of the call that made it.
    pub(crate) order: usize,
}

/// Collects commands.
pub(super) struct Commands {
    runs: BTreeMap<String, CommandRun>,
    errors: BTreeMap<String, (usize, OpenError)>,
    addresses: NewestLast,
    pub(super) commit: Option<Commit>,
    /// Background commands by the host's id for them.
    waiting: BTreeMap<String, String>,
    longest: Chars,
    scan: Chars,
}

impl Commands {
    /// `longest` is the maximum length of a command line, `scan` how much of each end of an output is read.
    pub(super) fn new(longest: Chars, scan: Chars) -> Commands {
        let (runs, errors, waiting) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Commands { runs, errors, addresses: NewestLast::default(), commit: None, waiting, longest, scan }
    }

    /// Records the commands of a call and their outcome.
    pub(super) fn note(&mut self, call: &Call) {
        let mut lines = command_lines(call);
        if lines.is_empty()
            && let Some(line) = self.awaited(call)
        {
            lines.push(line);
        }
        if lines.is_empty() {
            self.tool_error(call);
            return;
        }
        let last = lines.len() - 1;
        for (place, line) in lines.into_iter().enumerate() {
            // Only the last command of a call can still be running.
            if let Some(name) = running(call.result, self.scan).filter(|_| place == last) {
                self.waiting.insert(name.to_owned(), line.clone());
            }
            self.line(&line, call);
        }
    }

    /// The background command that a call waits for, once it has finished.
    fn awaited(&mut self, call: &Call) -> Option<String> {
        let name = ["cell_id", "session_id", "shell_id", "bash_id"].iter().find_map(|key| {
            match call.input.get(*key)? {
                Value::String(name) => Some(name.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            }
        })?;
        if running(call.result, self.scan).is_some() { None } else { self.waiting.remove(&name) }
    }

    fn line(&mut self, line: &str, call: &Call) {
        let programs = shell::programs(line);
        let work: Vec<(&Program, u8)> =
            programs.iter().filter_map(|program| Some((program, weight(program)?))).collect();
        for program in &programs {
            self.note_addresses(head(&program.text, self.scan));
        }
        if let Some(program) = programs.iter().find(|program| is_git(program, "commit"))
            && call.outcome == Outcome::Ended
        {
            self.commit = commit(program, line, call, self.scan).or(self.commit.take());
        }
        let Some((last, _)) = work.last() else { return };
        if call.outcome == Outcome::Open {
            return;
        }
        self.note_addresses(head(call.result, self.scan));
        let ended = ended(call, last, self.scan);
        let texts: Vec<String> = work.iter().map(|(program, _)| one_line(&program.line())).collect();
        let text = shorten(&redact(&texts.join(" && ")).text, self.longest);
        for (program, _) in &work {
            let key = subject(program);
            match &ended {
                // A run through a pipe without signs of failure counts as a success.
                Ended::Well(_) | Ended::Unknown => {
                    self.errors.remove(&key);
                }
                // Which of several programs failed is unknown. The last one is blamed.
                Ended::Badly(how) if std::ptr::eq(*program, *last) => {
                    let how = how.as_ref().map(|how| format!(": {how}")).unwrap_or_default();
                    let error =
                        OpenError { text: format!("`{text}` failed{how}"), source: call.source.clone() };
                    self.errors.insert(key, (call.number, error));
                }
                Ended::Badly(_) => {}
            }
        }
        let weight = work.iter().map(|(_, weight)| *weight).max().unwrap_or_default();
        let weight = weight.saturating_add(u8::try_from(work.len() - 1).unwrap_or(u8::MAX).min(2));
        let runs = self.runs.get(&text).map_or(0, |run| run.runs) + 1;
        let (source, order) = (call.source.clone(), call.number);
        let subjects = work.iter().map(|(program, _)| subject(program)).collect();
        self.runs
            .insert(text.clone(), CommandRun { line: text, ended, runs, source, weight, subjects, order });
    }

    /// Records the failure of a tool that is not a shell. It stays open until the same call succeeds.
    fn tool_error(&mut self, call: &Call) {
        // A search or read without a result is not an error of the work.
        const LOOKS: [&str; 12] = [
            "read",
            "grep",
            "glob",
            "list",
            "ls",
            "search",
            "find",
            "view",
            "fetch",
            "webfetch",
            "websearch",
            "open",
        ];
        if call.is_named(&LOOKS)
            || call.is_named(&["question", "ask", "askuserquestion", "task", "taskupdate"])
        {
            return;
        }
        let object =
            call.field(&["filePath", "file_path", "path", "url", "query", "name", "id"]).unwrap_or_default();
        let object = object.replace('\\', "/");
        // No program begins with NUL, so keys of tools and programs cannot collide.
        let key = format!("\u{0}{} {object}", call.tool);
        match call.outcome {
            Outcome::Ended => {
                self.errors.remove(&key);
            }
            Outcome::Failed(_) if !is_refusal(call.result) => {
                let said =
                    redact(head(call.result.trim().trim_start_matches("<tool_use_error>"), self.scan)).text;
                let said = shorten(said.lines().next().unwrap_or_default().trim(), self.longest);
                let object = if object.is_empty() { String::new() } else { format!(" {object}") };
                let text = format!("{}{object} failed: {said}", call.tool);
                let error = OpenError { text: redact(&text).text, source: call.source.clone() };
                self.errors.insert(key, (call.number, error));
            }
            Outcome::Failed(_) | Outcome::Open => {}
        }
    }

    /// Records local addresses, each once, the newest last.
    fn note_addresses(&mut self, text: &str) {
        static LOCAL: Pattern = Pattern::new(|| {
            Regex::new(r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?::\d{2,5})?").ok()
        });
        let Some(pattern) = LOCAL.as_ref().filter(|_| text.contains("://")) else { return };
        for address in pattern.find_iter(text) {
            self.addresses.add(address.as_str().to_owned(), address.as_str().to_owned());
        }
    }

    /// Returns commands, failures and addresses, the newest last.
    pub(super) fn finish(self) -> (Vec<CommandRun>, Vec<OpenError>, Vec<String>) {
        let mut runs: Vec<CommandRun> = self.runs.into_values().collect();
        runs.sort_by_key(|run| run.order);
        let mut errors: Vec<(usize, OpenError)> = self.errors.into_values().collect();
        errors.sort_by_key(|(order, _)| *order);
        (runs, errors.into_iter().map(|(_, error)| error).collect(), self.addresses.finish())
    }
}

/// The command lines in a call, as typed in a shell.
pub(super) fn command_lines(call: &Call) -> Vec<String> {
    shell_commands(&call.tool, call.input)
}

/// Returns the command lines that a tool ran, by its name and input, as typed in a shell.
pub fn shell_commands(tool: &str, input: &Value) -> Vec<String> {
    let tool = &tool.to_lowercase();
    // Editors have a `command` that is not a shell command.
    if is_named(tool, &["edit", "editor", "write", "todo", "question"]) {
        return Vec::new();
    }
    for key in ["command", "cmd", "script", "commands"] {
        match input.get(key) {
            Some(Value::String(line)) => return vec![line.clone()],
            Some(Value::Array(words)) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                return match words.as_slice() {
                    [shell, option, script, ..] if is_shell(shell) && option.starts_with('-') => {
                        vec![(*script).to_owned()]
                    }
                    words if key == "commands" => words.iter().map(|line| (*line).to_owned()).collect(),
                    words => vec![words.join(" ")],
                };
            }
            _ => {}
        }
    }
    // A script that runs commands as arguments named `cmd` or `command`.
    match ["input", "code"].iter().find_map(|key| input.get(*key)?.as_str()) {
        Some(script) if is_named(tool, &["exec", "code", "js", "python"]) => scripted(script),
        _ => Vec::new(),
    }
}

fn is_shell(word: &str) -> bool {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    matches!(name.trim_end_matches(".exe"), "bash" | "sh" | "zsh" | "powershell" | "pwsh" | "cmd")
}

/// Maximum number of commands per script.
const MAX_PER_SCRIPT: usize = 50;

/// The commands in a script with which the model programs its calls.
fn scripted(script: &str) -> Vec<String> {
    static COMMANDS: Pattern = Pattern::new(|| {
        Regex::new(
            r#"\b(?:cmd|command)["']?\s*:\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`)"#,
        )
        .ok()
    });
    let Some(pattern) = COMMANDS.as_ref() else { return Vec::new() };
    let found = pattern.captures_iter(script).take(MAX_PER_SCRIPT);
    let texts = found.filter_map(|found| found.get(1).or(found.get(2)).or(found.get(3)));
    texts.map(|text| unescape(text.as_str())).collect()
}

/// Resolves the escapes in a string of a script.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') | None => {}
                Some(next) => out.push(next),
            },
            _ => out.push(c),
        }
    }
    out
}

/// The host's id for a command that keeps running in the background.
fn running(result: &str, scan: Chars) -> Option<&str> {
    static RUNNING: Pattern = Pattern::new(|| {
        Regex::new(r"(?:running with (?:cell|session) ID|running in background with ID:?)\s*([\w-]+)").ok()
    });
    Some(RUNNING.as_ref()?.captures(head(result, scan))?.get(1)?.as_str())
}

/// How informative a program is. `None` if it only inspects or tidies up.
fn weight(program: &Program) -> Option<u8> {
    static LOOKS: WordList =
        WordList::new(|| words_of(include_str!("../../words/commands/looks.txt")).collect());
    let name = program.name();
    let lower = name.to_lowercase();
    let cmdlet = name.contains('-') && name.chars().next().is_some_and(char::is_uppercase);
    let odd =
        name.contains(['=', '(', ')', '{', '}', '$', '"', '<', ':', ',', '@', '[']) || name.starts_with('-');
    if lower.is_empty()
        || LOOKS.contains(&lower.as_str())
        || cmdlet
        || odd
        || name.chars().all(|c| c.is_ascii_digit())
    {
        return None;
    }
    let operands: Vec<&str> = program.operands().collect();
    let first = operands.first().copied().unwrap_or_default();
    let asks =
        program.arguments().iter().any(|word| matches!(word.as_str(), "--version" | "-V" | "--help" | "-h"));
    // A script on the command line is unlikely to be run again.
    let inline = |word: &String| {
        matches!(word.as_str(), "-c" | "-e" | "-r" | "-" | "--eval" | "-p" | "json.tool")
            || word.contains('\n')
    };
    let scripts = ["python", "python3", "py", "node", "ruby", "php", "deno", "bun", "tsx", "ts-node"];
    let is_script = scripts.contains(&lower.as_str()) || (lower == "npx" && scripts.contains(&first));
    match lower.as_str() {
        _ if asks || is_script && program.arguments().iter().any(inline) => None,
        "npm" | "pnpm" | "yarn" | "bun" | "pip" | "pip3" | "uv" | "gem" | "bundle" | "composer"
        | "poetry"
            if matches!(
                first,
                "install" | "uninstall" | "i" | "ci" | "add" | "remove" | "ls" | "list" | "view" | "sync"
            ) =>
        {
            Some(1)
        }
        "git" => (first == "push").then_some(1),
        "gh" => (!matches!(first, "api" | "auth" | "status")).then_some(1),
        "docker" if matches!(first, "version" | "ps" | "images" | "logs" | "inspect" | "info" | "stats") => {
            None
        }
        _ if scripts.contains(&lower.as_str()) => (!first.is_empty()).then_some(2),
        "docker" | "docker-compose"
            if operands.iter().any(|word| matches!(*word, "stop" | "rm" | "down" | "rmi" | "kill")) =>
        {
            Some(1)
        }
        "cargo" | "go" | "make" | "just" | "npm" | "pnpm" | "yarn" | "npx" | "bunx" | "uv" | "poetry"
        | "pytest" | "jest" | "vitest" | "tsc" | "mvn" | "gradle" | "gradlew" | "dotnet" | "docker"
        | "docker-compose" | "rspec" | "bundle" | "phpunit" | "composer" | "ctest" | "cmake" | "ninja"
        | "bazel" | "eslint" | "biome" | "ruff" | "mypy" | "swift" | "flutter" | "mix" | "rake" | "rails"
        | "tox" | "nox" | "playwright" | "cypress" | "anchor" | "forge" => Some(3),
        _ => Some(1),
    }
}

/// The program with its subcommand, by which a later run is recognised as the same: `npm run check`, `cargo test`.
fn subject(program: &Program) -> String {
    let name = program.name();
    let words: Vec<&str> = program.operands().collect();
    let depth = match (name, words.first().copied()) {
        ("npm" | "pnpm" | "yarn" | "bun" | "docker" | "uv" | "poetry", Some("run" | "exec" | "compose")) => 2,
        _ => 1,
    };
    let taken: Vec<&str> = words.into_iter().take(depth).collect();
    normal(&format!("{name} {}", taken.join(" ")))
}

fn is_git(program: &Program, verb: &str) -> bool {
    // Options of git itself come before the verb: `git -C path commit`.
    program.name() == "git" && program.arguments().iter().take(4).any(|word| word == verb)
}

/// Outcome of a run: by its exit code if that is known and the output does not contradict it, else by the output.
fn ended(call: &Call, last: &Program, scan: Chars) -> Ended {
    let (verdict, figures) = test_outcome(call.result, scan);
    match call.outcome {
        Outcome::Open => Ended::Unknown,
        Outcome::Failed(code) => {
            let code = code.map(|code| format!("exit {code}"));
            Ended::Badly(figures.filter(|_| verdict == Some(false)).or(code))
        }
        Outcome::Ended => match verdict {
            Some(false) => Ended::Badly(figures),
            Some(true) => Ended::Well(figures),
            None if last.piped || running(call.result, scan).is_some() => Ended::Unknown,
            None => Ended::Well(None),
        },
    }
}

/// Success and figures as test and build programs report them.
fn test_outcome(result: &str, scan: Chars) -> (Option<bool>, Option<String>) {
    static RUST: Pattern =
        Pattern::new(|| Regex::new(r"^test result: (ok|FAILED)\. (\d+) passed; (\d+) failed").ok());
    static COUNTS: Pattern =
        Pattern::new(|| Regex::new(r"(?i)\b(\d+) (passed|passing|failed|failing|failures|errors?)\b").ok());
    static BROKEN: Pattern = Pattern::new(|| {
        Regex::new(
            r"(?m)^error(?:\[E\d+\])?: |error TS\d+:|^npm (?:ERR!|error) |^FAIL(?:\s|ED)|^--- FAIL|BUILD FAIL(?:ED|URE)|^FAILURES!|^E   \w+Error|^make: \*\*\*",
        )
        .ok()
    });
    static SOUND: Pattern = Pattern::new(|| {
        Regex::new(r"(?m)^OK(?: \(|$)|BUILD SUCCESS|Build succeeded|Compiled successfully|✓ built in|^ok  \t|Finished `|found 0 vulnerabilities")
            .ok()
    });
    if let Some(pattern) = RUST.as_ref().filter(|_| result.contains("test result: ")) {
        let (mut passed, mut failed, mut any) = (0u64, 0u64, false);
        for found in result.lines().filter_map(|line| pattern.captures(line)) {
            let number = |place: usize| {
                found.get(place).and_then(|number| number.as_str().parse().ok()).unwrap_or(0u64)
            };
            (passed, failed, any) =
                (passed.saturating_add(number(2)), failed.saturating_add(number(3)), true);
        }
        if any {
            return (Some(failed == 0), Some(figures(passed, failed)));
        }
    }
    let end = tail(result, scan);
    if let Some(pattern) = COUNTS.as_ref() {
        // The totals come last, on one line.
        let summary = end.lines().rev().find(|line| {
            line.len() < 200
                && pattern.is_match(line)
                && ["pass", "fail", "Tests", "test"].iter().any(|word| line.contains(word))
        });
        if let Some(line) = summary {
            let (mut passed, mut failed) = (0u64, 0u64);
            for found in pattern.captures_iter(line) {
                let number = found.get(1).and_then(|number| number.as_str().parse().ok()).unwrap_or(0u64);
                let what = found.get(2).map(|what| what.as_str().to_lowercase()).unwrap_or_default();
                let sum = if what.starts_with("pass") { &mut passed } else { &mut failed };
                *sum = sum.saturating_add(number);
            }
            return (Some(failed == 0), Some(figures(passed, failed)));
        }
    }
    let says = |pattern: &Pattern| {
        pattern.as_ref().is_some_and(|pattern| pattern.is_match(end) || pattern.is_match(head(result, scan)))
    };
    match (says(&BROKEN), says(&SOUND)) {
        (true, _) => (Some(false), None),
        (false, true) => (Some(true), None),
        (false, false) => (None, None),
    }
}

fn figures(passed: u64, failed: u64) -> String {
    match failed {
        0 => format!("{passed} passed"),
        _ => format!("{failed} failed, {passed} passed"),
    }
}

fn commit(program: &Program, line: &str, call: &Call, scan: Chars) -> Option<Commit> {
    static MADE: Pattern =
        Pattern::new(|| Regex::new(r"(?m)^\[[\w./()-]+(?: [\w()-]+)*? ([0-9a-f]{7,40})\] (.+)$").ok());
    let source = call.source.clone();
    let scanned = [head(call.result, scan), tail(call.result, scan)];
    let made = scanned.iter().find_map(|text| MADE.as_ref()?.captures_iter(text).last());
    if let Some(made) = made {
        let hash = made.get(1).map(|hash| hash.as_str().to_owned());
        let subject = made.get(2).map(|subject| redact(subject.as_str().trim()).text).unwrap_or_default();
        return Some(Commit { hash, subject, source, order: call.number });
    }
    let mut words = program.arguments().iter();
    let given = words.find(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with('m'));
    let message = given.and_then(|_| words.next()).filter(|message| !message.starts_with("$(")).cloned();
    // The message may be in a here-document, which is not among the program's words.
    let message = message.or_else(|| {
        let body = line.split_once("<<")?.1.split_once('\n')?.1;
        Some(body.to_owned())
    })?;
    let subject = message.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(Commit { hash: None, subject: redact(subject).text, source, order: call.number })
}

/// Whether the user refused the call. The reason is recorded among the user's words.
pub(super) fn is_refusal(result: &str) -> bool {
    let start = head(result, Chars(400)).to_lowercase();
    [
        "doesn't want to proceed",
        "rejected by user",
        "rejected by the user",
        "user rejected",
        "user denied",
        "denied by user",
    ]
    .iter()
    .any(|sign| start.contains(sign))
}

/// A command on one line, without redirections of its streams.
pub(super) fn one_line(text: &str) -> String {
    let text = text.split("<<").next().unwrap_or(text).trim_start_matches('(');
    let words = text.split_whitespace().filter(|word| !matches!(*word, "2>&1" | "2>/dev/null" | "1>&2"));
    words.collect::<Vec<_>>().join(" ")
}
