//! A request as the sequence of blocks that a prompt cache compares: tools, system prompt, messages.

use plimsoll_providers::Wire;
use serde_json::{Map, Value, json};

use super::sign::hash;

/// One block of a request.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Path in the request, such as `messages[3].content[1]`.
    pub(crate) path: String,
    /// The text that is compared and counted: JSON without breakpoints, with images replaced by filler of their cost.
    pub(crate) text: String,
    /// The breakpoint on this block.
    pub(crate) mark: Option<Mark>,
    /// False for settings, which are compared, but cost nothing and are not counted.
    pub(crate) is_block: bool,
}

/// A breakpoint of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) for_an_hour: bool,
}

/// Cost of an image in bytes: about 1,600 tokens, Anthropic's maximum.
const IMAGE_BYTES: usize = 6_400;
/// Length from which a string in a field for file content counts as a file.
const SHORTEST_FILE: usize = 64;

impl Segment {
    fn of(path: String, value: &Value) -> Segment {
        let mark = value
            .get("cache_control")
            .filter(|mark| mark.is_object())
            .map(|mark| Mark { for_an_hour: mark.get("ttl").and_then(Value::as_str) == Some("1h") });
        Segment { path, text: plain(value).to_string(), mark, is_block: true }
    }

    /// Number of bytes that count.
    pub(crate) fn weight(&self) -> usize {
        if self.is_block { self.text.len() } else { 0 }
    }
}

/// The segments of a request.
pub(crate) fn segments(wire: Wire, body: &Value) -> Vec<Segment> {
    let mut found = Vec::new();
    for (at, tool) in list(body, "tools").iter().enumerate() {
        found.push(Segment::of(format!("tools[{at}]"), tool));
    }
    match wire {
        Wire::Anthropic => anthropic(body, &mut found),
        Wire::Chat => each(body, "messages", &mut found),
        Wire::Responses => {
            if let Some(instructions) = body.get("instructions").filter(|text| !text.is_null()) {
                found.push(Segment::of("instructions".into(), instructions));
            }
            match body.get("input") {
                Some(text @ Value::String(_)) => found.push(Segment::of("input".into(), text)),
                _ => each(body, "input", &mut found),
            }
        }
    }
    found
}

/// Tokens of a request: a quarter of its bytes.
pub(crate) fn count(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| segment.weight() as u64).sum::<u64>().div_ceil(4)
}

fn each(body: &Value, key: &str, found: &mut Vec<Segment>) {
    let all = list(body, key).iter().enumerate();
    found.extend(all.map(|(at, value)| Segment::of(format!("{key}[{at}]"), value)));
}

fn anthropic(body: &Value, found: &mut Vec<Segment>) {
    for (at, block) in blocks(body.get("system")).iter().enumerate() {
        found.push(Segment::of(format!("system[{at}]"), block));
    }
    // A change of these invalidates the cached messages, but not tools and system prompt.
    let has_image = list(body, "messages").iter().any(|message| has_image(message.get("content")));
    let settings = json!([body.get("tool_choice"), body.get("thinking"), has_image]);
    found.push(Segment {
        path: "tool_choice, thinking, images".into(),
        text: settings.to_string(),
        mark: None,
        is_block: false,
    });
    for (at, message) in list(body, "messages").iter().enumerate() {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        for (place, block) in blocks(message.get("content")).iter().enumerate() {
            let mut segment = Segment::of(format!("messages[{at}].content[{place}]"), block);
            segment.text.insert_str(0, role);
            found.push(segment);
        }
    }
}

fn has_image(content: Option<&Value>) -> bool {
    let blocks = content.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    blocks.iter().any(|block| {
        block.get("type").and_then(Value::as_str) == Some("image") || has_image(block.get("content"))
    })
}

/// Content as blocks. A string is one text block: clients that move a breakpoint convert one into the other.
pub(crate) fn blocks(content: Option<&Value>) -> Vec<Value> {
    match content {
        Some(Value::String(text)) => vec![json!({ "type": "text", "text": text })],
        Some(Value::Array(blocks)) => blocks.clone(),
        _ => Vec::new(),
    }
}

pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A value without breakpoints, with the bytes of files replaced by filler of their cost.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| *key != "cache_control");
            Value::Object(
                kept.map(|(key, value)| (key.clone(), plain_field(key, value))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(values) => values.iter().map(plain).collect(),
        other => other.clone(),
    }
}

fn plain_field(key: &str, value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > SHORTEST_FILE && is_file(key, text) => {
            let name = format!("file {:016x} ", hash(&[text]));
            Value::String(format!("{name}{}", ".".repeat(IMAGE_BYTES - name.len())))
        }
        other => plain(other),
    }
}

fn is_file(key: &str, text: &str) -> bool {
    match key {
        "url" | "image_url" | "file_data" => text.starts_with("data:"),
        // Redacted thoughts use this field too, but are short.
        "data" => true,
        _ => false,
    }
}
