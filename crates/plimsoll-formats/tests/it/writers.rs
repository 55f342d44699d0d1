use plimsoll::log::{ToolCallPart, ToolResultPart};
use plimsoll::{Message, Part, PartBody, Policy, Role, ToolState, Window};
use plimsoll_formats::{EachMessage, Format, FormatError, SessionInfo, read, write, write_to, write_window};
use serde_json::{Value, json};

use crate::support::{check, shape};

fn part(id: &str, body: PartBody) -> Part {
    Part::new(id.into(), body)
}

/// A conversation with everything that writers must handle: a system prompt, odd names and ids, a call without a
/// result, a compaction, two consecutive answers, an image.
fn conversation() -> Vec<Message> {
    let mut system = Message::user("m0".into(), "p0".into(), "Rules");
    system.info.role = Some(Role::System);
    let mut failed = ToolState::failed(json!("raw"), "bad");
    failed.attachments = std::sync::Arc::new(vec![
        json!({ "type": "file", "mime": "image/png", "url": "data:image/png;base64,QUJD" }),
    ]);
    let mut thought = part("p2", PartBody::Reasoning(plimsoll::log::ReasoningPart { text: "hm".into() }));
    thought.extra.insert("metadata".into(), json!({ "anthropic": { "signature": "S" } }));
    let parts = vec![
        thought,
        Part::text("p3".into(), "I look."),
        Part::tool("p4".into(), "call:1", "mcp.read", ToolState::completed(json!({ "f": 1 }), "body")),
        Part::tool("p5".into(), "call.1", "bash", failed),
        Part::tool("p6".into(), "x".repeat(80), "bash", ToolState::pending(json!({}))),
    ];
    let mut marker = Message::user("m4".into(), "p8".into(), "");
    marker.parts = vec![part("p8", PartBody::Compaction(plimsoll::log::CompactionPart::default()))].into();
    let mut summary = Message::assistant("m5".into(), vec![Part::text("p9".into(), "So far.")]);
    summary.info.summary = true;
    summary.info.parent_id = Some("m4".into());
    vec![
        system,
        Message::user("m1".into(), "p1".into(), "Look"),
        Message::assistant("m2".into(), parts),
        Message::assistant("m3".into(), vec![Part::text("p7".into(), "Seen.")]),
        marker,
        summary,
        Message::user("m6".into(), "p10".into(), "Next"),
    ]
}

fn reread(written: &Value) -> Vec<String> {
    let read = read(written.to_string().as_bytes()).unwrap();
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    check(&read);
    shape(&read.messages)
}

#[test]
fn openai_requests_are_legal_and_complete() {
    let written = write(Format::OpenaiChat, &SessionInfo::default(), &conversation()).unwrap();
    let messages = written["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "tool", "user", "assistant", "user"]);
    let calls = messages[2]["tool_calls"].as_array().unwrap();
    for (call, result) in calls.iter().zip(&messages[3..6]) {
        assert_eq!(call["id"], result["tool_call_id"]);
        assert!(call["id"].as_str().unwrap().len() <= 40);
    }
    assert_eq!((&calls[0]["id"], &calls[1]["id"]), (&json!("call_1"), &json!("call_1_2")));
    assert_eq!(calls[0]["function"]["name"], "mcp_read");
    assert_eq!(
        reread(&written),
        [
            "system text:Rules",
            "user text:Look",
            "assistant [tool-calls] text:I look. mcp_read{\"f\":1}=body bash{\"input\":\"raw\"}=bad bash{}=[Tool execution was interrupted]",
            "user file:data:image/png;base64,QUJD",
            "assistant [stop] text:Seen.",
            "user text:Next",
        ]
    );
}

#[test]
fn anthropic_requests_are_legal_and_complete() {
    let info = SessionInfo { model: Some("claude-x".into()), ..SessionInfo::default() };
    let written = write(Format::AnthropicMessages, &info, &conversation()).unwrap();
    let messages = written["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"], "they take turns");
    let calls: Vec<&Value> =
        messages[1]["content"].as_array().unwrap().iter().filter(|b| b["type"] == "tool_use").collect();
    let results = messages[2]["content"].as_array().unwrap();
    assert_eq!((calls.len(), results.len()), (3, 3));
    for (call, result) in calls.iter().zip(results) {
        assert_eq!(call["id"], result["tool_use_id"]);
        assert!(call["input"].is_object());
    }
    assert_eq!(results[1]["is_error"], true);
    assert_eq!(results[1]["content"][1]["source"]["media_type"], "image/png");
    let tools: Vec<&Value> = written["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(tools, ["bash", "mcp_read"]);
    assert_eq!(
        reread(&written),
        [
            "system text:Rules",
            "user text:Look",
            "assistant [tool-calls] thought:hm text:I look. mcp_read{\"f\":1}=body bash{\"input\":\"raw\"}!bad bash{}![Tool execution was interrupted]",
            "assistant [stop] text:Seen.",
            "user text:Next",
        ]
    );
}

#[test]
fn a_window_is_written_with_its_summary() {
    let window = Window::of(&conversation(), &Policy::default());
    let written = write_window(Format::AnthropicMessages, &SessionInfo::default(), &window).unwrap();
    let text = written.to_string();
    assert!(text.contains("So far.") && !text.contains("I look."), "{text}");
}

#[test]
fn an_opencode_export_keeps_the_log_and_adds_required_fields() {
    let mut messages = conversation();
    messages.push(Message::assistant(
        "m7".into(),
        vec![part("p11", PartBody::ToolCall(ToolCallPart::new("c9", "ls", json!({}))))],
    ));
    let mut result = Message::user("m8".into(), "p12".into(), "");
    result.parts = vec![part("p12", PartBody::ToolResult(ToolResultPart::new("c9", "a.txt")))].into();
    messages.push(result);
    let written = write(Format::OpencodeExport, &SessionInfo::default(), &messages).unwrap();
    assert_eq!(written["messages"][0]["info"]["system"], "Rules");
    for message in written["messages"].as_array().unwrap() {
        assert!(message["info"]["time"]["created"].is_u64() && message["info"]["sessionID"].is_string());
        for part in message["parts"].as_array().unwrap() {
            assert_eq!(part["messageID"], message["info"]["id"]);
        }
    }
    assert_eq!(
        reread(&written),
        [
            "user text:Look",
            "assistant [stop] thought:hm text:I look. mcp.read{\"f\":1}=body bash{\"input\":\"raw\"}!bad bash{}…",
            "assistant [stop] text:Seen.",
            "user marker",
            "assistant (summary) [stop] text:So far.",
            "user text:Next",
            "assistant [stop] ls{}=a.txt",
        ]
    );
}

#[test]
fn writing_an_opencode_export_again_gives_the_same() {
    let first = write(Format::OpencodeExport, &SessionInfo::default(), &conversation()).unwrap();
    let read = read(first.to_string().as_bytes()).unwrap();
    let second = write(Format::OpencodeExport, &read.info, &read.messages).unwrap();
    assert_eq!(first["messages"], second["messages"]);
}

#[test]
fn writing_message_by_message_gives_the_same_json() {
    let info = SessionInfo {
        parent: Some("ses_parent".into()),
        title: Some("A title".into()),
        ..Default::default()
    };
    let formats =
        [Format::OpencodeExport, Format::OpencodeMessages, Format::OpenaiChat, Format::AnthropicMessages];
    for format in formats {
        for messages in [conversation(), Vec::new()] {
            let each: EachMessage<'_, FormatError> = &mut |sink| {
                messages.iter().cloned().for_each(sink);
                Ok(())
            };
            let mut bytes = Vec::new();
            let (count, lost) = write_to(format, &info, each, &mut bytes).unwrap();
            let (whole, lost_of_whole) = plimsoll_formats::write_counting(format, &info, &messages).unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), whole.to_string());
            let list = whole.as_array().or_else(|| whole["messages"].as_array()).unwrap();
            assert_eq!((count, lost), (list.len(), lost_of_whole));
        }
    }
    let each: EachMessage<'_, FormatError> = &mut |_| Ok(());
    assert!(matches!(
        write_to(Format::Codex, &info, each, &mut Vec::new()),
        Err(FormatError::NotWritable(Format::Codex))
    ));
}

#[test]
fn formats_without_a_writer_are_errors() {
    let error = write(Format::Codex, &SessionInfo::default(), &[]).unwrap_err();
    assert!(matches!(error, FormatError::NotWritable(Format::Codex)));
    assert_eq!(
        error.to_string(),
        "codex can be read but not written; write opencode-export, openai-chat or anthropic-messages"
    );
}

/// A child that inherits its parent's history begins its first request with the bytes of the parent's last one.
#[test]
fn the_request_of_a_forked_child_begins_with_its_parents() {
    use plimsoll::fork::{Child, Identity, InheritedHistory, Parent, Point};
    use plimsoll::{Ids, Limits, Millis, PartId, RequestOverhead};

    let policy = Policy::default();
    let mut messages = conversation();
    messages.push(Message::user("m8".into(), "p12".into(), "Now the tests"));
    let last_request = Window::of(&messages, &policy);
    let call =
        Part::tool("launch".into(), "call_9", "task", ToolState::pending(json!({ "prompt": "count" })));
    messages.push(Message::assistant("m9".into(), vec![Part::text("p13".into(), "I delegate."), call]));
    let launch = PartId::new("launch");
    let identity = Identity { model: "m".into(), system: "s".into(), tools: "t".into() };
    let parent =
        Parent { messages: &messages, policy: &policy, point: Point::Call(&launch), identity: &identity };
    let child =
        Child { limits: Limits::new(200_000, 8_000), fixed: RequestOverhead::default(), task: "Count." };
    let mut ids = Ids::new(|| 7);
    let forked = InheritedHistory::of(&parent, &child, &mut ids, Millis(5), &policy.count).unwrap();
    for format in [Format::AnthropicMessages, Format::OpenaiChat] {
        let sent = |window: &Window| {
            let request = write_window(format, &SessionInfo::default(), window).unwrap();
            request["messages"].to_string()
        };
        let (parents, childs) = (sent(&last_request), sent(&forked.window));
        assert!(childs.starts_with(parents.strip_suffix(']').unwrap()), "{format}:\n{parents}\n{childs}");
        assert!(childs.len() > parents.len() + 500);
    }
}

/// A field that OpenCode rejects stops the whole import, so every message has what its schema requires.
#[test]
fn an_opencode_export_has_every_required_field() {
    let mut messages = conversation();
    let mut failed = Message::assistant("m7".into(), Vec::new());
    failed.info.error = Some(json!({ "name": "APIError", "data": { "message": "overloaded" } }));
    let mut odd = Message::assistant("m8".into(), vec![Part::new("p20".into(), PartBody::Bare(json!(7)))]);
    odd.info.error = Some(json!("stopped"));
    messages.extend([failed, odd]);
    let (written, lost) =
        plimsoll_formats::write_counting(Format::OpencodeExport, &SessionInfo::default(), &messages).unwrap();
    let info = &written["info"];
    assert!(info["id"].as_str().unwrap().starts_with("ses_"), "{info}");
    assert_eq!(info["slug"], "imported-session");
    let mut names: Vec<(u64, String)> = Vec::new();
    for message in written["messages"].as_array().unwrap() {
        let (about, id) = (&message["info"], message["info"]["id"].as_str().unwrap());
        assert!(id.starts_with("msg_"), "{id}");
        names.push((about["time"]["created"].as_u64().unwrap(), id.to_owned()));
        if about["role"] == "assistant" {
            let tokens = &about["tokens"];
            assert!(tokens["reasoning"].is_u64() && tokens["cache"]["write"].is_u64(), "{about}");
            assert!(about["parentID"].as_str().unwrap().starts_with("msg_"), "{about}");
        }
        let parts: Vec<&str> =
            message["parts"].as_array().unwrap().iter().map(|part| part["id"].as_str().unwrap()).collect();
        assert!(parts.iter().all(|id| id.starts_with("prt_")) && parts.is_sorted(), "{parts:?}");
    }
    assert!(names.is_sorted(), "OpenCode sorts by time and name: {names:?}");
    let last: Vec<&Value> = written["messages"].as_array().unwrap().iter().rev().take(2).collect();
    assert_eq!(last[0]["info"]["error"], json!({ "name": "UnknownError", "data": { "message": "stopped" } }));
    assert_eq!(last[1]["info"]["error"]["data"]["isRetryable"], false);
    let rendered: Vec<String> = lost.iter().map(|lost| format!("{} {}", lost.count, lost.one)).collect();
    assert_eq!(
        rendered,
        ["1 system message (kept, but not sent)", "1 part of a kind OpenCode does not know"]
    );
}

/// OpenCode shows a child without `parentID` as an independent session.
#[test]
fn r62_the_export_of_a_child_names_its_parent() {
    let info = |parent: Option<&str>| SessionInfo {
        id: Some("ses_child".into()),
        parent: parent.map(str::to_owned),
        ..SessionInfo::default()
    };
    let written = |parent| write(Format::OpencodeExport, &info(parent), &conversation()).unwrap();
    let export = written(Some("ses_parent"));
    assert_eq!(export["info"]["parentID"], "ses_parent");
    let read = read(export.to_string().as_bytes()).unwrap();
    assert_eq!(read.info.parent.as_deref(), Some("ses_parent"));
    // OpenCode rejects other ids, and the whole import with them.
    for parent in [None, Some("d0f5c3")] {
        assert_eq!(written(parent)["info"].get("parentID"), None);
    }
}

/// Messages that no user message follows are added to the last one.
#[test]
fn an_opencode_export_keeps_every_system_message() {
    let mut messages = vec![Message::user("m2".into(), "p2".into(), "How deep is it?")];
    messages.insert(0, system("m1", "FIRSTRULE"));
    messages.push(Message::assistant("m3".into(), vec![Part::text("p3".into(), "Nine metres.")]));
    messages.push(system("m4", "LASTRULE"));
    let (written, lost) =
        plimsoll_formats::write_counting(Format::OpencodeExport, &SessionInfo::default(), &messages).unwrap();
    assert_eq!(written["messages"][0]["info"]["system"], "FIRSTRULE\n\nLASTRULE");
    assert_eq!((lost[0].count, lost[0].more), (2, "system messages (kept, but not sent)"));
}

fn system(id: &str, text: &str) -> Message {
    let mut message = Message::user(id.into(), format!("{id}.1").as_str().into(), text);
    message.info.role = Some(Role::System);
    message
}

/// OpenCode would use a summary that was undone here.
#[test]
fn an_undone_compaction_is_not_in_an_opencode_export() {
    let mut messages = conversation();
    for part in &mut messages[4].parts {
        if let PartBody::Compaction(marker) = &mut part.body {
            marker.set_aside = Some(plimsoll::log::LogPosition::default());
        }
    }
    let written = write(Format::OpencodeExport, &SessionInfo::default(), &messages).unwrap();
    let text = written.to_string();
    assert!(!text.contains("So far.") && !text.contains("compaction"), "{text}");
    assert!(text.contains("Seen.") && text.contains("Next"));
}

/// OpenCode's rules show of the export what the window shows after a reduction.
#[test]
fn opencode_shows_the_same_of_an_export_as_the_window() {
    use plimsoll::log::{CompactionPart, Effect, LogPosition, Mark};
    let mark = |effect| Mark { receipt: None, effect, set: LogPosition::default(), lifted: None };
    let mut messages = conversation();
    messages.truncate(4);
    let long = "word ".repeat(400);
    let cut =
        Part::text("p40".into(), long.as_str()).with_marks(vec![mark(Effect::Cut(plimsoll::Chars(200)))]);
    let hidden = Part::text("p41".into(), "left out").with_marks(vec![mark(Effect::Hide)]);
    let state = ToolState::completed(json!({}), "a long output");
    let cleared = Part::tool("p42".into(), "c42", "read", state).with_marks(vec![mark(Effect::clear())]);
    let pinned =
        Part::text("p43".into(), "Keep this.").with_marks(vec![mark(Effect::Pin("Keep this.".into()))]);
    messages[1].parts.push(pinned);
    messages.push(Message::user("m10".into(), "p30".into(), "Go on"));
    messages.push(Message::assistant("m11".into(), vec![cut, hidden, cleared]));
    let mut marker = Message::user("m12".into(), "p31".into(), "");
    let part = CompactionPart {
        tail_start: Some("m11".into()),
        prompt: Some("m10".into()),
        ..CompactionPart::default()
    };
    marker.parts = vec![Part::new("p31".into(), PartBody::Compaction(part))].into();
    let mut summary = Message::assistant("m13".into(), vec![Part::text("p32".into(), "So far.")]);
    summary.info.summary = true;
    summary.info.parent_id = Some("m12".into());
    messages.extend([marker, summary, Message::user("m14".into(), "p33".into(), "And now")]);

    let shown = |messages: &[Message], policy: &Policy| -> Vec<String> {
        let window = Window::of(messages, policy);
        let texts =
            window.messages.iter().flat_map(|message| &message.blocks).filter_map(|block| match block {
                plimsoll::Block::Text { text, .. } => Some(text.as_str().to_owned()),
                plimsoll::Block::Result { cleared: true, .. } => Some("cleared".to_owned()),
                plimsoll::Block::Result { text, .. } => Some(text.as_str().to_owned()),
                _ => None,
            });
        let mut texts: Vec<String> = texts.filter(|text| text != "Rules").collect();
        // The notice of hidden parts has another position in its message.
        texts.sort();
        texts
    };
    let written = write(Format::OpencodeExport, &SessionInfo::default(), &messages).unwrap();
    let mut read = read(written.to_string().as_bytes()).unwrap();
    // OpenCode does not have our marks.
    let strip = |part: &mut Part| part.marks.clear();
    read.messages.iter_mut().flat_map(|message| &mut message.parts).for_each(strip);
    let opencode = plimsoll::Preset::Opencode.policy();
    assert_eq!(shown(&read.messages, &opencode), shown(&messages, &Policy::default()));
    assert!(written.to_string().contains("a long output"), "OpenCode keeps what is cleared");
}

/// OpenCode has a placeholder for a cleared output, but none with names and none for inputs.
#[test]
fn opencode_gets_the_names_that_stay_of_outputs_and_inputs() {
    use plimsoll::log::{Effect, LogPosition, Mark};
    let receipt = || Some(plimsoll::ReceiptId::new("rcp_1"));
    let mark = |effect| Mark { receipt: receipt(), effect, set: LogPosition::default(), lifted: None };
    let body = "fn parse_window() {}\n".repeat(200);
    let read_state = ToolState::completed(json!({ "path": "src/a.rs" }), body.as_str());
    let output = Part::tool("p1".into(), "c1", "read", read_state)
        .with_marks(vec![mark(Effect::Clear("parse_window".into()))]);
    let write_state = ToolState::completed(json!({ "path": "src/b.rs", "content": body }), "written");
    let input = Part::tool("p2".into(), "c2", "write", write_state)
        .with_marks(vec![mark(Effect::ClearInput("build_window".into()))]);
    let messages =
        [Message::user("m1".into(), "p0".into(), "Go"), Message::assistant("m2".into(), vec![output, input])];
    let written = write(Format::OpencodeExport, &SessionInfo::default(), &messages).unwrap().to_string();
    assert!(written.contains("Names in it: parse_window") && written.contains("Names in it: build_window"));
    assert!(written.contains("recall p1]") && written.contains("recall p2:input]"), "{written}");
    assert!(written.len() < body.len(), "neither body is written: {written}");
}
