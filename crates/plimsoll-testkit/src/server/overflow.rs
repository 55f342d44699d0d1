//! Context overflow errors of each provider.

use plimsoll_providers::Wire;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A provider's format of the context overflow error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are those of providers and servers")]
pub enum OverflowShape {
    Anthropic,
    /// Input and answer together.
    AnthropicSum,
    /// The body is too large in bytes.
    AnthropicSize,
    Bedrock,
    OpenAi,
    Responses,
    Azure,
    DeepSeek,
    OpenRouter,
    Gemini,
    Mistral,
    Groq,
    Xai,
    Vllm,
    /// An older vLLM.
    VllmLength,
    Tgi,
    Ollama,
    LlamaCpp,
    LlamaCppPython,
    LmStudio,
}

impl OverflowShape {
    /// All formats.
    pub const ALL: [OverflowShape; 20] = [
        OverflowShape::Anthropic,
        OverflowShape::AnthropicSum,
        OverflowShape::AnthropicSize,
        OverflowShape::Bedrock,
        OverflowShape::OpenAi,
        OverflowShape::Responses,
        OverflowShape::Azure,
        OverflowShape::DeepSeek,
        OverflowShape::OpenRouter,
        OverflowShape::Gemini,
        OverflowShape::Mistral,
        OverflowShape::Groq,
        OverflowShape::Xai,
        OverflowShape::Vllm,
        OverflowShape::VllmLength,
        OverflowShape::Tgi,
        OverflowShape::Ollama,
        OverflowShape::LlamaCpp,
        OverflowShape::LlamaCppPython,
        OverflowShape::LmStudio,
    ];

    /// The format of the provider that a wire format comes from.
    pub fn of_wire(wire: Wire) -> OverflowShape {
        match wire {
            Wire::Anthropic => OverflowShape::Anthropic,
            Wire::Chat => OverflowShape::OpenAi,
            Wire::Responses => OverflowShape::Responses,
        }
    }

    /// Whether the error contains the size of the window.
    pub fn has_window(self) -> bool {
        !matches!(
            self,
            OverflowShape::AnthropicSize
                | OverflowShape::Bedrock
                | OverflowShape::Responses
                | OverflowShape::Groq
                | OverflowShape::Ollama
        )
    }

    /// Returns status and body of the error for a request of `asked` tokens with a window of `window`.
    pub fn answer(self, asked: u64, window: u64) -> (u16, Value) {
        let anthropic = |kind: &str, message: String| json!({ "type": "error", "error": { "type": kind, "message": message } });
        let openai = |message: String, code: Value| json!({ "error": { "message": message, "type": "invalid_request_error", "param": "messages", "code": code } });
        let code = json!("context_length_exceeded");
        let body = match self {
            OverflowShape::Anthropic => anthropic(
                "invalid_request_error",
                format!("prompt is too long: {asked} tokens > {window} maximum"),
            ),
            OverflowShape::AnthropicSum => anthropic(
                "invalid_request_error",
                format!(
                    "input length and `max_tokens` exceed context limit: {asked} + 4096 > {window}, decrease input length or `max_tokens` and try again"
                ),
            ),
            OverflowShape::AnthropicSize => {
                return (413, anthropic("request_too_large", "Request exceeds the maximum size".into()));
            }
            OverflowShape::Bedrock => json!({ "message": "Input is too long for requested model." }),
            OverflowShape::OpenAi => openai(
                format!(
                    "This model's maximum context length is {window} tokens. However, your messages resulted in {asked} tokens. Please reduce the length of the messages."
                ),
                code,
            ),
            OverflowShape::Responses => openai(
                "Your input exceeds the context window of this model. Please adjust your input and try again.".into(),
                code,
            ),
            OverflowShape::Azure | OverflowShape::LlamaCppPython => openai(
                format!(
                    "This model's maximum context length is {window} tokens, however you requested {asked} tokens ({asked} in your prompt; 0 for the completion). Please reduce your prompt; or completion length."
                ),
                code,
            ),
            OverflowShape::DeepSeek => openai(
                format!(
                    "This model's maximum context length is {window} tokens. However, you requested {asked} tokens ({asked} in the messages, 0 in the completion)."
                ),
                json!("invalid_request_error"),
            ),
            OverflowShape::OpenRouter => json!({ "error": { "code": 400, "message": format!(
                "This endpoint's maximum context length is {window} tokens. However, you requested about {asked} tokens ({asked} of text input)."
            ) } }),
            OverflowShape::Gemini => json!([{ "error": { "code": 400, "status": "INVALID_ARGUMENT", "message": format!(
                "The input token count ({asked}) exceeds the maximum number of tokens allowed ({window})."
            ) } }]),
            OverflowShape::Mistral => json!({ "object": "error", "type": "invalid_request_prompt", "code": "3051", "message": format!(
                "Prompt contains {asked} tokens and 0 draft tokens, too large for model with {window} maximum context length"
            ) }),
            OverflowShape::Groq => openai("Please reduce the length of the messages or completion.".into(), code),
            OverflowShape::Xai => json!({ "code": "invalid-argument", "error": format!(
                "This model's maximum prompt length is {window} but the request contains {asked} tokens."
            ) }),
            OverflowShape::Vllm => json!({ "object": "error", "type": "BadRequestError", "code": 400, "message": format!(
                "This model's maximum context length is {window} tokens. However, you requested {asked} tokens ({asked} in the messages, 0 in the completion). Please reduce the length of the messages or completion."
            ) }),
            OverflowShape::VllmLength => json!({ "error": { "code": 400, "message": format!(
                "The decoder prompt (length {asked}) is longer than the maximum model length of {window}. Make sure that `max_model_len` is no smaller than the number of text tokens."
            ) } }),
            OverflowShape::Tgi => {
                let message = format!(
                    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {window}. Given: {asked} `inputs` tokens and 0 `max_new_tokens`"
                );
                return (422, json!({ "error": message, "error_type": "validation" }));
            }
            OverflowShape::Ollama => {
                let over = asked.saturating_sub(window);
                json!({ "error": format!("prompt too long; exceeded max context length by {over} tokens") })
            }
            OverflowShape::LlamaCpp => json!({ "error": {
                "code": 400,
                "message": format!(
                    "request ({asked} tokens) exceeds the available context size ({window} tokens), try increasing it"
                ),
                "type": "exceed_context_size_error",
                "n_prompt_tokens": asked,
                "n_ctx": window,
            } }),
            OverflowShape::LmStudio => json!({ "error": format!(
                "Trying to keep the first {asked} tokens when context the overflows. However, the model is loaded with context length of only {window} tokens, which is not enough. The number of tokens to keep from the initial prompt is greater than the context length."
            ) }),
        };
        (400, body)
    }
}
