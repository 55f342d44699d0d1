//! The identifier around a keyword, and its context.

use std::ops::Range;

use crate::cursor::{Cursor, near_before};
use crate::name::{Name, classify};
use crate::words::is_listed;

/// The identifier around a keyword, and its context.
pub(crate) struct Named<'t> {
    pub(crate) text: &'t str,
    /// Without the dashes of an option.
    pub(crate) name: &'t str,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) class: Name,
    pub(crate) is_option: bool,
    /// A parameter of a URL.
    pub(crate) is_parameter: bool,
    pub(crate) is_quoted: bool,
    /// The byte before the name and its dashes.
    before: Option<u8>,
}

/// Whether a separator, a quote, a tag's end, white space or a bracket follows.
fn may_follow(bytes: &[u8], end: usize) -> bool {
    bytes.get(end).is_some_and(|byte| *byte >= 0x80 || b"=:\"'`\\ \t\n\r>(*&%?!|".contains(byte))
}

/// `API key`, `Secret Access Key`: the one word before belongs to the name.
fn with_word_before(text: &str, start: usize, end: usize) -> (usize, &str) {
    let near = near_before(text, start, 20);
    let before = near.trim_end_matches(' ');
    let word = before.bytes().rev().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let from = if near.len() == before.len() + 1 && word > 0 { start - 1 - word } else { start };
    (from, &text[from..end])
}

impl<'t> Named<'t> {
    /// The name in `whole`, a run of characters that names are made of, around a keyword.
    pub(crate) fn new(text: &'t str, whole: Range<usize>, keyword: &Range<usize>) -> Option<Named<'t>> {
        let bytes = text.as_bytes();
        let byte_before = |at: usize| at.checked_sub(1).and_then(|at| bytes.get(at)).copied();
        let mut start = whole.start;
        // The `n` of the two characters `\n`, and the digits of `%26`, are not part of the name.
        match byte_before(start) {
            Some(b'\\') if matches!(bytes[start], b'n' | b'r' | b't') && start < keyword.start => start += 1,
            Some(b'%') if start + 2 <= keyword.start => start += 2,
            _ => {}
        }
        let before = byte_before(start);
        let whole = &text[start..whole.end];
        let dashes = whole.len() - whole.trim_start_matches('-').len();
        let trimmed = whole.trim_start_matches(['-', '.']);
        start += whole.len() - trimmed.len();
        let name = trimmed.trim_end_matches(['-', '.']);
        let end = start + name.len();
        // Most names in a text are not followed by anything that can introduce a value.
        if end < keyword.end || !may_follow(bytes, end) {
            return None;
        }
        let needs_word = name.eq_ignore_ascii_case("key") || name.eq_ignore_ascii_case("phrase");
        let (start, name) = if needs_word { with_word_before(text, start, end) } else { (start, name) };
        let is_parameter = matches!(before, Some(b'?' | b'&' | b'#')) || text[..start].ends_with("&amp;");
        // Only in a URL. Elsewhere, a plain `key` names too many other things.
        let is_key = is_parameter && name.eq_ignore_ascii_case("key");
        let class = classify(name).or(is_key.then_some(Name::Weak))?;
        // A part of the name of a resource: `AWS::IAM::AccessKey`, `arn:aws:secretsmanager:…:secret:…`.
        let is_resource =
            text[..start].ends_with("::") || (before == Some(b':') && bytes.get(end) == Some(&b':'));
        let opens = before.is_none_or(|byte| byte.is_ascii_whitespace() || b"\"'`[(,n".contains(&byte));
        let is_option = (1..=2).contains(&dashes) && opens;
        let is_quoted = Cursor::new(text, end).quote().is_some();
        (!is_resource).then_some(Named {
            text,
            name,
            start,
            end,
            class,
            is_option,
            is_parameter,
            is_quoted,
            before,
        })
    }

    pub(crate) fn is_called(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.name.eq_ignore_ascii_case(name))
    }

    /// Whether the name is written as those of variables of the environment.
    pub(crate) fn is_upper(&self) -> bool {
        let has = |test: fn(&u8) -> bool| self.name.bytes().any(|byte| test(&byte));
        has(u8::is_ascii_uppercase) && !has(u8::is_ascii_lowercase)
    }

    /// Whether a line sets this as a variable, so that the value extends to the end of the word.
    pub(crate) fn begins_line(&self) -> bool {
        let before = &self.text[..self.start];
        matches!(self.before, None | Some(b'\n' | b'\r'))
            || before.ends_with("export ")
            || before.ends_with("set ")
    }

    /// The working directory has the name of a password.
    pub(crate) fn is_working_directory(&self) -> bool {
        self.is_called(&["pwd", "oldpwd"])
    }

    pub(crate) fn is_phrase(&self) -> bool {
        let lower = self.name.to_ascii_lowercase();
        lower.ends_with("mnemonic") || lower.ends_with("phrase")
    }

    /// `X-Api-Key`, `Private-Token`.
    pub(crate) fn is_header(&self) -> bool {
        let is_capitalised =
            self.name.split('-').all(|part| part.starts_with(|c: char| c.is_ascii_uppercase()));
        let starts = self.name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("x-"));
        self.name.contains('-')
            && (starts || is_capitalised || self.is_called(&["private-token", "api-key", "dd-api-key"]))
    }

    pub(crate) fn is_argument(&self) -> bool {
        matches!(self.before, Some(b'(' | b',')) || self.text[..self.start].ends_with(", ")
    }

    /// Whether the name is the first argument of a call. In a list of names, no name is the value of another.
    pub(crate) fn is_in_call(&self) -> bool {
        near_before(self.text, self.start, 8).trim_end_matches(['"', '\'', '\\', '[']).ends_with('(')
    }

    /// `with password X`, or a column of a table.
    pub(crate) fn is_led(&self) -> bool {
        let before = near_before(self.text, self.start, 24).to_ascii_lowercase();
        let after = &self.text[self.end..];
        ["with", "using", "and", "as"].iter().any(|word| before.trim_end().ends_with(word))
            || after.starts_with("  ")
            || after.starts_with('\t')
    }

    /// Whether this is a line of code, in which a literal would be quoted.
    pub(crate) fn is_statement(&self, end: usize) -> bool {
        let after =
            Cursor::new(self.text, end).line(80).trim_start_matches([')', ']', '}', ',', '.']).trim_start();
        if !after.is_empty() && !after.starts_with(['#', '|', '\\', '"', '`'])
            || self.text[end..].starts_with(';')
        {
            return true;
        }
        let line = near_before(self.text, self.start, 80).rsplit('\n').next().unwrap_or_default();
        self.before == Some(b'.')
            || self.is_member()
            || line.split([' ', '\t']).any(|word| is_listed("statements", word))
    }

    /// Whether the name begins its line, after a few words at most.
    pub(crate) fn is_label(&self) -> bool {
        let near = near_before(self.text, self.start, 48);
        let line = near.rsplit('\n').next().unwrap_or(near);
        let line = line.rsplit("\\n").next().unwrap_or(line);
        let is_whole = near.len() == self.start || line.len() < near.len();
        is_whole
            && line.split_whitespace().count() <= 4
            && !line.contains([';', '!', '(', '{', '=', '?', ','])
    }

    /// `self.password`, `req.token`: a member of something that programs have.
    fn is_member(&self) -> bool {
        self.name.split_once('.').is_some_and(|(owner, _)| is_listed("owners", owner))
    }
}
