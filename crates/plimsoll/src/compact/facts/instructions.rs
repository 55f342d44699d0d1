//! Standing instructions: sentences in which the user lays down how things are to be done, told apart from what was
//! pasted and from what is only told.
//!
//! The words alone do not tell an order from an account: "never push" is one, "the handler never closes the file" is
//! not. So most of them count only where an order has them: at the beginning of a clause, or behind a word such as
//! "please" or "should". What is missed is still among the user's words; what is taken by mistake costs its room.

use std::collections::BTreeSet;

use super::super::prose::{Pattern, PieceKind, any_of, matches, normal, pieces};
use super::strip::typed_only;
use super::superseded::Later;
use super::user::UserWords;
use crate::chars::Chars;
use crate::log::MessageId;
use crate::pattern::Regex;
use crate::policy::SummaryPolicy;

/// A sentence in which the user laid something down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The sentence, word for word but for white space and emphasis.
    pub text: String,
    /// The message it stands in.
    pub source: MessageId,
}

/// The instructions in what the user said, each once, the newest saying of it last.
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

/// Words that lay something down wherever they stand.
const ANYWHERE: &[&str] = &[
    "must",
    "must not",
    "mustn't",
    "should never",
    "should always",
    "should not",
    "shouldn't",
    "should only",
    "can only",
    "may only",
    "from now on",
    "going forward",
    "every time",
    "everytime",
    "each time",
    "not allowed",
    "is forbidden",
    "are forbidden",
    "under no circumstances",
    "without asking",
    "without my",
    "at all times",
    "no exceptions",
    "strictly",
    // Spanish, Portuguese, French, German, Russian
    "nunca",
    "siempre",
    "sempre",
    "debes",
    "no debe",
    "não deve",
    "não pode",
    "obligatorio",
    "obrigatório",
    "a partir de ahora",
    "a partir de agora",
    "jamais",
    "toujours",
    "il faut",
    "tu dois",
    "vous devez",
    "ne doit pas",
    "désormais",
    "niemals",
    "immer nur",
    "darf nicht",
    "dürfen nicht",
    "musst",
    "müssen",
    "ab jetzt",
    "stets",
    "auf keinen fall",
    "никогда",
    "всегда",
    "нельзя",
    "обязательно",
    "не надо",
];

/// Words that lay something down at the beginning of a clause.
const IN_FRONT: &str = "never|always|do not|don't|don’t|dont|only|make sure|be sure|ensure|avoid|stop using|refrain|remember to|remember|keep in mind\
    |no more|não|somente|apenas|no|ne|evita|evite|évite|nur|keine?|nie|nicht|immer|не|только";

/// The same in scripts without spaces.
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

/// Whether a sentence lays something down.
pub(in crate::compact) fn is_instruction(sentence: &str) -> bool {
    static STANDING: Pattern = Pattern::new(|| any_of(ANYWHERE));
    // A clause begins at the start, behind a stop or dash, and behind words that lead an order in.
    static ORDER: Pattern = Pattern::new(|| {
        Regex::new(&format!(
            r"(?i)(?:^(?:\d+[.)] )?|[.!,;:(—–-] |\b(?:and|but|also|please|then|so|just|you|btw|actually|again|should|must|can|to|use|is|are|e|mas|pero|und|aber|bitte|et|mais) )(?:{IN_FRONT}) (\p{{L}}+)"
        ))
        .ok()
    });
    static AT_END: Pattern = Pattern::new(|| Regex::new(r"(?i)\bonly[.!]?$").ok());
    // A question lays nothing down, whatever words it has; neither does an account of what the user saw.
    if sentence.ends_with(['?', '？']) || sentence.chars().count() < 6 {
        return false;
    }
    if matches(&STANDING, sentence)
        || INNER.iter().any(|cue| sentence.contains(cue))
        || matches(&AT_END, sentence)
    {
        return true;
    }
    // "never invalidates", "only has" tell what something does.
    ORDER.as_ref().is_some_and(|order| {
        order.captures_iter(sentence).any(|found| {
            let verb = found.get(1).map(|verb| verb.as_str().to_lowercase()).unwrap_or_default();
            !TOLD.contains(&verb.as_str()) && (!verb.ends_with('s') || verb.ends_with("ss"))
        })
    })
}

/// Words behind which the sentence tells something or answers: "don't know", "no, i meant", "only one".
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
