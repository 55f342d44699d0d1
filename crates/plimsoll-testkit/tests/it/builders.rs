//! Two crates write Anthropic requests: `plimsoll-providers` the ones that are sent, `plimsoll-formats` a window as a file.
//! Neither may depend on the other, so this test keeps their messages equal.

use plimsoll::log::{FilePart, ReasoningPart};
use plimsoll::{Message, Part, PartBody, Policy, ToolState, Window};
use plimsoll_formats::{Format, SessionInfo, write_window};
use plimsoll_providers::{Prompt, Request, RequestOptions, Wire};
use serde_json::{Value, json};

fn part(id: &str, body: PartBody) -> Part {
    Part::new(id.into(), body)
}

fn file(id: &str, mime: &str, url: &str) -> Part {
    let (mime, filename, url) = (Some(mime.into()), Some("harbour".into()), Some(url.into()));
    part(id, PartBody::File(FilePart { mime, filename, url }))
}

fn conversation() -> Vec<Message> {
    let thought = |id: &str, metadata: Value| {
        let mut thought = part(id, PartBody::Reasoning(ReasoningPart { text: "hm".into() }));
        thought.extra.insert("metadata".into(), metadata);
        thought
    };
    let mut asked = Message::user("m1".into(), "p1".into(), "Look at the harbour");
    let images = ["data:image/png;base64,QUJD", "https://example.org/a.png"];
    asked.parts = [
        asked.parts[0].clone(),
        file("p2", "image/png", images[0]),
        file("p3", "image/png", images[1]),
        file("p4", "application/pdf", "data:application/pdf;base64,QUJD"),
    ]
    .into_iter()
    .collect();
    let calls = vec![
        thought("p6", json!({ "anthropic": { "model": "claude-x", "signature": "sig" } })),
        thought("p7", json!({ "anthropic": { "model": "claude-x", "redactedData": "xyz" } })),
        // Signed by another provider, so neither sends it.
        thought("p8", json!({ "openai": { "signature": "other" } })),
        Part::text("p9".into(), "I look."),
        Part::tool("p10".into(), "call_1", "mcp_read", ToolState::completed(json!({ "f": 1 }), "body")),
        Part::tool(
            "p11".into(),
            "call_2",
            "bash",
            ToolState::failed(json!({ "command": "ls" }), "no such file"),
        ),
    ];
    vec![
        asked,
        Message::assistant("m2".into(), calls),
        Message::assistant("m3".into(), vec![Part::text("p12".into(), "Seen.")]),
        Message::user("m4".into(), "p13".into(), "Next"),
        Message::user("m5".into(), "p14".into(), "And quickly"),
    ]
}

#[test]
fn both_writers_of_anthropic_requests_write_the_same_messages() {
    let window = Window::of(&conversation(), &Policy::default());
    let written = write_window(Format::AnthropicMessages, &SessionInfo::default(), &window).unwrap();
    let options = RequestOptions::default();
    let prompt = Prompt {
        provider: "anthropic",
        model: "claude-x",
        window: &window,
        system: &[],
        tools: &[],
        cache: None,
        options: &options,
    };
    let sent = Request::build(Wire::Anthropic, &prompt).unwrap().to_json();
    assert_eq!(written["messages"], sent["messages"]);
    let kinds: Vec<&str> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|turn| turn["content"].as_array().unwrap())
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "text",
            "image",
            "image",
            "document",
            "thinking",
            "redacted_thinking",
            "text",
            "tool_use",
            "tool_use",
            "tool_result",
            "tool_result",
            "text",
            "text",
            "text"
        ]
    );
}
