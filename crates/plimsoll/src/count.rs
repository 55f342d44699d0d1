//! Token counts of parts, messages, windows and requests.

use serde::{Deserialize, Serialize};

use crate::counter::Counter;
use crate::log::{Message, Part, PartBody};
use crate::tokens::Tokens;
use crate::window::{Block, PROVIDER_BLOCK, Window, WindowMessage};

/// Counts a part of the log without its marks: text, reasoning, a tool's input and output; other kinds are free.
pub fn part_tokens(part: &Part, counter: &dyn Counter) -> Tokens {
    match &part.body {
        PartBody::Text(text) => counter.count_text(&text.text),
        PartBody::Reasoning(reasoning) => counter.count_text(&reasoning.text),
        PartBody::Tool(tool) => {
            let input = tool.state.input.as_ref().map(|input| counter.count_text(input.json()));
            let result = tool.state.result().map(|text| counter.count_text(text));
            input.unwrap_or_default() + result.unwrap_or_default()
        }
        PartBody::ToolCall(call) => {
            call.input.as_ref().map(|input| counter.count_text(input.json())).unwrap_or_default()
        }
        PartBody::ToolResult(result) => counter.count_text(&result.text),
        PartBody::Compaction(marker) => {
            marker.summary.as_ref().map(|text| counter.count_text(text)).unwrap_or_default()
        }
        PartBody::Other(kind) if kind == PROVIDER_BLOCK => {
            part.extra.get("block").map(|block| counter.count(&block.to_string())).unwrap_or_default()
        }
        PartBody::File(_) | PartBody::Other(_) | PartBody::Bare(_) => Tokens::ZERO,
    }
}

/// Counts a message of the log without its marks: its parts and the overhead of a message.
pub fn message_tokens(message: &Message, counter: &dyn Counter) -> Tokens {
    let parts: Tokens = message.parts.iter().map(|part| part_tokens(part, counter)).sum();
    parts + counter.message_overhead()
}

/// Counts a block of the window.
pub fn block_tokens(block: &Block, counter: &dyn Counter) -> Tokens {
    match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => counter.count_text(text),
        Block::Call { tool, input, .. } => counter.count(tool) + counter.count_text(input.json()),
        Block::Result { text, files, .. } => {
            counter.count_text(text) + files.iter().map(|_| counter.file_tokens()).sum()
        }
        Block::Provider { value, .. } => counter.count_text(value.json()),
        Block::File { .. } => counter.file_tokens(),
    }
}

/// Counts a message of the window.
pub fn window_message_tokens(message: &WindowMessage, counter: &dyn Counter) -> Tokens {
    let blocks: Tokens = message.blocks.iter().map(|block| block_tokens(block, counter)).sum();
    let results = message.blocks.iter().filter(|block| matches!(block, Block::Result { .. })).skip(1);
    blocks + counter.message_overhead() + results.map(|_| counter.result_overhead()).sum()
}

/// Tokens of every request in addition to the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestOverhead {
    /// The system prompt.
    pub system: Tokens,
    /// The schemas of the tools.
    pub tools: Tokens,
}

impl RequestOverhead {
    /// Counts a system prompt and the tools' names, descriptions and schemas.
    pub fn count<'a>(
        system: &str,
        tools: impl IntoIterator<Item = &'a str>,
        counter: &dyn Counter,
    ) -> RequestOverhead {
        RequestOverhead {
            system: counter.count(system),
            tools: tools.into_iter().map(|t| counter.count(t)).sum(),
        }
    }

    /// Returns the sum.
    pub fn total(self) -> Tokens {
        self.system + self.tools
    }
}

/// Counts a whole request: the window and the overhead.
pub fn request_tokens(window: &Window, fixed: RequestOverhead, counter: &dyn Counter) -> Tokens {
    let messages: Tokens = window.messages.iter().map(|m| window_message_tokens(m, counter)).sum();
    fixed.total() + messages
}
