//! Names that give a value away: `password`, `client_secret`, `apiKey`.
//!
//! A name is taken apart into words first. So `tokenizer` is no `token`, `maxTokens` is none either, and
//! `PASSWORD_MIN_LENGTH` is about passwords without being one.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// How much a name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// Any other `…_key`: only a long random value is believed.
    Faint,
    /// Also said of much that is no secret (`token`, `secret`, `auth`), so the value must look random.
    Weak,
    /// Said of secrets (`api_key`, `client_secret`).
    Strong,
    /// Said of secrets that people make up, which may be ordinary words.
    Password,
}

/// What the search looks for. The name is found around it.
pub(crate) static KEYWORDS: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "credential",
    "auth",
    "_pat",
    "pw",
    "psk",
    "mnemonic",
    "phrase",
];

/// Passwords in other languages. They are names by themselves: scripts without spaces show no beginning of a word.
pub(crate) static FOREIGN: &[&str] =
    &["contraseña", "senha", "kennwort", "mot de passe", "пароль", "密码", "密碼", "パスワード", "비밀번호"];

/// Words that mean a password, alone or at the end of a word (`PGPASSWORD`).
const PASSWORDS: &str = "password passwd passphrase passcode passwort pwd";

/// Words that end a name, written as one.
const COMPOUNDS: &str = "apikey secretkey accesskey privatekey accountkey authkey signingkey encryptionkey \
    masterkey sharedkey presharedkey authtoken accesstoken refreshtoken apitoken sessiontoken bearertoken \
    bottoken oauthtoken csrftoken requirepass masterauth clientsecret appsecret apisecret sharedsecret \
    storepass keypass";

/// A `key` is a secret only as one of these: there are primary keys, map keys and keys on keyboards too.
const KEYS: &str = "api access secret private account signing signature encryption decryption auth master \
    shared preshared subscription deploy service role ssh session app application consumer license admin \
    storage integration webhook";

/// Keys of maps, tables and locks, and the halves of pairs that everybody may know.
static OTHER_KEYS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    words(
        "a array attribute base bucket cache certificate class column composite compound config context current data \
        dedup dict dictionary document each entry event field file first foreign form global group hash header hot i18n \
        id idempotency image index item job json keyboard kms label language last left lock lookup map memo message \
        metadata method modifier name new next object old option order page param parent partition path pin position \
        post pre prefix previous primary prop property provider public query react record redis ref registry request \
        resource response right route routing row s3 sample search section seed selected shard shortcut sort source \
        state storage string sub table tag target task test the this thread timestamp to translation type unique url \
        user value verifying view",
    )
});

/// A name that goes on like this is about the secret, not the secret.
static AFTER: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    words(
        "account address age alg algorithm amount arn array at attempt attempts balance bucket budget \
        button bytes chars check class client cmd col column command component config configuration \
        configurations contract cryptogram controller cost count counter counts created data days decimals \
        dialog dir directory disabled enabled end endpoint entropy env error errors estimate exception \
        exists expiration expired expires expiry failed field fields file filename flow form format \
        handler header helper hint history host hours id identifier idx ids index info input invalid \
        issuer kind label len length lifetime limit limits list location lockout manager map max message \
        metadata method mgr middleware min minutes mint mode model module name names namespace needed num \
        option options owner page pair path pattern placeholder policy pool port pos position prefix price \
        program prompt provider rate ratio ref regex required reset rotation rules schema scheme scope \
        scopes seconds service settings size source start state status stdin store strategy strength subject \
        symbol table title total ttl type types uri url usage used valid validation validator var variable \
        version view window",
    )
});

/// A name that begins like this asks or does something.
static BEFORE: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    words(
        "allow ask check compare create disable enable expired fetch forgot generate get has hide invalid \
        is max min missing no num parse public require requires revoke show toggle total validate verify",
    )
});

/// A token that is called so is a word, a page, a coin or a promise.
static OTHER_TOKENS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    words(
        "base bos cached cancel cancellation cls completion continuation cursor end eos first governance \
        idempotency image input last lock lp mask native next output pad page pagination prev previous \
        prompt quote reasoning request sep special start starting stop unk",
    )
});

/// The words of a list, for a long one that is looked up in often.
pub(crate) fn words(list: &'static str) -> BTreeSet<&'static str> {
    list.split_ascii_whitespace().collect()
}

/// Whether `word` is in a list of words.
pub(crate) fn is_among(word: &str, list: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == word)
}

/// What `name` says about its value: an identifier in any usual spelling. Of a dotted one the last part counts.
pub(crate) fn classify(name: &str) -> Option<Name> {
    let last = name.rsplit('.').next().unwrap_or(name);
    let spelled = separate_words(last);
    let words: Vec<&str> = spelled
        .split('_')
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .collect();
    let at = words.iter().rposition(|word| is_term(word))?;
    let (before, after) = (&words[..at], &words[at + 1..]);
    let previous = before.last().copied().unwrap_or_default();
    let class = match words[at] {
        "key" if before.is_empty() || OTHER_KEYS.contains(previous) => return None,
        "key" if !is_among(previous, KEYS) => Name::Faint,
        "pat" if before.is_empty() || !after.is_empty() => return None,
        "phrase" if !is_among(previous, "seed recovery backup mnemonic") => return None,
        "key" | "pat" | "mnemonic" | "phrase" => Name::Strong,
        // A single letter in front says nothing: `pToken`, `sPass`.
        "pass" if previous.len() > 1 => Name::Password,
        "secret" | "token" if previous.len() > 1 => Name::Strong,
        "pw" if !after.is_empty() => return None,
        "pw" => Name::Password,
        "psk" => Name::Strong,
        term if is_password(term) => Name::Password,
        term if is_among(term, COMPOUNDS) => Name::Strong,
        _ => Name::Weak,
    };
    // Of `has_api_key` the word before both counts.
    let leading =
        if words[at] == "key" { before.iter().rev().nth(1).copied().unwrap_or_default() } else { previous };
    let is_other = words[at] == "token" && OTHER_TOKENS.contains(previous);
    let is_about = is_other || BEFORE.contains(leading) || after.iter().any(|word| AFTER.contains(word));
    (!is_about).then_some(class)
}

/// Whether a word of `name` means a secret, whatever else it says.
pub(crate) fn has_term(name: &str) -> bool {
    separate_words(name).split('_').any(is_term)
}

fn is_password(word: &str) -> bool {
    PASSWORDS.split_ascii_whitespace().any(|password| word.ends_with(password))
}

fn is_term(word: &str) -> bool {
    is_among(word, "secret token auth credential credentials creds pass pw psk key pat mnemonic phrase")
        || is_password(word)
        || is_among(word, COMPOUNDS)
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
