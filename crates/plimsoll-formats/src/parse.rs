//! The parser behind [`Json`].
//!
//! It takes what `serde_json` takes, with two differences. Half of a surrogate pair, as JavaScript writes when it
//! cuts a text inside an emoji, becomes the replacement character instead of costing the whole line. And what is
//! skipped is only checked for its brackets and strings. On long texts it is several times as fast, because it looks
//! for the end of a string with vector instructions.

use std::borrow::Cow;

use memchr::{memchr, memchr2};
use serde_json::Number;

use crate::json::{Filter, Json, Take};

/// Values nested deeper than this are refused, as `serde_json` does.
const DEEPEST: usize = 127;
/// The room for texts with escapes does not stay larger than this.
const ROOM: usize = 1 << 20;

/// Not JSON, or not as deep as is allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotJson;

type Parsed<T> = Result<T, NotJson>;

/// Walks through a text.
pub(crate) struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    filter: Filter,
    /// There are no control characters anywhere, so that strings need not be searched for them.
    clean: bool,
    /// How deep we are in lists and objects.
    depth: usize,
    /// Where texts with escapes are put together.
    scratch: String,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, filter: Filter) -> Parser<'a> {
        let bytes = text.as_bytes();
        Parser { text, bytes, at: 0, filter, clean: !has_control(bytes), depth: 0, scratch: String::new() }
    }

    /// The next byte that is no space, without taking it.
    pub(crate) fn peek(&mut self) -> Parsed<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Ok(*byte);
            }
            self.at += 1;
        }
        Err(NotJson)
    }

    fn take(&mut self, byte: u8) -> Parsed<()> {
        if self.peek()? != byte {
            return Err(NotJson);
        }
        self.at += 1;
        Ok(())
    }

    /// Nothing but space follows.
    pub(crate) fn end(&mut self) -> Parsed<()> {
        if self.peek().is_err() { Ok(()) } else { Err(NotJson) }
    }

    /// Go through the items of a list.
    pub(crate) fn list(&mut self, mut item: impl FnMut(&mut Parser<'a>) -> Parsed<()>) -> Parsed<()> {
        self.nested(b'[', b']', |parser| item(parser))
    }

    /// Go through the fields of an object, whose names are read.
    pub(crate) fn object(
        &mut self,
        mut field: impl FnMut(&mut Parser<'a>, Cow<'a, str>) -> Parsed<()>,
    ) -> Parsed<()> {
        self.nested(b'{', b'}', |parser| {
            parser.peek()?;
            let key = parser.string()?;
            parser.take(b':')?;
            field(parser, key)
        })
    }

    fn nested(
        &mut self,
        open: u8,
        close: u8,
        mut each: impl FnMut(&mut Parser<'a>) -> Parsed<()>,
    ) -> Parsed<()> {
        self.take(open)?;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(NotJson);
        }
        if self.peek()? != close {
            loop {
                each(self)?;
                if self.peek()? != b',' {
                    break;
                }
                self.at += 1;
            }
        }
        self.depth -= 1;
        self.take(close)
    }

    /// A value, of which the fields of objects are filtered; `depth` counts the objects around it.
    pub(crate) fn value(&mut self, depth: u8) -> Parsed<Json<'a>> {
        match self.peek()? {
            b'"' => self.string().map(Json::Text),
            b'{' => {
                let mut fields = Vec::new();
                self.object(|parser, key| {
                    let value = match (parser.filter)(&fields, depth, &key) {
                        Take::Whole => parser.value(depth.saturating_add(1))?,
                        Take::Raw => Json::Raw(parser.raw()?),
                        Take::Skip => return parser.skip(),
                    };
                    fields.push((key, value));
                    Ok(())
                })?;
                Ok(Json::Object(fields))
            }
            b'[' => {
                let mut items = Vec::new();
                self.list(|parser| {
                    items.push(parser.value(depth)?);
                    Ok(())
                })?;
                Ok(Json::List(items))
            }
            b't' => self.word("true").map(|()| Json::Bool(true)),
            b'f' => self.word("false").map(|()| Json::Bool(false)),
            b'n' => self.word("null").map(|()| Json::Null),
            _ => self.number(),
        }
    }

    /// The text of a value.
    pub(crate) fn raw(&mut self) -> Parsed<&'a str> {
        self.peek()?;
        let start = self.at;
        self.skip()?;
        Ok(&self.text[start..self.at])
    }

    /// Go behind a value.
    pub(crate) fn skip(&mut self) -> Parsed<()> {
        match self.peek()? {
            b'"' => self.skip_string(),
            b'{' => self.nested(b'{', b'}', |parser| {
                if parser.peek()? != b'"' {
                    return Err(NotJson);
                }
                parser.skip_string()?;
                parser.take(b':')?;
                parser.skip()
            }),
            b'[' => self.list(Parser::skip),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.digits().map(|_| ()),
        }
    }

    fn word(&mut self, word: &str) -> Parsed<()> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(NotJson);
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Parsed<&'a str> {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = self.bytes[self.at..].iter().take_while(|byte| is_part(byte)).count();
        let start = self.at;
        self.at += length;
        if length == 0 { Err(NotJson) } else { Ok(&self.text[start..self.at]) }
    }

    fn number(&mut self) -> Parsed<Json<'a>> {
        let digits = self.digits()?;
        // Most are short and whole; the rest is left to those who know all about it.
        let plain = digits.len() < 19
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        if plain {
            let number = digits.bytes().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
            return Ok(Json::Number(number.into()));
        }
        serde_json::from_str::<Number>(digits).map(Json::Number).map_err(|_| NotJson)
    }

    /// Go behind a string. Quotes are rarer than escapes, so they are looked for alone; one behind an odd number of
    /// backslashes does not end the string.
    fn skip_string(&mut self) -> Parsed<()> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            at += memchr(b'"', self.bytes.get(at..).ok_or(NotJson)?).ok_or(NotJson)?;
            let escapes = self.bytes[start..at].iter().rev().take_while(|byte| **byte == b'\\').count();
            if escapes.is_multiple_of(2) {
                break;
            }
            at += 1;
        }
        self.at = at + 1;
        self.checked(start, at).map(|_| ())
    }

    fn string(&mut self) -> Parsed<Cow<'a, str>> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(NotJson);
        }
        let start = self.at + 1;
        let end = start + self.stop(start)?;
        self.at = end + 1;
        if self.bytes[end] == b'"' {
            return self.checked(start, end).map(Cow::Borrowed);
        }
        self.escaped(start, end).map(Cow::Owned)
    }

    /// How far it is to the next quote or backslash.
    fn stop(&self, from: usize) -> Parsed<usize> {
        let rest = self.bytes.get(from..).ok_or(NotJson)?;
        // Where escapes stand close together, the call of a vector search costs more than a few words.
        let (words, _) = rest.as_chunks::<8>();
        for (index, word) in words.iter().take(NEAR).enumerate() {
            let word = u64::from_le_bytes(*word);
            let found = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
            if found != 0 {
                return Ok(index * 8 + found.trailing_zeros() as usize / 8);
            }
        }
        let near = words.len().min(NEAR) * 8;
        memchr2(b'"', b'\\', &rest[near..]).map(|far| near + far).ok_or(NotJson)
    }

    fn checked(&self, start: usize, end: usize) -> Parsed<&'a str> {
        if !self.clean && has_control(&self.bytes[start..end]) {
            return Err(NotJson);
        }
        Ok(&self.text[start..end])
    }

    /// The text of a string with escapes, of which the first is at `at`.
    fn escaped(&mut self, mut start: usize, mut at: usize) -> Parsed<String> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        while self.bytes[at] == b'\\' {
            scratch.push_str(self.checked(start, at)?);
            let escape = *self.bytes.get(at + 1).ok_or(NotJson)?;
            start = at + 2;
            scratch.push(match escape {
                b'n' => '\n',
                b't' => '\t',
                b'"' | b'\\' | b'/' => char::from(escape),
                b'r' => '\r',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'u' => {
                    let (letter, length) = unicode(self.text.get(start..).ok_or(NotJson)?)?;
                    start += length;
                    letter
                }
                _ => return Err(NotJson),
            });
            at = start + self.stop(start)?;
        }
        self.at = at + 1;
        scratch.push_str(self.checked(start, at)?);
        let text = scratch.as_str().to_owned();
        // One huge text must not hold its memory for the rest of the file.
        self.scratch = if scratch.capacity() > ROOM { String::new() } else { scratch };
        Ok(text)
    }
}

/// A word of ones, one in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;
/// So many words are looked at before a vector search begins.
const NEAR: usize = 8;

/// A mark in the first byte that is zero; behind it there may be marks that mean nothing.
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & (ONES * 0x80)
}

/// Whether there is a byte that must not stand in a string.
fn has_control(bytes: &[u8]) -> bool {
    // In blocks without a branch, for the sake of vector instructions.
    bytes.chunks(256).any(|block| block.iter().fold(0, |found, byte| found | u8::from(*byte < 0x20)) != 0)
}

/// The character whose number follows, and how many bytes that took.
fn unicode(text: &str) -> Parsed<(char, usize)> {
    let unit = |text: &str| -> Parsed<u32> {
        let digits = text.get(..4).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        u32::from_str_radix(digits.ok_or(NotJson)?, 16).map_err(|_| NotJson)
    };
    let (first, rest) = (unit(text)?, &text[4..]);
    if let Some(letter) = char::from_u32(first) {
        return Ok((letter, 4));
    }
    // Half of a pair is only good with the other half.
    if first < 0xdc00
        && let Some(second) = rest.strip_prefix("\\u").and_then(|rest| unit(rest).ok())
        && (0xdc00..0xe000).contains(&second)
    {
        let number = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return Ok((char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER), 10));
    }
    Ok((char::REPLACEMENT_CHARACTER, 4))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use crate::json::{Json, Take};

    fn ours(text: &str) -> Option<Value> {
        Json::parse(text).ok().map(Json::into_value)
    }

    fn theirs(text: &str) -> Option<Value> {
        serde_json::from_str(text).ok()
    }

    #[test]
    fn it_takes_what_serde_json_takes() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let deep = [deep(127), deep(128), deep(100_000)];
        let odd = [
            "",
            " ",
            "null",
            " true ",
            "false",
            "nul",
            "nulll",
            "0",
            "-0",
            "00",
            "01",
            "-",
            "1.5",
            "1.",
            ".5",
            "1e5",
            "1E+5",
            "1e",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "1e400",
            "123456789012345678901234567890",
            "\"\"",
            "\"",
            "\"a\\\"b\"",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u00e9\"",
            "\"\\ud83d\\ude00\"",
            "\"\\u12\"",
            "\"\\u+123\"",
            "\"\\é\"",
            "\"\t\"",
            "\"\u{0}\"",
            "[]",
            "[ ]",
            "[1,]",
            "[,]",
            "[1 2]",
            "[1,2",
            "{}",
            "{\"a\":1}",
            "{\"a\":1,}",
            "{\"a\" : [ { } ] }",
            "{a:1}",
            "{\"a\"}",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1}x",
            "[1]]",
            "\u{feff}1",
            "[\n\t\r 1]",
            "\u{b}1",
            "\"é日本\"",
            "tru\u{e9}",
        ];
        for text in odd.into_iter().chain(deep.iter().map(String::as_str)) {
            assert_eq!(ours(text), theirs(text), "{text:.40}");
        }
    }

    #[test]
    fn half_of_a_pair_does_not_cost_the_text() {
        for text in [
            r#""a\ud83d""#,
            r#""a\ude00""#,
            r#""a\ud83d\n""#,
            r#""a\ud83d\u0041""#,
            r#""a\ud83d\ud83d\ude00""#,
        ] {
            let read = ours(text).and_then(|value| value.as_str().map(str::to_owned));
            assert!(read.is_some_and(|read| read.starts_with("a\u{fffd}")), "{text}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
            "[\"\\\\\n\t\u{0}a😀]*".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((".*", inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_serde_json_writes_is_read(value in json()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap_or_default()] {
                prop_assert_eq!(ours(&text), Some(value.clone()));
                // Whatever is skipped or left raw, the end is found.
                let raw = Json::parse_some(&text, |_, depth, _| if depth == 0 { Take::Raw } else { Take::Skip });
                prop_assert_eq!(raw.ok().map(Json::into_value), Some(value.clone()));
                prop_assert!(Json::parse_some(&text, |_, _, _| Take::Skip).is_ok());
            }
        }

        #[test]
        fn a_text_that_is_cut_or_changed_is_taken_or_refused_alike(value in json(), at: prop::sample::Index, byte in "[\\[\\]{}\",:0-9a\\\\ \n]") {
            let text = value.to_string();
            let mut at = at.index(text.len().max(1)).min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            let has_pair = text.contains("\\ud");
            prop_assume!(!has_pair);
            let cut = &text[..at];
            prop_assert_eq!(ours(cut), theirs(cut));
            let changed = format!("{cut}{byte}{}", text[at..].chars().skip(1).collect::<String>());
            prop_assert_eq!(ours(&changed), theirs(&changed));
        }
    }
}
