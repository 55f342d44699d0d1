//! The section with findings and decisions: sentences of the agent's reports that name something concrete and state a
//! cause, a decision, a fix or an open point.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::room::Written;
use crate::chars::Chars;
use crate::facts::{Facts, Statement};
use crate::pattern::Regex;
use crate::policy::SummaryPolicy;
use crate::prose::{
    Pattern, PieceKind, WordList, any_of, concreteness, matches, overlap, patterns_of, pieces, shorten,
    word_set, words_of,
};

/// A sentence that may be worth keeping.
pub(super) struct Finding {
    text: String,
    words: BTreeSet<String>,
    /// Amount of information.
    score: f64,
    /// Number of the report or stretch of notes it comes from.
    span: usize,
    /// Position in the history, from 0 to 1.
    recency: f64,
    /// The thing whose change it describes.
    subject: Option<String>,
    /// Whether it says that something did not work.
    pub(super) is_failure: bool,
}

impl Finding {
    /// Takes a finding from an earlier summary.
    pub(super) fn earlier(text: &str, is_failure: bool) -> Finding {
        let words = word_set(text);
        Finding { text: text.to_owned(), words, score: 5.0, span: 0, recency: 0.0, subject: None, is_failure }
    }
}

/// Number of short notes during a turn that are treated like one report.
const STRETCH: usize = 6;

/// A report, or a stretch of notes that is treated like one.
struct Span<'a> {
    said: Vec<&'a Statement>,
    /// Added to the score of its sentences.
    bonus: f64,
    /// Whether the user contradicted it next.
    contradicted: bool,
}

/// The reports and stretches of notes of all turns, oldest first. A long note during a turn counts as a report, because
/// an agent that is not interrupted reports and continues.
fn spans<'a>(facts: &'a Facts, policy: &SummaryPolicy) -> Vec<Span<'a>> {
    let mut spans = Vec::new();
    for turn in &facts.turns {
        let mut stretch: Vec<&Statement> = Vec::new();
        for said in turn.notes.iter().chain(&turn.report) {
            let is_last = turn.report.as_ref().is_some_and(|report| std::ptr::eq(report, said));
            let is_report = is_last && !turn.unfinished || Chars::of(&said.text) >= policy.report_chars;
            if !is_report {
                stretch.push(said);
            }
            if !stretch.is_empty() && (is_report || is_last || stretch.len() == STRETCH) {
                // Reports are preferred: notes announce as often as they report.
                spans.push(Span { said: std::mem::take(&mut stretch), bonus: NOTED, contradicted: false });
            }
            if is_report {
                // A statement that the user contradicted is wrong, but it is useful to know that it was tried.
                let contradicted = is_last && turn.corrected;
                let bonus = if contradicted { CONTRADICTED } else { 0.0 };
                spans.push(Span { said: vec![said], bonus, contradicted });
            }
        }
    }
    spans
}

/// Bonus for sentences of notes.
const NOTED: f64 = -1.0;
/// Bonus for sentences that the user contradicted next.
const CONTRADICTED: f64 = -1.5;
/// Mark of sentences that the user contradicted.
const CONTRADICTION: &str = "(the user objected) ";

/// Returns all sentences that may be worth keeping, oldest first.
pub(super) fn findings(facts: &Facts, policy: &SummaryPolicy) -> Vec<Finding> {
    let spans = spans(facts, policy);
    // Span 0 is for findings of an earlier summary.
    let count = spans.len().max(1);
    let user_words: BTreeSet<String> = facts.words.iter().flat_map(|words| word_set(&words.text)).collect();
    let mut found = Vec::new();
    // For each thing, the span of the last statement about it.
    let mut newest: BTreeMap<String, usize> = BTreeMap::new();
    for (span, Span { said, bonus, contradicted }) in spans.into_iter().enumerate() {
        let (span, recency) = (span + 1, (span + 1) as f64 / count as f64);
        for piece in said.into_iter().flat_map(|said| pieces(&said.text)) {
            let is_failure = contradicted || says_failure(&piece.text, piece.kind);
            // An agent that does not know about a failed approach tries it again, so failures have a minimum score.
            let least = if is_failure && !contradicted { FAILURE } else { 0.0 };
            let score = (score(&piece.text, piece.kind) + bonus).max(least);
            if score >= WORTH {
                let text = shorten(&piece.text, policy.sentence_chars);
                let words = word_set(&text);
                let known = words.iter().filter(|word| user_words.contains(*word)).count();
                // Sentences that mostly repeat the user's own words get a lower score, and so do long ones.
                let echo =
                    if known as f64 >= policy.duplicate_share * words.len() as f64 { 1.5 } else { 0.0 };
                let length = Chars::of(&text).0 as f64 / policy.sentence_chars.0.max(1) as f64;
                let subject = changed_thing(&text);
                let text = if contradicted { format!("{CONTRADICTION}{text}") } else { text };
                if let Some(subject) = &subject {
                    newest.insert(subject.clone(), span);
                }
                let score = score - echo - length;
                found.push(Finding { words, text, score, span, recency, subject, is_failure });
            }
        }
    }
    for finding in &mut found {
        let subject = finding.subject.as_ref();
        if subject.and_then(|subject| newest.get(subject)).is_some_and(|newer| *newer > finding.span) {
            finding.score -= OVERTAKEN;
        }
    }
    found
}

/// Penalty for a sentence if a later one describes the current state of the same thing.
const OVERTAKEN: f64 = 3.0;

/// The thing whose change a sentence describes: its first name in backticks, unless that is a file, because two
/// sentences about one file are rarely about the same thing.
fn changed_thing(text: &str) -> Option<String> {
    static CHANGE: Pattern = Pattern::new(|| any_of(include_str!("../../../words/found/change.txt")));
    let name = text.split('`').nth(1)?;
    let is_thing = !name.contains(['.', '/', ' ']) && name.chars().any(char::is_alphabetic);
    (is_thing && (text.starts_with('`') || matches(&CHANGE, text))).then(|| name.to_lowercase())
}

/// Minimum score of a sentence that says that something did not work.
const FAILURE: f64 = 3.0;

/// Whether a sentence says that something was tried and did not work, and names it.
fn says_failure(text: &str, kind: PieceKind) -> bool {
    static FAILED: Pattern = Pattern::new(|| any_of(include_str!("../../../words/found/failed.txt")));
    static INNER: WordList =
        WordList::new(|| words_of(include_str!("../../../words/found/failed_inner.txt")).collect());
    let says = matches(&FAILED, text) || INNER.iter().any(|cue| text.contains(cue));
    let asks = text.ends_with(['?', '？', ':', '：']) || kind == PieceKind::Heading;
    says && !asks && text.chars().count() >= 20 && concreteness(text) > 0
}

/// Length below which a sentence gets a penalty: it matches a cue word but says little.
const SHORT: usize = 45;

/// Minimum score of a sentence that is kept.
const WORTH: f64 = 1.0;

/// Scores how much information a sentence has.
fn score(text: &str, kind: PieceKind) -> f64 {
    static CAUSE: Pattern = Pattern::new(|| any_of(include_str!("../../../words/found/cause.txt")));
    static DECISION: Pattern = Pattern::new(|| any_of(include_str!("../../../words/found/decision.txt")));
    static FIX: Pattern = Pattern::new(|| any_of(include_str!("../../../words/found/fix.txt")));
    static OPEN: Pattern = Pattern::new(|| any_of(include_str!("../../../words/found/open.txt")));
    static OFFER: Pattern = Pattern::new(|| any_of(include_str!("../../../words/found/offer.txt")));
    static SURROUNDINGS: Pattern =
        Pattern::new(|| any_of(include_str!("../../../words/found/surroundings.txt")));
    // Commands that the user has to run are often only in a report.
    static COMMAND: Pattern = Pattern::new(|| {
        let programs = patterns_of(include_str!("../../../words/found/programs.txt"));
        Regex::new(&format!("`(?:{programs}) [^`]+`")).ok()
    });
    static GUESS: Pattern = Pattern::new(|| any_of(include_str!("../../../words/found/guess.txt")));
    static ANNOUNCEMENT: Pattern = Pattern::new(|| {
        let orders = patterns_of(include_str!("../../../words/found/announced_orders.txt"));
        let before = patterns_of(include_str!("../../../words/found/before_announcement.txt"));
        let announces = patterns_of(include_str!("../../../words/found/announcements.txt"));
        Regex::new(&format!(
            r"(?i)^(?:(?:now|next|first|then|also),? (?:{orders})|(?:(?:{before}) )*(?:{announces}))\b"
        ))
        .ok()
    });
    let length = text.chars().count();
    if kind == PieceKind::Heading || length < 20 || text.ends_with(['?', '？']) || matches(&OFFER, text) {
        return 0.0;
    }
    // Introductions and announcements are used only if there is nothing better.
    let leads = if text.ends_with([':', '：']) { 2.5 } else { 0.0 };
    let cues = 3.0 * f64::from(u8::from(matches(&CAUSE, text)))
        + 2.0 * f64::from(u8::from(matches(&DECISION, text)))
        + 1.5 * f64::from(u8::from(matches(&FIX, text)))
        + 2.0 * f64::from(u8::from(matches(&OPEN, text)));
    let concrete = concreteness(text).min(4) as f64;
    let announced = if matches(&ANNOUNCEMENT, text) { 3.0 } else { 0.0 };
    let guessed = if matches(&GUESS, text) { 1.5 } else { 0.0 };
    let is_around = matches(&SURROUNDINGS, text) || matches(&COMMAND, text);
    let around = if concrete > 0.0 && is_around { 1.0 } else { 0.0 };
    // A cue without a name says little, and names without a cue are only a list.
    if concrete == 0.0 && cues < 4.0 {
        return 0.0;
    }
    let listed = if cues + around == 0.0 { 2.0 } else { 0.0 };
    // "Q1 is complete now" names something but says nothing about it.
    let short = if length < SHORT { 1.0 } else { 0.0 };
    cues.min(5.0) + concrete + around - announced - leads - guessed - short - listed
}

/// Writes the best findings in the order in which they were said. Text that `shown` contains is not repeated.
pub(super) fn write(findings: &[Finding], shown: &str, room: Chars, policy: &SummaryPolicy) -> Written {
    let mut taken = vec![0u64; findings.last().map_or(0, |last| last.span + 1)];
    // Each sentence taken from a report lowers the value of its other sentences, so that each turn gets its share. Of
    // two sentences with equal value, the newer one comes first.
    let worth = |place: usize, taken: &[u64]| {
        let finding = &findings[place];
        let worth = finding.score + NEWNESS * finding.recency - REPEATED * taken[finding.span] as f64;
        ((worth * 1_000.0) as i64, place)
    };
    let mut queue: BinaryHeap<(i64, usize)> = (0..findings.len()).map(|place| worth(place, &taken)).collect();
    let mut chosen: Vec<usize> = Vec::new();
    let mut left = room;
    let mut complete = true;
    while let Some(best) = queue.pop() {
        let place = best.1;
        let finding = &findings[place];
        if taken[finding.span] >= policy.turn_sentences {
            continue;
        }
        // Its value may have fallen since it was queued.
        let now = worth(place, &taken);
        if now < best {
            queue.push(now);
            continue;
        }
        let cost = Chars::of(&finding.text) + BULLET;
        if cost > left {
            complete = false;
            if left < SHORTEST {
                break;
            }
            continue;
        }
        let repeats =
            |other: &usize| overlap(&finding.words, &findings[*other].words) >= policy.duplicate_share;
        let text = finding.text.trim_start_matches(CONTRADICTION).trim_end_matches('…');
        if shown.contains(text) || chosen.iter().any(repeats) {
            continue;
        }
        taken[finding.span] += 1;
        left = left.saturating_sub(cost);
        chosen.push(place);
    }
    chosen.sort_unstable();
    let lines: Vec<String> = chosen.into_iter().map(|place| format!("- {}", findings[place].text)).collect();
    Written { text: lines.join("\n"), complete }
}

/// Bonus of the newest report over the oldest.
const NEWNESS: f64 = 3.0;
/// Penalty of a sentence for each one that was taken from the same report.
const REPEATED: f64 = 1.5;
/// Length of a bullet, a space and a newline.
const BULLET: Chars = Chars(3);
/// Minimum length of a sentence that is worth keeping.
const SHORTEST: Chars = Chars(24);
