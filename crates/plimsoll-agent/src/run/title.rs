//! What a session is called.

use std::time::Instant;

use plimsoll::{Message, Policy, Window};
use plimsoll_providers::RequestOptions;

use crate::metrics;
use crate::model::{Model, Question};

/// The longest title, in chars.
const LONGEST: usize = 60;

const INSTRUCTION: &str = "Write a title for the conversation that begins with the message below: at most eight words, in the \
language of the message, no quotation marks, no full stop, nothing else. Do not answer the message.";

/// A title made of the first words of a prompt.
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
    // At a word's end, where there is one not too far back.
    let end = head.rfind(' ').filter(|end| *end > head.len() / 2).unwrap_or(head.len());
    format!("{}…", head[..end].trim_end())
}

/// Ask a model for a title; nothing if it says nothing of use.
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
    // Models that think aloud put the title last.
    let line = said.text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let title = shorten(line.trim_matches(['"', '\'', '`', '*', '#', ' ', '.']));
    (!title.is_empty()).then(|| plimsoll::redact::redact(&title).text)
}
