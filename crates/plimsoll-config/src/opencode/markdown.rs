//! Reads OpenCode's agents and commands that are defined in Markdown files: settings in front matter, the prompt below.
//!
//! The settings are YAML. Supported is the subset in OpenCode's documentation: keys with a text, a number, a boolean,
//! indented sections, and multi-line texts. A YAML library would accept more than OpenCode does. A file with other
//! syntax is skipped with a notice, and the rest of the configuration still applies.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::COMMANDS;
use super::parse::Parsed;

/// The line before and after the settings.
const FENCE: &str = "---";

/// A line of the settings that is not empty.
#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// Converts a file into the shape of an `opencode.json`. The error is the line and the problem.
pub(super) fn parse_markdown(text: &str, path: &Path, section: &str) -> Result<Parsed, (usize, String)> {
    let text = text.trim_start_matches('\u{feff}');
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let above = format!("{section}.{name}");
    let mut lines = BTreeMap::from([(above.clone(), 1)]);
    let (settings, body) = split(text);
    let mut at = 0;
    let mut fields = block(&settings, &mut at, 0, &above, &mut lines)?;
    if let Some(line) = settings.get(at) {
        return Err((line.number, "unexpected indentation".to_owned()));
    }
    if !body.trim().is_empty() {
        let key = if section == COMMANDS { "template" } else { "prompt" };
        fields.insert(key.to_owned(), body.trim().into());
    }
    let agent = Value::Object(Map::from_iter([(name, Value::Object(fields))]));
    Ok(Parsed { values: Map::from_iter([(section.to_owned(), agent)]), lines })
}

/// Splits a file into the lines of its settings and the text below.
fn split(text: &str) -> (Vec<Line<'_>>, &str) {
    let mut pieces = text.split_inclusive('\n');
    if pieces.next().map(str::trim_end) != Some(FENCE) {
        return (Vec::new(), text);
    }
    let mut settings = Vec::new();
    let mut length = text.find('\n').map_or(text.len(), |end| end + 1);
    for (place, piece) in pieces.enumerate() {
        length += piece.len();
        let line = piece.trim_end();
        if line == FENCE {
            return (settings, &text[length..]);
        }
        let bare = line.trim_start();
        if !bare.is_empty() && !bare.starts_with('#') {
            settings.push(Line { number: place + 2, indent: line.len() - bare.len(), text: bare });
        }
    }
    // There is no closing fence, so the first line is a horizontal rule and not the start of settings.
    (Vec::new(), text)
}

/// Parses the settings from a line on that are indented by `indent`.
fn block(
    all: &[Line<'_>],
    at: &mut usize,
    indent: usize,
    above: &str,
    lines: &mut BTreeMap<String, usize>,
) -> Result<Map<String, Value>, (usize, String)> {
    let mut fields = Map::new();
    while let Some(line) = all.get(*at).copied().filter(|line| line.indent == indent) {
        let wrong = |problem: &str| (line.number, problem.to_owned());
        let (key, rest) = split_key(line.text).ok_or_else(|| wrong("expected `name: value`"))?;
        let path = format!("{above}.{key}");
        lines.insert(path.clone(), line.number);
        *at += 1;
        let inner = all.get(*at).filter(|next| next.indent > indent).map(|next| next.indent);
        let value = match (rest, inner) {
            ("", Some(inner)) => Value::Object(block(all, at, inner, &path, lines)?),
            ("", None) => Value::Null,
            ("|" | "|-" | ">" | ">-", _) => {
                let separator = if rest.starts_with('|') { "\n" } else { " " };
                let mut texts = Vec::new();
                while let Some(next) = all.get(*at).filter(|next| next.indent > indent) {
                    texts.push(next.text);
                    *at += 1;
                }
                texts.join(separator).into()
            }
            (rest, _) => scalar(rest).ok_or_else(|| wrong("unsupported value"))?,
        };
        fields.insert(key, value);
    }
    Ok(fields)
}

/// Splits a line into its key and the rest.
fn split_key(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (key, rest) = match quote {
        Some(quote) => {
            let (key, rest) = text[1..].split_once(quote)?;
            (key, rest.trim_start().strip_prefix(':')?)
        }
        None => match text.split_once(": ") {
            Some((key, rest)) => (key, rest),
            None => (text.strip_suffix(':')?, ""),
        },
    };
    let is_list = quote.is_none() && key.starts_with("- ");
    (!key.is_empty() && !is_list).then(|| (key.trim().to_owned(), without_comment(rest.trim())))
}

/// Removes a comment. Quoted text may contain `#`.
fn without_comment(text: &str) -> &str {
    if text.starts_with(['"', '\'']) {
        return text;
    }
    if text.starts_with('#') {
        return "";
    }
    text.split_once(" #").map_or(text, |(value, _)| value.trim_end())
}

/// Parses a single value.
fn scalar(text: &str) -> Option<Value> {
    match text {
        "true" => return Some(true.into()),
        "false" => return Some(false.into()),
        "null" | "~" => return Some(Value::Null),
        _ => {}
    }
    match text.chars().next()? {
        '"' | '{' | '[' => serde_json::from_str(text).ok(),
        '\'' => {
            let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
            Some(inner.replace("''", "'").into())
        }
        '&' | '*' | '!' | '|' | '>' | '%' | '@' | '`' => None,
        _ => Some(text.parse::<serde_json::Number>().map_or_else(|_| text.into(), Value::Number)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::parse_markdown;

    fn agent(text: &str) -> Result<Value, (usize, String)> {
        let parsed = parse_markdown(text, Path::new("x/agent/review.md"), "agent")?;
        Ok(parsed.values["agent"]["review"].clone())
    }

    #[test]
    fn settings_and_prompt_of_opencodes_documentation_are_read() {
        let text = "---\n# who\ndescription: Reviews code: kindly # a comment\nmode: subagent\nmodel: anthropic/claude\n\
                    temperature: 0.1\ntools:\n  write: false\n  \"mcp_*\": false\npermission:\n  edit: deny\n  bash:\n    \
                    \"*\": ask\n    git diff: 'allow'\nprompt2: |\n  one\n  two\n---\n\nYou review.\n\n---\nBe kind.\n";
        assert_eq!(
            agent(text).unwrap(),
            json!({
                "description": "Reviews code: kindly", "mode": "subagent", "model": "anthropic/claude",
                "temperature": 0.1, "tools": {"write": false, "mcp_*": false},
                "permission": {"edit": "deny", "bash": {"*": "ask", "git diff": "allow"}},
                "prompt2": "one\ntwo", "prompt": "You review.\n\n---\nBe kind.",
            })
        );
        assert_eq!(agent("Only words.").unwrap(), json!({"prompt": "Only words."}));
        assert_eq!(agent("---\nnever closed").unwrap(), json!({"prompt": "---\nnever closed"}));
        assert_eq!(agent("").unwrap(), json!({}));
        let parsed = parse_markdown(text, Path::new("review.md"), "agent").unwrap();
        assert_eq!(parsed.lines["agent.review.permission.bash.*"], 13);
    }

    #[test]
    fn a_command_is_its_settings_and_its_template() {
        let text = "---\ndescription: Reviews\nsubtask: true\n---\nReview $ARGUMENTS.\n";
        let parsed = parse_markdown(text, Path::new("x/command/review.md"), "command").unwrap();
        let expected = json!({ "description": "Reviews", "subtask": true, "template": "Review $ARGUMENTS." });
        assert_eq!(parsed.values["command"]["review"], expected);
    }

    #[test]
    fn unsupported_syntax_is_reported_with_its_line() {
        for (text, line) in [
            ("---\nmode: all\n- a\n---\n", 3),
            ("---\ntools: &x\n---\n", 2),
            ("---\nmode: all\n  model: x\n---\n", 3),
            ("---\nmode all\n---\n", 2),
        ] {
            assert_eq!(agent(text).unwrap_err().0, line, "{text}");
        }
    }
}
