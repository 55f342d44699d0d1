//! Builds a Responses request from a window.
//!
//! The whole conversation is sent and not stored by the provider (`store: false`). Reasoning is therefore requested and
//! sent back encrypted; the API only accepts it together with the item that followed it.

use plimsoll::window::{Attachment, object_input};
use plimsoll::{Block, Text, WindowMessage, WindowRole};
use serde_json::{Value, json};

use super::wire::{Content, ContentPart, Item, Output, Reasoning, ResponsesRequest, SummaryPart, Tool};
use crate::Extra;
use crate::names::{IdMap, ToolNames};
use crate::prompt::{
    BuildError, Prompt, Thinking, ToolChoice, ToolSpec, is_openai_reasoning, object_schema, overlay,
};

const ID_LIMIT: usize = 64;
const ENCRYPTED: &str = "reasoning.encrypted_content";
/// Models that do not think reject a request for encrypted reasoning.
const WITHOUT_THOUGHTS: [&str; 4] = ["gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat"];

pub(crate) fn build(prompt: &Prompt<'_>, names: &mut ToolNames) -> Result<ResponsesRequest, BuildError> {
    let options = prompt.options;
    let tools: Vec<Tool> = prompt.tools.iter().map(|tool| declare(tool, names)).collect();
    let tool_choice = tool_choice(&options.tool_choice, names).filter(|_| !tools.is_empty());
    let mut builder = Builder { prompt, ids: IdMap::new(prompt.id_rule(ID_LIMIT)), names };
    let input: Vec<Item> =
        prompt.window.messages.iter().flat_map(|message| builder.message(message)).collect();
    if input.is_empty() {
        return Err(BuildError::Empty);
    }
    let system: Vec<&str> =
        prompt.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    let model = prompt.model.rsplit('/').next().unwrap_or(prompt.model);
    let thinks = !WITHOUT_THOUGHTS.iter().any(|name| model.starts_with(name));
    let request = ResponsesRequest {
        model: prompt.model.to_owned(),
        instructions: (!system.is_empty()).then(|| system.join("\n\n")),
        input,
        tools,
        tool_choice,
        max_output_tokens: options.max_tokens,
        reasoning: match &options.thinking {
            Thinking::Effort(effort) => Some(Reasoning {
                effort: Some(effort.clone()),
                summary: Some("auto".into()),
                extra: Extra::new(),
            }),
            _ => None,
        },
        include: if thinks { vec![ENCRYPTED.into()] } else { Vec::new() },
        store: Some(false),
        temperature: options.temperature.filter(|_| !is_openai_reasoning(prompt.model)),
        prompt_cache_key: options.cache_key.clone(),
        stream: Some(true),
        extra: Extra::new(),
    };
    overlay(request, &options.extra)
}

fn declare(tool: &ToolSpec, names: &mut ToolNames) -> Tool {
    Tool {
        kind: "function".into(),
        name: Some(names.wire(&tool.name)),
        description: (!tool.description.is_empty()).then(|| tool.description.clone()),
        parameters: Some(object_schema(&tool.schema)),
        strict: Some(false),
        extra: Extra::new(),
    }
}

fn tool_choice(choice: &ToolChoice, names: &mut ToolNames) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Named(name) => Some(json!({ "type": "function", "name": names.wire(name) })),
    }
}

struct Builder<'a> {
    prompt: &'a Prompt<'a>,
    ids: IdMap,
    names: &'a mut ToolNames,
}

impl Builder<'_> {
    fn message(&mut self, message: &WindowMessage) -> Vec<Item> {
        let mut items: Vec<Item> = match message.role {
            WindowRole::System => message_item("developer", input_parts(message)).into_iter().collect(),
            WindowRole::User => message_item("user", input_parts(message)).into_iter().collect(),
            WindowRole::Assistant | WindowRole::Tool => {
                message.blocks.iter().filter_map(|block| self.item(block)).collect()
            }
        };
        // Without the item that followed it, the API rejects the reasoning.
        while items.last().is_some_and(|item| matches!(item, Item::Reasoning { .. })) {
            items.pop();
        }
        items
    }

    fn item(&mut self, block: &Block) -> Option<Item> {
        match block {
            // A list of parts would need the id and the status of an item that the provider stores.
            Block::Text { text, .. } => Some(Item::Message {
                role: "assistant".into(),
                content: Content::Text(text.as_str().to_owned()),
                id: None,
                extra: Extra::new(),
            }),
            Block::Reasoning { text, metadata, .. } => self.thought(text, metadata),
            Block::Call { id, tool, input, .. } => Some(Item::FunctionCall {
                call_id: self.ids.id(id),
                name: self.names.wire(tool),
                arguments: object_input(input.value()).to_string(),
                id: None,
                extra: Extra::new(),
            }),
            Block::Result { id, text, files, .. } => {
                let text = text.as_str().to_owned();
                let output = if files.is_empty() {
                    Output::Text(text)
                } else {
                    let files = Attachment::all(files).map(|each| file(&each));
                    Output::Parts(std::iter::once(ContentPart::InputText { text }).chain(files).collect())
                };
                Some(Item::FunctionCallOutput { call_id: self.ids.id(id), output, extra: Extra::new() })
            }
            Block::Provider { value, .. } => self.prompt.own_block(value.value()).cloned().map(Item::Other),
            Block::File { .. } => None,
        }
    }

    /// Without its encrypted content, reasoning would be looked up at the provider, which does not store it.
    fn thought(&self, text: &Text, metadata: &Option<Value>) -> Option<Item> {
        let own = self.prompt.own_metadata(metadata)?;
        let string = |key: &str| own.get(key).and_then(Value::as_str).map(str::to_owned);
        let shown = (!text.is_empty())
            .then(|| SummaryPart { kind: "summary_text".into(), text: text.as_str().to_owned() });
        Some(Item::Reasoning {
            encrypted_content: Some(string("reasoningEncryptedContent")?),
            id: string("itemId"),
            summary: shown.into_iter().collect(),
            extra: Extra::new(),
        })
    }
}

/// Returns a message, or `None` without content, which is rejected.
fn message_item(role: &str, parts: Vec<ContentPart>) -> Option<Item> {
    (!parts.is_empty()).then(|| Item::Message {
        role: role.to_owned(),
        content: Content::Parts(parts),
        id: None,
        extra: Extra::new(),
    })
}

fn input_parts(message: &WindowMessage) -> Vec<ContentPart> {
    let part = |block: &Block| match block {
        Block::Text { text, .. } => Some(ContentPart::InputText { text: text.as_str().to_owned() }),
        Block::File { mime, filename, url, .. } => Some(file(&Attachment::new(mime, filename, url))),
        _ => None,
    };
    message.blocks.iter().filter_map(part).collect()
}

fn file(file: &Attachment<'_>) -> ContentPart {
    let Some(url) = file.url.filter(|_| file.data().is_some() || file.is_web()) else {
        return ContentPart::InputText { text: file.mention() };
    };
    if file.is_image() {
        return ContentPart::InputImage { image_url: url.to_owned(), detail: Some("auto".into()) };
    }
    if !file.is_pdf() {
        return ContentPart::InputText { text: file.mention() };
    }
    match file.data() {
        // An inline file needs a name.
        Some(_) => ContentPart::InputFile {
            filename: Some(file.name.unwrap_or("document.pdf").to_owned()),
            file_data: Some(url.to_owned()),
            file_url: None,
        },
        None => ContentPart::InputFile { filename: None, file_data: None, file_url: Some(url.to_owned()) },
    }
}
