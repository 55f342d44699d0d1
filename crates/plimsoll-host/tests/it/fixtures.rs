//! Sessions that several tests use.

use std::path::{Path, PathBuf};

use plimsoll_host::{Flags, Host, HostConfig, Importer, InputSource, InputSpec, StoredSession};
use serde_json::{Value, json};

use crate::hosts::Place;

/// Id of the session that [`claude`] writes.
pub(crate) const CLAUDE: &str = "5d0c31aa-1111-4222-8333-444455556666";

/// Text of the output of call `n` of [`long_chat`], which occurs nowhere else.
pub(crate) fn output(n: usize) -> String {
    format!("output number {n} begins\n{}", "a line of source code\n".repeat(800))
}

/// A chat whose first turn has `calls` long tool outputs, followed by three short turns.
pub(crate) fn long_chat(calls: usize) -> String {
    let mut messages = vec![json!({ "role": "user", "content": "Look around." })];
    for n in 0..calls {
        let arguments = json!({ "path": format!("src/{n}.rs") }).to_string();
        let call = json!({ "id": format!("call_{n}"), "type": "function",
            "function": { "name": "read", "arguments": arguments } });
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
        messages.push(json!({ "role": "tool", "tool_call_id": format!("call_{n}"), "content": output(n) }));
    }
    for turn in ["One", "Two", "Three"] {
        messages.push(json!({ "role": "assistant", "content": "Done." }));
        messages.push(json!({ "role": "user", "content": turn }));
    }
    json!({ "messages": messages }).to_string()
}

/// Input from a file.
pub(crate) fn file(path: &Path) -> InputSpec {
    InputSpec { source: InputSource::File(path.to_owned(), None), strict: true, flags: Flags::default() }
}

/// Input from the newest session of the directory.
pub(crate) fn newest() -> InputSpec {
    InputSpec { source: InputSource::Newest, strict: false, flags: Flags::default() }
}

/// Stores a transcript and returns its session.
pub(crate) fn stored(place: &Place, host: &Host, config: &HostConfig, text: &str) -> StoredSession {
    let path = place.write("project/session.json", text);
    let id = Importer::new(host, config).import(file(&path), false).unwrap().id;
    host.stored_session(Some(id.as_str()), config, None).unwrap()
}

/// A line of a session of Claude Code.
pub(crate) fn claude_line(directory: &Path, session: &str, number: u32, role: &str, text: &str) -> String {
    let uuid = |number: u32| format!("aaaaaaaa-bbbb-4ccc-8ddd-{number:012}");
    let content: Value = match role {
        "user" => text.into(),
        _ => json!([{ "type": "text", "text": text }]),
    };
    let line = json!({ "type": role, "uuid": uuid(number), "parentUuid": (number > 1).then(|| uuid(number - 1)),
        "sessionId": session, "cwd": directory, "timestamp": format!("2026-05-02T09:18:{number:02}.000Z"),
        "message": { "role": role, "id": format!("m{number}"), "model": "claude-sonnet-4-5", "content": content } });
    format!("{line}\n")
}

/// Writes a session of Claude Code for the project with these texts, alternating between user and assistant.
pub(crate) fn claude(place: &Place, host: &Host, session: &str, texts: &[&str]) -> PathBuf {
    let roles = ["user", "assistant"].into_iter().cycle();
    let lines = (1..).zip(roles).zip(texts);
    let lines: String = lines
        .map(|((number, role), text)| claude_line(host.directory(), session, number, role, text))
        .collect();
    place.write(&format!(".claude/projects/-project/{session}.jsonl"), &lines)
}
