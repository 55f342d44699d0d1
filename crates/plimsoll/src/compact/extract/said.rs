//! The user's words, each message in its own, with the room shared evenly.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::super::facts::{Occasion, TodoList, UserWords};
use super::super::prose::{
    Pattern, Piece, PieceKind, any_of, concreteness, matches, overlap, pieces, sentences, shorten, word_set,
};
use super::room::Written;
use crate::chars::Chars;
use crate::policy::SummaryPolicy;

/// What the user said in one message, made ready to be shortened to any length.
pub(super) struct Words {
    /// The words, paragraphs apart.
    text: String,
    /// The same without sentences that only praise.
    lean: String,
    /// The pieces of that, and in which order they are worth keeping.
    pieces: Vec<Piece>,
    order: Vec<usize>,
    /// The message, if it is one of this history.
    source: Option<String>,
}

impl Words {
    /// The words of a message. What the open todos speak of is worth more.
    pub(super) fn of(words: &UserWords, todos: Option<&TodoList>) -> Words {
        let open: Vec<BTreeSet<String>> =
            todos.into_iter().flat_map(TodoList::open).map(|todo| word_set(&todo.text)).collect();
        let text = match words.occasion {
            Occasion::Interjection => format!("(while the agent worked) {}", words.text),
            Occasion::Prompt | Occasion::Answer | Occasion::Refusal => words.text.clone(),
        };
        Words::new(text, Some(words.source.to_string()), &open)
    }

    /// Words from an earlier summary, where they were shortened already.
    pub(super) fn earlier(text: &str) -> Words {
        Words::new(text.to_owned(), None, &[])
    }

    fn new(text: String, source: Option<String>, open: &[BTreeSet<String>]) -> Words {
        let lean = without_praise(&text);
        let pieces = pieces(&lean);
        let scores = scores(&pieces, open);
        let mut order: Vec<usize> = (0..pieces.len()).collect();
        order.sort_by_key(|place| (Reverse(scores[*place]), *place));
        Words { text, lean, pieces, order, source }
    }

    /// The message in at most so many chars: its most telling sentences and lines, in order, in its own words.
    fn condense(&self, limit: Chars, policy: &SummaryPolicy) -> String {
        if length(&self.lean) <= limit {
            return full_lines(&self.lean);
        }
        if self.pieces.len() < 2 {
            return shorten(&self.lean.split_whitespace().collect::<Vec<_>>().join(" "), limit);
        }
        // One sentence whole says more than the beginnings of two.
        let cap = limit.share(0.5).max(WHOLE).min(policy.sentence_chars);
        let mut chosen: Vec<Option<String>> = vec![None; self.pieces.len()];
        let mut left = limit;
        for place in &self.order {
            let room = left.saturating_sub(JOINT).min(cap);
            if room < SHORTEST {
                break;
            }
            let text = shorten(&self.pieces[*place].text, room);
            left = left.saturating_sub(Chars::of(&text) + JOINT);
            chosen[*place] = Some(text);
        }
        joined(&self.pieces, &chosen)
    }
}

/// A mark, a space and a line end.
const BULLET: Chars = Chars(3);
/// What stands between two pieces at most: an ellipsis, and a line end with its indent.
const JOINT: Chars = Chars(5);
/// Less of a sentence says nothing.
const SHORTEST: Chars = Chars(24);
/// A sentence up to this length is not shortened to make room for another.
const WHOLE: Chars = Chars(120);

/// Write what the user said, oldest first.
pub(super) fn write(words: &[Words], room: Chars, policy: &SummaryPolicy) -> Written {
    if words.is_empty() {
        return Written::nothing();
    }
    if room < policy.min_words {
        return Written::no_room();
    }
    let all: Chars = words.iter().map(|words| length(&words.text) + BULLET).sum();
    if all <= room {
        let lines = words.iter().map(|words| bullet(&full_lines(&words.text)));
        return Written { text: lines.collect::<Vec<_>>().join("\n"), complete: true };
    }
    let shown = Shown::choose(words, room, policy);
    let gap = shown.gap();
    let rooms = rooms(words, &shown.places, room.saturating_sub(Chars::of(&gap) + Chars(1)), policy);
    let mut lines = Vec::new();
    for (at, (place, room)) in shown.places.iter().zip(rooms).enumerate() {
        if at == 1 && !gap.is_empty() {
            lines.push(gap.clone());
        }
        let text = words[*place].condense(room, policy);
        if !text.is_empty() {
            lines.push(bullet(&text));
        }
    }
    Written { text: lines.join("\n"), complete: false }
}

fn bullet(text: &str) -> String {
    format!("- {}", text.replace('\n', "\n  "))
}

fn full_lines(text: &str) -> String {
    text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The length of a text as it is shown whole: without empty lines, the others indented.
fn length(text: &str) -> Chars {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| Chars::of(line) + Chars(3)).sum::<Chars>().saturating_sub(Chars(3))
}

/// The room of each message shown: what it needs, or the same level for all; the first and the newest get more.
fn rooms(words: &[Words], places: &[usize], room: Chars, policy: &SummaryPolicy) -> Vec<Chars> {
    let needs: Vec<(Chars, f64)> = places
        .iter()
        .map(|place| {
            let at_an_end = *place == 0 || place + 1 == words.len();
            (length(&words[*place].lean) + BULLET, if at_an_end { policy.ends_weight } else { 1.0 })
        })
        .collect();
    let given = |level: Chars| needs.iter().map(move |(need, weight)| level.share(*weight).min(*need));
    // The highest level at which all of them together fit, found by halving.
    let (mut low, mut high) = (Chars::ZERO, room);
    while low < high {
        let middle = Chars(low.0 + (high.0 - low.0).div_ceil(2));
        if given(middle).sum::<Chars>() <= room {
            low = middle;
        } else {
            high = Chars(middle.0 - 1);
        }
    }
    given(low).map(|room| room.saturating_sub(BULLET)).collect()
}

/// Which messages are shown.
struct Shown {
    places: Vec<usize>,
    /// The first and the last message that is not, and how many are not.
    missing: Option<(Option<String>, Option<String>, usize)>,
}

impl Shown {
    /// All, unless each would get less than is worth showing. Then the first, which says what it is all about, and the
    /// newest.
    fn choose(words: &[Words], room: Chars, policy: &SummaryPolicy) -> Shown {
        let least = policy.min_words + BULLET;
        let cost = |place: usize| (length(&words[place].lean) + BULLET).min(least);
        if (0..words.len()).map(cost).sum::<Chars>() <= room {
            return Shown { places: (0..words.len()).collect(), missing: None };
        }
        let longest = words.iter().filter_map(|words| words.source.as_ref()).map(|id| Chars::of(id)).max();
        let mut left = room
            .saturating_sub(cost(0) + Chars(80) + longest.unwrap_or_default() + longest.unwrap_or_default());
        let mut start = words.len();
        while start > 1 && cost(start - 1) <= left {
            start -= 1;
            left = left.saturating_sub(cost(start));
        }
        let missing = (start > 1).then(|| {
            let missing = &words[1..start];
            let first = missing.iter().find_map(|words| words.source.clone());
            let last = missing.iter().rev().find_map(|words| words.source.clone());
            (first, last, missing.len())
        });
        Shown { places: std::iter::once(0).chain(start..words.len()).collect(), missing }
    }

    /// The line that names what is missing, so that it can be recalled.
    fn gap(&self) -> String {
        match &self.missing {
            None => String::new(),
            Some((Some(first), Some(last), count)) if *count > 1 => {
                format!("- ({count} messages from `{first}` to `{last}` are left out; recall them)")
            }
            Some((Some(one), _, _) | (_, Some(one), _)) => {
                format!("- (message `{one}` is left out; recall it)")
            }
            Some((None, None, count)) => format!("- ({count} older messages are left out)"),
        }
    }
}

/// Chosen pieces in their order, an ellipsis where something is missing between them.
fn joined(pieces: &[Piece], chosen: &[Option<String>]) -> String {
    let mut out = String::new();
    let mut missing = false;
    for (piece, text) in pieces.iter().zip(chosen) {
        let Some(text) = text.as_ref().filter(|text| !text.is_empty()) else {
            missing = true;
            continue;
        };
        if !out.is_empty() {
            if missing && !out.ends_with('…') {
                out.push_str(" …");
            }
            out.push(if piece.kind == PieceKind::Sentence { ' ' } else { '\n' });
        }
        missing = false;
        out.push_str(text);
    }
    if missing && !out.is_empty() && !out.ends_with('…') {
        out.push_str(" …");
    }
    out
}

/// A text without sentences that only praise, unless there are no others.
fn without_praise(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let kept: Vec<&str> = sentences(line).into_iter().filter(|sentence| !is_praise(sentence)).collect();
        if !kept.is_empty() || line.is_empty() {
            let indent = &line[..line.len() - line.trim_start().len()];
            lines.push(format!("{indent}{}", kept.join(" ")));
        }
    }
    let lean = lines.join("\n").trim().to_owned();
    if lean.is_empty() { text.to_owned() } else { lean }
}

/// Whether a sentence says that something is good and asks for nothing.
fn is_praise(sentence: &str) -> bool {
    static PRAISE: Pattern = Pattern::new(|| {
        any_of(&[
            "looks good",
            "looks great",
            "looks excellent",
            "is excellent",
            "great",
            "nice",
            "perfect",
            "awesome",
            "thanks",
            "thank you",
            "amazing",
            "excellent",
            "love it",
            "good job",
            "well done",
            "looks clean",
            "exactly the",
            "exactly what",
            "spot on",
        ])
    });
    static WISHES: Pattern = Pattern::new(|| {
        any_of(&[
            "please",
            "can you",
            "could you",
            "want",
            "need",
            "needs",
            "should",
            "but",
            "add",
            "fix",
            "make",
            "use",
            "change",
            "create",
            "update",
            "remove",
            "don't",
            "not",
            "now",
            "then",
            "let's",
            "proceed",
            "next",
        ])
    });
    matches(&PRAISE, sentence) && !matches(&WISHES, sentence) && !sentence.contains('?')
}

/// How much each piece of a message tells of what is wanted.
fn scores(pieces: &[Piece], open: &[BTreeSet<String>]) -> Vec<i32> {
    static RULES: Pattern = Pattern::new(|| {
        any_of(&[
            "must",
            "never",
            "always",
            "do not",
            "don't",
            "dont",
            "only",
            "not",
            "no",
            "make sure",
            "ensure",
            "instead",
            "from now on",
            "exactly",
            "without",
            "required",
            "before",
            "after",
            "until",
            "one at a time",
            "step by step",
            "in order",
            "pause",
            "wait for",
            "ask me",
            "my review",
            "commit",
            "each",
            "every",
            "prefer",
        ])
    });
    static WISHES: Pattern = Pattern::new(|| {
        any_of(&[
            "please",
            "can you",
            "could you",
            "i want",
            "want",
            "need",
            "needs",
            "should",
            "add",
            "fix",
            "make",
            "use",
            "change",
            "create",
            "update",
            "remove",
            "implement",
            "write",
            "build",
            "run",
            "move",
            "rename",
            "keep",
            "let's",
            "lets",
            "proceed",
            "why",
            "how",
        ])
    });
    // The sections of the message that an open task speaks of.
    let is_open = |piece: &&Piece| {
        let words = word_set(&piece.text);
        open.iter().any(|todo| todo.len() > 1 && overlap(todo, &words) >= ABOUT)
    };
    let wanted: BTreeSet<usize> = match open.is_empty() {
        true => BTreeSet::new(),
        false => pieces.iter().filter(is_open).map(|piece| piece.section).collect(),
    };
    let last = pieces.len().saturating_sub(1);
    let score = |(place, piece): (usize, &Piece)| {
        let text = &piece.text;
        let ends = match place {
            0 => 4,
            _ if place == last => 3,
            1 => 1,
            _ => 0,
        };
        let numbered = text.starts_with(|c: char| c.is_ascii_digit());
        let structure = i32::from(piece.kind == PieceKind::Heading || numbered) * 2;
        // A sentence with several such words tells how things are to be done.
        let rules = RULES.as_ref().map_or(0, |rules| rules.find_iter(text).take(3).count());
        let asked =
            i32::try_from(rules).unwrap_or(0) + i32::from(rules > 0) + i32::from(matches(&WISHES, text));
        let concrete = i32::from(concreteness(text) > 0);
        let open = i32::from(piece.section > 0 && wanted.contains(&piece.section)) * 2;
        let pasted = i32::from(text.contains("more lines pasted")) * 4;
        ends + structure + asked + concrete + open - pasted
    };
    pieces.iter().enumerate().map(score).collect()
}

/// A piece that shares this much of its words with a todo speaks of it.
const ABOUT: f64 = 0.6;
