//! The sections with changed files, grouped by directory, and commands with their outcomes.

use std::collections::{BTreeMap, BTreeSet};

use super::room::Written;
use crate::chars::Chars;
use crate::facts::{Change, ChangedFile};

/// A changed file and its mark.
pub(super) struct Named {
    path: String,
    mark: &'static str,
}

/// The files of an earlier summary followed by those of this history, without duplicates.
pub(super) fn merge(earlier: &[String], files: &[ChangedFile]) -> Vec<Named> {
    let again =
        |path: &str| files.iter().any(|file| file.path == path || file.path.ends_with(&format!("/{path}")));
    let earlier =
        earlier.iter().filter(|path| !again(path)).map(|path| Named { path: path.clone(), mark: "" });
    let mark = |change: Change| match change {
        Change::Created => " (new)",
        Change::Edited => "",
        Change::Deleted => DELETED,
    };
    let named = files.iter().map(|file| Named { path: file.path.clone(), mark: mark(file.change) });
    earlier.chain(named).collect()
}

/// Writes the files, grouped by directory. If not all fit, deleted files and those changed longest ago are only
/// counted.
pub(super) fn write_files(files: &[Named], room: Chars) -> Written {
    if files.is_empty() {
        return Written::nothing();
    }
    let root = common_root(files);
    // In the order in which files are left out.
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|place| (files[*place].mark != DELETED, *place));
    let written = |left_out: usize, with_marks: bool| {
        let mut shown: Vec<usize> = order[left_out..].to_vec();
        shown.sort_unstable();
        let named: Vec<&Named> = shown.into_iter().map(|place| &files[place]).collect();
        let more = match left_out {
            0 => String::new(),
            1 => "\n(1 more file)".to_owned(),
            _ => format!("\n({left_out} more files)"),
        };
        let text = format!("{}{more}", under_root(&named, &root, with_marks));
        (Chars::of(&text) <= room).then_some(text)
    };
    if let Some(text) = written(0, true) {
        return Written { text, complete: true };
    }
    if let Some(text) = written(0, false) {
        return Written { text, complete: true };
    }
    // Leaving out more makes the text shorter, so the minimum is found by binary search.
    let (mut low, mut high) = (1, files.len());
    while low < high {
        let middle = low.midpoint(high);
        if written(middle, false).is_some() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let text = written(low, false).filter(|_| low < files.len());
    text.map_or_else(Written::no_room, |text| Written { text, complete: false })
}

const DELETED: &str = " (deleted)";

/// Minimum share of the absolute paths below the common root.
const IN_ROOT: f64 = 0.6;

/// The directory that most absolute paths share. One file elsewhere must not make every path long.
fn common_root(files: &[Named]) -> String {
    let is_absolute = |path: &str| path.starts_with(['/', '~']) || path.get(1..2) == Some(":");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all = 0;
    for path in files.iter().map(|file| file.path.as_str()).filter(|path| is_absolute(path)) {
        all += 1;
        // A root with a single name is too general.
        let directories = path.match_indices('/').map(|(at, _)| &path[..at]);
        directories
            .filter(|directory| {
                directory.matches('/').count() >= 2 || !directory.starts_with('/') && directory.contains('/')
            })
            .for_each(|directory| *counts.entry(directory).or_default() += 1);
    }
    // The deepest of the directories with the most files.
    let best = counts.into_iter().max_by_key(|(directory, count)| (*count, directory.len()));
    best.filter(|(_, count)| *count as f64 >= IN_ROOT * all as f64)
        .map(|(directory, _)| directory.to_owned())
        .unwrap_or_default()
}

/// Lists the files outside the root, then those below it after a line with its path.
fn under_root(files: &[&Named], root: &str, with_marks: bool) -> String {
    let is_inside = |file: &&&Named| {
        !root.is_empty() && file.path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
    };
    let (inside, outside): (Vec<&Named>, Vec<&Named>) = files.iter().partition(|file| is_inside(file));
    let mut texts = Vec::new();
    if !outside.is_empty() {
        texts.push(grouped(&outside, "", with_marks));
    }
    if !inside.is_empty() {
        texts.push(format!("Under `{root}`:\n{}", grouped(&inside, root, with_marks)));
    }
    texts.join("\n")
}

/// Writes one line for each directory near the root, with files below it grouped in braces, as in a shell. The line
/// with the newest change comes last.
fn grouped(files: &[&Named], root: &str, with_marks: bool) -> String {
    let mut directories: BTreeMap<&str, (usize, Vec<String>)> = BTreeMap::new();
    for (place, file) in files.iter().enumerate() {
        let inside = file.path.strip_prefix(root).filter(|_| !root.is_empty());
        let path = inside.map_or(file.path.as_str(), |path| path.trim_start_matches('/'));
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (newest, names) = directories.entry(directory).or_default();
        *newest = place;
        names.push(format!("{name}{}", if with_marks { file.mark } else { "" }));
    }
    // Sibling directories share the line of their parent.
    let mut parents: BTreeMap<&str, usize> = BTreeMap::new();
    for directory in directories.keys() {
        *parents.entry(directory.rsplit_once('/').map_or("", |(parent, _)| parent)).or_default() += 1;
    }
    let mut lines: BTreeMap<&str, (usize, Vec<String>)> = BTreeMap::new();
    for (directory, (newest, names)) in &directories {
        let (parent, own) = directory.rsplit_once('/').unwrap_or(("", directory));
        let joins = !parent.is_empty() && (parents[parent] > 1 || directories.contains_key(parent));
        let (line, below) = if joins { (parent, format!("{own}/")) } else { (*directory, String::new()) };
        let (last, words) = lines.entry(line).or_default();
        *last = (*last).max(*newest);
        words.extend(braced(&below, names));
    }
    let mut lines: Vec<(usize, String)> = lines
        .into_iter()
        .map(|(directory, (newest, words))| match directory {
            "" => (newest, format!("- {}", words.join(", "))),
            _ => (newest, format!("- {directory}/: {}", words.join(", "))),
        })
        .collect();
    lines.sort_by_key(|(newest, _)| *newest);
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    lines.join("\n")
}

/// Names of one directory. Names with the same ending are grouped: `{auth,user}.service.ts`.
fn braced(below: &str, names: &[String]) -> Vec<String> {
    let mut endings: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        // A leading dot does not start an ending. A name with a mark (after a space) is not split. The first character
        // may have several bytes.
        let split = name.char_indices().skip(1).find(|(_, c)| *c == '.').map(|(at, _)| at);
        let split = split.filter(|_| !name.contains(' '));
        let (stem, ending) = split.map_or((name.as_str(), ""), |at| name.split_at(at));
        endings.entry(ending).or_default().push(stem);
    }
    let mut words = Vec::new();
    for (ending, stems) in endings {
        match stems.as_slice() {
            [stem] => words.push(format!("{below}{stem}{ending}")),
            stems if ending.is_empty() => words.extend(stems.iter().map(|stem| format!("{below}{stem}"))),
            stems => words.push(format!("{below}{{{}}}{ending}", stems.join(","))),
        }
    }
    words
}

/// A command in the summary.
pub(super) struct Command {
    pub(super) line: String,
    pub(super) outcome: String,
    /// Priority.
    pub(super) value: u64,
    /// Subjects of its programs. A second command with the same subjects is less important.
    pub(super) subjects: BTreeSet<String>,
}

/// Writes the most important commands, in the order in which they were last run.
pub(super) fn write_commands(commands: &[Command], room: Chars) -> Written {
    let mut left = room;
    let line = |command: &Command| match command.outcome.as_str() {
        "" => format!("- `{}`", command.line),
        outcome => format!("- `{}` → {outcome}", command.line),
    };
    let mut order: Vec<usize> = (0..commands.len()).collect();
    order.sort_by_key(|place| (std::cmp::Reverse(commands[*place].value), *place));
    // First one command for each subject, then the others.
    let mut covered: BTreeSet<&str> = BTreeSet::new();
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for place in order {
        let subjects = &commands[place].subjects;
        let known = !subjects.is_empty() && subjects.iter().all(|subject| covered.contains(subject.as_str()));
        covered.extend(subjects.iter().map(String::as_str));
        if known { again.push(place) } else { first.push(place) }
    }
    let mut chosen = Vec::new();
    let all = commands.len();
    for place in first.into_iter().chain(again) {
        let cost = Chars::of(&line(&commands[place])) + Chars(1);
        if cost <= left {
            left = left.saturating_sub(cost);
            chosen.push(place);
        }
    }
    let complete = chosen.len() == all;
    chosen.sort_unstable();
    let lines: Vec<String> = chosen.into_iter().map(|place| line(&commands[place])).collect();
    Written { text: lines.join("\n"), complete }
}
