//! What was found and decided: sentences of the agent's reports that state a cause, a decision, a fix or something left
//! open, and name something concrete.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::super::facts::{Facts, Said};
use super::super::prose::{
    Pattern, PieceKind, any_of, concreteness, matches, overlap, pieces, shorten, word_set,
};
use super::room::Written;
use crate::chars::Chars;
use crate::pattern::Regex;
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
    /// The thing that it says is changed.
    subject: Option<String>,
    /// Whether it says that something did not work.
    pub(super) is_failure: bool,
}

impl Finding {
    /// From an earlier summary, where it was chosen before.
    pub(super) fn earlier(text: &str, is_failure: bool) -> Finding {
        let words = word_set(text);
        Finding { text: text.to_owned(), words, score: 5.0, span: 0, recency: 0.0, subject: None, is_failure }
    }
}

/// So many short notes on the way make a stretch that is treated like a report.
const STRETCH: usize = 6;

/// What is picked from together: a report, or a stretch of notes.
struct Span<'a> {
    said: Vec<&'a Said>,
    /// What its sentences are worth more or less than others.
    bonus: f64,
    /// Whether the user contradicted it next.
    contradicted: bool,
}

/// The reports and stretches of notes of all turns, oldest first. A long note on the way is a report: agents that are not
/// interrupted go on after it.
fn spans<'a>(facts: &'a Facts, policy: &SummaryPolicy) -> Vec<Span<'a>> {
    let mut spans = Vec::new();
    for turn in &facts.turns {
        let mut stretch: Vec<&Said> = Vec::new();
        for said in turn.notes.iter().chain(&turn.report) {
            let is_last = turn.report.as_ref().is_some_and(|report| std::ptr::eq(report, said));
            let is_report = is_last && !turn.unfinished || Chars::of(&said.text) >= policy.report_chars;
            if !is_report {
                stretch.push(said);
            }
            if !stretch.is_empty() && (is_report || is_last || stretch.len() == STRETCH) {
                // Notes say what will be done as often as what was; reports are to be preferred.
                spans.push(Span { said: std::mem::take(&mut stretch), bonus: NOTED, contradicted: false });
            }
            if is_report {
                // What the user contradicted does not hold, but that it was tried is worth knowing.
                let contradicted = is_last && turn.corrected;
                let bonus = if contradicted { CONTRADICTED } else { 0.0 };
                spans.push(Span { said: vec![said], bonus, contradicted });
            }
        }
    }
    spans
}

/// What a sentence of a note is worth more than one of a report.
const NOTED: f64 = -1.0;
/// What one is worth more that the user contradicted next,
const CONTRADICTED: f64 = -1.5;
/// and how it is marked.
const CONTRADICTION: &str = "(the user objected) ";

/// All sentences that may be worth keeping, oldest first.
pub(super) fn findings(facts: &Facts, policy: &SummaryPolicy) -> Vec<Finding> {
    let spans = spans(facts, policy);
    // The first place is for what an earlier summary found.
    let count = spans.len().max(1);
    let told: BTreeSet<String> = facts.words.iter().flat_map(|words| word_set(&words.text)).collect();
    let mut found = Vec::new();
    // What was last said of a thing, by its name: the span.
    let mut newest: BTreeMap<String, usize> = BTreeMap::new();
    for (span, Span { said, bonus, contradicted }) in spans.into_iter().enumerate() {
        let (span, recency) = (span + 1, (span + 1) as f64 / count as f64);
        for piece in said.into_iter().flat_map(|said| pieces(&said.text)) {
            let is_failure = contradicted || says_failure(&piece.text, piece.kind);
            // A failed approach is tried again by the agent that does not know of it, however little else is said.
            let least = if is_failure && !contradicted { FAILURE } else { 0.0 };
            let score = (score(&piece.text, piece.kind) + bonus).max(least);
            if score >= WORTH {
                let text = shorten(&piece.text, policy.sentence_chars);
                let words = word_set(&text);
                let known = words.iter().filter(|word| told.contains(*word)).count();
                // What says hardly anything beyond the user's own words is worth less, and so is what takes long to say it.
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

/// What a sentence is worth less if a later one says what became of the same thing.
const OVERTAKEN: f64 = 3.0;

/// The thing that a sentence says is changed: its first name in code marks, unless that is a file, of which very much can be
/// said.
fn changed_thing(text: &str) -> Option<String> {
    static CHANGE: Pattern = Pattern::new(|| {
        any_of(&[
            "changed", "now", "uses", "use", "set to", "replaced", "renamed", "moved", "removed", "reverted",
            "instead", "from", "is", "was", "became", "→", "->",
        ])
    });
    let name = text.split('`').nth(1)?;
    let is_thing = !name.contains(['.', '/', ' ']) && name.chars().any(char::is_alphabetic);
    (is_thing && (text.starts_with('`') || matches(&CHANGE, text))).then(|| name.to_lowercase())
}

/// Score of a sentence that says that something did not work, at least.
const FAILURE: f64 = 3.0;

/// Whether a sentence says that something was tried and did not work, and names it.
fn says_failure(text: &str, kind: PieceKind) -> bool {
    static FAILED: Pattern = Pattern::new(|| {
        any_of(&[
            "did not work",
            "didn't work",
            "didn’t work",
            "does not work",
            "doesn't work",
            "doesn’t work",
            "won't work",
            "won’t work",
            "will not work",
            "failed because",
            "fails because",
            "reverted",
            "rolled back",
            "gave up",
            "abandoned",
            "not supported",
            "unsupported",
            "isn't available",
            "is not available",
            "not available",
            "cannot be used",
            "can't be used",
            "can't use",
            "cannot use",
            "is blocked",
            "blocked by",
            "ruled out",
            "dead end",
            "not possible",
            "no longer works",
            "still fails",
            "still failing",
            "não funciona",
            "não funcionou",
            "no funciona",
            "no funcionó",
            "funktioniert nicht",
            "ne marche pas",
            "не работает",
        ])
    });
    const INNER: [&str; 6] = ["行不通", "不可行", "没用", "沒用", "不支持", "不支援"];
    let says = matches(&FAILED, text) || INNER.iter().any(|cue| text.contains(cue));
    let asks = text.ends_with(['?', '？', ':', '：']) || kind == PieceKind::Heading;
    says && !asks && text.chars().count() >= 20 && concreteness(text) > 0
}

/// A shorter sentence tells less than its words promise.
const SHORT: usize = 45;

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
            "issues",
            "wrong",
            "broken",
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
            "pausing",
            "moving on",
            "moving to",
            "waiting for",
            "for your review",
            "glad",
        ])
    });
    static SURROUNDINGS: Pattern = Pattern::new(|| {
        any_of(&[
            "port",
            "localhost",
            "version",
            "requires",
            "required",
            "installed",
            "env var",
            "environment",
            "credentials",
            "account",
            "branch",
            "deployed",
            "running",
            "runs",
            "endpoint",
            "database",
            "docker",
            "command",
        ])
    });
    // How something is run often stands only in a report: the user runs it.
    static COMMAND: Pattern = Pattern::new(|| {
        Regex::new(
            r"`(?:npx|npm|pnpm|yarn|bun|node|deno|cargo|make|just|python3?|pip|uv|pytest|go|ruby|bundle|rails|docker|kubectl|php|composer|dotnet|mvn|gradle|curl|git|\./\S+) [^`]+`",
        )
        .ok()
    });
    static GUESS: Pattern = Pattern::new(|| {
        any_of(&[
            "i bet",
            "looking at",
            "might",
            "maybe",
            "perhaps",
            "probably",
            "i think",
            "i suspect",
            "seems",
            "should work",
            "if that's",
            "if you",
        ])
    });
    static ANNOUNCEMENT: Pattern = Pattern::new(|| {
        Regex::new(
            r"(?i)^(?:(?:now|next|first|then|also),? (?:add|update|create|remove|fix|check|make|find|run|replace)|(?:ok(?:ay)?[,.]? |great[,.!]? |perfect[,.!]? |good[,.!]? |now,? |next,? |first,? |also,? |then,? )*(?:implementing|proceeding|continuing|starting|working on|i['’]m (?:now |also |just )?\w+ing|let me|let's|i'll|i’ll|i will|i'm going|i’m going|now let|here's|here’s|here is|here are|looking at|checking))\b",
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
    let guessed = if matches(&GUESS, text) { 1.5 } else { 0.0 };
    let is_around = matches(&SURROUNDINGS, text) || matches(&COMMAND, text);
    let around = if concrete > 0.0 && is_around { 1.0 } else { 0.0 };
    // A cue without a name says little, and names alone are only a list.
    if concrete == 0.0 && cues < 4.0 {
        return 0.0;
    }
    let listed = if cues + around == 0.0 { 2.0 } else { 0.0 };
    // "Q1 is complete now" names something and says nothing of it.
    let short = if length < SHORT { 1.0 } else { 0.0 };
    cues.min(5.0) + concrete + around - announced - leads - guessed - short - listed
}

/// Write the best of them in the order in which they were said. What stands in `shown` is not said again.
pub(super) fn write(findings: &[Finding], shown: &str, room: Chars, policy: &SummaryPolicy) -> Written {
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

/// What the newest report is worth more than the oldest.
const NEWNESS: f64 = 3.0;
/// What a sentence is worth less for each that was taken from the same report.
const REPEATED: f64 = 1.5;
/// A mark, a space and a line end.
const BULLET: Chars = Chars(3);
/// No sentence worth keeping is shorter.
const SHORTEST: Chars = Chars(24);
