//! Names of secrets: `password`, `client_secret`, `apiKey`.
//!
//! A name is split into words first. So `tokenizer` is not a `token`, nor is `maxTokens`, and `PASSWORD_MIN_LENGTH`
//! describes passwords without being one.

use crate::words::{is_listed, words};

/// How strongly a name indicates a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// Any other `…_key`: only a long random value is believed.
    Faint,
    /// Also used for much that is not a secret (`token`, `secret`, `auth`), so the value must look random.
    Weak,
    /// Used for secrets (`api_key`, `client_secret`).
    Strong,
    /// Used for secrets that users choose, which may be ordinary words.
    Password,
    /// Twelve words or more (`mnemonic`, `seed phrase`).
    Phrase,
}

/// Classifies a name: an identifier in any usual spelling. The last part of a dotted one counts.
pub(crate) fn classify(name: &str) -> Option<Name> {
    let last = name.rsplit('.').next().unwrap_or(name);
    let spelled = separate_words(last);
    let parts: Vec<&str> = spelled
        .split('_')
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .collect();
    let at = parts.iter().rposition(|word| is_term(word))?;
    let (before, after) = (&parts[..at], &parts[at + 1..]);
    let previous = before.last().copied().unwrap_or_default();
    let class = match parts[at] {
        // A plain `key`, or one after a word such as `foreign`, is not a secret.
        "key" if before.is_empty() || is_listed("other-keys", previous) => return None,
        "key" if !is_listed("keys", previous) => Name::Faint,
        "pat" if before.is_empty() || !after.is_empty() => return None,
        "phrase" if !["seed", "recovery", "backup", "mnemonic"].contains(&previous) => return None,
        "mnemonic" | "phrase" => Name::Phrase,
        "key" | "pat" => Name::Strong,
        // A single letter in front is not a qualifier: `pToken`, `sPass`.
        "pass" if previous.len() > 1 => Name::Password,
        "secret" | "token" if previous.len() > 1 => Name::Strong,
        "pw" if !after.is_empty() => return None,
        "pw" => Name::Password,
        "psk" => Name::Strong,
        term if is_password(term) => Name::Password,
        term if is_listed("compounds", term) => Name::Strong,
        _ => Name::Weak,
    };
    // Of `has_api_key` the word before both counts.
    let leading =
        if parts[at] == "key" { before.iter().rev().nth(1).copied().unwrap_or_default() } else { previous };
    let is_other = parts[at] == "token" && is_listed("other-tokens", previous);
    let is_about =
        is_other || is_listed("before", leading) || after.iter().any(|word| is_listed("after", word));
    (!is_about).then_some(class)
}

/// Whether a word of `name` means a secret, whatever else it says.
pub(crate) fn has_term(name: &str) -> bool {
    separate_words(name).split('_').any(is_term)
}

fn is_password(word: &str) -> bool {
    words("passwords").any(|password| word.ends_with(password))
}

fn is_term(word: &str) -> bool {
    is_listed("terms", word) || is_password(word) || is_listed("compounds", word)
}

/// `dbPassword`, `DB-PASSWORD` and `DBPassword` as `db_password`.
fn separate_words(name: &str) -> String {
    let mut spelled = String::with_capacity(name.len() + 8);
    let mut chars = name.chars().peekable();
    let mut previous = '_';
    while let Some(c) = chars.next() {
        let next_is_lower = chars.peek().is_some_and(|next| next.is_ascii_lowercase());
        let begins = previous.is_ascii_lowercase() || (previous.is_ascii_uppercase() && next_is_lower);
        if c.is_ascii_uppercase() && begins {
            spelled.push('_');
        }
        spelled.push(if matches!(c, '-' | ' ') { '_' } else { c.to_ascii_lowercase() });
        previous = c;
    }
    spelled
}
