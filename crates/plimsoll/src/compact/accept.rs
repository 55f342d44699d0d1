//! Decides whether a summariser's answer may replace the messages it summarises.

use super::contract;
use super::extract::MADE_WITHOUT_MODEL;
use crate::chars::Text;
use crate::counter::Counter;
use crate::log::Usage;
use crate::pattern::Regex;
use crate::plan::Rejection;
use crate::prose::{Pattern, matches, patterns_of};
use crate::redact::redact;
use crate::tokens::Tokens;

/// Answer of the summariser.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The text of the answer.
    pub text: String,
    /// The provider's stop reason. `None` if the stream broke off.
    pub finish: Option<String>,
    /// Names of tools the model tried to call.
    pub tool_calls: Vec<String>,
    /// Usage of the call as reported by the provider.
    pub usage: Option<Usage>,
    /// Cost of the call, if the host knows prices.
    pub cost: Option<f64>,
    /// The model that answered.
    pub model: Option<String>,
    /// Whether it was extracted without a model. The user may have edited it.
    pub is_extracted: bool,
    /// Whether the user edited it. Its form and length are then not checked.
    pub is_edited: bool,
}

impl Reply {
    /// Creates a finished answer.
    pub fn finished(text: impl Into<String>) -> Reply {
        Reply { text: text.into(), finish: Some("stop".into()), ..Reply::default() }
    }
}

/// Sizes against which an answer is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Size of the messages that the summary would replace.
    pub replaced: Tokens,
    /// Maximum length that was requested.
    pub longest: Tokens,
}

/// Factor by which an answer may exceed the requested length, because counters differ.
const TOLERANCE: f64 = 1.5;
/// Minimum size of a summary without headings, as a share of what it replaces.
const MIN_SHARE: f64 = 0.001;
/// Upper limit of that minimum.
const LEAST: Tokens = Tokens(100);

impl Bounds {
    fn most(&self) -> Tokens {
        Tokens((self.longest.0 as f64 * TOLERANCE) as u64).max(self.longest)
    }

    fn least(&self) -> Tokens {
        self.replaced.share(MIN_SHARE).min(LEAST)
    }
}

/// Accepts an answer as a summary if it is finished, has content, calls no tool, has the requested length and is
/// smaller than the replaced messages. Thoughts and reserved headings are removed, and secrets are redacted.
pub fn accept(reply: &Reply, bounds: Bounds, counter: &dyn Counter) -> Result<Text, Rejection> {
    if let Some(tool) = reply.tool_calls.first() {
        return Err(Rejection::ToolCall(tool.clone()));
    }
    // An allowlist, because providers keep adding reasons for breaking off.
    const FINISHED: [&str; 7] = ["stop", "end_turn", "stop_sequence", "completed", "complete", "eos", "end"];
    const TOOLS: [&str; 3] = ["tool-calls", "tool_calls", "tool_use"];
    let reason = reply.finish.as_deref().unwrap_or("nothing");
    if TOOLS.contains(&reason) {
        return Err(Rejection::ToolCall(reason.into()));
    }
    if !FINISHED.iter().any(|known| known.eq_ignore_ascii_case(reason)) {
        return Err(Rejection::Unfinished(reason.into()));
    }
    // Form and length are checked only if a model wrote the text.
    let is_models = !reply.is_extracted && !reply.is_edited;
    let text = if is_models { cleaned(&reply.text) } else { reply.text.trim().to_owned() };
    if text.is_empty() {
        return Err(Rejection::Empty);
    }
    let Bounds { replaced, .. } = bounds;
    let check = |summary: Tokens| {
        if summary >= replaced {
            return Err(Rejection::NotSmaller { summary, replaced });
        }
        let most = bounds.most();
        if is_models && summary > most { Err(Rejection::TooLong { summary, most }) } else { Ok(()) }
    };
    if is_models && is_refusal(&text) {
        return Err(Rejection::Refused);
    }
    // Checked before redaction, so that an absurdly long answer costs little, and after it, because redaction adds
    // text.
    let size = counter.count(&text);
    check(size)?;
    if is_models && size < bounds.least() && !has_heading(&text) {
        return Err(Rejection::TooShort { summary: size, least: bounds.least() });
    }
    let summary = Text::from(redact(&text).text);
    check(counter.count_text(&summary))?;
    Ok(summary)
}

/// Elements in which models write their reasoning before the answer.
const THOUGHTS: [&str; 5] = ["think", "thinking", "analysis", "scratchpad", "reasoning"];

/// Removes reasoning, enclosing tags, and headings that only the engine may write.
fn cleaned(text: &str) -> String {
    let mut text = text.to_owned();
    for tag in THOUGHTS {
        text = without_element(&text, tag);
    }
    let text = text.replace("<summary>", "").replace("</summary>", "");
    let lines = text.lines().filter(|line| line.trim() != MADE_WITHOUT_MODEL);
    let lines = lines.map(|line| if is_reserved(line) { UNRESERVED } else { line });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Replacement for a heading that is reserved for the contract.
const UNRESERVED: &str = "## Notes";

fn is_reserved(line: &str) -> bool {
    let title = |line: &str| line.trim().trim_start_matches('#').trim().trim_matches('*').to_lowercase();
    line.trim_start().starts_with(['#', '*']) && title(line) == title(contract::CONTRACT_HEADING)
}

fn without_element(text: &str, tag: &str) -> String {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    // Some chat templates open the element in the prompt, so the answer contains only the closing tag.
    let text = match (text.find(&open), text.find(&close)) {
        (start, Some(end)) if start.is_none_or(|start| end < start) => &text[end + close.len()..],
        _ => text,
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(&open) {
        out.push_str(&rest[..start]);
        let inside = &rest[start..];
        // An element that is never closed used up the model's output limit: nothing follows it.
        rest = inside.find(&close).map_or("", |end| &inside[end + close.len()..]);
    }
    out.push_str(rest);
    out
}

fn has_heading(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        line.starts_with('#') && line.trim_start_matches('#').starts_with(' ')
            || line.starts_with("**") && line.trim_end_matches(':').ends_with("**")
    })
}

/// Maximum number of words of a refusal. A longer text has content.
const LONGEST_REFUSAL: usize = 60;

/// Whether the model refused instead of summarising: a short text without headings that begins with an excuse.
fn is_refusal(text: &str) -> bool {
    static EXCUSE: Pattern = Pattern::new(|| {
        let excuses = patterns_of(include_str!("../../words/refusal/excuses.txt"));
        Regex::new(&format!(r"(?i)^\W*(?:{excuses})")).ok()
    });
    static ABOUT: Pattern = Pattern::new(|| {
        let words = patterns_of(include_str!("../../words/refusal/about.txt"));
        let inner = patterns_of(include_str!("../../words/refusal/about_inner.txt"));
        Regex::new(&format!(r"(?i)\b(?:{words})\b|{inner}")).ok()
    });
    let is_short = text.split_whitespace().count() <= LONGEST_REFUSAL && text.chars().count() <= 500;
    is_short && !has_heading(text) && matches(&EXCUSE, text) && matches(&ABOUT, text)
}
