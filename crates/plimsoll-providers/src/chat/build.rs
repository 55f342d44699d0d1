//! Builds a Chat Completions request from a window.
//!
//! System messages are joined into one at the beginning: many chat templates of open models reject one anywhere else.
//! Reasoning is only sent in the fields that some servers add.

use plimsoll::window::{Attachment, object_input};
use plimsoll::{Block, WindowMessage, WindowRole};
use serde_json::{Value, json};

use super::wire::{
    ChatMessage, ChatRequest, Content, ContentPart, Function, FunctionCall, ImageUrl, StreamOptions, Tool,
    ToolCall,
};
use crate::Extra;
use crate::names::{IdMap, ToolNames};
use crate::prompt::{
    BuildError, MaxTokensField, Prompt, Thinking, ToolChoice, ToolSpec, WordlessContent, is_openai_reasoning,
    object_schema, overlay,
};

const ID_LIMIT: usize = 40;

pub(crate) fn build(prompt: &Prompt<'_>, names: &mut ToolNames) -> Result<ChatRequest, BuildError> {
    let options = prompt.options;
    let tools: Vec<Tool> = prompt.tools.iter().map(|tool| declare(tool, names)).collect();
    let tool_choice = tool_choice(&options.tool_choice, names).filter(|_| !tools.is_empty());
    let mut builder = Builder { prompt, ids: IdMap::new(prompt.id_rule(ID_LIMIT)), names };
    let mut messages = Vec::new();
    let mut system: Vec<&str> = prompt.system.iter().map(String::as_str).collect();
    for message in &prompt.window.messages {
        match message.role {
            WindowRole::System => system.extend(texts(message)),
            WindowRole::User => messages.push(chat_message("user", user(message))),
            WindowRole::Assistant => messages.extend(builder.assistant(message)),
            WindowRole::Tool => builder.results(message, &mut messages),
        }
    }
    if messages.is_empty() {
        return Err(BuildError::Empty);
    }
    system.retain(|text| !text.trim().is_empty());
    if !system.is_empty() {
        messages.insert(0, chat_message("system", Content::Text(system.join("\n\n"))));
    }
    let (new, old) = match options.max_tokens_field {
        MaxTokensField::MaxCompletionTokens => (options.max_tokens, None),
        MaxTokensField::MaxTokens => (None, options.max_tokens),
    };
    let request = ChatRequest {
        model: prompt.model.to_owned(),
        messages,
        tools,
        tool_choice,
        max_completion_tokens: new,
        max_tokens: old,
        reasoning_effort: match &options.thinking {
            Thinking::Effort(effort) => Some(effort.clone()),
            _ => None,
        },
        temperature: options.temperature.filter(|_| !is_openai_reasoning(prompt.model)),
        prompt_cache_key: options.cache_key.clone(),
        stream: Some(true),
        // By default, a stream has no usage.
        stream_options: Some(StreamOptions { include_usage: true, extra: Extra::new() }),
        extra: Extra::new(),
    };
    overlay(request, &options.extra)
}

fn declare(tool: &ToolSpec, names: &mut ToolNames) -> Tool {
    let function = Function {
        name: names.wire(&tool.name),
        description: (!tool.description.is_empty()).then(|| tool.description.clone()),
        parameters: Some(object_schema(&tool.schema)),
        extra: Extra::new(),
    };
    Tool { kind: "function".into(), function, extra: Extra::new() }
}

fn tool_choice(choice: &ToolChoice, names: &mut ToolNames) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Named(name) => {
            Some(json!({ "type": "function", "function": { "name": names.wire(name) } }))
        }
    }
}

fn chat_message(role: &str, content: Content) -> ChatMessage {
    ChatMessage { role: role.to_owned(), content: Some(content), ..ChatMessage::default() }
}

fn texts(message: &WindowMessage) -> impl Iterator<Item = &str> {
    message.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

/// Returns a string if there is only text: some servers accept nothing else.
fn user(message: &WindowMessage) -> Content {
    let parts = message.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(ContentPart::Text { text: text.as_str().to_owned() }),
        Block::File { mime, filename, url, .. } => Some(file(&Attachment::new(mime, filename, url))),
        _ => None,
    });
    let parts: Vec<ContentPart> = parts.collect();
    let words = parts.iter().map(|part| match part {
        ContentPart::Text { text } => Some(text.as_str()),
        _ => None,
    });
    match words.collect::<Option<Vec<&str>>>() {
        Some(words) if !words.is_empty() => Content::Text(words.join("\n\n")),
        _ => Content::Parts(parts),
    }
}

/// Sends only images as files: OpenAI accepts PDFs here too, but other servers reject the whole request.
fn file(file: &Attachment<'_>) -> ContentPart {
    match file.url {
        Some(url) if file.is_image() && (file.data().is_some() || file.is_web()) => {
            ContentPart::ImageUrl { image_url: ImageUrl { url: url.to_owned(), extra: Extra::new() } }
        }
        _ => ContentPart::Text { text: file.mention() },
    }
}

struct Builder<'a> {
    prompt: &'a Prompt<'a>,
    ids: IdMap,
    names: &'a mut ToolNames,
}

impl Builder<'_> {
    /// Omits a message that consists only of reasoning.
    fn assistant(&mut self, message: &WindowMessage) -> Option<ChatMessage> {
        let text = texts(message).collect::<Vec<_>>().join("\n\n");
        let mut written = ChatMessage { role: "assistant".into(), ..ChatMessage::default() };
        for block in &message.blocks {
            if let Block::Call { id, tool, input, .. } = block {
                let arguments = object_input(input.value()).to_string();
                written.tool_calls.push(ToolCall {
                    id: self.ids.id(id),
                    kind: "function".into(),
                    function: FunctionCall { name: self.names.wire(tool), arguments },
                    extra: Extra::new(),
                });
            }
        }
        if text.is_empty() && written.tool_calls.is_empty() {
            return None;
        }
        let has_content =
            !text.is_empty() || self.prompt.options.wordless_content == WordlessContent::EmptyText;
        written.content = has_content.then_some(Content::Text(text));
        self.add_thoughts(message, &mut written);
        Some(written)
    }

    fn add_thoughts(&self, message: &WindowMessage, written: &mut ChatMessage) {
        let mut details: Vec<Value> = Vec::new();
        let mut unsigned = String::new();
        for block in &message.blocks {
            let Block::Reasoning { text, metadata, .. } = block else { continue };
            let own = self.prompt.own_metadata(metadata);
            match own.and_then(|own| own.get("reasoning_details")?.as_array()) {
                Some(signed) => details.extend(signed.iter().cloned()),
                None => unsigned.push_str(text),
            }
        }
        if !details.is_empty() {
            written.extra.insert("reasoning_details".into(), details.into());
        } else if let Some(field) =
            self.prompt.options.thinking_field.as_ref().filter(|_| !unsigned.is_empty())
        {
            written.extra.insert(field.clone(), unsigned.into());
        }
    }

    /// Results are texts in this format. Images that came with them follow all results in a user message.
    fn results(&mut self, message: &WindowMessage, messages: &mut Vec<ChatMessage>) {
        let mut files = Vec::new();
        for block in &message.blocks {
            if let Block::Result { id, text, files: came, .. } = block {
                let content = Content::Text(text.as_str().to_owned());
                let tool_call_id = Some(self.ids.id(id));
                messages.push(ChatMessage { tool_call_id, ..chat_message("tool", content) });
                files.extend(Attachment::all(came).map(|each| file(&each)));
            }
        }
        if !files.is_empty() {
            messages.push(chat_message("user", Content::Parts(files)));
        }
    }
}
