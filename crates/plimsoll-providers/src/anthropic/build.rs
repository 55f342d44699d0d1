//! Builds a Messages request from a window.
//!
//! The API's rules that it keeps: user and model alternate; results come first in the user's turn; a turn does not end
//! with reasoning; reasoning has its signature; the conversation ends with the user; with a thinking budget, an answer
//! that waits for its results begins with reasoning; there are at most four cache breakpoints.

use std::collections::BTreeMap;

use plimsoll::cache::Breakpoint;
use plimsoll::window::{Attachment, object_input};
use plimsoll::{Block, Text, WindowMessage, WindowRole};
use serde_json::{Value, json};

use super::wire::{
    CacheControl, Content, ContentBlock, MessagesRequest, Source, Thinking as WireThinking, Tool,
    ToolChoice as WireChoice, Turn,
};
use crate::Extra;
use crate::names::{IdMap, ToolNames};
use crate::prompt::{BuildError, CacheTtl, Prompt, Thinking, ToolChoice, object_schema, overlay};

const ID_LIMIT: usize = 64;
/// Required by the API; every model allows this many.
const DEFAULT_MAX_TOKENS: u64 = 4_096;
/// Smallest thinking budget that the API accepts.
const MIN_BUDGET: u64 = 1_024;
const MAX_BREAKPOINTS: usize = 4;
/// Text of the user's turn that is added if the window ends with the model: newer models refuse to continue an answer.
const CONTINUE: &str = "Continue.";

pub(crate) fn build(prompt: &Prompt<'_>, names: &mut ToolNames) -> Result<MessagesRequest, BuildError> {
    let mut tools: Vec<Tool> = prompt.tools.iter().map(|tool| declare(tool, names)).collect();
    let builder = Builder { prompt, ids: IdMap::new(prompt.id_rule(ID_LIMIT)), names };
    let (mut system, turns, called) = builder.convert();
    if turns.is_empty() {
        return Err(BuildError::Empty);
    }
    let mut choice = tool_choice(prompt, names);
    if tools.is_empty() && !called.is_empty() {
        // Calls without any declared tool are rejected. `tool_choice: none` keeps the model from calling these stubs,
        // which nothing could run.
        let stub = |name: String| Tool {
            name,
            description: None,
            input_schema: Some(object_schema(&Value::Null)),
            cache_control: None,
            extra: Extra::new(),
        };
        tools = called.into_iter().map(stub).collect();
        choice = Some(WireChoice { kind: "none".into(), name: None, extra: Extra::new() });
    }
    if prompt.cache.is_some() {
        if let Some(tool) = tools.last_mut() {
            tool.cache_control = Some(mark(prompt));
        }
        // The breakpoint is set on the end of the system prompt. System messages of the window follow it in the same
        // list and may change with each request.
        let stable = prompt.system.iter().filter(|text| !text.trim().is_empty()).count();
        if let Some(block) = stable.checked_sub(1).and_then(|last| system.get_mut(last)) {
            set_mark(block, Some(mark(prompt)));
        }
    }
    let max_tokens = prompt.options.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    let (thinking, effort) = thinking(prompt, max_tokens, &turns);
    let mut request = MessagesRequest {
        model: prompt.model.to_owned(),
        max_tokens,
        system: (!system.is_empty()).then_some(Content::Blocks(system)),
        tool_choice: choice.filter(|_| !tools.is_empty()),
        tools,
        // Any temperature but the default is rejected together with thinking, and by models that always think.
        temperature: prompt.options.temperature.filter(|_| thinking.is_none() && takes_budget(prompt.model)),
        thinking,
        messages: turns,
        stream: Some(true),
        extra: Extra::new(),
    };
    if let Some(effort) = effort {
        request.extra.insert("output_config".into(), json!({ "effort": effort }));
    }
    limit_marks(&mut request);
    overlay(request, &prompt.options.extra)
}

fn declare(tool: &crate::prompt::ToolSpec, names: &mut ToolNames) -> Tool {
    Tool {
        name: names.wire(&tool.name),
        description: (!tool.description.is_empty()).then(|| tool.description.clone()),
        input_schema: Some(object_schema(&tool.schema)),
        cache_control: None,
        extra: Extra::new(),
    }
}

fn tool_choice(prompt: &Prompt<'_>, names: &mut ToolNames) -> Option<WireChoice> {
    let (kind, name) = match &prompt.options.tool_choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => ("none", None),
        ToolChoice::Required => ("any", None),
        ToolChoice::Named(name) => ("tool", Some(names.wire(name))),
    };
    Some(WireChoice { kind: kind.into(), name, extra: Extra::new() })
}

/// Returns the thinking configuration and the effort.
fn thinking(prompt: &Prompt<'_>, max_tokens: u64, turns: &[Turn]) -> (Option<WireThinking>, Option<String>) {
    let of_kind = |kind: &str, budget_tokens| {
        Some(WireThinking { kind: kind.into(), budget_tokens, extra: Extra::new() })
    };
    // A forced call is rejected together with thinking.
    let forced = matches!(prompt.options.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    match &prompt.options.thinking {
        Thinking::Effort(effort) if forced => (None, Some(effort.clone())),
        _ if forced => (None, None),
        Thinking::Unset => (None, None),
        Thinking::Adaptive => (of_kind("adaptive", None), None),
        Thinking::Budget(_) if !takes_budget(prompt.model) => (of_kind("adaptive", None), None),
        Thinking::Effort(effort) => (of_kind("adaptive", None), Some(effort.clone())),
        Thinking::Budget(budget) => {
            let budget = (*budget).min(max_tokens.saturating_sub(1));
            let asks = budget >= MIN_BUDGET && !awaits_results_without_thought(turns);
            (if asks { of_kind("enabled", Some(budget)) } else { None }, None)
        }
    }
}

/// Whether a model accepts a thinking budget and a temperature. Anthropic's models do up to generation 4.6; later ones
/// decide for themselves and reject both. For models of other vendors with this API, the configuration is trusted.
fn takes_budget(model: &str) -> bool {
    const WITH_BUDGET: [&str; 7] = ["claude-3", "-4-0", "-4-1", "-4-5", "-4-6", "-4-2025", "-4@2025"];
    let name = model.to_ascii_lowercase().replace('.', "-");
    !name.contains("claude-") || name.ends_with("-4") || WITH_BUDGET.iter().any(|old| name.contains(old))
}

/// Whether the newest answer calls tools and does not begin with reasoning, which is rejected together with a thinking
/// budget. A switch of models in the middle of a turn causes it.
fn awaits_results_without_thought(turns: &[Turn]) -> bool {
    let newest = turns.iter().rev().find(|turn| turn.role == "assistant");
    let Some(Turn { content: Content::Blocks(blocks), .. }) = newest else { return false };
    blocks.iter().any(|block| matches!(block, ContentBlock::ToolUse { .. }))
        && !blocks.first().is_some_and(is_thought)
}

fn is_thought(block: &ContentBlock) -> bool {
    matches!(block, ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. })
}

struct Builder<'a> {
    prompt: &'a Prompt<'a>,
    ids: IdMap,
    names: &'a mut ToolNames,
}

impl Builder<'_> {
    /// Returns the system prompt, the turns, and the names of the called tools.
    fn convert(mut self) -> (Vec<ContentBlock>, Vec<Turn>, Vec<String>) {
        let mut system: Vec<ContentBlock> =
            self.prompt.system.iter().filter_map(|piece| text(piece)).collect();
        let mut turns: Vec<(&str, Vec<ContentBlock>)> = Vec::new();
        for (place, message) in self.prompt.window.messages.iter().enumerate() {
            let mut blocks = self.message(place, message);
            let role = match message.role {
                WindowRole::System => {
                    system.append(&mut blocks);
                    continue;
                }
                WindowRole::Assistant => "assistant",
                WindowRole::User | WindowRole::Tool => "user",
            };
            if role == "assistant" {
                // The API rejects a turn that ends with reasoning, as that of an aborted answer does.
                while blocks.last().is_some_and(is_thought) {
                    blocks.pop();
                }
            }
            match turns.last_mut() {
                _ if blocks.is_empty() => {}
                Some((last, turn)) if *last == role => turn.append(&mut blocks),
                _ => turns.push((role, blocks)),
            }
        }
        if turns.last().is_some_and(|(role, _)| *role == "assistant") {
            turns.push(("user", text(CONTINUE).into_iter().collect()));
        }
        let mut called: Vec<String> = Vec::new();
        for block in turns.iter().flat_map(|(_, blocks)| blocks) {
            if let ContentBlock::ToolUse { name, .. } = block
                && !called.contains(name)
            {
                called.push(name.clone());
            }
        }
        let turn = |(role, blocks): (&str, Vec<ContentBlock>)| Turn {
            role: role.to_owned(),
            content: Content::Blocks(blocks),
            extra: Extra::new(),
        };
        (system, turns.into_iter().map(turn).collect(), called)
    }

    fn message(&mut self, place: usize, message: &WindowMessage) -> Vec<ContentBlock> {
        let planned = self.prompt.cache.map(|plan| plan.breakpoints.as_slice()).unwrap_or_default();
        let mut written = Vec::new();
        let unpaired = unpaired(message, self.prompt);
        for (at, block) in message.blocks.iter().enumerate().filter(|(at, _)| !unpaired.contains(at)) {
            let Some(mut block) = self.block(block) else { continue };
            if planned.contains(&Breakpoint { message: place, block: at }) {
                set_mark(&mut block, Some(mark(self.prompt)));
            }
            written.push(block);
        }
        written
    }

    fn block(&mut self, block: &Block) -> Option<ContentBlock> {
        match block {
            Block::Text { text, .. } => self::text(text),
            Block::Reasoning { text, metadata, .. } => self.thought(text, metadata),
            Block::Call { id, tool, input, .. } => Some(ContentBlock::ToolUse {
                id: self.ids.id(id),
                name: self.names.wire(tool),
                input: object_input(input.value()),
                cache_control: None,
                extra: Extra::new(),
            }),
            Block::Result { id, text, is_error, files, .. } => {
                // An error result may contain only text.
                let file =
                    |each: Attachment<'_>| if *is_error { self::text(&each.mention()) } else { file(&each) };
                let mut content: Vec<ContentBlock> = self::text(text).into_iter().collect();
                content.extend(Attachment::all(files).filter_map(file));
                Some(ContentBlock::ToolResult {
                    tool_use_id: self.ids.id(id),
                    content: Some(Content::Blocks(content)),
                    is_error: is_error.then_some(true),
                    cache_control: None,
                    extra: Extra::new(),
                })
            }
            Block::Provider { value, .. } => {
                self.prompt.own_block(value.value()).cloned().map(ContentBlock::Other)
            }
            Block::File { mime, filename, url, .. } => file(&Attachment::new(mime, filename, url)),
        }
    }

    /// Reasoning of another provider or without a signature is rejected.
    fn thought(&self, text: &Text, metadata: &Option<Value>) -> Option<ContentBlock> {
        let own = self.prompt.own_metadata(metadata)?;
        if let Some(data) = own.get("redactedData").and_then(Value::as_str) {
            return Some(ContentBlock::RedactedThinking { data: data.to_owned(), extra: Extra::new() });
        }
        let signature = own.get("signature")?.as_str()?.to_owned();
        Some(ContentBlock::Thinking { thinking: text.as_str().to_owned(), signature, extra: Extra::new() })
    }
}

/// Returns the indices of calls that the provider ran itself and whose results are missing, and of such results without
/// a call. The API rejects one without the other, and a reduction may have removed either.
///
/// Without such pairs, a search that the provider ran itself would either be lost to the model or make the request
/// fail.
fn unpaired(message: &WindowMessage, prompt: &Prompt<'_>) -> Vec<usize> {
    let string = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let (mut calls, mut results) = (BTreeMap::new(), BTreeMap::new());
    for (at, block) in message.blocks.iter().enumerate() {
        let Block::Provider { value, .. } = block else { continue };
        let Some(own) = prompt.own_block(value.value()) else { continue };
        match string(own, "type") {
            Some(kind) if kind.ends_with("_tool_use") => {
                calls.insert(string(own, "id").unwrap_or_default(), at);
            }
            Some(kind) if kind.ends_with("_tool_result") => {
                results.insert(string(own, "tool_use_id").unwrap_or_default(), at);
            }
            _ => {}
        }
    }
    let lone = |these: &BTreeMap<String, usize>, others: &BTreeMap<String, usize>| -> Vec<usize> {
        these.iter().filter(|(id, _)| !others.contains_key(*id)).map(|(_, at)| *at).collect()
    };
    [lone(&calls, &results), lone(&results, &calls)].concat()
}

/// Returns a text block; `None` for a blank text, which is rejected.
fn text(text: &str) -> Option<ContentBlock> {
    (!text.trim().is_empty()).then(|| ContentBlock::Text {
        text: text.to_owned(),
        cache_control: None,
        extra: Extra::new(),
    })
}

fn file(file: &Attachment<'_>) -> Option<ContentBlock> {
    let source = match file.data() {
        Some((mime, data)) => Source::Base64 { media_type: mime.to_owned(), data: data.to_owned() },
        None if file.is_web() => Source::Url { url: file.url.unwrap_or_default().to_owned() },
        None => return text(&file.mention()),
    };
    if file.is_image() {
        Some(ContentBlock::Image { source, cache_control: None, extra: Extra::new() })
    } else if file.is_pdf() {
        Some(ContentBlock::Document { source, cache_control: None, extra: Extra::new() })
    } else {
        text(&file.mention())
    }
}

fn mark(prompt: &Prompt<'_>) -> CacheControl {
    let ttl = match prompt.options.cache_ttl {
        CacheTtl::FiveMinutes => None,
        CacheTtl::OneHour => Some("1h".into()),
    };
    CacheControl { kind: "ephemeral".into(), ttl }
}

fn set_mark(block: &mut ContentBlock, mark: Option<CacheControl>) {
    match block {
        ContentBlock::Text { cache_control, .. }
        | ContentBlock::Image { cache_control, .. }
        | ContentBlock::Document { cache_control, .. }
        | ContentBlock::ToolUse { cache_control, .. }
        | ContentBlock::ToolResult { cache_control, .. } => *cache_control = mark,
        // The API accepts no breakpoint on reasoning, and may not on an unknown block.
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } | ContentBlock::Other(_) => {}
    }
}

fn is_marked(block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Text { cache_control, .. }
        | ContentBlock::Image { cache_control, .. }
        | ContentBlock::Document { cache_control, .. }
        | ContentBlock::ToolUse { cache_control, .. }
        | ContentBlock::ToolResult { cache_control, .. } => cache_control.is_some(),
        _ => false,
    }
}

/// Removes breakpoints above the API's maximum of four. Those nearest to the end save most. The one on the tools saves
/// least, because the one on the system prompt covers them.
fn limit_marks(request: &mut MessagesRequest) {
    let system = match &mut request.system {
        Some(Content::Blocks(blocks)) => blocks.as_mut_slice(),
        _ => &mut [],
    };
    let turns = request.messages.iter_mut().flat_map(|turn| match &mut turn.content {
        Content::Blocks(blocks) => blocks.as_mut_slice(),
        Content::Text(_) => &mut [],
    });
    let mut marked: Vec<&mut ContentBlock> =
        system.iter_mut().chain(turns).filter(|b| is_marked(b)).collect();
    let tools = request.tools.iter().filter(|tool| tool.cache_control.is_some()).count();
    let mut excess = (marked.len() + tools).saturating_sub(MAX_BREAKPOINTS);
    if excess > 0
        && let Some(tool) = request.tools.last_mut()
    {
        tool.cache_control = None;
        excess -= tools.min(excess);
    }
    for block in marked.iter_mut().take(excess) {
        set_mark(block, None);
    }
}
