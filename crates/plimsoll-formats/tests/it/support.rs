//! Formats a transcript as a few lines of text, so that a test shows its whole shape.

use plimsoll::{Log, Message, PartBody, Policy, ToolStatus, Window};
use plimsoll_formats::{Transcript, read};

/// Reads a transcript and checks that the engine can use the result.
pub(crate) fn read_ok(input: &str) -> Transcript {
    let transcript = read(input.as_bytes()).unwrap();
    check(&transcript);
    transcript
}

pub(crate) fn check(transcript: &Transcript) {
    let log = Log::from_messages(transcript.messages.clone());
    assert_eq!(log.messages(), transcript.messages.as_slice(), "ids are there and unique");
    Window::of(&log, &Policy::default()).check().unwrap();
    transcript.side_chains.iter().for_each(check);
}

/// Returns one line per message: role, marks, parts.
pub(crate) fn shape(messages: &[Message]) -> Vec<String> {
    messages.iter().map(line).collect()
}

fn line(message: &Message) -> String {
    let mut line = message.info.role.as_ref().map_or("?", |role| role.name()).to_owned();
    if message.info.summary {
        line += " (summary)";
    }
    if let Some(finish) = &message.info.finish {
        line += &format!(" [{finish}]");
    }
    for part in &message.parts {
        line += &match &part.body {
            PartBody::Text(text) if text.synthetic == Some(true) => format!(" host:{}", text.text),
            PartBody::Text(text) => format!(" text:{}", text.text),
            PartBody::Reasoning(thought) => format!(" thought:{}", thought.text),
            PartBody::Tool(tool) => {
                let state = &tool.state;
                let input = state.input.as_ref().unwrap().json();
                let files = if state.attachments.is_empty() { "" } else { "+file" };
                match state.status {
                    ToolStatus::Completed => {
                        format!(" {}{input}={}{files}", tool.tool, state.output.as_ref().unwrap())
                    }
                    ToolStatus::Error => format!(" {}{input}!{}", tool.tool, state.error.as_ref().unwrap()),
                    _ => format!(" {}{input}…", tool.tool),
                }
            }
            PartBody::ToolResult(result) => format!(" result({}):{}", result.call_id, result.text),
            PartBody::File(file) => format!(" file:{}", file.url.as_ref().unwrap()),
            PartBody::Compaction(marker) => {
                let tail = marker.tail_start.as_ref().map(|id| format!(" tail {id}"));
                format!(" marker{}", tail.unwrap_or_default())
            }
            PartBody::Other(kind) => format!(" ?{kind}"),
            other => format!(" {other:?}"),
        };
    }
    line
}
