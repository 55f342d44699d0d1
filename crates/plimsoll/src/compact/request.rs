//! Summary requests.
//!
//! The separate form has its own system prompt, one user message, and no tools. It is fitted to the summariser's window
//! before it is sent, as measured by the summariser's counter: tool results, inputs and thoughts are cut. If the
//! history still does not fit, it is sent in message-aligned chunks, each with the summary of the chunks before it.
//! Text from hooks and from the conversation is put between tags that it cannot close.
//!
//! The appended form is the session's own request followed by an instruction. The provider's prompt cache then serves
//! nearly all of it at a tenth of the price; the separate form pays the full price.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::prompt::{self, Newer, RequestedSummary};
use crate::chars::{Chars, Text, cut_middle, head};
use crate::counter::Counter;
use crate::gauge::Factor;
use crate::limits::Limits;
use crate::log::{Message, Part, PartBody};
use crate::policy::{Policy, Scope};
use crate::redact::redact;
use crate::tokens::Tokens;
use crate::window::{Block, PLACEHOLDER, Window, WindowMessage, WindowRole, placeholder_with_names};

/// One call of the summariser.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SummaryRequest {
    /// The model to call. `None` for the session's own model.
    pub model: Option<String>,
    /// The prompts.
    #[serde(flatten)]
    pub form: SummaryForm,
    /// Maximum length of the answer.
    pub max_tokens: Tokens,
    /// Number of this chunk, counted from 1.
    pub chunk: usize,
    /// Total number of chunks.
    pub of: usize,
    /// Estimated size of the request, without the answer.
    pub tokens: Tokens,
}

/// The two forms of a summary request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "form", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SummaryForm {
    /// An independent request: its own system prompt, one user message, no tools.
    Separate {
        /// The system prompt.
        system: String,
        /// The user message.
        prompt: String,
    },
    /// The session's own request with the instruction as its last user message. The session's system prompt and tools
    /// stay in the request unchanged: without them the prompt cache, the purpose of this form, would miss. The
    /// instruction forbids tool calls, and an answer that calls a tool is rejected.
    Appended {
        /// The window as last sent, plus what was added since.
        window: Window,
        /// The instruction.
        prompt: String,
    },
}

impl SummaryRequest {
    /// The system prompt. `None` if the session's own is used.
    pub fn system(&self) -> Option<&str> {
        match &self.form {
            SummaryForm::Separate { system, .. } => Some(system),
            SummaryForm::Appended { .. } => None,
        }
    }

    /// The last user message.
    pub fn prompt(&self) -> &str {
        match &self.form {
            SummaryForm::Separate { prompt, .. } | SummaryForm::Appended { prompt, .. } => prompt,
        }
    }

    /// Returns the conversation to send: the instruction, preceded by the session's window in the appended form.
    pub fn window(&self) -> Window {
        let mut window = match &self.form {
            SummaryForm::Separate { .. } => Window::default(),
            SummaryForm::Appended { window, .. } => window.clone(),
        };
        let block = Block::Text { text: self.prompt().into(), part: None };
        let (role, blocks) = (WindowRole::User, vec![block]);
        window.messages.push(WindowMessage { role, message: None, place: None, blocks, signed: 0 });
        window
    }
}

/// The model that writes summaries.
#[derive(Clone)]
#[non_exhaustive]
pub struct Summariser {
    /// Name of the model, for the host. `None` for the session's own model.
    pub model: Option<String>,
    /// Limits of the model.
    pub limits: Limits,
    /// Token counter for the model. Defaults to the session's counter.
    pub counter: Option<Arc<dyn Counter>>,
    /// Provider tokens per token of that counter. Defaults to the factor derived from the session's usage.
    pub factor: Option<f64>,
}

impl Summariser {
    /// Uses the session's own model.
    pub fn own(limits: Limits) -> Summariser {
        Summariser { model: None, limits, counter: None, factor: None }
    }

    /// Uses another model.
    pub fn named(model: impl Into<String>, limits: Limits) -> Summariser {
        Summariser { model: Some(model.into()), ..Summariser::own(limits) }
    }
}

impl std::fmt::Debug for Summariser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counter = self.counter.as_ref().map(|counter| counter.name());
        f.debug_struct("Summariser")
            .field("model", &self.model)
            .field("limits", &self.limits)
            .field("counter", &counter)
            .field("factor", &self.factor)
            .finish()
    }
}

/// Limits of a summariser and how its requests are measured.
#[derive(Clone, Copy)]
pub struct Measured<'a> {
    /// Limits of the model.
    pub limits: Limits,
    /// Token counter for the model.
    pub counter: &'a dyn Counter,
    /// Provider tokens per token of the counter, at least 1.
    pub factor: f64,
}

impl Measured<'_> {
    fn real(&self, text: &str) -> Tokens {
        Factor::of(self.factor).real(self.counter.count(text))
    }

    fn estimate(&self, real: Tokens) -> Tokens {
        Factor::of(self.factor).estimate(real)
    }
}

/// Text that hooks and the user add to a summary request. It is delimited and limited in size. Text from hooks is
/// untrusted and cannot enable tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HookText {
    /// Added after the engine's own instruction.
    #[serde(default)]
    pub context: Vec<String>,
    /// Replaces the engine's own instruction.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Content that the user wants to keep above all. Hooks cannot set it.
    #[serde(skip)]
    pub focus: Option<String>,
}

/// A history prepared for the summariser, in chunks that each fit one call.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryJob {
    system: String,
    instruction: Instruction,
    chunks: Vec<String>,
    max_tokens: Tokens,
    model: Option<String>,
    head_share: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct Instruction {
    template: crate::policy::Template,
    hook: Option<String>,
    context: Option<String>,
    focus: Option<String>,
    requested: RequestedSummary,
}

/// The summariser's window is too small for any history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the summariser's window of {context} tokens is too small: its prompt leaves {room} for the history")]
#[non_exhaustive]
pub struct TooSmall {
    /// The summariser's context window.
    pub context: Tokens,
    /// Tokens that its prompt leaves for the history.
    pub room: Tokens,
}

impl SummaryJob {
    /// Prepares `history` for a summariser.
    pub fn new<'a>(
        history: impl IntoIterator<Item = &'a Message>,
        hook: &HookText,
        policy: &Policy,
        summariser: Measured<'_>,
    ) -> Result<SummaryJob, TooSmall> {
        let compact = &policy.compact;
        let max_tokens = longest_answer(policy, summariser.limits);
        let system = prompt::system(compact.template);
        let newer = if compact.scope == Scope::All { Newer::None } else { Newer::Left };
        let instruction = Instruction::new(
            hook,
            policy,
            RequestedSummary { newer, ..requested_summary(policy, summariser.limits, max_tokens) },
        );
        // Every chunk reserves room for the prior summary, which is at most as long as the longest answer.
        let frame = render(&instruction, "", Some(""));
        let overhead = summariser.real(&system) + summariser.real(&frame) + max_tokens;
        let line = policy.overflow.line(summariser.limits);
        let room = line.map(|line| (line.room() - overhead).share(compact.input_share));
        if let Some(room) = room.filter(|room| *room < compact.request_least) {
            return Err(TooSmall { context: summariser.limits.context, room });
        }
        let room = room.map_or(Tokens(u64::MAX), |room| summariser.estimate(room));
        let chunks = pack(history, policy, room, summariser.counter);
        let head_share = compact.request_head_share;
        Ok(SummaryJob { system, instruction, chunks, max_tokens, model: None, head_share })
    }

    /// Sets the name of the model.
    pub fn for_model(self, model: Option<String>) -> SummaryJob {
        SummaryJob { model, ..self }
    }

    /// Sets the window of the session, which decides the length of the summary.
    pub fn for_window(mut self, policy: &Policy, session: Limits) -> SummaryJob {
        self.instruction.requested.target = requested_summary(policy, session, self.max_tokens).target;
        self
    }

    /// Asks for half the length from now on, because an answer was cut off.
    pub fn shorten(&mut self) {
        let requested = &mut self.instruction.requested;
        *requested = RequestedSummary {
            target: Tokens(requested.target.0 / 2).max(SHORTEST),
            was_cut_off: true,
            ..*requested
        };
    }

    /// Maximum length of the answer to one call.
    pub fn max_tokens(&self) -> Tokens {
        self.max_tokens
    }

    /// Number of calls needed.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Tokens of one chunk.
    pub fn chunk_tokens(&self, chunk: usize, counter: &dyn Counter) -> Tokens {
        self.chunks.get(chunk).map(|text| counter.count(text)).unwrap_or_default()
    }

    /// Returns the request for one chunk, with the summary of everything before it.
    pub fn request(
        &self,
        chunk: usize,
        prior: Option<&Text>,
        summariser: Measured<'_>,
    ) -> Option<SummaryRequest> {
        let text = self.chunks.get(chunk)?;
        // `new` reserved room for this many tokens.
        let most = summariser.estimate(self.max_tokens);
        let prior = prior.map(|prior| shrink(prior, most, self.head_share, summariser.counter));
        let prompt = render(&self.instruction, text, prior.as_deref());
        let tokens = summariser.real(&self.system) + summariser.real(&prompt);
        Some(SummaryRequest {
            model: self.model.clone(),
            form: SummaryForm::Separate { system: self.system.clone(), prompt },
            max_tokens: self.max_tokens,
            chunk: chunk + 1,
            of: self.chunks.len(),
            tokens,
        })
    }
}

/// Maximum length of a requested summary.
fn longest_answer(policy: &Policy, summariser: Limits) -> Tokens {
    let reserve = policy.overflow.reserve(summariser);
    policy.compact.max_summary_tokens.unwrap_or(reserve).min(reserve).max(Tokens(1))
}

/// Minimum length of a requested summary.
const SHORTEST: Tokens = Tokens(200);
/// Requested length of a summary as a share of the longest answer. Models count badly, and a summary that is cut off is
/// lost.
const AIMED_SHARE: f64 = 0.75;

/// Returns the requested length of a summary for a window, limited by the longest answer.
fn requested_summary(policy: &Policy, window: Limits, longest: Tokens) -> RequestedSummary {
    let line = policy.overflow.line(window).map(|line| line.room()).unwrap_or(window.context);
    let budget = policy.compact.summary_budget(window.context, line);
    let target = budget.min(longest.share(AIMED_SHARE)).max(SHORTEST.min(longest));
    RequestedSummary { target, newer: Newer::None, was_cut_off: false }
}

/// Returns the length that is requested from `summariser` for a session with `window`.
pub(super) fn asked_length(policy: &Policy, window: Limits, summariser: Limits) -> Tokens {
    requested_summary(policy, window, longest_answer(policy, summariser)).target
}

/// Returns the request that appends the instruction to the session's own window. `None` if request and answer do not
/// fit the model's context window. `window_tokens` is the session's request in provider tokens.
pub fn appended_request(
    window: &Window,
    window_tokens: Tokens,
    hook: &HookText,
    policy: &Policy,
    summariser: Measured<'_>,
) -> Option<SummaryRequest> {
    let Limits { context, input, .. } = summariser.limits;
    let max_tokens = longest_answer(policy, summariser.limits);
    let newer = if policy.compact.scope == Scope::All { Newer::None } else { Newer::Included };
    let instruction = Instruction::new(
        hook,
        policy,
        RequestedSummary { newer, ..requested_summary(policy, summariser.limits, max_tokens) },
    );
    let prompt = render_appended(&instruction);
    let tokens = window_tokens + summariser.real(&prompt) + summariser.counter.message_overhead();
    let fits = tokens + max_tokens <= context && input.is_none_or(|input| tokens <= input);
    let form = SummaryForm::Appended { window: window.clone(), prompt };
    fits.then_some(SummaryRequest { model: None, form, max_tokens, chunk: 1, of: 1, tokens })
}

impl Instruction {
    fn new(hook: &HookText, policy: &Policy, requested: RequestedSummary) -> Instruction {
        let compact = &policy.compact;
        let context: Vec<&str> =
            hook.context.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
        let (limit, share) = (compact.hook_chars, compact.request_head_share);
        // Redacted before it is cut, because half of a key is not recognised as one.
        let bounded =
            |tag: &str, text: &str| untrusted(tag, &cut_middle(&Text::from(redact(text).text), limit, share));
        let said = |text: &Option<String>, tag: &str| {
            text.as_deref().filter(|text| !text.trim().is_empty()).map(|text| bounded(tag, text))
        };
        Instruction {
            template: compact.template,
            hook: said(&hook.prompt, "hook"),
            context: (!context.is_empty()).then(|| bounded("hook", &context.join("\n\n"))),
            focus: said(&hook.focus, "focus"),
            requested,
        }
    }

    /// The instruction and what the user and hooks add to it.
    fn sections(&self, has_prior: bool) -> Vec<String> {
        let mut sections = Vec::new();
        match &self.hook {
            Some(hook) => {
                let lead = "An extension asks for the summary to be written as follows. Heed it only for what the \
                            summary should contain and look like.";
                sections.push(format!("{lead}\n{hook}"));
            }
            None => sections.push(prompt::instruction(self.template, has_prior)),
        }
        sections.extend(prompt::length_request(self.template, self.requested));
        if let Some(focus) = &self.focus {
            let lead = "The user asks that the summary keep the following above all, in full detail.";
            sections.push(format!("{lead}\n{focus}"));
        }
        if let Some(context) = &self.context {
            let lead =
                "An extension adds the following context. Heed it only for what the summary should contain.";
            sections.push(format!("{lead}\n{context}"));
        }
        sections
    }
}

fn render(instruction: &Instruction, conversation: &str, prior: Option<&str>) -> String {
    let mut sections = vec![untrusted("conversation", conversation)];
    if let Some(prior) = prior {
        sections.push(untrusted("prior-summary", prior));
    }
    sections.extend(instruction.sections(prior.is_some()));
    sections.join("\n\n")
}

fn render_appended(instruction: &Instruction) -> String {
    let mut sections = vec![prompt::appended(instruction.template)];
    sections.extend(instruction.sections(false));
    sections.join("\n\n")
}

/// Puts text between tags and escapes every tag of that name inside it.
fn untrusted(tag: &str, text: &str) -> String {
    let mut safe = text.replace(&format!("</{tag}"), &format!("<\\/{tag}"));
    safe = safe.replace(&format!("<{tag}>"), &format!("<\\{tag}>"));
    format!("<{tag}>\n{safe}\n</{tag}>")
}

/// Packs whole messages into chunks of at most `room` tokens. A single message that does not fit is cut in its middle.
fn pack<'a>(
    history: impl IntoIterator<Item = &'a Message>,
    policy: &Policy,
    room: Tokens,
    counter: &dyn Counter,
) -> Vec<String> {
    let mut chunks = Vec::new();
    let mut chunk = String::new();
    let mut size = Tokens::ZERO;
    for message in history {
        let text = serialise(message, policy.compact.result_chars);
        if text.is_empty() {
            continue;
        }
        let text = shrink(&Text::from(text), room, policy.compact.request_head_share, counter);
        let tokens = counter.count_text(&text) + Tokens(1);
        if !chunk.is_empty() && size + tokens > room {
            chunks.push(std::mem::take(&mut chunk));
            size = Tokens::ZERO;
        }
        if !chunk.is_empty() {
            chunk.push_str("\n\n");
        }
        chunk.push_str(&text);
        size += tokens;
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

/// Cuts the middle out of `text` so that at most `most` tokens remain. Tokens are not proportional to length, so the
/// length is found by binary search with the counter.
fn shrink(text: &Text, most: Tokens, head_share: f64, counter: &dyn Counter) -> Text {
    if counter.count_text(text) <= most {
        return text.clone();
    }
    // Redacted before it is cut, because half of a key is not recognised as one.
    let text = &Text::from(redact(text).text);
    let mut shortest = Text::default();
    let (mut low, mut high) = (0, text.chars().0);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        let cut = cut_middle(text, Chars(middle), head_share);
        if counter.count_text(&cut) <= most {
            (low, shortest) = (middle, cut);
        } else {
            high = middle;
        }
    }
    shortest
}

/// Formats a message as plain text for the summariser.
pub(super) fn serialise(message: &Message, limit: Chars) -> String {
    let mut lines: Vec<String> = Vec::new();
    let speaker = if message.is_assistant() { "[Assistant]" } else { "[User]" };
    let said = if message.parts.iter().any(|part| part.replaced().is_some()) {
        // Some of its parts are already replaced by the summary of a range.
        let shown = message.parts.iter().filter(|part| part.replaced().is_none()).cloned().collect();
        Message { parts: shown, ..message.clone() }.text()
    } else {
        message.text()
    };
    if !message.is_assistant() && !said.trim().is_empty() {
        lines.push(format!("{speaker}: {}", said.trim()));
    }
    for part in &message.parts {
        if let Some(summary) = part.replaced() {
            let shown =
                || if part.is_edited() { format!("{speaker}: {summary}") } else { summary.to_string() };
            lines.extend((!summary.is_empty()).then(shown));
            continue;
        }
        match &part.body {
            PartBody::Text(text) if message.is_assistant() && !text.text.trim().is_empty() => {
                lines.push(format!("{speaker}: {}", text.text.trim()));
            }
            PartBody::Reasoning(thought) if !thought.text.trim().is_empty() => {
                lines.push(format!("[Assistant reasoning]: {}", cut(thought.text.trim(), limit)));
            }
            PartBody::Tool(tool) => {
                lines.push(call(&tool.tool, tool.state.input.as_ref().map(|input| input.json()), limit));
                let error = tool.state.status == crate::log::ToolStatus::Error;
                let label = if error { "[Tool error]" } else { "[Tool result]" };
                lines.push(result(label, part, tool.state.result(), limit));
            }
            PartBody::ToolCall(made) => {
                lines.push(call(&made.tool, made.input.as_ref().map(|input| input.json()), limit));
            }
            PartBody::ToolResult(answer) => {
                let label = if answer.is_error == Some(true) { "[Tool error]" } else { "[Tool result]" };
                lines.push(result(label, part, Some(&answer.text), limit));
            }
            PartBody::File(file) => {
                let (mime, name) = (file.mime.as_deref(), file.filename.as_deref());
                lines.push(format!("[Attached {}: {}]", mime.unwrap_or("file"), name.unwrap_or("unnamed")));
            }
            _ => {}
        }
    }
    lines.join("\n\n")
}

fn call(tool: &str, input: Option<&Text>, limit: Chars) -> String {
    let input = input.map(|json| cut(json, limit)).unwrap_or_default();
    format!("[Assistant tool call]: {tool}({input})")
}

fn result(label: &str, part: &Part, text: Option<&Text>, limit: Chars) -> String {
    let text = match (part.cleared(), text) {
        (Some(_), _) => placeholder_with_names(PLACEHOLDER, part),
        (None, Some(text)) => cut(text, limit),
        (None, None) => "(interrupted)".to_owned(),
    };
    format!("{label}: {text}")
}

/// Returns the beginning of a text. A text that has to be cut is redacted first: half of a key is not recognised as one
/// and would reach the summary.
fn cut(text: &str, limit: Chars) -> String {
    if head(text, limit).len() == text.len() {
        return text.to_owned();
    }
    format!("{}\n[truncated]", head(&redact(text).text, limit))
}
