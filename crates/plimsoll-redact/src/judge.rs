//! Whether what a name is linked to is a secret.

use std::ops::Range;

use crate::assign::{Link, Named};
use crate::cursor::{Cursor, after_parameter, between_others, near_before};
use crate::header::is_user_and_password;
use crate::names::{Name, is_among};
use crate::shape::Set;
use crate::values::{
    has_digit, is_chosen_word, is_code, is_identifier, is_joined_passphrase, is_long_path, is_mixed,
    is_passphrase, is_path, is_placeholder, is_prose_word, is_random, is_wordy,
};

/// Shortest value that is taken for a secret where only a secret can stand.
pub(crate) const SHORTEST: usize = 3;

/// Shortest one where it must mix letters with digits or signs.
pub(crate) const SHORTEST_MIXED: usize = 6;

/// Shortest one behind a name that says little.
const SHORTEST_WEAK: usize = 8;

/// What is longer is believed without a telling name.
pub(crate) const LONG: usize = 20;

impl<'t> Named<'t> {
    /// A value in quotes. Where a name has a literal, the literal is believed: it need not look random.
    pub(crate) fn judge_quoted(
        &self,
        range: Range<usize>,
        link: Link,
        name_is_quoted: bool,
    ) -> Option<Range<usize>> {
        let value = &self.text[range.clone()];
        if self.class == Name::Faint {
            return self.judge_faint(range, link);
        }
        let trimmed = value.trim();
        // `"password=" + password` has the quotes the other way round.
        if trimmed.len() != value.len() || is_quoted_placeholder(value) {
            let digits = value.len() >= SHORTEST_MIXED && value.bytes().all(|byte| byte.is_ascii_digit());
            let is_assigned = !matches!(link, Link::Call | Link::Wrapped | Link::Comma);
            return (digits && self.class == Name::Password && is_assigned).then_some(range);
        }
        if value.contains([' ', '\t']) {
            let fits = self.class == Name::Password && is_passphrase(value);
            return (fits && !matches!(link, Link::Call | Link::Wrapped | Link::Comma)).then_some(range);
        }
        let is_sure = is_mixed(value) && value.len() >= SHORTEST_MIXED && !is_path(value);
        let fits = match (link, self.class) {
            (Link::Call | Link::Wrapped | Link::Comma, Name::Weak) => is_random(value),
            (Link::Or, Name::Weak) => is_sure && !is_identifier(value),
            (Link::Comma, Name::Password) if is_sure || (self.is_upper() && !is_prose_word(value)) => {
                value.len() >= SHORTEST && !is_identifier(value)
            }
            (Link::Call, _) => is_sure && !is_identifier(value) && !is_code(value),
            (Link::Wrapped, _) => is_sure && !is_identifier(value) && !is_code(value) && !is_wordy(value),
            (Link::Comma, _) => {
                is_sure && value.len() >= SHORTEST_WEAK && !is_identifier(value) || is_random(value)
            }
            (Link::Is, Name::Weak) => is_sure && !is_wordy(value),
            (_, Name::Password) => {
                let is_elsewhere = is_long_path(value) || (is_path(value) && is_pwd(self.name));
                value.len() >= SHORTEST && !is_prose_word(value) && !is_rule(value) && !is_elsewhere
            }
            (_, Name::Strong) => {
                value.len() > SHORTEST
                    && !is_prose_word(value)
                    && !is_path(value)
                    && !is_label_of_thing(value)
            }
            (_, Name::Weak | Name::Faint) => {
                let is_login = name_is_quoted && is_user_and_password(value);
                let is_chosen = self.is_said_of_passwords()
                    && is_sure
                    && !is_identifier(value)
                    && value.bytes().all(|byte| byte != b'-');
                is_login
                    || is_chosen
                    || (is_sure && !is_identifier(value) && !(is_wordy(value) && value.len() < 16))
                    || is_random(value)
            }
        };
        fits.then_some(range)
    }

    /// Behind a name that says next to nothing.
    fn judge_faint(&self, range: Range<usize>, link: Link) -> Option<Range<usize>> {
        let value = &self.text[range.clone()];
        let is_assigned = matches!(link, Link::Equals { .. } | Link::Colon | Link::Arrow);
        let is_token =
            value.len() >= LONG && value.bytes().all(|byte| Set::Base64.has(byte)) && is_random(value);
        (is_assigned && is_token && !is_path(value) && !is_placeholder(value)).then_some(range)
    }

    /// Whether the name is written as those of variables of the environment.
    fn is_upper(&self) -> bool {
        let has = |test: fn(&u8) -> bool| self.name.bytes().any(|byte| test(&byte));
        has(u8::is_ascii_uppercase) && !has(u8::is_ascii_lowercase)
    }

    /// Of the weak names these are said of passwords, too.
    fn is_said_of_passwords(&self) -> bool {
        self.name.eq_ignore_ascii_case("secret") || self.name.eq_ignore_ascii_case("pass")
    }

    /// `name=X` without quotes: in the environment, an option, a form, a file of settings. In code a literal would be
    /// quoted, so what may be code must at least mix letters and digits.
    pub(crate) fn judge_equals(&self, cursor: Cursor<'t>, spaced: bool) -> Option<Range<usize>> {
        let is_upper = self.is_upper();
        let begins_line = matches!(self.before, None | Some(b'\n' | b'\r'))
            || self.text[..self.start].ends_with("export ")
            || self.text[..self.start].ends_with("set ");
        if let Some(range) = self.connection_string(cursor, spaced) {
            return Some(range);
        }
        let range = if self.is_parameter {
            cursor.word(after_parameter)
        } else if is_upper && begins_line && !spaced {
            cursor.word(ends_assignment)
        } else {
            cursor.word(between_others)
        };
        if self.class == Name::Faint {
            return self.judge_faint(range, Link::Equals { spaced });
        }
        let value = &self.text[range.clone()];
        if is_placeholder(value) || (is_pwd(self.name) && is_path(value)) {
            let is_number = value.len() >= SHORTEST_MIXED && value.bytes().all(|byte| byte.is_ascii_digit());
            return (is_number && self.class == Name::Password && !spaced).then_some(range);
        }
        let is_mixed_value =
            value.len() >= SHORTEST_MIXED && is_mixed(value) && !is_code(value) && !is_identifier(value);
        let is_argument = matches!(self.before, Some(b'(' | b',')) || self.text[..self.start].ends_with(", ");
        let is_argument = is_argument || self.text[range.end..].starts_with([',', ')']);
        let fits = if self.is_parameter {
            let is_short_name = self.name.eq_ignore_ascii_case("key");
            let is_long = value.len() >= LONG && !is_code(value);
            if is_short_name {
                is_long || (is_mixed_value && value.len() >= SHORTEST_WEAK)
            } else {
                value.len() >= if self.class == Name::Weak { SHORTEST_MIXED } else { SHORTEST }
            }
        } else if is_upper && !spaced {
            let least = if self.class == Name::Weak { SHORTEST_MIXED } else { SHORTEST };
            let is_shouted = self.class == Name::Weak && !value.bytes().any(|byte| byte.is_ascii_lowercase());
            !is_shouted && (value.len() >= least && !is_code(value) || is_mixed_value)
        } else if self.is_option && !spaced {
            let is_sure = self.class != Name::Weak
                || is_mixed_value
                || !value.contains([':', ',']) && value.len() >= SHORTEST_WEAK;
            is_sure && value.len() >= SHORTEST && !is_code(value) && !value.starts_with("id=")
        } else if spaced {
            is_mixed_value && !self.is_statement(range.end) && (self.class != Name::Weak || !is_wordy(value))
        } else if self.class == Name::Weak || is_argument {
            is_mixed_value
        } else {
            value.len() >= SHORTEST && !is_code(value) && !is_identifier(value) && !is_path(value)
        };
        let fits = fits && !is_long_path(value);
        fits.then_some(range)
    }

    /// Whether this is a line of a program, in which a literal would stand in quotes.
    fn is_statement(&self, end: usize) -> bool {
        let after =
            Cursor::new(self.text, end).line(80).trim_start_matches([')', ']', '}', ',', '.']).trim_start();
        if !after.is_empty() && !after.starts_with(['#', '|', '\\', '"', '`'])
            || self.text[end..].starts_with(';')
        {
            return true;
        }
        let line = near_before(self.text, self.start, 80).rsplit('\n').next().unwrap_or_default();
        self.before == Some(b'.')
            || is_member(self.name)
            || line
                .split([' ', '\t'])
                .any(|word| is_among(word, "let const var mut final static val def auto"))
    }

    /// `name: X` without quotes: YAML, a header, a label in a text. Types, states and whole sentences stand here, too.
    pub(crate) fn judge_colon(&self, cursor: Cursor<'t>, name_is_quoted: bool) -> Option<Range<usize>> {
        let range = cursor.word(between_others);
        if self.class == Name::Faint {
            return self.judge_faint(range, Link::Colon);
        }
        let value = &self.text[range.clone()];
        let after = Cursor::new(self.text, range.end).line(80);
        let ends_line = after.trim_matches([' ', '"', '\'', '`', '*']).is_empty()
            || after.starts_with("\\n")
            || after.starts_with("\\r");
        let is_word = !["pass", "pw"].iter().any(|short| self.name.eq_ignore_ascii_case(short));
        if is_placeholder(value) {
            let is_number = value.len() >= SHORTEST_MIXED && value.bytes().all(|byte| byte.is_ascii_digit());
            return (is_number && self.class == Name::Password && is_word && ends_line).then_some(range);
        }
        if is_code(value) || is_identifier(value) || is_path(value) && !name_is_header(self.name) {
            return None;
        }
        let is_mixed_value = value.len() >= SHORTEST_MIXED && is_mixed(value);
        let is_variable = self.name.contains('_') && !self.name.bytes().any(|byte| byte.is_ascii_lowercase());
        let fits = match self.class {
            Name::Weak if is_variable => value.len() >= SHORTEST_WEAK && is_mixed_value && !is_wordy(value),
            _ if is_variable => {
                let is_word = value.bytes().any(|byte| byte.is_ascii_lowercase())
                    && !is_prose_word(value)
                    && !is_title(value);
                is_mixed_value || (value.len() >= SHORTEST && ends_line && is_word)
            }
            _ if name_is_header(self.name) && self.class >= Name::Strong => {
                value.len() >= SHORTEST_MIXED && !is_prose_word(value) && !is_title(value)
            }
            Name::Password => {
                let is_label = self.is_label();
                is_mixed_value
                    || is_joined_passphrase(value)
                    || (ends_line && is_label && !name_is_quoted && self.is_phrase_word(value))
            }
            Name::Strong => is_mixed_value && !is_wordy(value),
            Name::Weak if ends_line && self.is_said_of_passwords() && is_word => {
                is_mixed_value && value.bytes().all(|byte| byte != b'-')
            }
            _ => value.len() >= SHORTEST_WEAK && is_mixed_value && !is_wordy(value),
        };
        if fits {
            return Some(range);
        }
        if self.class == Name::Weak {
            return self.user_and_password(cursor);
        }
        // The rest of a line, if it is a phrase and no sentence.
        let line = cursor.line(160);
        let phrase =
            line.split("\\n").next().unwrap_or(line).trim_end_matches([' ', '\t', '*', '"', '\\', '.']);
        let fits = self.class == Name::Password
            && is_word
            && self.is_label()
            && phrase.contains(' ')
            && is_passphrase(phrase);
        fits.then_some(cursor.at..cursor.at + phrase.len())
    }

    /// `credentials: user:X`, `credentials: user / X`.
    fn user_and_password(&self, cursor: Cursor<'t>) -> Option<Range<usize>> {
        let is_pair =
            ["credentials", "creds", "credential"].iter().any(|name| self.name.eq_ignore_ascii_case(name));
        let line = cursor.line(80);
        let (user, rest) = line.split_once([':', '/']).filter(|_| is_pair)?;
        let mut password = Cursor::new(self.text, cursor.at + user.len() + 1);
        password.skip_spaces();
        let range = password.word(between_others);
        let value = &self.text[range.clone()];
        let is_user = !user.is_empty()
            && user.trim_end().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.@".contains(&byte));
        let fits = is_user
            && value.len() >= SHORTEST_MIXED
            && is_mixed(value)
            && !rest.contains('/')
            && !is_placeholder(value);
        fits.then_some(range)
    }

    /// A single word that somebody chose: in YAML it is written small, behind a label as they please.
    fn is_phrase_word(&self, value: &str) -> bool {
        let is_lower = value.chars().all(char::is_lowercase);
        let is_title = self.name.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase());
        is_chosen_word(value) && (is_lower || is_title)
    }

    /// Whether the name stands at the beginning of its line, behind a few words at most.
    fn is_label(&self) -> bool {
        let near = near_before(self.text, self.start, 48);
        let line = near.rsplit('\n').next().unwrap_or(near);
        let line = line.rsplit("\\n").next().unwrap_or(line);
        let is_whole = near.len() == self.start || line.len() < near.len();
        is_whole
            && line.split_whitespace().count() <= 4
            && !line.contains([';', '!', '(', '{', '=', '?', ','])
    }

    /// `The password is X`.
    pub(crate) fn judge_told(&self, cursor: Cursor<'t>) -> Option<Range<usize>> {
        let range = cursor.word(between_others);
        let value = &self.text[range.clone()];
        if is_placeholder(value) || is_code(value) || is_path(value) || is_identifier(value) {
            return None;
        }
        let is_mixed_value = value.len() >= SHORTEST_MIXED && is_mixed(value);
        let after = self.text.get(range.end..).unwrap_or_default();
        let ends = after.is_empty()
            || after.starts_with(['.', ',', ';', '\n', '\r', ')', '"', '`'])
            || after.starts_with(" and ");
        let fits = match self.class {
            Name::Password => {
                is_mixed_value || is_joined_passphrase(value) || (ends && is_chosen_word(value))
            }
            _ => value.len() >= SHORTEST_WEAK && is_mixed_value && !is_wordy(value),
        };
        if fits {
            return Some(range);
        }
        let line = cursor.line(160);
        let phrase =
            line.split(['.', ',', ';', '(']).next().unwrap_or(line).trim_end_matches([' ', '\t', '"', '\\']);
        // `The password is shared by all of them` begins with what happens to it.
        let is_deed = value.len() > 4 && ["ed", "ing", "ly"].iter().any(|end| value.ends_with(end));
        let is_long = phrase.split_whitespace().count() >= 3;
        let fits = self.class == Name::Password
            && is_long
            && !is_deed
            && !has_digit(phrase)
            && is_passphrase(phrase);
        fits.then_some(cursor.at..cursor.at + phrase.len())
    }
}

/// For [`Cursor::word`]: what ends the value of a variable in a shell or a file of variables.
fn ends_assignment(line: &str, at: usize) -> bool {
    let rest = &line[at..];
    rest.starts_with("&&") || rest.starts_with("||") || rest.starts_with("; ") || rest == ";"
}

/// Values in quotes may contain what in code would be a call or an index; but templates are no values.
pub(crate) fn is_quoted_placeholder(value: &str) -> bool {
    let is_format = value.split_once('{').is_some_and(|(_, rest)| rest.contains('}'));
    let is_template = is_format || ["${", "$(", "#{", "<%", "%s"].iter().any(|mark| value.contains(mark));
    let is_between = value.starts_with('+') && value.ends_with('+');
    let is_bracketed = value.starts_with(['<', '{', '[']) && value.ends_with(['>', '}', ']']);
    is_template || is_bracketed || is_between || is_placeholder(value)
}

/// `self.password`, `req.token`: a member of something that programs have.
fn is_member(name: &str) -> bool {
    const OWNERS: &str = "self this cls req res request response ctx obj data form event args opts options \
        props state user result row item body params config settings";
    name.split_once('.').is_some_and(|(owner, _)| is_among(owner, OWNERS))
}

/// Rules of a validator: `required|min:8`.
fn is_rule(value: &str) -> bool {
    const RULES: &str = "required require nullable string confirmed sometimes min max regex";
    value.contains('|')
        && value.split('|').any(|part| is_among(part.split(':').next().unwrap_or_default(), RULES))
}

/// Where a secret is kept, not what it is: `spec.auth.key`, `repo:applicationId`.
fn is_label_of_thing(value: &str) -> bool {
    value.contains(['.', ':'])
        && !has_digit(value)
        && value.bytes().all(|byte| byte.is_ascii_alphabetic() || b"-_.:".contains(&byte))
}

/// The working directory has the name of a password.
fn is_pwd(name: &str) -> bool {
    name.eq_ignore_ascii_case("pwd") || name.eq_ignore_ascii_case("oldpwd")
}

/// `X-Api-Key`, `Private-Token`.
fn name_is_header(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let has_capital =
        name.len() > 1 && name.split('-').all(|part| part.starts_with(|c: char| c.is_ascii_uppercase()));
    name.contains('-')
        && (lower.starts_with("x-") || has_capital || is_among(&lower, "private-token api-key dd-api-key"))
}

/// A word with a capital at its beginning, as sentences and types begin.
fn is_title(value: &str) -> bool {
    let mut chars = value.chars();
    chars.next().is_some_and(char::is_uppercase) && chars.all(|c| c.is_lowercase() || matches!(c, '.' | ','))
}
