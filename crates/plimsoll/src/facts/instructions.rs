//! Standing instructions: sentences of the user that say how things are to be done, as opposed to pasted text and
//! descriptions.
//!
//! Words such as "never" are not enough: "never push" is an order, "the handler never closes the file" is a
//! description. So most of these words count only at the beginning of a clause or after a word such as "please" or
//! "should". A missed instruction is still among the user's words; a false one only costs room.

use std::collections::BTreeSet;

use super::strip::typed_only;
use super::superseded::LaterActions;
use super::user::UserWords;
use crate::chars::Chars;
use crate::log::MessageId;
use crate::pattern::Regex;
use crate::policy::SummaryPolicy;
use crate::prose::{Pattern, PieceKind, WordList, any_of, matches, normal, patterns_of, pieces, words_of};

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
pub(super) fn instructions(
    words: &[UserWords],
    later: &LaterActions,
    policy: &SummaryPolicy,
) -> Vec<Instruction> {
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

/// Whether a sentence is an instruction.
pub(crate) fn is_instruction(sentence: &str) -> bool {
    static STANDING: Pattern = Pattern::new(|| any_of(include_str!("../../words/instructions/anywhere.txt")));
    // A clause begins at the start, after punctuation or a dash, and after words that introduce an order.
    static ORDER: Pattern = Pattern::new(|| {
        let before = patterns_of(include_str!("../../words/instructions/before_order.txt"));
        let start = patterns_of(include_str!("../../words/instructions/clause_start.txt"));
        Regex::new(&format!(r"(?i)(?:^(?:\d+[.)] )?|[.!,;:(—–-] |\b(?:{before}) )(?:{start}) (\p{{L}}+)"))
            .ok()
    });
    static INNER: WordList =
        WordList::new(|| words_of(include_str!("../../words/instructions/inner.txt")).collect());
    static DESCRIPTIONS: WordList =
        WordList::new(|| words_of(include_str!("../../words/instructions/descriptions.txt")).collect());
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
            !DESCRIPTIONS.contains(&verb.as_str()) && (!verb.ends_with('s') || verb.ends_with("ss"))
        })
    })
}
