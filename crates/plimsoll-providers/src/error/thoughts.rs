//! Distinguishes rejected replayed reasoning from other bad requests.
//!
//! Signatures are valid for the account, gateway or region that made them, and sometimes not even there. A session that
//! is sent elsewhere is rejected for one block of reasoning, and so is every later request, because the block stays in
//! the window. Other agents never recover from this (anthropics/claude-code 66204, github/copilot-cli 3407,
//! openai/codex 8119).

use super::Failure;
use super::overflow::follows;

const CODE: &str = "invalid_encrypted_content"; // OpenAI Responses

/// Sentences of such errors. The fragments of a row must occur in this order.
const SENTENCES: [&[&str]; 8] = [
    &["invalid", "signature", "in", "thinking", "block"], // Anthropic, Vertex, Copilot
    &["invalid", "data", "in", "redacted_thinking"],      // Anthropic
    &["thinking", "blocks", "cannot be modified"],        // Anthropic
    &["thinking.signature: field required"],              // Anthropic
    &["encrypted content", "could not be verified"],      // OpenAI
    &["corrupted thought signature"],                     // Gemini
    &["thought signature is not valid"],                  // Vertex
    &["invalid thought signature"],                       // Gemini
];

/// Whether the provider rejects reasoning in the request.
pub(crate) fn are_refused(failure: &Failure) -> bool {
    let words = failure.message.to_ascii_lowercase();
    failure.codes.iter().any(|code| code == CODE)
        || (failure.status.is_none_or(|status| (400..500).contains(&status))
            && SENTENCES.iter().any(|sentence| follows(&words, sentence)))
}
