//! The section with the user's messages between the first and the newest request, in the user's own words.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::room::Written;
use crate::chars::{Chars, level};
use crate::facts::{TodoList, UserTextKind, UserWords, is_instruction};
use crate::pattern::Regex;
use crate::policy::SummaryPolicy;
use crate::prose::{
    Pattern, Piece, PieceKind, any_of, concreteness, matches, overlap, patterns_of, pieces, sentences,
    shorten_ends, word_set,
};

/// The text of one message of the user, prepared to be shortened to any length.
pub(super) struct Words {
    /// The text, with paragraphs.
    text: String,
    /// The text without sentences that only praise.
    lean: String,
    /// Pieces of the lean text, their scores, and their positions by score.
    pieces: Vec<Piece>,
    scores: Vec<i32>,
    order: Vec<usize>,
    /// Id of the message. `None` if it comes from an earlier summary.
    source: Option<String>,
    /// Kind of the message.
    pub(super) kind: UserTextKind,
}

impl Words {
    /// Takes the text of a message. Pieces about open todos get a higher score.
    pub(super) fn of(words: &UserWords, todos: Option<&TodoList>) -> Words {
        let open: Vec<BTreeSet<String>> =
            todos.into_iter().flat_map(TodoList::open).map(|todo| word_set(&todo.text)).collect();
        let text = match words.kind {
            UserTextKind::Interjection => format!("(while the agent worked) {}", words.text),
            UserTextKind::Prompt | UserTextKind::Answer | UserTextKind::Refusal => words.text.clone(),
        };
        Words::new(text, Some(words.source.to_string()), words.kind, &open)
    }

    /// Takes a text from an earlier summary, which may already be shortened.
    pub(super) fn earlier(text: &str) -> Words {
        let kind = if text.starts_with("(asked: ") { UserTextKind::Answer } else { UserTextKind::Prompt };
        Words::new(text.to_owned(), None, kind, &[])
    }

    fn new(text: String, source: Option<String>, kind: UserTextKind, open: &[BTreeSet<String>]) -> Words {
        let lean = without_praise(&text);
        // An answer must stay with its question, so it is not split.
        let pieces: Vec<Piece> = match kind {
            UserTextKind::Answer => Vec::new(),
            _ => pieces(&lean).into_iter().flat_map(clauses).collect(),
        };
        let scores = scores(&pieces, open);
        let mut order: Vec<usize> = (0..pieces.len()).collect();
        order.sort_by_key(|place| (Reverse(scores[*place]), *place));
        Words { text, lean, pieces, scores, order, source, kind }
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

    /// Returns the most informative sentences and lines that fit into `limit`.
    fn pick(&self, limit: Chars, policy: &SummaryPolicy) -> Picked<'_> {
        if length(&self.lean) <= limit {
            return Picked { words: self, shown: Showing::Whole };
        }
        if self.pieces.len() < 2 {
            let words = self.lean.split_whitespace().collect::<Vec<_>>().join(" ");
            return Picked { words: self, shown: Showing::Cut(shorten_piece(&words, limit)) };
        }
        // One complete sentence says more than the beginnings of two.
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

/// Shortens a sentence to `limit`. Introductory words such as "ok, can you" are dropped first.
fn shorten_piece(text: &str, limit: Chars) -> String {
    static LEADS: Pattern = Pattern::new(|| {
        let leads = patterns_of(include_str!("../../../words/said/leads.txt"));
        Regex::new(&format!(r"(?i)^(?:(?:{leads})[\s,.!:]+)+")).ok()
    });
    if Chars::of(text) <= limit {
        return text.to_owned();
    }
    let lead = LEADS.as_ref().and_then(|leads| leads.find(text)).map_or(0, |lead| lead.end());
    shorten_ends(if lead < text.len() { &text[lead..] } else { text }, limit)
}

/// The part of a message that is shown.
struct Picked<'a> {
    words: &'a Words,
    shown: Showing,
}

/// How much of a message is shown.
enum Showing {
    /// All of it, unchanged.
    Whole,
    /// Both ends of a text that cannot be split.
    Cut(String),
    /// Some of its pieces, possibly shortened.
    Pieces(Vec<Option<String>>),
}

impl Picked<'_> {
    /// Maximum length of the text.
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

/// Spends `room` on the most informative pieces of all messages that are not yet shown in full. Each piece taken from a
/// message lowers the value of its next piece.
fn add_best(picked: &mut [Picked], room: Chars, policy: &SummaryPolicy) {
    let count = picked.len();
    let mut taken = vec![0i32; count];
    // Lengths of the shown pieces, computed once because the loop below needs them repeatedly.
    let length = |piece: &Piece| Chars::of(&shorten_piece(&piece.text, policy.sentence_chars));
    let lengths: Vec<Vec<Chars>> = picked
        .iter()
        .map(|picked| match &picked.shown {
            Showing::Pieces(_) => picked.words.pieces.iter().map(length).collect(),
            Showing::Whole | Showing::Cut(_) => Vec::new(),
        })
        .collect();
    // Length beyond what is already shown.
    let cost_of = |at: usize, chosen: &[Option<String>], place: usize| {
        let shown = chosen[place].as_ref().map_or(Chars::ZERO, |text| Chars::of(text) + JOINT);
        (lengths[at][place] + JOINT).saturating_sub(shown)
    };
    let worth = |at: usize, place: usize, score: i32, cost: Chars, taken: &[i32]| {
        // Newer messages are more likely to still apply.
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

/// Maximum bonus for pieces of newer messages.
const NEWER: usize = 3;
/// Length that costs one point of a piece's value. Completing an almost complete piece is cheap, so it comes first.
const COST: Chars = Chars(60);

/// Splits a long sentence into clauses. Users who dictate rarely end a sentence, and of a text that cannot be split
/// only the ends can be shown.
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

/// Maximum length of a sentence that is not split.
const LONG_SENTENCE: Chars = Chars(200);
/// Minimum length of a clause.
const CLAUSE: Chars = Chars(60);

/// Length of a bullet, a space and a newline.
const BULLET: Chars = Chars(3);
/// Maximum length of the text between two pieces: an ellipsis, and a newline with its indent.
const JOINT: Chars = Chars(5);
/// Minimum length of a shortened sentence. Shorter ones are not understood.
const SHORTEST: Chars = Chars(24);
/// Maximum length of a sentence that is kept whole even if another one needs the space.
const WHOLE: Chars = Chars(120);

/// Writes the user's messages, oldest first.
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

/// Length of a text that is shown whole: without empty lines, the other lines indented.
fn length(text: &str) -> Chars {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| Chars::of(line) + Chars(3)).sum::<Chars>().saturating_sub(Chars(3))
}

/// The room of each message: what it needs, limited to one level for all.
fn rooms(words: &[Words], places: &[usize], room: Chars) -> Vec<Chars> {
    let needs: Vec<Chars> = places.iter().map(|place| length(&words[*place].lean) + BULLET).collect();
    let level = level(needs.iter().copied(), room);
    needs.into_iter().map(|need| need.min(level).saturating_sub(BULLET)).collect()
}

/// The messages that are shown.
struct Shown {
    places: Vec<usize>,
    /// The first and the last omitted message, and the number of omitted messages.
    missing: Option<(Option<String>, Option<String>, usize)>,
}

impl Shown {
    /// Chooses all messages, or only the newest if each would get less than is worth showing.
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

    /// The line that names the omitted messages, so that they can be recalled.
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

/// Joins the chosen pieces in order, with an ellipsis for omitted ones.
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
            let continues = piece.kind == PieceKind::Sentence && !after_item;
            out.push(if continues { ' ' } else { '\n' });
        }
        (missing, after_item) = (false, piece.kind == PieceKind::Item);
        out.push_str(text);
    }
    if missing && !out.is_empty() && !out.ends_with('…') {
        out.push_str(" …");
    }
    out
}

/// Removes sentences that only praise, unless nothing else would be left.
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

/// Whether a sentence praises something and asks for nothing.
fn is_praise(sentence: &str) -> bool {
    static PRAISE: Pattern = Pattern::new(|| any_of(include_str!("../../../words/said/praise.txt")));
    static WISHES: Pattern = Pattern::new(|| any_of(include_str!("../../../words/said/praise_wishes.txt")));
    matches(&PRAISE, sentence) && !matches(&WISHES, sentence) && !sentence.contains('?')
}

/// Scores how much each piece of a message says about what the user wants.
fn scores(pieces: &[Piece], open: &[BTreeSet<String>]) -> Vec<i32> {
    static RULES: Pattern = Pattern::new(|| any_of(include_str!("../../../words/said/rules.txt")));
    static WISHES: Pattern = Pattern::new(|| any_of(include_str!("../../../words/said/wishes.txt")));
    static SETTLED: Pattern = Pattern::new(|| {
        Regex::new(r"^(?:\d+[.)] )?[\p{L}][\p{L}\p{N} /_-]{1,24}: \S|\S (?:->|→|=>) \S").ok()
    });
    // Sections of the message about an open todo.
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
        // A sentence with several such words is a rule.
        let rules = RULES.as_ref().map_or(0, |rules| rules.find_iter(text).take(3).count());
        // The words above are English; `is_instruction` knows more languages.
        let rules = if rules == 0 && is_instruction(text) { 2 } else { rules };
        let asked =
            i32::try_from(rules).unwrap_or(0) + i32::from(rules > 0) + i32::from(matches(&WISHES, text));
        let concrete = i32::try_from(concreteness(text).min(2)).unwrap_or(0);
        // A line that states one decision, such as "Backend: FastAPI" or "tools -> core/tools".
        let settles = i32::from(matches(&SETTLED, text)) * 2;
        let open = i32::from(piece.section > 0 && wanted.contains(&piece.section)) * 2;
        let pasted = i32::from(text.contains("more lines pasted")) * 4;
        ends + structure + asked + concrete + settles + open - pasted
    };
    let mut scores: Vec<i32> = pieces.iter().enumerate().map(score).collect();
    // A list without the line that introduces it can say the opposite, as after "you may not:".
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

/// Minimum share of common words for a piece to count as being about a todo.
const ABOUT: f64 = 0.6;
