//! Standing instructions: sentences of the user that say how things are to be done, as opposed to pasted text and
//! descriptions.
//!
//! Words such as "never" are not enough: "never push" is an order, "the handler never closes the file" is a
//! description. So most of these words count only at the beginning of a clause or after a word such as "please" or
//! "should". A missed instruction is still among the user's words; a false one only costs room.

use std::collections::BTreeSet;

use super::strip::typed_only;
use super::superseded::Later;
use super::user::UserWords;
use crate::chars::Chars;
use crate::log::MessageId;
use crate::pattern::Regex;
use crate::policy::SummaryPolicy;
use crate::prose::{Pattern, PieceKind, any_of, matches, normal, pieces};

/// A standing instruction of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instruction {
    /// The sentence, verbatim except for white space and emphasis.
    pub text: String,
    /// The message that has it.
    pub source: MessageId,
}

/// The instructions in the user's words, without duplicates, the newest last.
pub(super) fn instructions(words: &[UserWords], later: &Later, policy: &SummaryPolicy) -> Vec<Instruction> {
    let mut found: Vec<Instruction> = Vec::new();
    for (place, said) in words.iter().enumerate() {
        let typed = typed_only(&said.whole, policy);
        for piece in pieces(&typed) {
            let is_sentence =
                piece.kind != PieceKind::Heading && Chars::of(&piece.text) <= policy.instruction_chars;
            let still_holds = |order: &str| !later.supersedes(order, place + 1, said.turn);
            if is_sentence && is_instruction(&piece.text) && still_holds(&piece.text) {
                found.push(Instruction { text: piece.text, source: said.source.clone() });
            }
        }
    }
    let mut seen = BTreeSet::new();
    found.reverse();
    found.retain(|instruction| seen.insert(normal(&instruction.text)));
    found.reverse();
    found
}

/// Words that make a sentence an instruction at the beginning of a clause.
const IN_FRONT: &str = "never|always|do not|don't|don’t|dont|only|make sure|be sure|ensure|avoid|stop using|refrain|remember to|remember|keep in mind\
    |no more|não|somente|apenas|no|ne|evita|evite|évite|nur|keine?|nie|nicht|immer|не|только";

/// Like [`ANYWHERE`], for scripts without spaces.
const INNER: &[&str] = &[
    "必须",
    "必須",
    "不要",
    "不能",
    "不可以",
    "永远",
    "永遠",
    "总是",
    "總是",
    "只能",
    "务必",
    "務必",
    "禁止",
    "一定要",
    "從現在",
    "从现在",
    "必ず",
    "絶対",
    "しないで",
    "常に",
    "항상",
    "절대",
    "반드시",
    "하지 마",
];

/// Whether a sentence is an instruction.
pub(crate) fn is_instruction(sentence: &str) -> bool {
    static STANDING: Pattern = Pattern::new(|| any_of(include_str!("../../words/instructions/anywhere.txt")));
    // A clause begins at the start, after punctuation or a dash, and after words that introduce an order.
    static ORDER: Pattern = Pattern::new(|| {
        Regex::new(&format!(
            r"(?i)(?:^(?:\d+[.)] )?|[.!,;:(—–-] |\b(?:and|but|also|please|then|so|just|you|btw|actually|again|should|must|can|to|use|is|are|e|mas|pero|und|aber|bitte|et|mais) )(?:{IN_FRONT}) (\p{{L}}+)"
        ))
        .ok()
    });
    static AT_END: Pattern = Pattern::new(|| Regex::new(r"(?i)\bonly[.!]?$").ok());
    // A question is never an instruction.
    if sentence.ends_with(['?', '？']) || sentence.chars().count() < 6 {
        return false;
    }
    if matches(&STANDING, sentence)
        || INNER.iter().any(|cue| sentence.contains(cue))
        || matches(&AT_END, sentence)
    {
        return true;
    }
    // A verb in the third person describes: "never invalidates", "only has".
    ORDER.as_ref().is_some_and(|order| {
        order.captures_iter(sentence).any(|found| {
            let verb = found.get(1).map(|verb| verb.as_str().to_lowercase()).unwrap_or_default();
            !TOLD.contains(&verb.as_str()) && (!verb.ends_with('s') || verb.ends_with("ss"))
        })
    })
}

/// Words after which the sentence is a description or an answer: "don't know", "no, i meant", "only one".
const TOLD: [&str; 16] = [
    "know",
    "see",
    "think",
    "understand",
    "get",
    "have",
    "had",
    "worry",
    "was",
    "were",
    "idea",
    "problem",
    "need",
    "i",
    "one",
    "longer",
];
