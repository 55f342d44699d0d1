//! Recognises a context overflow, and learns the window from the provider's message.
//!
//! There is no common code for it: some providers send 413, some a code, most only a sentence. The sentences are taken
//! from real responses. Each has a row in the tests, next to similar sentences that mean something else.

use plimsoll::Tokens;

use super::Failure;

/// Error codes of an overflow.
const CODES: [&str; 5] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "string_above_max_length",
    "tokens_limit_reached",
];

/// Sentences of an overflow. The fragments of a row must occur in this order.
const SENTENCES: [&[&str]; 27] = [
    &["prompt is too long"],                       // Anthropic, Vertex, Fireworks
    &["input length and", "exceed context limit"], // Anthropic, input and answer together
    &["input is too long"],                        // Bedrock
    &["input tokens exceeded"],                    // Bedrock
    &["exceeds the context window"],               // OpenAI Responses
    &["maximum context length"],                   // OpenAI, Azure, DeepSeek, OpenRouter, vLLM, Mistral
    &["max context length"],                       // Ollama
    &["maximum prompt length is"],                 // xAI
    &["reduce the length of the messages"],        // OpenAI, Groq, Cerebras
    &["reduce the length of your prompt"],         // gateways
    &["input token count", "exceeds the maximum number of tokens"], // Gemini
    &["prompt token count", "exceeds the limit"],  // Copilot
    &["exceeds the available context size"],       // llama.cpp
    &["exceed context window"],                    // llama-cpp-python
    &["exceeded context window"],                  // llama-cpp-python
    &["greater than the context length"],          // LM Studio
    &["exceeds the model's context"],              // LM Studio, gateways
    &["context window exceeds limit"],             // MiniMax
    &["exceeded model token limit"],               // Kimi
    &["longer than the maximum model length"],     // vLLM
    &["`inputs` tokens", "must be <="],            // TGI, Together
    &["prompt exceeds max length"],                // Z.ai
    &["range of input length should be"],          // DashScope
    &["too many tokens"],                          // Cohere
    &["context length exceeded"],                  // gateways
    &["string too long. expected a string with maximum length"], // OpenAI
    &["request body too large", "tokens"],         // GitHub Models
];

/// Sentences that contain the text of an overflow, but mean that the requested output is too long.
const ANSWER_TOO_LONG: [&[&str]; 3] = [
    &["max_tokens", "is too large"],
    &["max_completion_tokens", "is too large"],
    &["maximum allowed number of output tokens"],
];

/// Phrases that precede the number of the window.
const BEFORE_WINDOW: [&str; 19] = [
    "maximum context length is",
    "maximum context length of",
    "maximum context length:",
    "maximum prompt length is",
    "available context size (",
    "maximum number of tokens allowed (",
    "exceeds the limit of",
    "model token limit:",
    "maximum model length of",
    "must be <=",
    "while limit is",
    "max size:",
    "length should be [1,",
    "context window of",
    "context length of only",
    "context length (",
    "prompt cannot exceed",
    "tokens >",
    "too large for model with",
];

/// Phrases that precede the number of requested tokens.
const BEFORE_ASKED: [&str; 16] = [
    "prompt is too long:",
    "exceed context limit:",
    "you requested about",
    "you requested",
    "resulted in",
    "request contains",
    "your request has",
    "prompt contains",
    "token count (",
    "token count of",
    "requested:",
    "(length",
    "current length is",
    "given:",
    "request (",
    "requested tokens (",
];

/// Returns the window and the size of the request if this is an overflow.
pub(crate) fn recognise(failure: &Failure) -> Option<(Option<Tokens>, Option<Tokens>)> {
    let words = failure.message.to_ascii_lowercase();
    let by_code = failure.codes.iter().any(|code| CODES.contains(&code.as_str()));
    let said = SENTENCES.iter().any(|sentence| follows(&words, sentence));
    let is_answer = ANSWER_TOO_LONG.iter().any(|sentence| follows(&words, sentence));
    // A body that is too large in bytes. An image that is too large has its own message.
    let by_size = failure.status == Some(413) && !words.contains("image") && !words.contains("file size");
    let by_size = by_size || failure.codes.iter().any(|code| code == "request_too_large");
    // Authentication and rate-limit errors are never treated as overflow, whatever their message says.
    let is_other = is_rate_limit(&words) || matches!(failure.status, Some(401 | 402 | 403 | 429));
    // A code names the error. A sentence may only mention an overflow, so it counts only if nothing else explains it.
    if !(by_code || (!is_other && !is_answer && (said || by_size))) {
        return None;
    }
    let window = failure.window.or_else(|| after_any(&words, &BEFORE_WINDOW));
    let window = window.or_else(|| limit_of_sum(&words));
    let asked = failure.asked.or_else(|| BEFORE_ASKED.iter().find_map(|phrase| number_after(&words, phrase)));
    // A number that cannot be a window refers to something else.
    let window = window.filter(|window| (256..=1_000_000_000).contains(window));
    Some((window.map(Tokens), asked.map(Tokens)))
}

/// Whether a text reports a rate limit. Expects lower case.
pub(crate) fn is_rate_limit(words: &str) -> bool {
    const PATTERNS: [&str; 10] = [
        "rate limit",
        "rate_limit",
        "tokens per min",
        "tokens per day",
        "requests per min",
        "too many requests",
        "throttl",
        "please wait before trying again",
        "(tpm)",
        "(tpd)",
    ];
    PATTERNS.iter().any(|pattern| words.contains(pattern))
}

/// Whether a text contains these fragments in this order.
pub(crate) fn follows(words: &str, pieces: &[&str]) -> bool {
    let mut rest = words;
    pieces.iter().all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

fn after_any(words: &str, phrases: &[&str]) -> Option<u64> {
    phrases.iter().find_map(|phrase| number_after(words, phrase))
}

/// Returns the number right after a phrase. Only white space and a few punctuation marks may be between them.
fn number_after(words: &str, phrase: &str) -> Option<u64> {
    let at = words.find(phrase)? + phrase.len();
    leading_number(words[at..].trim_start_matches([' ', ':', '(', '`', '~']))
}

/// Reads `188240 + 21333 > 200000`: the limit of input and output together.
fn limit_of_sum(words: &str) -> Option<u64> {
    let at = words.find("exceed context limit")?;
    let (_, limit) = words[at..].split_once('>')?;
    leading_number(limit.trim_start())
}

fn leading_number(text: &str) -> Option<u64> {
    let digits: String = text
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '_'))
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}
