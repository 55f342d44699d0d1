//! Parses command lines far enough to know which programs ran and which files they wrote.
//!
//! This is not a shell. It knows quotes, separators, redirections, here-documents and PowerShell's here-strings;
//! everything else is a word. In doubt a program or file is not reported.

use crate::work;

/// A program in a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// The program and its arguments, without quotes.
    pub(super) words: Vec<String>,
    /// The text of the program in the command line.
    pub(super) text: String,
    /// Variables set only for this program, such as `RUST_LOG=debug`. They are often needed to run it again.
    pub(super) settings: Vec<String>,
    /// Files to which its output is redirected.
    pub(super) writes: Vec<String>,
    /// Whether its output is piped into another program, so that its outcome is unknown.
    pub(super) piped: bool,
    /// The directory of a preceding `cd` on the same line.
    pub(super) directory: Option<String>,
}

impl Program {
    /// The program's name, without its directory, `.exe` or `.cmd`.
    pub(super) fn name(&self) -> &str {
        let name = self.words.first().map(String::as_str).unwrap_or_default();
        let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
        [".exe", ".cmd", ".bat", ".ps1"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
    }

    /// The command as typed, with the variables set for it.
    pub(super) fn line(&self) -> String {
        let settings = self.settings.iter().map(|setting| format!("{setting} "));
        format!("{}{}", settings.collect::<String>(), self.text)
    }

    /// The arguments.
    pub(super) fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The arguments that are not options.
    pub(super) fn operands(&self) -> impl Iterator<Item = &str> {
        self.arguments().iter().map(String::as_str).filter(|word| !word.starts_with('-'))
    }
}

/// Returns the programs that a command line runs, in order. Without `cd`, variable settings and wrappers such as `sudo`
/// or `timeout 60`. The script of `bash -c '…'` is parsed as well.
pub(super) fn programs(line: &str) -> Vec<Program> {
    let mut found = Vec::new();
    let mut directory = None;
    for program in split(line) {
        if matches!(program.name(), "cd" | "pushd" | "Set-Location") {
            directory = program.operands().next().map(|to| join(directory.as_deref(), to));
            continue;
        }
        let from = found.len();
        unwrap(program, &mut found, 0);
        for program in &mut found[from..] {
            let inner = program.directory.take();
            program.directory =
                inner.map(|inner| join(directory.as_deref(), &inner)).or_else(|| directory.clone());
        }
    }
    found
}

/// Joins a path with a directory.
pub(super) fn join(directory: Option<&str>, path: &str) -> String {
    let is_absolute = path.starts_with(['/', '~', '\\', '$']) || path.get(1..2) == Some(":");
    match directory {
        Some(directory) if !is_absolute => {
            let path = path.trim_start_matches("./");
            if path == "." || path.is_empty() {
                directory.to_owned()
            } else {
                format!("{}/{path}", directory.trim_end_matches(['/', '\\']))
            }
        }
        _ => path.to_owned(),
    }
}

/// Maximum length of a variable setting. A longer one is data.
const LONGEST_SETTING: usize = 60;
/// Maximum nesting of shells.
const MAX_DEPTH: usize = 3;
/// Maximum number of wrappers and settings that are removed from a command. Removing one moves all words after it.
const MAX_WRAPPERS: usize = 64;
/// Maximum length of a name in a Windows path.
const LONGEST_NAME: usize = 255;

fn unwrap(mut program: Program, found: &mut Vec<Program>, depth: usize) {
    for _ in 0..MAX_WRAPPERS {
        let name = program.name().to_owned();
        let is_setting = |word: &str| {
            let (key, _) = word.split_once('=').unwrap_or_default();
            !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let skip = match name.as_str() {
            "" if program.words.is_empty() => break,
            "sudo" | "time" | "nohup" | "exec" | "command" | "env" | "then" | "do" | "else" | "if"
            | "while" | "!" | "(" | "{" | "&" => 1,
            "timeout" | "nice" => {
                let options = program.arguments().iter().take_while(|word| word.starts_with('-')).count();
                if name == "timeout" { 2 + options } else { 1 + options }
            }
            _ if program.words.first().is_some_and(|word| is_setting(word)) => 1,
            _ => 0,
        };
        if skip == 0 {
            break;
        }
        let skipped = program.words.drain(..skip.min(program.words.len()));
        program.settings.extend(skipped.filter(|word| is_setting(word) && word.len() <= LONGEST_SETTING));
        let first = program.words.first().cloned().unwrap_or_default();
        if let Some(at) = work::find(work::read(&program.text), &first).filter(|_| !first.is_empty()) {
            program.text.replace_range(..at, "");
        }
    }
    let is_shell = matches!(program.name(), "bash" | "sh" | "zsh" | "dash" | "powershell" | "pwsh");
    let script = program.words.windows(2).find_map(|pair| {
        let option = pair[0].to_lowercase();
        let is_script = option.starts_with('-') && option.ends_with('c') && !option.starts_with("--")
            || option == "-command";
        is_script.then(|| pair[1].clone())
    });
    match script.filter(|_| is_shell && depth < MAX_DEPTH) {
        Some(script) => {
            let mut directory = None;
            for inner in split(&script) {
                if inner.name() == "cd" {
                    directory = inner.operands().next().map(|to| join(directory.as_deref(), to));
                    continue;
                }
                let from = found.len();
                unwrap(inner, found, depth + 1);
                found[from..].iter_mut().for_each(|program| {
                    program.directory = program.directory.take().or_else(|| directory.clone());
                });
            }
        }
        None if program.words.is_empty() && program.writes.is_empty() => {}
        None if matches!(program.name(), "cd" | "pushd" | "popd" | "set" | "source" | ".") => {}
        None => found.push(program),
    }
}

/// The simple commands of a command line.
fn split(line: &str) -> Vec<Program> {
    let mut reader = Reader::new(line);
    reader.read();
    reader.found
}

struct Reader<'a> {
    line: &'a str,
    chars: std::iter::Peekable<std::str::CharIndices<'a>>,
    found: Vec<Program>,
    program: Program,
    word: Option<String>,
    /// Offset of the current program.
    start: usize,
    /// Set if the next word is the target of a redirection.
    target: Option<Target>,
    /// End markers of the here-documents that start on this line.
    heredocs: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Target {
    Write,
    Ignore,
    Heredoc,
}

impl<'a> Reader<'a> {
    fn new(line: &'a str) -> Reader<'a> {
        Reader {
            line,
            chars: work::read(line).char_indices().peekable(),
            found: Vec::new(),
            program: Program::default(),
            word: None,
            start: 0,
            target: None,
            heredocs: Vec::new(),
        }
    }

    fn read(&mut self) {
        while let Some((at, c)) = self.chars.next() {
            match c {
                '\'' | '"' | '`' => self.quoted(c),
                '@' if self.word.is_none() && matches!(self.peek(), Some('\'' | '"')) => self.here_string(),
                '\\' => match self.chars.next() {
                    Some((_, '\n')) | None => {}
                    // Shells on Windows keep the backslashes of paths.
                    Some((_, next)) if next.is_alphanumeric() || self.is_in_windows_path(next) => {
                        self.push_str(&['\\', next].iter().collect::<String>());
                    }
                    Some((_, next)) => self.push(next),
                },
                '$' if self.peek() == Some('(') => self.substitution(),
                '#' if self.word.is_none() => self.skip_line(),
                '\n' => {
                    self.end_program(at, false);
                    self.skip_heredocs();
                    self.start = self.offset();
                }
                ';' | '&' | '|' => self.separator(at, c),
                '>' => self.redirection(),
                '<' => self.input(),
                '(' | ')' | '{' | '}' if self.word.is_none() => {}
                _ if c.is_whitespace() => self.end_word(),
                _ => self.push(c),
            }
        }
        self.end_program(self.line.len(), false);
    }

    fn peek(&mut self) -> Option<char> {
        self.chars.peek().map(|(_, c)| *c)
    }

    fn offset(&mut self) -> usize {
        self.chars.peek().map_or(self.line.len(), |(at, _)| *at)
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn push_str(&mut self, text: &str) {
        self.word.get_or_insert_default().push_str(text);
    }

    fn quoted(&mut self, quote: char) {
        self.word.get_or_insert_default();
        while let Some((_, c)) = self.chars.next() {
            match c {
                _ if c == quote => return,
                '\\' if quote == '"' => match self.chars.next() {
                    Some((_, next @ ('"' | '\\' | '$' | '`'))) => self.push(next),
                    Some((_, next)) => self.push_str(&['\\', next].iter().collect::<String>()),
                    None => {}
                },
                _ => self.push(c),
            }
        }
    }

    /// Whether a backslash before this character separates two names of a path, as in `C:\Users\.config`, instead of
    /// escaping the character.
    fn is_in_windows_path(&self, next: char) -> bool {
        let is_split = |word: &String| word.bytes().rev().take(LONGEST_NAME + 1).any(|byte| byte == b'\\');
        matches!(next, '.' | '_' | '-') && self.word.as_ref().is_some_and(is_split)
    }

    /// Skips PowerShell's `@'` … `'@`, which ends only at the beginning of a line.
    fn here_string(&mut self) {
        let Some((_, quote)) = self.chars.next() else { return };
        let end = format!("\n{quote}@");
        let from = self.offset();
        let skip = work::find(&self.line[from..], &end).map_or(self.line.len() - from, |at| at + end.len());
        self.skip_to(from + skip);
        self.word.get_or_insert_default();
    }

    /// Reads `$(…)` as a part of its word.
    fn substitution(&mut self) {
        let mut depth = 0;
        self.push('$');
        for (_, c) in self.chars.by_ref() {
            self.word.get_or_insert_default().push(c);
            match c {
                '(' => depth += 1,
                ')' if depth == 1 => return,
                ')' => depth -= 1,
                _ => {}
            }
        }
    }

    fn separator(&mut self, at: usize, c: char) {
        if c == '&' && self.peek() == Some('>') {
            self.end_word();
            return;
        }
        let double = self.peek() == Some(c);
        if double {
            self.chars.next();
        }
        self.end_program(at, c == '|' && !double);
        self.start = self.offset();
    }

    fn redirection(&mut self) {
        // In `2>file`, the 2 is a stream number, not an argument.
        if self
            .word
            .as_deref()
            .is_some_and(|word| word.len() == 1 && word.starts_with(|c: char| c.is_ascii_digit()))
        {
            let stream = self.word.take();
            self.target = Some(if stream.as_deref() == Some("1") { Target::Write } else { Target::Ignore });
        } else {
            self.end_word();
            self.target = Some(Target::Write);
        }
        while matches!(self.peek(), Some('>' | '|')) {
            self.chars.next();
        }
        if self.peek() == Some('&') {
            self.chars.next();
            self.target = Some(Target::Ignore);
        }
    }

    fn input(&mut self) {
        self.end_word();
        if self.peek() != Some('<') {
            self.target = Some(Target::Ignore);
            return;
        }
        self.chars.next();
        match self.peek() {
            Some('<') => {
                self.chars.next();
                self.target = Some(Target::Ignore);
            }
            Some('-') => {
                self.chars.next();
                self.target = Some(Target::Heredoc);
            }
            _ => self.target = Some(Target::Heredoc),
        }
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.target.take() {
            None => self.program.words.push(word),
            Some(Target::Write) => self.program.writes.push(word),
            Some(Target::Ignore) => {}
            Some(Target::Heredoc) => self.heredocs.push(word),
        }
    }

    fn end_program(&mut self, at: usize, piped: bool) {
        self.end_word();
        self.target = None;
        let mut program = std::mem::take(&mut self.program);
        if program.words.is_empty() && program.writes.is_empty() {
            return;
        }
        program.text = self.line.get(self.start..at).unwrap_or_default().trim().to_owned();
        program.piped = piped;
        self.found.push(program);
    }

    fn skip_heredocs(&mut self) {
        for end in std::mem::take(&mut self.heredocs) {
            let mut from = self.offset();
            for line in self.line[from..].split_inclusive('\n') {
                from += work::read(line).len();
                if line.trim() == end {
                    break;
                }
            }
            self.skip_to(from);
        }
    }

    fn skip_line(&mut self) {
        while self.chars.next_if(|(_, c)| *c != '\n').is_some() {}
    }

    fn skip_to(&mut self, offset: usize) {
        while self.chars.next_if(|(at, _)| *at < offset).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Vec<String> {
        programs(line).iter().map(|program| program.words.join("·")).collect()
    }

    fn written(line: &str) -> Vec<String> {
        programs(line).into_iter().flat_map(|program| program.writes).collect()
    }

    #[test]
    fn a_command_line_is_split_into_programs() {
        assert_eq!(run("cd /x && npm run check 2>&1 | tail -5"), ["npm·run·check", "tail·-5"]);
        assert_eq!(run("A=1 B='x y' cargo test -- --nocapture; ls"), ["cargo·test·--·--nocapture", "ls"]);
        assert_eq!(run("bash -lc 'cargo fmt && cargo check'"), ["cargo·fmt", "cargo·check"]);
        assert_eq!(run("timeout 60 ./run.sh \"a b\" # note"), ["./run.sh·a b"]);
        assert_eq!(run("echo $(git log | head) done"), ["echo·$(git log | head)·done"]);
        assert!(programs("npm test | tail")[0].piped);
        assert_eq!(programs("cd a && FOO=1 npm test  -- x && ls")[0].text, "npm test  -- x");
        assert_eq!(programs("cd a && FOO=1 npm test  -- x && ls")[0].line(), "FOO=1 npm test  -- x");
    }

    #[test]
    fn targets_of_redirections_are_found() {
        assert_eq!(
            written("cat > src/a.rs <<'EOF'\nfn main() { if 1 > 0 {} }\nEOF\necho x >> b.txt"),
            ["src/a.rs", "b.txt"]
        );
        assert_eq!(written("npm test > out.log 2>&1"), ["out.log"]);
        assert!(written("ls 2>/dev/null; grep -n '>' x; test 1 -gt 0 2>&1").is_empty());
    }

    #[test]
    fn here_documents_and_here_strings_are_not_commands() {
        assert_eq!(run("cat <<EOF | sh -x\nrm -rf x\nEOF\nls"), ["cat", "sh·-x", "ls"]);
        assert_eq!(run("@'\nit's $x\n'@ | Set-Content -Path a.txt"), ["", "Set-Content·-Path·a.txt"]);
    }

    #[test]
    fn malformed_lines_do_not_hang() {
        for line in ["'", "\"", "a '", "<<", "$(", "@'", "\\", "a >", "> >", "&&", "a <<EOF", "🚢 > 🚢", "`"]
        {
            programs(line);
        }
    }

    #[test]
    fn windows_paths_keep_their_backslashes() {
        assert_eq!(run(r"node_modules\.bin\vitest.cmd run"), [r"node_modules.bin\vitest.cmd·run"]);
        assert_eq!(programs(r"C:\tools\npm.cmd test")[0].name(), "npm");
    }
}
