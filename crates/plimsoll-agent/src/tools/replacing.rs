//! Replaces a text in a file's content, with any line endings, or explains why it is not found.
//!
//! Model and file are untrusted, and no step can be cancelled. So each is linear in the content, also if all its lines are
//! equal, and holds only a few of the matches.

use std::ops::Range;

use memchr::memmem::Finder;
use plimsoll_sandbox::MAX_FILE_BYTES;

/// Maximum number of line numbers listed for an ambiguous text.
const MAX_LISTED: usize = 100;
/// Maximum number of changed lines shown.
const MAX_SHOWN: usize = 200;
/// Ends a list of changed lines that is not complete.
const MORE_CHANGED: &str = "[… more lines were changed]\n";
/// Maximum number of chars of a line that are shown and compared.
const LINE: usize = 300;
/// Maximum number of lines compared with one that was not found.
const MAX_COMPARED: usize = 50_000;
/// Maximum number of bytes of lines compared with one that was not found. Comparing takes 50 ns for each.
const MAX_SCORED: usize = 2 << 20;
/// Minimum similarity of a line that is suggested.
const ALIKE: f64 = 0.6;

/// Content after a replacement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edited {
    pub(super) bytes: Vec<u8>,
    /// Number of replaced matches.
    pub(super) count: usize,
    /// Ranges of the inserted text, as many as are shown.
    places: Vec<Range<usize>>,
}

/// Reason why nothing was replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplaceProblem {
    /// The text is empty.
    Empty,
    /// Both texts are equal.
    Same,
    /// The text was not found.
    NotFound,
    /// Number of occurrences of the text. The lines are those of the first matches.
    Ambiguous { count: usize, lines: Vec<usize> },
    /// The file would be larger than [`MAX_FILE_BYTES`].
    TooLarge,
}

/// Content with LF line endings, and the positions of CRLF.
struct Plain {
    bytes: Vec<u8>,
    /// Positions in `bytes` of line feeds that followed a carriage return.
    returns: Vec<usize>,
}

impl Plain {
    fn of(content: &[u8]) -> Plain {
        let mut plain = Plain { bytes: Vec::with_capacity(content.len()), returns: Vec::new() };
        let mut from = 0;
        for at in memchr::memmem::find_iter(content, b"\r\n") {
            plain.bytes.extend_from_slice(&content[from..at]);
            plain.returns.push(plain.bytes.len());
            from = at + 1;
        }
        plain.bytes.extend_from_slice(&content[from..]);
        plain
    }

    /// Maps a position in the normalised text to the original. A position before a line feed maps to the one before its
    /// carriage return.
    fn original(&self, at: usize) -> usize {
        at + self.returns.partition_point(|place| *place < at)
    }

    /// Returns whether most line endings in a range are CRLF; `None` if there are none.
    fn ends_in_crlf(&self, range: Range<usize>) -> Option<bool> {
        let from = self.returns.partition_point(|place| *place < range.start);
        let to = self.returns.partition_point(|place| *place < range.end);
        let all = memchr::memchr_iter(b'\n', &self.bytes[range]).count();
        (all > 0).then_some((to - from) * 2 > all)
    }
}

/// Replaces `old` by `new`, once or everywhere. The search ignores differences of line endings, and the new text gets
/// those of its place; everything else stays byte for byte.
pub(super) fn replace(content: &[u8], old: &str, new: &str, all: bool) -> Result<Edited, ReplaceProblem> {
    let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    if old.is_empty() {
        return Err(ReplaceProblem::Empty);
    }
    if old == new {
        return Err(ReplaceProblem::Same);
    }
    let plain = Plain::of(content);
    let finder = Finder::new(old.as_bytes());
    let first = finder.find(&plain.bytes).ok_or(ReplaceProblem::NotFound)?;
    // Matches may overlap, and each of them could be the intended one.
    if !all && finder.find(&plain.bytes[first + 1..]).is_some() {
        let found = occurrences(&plain.bytes[first..], old.as_bytes()).map(|at| first + at);
        let (mut count, mut listed) = (0, Vec::new());
        found.for_each(|at| {
            count += 1;
            listed.extend(Some(at).filter(|_| listed.len() < MAX_LISTED));
        });
        return Err(ReplaceProblem::Ambiguous { count, lines: lines_of(&plain.bytes, &listed) });
    }
    let bytes = Vec::with_capacity(content.len() + new.len());
    let mut edited = Edited { bytes, count: 0, places: Vec::new() };
    let mut from = 0;
    // A match within a line gets the line ending of most lines of the file.
    let usual = plain.ends_in_crlf(0..plain.bytes.len()).unwrap_or(false);
    for at in finder.find_iter(&plain.bytes).take(if all { usize::MAX } else { 1 }) {
        let range = at..at + old.len();
        let is_crlf = plain.ends_in_crlf(range.clone()).unwrap_or(usual);
        let put = if is_crlf { new.replace('\n', "\r\n") } else { new.clone() };
        edited.bytes.extend_from_slice(&content[from..plain.original(range.start)]);
        let start = edited.bytes.len();
        edited.bytes.extend_from_slice(put.as_bytes());
        edited.count += 1;
        if edited.places.len() < MAX_SHOWN {
            edited.places.push(start..edited.bytes.len());
        }
        if edited.bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(ReplaceProblem::TooLarge);
        }
        from = plain.original(range.end);
    }
    edited.bytes.extend_from_slice(&content[from..]);
    Ok(edited)
}

/// Returns the positions at which `wanted` begins, including those of overlapping matches (Knuth, Morris and Pratt).
/// Searching again after each match would take time for each pair of items if all are equal.
fn occurrences<'a, T: PartialEq>(items: &'a [T], wanted: &'a [T]) -> impl Iterator<Item = usize> + 'a {
    // For each beginning of `wanted`, the length of the longest shorter one that it ends with.
    let mut borders = vec![0; wanted.len()];
    let mut border = 0;
    for at in 1..wanted.len() {
        while border > 0 && wanted[at] != wanted[border] {
            border = borders[border - 1];
        }
        border += usize::from(wanted[at] == wanted[border]);
        borders[at] = border;
    }
    let mut matched = 0;
    items.iter().enumerate().filter_map(move |(at, item)| {
        while matched > 0 && (matched == wanted.len() || *item != wanted[matched]) {
            matched = borders[matched - 1];
        }
        matched += usize::from(wanted.get(matched) == Some(item));
        (matched == wanted.len()).then(|| at + 1 - matched)
    })
}

/// Returns the line numbers of these positions, from 1.
fn lines_of(bytes: &[u8], places: &[usize]) -> Vec<usize> {
    let (mut line, mut from) = (1, 0);
    let mut lines = Vec::with_capacity(places.len());
    for place in places {
        line += memchr::memchr_iter(b'\n', &bytes[from..*place]).count();
        lines.push(line);
        from = *place;
    }
    lines
}

impl Edited {
    /// Formats the changed lines with one line of context, with line numbers.
    pub(super) fn shown(&self) -> String {
        let mut lines = (1..).zip(self.bytes.split_inclusive(|byte| *byte == b'\n'));
        let starts: Vec<usize> = self.places.iter().map(|place| place.start).collect();
        let firsts = lines_of(&self.bytes, &starts);
        let mut text = String::new();
        let (mut shown, mut next) = (0, 1);
        for (place, first) in self.places.iter().zip(firsts) {
            let count = memchr::memchr_iter(b'\n', &self.bytes[place.clone()]).count();
            // A replacement that ends with a line, or removes whole lines, does not change the next line.
            let is_line_end = place.end == 0 || self.bytes.get(place.end - 1) == Some(&b'\n');
            let last = first + count - usize::from(is_line_end);
            let from = first.saturating_sub(1).max(next);
            if from > next && next > 1 {
                text.push_str("…\n");
            }
            for number in from..=last + 1 {
                let Some((_, line)) = lines.find(|(at, _)| *at == number) else { break };
                if shown == MAX_SHOWN {
                    text.push_str(MORE_CHANGED);
                    return text;
                }
                text.push_str(&numbered(number, line));
                shown += 1;
                next = number + 1;
            }
        }
        if self.count > self.places.len() {
            text.push_str(MORE_CHANGED);
        }
        if self.bytes.is_empty() {
            text.push_str("[The file is empty now.]\n");
        }
        text
    }
}

fn numbered(number: usize, line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches(['\n', '\r']);
    let shown: String = line.chars().take(LINE).collect();
    let rest = if shown.len() < line.len() { " [line cut]" } else { "" };
    format!("{number}\t{shown}{rest}\n")
}

impl ReplaceProblem {
    /// Formats the problem for the model.
    pub(super) fn format_for_model(&self, name: &str, content: &[u8], old: &str) -> String {
        match self {
            ReplaceProblem::Empty => {
                format!("`old` is empty: pass the text of `{name}` to replace, or use `write`")
            }
            ReplaceProblem::Same => "`old` and `new` are identical: no change".into(),
            ReplaceProblem::TooLarge => {
                format!("`{name}` would be larger than {} MB", MAX_FILE_BYTES >> 20)
            }
            ReplaceProblem::Ambiguous { count, lines } => {
                let mut listed: Vec<String> = lines.iter().map(usize::to_string).collect();
                if *count > lines.len() {
                    listed.push("…".into());
                }
                format!(
                    "`old` occurs {count} times in `{name}`, starting at lines {}: add surrounding lines to make it \
                     unique, or set `all` to replace all occurrences",
                    listed.join(", ")
                )
            }
            ReplaceProblem::NotFound if !old.is_ascii() && std::str::from_utf8(content).is_err() => format!(
                "`old` not found in `{name}`, which is not UTF-8: non-ASCII characters in `old` cannot match. Use ASCII text \
                 only, or edit the file with a command"
            ),
            ReplaceProblem::NotFound => {
                let near = nearest(content, old);
                format!("`old` not found in `{name}`; nothing was changed. {near}")
            }
        }
    }
}

/// Describes similar text in the file.
fn nearest(content: &[u8], old: &str) -> String {
    let content = String::from_utf8_lossy(content);
    let lines: Vec<&str> = content.lines().take(MAX_COMPARED).collect();
    let wanted: Vec<&str> = old.lines().collect();
    if let Some(bare) = without_numbers(&wanted)
        && content.replace("\r\n", "\n").contains(&bare)
    {
        return "It matches without the line numbers: `read` adds them, and they are not in the file.".into();
    }
    // The same lines with different white space.
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let meant: Vec<String> = wanted.iter().map(|line| words(line)).collect();
    let meant: &[String] = match (meant.iter().position(|line| !line.is_empty()), meant.len()) {
        (Some(first), count) => {
            let last = meant.iter().rposition(|line| !line.is_empty()).map_or(count, |last| last + 1);
            &meant[first..last]
        }
        (None, _) => return "It consists of whitespace only: add surrounding lines.".into(),
    };
    let present: Vec<String> = lines.iter().map(|line| words(line)).collect();
    if let Some(at) = occurrences(&present, meant).next() {
        let shown = show(&lines, at..at + meant.len());
        return format!("These lines differ only in whitespace:\n{shown}");
    }
    // The line that is most similar to the longest line of the text.
    let Some(longest) = meant.iter().max_by_key(|line| line.chars().count()) else { return String::new() };
    let cut = |line: &str| line.chars().take(LINE).collect::<String>();
    let longest = cut(longest);
    let mut scores: Vec<(usize, f64)> = present
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(at, line)| (at, cut(line)))
        .scan(0, |bytes, (at, line)| {
            *bytes += line.len();
            (*bytes <= MAX_SCORED).then_some((at, line))
        })
        .map(|(at, line)| (at, strsim::sorensen_dice(&longest, &line)))
        .filter(|(_, score)| *score >= ALIKE)
        .collect();
    scores.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    scores.truncate(3);
    scores.sort_by_key(|(at, _)| *at);
    if scores.is_empty() {
        return "No similar lines: `read` the file again.".into();
    }
    let shown: String = scores.iter().map(|(at, _)| show(&lines, *at..*at + 1)).collect();
    format!("Most similar lines:\n{shown}")
}

/// Removes the line numbers and tabs that `read` adds, if every line has them.
fn without_numbers(lines: &[&str]) -> Option<String> {
    let bare = lines.iter().map(|line| {
        let (number, rest) = line.split_once('\t')?;
        let number = number.trim();
        (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit())).then_some(rest)
    });
    bare.collect::<Option<Vec<_>>>().map(|lines| lines.join("\n")).filter(|text| !text.is_empty())
}

fn show(lines: &[&str], range: Range<usize>) -> String {
    let numbers = range.clone().zip(&lines[range]).take(20);
    numbers.map(|(at, line)| numbered(at + 1, line.as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{ReplaceProblem, occurrences, replace};

    fn edited(content: &str, old: &str, new: &str) -> String {
        String::from_utf8(replace(content.as_bytes(), old, new, false).unwrap().bytes).unwrap()
    }

    #[test]
    fn edits_match_any_line_endings_and_preserve_them() {
        for (content, old, new, wanted) in [
            ("a\r\nb\r\nc", "a\nb", "x\ny", "x\r\ny\r\nc"),
            ("a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n"),
            ("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"),
            ("a\r\nb\nc\nd\n", "c\n", "x\ny\n", "a\r\nb\nx\ny\nd\n"),
            ("a\r\nb\nc\n", "a\n", "x\n", "x\r\nb\nc\n"),
            ("a\r\nb\r\n", "a", "x", "x\r\nb\r\n"),
            ("a\r\nb\r\n", "\nb", "", "a\r\n"),
            ("lone\rreturn\n", "return", "x", "lone\rx\n"),
            ("no end", "end", "newline", "no newline"),
            ("one\n", "one\n", "", ""),
            ("\u{feff}first\n", "first", "x", "\u{feff}x\n"),
        ] {
            assert_eq!(edited(content, old, new), wanted, "{content:?}: {old:?} by {new:?}");
        }
    }

    #[test]
    fn invalid_utf_8_is_preserved() {
        let edited = replace(b"caf\xe9 au lait\r\n", "lait", "rhum", false).unwrap();
        assert_eq!(edited.bytes, b"caf\xe9 au rhum\r\n");
    }

    #[test]
    fn an_ambiguous_text_is_refused_with_every_line() {
        let content = "x = 1\ny = 2\nx = 1\nxx = 1\n";
        let found = replace(content.as_bytes(), "x = 1", "x = 3", false);
        assert_eq!(found, Err(ReplaceProblem::Ambiguous { count: 3, lines: vec![1, 3, 4] }));
        let overlapping = replace(b"aaa", "aa", "b", false);
        assert_eq!(overlapping, Err(ReplaceProblem::Ambiguous { count: 2, lines: vec![1, 1] }));
        let all = replace(content.as_bytes(), "x = 1", "z", true).unwrap();
        assert_eq!(all.bytes, b"z\ny = 2\nz\nxz\n");
        assert_eq!(all.shown(), "1\tz\n2\ty = 2\n3\tz\n4\txz\n");
        assert_eq!(replace(b"aaaa", "aa", "b", true).unwrap().bytes, b"bb");
    }

    /// An item whose comparisons are counted.
    struct Item<'a>(u8, &'a Cell<usize>);

    impl PartialEq for Item<'_> {
        fn eq(&self, other: &Item<'_>) -> bool {
            self.1.update(|count| count + 1);
            self.0 == other.0
        }
    }

    #[test]
    fn occurrences_are_all_found_in_linear_time() {
        for (items, wanted) in [
            (&b"abcabcab"[..], &b"abcab"[..]),
            (b"aaaa", b"a"),
            (b"aaaa", b"aa"),
            (b"aabaaabaaaab", b"aaab"),
            (b"abababab", b"abab"),
            (b"abc", b"abcd"),
            (b"", b"a"),
        ] {
            let windows = items.windows(wanted.len()).enumerate();
            let all: Vec<usize> = windows.filter(|(_, window)| *window == wanted).map(|(at, _)| at).collect();
            assert_eq!(occurrences(items, wanted).collect::<Vec<_>>(), all, "{items:?}, {wanted:?}");
        }
        // 25,000 equal lines and one that differs once took a comparison for each pair of them.
        let compared = Cell::new(0);
        let lines = |count: usize, last: u8| -> Vec<Item<'_>> {
            (0..count).map(|_| Item(0, &compared)).chain([Item(last, &compared)]).collect()
        };
        assert_eq!(occurrences(&lines(50_000, 0), &lines(25_000, 1)).next(), None);
        assert!(compared.get() < 5 * 75_000, "{} comparisons", compared.get());
    }

    /// A character that occurs a million times, replaced by a text of a megabyte, would fill the memory.
    #[test]
    fn a_result_that_is_too_large_is_not_made() {
        let content = "a".repeat(1_000_000);
        let found = replace(content.as_bytes(), "a", &"b".repeat(1_000_000), true);
        assert_eq!(found, Err(ReplaceProblem::TooLarge));
    }

    #[test]
    fn many_matches_are_counted_and_the_first_ones_shown() {
        let content = "a\n".repeat(1_000);
        let edited = replace(content.as_bytes(), "a", "b", true).unwrap();
        assert_eq!((edited.count, edited.bytes), (1_000, "b\n".repeat(1_000).into_bytes()));
        let shown = replace(content.as_bytes(), "a", "b", true).unwrap().shown();
        assert!(shown.starts_with("1\tb\n") && shown.ends_with("\n200\tb\n[… more lines were changed]\n"));
        let in_one_line = replace("a".repeat(1_000).as_bytes(), "a", "b", true).unwrap();
        assert!(in_one_line.shown().ends_with("[line cut]\n[… more lines were changed]\n"));
        let problem = replace(content.as_bytes(), "a", "b", false).unwrap_err();
        let ReplaceProblem::Ambiguous { count, lines } = problem else { panic!("{problem:?}") };
        assert_eq!((count, lines.len(), lines.last()), (1_000, 100, Some(&100)));
    }

    #[test]
    fn similar_text_is_shown() {
        let content = "fn main() {\n    let depth = 9;\n    println!(\"{depth}\");\n}\n";
        let message = |old: &str| {
            let problem = replace(content.as_bytes(), old, "x", false).unwrap_err();
            problem.format_for_model("main.rs", content.as_bytes(), old)
        };
        assert!(
            message("\tlet depth = 9;\n\tprintln!(\"{depth}\");")
                .contains("only in whitespace:\n2\t    let depth = 9;\n3\t")
        );
        assert!(message("let depht = 9;").ends_with("Most similar lines:\n2\t    let depth = 9;\n"));
        assert!(message("2\t    let depth = 9;").contains("`read` adds them"));
        assert!(message("something quite different").ends_with("`read` the file again."));
        assert!(message("   \n").contains("whitespace"));
        assert!(message("").contains("`old` is empty"));
    }

    #[test]
    fn changed_lines_are_shown_with_their_neighbours() {
        let content = "a\nb\nc\nd\ne\n";
        let shown = |old: &str, new: &str| replace(content.as_bytes(), old, new, false).unwrap().shown();
        assert_eq!(shown("c\n", "x\ny\n"), "2\tb\n3\tx\n4\ty\n5\td\n");
        assert_eq!(shown("c\n", ""), "2\tb\n3\td\n");
        assert_eq!(shown("a\nb\nc\nd\ne\n", ""), "[The file is empty now.]\n");
        assert_eq!(shown("e\n", "e"), "4\td\n5\te\n");
    }

    /// Lines of a Latin-1 file were said to differ in white space.
    #[test]
    fn a_file_that_is_not_utf_8_is_reported_as_such() {
        let content = b"caf\xe9 open\n";
        let problem = replace(content, "caf\u{e9} open", "closed", false).unwrap_err();
        assert!(problem.format_for_model("a.txt", content, "caf\u{e9} open").contains("is not UTF-8"));
        assert_eq!(replace(content, "open", "shut", false).unwrap().bytes, b"caf\xe9 shut\n");
    }
}
