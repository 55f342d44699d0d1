//! Splits prose into sentences and list items, and shortens it.
//!
//! Users and models mostly write Markdown, hard-wrapped or not, in any language. Nothing here understands the text. It
//! only finds boundaries at which the text can be split into complete statements.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::chars::{Chars, head, tail};
use crate::pattern::Regex;
use crate::work;

/// A piece of a text that is understandable without the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The text on one line, without Markdown markup.
    pub(crate) text: String,
    /// Kind of piece.
    pub(crate) kind: PieceKind,
    /// Number of headings and numbered items that precede it. Pieces with the same number belong together.
    pub(crate) section: usize,
}

/// Kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// A heading.
    Heading,
    /// An item of a list or a row of a table.
    Item,
    /// A sentence, or a separate line.
    Sentence,
}

/// Minimum length in bytes of a line that counts as wrapped: unless it ends a sentence, the next line continues it.
const WRAPPED: usize = 60;

/// Maximum length of a piece in bytes. A longer line without a boundary is data, such as base64 or minified code. On
/// it, patterns that try every position would take quadratic time.
const LONGEST_PIECE: usize = 2_000;
/// Maximum length in bytes of a word that is searched for names, for the same reason.
const LONGEST_WORD: usize = 200;

/// Maximum number of lines that are split, half of them from each end of a text, because prose is usually at its ends.
const MAX_LINES: usize = 4_000;

/// Splits a text into pieces, without code blocks, horizontal rules and empty lines.
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    let mut splitter = Splitter::default();
    let lines = work::read(text).lines().count();
    let left_out = if lines > MAX_LINES { MAX_LINES / 2..lines - MAX_LINES / 2 } else { 0..0 };
    for (number, line) in work::read(text).lines().enumerate() {
        if left_out.contains(&number) {
            splitter.flush();
        } else {
            splitter.line(line);
        }
    }
    splitter.flush();
    splitter.pieces
}

#[derive(Default)]
struct Splitter {
    pieces: Vec<Piece>,
    /// The item or paragraph being read.
    open: Option<(PieceKind, String)>,
    in_code: bool,
    section: usize,
}

impl Splitter {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            self.flush();
            self.in_code = !self.in_code;
            return;
        }
        if self.in_code {
            return;
        }
        if trimmed.is_empty() || is_rule(trimmed) || is_tag(trimmed) {
            self.flush();
        } else if let Some(heading) = heading(trimmed) {
            self.flush();
            self.section += 1;
            self.push(PieceKind::Heading, heading);
        } else if trimmed.starts_with('|') {
            self.flush();
            let cells: Vec<&str> =
                trimmed.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
            if !cells.iter().all(|cell| is_rule(cell)) {
                self.push(PieceKind::Item, &cells.join(" | "));
            }
        } else if let Some(item) = list_item(trimmed) {
            self.flush();
            if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                self.section += 1;
            }
            self.open = Some((PieceKind::Item, item.to_owned()));
        } else {
            match &mut self.open {
                Some((_, open)) if continues(open) => {
                    open.push(' ');
                    open.push_str(trimmed);
                }
                _ => {
                    self.flush();
                    self.open = Some((PieceKind::Sentence, trimmed.to_owned()));
                }
            }
        }
    }

    fn flush(&mut self) {
        let Some((kind, text)) = self.open.take() else { return };
        for sentence in sentences(&text) {
            self.push(kind, sentence);
        }
    }

    fn push(&mut self, kind: PieceKind, text: &str) {
        let text = plain(&bounded(text));
        if text.chars().any(char::is_alphanumeric) {
            self.pieces.push(Piece { text, kind, section: self.section });
        }
    }
}

/// Both ends of a text that is too long for a piece.
pub(crate) fn bounded(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_PIECE {
        return Cow::Borrowed(text);
    }
    let half = Chars(LONGEST_PIECE as u64 / 2);
    Cow::Owned(format!("{} … {}", head(text, half), tail(text, half)))
}

/// Whether the next line continues this one: it is long and does not end a sentence.
fn continues(line: &str) -> bool {
    line.len() >= WRAPPED && !line.ends_with(['.', '!', '?', ':', ';', '。', '！', '？', '；'])
}

fn is_rule(line: &str) -> bool {
    line.len() >= 2 && line.chars().all(|c| matches!(c, '-' | '=' | '*' | '_' | ':' | ' ' | '─' | '═'))
}

/// Whether a line is only a tag, like those that hosts put around plans.
fn is_tag(line: &str) -> bool {
    line.starts_with('<') && line.ends_with('>') && !line[1..].contains('<') && !line.contains(' ')
}

fn heading(line: &str) -> Option<&str> {
    let inner = line.trim_start_matches('#');
    if inner.len() < line.len() && inner.starts_with(' ') {
        return Some(inner.trim());
    }
    // A line that is bold as a whole.
    let bold = line.strip_prefix("**")?.trim_end_matches(':').strip_suffix("**")?;
    (!bold.contains("**")).then_some(bold)
}

/// The text of a list item without its bullet.
fn list_item(line: &str) -> Option<&str> {
    let mark = line.strip_prefix(['-', '*', '•', '+', '–', '▸', '✓', '✅', '❌', '→']);
    if let Some(rest) = mark.filter(|rest| rest.starts_with(' ') || rest.starts_with('\t')) {
        let rest = rest.trim_start();
        let boxes = ["[ ] ", "[x] ", "[X] "];
        return Some(boxes.iter().find_map(|mark| rest.strip_prefix(mark)).unwrap_or(rest));
    }
    // The number stays: users refer to items by it.
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(digits..)?;
    let marked = (1..=3).contains(&digits) && (rest.starts_with(". ") || rest.starts_with(") "));
    marked.then_some(line)
}

/// Splits a line into sentences. A full stop ends one only before white space, so that names and numbers stay whole.
pub(crate) fn sentences(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = work::read(line).char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' => {
                next.is_none_or(char::is_whitespace)
                    && !is_abbreviation(&line[start..at], c)
                    && !(line[..at].ends_with("..") && continues_in_lower_case(&line[at + 1..]))
            }
            _ => false,
        };
        if ends {
            let end = at + c.len_utf8();
            found.push(line[start..end].trim());
            start = end;
        }
    }
    found.push(line[start..].trim());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Whether a text continues in lower case, so that the dots before it do not end a sentence: `./... succeeds`.
fn continues_in_lower_case(rest: &str) -> bool {
    rest.trim_start().starts_with(char::is_lowercase)
}

/// Whether the full stop after these words belongs to the last word: `e.g.`, `vs.`, the number of an item.
fn is_abbreviation(before: &str, stop: char) -> bool {
    const SHORT: [&str; 14] =
        ["e.g", "i.e", "vs", "etc", "cf", "no", "approx", "mr", "dr", "st", "ca", "z.b", "p.ej", "eg"];
    if stop != '.' {
        return false;
    }
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(['(', '"', '\'', '*']).to_lowercase();
    SHORT.contains(&word.as_str())
        || word.chars().count() == 1
        || before.trim().chars().all(|c| c.is_ascii_digit())
}

/// A text on one line, without emphasis and link targets.
pub(crate) fn plain(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let joined = joined.replace("**", "");
    if !joined.contains("](") {
        return joined;
    }
    let mut out = String::with_capacity(joined.len());
    let mut rest = joined.as_str();
    // Each search starts where the last one ended, so that unclosed brackets do not take quadratic time.
    while let Some(middle) = work::find(rest, "](") {
        let target = middle + 2;
        let Some(end) = work::find(&rest[target..], ")") else { break };
        match work::read(&rest[..middle]).rfind('[').filter(|open| open + 1 < middle) {
            Some(open) => {
                out.push_str(&rest[..open]);
                out.push_str(&rest[open + 1..middle]);
                rest = &rest[target + end + 1..];
            }
            None => {
                out.push_str(&rest[..target]);
                rest = &rest[target..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The beginning of a text, cut between words, with an ellipsis if something is missing.
pub(crate) fn shorten(text: &str, limit: Chars) -> String {
    if Chars::of(text) <= limit {
        return text.to_owned();
    }
    let first = head(text, limit.saturating_sub(Chars(1)));
    // A word is cut only if there is no space nearby, as in scripts without spaces.
    let word = first.rfind(char::is_whitespace).filter(|at| *at > first.len() / 2);
    let first =
        first[..word.unwrap_or(first.len())].trim_end_matches([' ', ',', ';', ':', '-', '(', '"', '\n']);
    if first.is_empty() { String::new() } else { format!("{first}…") }
}

/// The end of a text, cut between words, with an ellipsis if something is missing.
pub(crate) fn shorten_front(text: &str, limit: Chars) -> String {
    if Chars::of(text) <= limit {
        return text.to_owned();
    }
    let last = tail(text, limit.saturating_sub(Chars(1)));
    let word = last.find(char::is_whitespace).filter(|at| *at < last.len() / 2);
    let last = last[word.unwrap_or(0)..].trim_start();
    if last.is_empty() { String::new() } else { format!("…{last}") }
}

/// Both ends of a text, cut between words: the conclusion of a long sentence is as often at its end as at its
/// beginning.
pub(crate) fn shorten_ends(text: &str, limit: Chars) -> String {
    if Chars::of(text) <= limit || limit < TWO_ENDS {
        return shorten(text, limit);
    }
    let first = shorten(text, limit.share(0.6));
    let last = shorten_front(text, limit.saturating_sub(Chars::of(&first)));
    format!("{first} {}", last.trim_start_matches('…').trim_start())
}

/// Minimum limit at which both ends are shown. In less room, neither end says anything.
const TWO_ENDS: Chars = Chars(60);

/// A text normalised for comparison: lower case, white space collapsed.
pub(crate) fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The distinct words of a text with at least three bytes, for detecting repetitions.
pub(crate) fn word_set(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut set: BTreeSet<String> =
        words.filter(|word| word.len() >= 3).map(|word| word.to_lowercase()).collect();
    if set.is_empty() {
        set.insert(normal(text));
    }
    set
}

/// Share of the smaller set that is in the other one.
pub(crate) fn overlap(one: &BTreeSet<String>, other: &BTreeSet<String>) -> f64 {
    work::count(one.len().min(other.len()));
    let (small, large) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let shared = small.iter().filter(|word| large.contains(*word)).count();
    shared as f64 / small.len().max(1) as f64
}

/// A pattern that is compiled once. A pattern that does not compile matches nothing; tests check that all compile.
pub(crate) type Pattern = LazyLock<Option<Regex>>;

/// Whether the pattern occurs in the text.
pub(crate) fn matches(pattern: &Pattern, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// Returns a case-insensitive pattern for any of these words or phrases, as whole words.
pub(crate) fn any_of(list: &str) -> Option<Regex> {
    let words: Vec<String> = words_of(list).map(regex::escape).collect();
    // A pattern without words would match everywhere.
    if words.is_empty() {
        return None;
    }
    Regex::new(&format!(r"(?i)(?:^|[^\p{{L}}\p{{N}}])(?:{})(?:$|[^\p{{L}}\p{{N}}])", words.join("|"))).ok()
}

/// Returns the words of a list in `words/`: one a line; empty lines and those that begin with `#` are skipped.
pub(crate) fn words_of(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Joins the regular expressions of a list in `words/` into alternatives, tried in the order of the list.
pub(crate) fn patterns_of(list: &str) -> String {
    words_of(list).collect::<Vec<_>>().join("|")
}

/// A list in `words/` of plain words, not patterns.
pub(crate) type WordList = LazyLock<Vec<&'static str>>;

/// Number of distinct concrete things that a sentence names. All figures together count as one, because a list of
/// figures only says that something was counted.
pub(crate) fn concreteness(text: &str) -> usize {
    let found: BTreeSet<&str> = names(text).into_iter().collect();
    let (named, figures): (Vec<&str>, Vec<&str>) =
        found.into_iter().partition(|name| name.chars().any(char::is_alphabetic));
    named.len() + figures.len().min(1)
}

/// The concrete things that a sentence names, in order: files, code, figures, addresses, identifiers.
pub(crate) fn names(text: &str) -> Vec<&str> {
    static NAMES: Pattern = Pattern::new(|| {
        Regex::new(
            r"(?x) `[^`]+` | https?://\S+ | [\w.-]*[\w-]/[\w./-]*\w | \b[\w-]+\.[a-z]{1,5}\b
            | \b[a-z0-9]+_[a-z0-9_]+\b | \b[A-Za-z]+[a-z][A-Z]\w* | \b[A-Z][A-Z0-9]+_[A-Z0-9_]+\b
            | \b[A-Z]{1,6}-?\d+\b | [$€\#]?\d[\d,.]*\d%? | \d% ",
        )
        .ok()
    });
    let Some(names) = NAMES.as_ref() else { return Vec::new() };
    without_long_words(text).flat_map(|text| names.find_iter(text)).map(|name| name.as_str()).collect()
}

/// The stretches of a text between words that are too long to be names.
fn without_long_words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = work::read(text);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let stretch = rest;
        let mut start = 0;
        for word in stretch.split_inclusive(char::is_whitespace) {
            if word.len() > LONGEST_WORD {
                rest = &stretch[start + word.len()..];
                return Some(&stretch[..start]);
            }
            start += word.len();
        }
        rest = "";
        Some(stretch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        pieces(text).into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn text_is_split_into_sentences_and_items() {
        let text = "# Title\n\nA first sentence, e.g. of `v1.2`. A second one?\n\n- **one** item\n  that is short\n2. two\n\n\
                    | a | b |\n|---|---|\n| c | d |\n```rust\nlet x = 1;\n```\n---\n最初の文。次の文。";
        let expected = [
            "Title",
            "A first sentence, e.g. of `v1.2`.",
            "A second one?",
            "one item",
            "that is short",
            "2. two",
            "a | b",
            "c | d",
            "最初の文。",
            "次の文。",
        ];
        assert_eq!(texts(text), expected);
    }

    #[test]
    fn wrapped_lines_are_joined_and_short_lines_are_not() {
        let wrapped = "This line was wrapped by an editor at about eighty columns and so\nit goes on here.";
        assert_eq!(texts(wrapped).len(), 1);
        assert_eq!(texts("green is #b5bd68\nred is #283228"), ["green is #b5bd68", "red is #283228"]);
    }

    #[test]
    fn links_keep_their_text() {
        assert_eq!(
            plain("see [`a.rs`](src/a.rs) and **[docs](https://x.org/d)** [x]"),
            "see `a.rs` and docs [x]"
        );
        assert_eq!(plain("an [open ] bracket ](x"), "an [open ] bracket ](x");
    }

    #[test]
    fn shortening_cuts_between_words_and_never_exceeds_the_limit() {
        assert_eq!(shorten("one two three", Chars(9)), "one two…");
        assert_eq!(shorten("one", Chars(3)), "one");
        assert_eq!(shorten_front("one two three", Chars(9)), "…three");
        assert_eq!(shorten("日本語の長い文章", Chars(4)), "日本語…");
        for limit in 0..20 {
            for text in ["one two three four", "🚢🚢🚢🚢🚢🚢", "aaaaaaaaaaaaaaaaaaaaaaaaaa"] {
                assert!(Chars::of(&shorten(text, Chars(limit))) <= Chars(limit));
                assert!(Chars::of(&shorten_front(text, Chars(limit))) <= Chars(limit));
            }
        }
        let text = "the beginning of it all ".repeat(9) + "and the end";
        for limit in 0..300 {
            let ends = shorten_ends(&text, Chars(limit));
            assert!(Chars::of(&ends) <= Chars(limit), "{limit}: {ends}");
            assert!(limit < 70 || ends.starts_with("the beginning") && ends.ends_with("the end"), "{ends}");
        }
    }

    #[test]
    fn names_and_figures_are_concrete() {
        assert_eq!(concreteness("Everything is fine now"), 0);
        assert!(concreteness("The cause was `read_all` in src/log.rs, 42 calls") >= 3);
        assert!(concreteness("FW-005 needs ZERION_API_KEY") >= 2);
    }
}
