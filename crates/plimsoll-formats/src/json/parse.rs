//! Parses into [`Json`] with `serde_json`'s deserialiser, but only the wanted fields, and without copying if possible.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memmem};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::{Filter, Json, Take};

/// Error for text that is not JSON, or is nested too deeply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotJson;

/// Parses all of `text` with a seed.
pub(crate) fn parse<'a, S: DeserializeSeed<'a>>(text: &'a str, seed: S) -> Result<S::Value, NotJson> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut parser).map_err(|_| NotJson)?;
    parser.end().map_err(|_| NotJson)?;
    Ok(value)
}

/// Replaces each lone surrogate by the replacement character. JavaScript writes them if it cuts a text inside an emoji.
/// `None` if there is none.
pub(crate) fn mended(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    // The escape of a surrogate begins with a D, and most texts contain no such escape.
    let is_half = |at: usize| matches!(bytes.get(at + 2), Some(b'd' | b'D'));
    if !memmem::find_iter(bytes, b"\\u").any(is_half) {
        return None;
    }
    let (mut mended, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = memchr(b'\\', bytes.get(at..)?) {
        at += found;
        let Some(first) = unit(bytes, at) else {
            // Another escape, of two characters.
            at += 2;
            continue;
        };
        let is_pair = (0xd800..0xdc00).contains(&first)
            && unit(bytes, at + 6).is_some_and(|second| (0xdc00..0xe000).contains(&second));
        if (0xd800..0xe000).contains(&first) && !is_pair {
            mended.push_str(text.get(copied..at)?);
            mended.push_str("\\ufffd");
            copied = at + 6;
        }
        at += if is_pair { 12 } else { 6 };
    }
    mended.push_str(text.get(copied..).filter(|_| copied > 0)?);
    Some(mended)
}

/// Returns the number of an escape like `\u00e9` at a position.
fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits =
        std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}

/// Parses a value with filtered fields; `depth` counts the enclosing objects.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    filter: Filter,
    depth: u8,
}

impl Wanted {
    /// Selects the whole value.
    pub(crate) const WHOLE: Wanted = Wanted::new(|_, _, _| Take::Whole);

    /// Selects what the filter wants.
    pub(crate) const fn new(filter: Filter) -> Wanted {
        Wanted { filter, depth: 0 }
    }
}

impl<'de> DeserializeSeed<'de> for Wanted {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Wanted {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json<'de>, E> {
        // Infinite and undefined numbers become null, as in `serde_json`.
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = object.next_key_seed(Key)? {
            let value = match (self.filter)(&fields, self.depth, &key) {
                Take::Whole => {
                    object.next_value_seed(Wanted { depth: self.depth.saturating_add(1), ..self })?
                }
                Take::Raw => {
                    Json::Raw(Cow::Borrowed(object.next_value::<&'de serde_json::value::RawValue>()?.get()))
                }
                // Still parsed, so that invalid JSON in a skipped field is noticed.
                Take::Skip => {
                    object.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            fields.push((key, value));
        }
        Ok(Json::Object(fields))
    }
}

/// Name of a field.
pub(crate) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
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
    fn it_accepts_what_serde_json_accepts() {
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
    fn a_lone_surrogate_does_not_invalidate_the_text() {
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
        fn properties_output_of_serde_json_is_read(value in json()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap_or_default()] {
                prop_assert_eq!(ours(&text), Some(value.clone()));
                // The end is found, whatever is skipped or left raw.
                let raw = Json::parse_some(&text, |_, depth, _| if depth == 0 { Take::Raw } else { Take::Skip });
                prop_assert_eq!(raw.ok().map(Json::into_value), Some(value.clone()));
                prop_assert!(Json::parse_some(&text, |_, _, _| Take::Skip).is_ok());
            }
        }

        #[test]
        fn properties_cut_or_changed_text_is_accepted_or_rejected_as_by_serde_json(value in json(), at: prop::sample::Index, byte in "[\\[\\]{}\",:0-9a\\\\ \n]") {
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
