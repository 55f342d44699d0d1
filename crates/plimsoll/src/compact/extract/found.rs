//! What was found and decided: sentences of the agent's reports that state a cause, a decision, a fix or something left
//! open, and name something concrete.

use std::collections::{BTreeSet, BinaryHeap};

use super::super::facts::{Facts, Said};
use super::super::prose::{
    Pattern, PieceKind, any_of, concreteness, matches, overlap, pieces, shorten, word_set,
};
use super::room::Written;
use super::standing::NOTES;
use crate::chars::Chars;
use crate::policy::SummaryPolicy;

/// A sentence that may be worth keeping.
pub(super) struct Finding {
    text: String,
    words: BTreeSet<String>,
    /// How much it tells.
    score: f64,
    /// The report or stretch of notes it comes from.
    span: usize,
    /// Where in the history it stands, from 0 to 1.
    recency: f64,
}

impl Finding {
    /// From an earlier summary, where it was chosen before.
    pub(super) fn earlier(text: &str) -> Finding {
        Finding { text: text.to_owned(), words: word_set(text), score: 5.0, span: 0, recency: 0.0 }
    }
}

/// So many notes on the way make a stretch that is treated like a report.
const STRETCH: usize = 6;

/// All sentences that may be worth keeping, oldest first. The last report is left out: it stands elsewhere.
pub(super) fn findings(facts: &Facts, policy: &SummaryPolicy) -> Vec<Finding> {
    let last = facts.turns.len().saturating_sub(1);
    let mut spans: Vec<(Vec<&Said>, f64)> = vec![(Vec::new(), 0.0)];
    for (place, turn) in facts.turns.iter().enumerate() {
        // The newest notes of a turn that has not ended stand there too.
        let shown = if place == last && turn.unfinished { (NOTES - 1).min(turn.notes.len()) } else { 0 };
        for stretch in turn.notes[..turn.notes.len() - shown].chunks(STRETCH) {
            // Notes say what will be done as often as what was; reports are to be preferred.
            spans.push((stretch.iter().collect(), -1.0));
        }
        if let Some(report) = turn.report.as_ref().filter(|_| place != last) {
            spans.push((vec![report], 0.0));
        }
    }
    let count = spans.len().max(2) - 1;
    let told: BTreeSet<String> = facts.words.iter().flat_map(|words| word_set(&words.text)).collect();
    let mut found = Vec::new();
    for (span, (said, bonus)) in spans.into_iter().enumerate() {
        let recency = span as f64 / count as f64;
        for piece in said.into_iter().flat_map(|said| pieces(&said.text)) {
            let score = score(&piece.text, piece.kind) + bonus;
            if score >= WORTH {
                let text = shorten(&piece.text, policy.sentence_chars);
                let words = word_set(&text);
                let known = words.iter().filter(|word| told.contains(*word)).count();
                // What says hardly anything beyond the user's own words is worth less, and so is what takes long to say it.
                let echo =
                    if known as f64 >= policy.duplicate_share * words.len() as f64 { 1.5 } else { 0.0 };
                let length = Chars::of(&text).0 as f64 / policy.sentence_chars.0.max(1) as f64;
                found.push(Finding { words, text, score: score - echo - length, span, recency });
            }
        }
    }
    found
}

/// A sentence below this says nothing that is needed later.
const WORTH: f64 = 1.0;

/// How much a sentence tells.
fn score(text: &str, kind: PieceKind) -> f64 {
    static CAUSE: Pattern = Pattern::new(|| {
        any_of(&[
            "because",
            "root cause",
            "due to",
            "caused by",
            "the cause",
            "reason",
            "turns out",
            "the problem",
            "the issue",
            "bug",
            "since",
            "was missing",
            "mismatch",
            "actually",
            "found",
            "discovered",
            "confirmed",
            "verified",
            "means",
            "porque",
            "causa",
            "weil",
            "因为",
            "因為",
            "原因",
        ])
    });
    static DECISION: Pattern = Pattern::new(|| {
        any_of(&[
            "decided",
            "decision",
            "chose",
            "chosen",
            "instead",
            "rather than",
            "so that",
            "will use",
            "going with",
            "uses",
            "prefer",
            "recommend",
            "keeps",
            "kept",
            "must",
            "only",
            "never",
            "default",
            "supersedes",
            "decidi",
            "entschieden",
            "決定",
            "决定",
            "改用",
        ])
    });
    static FIX: Pattern = Pattern::new(|| {
        any_of(&[
            "fixed",
            "fix",
            "resolved",
            "now",
            "added",
            "implemented",
            "replaced",
            "removed",
            "renamed",
            "moved",
            "changed",
            "created",
            "wired",
            "updated",
            "corrected",
            "returns",
            "corrigido",
            "behoben",
            "修复",
            "修正",
            "完成",
        ])
    });
    static OPEN: Pattern = Pattern::new(|| {
        any_of(&[
            "still",
            "remaining",
            "remains",
            "not yet",
            "todo",
            "left",
            "pending",
            "blocked",
            "fails",
            "failing",
            "missing",
            "unverified",
            "couldn't",
            "could not",
            "cannot",
            "can't",
            "skipped",
            "not run",
            "limitation",
            "deferred",
            "needs",
            "unable",
            "without",
            "not",
            "pendente",
            "offen",
            "还没",
            "尚未",
            "未",
        ])
    });
    static OFFER: Pattern = Pattern::new(|| {
        any_of(&[
            "want me to",
            "would you like",
            "let me know",
            "shall i",
            "should i",
            "if you'd like",
            "if you want",
            "say the word",
            "feel free",
            "happy to",
            "ready to",
            "ready for",
        ])
    });
    static ANNOUNCEMENT: Pattern = Pattern::new(|| {
        regex::Regex::new(
            r"(?i)^(?:ok(?:ay)?[,.]? |great[,.!]? |perfect[,.!]? |good[,.!]? |now,? |next,? |first,? |also,? |then,? )*(?:let me|let's|i'll|i’ll|i will|i'm going|i’m going|now let|here's|here’s|here is|here are|looking at|checking)\b",
        )
        .ok()
    });
    let length = text.chars().count();
    if kind == PieceKind::Heading || length < 20 || text.ends_with(['?', '？']) || matches(&OFFER, text) {
        return 0.0;
    }
    // What leads something else in, and what will be done, is told where nothing better is.
    let leads = if text.ends_with([':', '：']) { 2.5 } else { 0.0 };
    let cues = 3.0 * f64::from(u8::from(matches(&CAUSE, text)))
        + 2.0 * f64::from(u8::from(matches(&DECISION, text)))
        + 1.5 * f64::from(u8::from(matches(&FIX, text)))
        + 2.0 * f64::from(u8::from(matches(&OPEN, text)));
    let concrete = concreteness(text).min(4) as f64;
    let announced = if matches(&ANNOUNCEMENT, text) { 3.0 } else { 0.0 };
    if concrete == 0.0 && cues < 4.0 {
        return 0.0;
    }
    cues.min(5.0) + concrete - announced - leads
}

/// Write the best of them in the order in which they were said.
pub(super) fn write(findings: &[Finding], room: Chars, policy: &SummaryPolicy) -> Written {
    let mut taken = vec![0u64; findings.last().map_or(0, |last| last.span + 1)];
    // What a sentence is worth falls with every one already taken from the same report, so that each turn gets its
    // share; the newer of two that are worth the same comes first.
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
        // Its worth may have fallen since it was put into the queue.
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
        if chosen.iter().any(repeats) {
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

/// What the newest report is worth more than the oldest.
const NEWNESS: f64 = 2.0;
/// What a sentence is worth less for each that was taken from the same report.
const REPEATED: f64 = 1.5;
/// A mark, a space and a line end.
const BULLET: Chars = Chars(3);
/// No sentence worth keeping is shorter.
const SHORTEST: Chars = Chars(24);
