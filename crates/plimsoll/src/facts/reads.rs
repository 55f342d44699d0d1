//! Files whose content a command printed: `cat`, `sed -n 1,80p`, `nl … | head`, `rg` in one file.
//!
//! Agents without a tool for reading read through a shell. In doubt a file is not reported.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::changes::paths as paths_of_input;
use super::commands::shell_commands;
use super::shell::{self, Program};
use crate::fnv::Fnv;

/// Files that the commands of one call printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellReads {
    /// The files, in order.
    pub files: Vec<FileRead>,
    /// Whether the call printed nothing else, so that its output is the content of these files.
    pub is_all: bool,
}

/// A file, or a part of one, that was printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// Path as in the command, joined with the directory in which it ran.
    pub path: String,
    /// The printed lines.
    pub lines: ReadLines,
}

/// The lines of a file that were printed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadLines {
    /// All lines.
    All,
    /// From the first number to the second, inclusive.
    Range(u64, u64),
    /// Lines that a filter selected, identified by the text of the filter.
    Picked(String),
}

impl ReadLines {
    /// Whether these lines include the others.
    pub fn cover(&self, others: &ReadLines) -> bool {
        match (self, others) {
            (ReadLines::All, _) => true,
            (ReadLines::Range(first, last), ReadLines::Range(from, to)) => first <= from && to <= last,
            _ => self == others,
        }
    }
}

/// Lines of one file that were printed so far.
#[derive(Clone, Debug, Default)]
pub struct SeenLines {
    all: bool,
    /// First to last line of ranges. No range is inside another, so both numbers increase.
    ranges: BTreeMap<u64, u64>,
    picked: BTreeSet<String>,
}

impl SeenLines {
    /// Adds a read.
    pub fn add(&mut self, lines: &ReadLines) {
        match lines {
            ReadLines::All => self.all = true,
            ReadLines::Picked(words) => drop(self.picked.insert(words.clone())),
            ReadLines::Range(first, last) if !self.cover(lines) => {
                let inside: Vec<u64> = self
                    .ranges
                    .range(first..)
                    .take_while(|(_, end)| *end <= last)
                    .map(|(at, _)| *at)
                    .collect();
                for at in inside {
                    self.ranges.remove(&at);
                }
                self.ranges.insert(*first, *last);
            }
            ReadLines::Range(..) => {}
        }
    }

    /// Whether a single read includes all of these lines.
    pub fn cover(&self, lines: &ReadLines) -> bool {
        self.all
            || match lines {
                ReadLines::All => false,
                ReadLines::Picked(words) => self.picked.contains(words),
                ReadLines::Range(from, to) => {
                    self.ranges.range(..=from).next_back().is_some_and(|(_, last)| last >= to)
                }
            }
    }
}

/// Returns the files that a call printed: by a tool that reads files, or by its commands.
pub fn file_reads(tool: &str, input: &Value) -> ShellReads {
    let named = paths_of_input(input);
    if named.is_empty() {
        return shell_reads(tool, input);
    }
    if !is_reading(tool) {
        return ShellReads::default();
    }
    let lines = lines_asked(input);
    let files = named.into_iter().map(|path| FileRead { path, lines: lines.clone() }).collect();
    ShellReads { files, is_all: true }
}

/// Whether a tool reads files, judged by its name.
fn is_reading(tool: &str) -> bool {
    let tool = tool.to_ascii_lowercase();
    ["read", "view", "cat", "open"].iter().any(|word| tool.contains(word))
}

/// Lines of a file that the input of a tool asks for.
fn lines_asked(input: &Value) -> ReadLines {
    let fields = input.as_object().into_iter().flatten().filter(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let asks =
            ["offset", "limit", "line", "range", "start", "end"].iter().any(|word| name.contains(word));
        asks && !value.is_null()
    });
    let words: String = fields.map(|(name, value)| format!("{name}={value};")).collect();
    if words.is_empty() { ReadLines::All } else { picked(words) }
}

/// Returns the files that the commands of a call printed. Empty for a call without commands.
pub fn shell_reads(tool: &str, input: &Value) -> ShellReads {
    let mut reads = ShellReads { files: Vec::new(), is_all: true };
    let workdir = ["workdir", "cwd"].iter().find_map(|key| input.get(*key)?.as_str());
    for line in shell_commands(tool, input) {
        let programs = shell::programs(&line);
        // The programs of a pipe filter the output of the first one.
        for pipe in programs.chunk_by(|program, _| program.piped) {
            match read_of(pipe) {
                Some(mut files) => {
                    files.iter_mut().for_each(|file| {
                        let directory = pipe[0].directory.as_deref();
                        file.path = shell::join(workdir, &shell::join(directory, &file.path));
                    });
                    reads.files.append(&mut files);
                }
                None => reads.is_all &= pipe.len() == 1 && says_little(&pipe[0]),
            }
        }
    }
    reads.is_all &= !reads.files.is_empty();
    reads
}

/// Whether a program only prints a heading between two files.
fn says_little(program: &Program) -> bool {
    matches!(program.name(), "echo" | "printf" | "pwd" | "true" | ":") && program.writes.is_empty()
}

/// Maximum number of programs in a pipe.
const LONGEST_PIPE: usize = 16;
/// Maximum length of a filter's text. A longer text is replaced by its hash, because each file of a command has a copy.
const LONGEST_WORDS: usize = 200;

fn picked(words: String) -> ReadLines {
    let is_short = words.len() <= LONGEST_WORDS;
    ReadLines::Picked(if is_short { words } else { format!("{:016x}", Fnv::of(words.as_bytes())) })
}

/// The files that a pipe prints. `None` if it does something else.
fn read_of(pipe: &[Program]) -> Option<Vec<FileRead>> {
    let (first, filters) = pipe.split_first()?;
    if pipe.len() > LONGEST_PIPE || pipe.iter().any(|program| !program.writes.is_empty()) {
        return None;
    }
    let mut shown = shown_by(first)?;
    for filter in filters {
        let lines = match lines_of(filter)? {
            // For example `nl`, which only numbers the lines.
            (ReadLines::All, _) => continue,
            (lines, _) => lines,
        };
        shown.iter_mut().for_each(|file| {
            file.lines = match (&file.lines, &lines) {
                (ReadLines::All, lines) => lines.clone(),
                (ReadLines::Range(first, last), _) => picked(format!("{first},{last} | {}", filter.text)),
                (ReadLines::Picked(known), _) => picked(format!("{known} | {}", filter.text)),
            };
        });
    }
    Some(shown)
}

/// The files that the first program of a pipe prints.
fn shown_by(program: &Program) -> Option<Vec<FileRead>> {
    let (lines, files) = lines_of(program)?;
    let is_file = |path: &&String| {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        // Patterns name no single file. The operand of a search can be a directory, unless it has an extension.
        let is_one = !path.contains(['*', '?', '<', '$', '{']) && !name.is_empty() && *path != "-";
        is_one && (!is_search(program) || name.trim_start_matches('.').contains('.'))
    };
    let files: Vec<FileRead> = files
        .iter()
        .filter(is_file)
        .map(|path| FileRead { path: path.trim_start_matches("./").to_owned(), lines: lines.clone() })
        .collect();
    (!files.is_empty()).then_some(files)
}

fn is_search(program: &Program) -> bool {
    matches!(program.name(), "rg" | "grep" | "egrep" | "fgrep" | "ag")
}

/// The lines that a program selects, and its files. `None` if it does not print files.
fn lines_of(program: &Program) -> Option<(ReadLines, Vec<String>)> {
    let name = program.name().to_ascii_lowercase();
    let Arguments { options, operands } = match name.as_str() {
        "cat" | "bat" | "less" | "more" | "type" => Arguments::of(program, &[]),
        "nl" => Arguments::of(program, &["-b", "-w", "-s", "-v", "-n", "-i"]),
        "head" | "tail" => Arguments::of(program, &["-n", "-c"]),
        "sed" => Arguments::of(program, &["-e"]),
        "rg" | "grep" | "egrep" | "fgrep" | "ag" => {
            Arguments::of(program, &["-e", "-A", "-B", "-C", "-m", "-g", "-t", "-T"])
        }
        "get-content" | "gc" => {
            Arguments::of(program, &["-path", "-literalpath", "-totalcount", "-first", "-tail", "-encoding"])
        }
        _ => return None,
    };
    let value = |names: &[&str]| {
        let named = options.iter().find(|(option, _)| names.contains(&option.to_ascii_lowercase().as_str()));
        named.map(|(_, value)| value.clone())
    };
    let count = |names: &[&str]| {
        let short = options.iter().find_map(|(option, _)| option.strip_prefix('-')?.parse::<u64>().ok());
        value(names).and_then(|value| value.parse().ok()).or(short)
    };
    let picked = |what: &str| picked(format!("{name} {what}"));
    Some(match name.as_str() {
        "head" => {
            (count(&["-n"]).map_or(ReadLines::Range(1, 10), |last| ReadLines::Range(1, last)), operands)
        }
        "tail" => (picked(&count(&["-n"]).unwrap_or(10).to_string()), operands),
        "sed" => {
            // Without `-n` it prints all lines, changed; with `-i` it prints nothing.
            let quiet = options.iter().any(|(option, _)| option == "-n");
            let script = value(&["-e"]);
            let (script, files) = match (script, operands.split_first()) {
                (Some(script), _) => (script, operands),
                (None, Some((script, files))) => (script.clone(), files.to_vec()),
                (None, None) => return None,
            };
            (sed_range(&script).filter(|_| quiet)?, files)
        }
        "rg" | "grep" | "egrep" | "fgrep" | "ag" => {
            let (pattern, files) = match (value(&["-e"]), operands.split_first()) {
                (Some(pattern), _) => (pattern, operands),
                (None, Some((pattern, files))) => (pattern.clone(), files.to_vec()),
                (None, None) => return None,
            };
            // These options print names or counts.
            if options.iter().any(|(option, _)| matches!(option.as_str(), "--files" | "-l" | "-c" | "-q")) {
                return None;
            }
            (picked(&format!("{options:?} {pattern}")), files)
        }
        "get-content" | "gc" => {
            let lines = match (count(&["-totalcount", "-first"]), count(&["-tail"])) {
                (Some(last), _) => ReadLines::Range(1, last),
                (None, Some(last)) => picked(&last.to_string()),
                (None, None) => ReadLines::All,
            };
            let named = value(&["-path", "-literalpath"]);
            (lines, named.map_or(operands, |path| vec![path]))
        }
        _ => (ReadLines::All, operands),
    })
}

/// The lines that a `sed -n` script prints: `1,80p`, `12p`.
fn sed_range(script: &str) -> Option<ReadLines> {
    let range = script.trim().strip_suffix('p')?;
    let numbers = match range.split_once(',') {
        Some((first, "$")) => first.parse().ok().map(|first| (first, u64::MAX)),
        Some((first, last)) => first.parse().ok().zip(last.parse().ok()),
        None => range.parse().ok().map(|line: u64| (line, line)),
    };
    let lines = numbers.map(|(first, last)| ReadLines::Range(first, last));
    Some(lines.unwrap_or_else(|| picked(script.to_owned())))
}

/// A program's arguments, divided into options with values and operands.
#[derive(Default)]
struct Arguments {
    options: Vec<(String, String)>,
    operands: Vec<String>,
}

impl Arguments {
    /// `valued` lists the options whose value is the next word.
    fn of(program: &Program, valued: &[&str]) -> Arguments {
        let mut found = Arguments::default();
        let mut words = program.arguments().iter();
        while let Some(word) = words.next() {
            let takes_value = valued.iter().any(|option| option.eq_ignore_ascii_case(word));
            if takes_value {
                found.options.push((word.clone(), words.next().cloned().unwrap_or_default()));
            } else if word.starts_with('-') && word.len() > 1 {
                // `-n50` is `-n 50`.
                let glued = valued.iter().find_map(|option| Some((*option, word.strip_prefix(*option)?)));
                let (option, value) = glued.unwrap_or((word.as_str(), ""));
                found.options.push((option.to_owned(), value.to_owned()));
            } else {
                found.operands.push(word.clone());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ReadLines, SeenLines, shell_reads};

    fn check(command: &str, expected: &[(&str, ReadLines)], is_all: bool) {
        let reads = shell_reads("exec_command", &json!({ "cmd": command }));
        let found: Vec<(&str, ReadLines)> =
            reads.files.iter().map(|file| (file.path.as_str(), file.lines.clone())).collect();
        assert_eq!((found.as_slice(), reads.is_all), (expected, is_all), "{command}");
    }

    #[test]
    fn commands_that_print_files_are_recognised() {
        use ReadLines::{All, Range};
        check("cat src/main.rs", &[("src/main.rs", All)], true);
        check("cat ./a.rs b.rs", &[("a.rs", All), ("b.rs", All)], true);
        check("sed -n '1,80p' src/main.rs", &[("src/main.rs", Range(1, 80))], true);
        check("sed -n 12p a.rs", &[("a.rs", Range(12, 12))], true);
        check("sed -n '80,$p' a.rs", &[("a.rs", Range(80, u64::MAX))], true);
        check("head -50 a.rs", &[("a.rs", Range(1, 50))], true);
        check("head -n 50 a.rs", &[("a.rs", Range(1, 50))], true);
        check("head -n50 a.rs", &[("a.rs", Range(1, 50))], true);
        check("nl -ba a.rs", &[("a.rs", All)], true);
        check("nl -ba a.rs | sed -n '10,20p'", &[("a.rs", Range(10, 20))], true);
        check("cat a.rs | head -20", &[("a.rs", Range(1, 20))], true);
        check("bash -lc 'cat a.rs'", &[("a.rs", All)], true);
        check("cd web && cat a.ts", &[("web/a.ts", All)], true);
        check("Get-Content C:\\a\\b.md -TotalCount 40", &[("C:\\a\\b.md", Range(1, 40))], true);
        check("Get-Content C:\\a\\.b\\c.md", &[("C:\\a\\.b\\c.md", All)], true);
        check("printf '%s' --; cat a.rs", &[("a.rs", All)], true);
    }

    #[test]
    fn filters_are_compared_by_their_text() {
        let lines = |command: &str| {
            let reads = shell_reads("bash", &json!({ "command": command }));
            reads.files.first().map(|file| (file.path.clone(), file.lines.clone()))
        };
        let (path, first) = lines("rg -n -C 3 'fn main' src/main.rs").unwrap();
        assert_eq!(path, "src/main.rs");
        assert_eq!(lines("rg -n -C 3 'fn main' src/main.rs").unwrap().1, first);
        assert_ne!(lines("rg -n -C 3 'fn other' src/main.rs").unwrap().1, first);
        assert_ne!(lines("tail -20 a.rs"), lines("tail -n 40 a.rs"));
        assert!(ReadLines::All.cover(&first) && !first.cover(&ReadLines::All));
        assert!(ReadLines::Range(1, 80).cover(&ReadLines::Range(20, 30)));
        assert!(!ReadLines::Range(1, 80).cover(&ReadLines::Range(20, 90)));
    }

    /// Each program of a pipe once doubled the length of the filter's text: 30 programs took a gigabyte.
    #[test]
    fn a_long_pipe_does_not_need_more_memory_than_a_short_one() {
        let lines = |programs: usize| {
            let command = format!("cat 'a \"b\".rs'{}", " | sed -n '/\"/p'".repeat(programs));
            let reads = shell_reads("bash", &json!({ "command": command }));
            reads.files.first().map(|file| file.lines.clone())
        };
        let ReadLines::Picked(short) = lines(2).unwrap() else { panic!("two filters select lines") };
        let ReadLines::Picked(long) = lines(15).unwrap() else { panic!("fifteen filters select lines") };
        assert!(short.len() <= 200 && long.len() <= 200 && short != long);
        assert_eq!(lines(16), None, "a pipe of seventeen programs is not followed");
    }

    #[test]
    fn other_commands_print_no_file() {
        for command in [
            "cargo test",
            "cat > a.rs <<'EOF'\nfn main() {}\nEOF",
            "sed -i 's/a/b/' a.rs",
            "cat a.rs > b.rs",
            "rg --files src",
            "rg needle src",
            "cat src/*.rs",
            "wc -l a.rs",
            "cat a.rs | wc -l",
        ] {
            check(command, &[], false);
        }
        // The output of `cargo test` would be lost if this output was cleared as a copy of the file.
        check("cat a.rs && cargo test", &[("a.rs", ReadLines::All)], false);
    }

    #[test]
    fn lines_are_seen_if_one_read_includes_them() {
        let ranges = |seed: u64| {
            (0..200u64).map(move |n| {
                let first = (n * 7_919 + seed) % 50;
                ReadLines::Range(first, first + (n * 104_729 + seed) % 20)
            })
        };
        let (mut seen, mut all) = (SeenLines::default(), Vec::new());
        for (added, asked) in ranges(1).zip(ranges(5)) {
            let expected = all.iter().any(|read: &ReadLines| read.cover(&asked));
            assert_eq!(seen.cover(&asked), expected, "{asked:?} in {all:?}");
            seen.add(&added);
            all.push(added);
        }
        assert!(!seen.cover(&ReadLines::All) && !seen.cover(&ReadLines::Picked("x".into())));
        seen.add(&ReadLines::Picked("x".into()));
        assert!(seen.cover(&ReadLines::Picked("x".into())));
        seen.add(&ReadLines::All);
        assert!(seen.cover(&ReadLines::All) && seen.cover(&ReadLines::Range(0, 1_000)));
    }

    #[test]
    fn paths_start_at_the_working_directory_and_editors_run_no_commands() {
        let input = json!({ "cmd": "cat a.rs", "workdir": "/srv/project" });
        assert_eq!(shell_reads("exec_command", &input).files[0].path, "/srv/project/a.rs");
        assert_eq!(shell_reads("str_replace_editor", &json!({ "command": "cat a.rs" })).files, []);
    }
}
