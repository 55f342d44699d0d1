//! Prints requests that Plimsoll builds, one JSON object per line, for an independent check: `just referee` validates
//! them with the types of the official SDKs.
//!
//! The first requests are from a session with everything that providers have rules for, the others from generated
//! histories. Each has different options.

use std::io::{self, BufWriter, Write as _};

use plimsoll::{CachePlan, Message, Policy, Window};
use plimsoll_providers::{
    BuildError, CacheTtl, MaxTokensField, Prompt, Request, RequestOptions, Thinking, ToolChoice, ToolSpec,
    Wire,
};
use plimsoll_testkit::{History, histories};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

const WIRES: [(Wire, &str, &str); 3] = [
    (Wire::Anthropic, "anthropic", "claude-sonnet-4-6"),
    (Wire::Chat, "openai-chat", "gpt-4.1"),
    (Wire::Responses, "openai", "gpt-5.5"),
];
const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";
const DEFAULT_COUNT: usize = 300;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(DEFAULT_COUNT), |count| count.parse())?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut runner = TestRunner::deterministic();
    let strategy = histories(12);
    for number in 0..count {
        let (name, log) = match number {
            0..24 => ("everything", everything()),
            24..32 => ("compacted", compacted()),
            _ => (
                "generated",
                strategy.new_tree(&mut runner).map_err(|reason| reason.to_string())?.current().to_vec(),
            ),
        };
        for (wire, provider, model) in WIRES {
            let options = options(number);
            match build(wire, (provider, model), &log, &options) {
                Ok(request) => {
                    let wire = format!("{wire:?}").to_lowercase();
                    let line = json!({ "wire": wire, "name": format!("{name} {number}"), "body": request.to_json() });
                    writeln!(out, "{line}")?;
                }
                Err(BuildError::Empty) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    out.flush()?;
    Ok(())
}

fn build(
    wire: Wire,
    (provider, model): (&str, &str),
    log: &[Message],
    options: &RequestOptions,
) -> Result<Request, BuildError> {
    let policy = Policy::default();
    let window = Window::of(log, &policy);
    let cache = CachePlan::new(&window, log, None, 2, &policy.cache);
    let (tools, system) = (tools(), ["You are careful.".to_owned(), "The date is fixed.".to_owned()]);
    let prompt = Prompt {
        system: &system,
        tools: &tools,
        cache: Some(&cache),
        ..Prompt::new(provider, model, &window, options)
    };
    Request::build(wire, &prompt)
}

/// Options by number. Their periods are coprime, so that all combinations occur.
fn options(number: usize) -> RequestOptions {
    let thinking = match number % 5 {
        0 => Thinking::Budget(2_000),
        1 => Thinking::Adaptive,
        2 => Thinking::Effort("high".into()),
        3 => Thinking::Effort("low".into()),
        _ => Thinking::Unset,
    };
    let tool_choice = match number % 4 {
        0 => ToolChoice::Auto,
        1 => ToolChoice::None,
        2 => ToolChoice::Required,
        _ => ToolChoice::Named("read".into()),
    };
    let is = |period: usize| number.is_multiple_of(period);
    RequestOptions {
        max_tokens: (!is(7)).then_some(8_000),
        temperature: is(3).then_some(0.2),
        thinking,
        tool_choice,
        cache_key: Some(format!("ses_{number}")),
        cache_ttl: if is(2) { CacheTtl::OneHour } else { CacheTtl::FiveMinutes },
        max_tokens_field: if is(11) { MaxTokensField::MaxTokens } else { MaxTokensField::default() },
        ..RequestOptions::default()
    }
}

fn tools() -> Vec<ToolSpec> {
    let tool =
        |name: &str, schema| ToolSpec { name: name.into(), description: format!("The {name} tool."), schema };
    vec![
        tool("read", json!({ "type": "object", "properties": { "path": { "type": "string" } } })),
        tool("mcp.server/read file", Value::Null),
    ]
}

/// A session with everything that providers have rules for.
fn everything() -> Vec<Message> {
    let thought = |id: &str, text: &str, metadata: Value| json!({ "id": id, "type": "reasoning", "text": text, "metadata": metadata });
    let call = |id: &str, call: &str, tool: &str, state: Value| json!({ "id": id, "type": "tool", "callID": call, "tool": tool, "state": state });
    let block = |id: &str, provider: &str, block: Value| json!({ "id": id, "type": "provider-block", "block": { provider: block } });
    History::new()
        .user("Look at both files.")
        .raw(json!({
            "info": { "id": "m1", "role": "assistant", "finish": "tool-calls" },
            "parts": [
                thought("p0", "Both at once.", json!({
                    "anthropic": { "signature": "SIG1" },
                    "openai": { "itemId": "rs_1", "reasoningEncryptedContent": "ENC1" },
                })),
                { "id": "p1", "type": "text", "text": "Reading." },
                thought("p2", "", json!({ "anthropic": { "redactedData": "HIDDEN" } })),
                block("b1", "anthropic", json!({
                    "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": { "query": "x" },
                })),
                block("b2", "anthropic", json!({
                    "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [],
                })),
                call("p3", "toolu_1", "read", json!({
                    "status": "completed", "input": { "path": "a.rs" }, "output": "fn a() {}",
                    "attachments": [{ "mime": "image/png", "url": PNG }],
                })),
                { "id": "p4", "type": "text", "text": "And the other." },
                call("p5", "call|odd and far too long for any provider to accept it as it is given here", "mcp.server/read file",
                    json!({ "status": "error", "input": { "path": "b.rs" }, "error": "no such file" })),
            ],
        }))
        .tool("grep", "old output")
        .cleared()
        .raw(json!({
            "info": { "id": "m3", "role": "system" },
            "parts": [{ "id": "p6", "type": "text", "text": "The user is now in plan mode." }],
        }))
        .raw(json!({ "info": { "id": "m4", "role": "user" }, "parts": [
            { "id": "p7", "type": "text", "text": "What is in these?" },
            { "id": "p8", "type": "file", "mime": "image/png", "filename": "shot.png", "url": PNG },
            { "id": "p9", "type": "file", "mime": "application/pdf", "filename": "spec.pdf",
              "url": "data:application/pdf;base64,JVBERi0=" },
            { "id": "p10", "type": "file", "mime": "image/webp", "url": "https://example.com/a.webp" },
            { "id": "p11", "type": "file", "mime": "application/pdf", "url": "https://example.com/a.pdf" },
            { "id": "p12", "type": "file", "mime": "video/mp4", "filename": "clip.mp4", "url": "file:///clip.mp4" },
        ] }))
        .messages()
}

/// A session that was compacted in the middle of a turn.
fn compacted() -> Vec<Message> {
    History::new()
        .user("Mend the test.")
        .tools(&[("read", "one".into()), ("grep", "two".into())])
        .tool("bash", "failed")
        .marker_with_tail("m2")
        .summary("The test is in `a.rs`; it failed once.")
        .tools(&[("read", "three".into()), ("read", "four".into())])
        .think("Now it is clear.", "It is mended.")
        .user("And the other one?")
        .messages()
}
