//! Classification of errors by what can be done about them.

use std::time::Duration;

use plimsoll_providers::{
    Decoder, Endpoint, EndpointError, ProviderError, RetryPolicy, Secret, StreamFault, TimeoutKind, Wire,
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::{Answer, Server};

/// Returns the client's error for a response with that status and body.
async fn judge(status: u16, body: &str) -> ProviderError {
    let server = Server::start(vec![Answer::status(status, body)]).await;
    let request = crate::server::request(Wire::Chat);
    let client = server.client(Wire::Chat, RetryPolicy::never());
    client.stream(&request, |_| {}).await.expect_err("an error")
}

fn openai(message: &str) -> Value {
    json!({ "error": { "message": message, "type": "invalid_request_error", "code": null } })
}

fn anthropic(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

#[rstest]
#[case::anthropic(
    400,
    anthropic("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
    Some(200_000),
    Some(213_462)
)]
#[case::anthropic_sum(
    400,
    anthropic(
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"
    ),
    Some(200_000),
    Some(188_240)
)]
#[case::anthropic_413(413, anthropic("request_too_large", "Request exceeds the maximum size"), None, None)]
#[case::vertex(400, json!({ "error": { "code": 400, "message": "Prompt is too long", "status": "INVALID_ARGUMENT" } }), None, None)]
#[case::bedrock(400, json!({ "message": "Input is too long for requested model." }), None, None)]
#[case::openai(400, json!({ "error": { "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 130245 tokens. Please reduce the length of the messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded" } }), Some(128_000), Some(130_245))]
#[case::openai_code_only(400, json!({ "error": { "message": "Nope", "code": "context_length_exceeded" } }), None, None)]
#[case::responses(400, json!({ "error": { "message": "Your input exceeds the context window of this model. Please adjust your input and try again.", "code": "context_length_exceeded" } }), None, None)]
#[case::openai_string(400, json!({ "error": { "message": "Invalid 'input[0].content': string too long. Expected a string with maximum length 10485760, but got a string with length 12000000 instead.", "code": "string_above_max_length" } }), None, None)]
#[case::azure(
    400,
    openai(
        "This model's maximum context length is 8192 tokens, however you requested 9000 tokens (8000 in your prompt; 1000 for the completion). Please reduce your prompt; or completion length."
    ),
    Some(8_192),
    Some(9_000)
)]
#[case::deepseek(
    400,
    openai(
        "This model's maximum context length is 65536 tokens. However, you requested 70001 tokens (69001 in the messages, 1000 in the completion)."
    ),
    Some(65_536),
    Some(70_001)
)]
#[case::gemini(400, json!([{ "error": { "code": 400, "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT" } }]), Some(1_048_576), Some(1_200_000))]
#[case::mistral(400, json!({ "object": "error", "message": "Prompt contains 33000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", "type": "invalid_request_prompt", "code": "3051" }), Some(32_768), Some(33_000))]
#[case::groq(400, json!({ "error": { "message": "Please reduce the length of the messages or completion.", "type": "invalid_request_error", "code": "context_length_exceeded" } }), None, None)]
#[case::cerebras(
    400,
    openai(
        "Please reduce the length of the messages or completion. Current length is 9001 while limit is 8192"
    ),
    Some(8_192),
    Some(9_001)
)]
#[case::cerebras_no_body(413, json!(null), None, None)]
#[case::openrouter(
    400,
    openai(
        "This endpoint's maximum context length is 200000 tokens. However, you requested about 215000 tokens (200000 of text input, 15000 in the output)."
    ),
    Some(200_000),
    Some(215_000)
)]
#[case::openrouter_wrapped(400, json!({ "error": { "message": "Provider returned error", "code": 400, "metadata": { "raw": "{\"error\":{\"message\":\"prompt is too long: 213462 tokens > 200000 maximum\"}}" } } }), Some(200_000), Some(213_462))]
#[case::xai(400, json!({ "code": "invalid-argument", "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens." }), Some(131_072), Some(537_812))]
#[case::copilot(
    400,
    openai("prompt token count of 130245 exceeds the limit of 128000"),
    Some(128_000),
    Some(130_245)
)]
#[case::kimi(
    400,
    openai("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"),
    Some(262_144),
    Some(300_000)
)]
#[case::minimax(400, openai("invalid params, context window exceeds limit (2013)"), None, None)]
#[case::zai(400, json!({ "error": { "code": "1261", "message": "Prompt exceeds max length" } }), None, None)]
#[case::dashscope(
    400,
    openai("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"),
    Some(129_024),
    None
)]
#[case::vllm(400, json!({ "object": "error", "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4900 in the messages, 100 in the completion). Please reduce the length of the messages or completion.", "type": "BadRequestError", "code": 400 }), Some(4_096), Some(5_000))]
#[case::vllm_length(400, json!({ "error": { "message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller.", "code": 400 } }), Some(4_096), Some(5_000))]
#[case::tgi(422, json!({ "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`", "error_type": "validation" }), Some(4_096), Some(5_000))]
#[case::ollama(400, json!({ "error": "prompt too long; exceeded max context length by 123 tokens" }), None, None)]
#[case::llama_cpp(400, json!({ "error": { "code": 400, "message": "request (9001 tokens) exceeds the available context size (8192 tokens), try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 9001, "n_ctx": 8192 } }), Some(8_192), Some(9_001))]
#[case::llama_cpp_words(500, json!({ "error": { "message": "the request exceeds the available context size (8192 tokens)" } }), Some(8_192), None)]
#[case::llama_cpp_python(400, json!({ "error": { "message": "This model's maximum context length is 8192 tokens, however you requested 9000 tokens (8000 in your prompt; 1000 for the completion). Please reduce your prompt; or completion length.", "type": "invalid_request_error", "code": "context_length_exceeded" } }), Some(8_192), Some(9_000))]
#[case::llama_cpp_python_raw(
    500,
    openai("Requested tokens (9001) exceed context window of 8192"),
    Some(8_192),
    Some(9_001)
)]
#[case::lm_studio(400, json!({ "error": "Trying to keep the first 9001 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. The number of tokens to keep from the initial prompt is greater than the context length." }), Some(4_096), None)]
#[case::github(413, json!({ "error": { "code": "tokens_limit_reached", "message": "Request body too large for gpt-4o model. Max size: 8000 tokens." } }), Some(8_000), None)]
#[case::thousands(400, openai("This model's maximum context length is 128,000 tokens."), Some(128_000), None)]
#[case::plain_text(400, json!("prompt is too long: 9 tokens > 8 maximum"), None, Some(9))]
#[tokio::test]
async fn an_overflow_is_recognised_and_the_window_learned(
    #[case] status: u16,
    #[case] body: Value,
    #[case] expected_window: Option<u64>,
    #[case] expected_asked: Option<u64>,
) {
    let body = match body {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    let error = judge(status, &body).await;
    let ProviderError::Overflow { window, asked, .. } = &error else { panic!("{error:?}") };
    assert_eq!((window.map(|t| t.0), asked.map(|t| t.0)), (expected_window, expected_asked), "{error}");
    assert!(!error.is_transient());
}

#[rstest]
#[case::rate_tokens(429, json!({ "error": { "message": "Rate limit reached for gpt-4 in organization org on tokens per min (TPM): Limit 10000, Used 9000, Requested 5000.", "type": "tokens", "code": "rate_limit_exceeded" } }), "RateLimitError", true)]
#[case::request_above_rate(429, json!({ "error": { "message": "Request too large for gpt-4 in organization org on tokens per min (TPM): Limit 10000, Requested 12000. The input or output tokens must be reduced in order to run successfully.", "type": "tokens", "code": "rate_limit_exceeded" } }), "RateLimitError", false)]
#[case::groq_413(413, json!({ "error": { "message": "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.", "type": "tokens", "code": "rate_limit_exceeded" } }), "RateLimitError", false)]
#[case::anthropic_rate(
    429,
    anthropic(
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute. Please reduce the prompt length."
    ),
    "RateLimitError",
    true
)]
#[case::bedrock_throttle(400, json!({ "__type": "ThrottlingException", "message": "Too many tokens, please wait before trying again." }), "RateLimitError", true)]
#[case::gemini_quota(429, json!([{ "error": { "code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED" } }]), "RateLimitError", true)]
#[case::no_credit(429, json!({ "error": { "message": "You exceeded your current quota, please check your plan and billing details.", "type": "insufficient_quota", "code": "insufficient_quota" } }), "QuotaError", false)]
#[case::anthropic_credit(
    400,
    anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "QuotaError",
    false
)]
#[case::deepseek_balance(402, openai("Insufficient Balance"), "QuotaError", false)]
#[case::answer_too_long(
    400,
    openai(
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000."
    ),
    "BadRequestError",
    false
)]
#[case::vllm_answer_too_long(
    400,
    openai(
        "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is 8192 tokens and your request has 100 input tokens (9000 > 8192 - 100)."
    ),
    "BadRequestError",
    false
)]
#[case::anthropic_answer_too_long(
    400,
    anthropic(
        "invalid_request_error",
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5"
    ),
    "BadRequestError",
    false
)]
#[case::image_too_large(
    400,
    anthropic(
        "invalid_request_error",
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"
    ),
    "BadRequestError",
    false
)]
#[case::image_too_large_413(413, openai("image exceeds the maximum size"), "BadRequestError", false)]
#[case::pdf_pages(
    400,
    anthropic(
        "invalid_request_error",
        "messages.0.content.0.pdf.source.base64.data: A maximum of 100 PDF pages may be provided."
    ),
    "BadRequestError",
    false
)]
#[case::bad_schema(400, openai("Invalid schema for function 'x'"), "BadRequestError", false)]
#[case::no_model(404, anthropic("not_found_error", "model: nope"), "BadRequestError", false)]
#[case::auth(401, openai("Incorrect API key provided"), "ProviderAuthError", false)]
#[case::forbidden(403, anthropic("permission_error", "no"), "ProviderAuthError", false)]
#[case::gemini_key(400, json!([{ "error": { "code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT" } }]), "ProviderAuthError", false)]
#[case::overloaded(529, anthropic("overloaded_error", "Overloaded"), "OverloadedError", true)]
#[case::unavailable(503, json!("upstream connect error"), "OverloadedError", true)]
#[case::server(500, anthropic("api_error", "Internal server error"), "APIError", true)]
#[case::bad_gateway(502, json!("<html><body>Bad gateway</body></html>"), "APIError", true)]
#[tokio::test]
async fn other_errors_are_not_overflows(
    #[case] status: u16,
    #[case] body: Value,
    #[case] name: &str,
    #[case] transient: bool,
) {
    let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    let error = judge(status, &body).await;
    assert_eq!((error.name(), error.is_transient()), (name, transient), "{error:?}");
    assert!(!error.to_string().contains("<html>"));
}

#[tokio::test]
async fn errors_and_debug_output_contain_no_keys() {
    let key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH";
    let body =
        openai(&format!("Incorrect API key provided: {key}. You gave hunter2hunter2 too.")).to_string();
    let server = Server::start(vec![Answer::status(401, &body)]).await;
    let mut endpoint = Endpoint::new(Wire::Chat, &server.url(), Some(Secret::new(key))).unwrap();
    endpoint.headers.push(("x-gateway".into(), Secret::new("hunter2hunter2")));
    assert!(!format!("{endpoint:?}").contains("hunter2") && !format!("{endpoint:?}").contains(key));
    let client = server.client_of(endpoint, RetryPolicy::never());
    assert!(!format!("{client:?}").contains("hunter2") && !format!("{client:?}").contains(key));
    let error = client.stream(&crate::server::request(Wire::Chat), |_| {}).await.expect_err("an error");
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("Incorrect API key provided") && !shown.contains("hunter2"), "{shown}");
    assert!(!shown.contains(key) && !shown.contains("abcdefghijklm"), "{shown}");
    // The keys are sent, though.
    let sent = server.requests().await.remove(0).to_ascii_lowercase();
    assert!(sent.contains(&format!("authorization: bearer {}", key.to_ascii_lowercase())));
    assert!(sent.contains("x-gateway: hunter2hunter2"));
}

#[test]
fn a_password_in_an_address_is_not_shown() {
    let endpoint = Endpoint::new(Wire::Chat, "https://me:correct-horse-battery@gw.example/v1", None).unwrap();
    assert!(!format!("{endpoint:?}").contains("correct-horse"), "{endpoint:?}");
}

#[tokio::test]
async fn an_invalid_url_is_not_retried() {
    let endpoint = Endpoint::new(Wire::Chat, "http://exa mple:99999/v1", None).unwrap();
    let client = plimsoll_providers::Client::new(endpoint, Default::default()).unwrap();
    let error = client.stream(&crate::server::request(Wire::Chat), |_| {}).await.expect_err("an error");
    assert!(matches!(error, ProviderError::BadRequest { status: None, .. }), "{error:?}");
}

#[test]
fn a_key_in_place_of_a_url_is_not_repeated_in_the_error() {
    let key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH";
    let error = Endpoint::new(Wire::Chat, key, None).unwrap_err();
    assert!(matches!(&error, EndpointError::NotAUrl(_)) && !error.to_string().contains("abcdef"), "{error}");
}

#[test]
fn waits_double_up_to_a_maximum_and_follow_the_provider() {
    let policy = RetryPolicy::default();
    let server = ProviderError::Server { status: Some(500), retry_after: None, message: String::new() };
    let seconds = |wait: Option<Duration>| wait.map(|wait| wait.as_secs_f64());
    assert_eq!(seconds(policy.wait(&server, 0, 1.0)), Some(2.0));
    assert_eq!(seconds(policy.wait(&server, 0, 0.0)), Some(1.5));
    assert_eq!(seconds(policy.wait(&server, 4, 1.0)), Some(30.0));
    assert_eq!(policy.wait(&server, 5, 1.0), None);
    let asks = |seconds| ProviderError::RateLimited {
        retry_after: Some(Duration::from_secs(seconds)),
        request_too_large: false,
        message: String::new(),
    };
    let wait = seconds(policy.wait(&asks(40), 0, 0.0)).unwrap();
    assert!((40.0..=44.0).contains(&wait));
    assert_eq!(policy.wait(&asks(3_600), 0, 0.0), None);
    let all = RetryPolicy { retries: u32::MAX, ..policy };
    assert_eq!(seconds(all.wait(&server, u32::MAX - 1, 1.0)), Some(30.0));
    let total = ProviderError::Timeout { kind: TimeoutKind::Total, after: Duration::from_secs(1) };
    assert_eq!(policy.wait(&total, 0, 0.0), None);
    let large = ProviderError::Stream(StreamFault::EventTooLarge { limit: 1 });
    assert_eq!(policy.wait(&large, 0, 0.0), None);
}

#[test]
fn a_truncated_stream_is_reported_as_truncated() {
    let mut decoder = Decoder::new(&crate::server::request(Wire::Anthropic));
    let error = decoder.finish().remove(0).unwrap_err();
    assert_eq!(error.to_string(), "broken stream: ended after 0 events without the closing event");
}

#[rstest]
#[case::anthropic(
    400,
    anthropic("invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block")
)]
#[case::copilot(400, json!({ "error": { "message": "messages.1.content.0: Invalid signature in thinking block", "code": "invalid_request_body" } }))]
#[case::anthropic_hidden(
    400,
    anthropic("invalid_request_error", "messages.3.content.0: Invalid `data` in `redacted_thinking` block")
)]
#[case::anthropic_changed(
    400,
    anthropic(
        "invalid_request_error",
        "messages.5.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response."
    )
)]
#[case::responses(400, json!({ "error": { "message": "The encrypted content gAAA...c90= could not be verified.", "type": "invalid_request_error", "param": null, "code": "invalid_encrypted_content" } }))]
#[case::gemini(400, json!({ "error": { "code": 400, "message": "Corrupted thought signature.", "status": "INVALID_ARGUMENT" } }))]
#[case::vertex(400, json!({ "error": { "message": "Unable to submit request because Thought signature is not valid.." } }))]
#[tokio::test]
async fn refused_thoughts_are_recognised(#[case] status: u16, #[case] body: Value) {
    let error = judge(status, &body.to_string()).await;
    assert!(matches!(error, ProviderError::Thoughts { .. }), "{error:?}");
    assert!(!error.is_transient());
}

#[rstest]
#[case::must_begin(anthropic(
    "invalid_request_error",
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block."
))]
#[case::budget(anthropic(
    "invalid_request_error",
    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
))]
#[case::missing(openai("Function call is missing a thought_signature in functionCall parts."))]
#[tokio::test]
async fn other_errors_about_reasoning_are_not_rejections_of_it(#[case] body: Value) {
    let error = judge(400, &body.to_string()).await;
    assert!(matches!(error, ProviderError::BadRequest { .. }), "{error:?}");
}
