//! Redaction: known shapes of secrets are replaced in every summary before it is stored.
//!
//! A summary is the most visible message of a window and lives longest, so it is the worst place for a
//! credential. This looks for shapes only; it cannot know whether a key is real. Where it errs, it costs one
//! word and never a paragraph: apart from private key blocks no pattern reaches across white space.
//!
//! ```
//! use plimsoll::redact::redact;
//! let summary = redact("Deployed with DATABASE_URL=postgres://app:hunter2@db/prod as planned.");
//! assert_eq!(summary.text, "Deployed with DATABASE_URL=postgres://app:[redacted: URL password]@db/prod as planned.");
//! assert!(redact("The tokenizer counted max_tokens=4096.").found.is_empty());
//! ```

use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};
use serde::{Deserialize, Serialize};

/// A text without secrets of known shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// The text with each secret replaced by `[redacted: …]`.
    pub text: String,
    /// What was replaced, in no particular order.
    pub found: Vec<SecretKind>,
}

/// Shapes of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretKind {
    /// A private key in PEM or PGP armour.
    PrivateKey,
    /// The key of a cloud provider.
    CloudKey,
    /// The key of a model provider.
    ProviderKey,
    /// A token of a code host, package registry, chat or other service.
    ServiceToken,
    /// A JSON web token.
    Jwt,
    /// The password in a URL.
    UrlPassword,
    /// The value of an authorisation or cookie header.
    Header,
    /// The value of something named like a secret.
    Assignment,
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SecretKind::PrivateKey => "private key",
            SecretKind::CloudKey => "cloud key",
            SecretKind::ProviderKey => "API key",
            SecretKind::ServiceToken => "service token",
            SecretKind::Jwt => "JWT",
            SecretKind::UrlPassword => "URL password",
            SecretKind::Header => "credential header",
            SecretKind::Assignment => "secret value",
        })
    }
}

/// How sure a shape is by itself.
#[derive(Clone, Copy, PartialEq)]
enum Trust {
    /// Nothing else looks like this.
    Sure,
    /// It must not be a placeholder, a number or a piece of code.
    NotPlaceholder,
    /// It must also have letters and digits, as made-up words have not.
    Random,
}

use SecretKind as Kind;
use Trust::{NotPlaceholder, Random, Sure};

/// Names that give a value away; what follows must not go on as a word (`tokenizer`, `tokens`, `author`).
const NAMES: &str = "(?:secret|token|pass(?:w(?:or)?d|phrase)?|pwd|(?:api|access|secret|private|account|signing\
    |encryption)[ _-]?key|credentials?|auth)\
    (?:[0-9]{0,2}|[_.-][A-Za-z0-9_.-]*)";

/// Shape, trust, pattern. Where a pattern has a group `s`, only that is replaced.
fn table() -> Vec<(SecretKind, Trust, String)> {
    // A word boundary in the sense of ASCII keeps the fast engines at work on text in any language.
    let row = |kind, trust, pattern: &str| (kind, trust, pattern.replace(r"\b", r"(?-u:\b)"));
    let armour = "[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----";
    // White space, also as the two characters that JSON and shells write for it.
    let gap = r"(?:\s|\\n|\\r)*";
    vec![
        // The body is lines of base64 and a few headers, so a missing end never swallows prose. The last line
        // of base64 may be short; it is only believed before an end.
        (
            Kind::PrivateKey,
            Sure,
            format!(
                "-----BEGIN {armour}\
                 (?:{gap}(?:[A-Za-z0-9+/=]{{20,}}|(?:Proc-Type|DEK-Info|Version|Comment): [^\\n\\\\]{{0,100}}))*\
                 (?:{gap}[A-Za-z0-9+/]{{0,19}}={{0,2}}{gap}-----END {armour})?"
            ),
        ),
        row(Kind::CloudKey, Sure, r"\b(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{16}\b"),
        row(Kind::CloudKey, Sure, r"\bAIza[0-9A-Za-z_-]{35}"),
        row(Kind::CloudKey, Sure, r"\bya29\.[0-9A-Za-z_-]{20,}"),
        row(Kind::CloudKey, Sure, r"\bGOCSPX-[0-9A-Za-z_-]{20,}"),
        row(Kind::CloudKey, Sure, r"(?i)\bAccountKey=(?P<s>[A-Za-z0-9+/=]{30,})"),
        row(Kind::CloudKey, Sure, r"[?&]sig=(?P<s>[A-Za-z0-9%+/=]{20,})"),
        row(Kind::CloudKey, Sure, r"\bdo[opr]_v1_[a-f0-9]{40,}"),
        row(Kind::ProviderKey, Sure, r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
        row(Kind::ProviderKey, Sure, r"\bsk-or-v1-[a-f0-9]{32,}"),
        row(Kind::ProviderKey, Random, r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}"),
        row(Kind::ProviderKey, Random, r"\b(?:gsk_|hf_|r8_|xai-|pplx-)[A-Za-z0-9]{20,}"),
        row(Kind::ServiceToken, Sure, r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}"),
        row(Kind::ServiceToken, Random, r"\bwhsec_[A-Za-z0-9+/=]{16,}"),
        row(Kind::ServiceToken, Sure, r"\bgh[opusr]_[A-Za-z0-9]{20,}"),
        row(Kind::ServiceToken, Sure, r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
        row(Kind::ServiceToken, Sure, r"\bglpat-[A-Za-z0-9_-]{16,}"),
        row(Kind::ServiceToken, Random, r"\bnpm_[A-Za-z0-9]{30,}"),
        row(Kind::ServiceToken, Random, r"\bpypi-[A-Za-z0-9_-]{40,}"),
        row(Kind::ServiceToken, Random, r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
        row(Kind::ServiceToken, Sure, r"hooks\.slack\.com/services/(?P<s>[A-Za-z0-9/_-]{20,})"),
        row(Kind::ServiceToken, Sure, r"discord(?:app)?\.com/api/webhooks/(?P<s>[0-9]+/[A-Za-z0-9_-]{20,})"),
        row(Kind::ServiceToken, Random, r"\b[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
        row(Kind::ServiceToken, Sure, r"\b[0-9]{8,10}:[A-Za-z0-9_-]{35}\b"),
        row(Kind::ServiceToken, Sure, r"\b(?:SK|AC)[0-9a-f]{32}\b"),
        row(Kind::ServiceToken, Sure, r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
        row(Kind::ServiceToken, Sure, r"\bkey-[0-9a-f]{32}\b"),
        row(Kind::ServiceToken, Sure, r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
        row(Kind::ServiceToken, Sure, r"\bdapi[0-9a-f]{32}"),
        row(Kind::ServiceToken, Random, r"\bhv[bs]\.[A-Za-z0-9_-]{20,}"),
        row(Kind::ServiceToken, Random, r"\b(?:lin_api|ntn|secret)_[A-Za-z0-9]{30,}"),
        row(Kind::ServiceToken, Sure, r"https?://(?P<s>[0-9a-f]{32})@"),
        row(Kind::Jwt, Sure, r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
        row(Kind::UrlPassword, NotPlaceholder, r#"[A-Za-z0-9]://[^\s/:@"'<>]*:(?P<s>[^\s/"'<>]+)@"#),
        row(
            Kind::Header,
            NotPlaceholder,
            r#"(?i)\bauthorization["']?\s{0,3}[:=]\s{0,3}["']?(?:bearer|basic|token)\s{1,3}(?P<s>[^\s"',;]{6,})"#,
        ),
        row(Kind::Header, Random, r"(?i)\bbearer\s{1,3}(?P<s>[A-Za-z0-9._~+/=-]{20,})"),
        row(
            Kind::Header,
            NotPlaceholder,
            r#"(?i)\b(?:set-)?cookie["']?\s{0,3}:\s{0,3}["']?[^\s=;]+=(?P<s>[^\s;"']{8,})"#,
        ),
        row(Kind::Header, NotPlaceholder, r#"\s(?:-u|--user)[ =]["']?[^\s:"']+:(?P<s>[^\s"']{3,})"#),
        row(
            Kind::Header,
            NotPlaceholder,
            r#"(?i)\bx-api-key["']?\s{0,3}[:=]\s{0,3}["']?(?P<s>[^\s"',;]{6,})"#,
        ),
        (
            Kind::Assignment,
            NotPlaceholder,
            format!(r#"(?i){NAMES}["']?[ ]?=[ ]?["'`]?(?P<s>[^\s"'`,;&=)]{{3,}})"#),
        ),
        (
            Kind::Assignment,
            NotPlaceholder,
            format!(r#"(?i){NAMES}["']\s{{0,3}}:\s{{0,3}}["'](?P<s>[^\s"'`]{{4,}})["']"#),
        ),
        (Kind::Assignment, Random, format!(r#"(?i){NAMES}\s{{0,3}}:\s{{0,3}}["'`]?(?P<s>[^\s"'`,;]{{6,}})"#)),
        (
            Kind::Assignment,
            NotPlaceholder,
            format!(r#"(?i)\s--?[a-z0-9-]*{NAMES}[ =]["']?(?P<s>[^\s"'-][^\s"']{{3,}})"#),
        ),
    ]
}

struct Rules {
    any: RegexSet,
    rules: Vec<(SecretKind, Trust, Regex)>,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let table = table();
    let patterns = table.iter().map(|(_, _, pattern)| pattern);
    let compiled =
        table.iter().filter_map(|(kind, trust, pattern)| Some((*kind, *trust, Regex::new(pattern).ok()?)));
    // A test holds that every pattern compiles, so the two lists go together.
    Rules { any: RegexSet::new(patterns).unwrap_or_else(|_| RegexSet::empty()), rules: compiled.collect() }
});

/// Replace every secret of a known shape. Applied twice it changes nothing more.
pub fn redact(text: &str) -> Redacted {
    let mut redacted = Redacted { text: text.to_owned(), found: Vec::new() };
    for at in RULES.any.matches(text) {
        let Some((kind, trust, rule)) = RULES.rules.get(at) else { continue };
        let replaced = rule.replace_all(&redacted.text, |captures: &Captures<'_>| {
            let whole = captures.get(0).map(|found| found.as_str()).unwrap_or_default();
            let Some(secret) = captures.name("s").or(captures.get(0)) else { return whole.to_owned() };
            if !is_secret(secret.as_str(), *trust) {
                return whole.to_owned();
            }
            redacted.found.push(*kind);
            let start = captures.get(0).map(|found| found.start()).unwrap_or_default();
            let (from, to) = (secret.start() - start, secret.end() - start);
            format!("{}[redacted: {kind}]{}", &whole[..from], &whole[to..])
        });
        redacted.text = replaced.into_owned();
    }
    redacted
}

fn is_secret(value: &str, trust: Trust) -> bool {
    if value.contains("[redacted") || value.starts_with("redacted:") {
        return false;
    }
    match trust {
        Sure => true,
        NotPlaceholder => !is_placeholder(value),
        Random => {
            let has = |test: fn(&char) -> bool| value.chars().any(|c| test(&c));
            let mixed = has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
            mixed && !is_placeholder(value) && !value.contains("://") && !value.starts_with(['/', '.', '~'])
        }
    }
}

/// Values that only stand where a secret would: variables, types, numbers, stars, calls.
fn is_placeholder(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',', ';', ':', ')', ']', '}', '>']);
    let lower = value.to_ascii_lowercase();
    let words = [
        "none",
        "null",
        "nil",
        "true",
        "false",
        "undefined",
        "string",
        "str",
        "bool",
        "boolean",
        "number",
        "int",
        "integer",
        "bytes",
        "optional",
        "required",
        "secret",
        "token",
        "password",
        "changeme",
        "bearer",
        "basic",
        "env",
        "self",
        "this",
        "todo",
        "redacted",
        "hidden",
        "omitted",
        "missing",
        "invalid",
        "empty",
    ];
    let starts = ["your", "xxx", "process.env", "os.environ", "os.getenv", "env.", "std::env", "example"];
    value.len() < 2
        || value.starts_with(['$', '{', '<', '*', '[', '(', '%', '\\', '#', '&'])
        || value.contains(['(', '{', '<'])
        || value.contains("...")
        || words.contains(&lower.as_str())
        || starts.iter().any(|start| lower.starts_with(start))
        || value.chars().all(|c| c.is_ascii_digit() || c.is_ascii_punctuation())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for (_, _, pattern) in table() {
            Regex::new(&pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        }
        assert_eq!(RULES.any.len(), table().len());
        assert_eq!(RULES.rules.len(), table().len());
    }
}
