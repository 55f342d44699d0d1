//! Passwords and tokens in the authority of a URL.

use std::ops::Range;

use crate::cursor::near_before;
use crate::values::{is_placeholder, is_random};

/// The longest user and password looked through; a longer authority is none.
const LONGEST_AUTHORITY: usize = 320;

/// A user name that long and that random is a token.
const TOKEN_LENGTH: usize = 20;

/// Schemes whose passwords are often pasted as they are, with slashes that a URL would escape.
const DATABASES: &str =
    "postgres postgresql mysql mariadb mongodb redis rediss amqp amqps mssql sqlserver oracle clickhouse";

/// The secret in the URL whose `://` begins at `at`.
pub(crate) fn secret(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    at.checked_sub(1).and_then(|before| bytes.get(before)).filter(|byte| byte.is_ascii_alphanumeric())?;
    let start = at + 3;
    let narrow = authority(text, start, false);
    let wide = if is_database(text, at) { authority(text, start, true) } else { narrow };
    let (user, password) = userinfo(narrow).or_else(|| userinfo(wide))?;
    // In every ordinary URL a host and its port stand before the first slash.
    let longer = userinfo(wide).filter(|(user, password)| {
        let port = password.split('/').next().unwrap_or_default();
        !user.contains('/') && !port.is_empty() && !port.bytes().all(|byte| byte.is_ascii_digit())
    });
    let (user, password) =
        if wide.len() == narrow.len() { (user, password) } else { longer.unwrap_or((user, password)) };
    if user.contains('/') {
        return None;
    }
    let password_start = start + user.len() + 1;
    if password.is_empty() {
        return (user.len() >= TOKEN_LENGTH && is_random(user)).then_some(start..start + user.len());
    }
    (!is_placeholder(password)).then_some(password_start..password_start + password.len())
}

/// The password of an Oracle URL, `jdbc:oracle:thin:user/X@//host`; `end` is where the user begins.
pub(crate) fn oracle(text: &str, end: usize) -> Option<Range<usize>> {
    let (userinfo, _) = authority(text, end, true).split_once('@')?;
    let (user, password) = userinfo.split_once('/')?;
    let start = end + user.len() + 1;
    (!password.is_empty() && !is_placeholder(password)).then_some(start..start + password.len())
}

/// The password of a data source as Go writes them, `user:X@tcp(host)/db`; `at` is where the `@` stands.
pub(crate) fn data_source(text: &str, at: usize) -> Option<Range<usize>> {
    let near = near_before(text, at, 128);
    let userinfo =
        near.rsplit(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '=' | '/')).next()?;
    let (_, password) = userinfo.split_once(':')?;
    (!password.is_empty() && !is_placeholder(password)).then_some(at - password.len()..at)
}

fn authority(text: &str, start: usize, with_slashes: bool) -> &str {
    let rest = text.get(start..).unwrap_or_default();
    let end = rest
        .char_indices()
        .take_while(|(at, c)| {
            let ends = c.is_whitespace()
                || matches!(c, '"' | '\'' | '`' | '<' | '>' | '\\')
                || *c == if with_slashes { '?' } else { '/' };
            !ends && *at < LONGEST_AUTHORITY
        })
        .last()
        .map_or(0, |(at, c)| at + c.len_utf8());
    &rest[..end]
}

/// User and password of an authority; the password is empty where there is only a user.
fn userinfo(authority: &str) -> Option<(&str, &str)> {
    let (userinfo, _) = authority.rsplit_once('@')?;
    match userinfo.split_once(':') {
        Some((user, password)) if !password.is_empty() => Some((user, password)),
        Some(_) => None,
        None => Some((userinfo, "")),
    }
}

fn is_database(text: &str, at: usize) -> bool {
    let mut start = at.saturating_sub(24);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let before = text.get(start..at).unwrap_or_default();
    let scheme = before.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '+')).next().unwrap_or_default();
    let scheme = scheme.split('+').next().unwrap_or_default();
    crate::names::is_among(&scheme.to_ascii_lowercase(), DATABASES)
}
