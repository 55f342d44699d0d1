//! Tokens as they stand in a text: by prefix, by something in their middle, by address, by shape alone.

use std::ops::Range;

use crate::SecretKind::{self, CloudKey, ServiceToken};
use crate::services::Proof::{self, Prefix};
use crate::services::{Service, row};
use crate::shape::Part::{self, Edge, Run, Text};
use crate::shape::Set::{self, Alnum, Base64, Digit, Dotted, Hex, Path, Word};
use crate::shape::{exact, is_start, match_at, run};
use crate::values::{is_filler, is_random, is_template};

/// Tokens known by something in their middle or at their end.
#[derive(Debug)]
pub(crate) struct Infix {
    pub(crate) name: &'static str,
    pub(crate) kind: SecretKind,
    pub(crate) text: &'static str,
    /// What stands before the text, and how many of it.
    pub(crate) before: (Set, usize),
    pub(crate) after: &'static [Part],
}

pub(crate) static INFIXES: &[Infix] = &[
    Infix {
        name: "Terraform Cloud",
        kind: ServiceToken,
        text: ".atlasv1.",
        before: (Alnum, 14),
        after: &[Run(Dotted, 50, 120)],
    },
    Infix {
        name: "Mailchimp",
        kind: ServiceToken,
        text: "-us",
        before: (Hex, 32),
        after: &[Run(Digit, 1, 2), Edge],
    },
    Infix {
        name: "Microsoft Entra",
        kind: CloudKey,
        text: "Q~",
        before: (Dotted, 4),
        after: &[Run(Dotted, 31, 34), Edge],
    },
    Infix {
        name: "Azure DevOps",
        kind: CloudKey,
        text: "AZDO",
        before: (Alnum, 76),
        after: &[exact(Alnum, 4), Edge],
    },
    Infix { name: "New Relic", kind: ServiceToken, text: "FFFFNRAL", before: (Alnum, 32), after: &[Edge] },
    Infix { name: "MaxMind", kind: ServiceToken, text: "_mmk", before: (Word, 36), after: &[Edge] },
];

/// Addresses that are secrets themselves: the service, how the address goes on after its scheme, and what of it is
/// known to whoever knows the service.
pub(crate) static WEBHOOKS: &[Service] = &[
    row(
        "Slack",
        ServiceToken,
        Prefix,
        &["hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"],
        &[run(Base64, 20)],
    ),
    row(
        "Discord",
        ServiceToken,
        Prefix,
        &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
        &[run(Digit, 1), Text("/"), run(Word, 20)],
    ),
    row("Microsoft Teams", ServiceToken, Prefix, &["webhook.office.com/webhookb2/"], &[run(Path, 30)]),
    row(
        "Zapier",
        ServiceToken,
        Prefix,
        &["hooks.zapier.com/hooks/catch/"],
        &[run(Digit, 4), Text("/"), run(Alnum, 6)],
    ),
    row(
        "Telegram",
        ServiceToken,
        Prefix,
        &["api.telegram.org/bot"],
        &[run(Digit, 6), Text(":"), run(Word, 30)],
    ),
];

/// Tokens that have no mark of their own but a shape that nothing else has. They are long words.
#[derive(Debug)]
pub(crate) struct Unmarked {
    pub(crate) name: &'static str,
    /// One of these characters begins it.
    first: &'static [u8],
    shape: &'static [Part],
}

pub(crate) static UNMARKED: &[Unmarked] = &[
    Unmarked { name: "Twilio", first: b"S", shape: &[Text("SK"), exact(Hex, 32), Edge] },
    Unmarked { name: "Twilio", first: b"A", shape: &[Text("AC"), exact(Hex, 32), Edge] },
    Unmarked {
        name: "Telegram",
        first: b"0123456789",
        shape: &[Run(Digit, 8, 10), Text(":"), exact(Word, 35), Edge],
    },
    Unmarked {
        name: "Discord",
        first: b"MNO",
        shape: &[Run(Word, 24, 28), Text("."), exact(Word, 6), Text("."), run(Word, 27)],
    },
];

/// The shortest of the tokens without a mark.
const SHORTEST_UNMARKED: usize = 34;

/// A token, or what has the shape of one.
pub(crate) struct Token {
    pub(crate) end: usize,
    /// Whether its characters are those of a token, not of a name or a placeholder.
    pub(crate) is_secret: bool,
}

/// What of the shape of `row` begins with the prefix in `prefix`.
pub(crate) fn with_prefix(text: &str, row: &Service, prefix: Range<usize>) -> Option<Token> {
    let bytes = text.as_bytes();
    let start = prefix.start;
    let known = &text[prefix.clone()];
    if !is_start(bytes, start) || !row.prefixes.contains(&known) {
        return None;
    }
    // A prefix of letters and digits only also stands somewhere in every long run of base64.
    let before = start.checked_sub(1).and_then(|at| bytes.get(at));
    if matches!(before, Some(b'/' | b'+')) && known.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let end = match_at(row.rest, bytes, prefix.end)?;
    let rest = &text[prefix.end..end];
    let is_checksum = ["sha256=", "sha384=", "sha512=", "sha256-", "sha512-"]
        .iter()
        .any(|hash| text[..start].ends_with(hash));
    let is_proven = row.proof == Proof::Prefix || is_random(rest);
    Some(Token { end, is_secret: is_proven && !is_checksum && !is_filled_in(rest) })
}

/// The secret part of the address that begins with the text in `known`.
pub(crate) fn of_webhook(text: &str, row: &Service, known: Range<usize>) -> Option<Range<usize>> {
    let end = match_at(row.rest, text.as_bytes(), known.end)?;
    (!is_filled_in(&text[known.end..end])).then_some(known.end..end)
}

/// The token around the text in `known`.
pub(crate) fn around(text: &str, row: &Infix, known: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let (set, length) = row.before;
    let start = known.start.checked_sub(length)?;
    let fits = text[known.clone()] == *row.text
        && bytes[start..known.start].iter().all(|byte| set.has(*byte))
        && is_start(bytes, start);
    let end = if fits { match_at(row.after, bytes, known.end)? } else { return None };
    is_random(&text[start..end]).then_some(start..end)
}

/// All tokens without a mark in a text.
pub(crate) fn without_mark(text: &str) -> Vec<(&'static str, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    // Of every long word the byte in this place is a part, so most of the text is stepped over.
    while at + SHORTEST_UNMARKED <= bytes.len() {
        let probe = at + SHORTEST_UNMARKED - 1;
        if !IS_IN_LONG_WORD[usize::from(bytes[probe])] {
            at = probe + 1;
            continue;
        }
        let is_in = |byte: &&u8| IS_IN_LONG_WORD[usize::from(**byte)];
        let start = probe - bytes[at..probe].iter().rev().take_while(is_in).count();
        let end = probe + bytes[probe..].iter().take_while(is_in).count();
        if end - start >= SHORTEST_UNMARKED {
            in_long_word(text, start..end, &mut found);
        }
        at = end;
    }
    found
}

fn in_long_word(text: &str, word: Range<usize>, found: &mut Vec<(&'static str, Range<usize>)>) {
    let bytes = text.as_bytes();
    let mut at = word.start;
    while at < word.end {
        let mut next = at + 1;
        if at == word.start || is_start(bytes, at) {
            for row in UNMARKED.iter().filter(|row| row.first.contains(&bytes[at])) {
                if let Some(end) = match_at(row.shape, bytes, at).filter(|end| is_random(&text[at..*end])) {
                    found.push((row.name, at..end));
                    next = end;
                }
            }
        }
        at = next;
    }
}

/// What long words are made of, letters and digits and what joins them. A table, because every text is read by it.
static IS_IN_LONG_WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        table[byte] = c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.' | b':');
        byte += 1;
    }
    table
};

/// `sk-ant-xxxxxxxx`, `ghp_your-token-here`.
fn is_filled_in(rest: &str) -> bool {
    let has_digit = rest.bytes().any(|byte| byte.is_ascii_digit());
    (is_filler(rest) && !has_digit) || is_template(&rest.to_ascii_lowercase())
}
