//! Recall: bringing back what is out of the window, whole or in pieces, never more than was asked for.

use plimsoll::{Part, PartBody, Text};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// What of some content is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// From the first to the last of these lines, counted from 1.
    pub lines: Option<(u64, u64)>,
    /// Only lines that match, with others around them.
    pub search: Option<Search>,
    /// No more than so many bytes of text.
    pub most_bytes: usize,
    /// No more than so many matches.
    pub most_matches: usize,
}

/// What is looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Search {
    /// The pattern.
    pub pattern: String,
    /// It is to be taken as it is, not as a regular expression.
    pub literal: bool,
    /// Upper and lower case are the same.
    pub ignore_case: bool,
    /// So many lines before and after each match.
    pub context: usize,
}

impl Default for Ask {
    fn default() -> Ask {
        Ask { lines: None, search: None, most_bytes: 50_000, most_matches: 100 }
    }
}

/// Content that was recalled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recalled {
    /// The lines, each with its number, in the order of the content.
    pub lines: Vec<Line>,
    /// How many lines the whole content has.
    pub all_lines: u64,
    /// How many lines match, if something was searched for; counting stops at the bound.
    pub matches: u64,
    /// Something more would have been there, but for the bounds.
    pub cut: bool,
}

/// A line of some content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Its number, counted from 1.
    pub number: u64,
    /// What it says.
    pub text: String,
    /// Whether it is one of those searched for, rather than one around them.
    pub is_match: bool,
}

impl Search {
    /// The pattern, ready to be used.
    pub(crate) fn compile(&self) -> Result<Regex, StoreError> {
        let pattern = if self.literal { regex::escape(&self.pattern) } else { self.pattern.clone() };
        RegexBuilder::new(&pattern)
            .case_insensitive(self.ignore_case)
            .multi_line(true)
            .size_limit(1 << 20)
            .build()
            .map_err(|error| StoreError::Refused(format!("`{}` is no pattern: {error}", self.pattern)))
    }
}

impl Recalled {
    /// Take what is asked for out of a content.
    pub fn of(text: &str, ask: &Ask) -> Result<Recalled, StoreError> {
        let all_lines = text.lines().count() as u64;
        let (first, last) = ask.lines.unwrap_or((1, u64::MAX));
        if first == 0 || first > last {
            let why =
                format!("lines {first} to {last}: lines are counted from 1, the first not after the last");
            return Err(StoreError::Refused(why));
        }
        let wanted =
            text.lines().zip(1u64..).skip_while(|(_, at)| *at < first).take_while(|(_, at)| *at <= last);
        let mut recalled = Recalled { all_lines, ..Recalled::default() };
        match &ask.search {
            None => recalled.take(wanted.map(|(line, at)| (line, at, false)), ask.most_bytes),
            Some(search) => {
                let pattern = search.compile()?;
                let lines: Vec<(&str, u64)> = wanted.collect();
                let hits: Vec<usize> = (0..lines.len()).filter(|at| pattern.is_match(lines[*at].0)).collect();
                recalled.matches = hits.len() as u64;
                recalled.cut = hits.len() > ask.most_matches;
                let mut shown = vec![None; lines.len()];
                for hit in hits.into_iter().take(ask.most_matches) {
                    let end = hit.saturating_add(search.context).saturating_add(1).min(lines.len());
                    let around = hit.saturating_sub(search.context)..end;
                    around.for_each(|at| {
                        shown[at].get_or_insert(false);
                    });
                    shown[hit] = Some(true);
                }
                let shown =
                    lines.iter().zip(shown).filter_map(|((line, at), shown)| Some((*line, *at, shown?)));
                recalled.take(shown, ask.most_bytes);
            }
        }
        Ok(recalled)
    }

    fn take<'a>(&mut self, lines: impl Iterator<Item = (&'a str, u64, bool)>, most: usize) {
        let mut left = most;
        for (line, number, is_match) in lines {
            if line.len() > left {
                let head = &line[..line.floor_char_boundary(left)];
                if !head.is_empty() {
                    self.lines.push(Line { number, text: head.to_owned(), is_match });
                }
                self.cut = true;
                return;
            }
            left = left.saturating_sub(line.len() + 1);
            self.lines.push(Line { number, text: line.to_owned(), is_match });
        }
    }

    /// The text alone.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
    }
}

/// The long text of a part, if it has one to be searched.
pub(crate) fn part_text(part: &Part) -> Option<&Text> {
    match &part.body {
        PartBody::Text(text) => Some(&text.text),
        PartBody::Reasoning(reasoning) => Some(&reasoning.text),
        PartBody::Tool(tool) => tool.state.output.as_ref().or(tool.state.error.as_ref()),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    }
}

/// A place where a search in a session found something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// The handle by which the whole is recalled.
    pub handle: String,
    /// The message it belongs to; none for a spilled output.
    pub message: Option<plimsoll::MessageId>,
    /// The tool that answered, if it is an answer.
    pub tool: Option<String>,
    /// What was found.
    pub found: Recalled,
}

#[cfg(test)]
mod tests {
    use super::{Ask, Recalled, Search};

    const TEXT: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

    fn search(pattern: &str, context: usize) -> Ask {
        let search = Search { pattern: pattern.into(), context, ..Search::default() };
        Ask { search: Some(search), ..Ask::default() }
    }

    fn numbers(recalled: &Recalled) -> Vec<u64> {
        recalled.lines.iter().map(|line| line.number).collect()
    }

    #[test]
    fn whole_by_lines_or_by_search() {
        let whole = Recalled::of(TEXT, &Ask::default()).unwrap_or_default();
        assert_eq!((whole.text().as_str(), whole.all_lines), (TEXT.trim_end(), 6));
        let some = Recalled::of(TEXT, &Ask { lines: Some((2, 3)), ..Ask::default() }).unwrap_or_default();
        assert_eq!(some.text(), "two\nthree");
        let found = Recalled::of(TEXT, &search("^f", 1)).unwrap_or_default();
        assert_eq!((numbers(&found), found.matches), (vec![3, 4, 5, 6], 2));
        let beyond = Recalled::of(TEXT, &Ask { lines: Some((9, 12)), ..Ask::default() }).unwrap_or_default();
        assert!(beyond.lines.is_empty() && !beyond.cut);
    }

    #[test]
    fn bounds_hold_and_are_told() {
        let few = Recalled::of(TEXT, &Ask { most_matches: 1, ..search("o", 0) }).unwrap_or_default();
        assert_eq!((numbers(&few), few.matches, few.cut), (vec![1], 3, true));
        let short = Recalled::of("aéééé\nb", &Ask { most_bytes: 4, ..Ask::default() }).unwrap_or_default();
        assert_eq!((short.text().as_str(), short.cut), ("aé", true));
    }

    #[test]
    fn bad_asks_say_what_is_wrong() {
        let upside_down = Recalled::of(TEXT, &Ask { lines: Some((3, 2)), ..Ask::default() });
        assert!(upside_down.is_err_and(|error| error.to_string().contains("lines 3 to 2")));
        assert!(
            Recalled::of(TEXT, &search("(", 0))
                .is_err_and(|error| error.to_string().contains("`(` is no pattern"))
        );
        let literal = Search { pattern: "(".into(), literal: true, ..Search::default() };
        assert!(
            Recalled::of("(", &Ask { search: Some(literal), ..Ask::default() }).is_ok_and(|r| r.matches == 1)
        );
    }
}
