//! The user's words between the first and the newest request, each message in its own, with the room shared evenly.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::super::facts::{Occasion, TodoList, UserWords, is_instruction};
use super::super::prose::{
    Pattern, Piece, PieceKind, any_of, concreteness, matches, overlap, pieces, sentences, shorten_ends,
    word_set,
};
use super::room::Written;
use crate::chars::{Chars, level};
use crate::pattern::Regex;
use crate::policy::SummaryPolicy;

/// What the user said in one message, made ready to be shortened to any length.
pub(super) struct Words {
    /// The words, paragraphs apart.
    text: String,
    /// The same without sentences that only praise.
    lean: String,
    /// The pieces of that, and in which order they are worth keeping.
    pieces: Vec<Piece>,
    scores: Vec<i32>,
    order: Vec<usize>,
    /// The message, if it is one of this history.
    source: Option<String>,
    /// The occasion on which it was said.
    pub(super) occasion: Occasion,
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
        Words::new(text, Some(words.source.to_string()), words.occasion, &open)
    }

    /// Words from an earlier summary, where they were shortened already.
    pub(super) fn earlier(text: &str) -> Words {
        let occasion = if text.starts_with("(asked: ") { Occasion::Answer } else { Occasion::Prompt };
        Words::new(text.to_owned(), None, occasion, &[])
    }

    fn new(text: String, source: Option<String>, occasion: Occasion, open: &[BTreeSet<String>]) -> Words {
        let lean = without_praise(&text);
        // An answer stays with its question, so it is not taken apart.
        let pieces: Vec<Piece> = match occasion {
            Occasion::Answer => Vec::new(),
            _ => pieces(&lean).into_iter().flat_map(clauses).collect(),
        };
        let scores = scores(&pieces, open);
        let mut order: Vec<usize> = (0..pieces.len()).collect();
        order.sort_by_key(|place| (Reverse(scores[*place]), *place));
        Words { text, lean, pieces, scores, order, source, occasion }
    }

    /// Length of the whole message in a summary.
    pub(super) fn chars(&self) -> Chars {
        length(&self.lean)
    }

    /// Returns the message in at most `limit` chars: whole, or its most important sentences.
    pub(super) fn shortened(&self, limit: Chars, policy: &SummaryPolicy) -> String {
        let mut picked = [self.pick(limit.share(policy.even_share).max(policy.min_words).min(limit), policy)];
        if self.chars() <= limit {
            return full_lines(&self.lean);
        }
        let used = picked[0].size();
        add_best(&mut picked, limit.saturating_sub(used), policy);
        picked[0].text()
    }

    /// The most telling sentences and lines that go into so many chars.
    fn pick(&self, limit: Chars, policy: &SummaryPolicy) -> Picked<'_> {
        if length(&self.lean) <= limit {
            return Picked { words: self, shown: Showing::Whole };
        }
        if self.pieces.len() < 2 {
            let words = self.lean.split_whitespace().collect::<Vec<_>>().join(" ");
            return Picked { words: self, shown: Showing::Cut(shorten_piece(&words, limit)) };
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
            let text = shorten_piece(&self.pieces[*place].text, room);
            left = left.saturating_sub(Chars::of(&text) + JOINT);
            chosen[*place] = Some(text);
        }
        Picked { words: self, shown: Showing::Pieces(chosen) }
    }
}

/// A sentence in at most so many chars. Where it has to be cut, the words that only lead it in go first.
fn shorten_piece(text: &str, limit: Chars) -> String {
    static LEADS: Pattern = Pattern::new(|| {
        Regex::new(
            r"(?i)^(?:(?:ok|okay|alright|hm+|so|well|wait|actually|great|nice|cool|dude|hey|hi|please|pls|just|also|now|and|i think|i guess|i want you to|i would like you to|i'd like you to|can you|could you)[\s,.!:]+)+",
        )
        .ok()
    });
    if Chars::of(text) <= limit {
        return text.to_owned();
    }
    let lead = LEADS.as_ref().and_then(|leads| leads.find(text)).map_or(0, |lead| lead.end());
    shorten_ends(if lead < text.len() { &text[lead..] } else { text }, limit)
}

/// A message as far as it is shown.
struct Picked<'a> {
    words: &'a Words,
    shown: Showing,
}

/// How much of a message is shown.
enum Showing {
    /// All of it, as it was written.
    Whole,
    /// The two ends of a text without seams.
    Cut(String),
    /// Some of its pieces, some of them shortened.
    Pieces(Vec<Option<String>>),
}

impl Picked<'_> {
    /// The chars it takes at most.
    fn size(&self) -> Chars {
        match &self.shown {
            Showing::Whole => length(&self.words.lean),
            Showing::Cut(text) => Chars::of(text),
            Showing::Pieces(chosen) => chosen.iter().flatten().map(|text| Chars::of(text) + JOINT).sum(),
        }
    }

    /// The text, in the message's own words and order.
    fn text(&self) -> String {
        match &self.shown {
            Showing::Whole => full_lines(&self.words.lean),
            Showing::Cut(text) => text.clone(),
            Showing::Pieces(chosen) => joined(&self.words.pieces, chosen),
        }
    }
}

/// Give `room` to the pieces of all messages that tell most, shown so far shortened or not at all. The more of one message
/// was taken, the less the next piece of it is worth.
fn add_best(picked: &mut [Picked], room: Chars, policy: &SummaryPolicy) {
    let count = picked.len();
    let mut taken = vec![0i32; count];
    // The length that a piece would be shown with. It is looked at again and again while pieces are chosen.
    let length = |piece: &Piece| Chars::of(&shorten_piece(&piece.text, policy.sentence_chars));
    let lengths: Vec<Vec<Chars>> = picked
        .iter()
        .map(|picked| match &picked.shown {
            Showing::Pieces(_) => picked.words.pieces.iter().map(length).collect(),
            Showing::Whole | Showing::Cut(_) => Vec::new(),
        })
        .collect();
    // What that costs beyond what is shown already.
    let cost_of = |at: usize, chosen: &[Option<String>], place: usize| {
        let shown = chosen[place].as_ref().map_or(Chars::ZERO, |text| Chars::of(text) + JOINT);
        (lengths[at][place] + JOINT).saturating_sub(shown)
    };
    let worth = |at: usize, place: usize, score: i32, cost: Chars, taken: &[i32]| {
        // The newer of two is the likelier to hold.
        let bonus = (NEWER * at / count.max(1)) as i32;
        let cost = i32::try_from(cost.0 / COST.0).unwrap_or(i32::MAX / 2);
        (score * 2 + bonus - taken[at] - cost, Reverse(at), Reverse(place))
    };
    let mut queue: BinaryHeap<(i32, Reverse<usize>, Reverse<usize>)> = BinaryHeap::new();
    for (at, picked) in picked.iter().enumerate() {
        let Showing::Pieces(chosen) = &picked.shown else { continue };
        let pieces = picked.words.pieces.iter().zip(chosen).enumerate();
        let missing = pieces.filter(|(_, (piece, text))| text.as_ref() != Some(&piece.text));
        queue.extend(missing.map(|(place, _)| {
            let cost = cost_of(at, chosen, place);
            worth(at, place, picked.words.scores[place], cost, &taken)
        }));
    }
    let mut left = room;
    while let Some(best) = queue.pop() {
        let (_, Reverse(at), Reverse(place)) = best;
        let Picked { words, shown: Showing::Pieces(chosen) } = &mut picked[at] else { continue };
        let cost = cost_of(at, chosen, place);
        let now = worth(at, place, words.scores[place], cost, &taken);
        if now < best {
            queue.push(now);
            continue;
        }
        if cost > left {
            if left < SHORTEST {
                break;
            }
            continue;
        }
        left = left.saturating_sub(cost);
        taken[at] += 1;
        chosen[place] = Some(shorten_piece(&words.pieces[place].text, policy.sentence_chars));
    }
}

/// Most that a piece of a newer message is worth more than one of an older.
const NEWER: usize = 3;
/// So many chars cost as much as a step of worth: completing what is nearly there comes first.
const COST: Chars = Chars(60);

/// A long sentence at the seams between its clauses: people who dictate hardly end one, and of a text without seams only
/// the ends could be shown.
fn clauses(piece: Piece) -> Vec<Piece> {
    static SEAM: Pattern = Pattern::new(|| {
        Regex::new(r"(?i)[,;:] | (?:- |– |— )| (?:and|then|but|so|because|also|which|while) |[，；：、]").ok()
    });
    let Some(seam) = SEAM.as_ref().filter(|_| Chars::of(&piece.text) > LONG_SENTENCE) else {
        return vec![piece];
    };
    let mut found = Vec::new();
    let mut start = 0;
    for at in seam.find_iter(&piece.text) {
        // Punctuation stays with what it ends, a conjunction with what it begins.
        let end = if at.as_str().starts_with(' ') { at.start() } else { at.end() };
        if Chars::of(&piece.text[start..end]) >= CLAUSE {
            found.push(&piece.text[start..end]);
            start = end;
        }
    }
    found.push(&piece.text[start..]);
    let kind = |place: usize| if place == 0 { piece.kind } else { PieceKind::Sentence };
    let pieces = found.into_iter().enumerate().map(|(place, text)| Piece {
        text: text.trim().to_owned(),
        kind: kind(place),
        section: piece.section,
    });
    pieces.filter(|piece| !piece.text.is_empty()).collect()
}

/// A sentence from this length on is taken apart,
const LONG_SENTENCE: Chars = Chars(200);
/// but not into clauses shorter than this.
const CLAUSE: Chars = Chars(60);

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
    let room = room.saturating_sub(Chars::of(&gap) + Chars(1));
    let whole: Chars = shown.places.iter().map(|place| length(&words[*place].lean) + BULLET).sum();
    let even = if whole <= room { room } else { room.share(policy.even_share) };
    let rooms = rooms(words, &shown.places, even);
    let places = shown.places.iter().zip(rooms);
    let mut picked: Vec<Picked> = places.map(|(place, room)| words[*place].pick(room, policy)).collect();
    let used: Chars = picked.iter().map(|picked| picked.size() + BULLET).sum();
    add_best(&mut picked, room.saturating_sub(used), policy);
    let texts = picked.iter().map(Picked::text).filter(|text| !text.is_empty()).map(|text| bullet(&text));
    let lines: Vec<String> = (!gap.is_empty()).then_some(gap).into_iter().chain(texts).collect();
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

/// The room of each message shown: what it needs, or the same level for all.
fn rooms(words: &[Words], places: &[usize], room: Chars) -> Vec<Chars> {
    let needs: Vec<Chars> = places.iter().map(|place| length(&words[*place].lean) + BULLET).collect();
    let level = level(needs.iter().copied(), room);
    needs.into_iter().map(|need| need.min(level).saturating_sub(BULLET)).collect()
}

/// Which messages are shown.
struct Shown {
    places: Vec<usize>,
    /// The first and the last message that is not, and how many are not.
    missing: Option<(Option<String>, Option<String>, usize)>,
}

impl Shown {
    /// All, unless each would get less than is worth showing. Then the newest.
    fn choose(words: &[Words], room: Chars, policy: &SummaryPolicy) -> Shown {
        let least = policy.min_words + BULLET;
        let cost = |place: usize| (length(&words[place].lean) + BULLET).min(least);
        if (0..words.len()).map(cost).sum::<Chars>() <= room {
            return Shown { places: (0..words.len()).collect(), missing: None };
        }
        let longest = words.iter().filter_map(|words| words.source.as_ref()).map(|id| Chars::of(id)).max();
        let longest = longest.unwrap_or_default();
        let mut left = room.saturating_sub(Chars(80) + longest + longest);
        let mut start = words.len();
        while start > 0 && cost(start - 1) <= left {
            start -= 1;
            left = left.saturating_sub(cost(start));
        }
        let missing = &words[..start];
        let first = missing.iter().find_map(|words| words.source.clone());
        let last = missing.iter().rev().find_map(|words| words.source.clone());
        Shown { places: (start..words.len()).collect(), missing: Some((first, last, start)) }
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
    let (mut missing, mut after_item) = (false, false);
    for (piece, text) in pieces.iter().zip(chosen) {
        let Some(text) = text.as_ref().filter(|text| !text.is_empty()) else {
            missing = true;
            continue;
        };
        if !out.is_empty() {
            if missing && !out.ends_with('…') {
                out.push_str(" …");
            }
            let goes_on = piece.kind == PieceKind::Sentence && !after_item;
            out.push(if goes_on { ' ' } else { '\n' });
        }
        (missing, after_item) = (false, piece.kind == PieceKind::Item);
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
    static SETTLED: Pattern = Pattern::new(|| {
        Regex::new(r"^(?:\d+[.)] )?[\p{L}][\p{L}\p{N} /_-]{1,24}: \S|\S (?:->|→|=>) \S").ok()
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
        let structure = i32::from(piece.kind != PieceKind::Sentence) + i32::from(numbered);
        // A sentence with several such words tells how things are to be done.
        let rules = RULES.as_ref().map_or(0, |rules| rules.find_iter(text).take(3).count());
        // The words above are English ones; instructions are told in more languages.
        let rules = if rules == 0 && is_instruction(text) { 2 } else { rules };
        let asked =
            i32::try_from(rules).unwrap_or(0) + i32::from(rules > 0) + i32::from(matches(&WISHES, text));
        let concrete = i32::try_from(concreteness(text).min(2)).unwrap_or(0);
        // "Backend: FastAPI", "tools -> core/tools": a line that settles one thing.
        let settles = i32::from(matches(&SETTLED, text)) * 2;
        let open = i32::from(piece.section > 0 && wanted.contains(&piece.section)) * 2;
        let pasted = i32::from(text.contains("more lines pasted")) * 4;
        ends + structure + asked + concrete + settles + open - pasted
    };
    let mut scores: Vec<i32> = pieces.iter().enumerate().map(score).collect();
    // Without the line that leads it in, a list can say the opposite: "you may not:" and what then follows.
    let mut best = None;
    for place in (0..pieces.len()).rev() {
        if pieces[place].text.ends_with([':', '：']) {
            scores[place] = scores[place].max(best.take().unwrap_or(0) + 1);
        } else if pieces[place].kind == PieceKind::Item {
            best = best.max(Some(scores[place]));
        } else {
            best = None;
        }
    }
    scores
}

/// A piece that shares this much of its words with a todo speaks of it.
const ABOUT: f64 = 0.6;
