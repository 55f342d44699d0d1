//! Titles of sessions.

use std::time::Instant;

use plimsoll::{Message, Policy, Window};
use plimsoll_providers::RequestOptions;

use crate::metrics;
use crate::model::{Model, Question};

/// Maximum length of a title, in chars.
const LONGEST: usize = 60;

const INSTRUCTION: &str = "Write a title for the conversation that begins with the message below: at most eight words, in the \
language of the message, without quotation marks or a full stop, and nothing else. Do not answer the message.";

/// Returns a title from the first words of a prompt.
///
/// ```
/// assert_eq!(plimsoll_agent::title_from_words("fix   the\nlogin"), "fix the login");
/// ```
pub fn title_from_words(prompt: &str) -> String {
    let words: Vec<&str> = prompt.split_whitespace().collect();
    shorten(&words.join(" "))
}

fn shorten(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    if text.chars().count() <= LONGEST {
        return text;
    }
    let head: String = text.chars().take(LONGEST).collect();
    // Cut at a word boundary if there is one in the second half.
    let end = head.rfind(' ').filter(|end| *end > head.len() / 2).unwrap_or(head.len());
    format!("{}…", head[..end].trim_end())
}

/// Asks a model for a title; `None` if its answer is not usable.
pub(crate) async fn ask_title(model: &Model, prompt: &str, policy: &Policy) -> Option<String> {
    let excerpt: String = prompt.chars().take(2_000).collect();
    let message = Message::user("msg_title".into(), "prt_title".into(), excerpt);
    let window = Window::of(&[message], policy);
    let options = RequestOptions { max_tokens: Some(64), ..model.options.clone() };
    let system = [INSTRUCTION.to_owned()];
    let question = Question { window: &window, system: &system, tools: &[], cache: None, options: &options };
    let request = model.request(question).ok()?;
    let started = Instant::now();
    let said = model.ask(&request, |_| {}).await.ok()?;
    let cost = said.usage.as_ref().and_then(|usage| model.cost(usage));
    metrics::answered(&model.name.to_string(), said.usage.as_ref(), cost, started.elapsed());
    // Models that print their reasoning put the title last.
    let line = said.text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let title = shorten(line.trim_matches(['"', '\'', '`', '*', '#', ' ', '.']));
    (!title.is_empty()).then(|| plimsoll::redact::redact(&title).text)
}
