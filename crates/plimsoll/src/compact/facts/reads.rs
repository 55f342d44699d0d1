//! Files whose content a command showed: `cat`, `sed -n 1,80p`, `nl … | head`, `rg` in one file.
//!
//! Agents that have no tool for reading read through a shell. Where this errs it names one file too few.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::changes::paths as paths_of_input;
use super::commands::shell_commands;
use super::shell::{self, Program};
use crate::fnv::Fnv;

/// What commands of one call showed of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellReads {
    /// The files, in order.
    pub files: Vec<FileRead>,
    /// Whether the call showed nothing else, so that its output is the content of these files.
    pub is_all: bool,
}

/// A file, or a part of one, that was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// Its path as the command names it, from the directory that it was run in.
    pub path: String,
    /// Which lines of it.
    pub lines: ReadLines,
}

/// Which lines of a file were shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadLines {
    /// All of them.
    All,
    /// From the first number to the second, both among them.
    Range(u64, u64),
    /// Those that something picked out, in whatever words it was asked.
    Picked(String),
}

impl ReadLines {
    /// Whether someone who sees these lines sees the others too.
    pub fn cover(&self, others: &ReadLines) -> bool {
        match (self, others) {
            (ReadLines::All, _) => true,
            (ReadLines::Range(first, last), ReadLines::Range(from, to)) => first <= from && to <= last,
            _ => self == others,
        }
    }
}

/// Lines of one file that reads have shown so far.
#[derive(Clone, Debug, Default)]
pub struct SeenLines {
    all: bool,
    /// First and last lines of ranges of which none is inside another, so that both grow.
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

    /// Whether one of the reads shows all of these lines.
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

/// The files that a call showed: by a tool that reads files, or by its commands.
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

/// Whether a tool shows a file's content, by its name.
fn is_reading(tool: &str) -> bool {
    let tool = tool.to_ascii_lowercase();
    ["read", "view", "cat", "open"].iter().any(|word| tool.contains(word))
}

/// Lines of a file that a tool was asked for, as its input names them.
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

/// What the commands of a call showed of files; nothing for a call that ran no command.
pub fn shell_reads(tool: &str, input: &Value) -> ShellReads {
    let mut reads = ShellReads { files: Vec::new(), is_all: true };
    let workdir = ["workdir", "cwd"].iter().find_map(|key| input.get(*key)?.as_str());
    for line in shell_commands(tool, input) {
        let programs = shell::programs(&line);
        // A pipe's programs work on what its first one shows.
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

/// Longest pipe that is followed.
const LONGEST_PIPE: usize = 16;
/// Longest words that tell which lines were picked. Longer ones are told apart by their hash: each file of a command has a
/// copy of them.
const LONGEST_WORDS: usize = 200;

fn picked(words: String) -> ReadLines {
    let is_short = words.len() <= LONGEST_WORDS;
    ReadLines::Picked(if is_short { words } else { format!("{:016x}", Fnv::of(words.as_bytes())) })
}

/// The files that a pipe shows, if that is what it does.
fn read_of(pipe: &[Program]) -> Option<Vec<FileRead>> {
    let (first, filters) = pipe.split_first()?;
    if pipe.len() > LONGEST_PIPE || pipe.iter().any(|program| !program.writes.is_empty()) {
        return None;
    }
    let mut shown = shown_by(first)?;
    for filter in filters {
        let lines = match lines_of(filter)? {
            // Numbers before the lines hide none of them.
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

/// The files that a program at the beginning of a pipe shows.
fn shown_by(program: &Program) -> Option<Vec<FileRead>> {
    let (lines, files) = lines_of(program)?;
    let is_file = |path: &&String| {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        // A search goes through directories too. Patterns for many files name none of them.
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

/// Which lines a program lets through, and the files that it is given; none for one that shows no file's content.
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
            // Without `-n` it prints all, changed; with `-i` it prints nothing.
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
            // `rg --files` lists names.
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

/// The lines that a script of `sed -n` prints: `1,80p`, `12p`.
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

/// A program's arguments, options with their values apart from the rest.
#[derive(Default)]
struct Arguments {
    options: Vec<(String, String)>,
    operands: Vec<String>,
}

impl Arguments {
    /// `valued` are the options whose value is the next word.
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
    fn commands_show_files() {
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
    fn what_picks_lines_is_told_by_its_words() {
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

    /// Each program of a pipe once doubled the length of what told the lines: 30 of them took a gigabyte.
    #[test]
    fn a_long_pipe_takes_no_more_room_than_a_short_one() {
        let lines = |programs: usize| {
            let command = format!("cat 'a \"b\".rs'{}", " | sed -n '/\"/p'".repeat(programs));
            let reads = shell_reads("bash", &json!({ "command": command }));
            reads.files.first().map(|file| file.lines.clone())
        };
        let ReadLines::Picked(short) = lines(2).unwrap() else { panic!("two filters pick lines") };
        let ReadLines::Picked(long) = lines(15).unwrap() else { panic!("so do fifteen") };
        assert!(short.len() <= 200 && long.len() <= 200 && short != long);
        assert_eq!(lines(16), None, "a pipe of seventeen programs is not followed");
    }

    #[test]
    fn other_commands_show_no_file() {
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
        // What else was printed would be lost with the output.
        check("cat a.rs && cargo test", &[("a.rs", ReadLines::All)], false);
    }

    #[test]
    fn lines_that_were_seen_are_those_that_one_read_shows() {
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
    fn a_working_directory_leads_paths_and_tools_that_write_run_no_command() {
        let input = json!({ "cmd": "cat a.rs", "workdir": "/srv/project" });
        assert_eq!(shell_reads("exec_command", &input).files[0].path, "/srv/project/a.rs");
        assert_eq!(shell_reads("str_replace_editor", &json!({ "command": "cat a.rs" })).files, []);
    }
}
