//! Whether a summariser's answer may take the place of what it summarises.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::contract;
use super::extract::MADE_WITHOUT_MODEL;
use super::prose::{Pattern, matches};
use crate::chars::Text;
use crate::count::{Counter, Tokens};
use crate::log::Usage;
use crate::pattern::Regex;
use crate::redact::redact;

/// What came back from the summariser.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The text of the answer.
    pub text: String,
    /// Why the model stopped, in the provider's words; none if the stream broke off.
    pub finish: Option<String>,
    /// Names of tools the model tried to call.
    pub tool_calls: Vec<String>,
    /// What the provider counted for the call.
    pub usage: Option<Usage>,
    /// What the call cost, if the host knows prices.
    pub cost: Option<f64>,
    /// The model that answered.
    pub model: Option<String>,
    /// Whether no model made it: it was extracted, and may have been edited by a person.
    pub is_extracted: bool,
    /// Whether the user edited it: its form and length are the user's choice.
    pub is_edited: bool,
}

impl Reply {
    /// A finished answer.
    pub fn finished(text: impl Into<String>) -> Reply {
        Reply { text: text.into(), finish: Some("stop".into()), ..Reply::default() }
    }
}

/// Why an answer was not taken. The history stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Rejection {
    /// The call itself failed.
    #[error("the summary call failed: {0}")]
    Failed(String),
    /// It broke off.
    #[error("the summary was not finished (the model stopped with `{0}`)")]
    Unfinished(String),
    /// It said nothing.
    #[error("the summary was empty")]
    Empty,
    /// The model refused to summarise.
    #[error("the summariser refused to write a summary")]
    Refused,
    /// Hardly any content for what the summary would replace.
    #[error("the summary of {summary} tokens is too short (at least {least}, or headings)")]
    TooShort {
        /// Size of the summary.
        summary: Tokens,
        /// The least that is taken.
        least: Tokens,
    },
    /// Far longer than requested.
    #[error("the summary of {summary} tokens is too long (at most {most})")]
    TooLong {
        /// Size of the summary.
        summary: Tokens,
        /// The most that is taken.
        most: Tokens,
    },
    /// The model called a tool instead of answering.
    #[error("the summariser tried to call the tool `{0}`, which is not allowed while it summarises")]
    ToolCall(String),
    /// It saved nothing.
    #[error("the summary of {summary} tokens is not smaller than the {replaced} tokens it would replace")]
    NotSmaller {
        /// Its size.
        summary: Tokens,
        /// The size of what it would replace.
        replaced: Tokens,
    },
    /// The compaction took too long. The summariser is not asked again.
    #[error("the summariser took too long: no summary after {seconds} seconds")]
    TimedOut {
        /// The limit of the policy, for all requests of a compaction together.
        seconds: u64,
    },
    /// The summariser failed too often in a row and was not asked.
    #[error("the summariser was not asked after {failures} failures in a row")]
    GivenUp {
        /// Number of failures in a row.
        failures: u32,
    },
}

impl Rejection {
    /// Whether asking again could help.
    pub fn is_worth_a_retry(&self) -> bool {
        match self {
            Rejection::NotSmaller { .. }
            | Rejection::TooLong { .. }
            | Rejection::TimedOut { .. }
            | Rejection::GivenUp { .. } => false,
            Rejection::Failed(_)
            | Rejection::Unfinished(_)
            | Rejection::Empty
            | Rejection::Refused
            | Rejection::TooShort { .. }
            | Rejection::ToolCall(_) => true,
        }
    }

    /// Whether the answer reached its limit, so that the same request would reach it again.
    pub fn is_cut_off(&self) -> bool {
        const LENGTH: [&str; 5] =
            ["length", "max_tokens", "max_output_tokens", "incomplete", "model_context_window_exceeded"];
        matches!(self, Rejection::Unfinished(reason) if LENGTH.iter().any(|known| known.eq_ignore_ascii_case(reason)))
    }
}

/// Sizes that an answer is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Size of what the summary would replace.
    pub replaced: Tokens,
    /// Longest answer that was asked for.
    pub longest: Tokens,
}

/// Counters differ, so an answer may be this many times as long as the request allowed.
const TOLERANCE: f64 = 1.5;
/// A summary without headings must be at least this share of what it replaces,
const LEAST_SHARE: f64 = 0.001;
/// but need not be longer than this.
const LEAST: Tokens = Tokens(100);

impl Bounds {
    fn most(&self) -> Tokens {
        Tokens((self.longest.0 as f64 * TOLERANCE) as u64).max(self.longest)
    }

    fn least(&self) -> Tokens {
        self.replaced.share(LEAST_SHARE).min(LEAST)
    }
}

/// Takes an answer as a summary if it is finished, has content, calls no tool, keeps to its length and is smaller than the
/// replaced messages. Thoughts and reserved headings are removed, and known shapes of secrets are replaced.
pub fn accept(reply: &Reply, bounds: Bounds, counter: &dyn Counter) -> Result<Text, Rejection> {
    if let Some(tool) = reply.tool_calls.first() {
        return Err(Rejection::ToolCall(tool.clone()));
    }
    // A list of what is finished, not of what is not: providers keep inventing reasons to break off.
    const FINISHED: [&str; 7] = ["stop", "end_turn", "stop_sequence", "completed", "complete", "eos", "end"];
    const TOOLS: [&str; 3] = ["tool-calls", "tool_calls", "tool_use"];
    let reason = reply.finish.as_deref().unwrap_or("nothing");
    if TOOLS.contains(&reason) {
        return Err(Rejection::ToolCall(reason.into()));
    }
    if !FINISHED.iter().any(|known| known.eq_ignore_ascii_case(reason)) {
        return Err(Rejection::Unfinished(reason.into()));
    }
    // Form and length are checked only of what a model wrote.
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
    // Before the search for secrets, so that a model gone wild costs little; and after, because that adds words.
    let size = counter.count(&text);
    check(size)?;
    if is_models && size < bounds.least() && !has_heading(&text) {
        return Err(Rejection::TooShort { summary: size, least: bounds.least() });
    }
    let summary = Text::from(redact(&text).text);
    check(counter.count_text(&summary))?;
    Ok(summary)
}

/// Elements in which models think aloud before they answer.
const THOUGHTS: [&str; 5] = ["think", "thinking", "analysis", "scratchpad", "reasoning"];

/// The answer without thoughts, without tags around it, and without headings that only the engine writes.
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

/// Heading in place of one that is reserved for the contract.
const UNRESERVED: &str = "## Notes";

fn is_reserved(line: &str) -> bool {
    let title = |line: &str| line.trim().trim_start_matches('#').trim().trim_matches('*').to_lowercase();
    line.trim_start().starts_with(['#', '*']) && title(line) == title(contract::HEADING)
}

fn without_element(text: &str, tag: &str) -> String {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    // Some models are started inside the element, so that only its end is in the answer.
    let text = match (text.find(&open), text.find(&close)) {
        (start, Some(end)) if start.is_none_or(|start| end < start) => &text[end + close.len()..],
        _ => text,
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(&open) {
        out.push_str(&rest[..start]);
        let inside = &rest[start..];
        // One that is not closed was all that the model had room for.
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

/// Longest text that can be a refusal, in words: one that says more has content.
const LONGEST_REFUSAL: usize = 60;

/// Whether the model refused instead of summarising: a short text without headings that begins with an excuse.
fn is_refusal(text: &str) -> bool {
    static EXCUSE: Pattern = Pattern::new(|| {
        Regex::new(
            r"(?ix) ^\W*(?:
              (?:i['’]?m|i\ am|we['’]?re|we\ are)\ (?:really\ |very\ |so\ |truly\ |deeply\ )?sorry
            | sorry\b | (?:i|we)\ apologi[sz]e | apologies
            | (?:unfortunately,?\ )?(?:i|we)\ (?:can['’]?t|cannot|can\ not|won['’]?t|will\ not|must\ decline|decline|am\ unable|am\ not\ able|are\ unable)\b
            | (?:unfortunately,?\ )?i['’]?m\ (?:unable|not\ able|not\ comfortable)\b
            | as\ an?\ (?:ai|artificial|large\ language|language\ model)
            | es\ tut\ mir\ leid | entschuldigung | lo\ siento | je\ suis\ désolé | désolé | desculpe | sinto\ muito | mi\ dispiace
            | извините | 抱歉 | 很抱歉 | 对不起 | 對不起 | 我无法 | 我無法 | 申し訳 | 죄송
            )",
        )
        .ok()
    });
    static ABOUT: Pattern = Pattern::new(|| {
        Regex::new(
            r"(?i)\b(?:help|assist|comply|summar\w+|continue|provide|fulfil\w*|do that|do this|request|discuss|engage|share|helfen|ayudar|aider|ajudar|aiutar\w*|помочь)\b|协助|協助|帮助|幫助|提供|处理|處理|お手伝い|対応|도와",
        )
        .ok()
    });
    let is_short = text.split_whitespace().count() <= LONGEST_REFUSAL && text.chars().count() <= 500;
    is_short && !has_heading(text) && matches(&EXCUSE, text) && matches(&ABOUT, text)
}
