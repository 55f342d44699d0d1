//! Changed files: by tools that edit, by patches inside any call, and by simple shell commands. A call that failed
//! changed nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::{Call, Outcome};
use super::commands::command_lines;
use super::shell::{self, Program};
use crate::log::MessageId;
use crate::pattern::Regex;
use crate::prose::Pattern;
use crate::redact::redact;
use crate::work;

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedFile {
    /// Path as given in the calls, with forward slashes.
    pub path: String,
    /// Kind of change.
    pub change: Change,
    /// The message with the last change.
    pub source: MessageId,
    /// The number of the call that changed it last.
    pub(crate) order: usize,
}

/// Kind of change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Change {
    /// Created, according to the calls.
    Created,
    /// Existed before and was changed.
    Edited,
    /// Deleted.
    Deleted,
}

/// Collects changed files.
#[derive(Default)]
pub(super) struct Changes {
    files: BTreeMap<String, ChangedFile>,
}

impl Changes {
    /// Records the changes of a call. Returns whether there were any.
    pub(super) fn note(&mut self, call: &Call) -> bool {
        if call.outcome != Outcome::Ended {
            return false;
        }
        let mut found = Vec::new();
        edits(call, &mut found);
        patches(call.input, &mut found);
        for line in command_lines(call) {
            let directory = call.field(&["workdir", "cwd", "working_directory"]);
            shell_changes(&line, directory, &mut found);
        }
        let has_changed = !found.is_empty();
        for (path, change) in found {
            self.add(&path, change, call);
        }
        has_changed
    }

    fn add(&mut self, path: &str, change: Change, call: &Call) {
        let path = path.trim().trim_matches(['"', '\'']).replace('\\', "/");
        let path = path.trim_start_matches("./");
        if path.is_empty()
            || path.len() > MAX_PATH
            || path.ends_with('/')
            || path.contains(['\n', '\0', '*', '$'])
        {
            return;
        }
        let known = self.files.get(path).map(|file| file.change);
        // A file that was created and deleted again is not a change.
        if (known, change) == (Some(Change::Created), Change::Deleted) {
            self.files.remove(path);
            return;
        }
        let change = match (known, change) {
            (Some(Change::Created), Change::Edited) => Change::Created,
            (Some(Change::Edited), Change::Created) => Change::Edited,
            (_, change) => change,
        };
        let path = redact(path).text;
        let file =
            ChangedFile { path: path.clone(), change, source: call.source.clone(), order: call.number };
        self.files.insert(path, file);
    }

    /// Returns all files, the last changed last. Merges a file that was given once by its full path and once by the end
    /// of it.
    pub(super) fn finish(self) -> Vec<ChangedFile> {
        let mut by_name: BTreeMap<String, Vec<ChangedFile>> = BTreeMap::new();
        for (path, file) in self.files {
            let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
            by_name.entry(name).or_default().push(file);
        }
        let mut files: Vec<ChangedFile> = Vec::new();
        for (_, mut same) in by_name {
            // The longest first, so that shorter paths find the ones they are the end of.
            same.sort_by_key(|file| std::cmp::Reverse(file.path.len()));
            let mut kept: Vec<ChangedFile> = Vec::new();
            for file in same {
                let end = format!("/{}", file.path);
                let many = kept.len() >= MAX_NAMESAKES;
                match kept.iter_mut().find(|whole| whole.path.ends_with(&end)) {
                    Some(whole) if file.order > whole.order => {
                        let path = std::mem::take(&mut whole.path);
                        *whole = ChangedFile { path, ..file };
                    }
                    Some(_) => {}
                    // Too many files with one name are not merged; see `MAX_NAMESAKES`.
                    None if many => files.push(file),
                    None => kept.push(file),
                }
            }
            files.append(&mut kept);
        }
        files.sort_by(|a, b| (a.order, &a.path).cmp(&(b.order, &b.path)));
        files
    }
}

/// Maximum length of a path. A longer string is something else.
const MAX_PATH: usize = 400;
/// Maximum number of files with one name that are compared with each other, which takes quadratic time.
const MAX_NAMESAKES: usize = 64;

const PATHS: [&str; 10] = [
    "filePath",
    "file_path",
    "path",
    "file",
    "filename",
    "notebook_path",
    "target_file",
    "absolute_path",
    "relative_path",
    "filepath",
];

/// Paths in a tool's input: the usual fields, and the file headers of a patch.
pub fn paths(input: &Value) -> Vec<String> {
    let fields = PATHS.iter().filter_map(|key| input.get(*key)?.as_str());
    let mut found: Vec<String> = fields.filter(|path| path.len() < MAX_PATH).map(str::to_owned).collect();
    let mut patched = Vec::new();
    patches(input, &mut patched);
    found.extend(patched.into_iter().map(|(path, _)| path));
    found
}

/// Collects the changes of editing tools.
fn edits(call: &Call, found: &mut Vec<(String, Change)>) {
    const EDIT: [&str; 10] = [
        "edit",
        "write",
        "multiedit",
        "notebookedit",
        "replace",
        "editor",
        "create",
        "append",
        "insert",
        "patch",
    ];
    let change = if call.is_named(&["delete", "remove"]) {
        Change::Deleted
    } else if call.is_named(&["write", "create"]) || call.field(&["command"]) == Some("create") {
        Change::Created
    } else if call.is_named(&EDIT) {
        Change::Edited
    } else if call.is_named(&["move", "rename"]) {
        let pair =
            (call.field(&["source", "old_path", "from"]), call.field(&["destination", "new_path", "to"]));
        if let (Some(from), Some(to)) = pair {
            found.push((from.to_owned(), Change::Deleted));
            found.push((to.to_owned(), Change::Created));
        }
        return;
    } else {
        return;
    };
    // A tool that both reads and edits has a `command`.
    if matches!(call.field(&["command"]), Some("view" | "undo_edit" | "read")) {
        return;
    }
    found.extend(call.field(&PATHS).map(|path| (path.to_owned(), change)));
    for key in ["edits", "files", "changes"] {
        let items = call.input.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for item in items {
            let path = PATHS.iter().find_map(|key| item.get(*key)?.as_str());
            found.extend(path.map(|path| (path.to_owned(), change)));
        }
    }
}

/// Collects the changes of patches that begin with `*** Begin Patch`, and of applied unified diffs, in any text of the
/// input.
fn patches(input: &Value, found: &mut Vec<(String, Change)>) {
    match input {
        Value::String(text) => {
            if work::read(text).contains("*** Begin Patch") {
                patch_headers(text, found);
            }
            if text.contains("\n+++ b/") && (text.contains("git apply") || text.contains("patch -p")) {
                let paths = text.lines().filter_map(|line| line.strip_prefix("+++ b/"));
                found.extend(paths.map(|path| (path.trim().to_owned(), Change::Edited)));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| patches(item, found)),
        Value::Object(map) => map.values().for_each(|value| patches(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn patch_headers(text: &str, found: &mut Vec<(String, Change)>) {
    const HEADERS: [(&str, Change); 4] = [
        ("*** Update File: ", Change::Edited),
        ("*** Add File: ", Change::Created),
        ("*** Delete File: ", Change::Deleted),
        ("*** Move to: ", Change::Created),
    ];
    for (at, _) in work::read(text).match_indices("*** ") {
        let rest = &text[at..];
        let Some((header, change)) = HEADERS.iter().find(|(header, _)| rest.starts_with(header)) else {
            continue;
        };
        // A header follows a newline or, inside a string of a script, an escaped newline.
        let escaped = text[..at].ends_with("\\n");
        let path = path_of_header(&rest[header.len()..], escaped);
        if header.starts_with("*** Move")
            && let Some(moved) = found.last_mut()
        {
            moved.1 = Change::Deleted;
        }
        found.push((path, *change));
    }
}

/// The path after a header, up to the end of its line. Inside a string of a script, the newline is `\n` and a backslash
/// of the path is `\\`.
fn path_of_header(rest: &str, escaped: bool) -> String {
    let line = rest.lines().next().unwrap_or_default();
    if !escaped {
        return line.trim().to_owned();
    }
    let mut path = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n' | 'r') | None => break,
                Some(next) => path.push(next),
            },
            '"' | '`' | '\'' => break,
            _ => path.push(c),
        }
    }
    path.trim().to_owned()
}

/// Collects the changes of simple command lines: redirections, `sed -i`, `tee`, `mv`, `cp`, `rm`, PowerShell's
/// `Set-Content`, and scripts that open a file by its name for writing.
fn shell_changes(line: &str, directory: Option<&str>, found: &mut Vec<(String, Change)>) {
    let programs = shell::programs(line);
    let mut add = |program: &Program, path: &str, change: Change| {
        if is_file(path) {
            let from = program.directory.as_deref().map(|inner| shell::join(directory, inner));
            let path = shell::join(from.as_deref().or(directory), path);
            if !is_scratch(&path) {
                found.push((path, change));
            }
        }
    };
    for program in &programs {
        for path in &program.writes {
            add(program, path, Change::Created);
        }
        let operands: Vec<&str> = program.operands().filter(|word| !word.is_empty()).collect();
        let git = (program.name() == "git").then(|| operands.first().copied().unwrap_or_default());
        match (program.name(), git) {
            ("sed", _) if has_option(program, 'i') => {
                let script = usize::from(!has_option(program, 'e'));
                operands.iter().skip(script).for_each(|path| add(program, path, Change::Edited));
            }
            ("perl", _) if has_option(program, 'i') => {
                operands
                    .iter()
                    .filter(|path| !path.contains(' '))
                    .for_each(|path| add(program, path, Change::Edited));
            }
            ("tee" | "touch", _) => operands.iter().for_each(|path| add(program, path, Change::Created)),
            ("cp" | "Copy-Item", _) => {
                if let [_, .., to] = operands[..] {
                    add(program, to, Change::Created);
                }
            }
            ("mv" | "Move-Item" | "git", None | Some("mv")) => {
                let operands = if git.is_some() { &operands[1..] } else { &operands[..] };
                if let [from, to] = operands {
                    add(program, from, Change::Deleted);
                    // Into a directory the file keeps its name.
                    let name = from.rsplit('/').next().unwrap_or(from);
                    let inside = format!("{}/{name}", to.trim_end_matches('/'));
                    add(program, if is_file(to) { to } else { &inside }, Change::Created);
                }
            }
            ("rm" | "Remove-Item" | "git", None | Some("rm")) => {
                let operands = if git.is_some() { &operands[1..] } else { &operands[..] };
                operands.iter().for_each(|path| add(program, path, Change::Deleted));
            }
            ("Set-Content" | "Add-Content" | "Out-File", _) => {
                operands.first().into_iter().for_each(|path| add(program, path, Change::Created));
            }
            _ => {}
        }
    }
    for path in scripted(line) {
        add(&Program::default(), path, Change::Edited);
    }
}

/// Maximum number of files per script.
const MAX_PER_SCRIPT: usize = 50;

/// Files that a script inside a command line opens by name for writing.
fn scripted(line: &str) -> Vec<&str> {
    static WRITES: Pattern = Pattern::new(|| {
        Regex::new(
            r#"(?x) \bopen\(\s*r?["']([^"'\n]{1,300})["']\s*,\s*["'][wa]
            | \bPath\(\s*r?["']([^"'\n]{1,300})["']\)(?:\.write_text|[^\n]{0,80}\n)
            | \bwriteFile(?:Sync)?\(\s*["'`]([^"'`\n]{1,300})["'`] "#,
        )
        .ok()
    });
    let writes = ["write_text", "open(", "writeFile"].iter().any(|sign| line.contains(sign));
    let Some(pattern) = WRITES.as_ref().filter(|_| writes) else { return Vec::new() };
    let indirect = line.contains("write_text");
    let captures = pattern.captures_iter(line).take(MAX_PER_SCRIPT);
    let paths = captures.filter_map(|found| match (found.get(1), found.get(2), found.get(3)) {
        (Some(path), ..) | (_, _, Some(path)) => Some(path.as_str()),
        (_, Some(path), _) if indirect => Some(path.as_str()),
        _ => None,
    });
    paths.collect()
}

fn has_option(program: &Program, letter: char) -> bool {
    let short = |word: &String| word.starts_with('-') && !word.starts_with("--");
    let in_place = |word: &String| letter == 'i' && word.starts_with("--in-place");
    program.arguments().iter().any(|word| short(word) && word.contains(letter) || in_place(word))
}

/// Whether a word of a command line can be a file, judged by its extension or name.
fn is_file(word: &str) -> bool {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let shape = !word.contains(['*', '$', '{', '(', '|', '<', '>', '=', ',', ' ', '\n', '"'])
        && !word.starts_with('-');
    shape
        && name.trim_matches('.').len() > 1
        && (name.contains('.') || matches!(name, "Makefile" | "Dockerfile" | "justfile" | "LICENSE"))
}

/// Whether a path is in a temporary directory or a device.
fn is_scratch(path: &str) -> bool {
    ["/dev/", "/tmp/", "/private/tmp/", "/var/folders/", "/proc/"].iter().any(|start| path.starts_with(start))
}
