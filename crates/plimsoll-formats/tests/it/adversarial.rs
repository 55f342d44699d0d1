//! Hostile input: each reader returns a clear error or a count, in reasonable time and memory.

use std::io::Cursor;
use std::time::{Duration, Instant};

use plimsoll::PartBody;
use plimsoll_formats::{BROKEN, Format, Transcript, read, read_as, visit_as};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::samples;
use crate::support::check;

/// Returns a small session of each format, in each of its layouts.
fn samples() -> Vec<(Format, String)> {
    let formats = [
        Format::OpencodeExport,
        Format::OpencodeMessages,
        Format::ClaudeCode,
        Format::Codex,
        Format::Pi,
        Format::SweAgent,
        Format::OpenaiChat,
        Format::AnthropicMessages,
    ];
    let known = formats.map(|format| (format, sample(format)));
    known.into_iter().chain(samples::ALL.map(|(format, text)| (format, text.to_owned()))).collect()
}

fn sample(format: Format) -> String {
    match format {
        Format::OpencodeExport | Format::OpencodeMessages => {
            let list = r#"[{"info":{"id":"m1","role":"user","time":{"created":1}},"parts":[{"id":"p1","type":"text","text":"é\n\"hi\""}]},{"info":{"id":"m2","role":"assistant","tokens":{"input":1,"output":2}},"parts":[{"id":"p2","type":"tool","tool":"ls","callID":"c","state":{"status":"completed","input":{"a":1},"output":"x","time":{"start":1,"end":2}}}]}]"#;
            if format == Format::OpencodeMessages {
                list.to_owned()
            } else {
                format!("{{\"info\":{{\"id\":\"s\",\"time\":{{\"created\":1}}}},\"messages\":{list}}}")
            }
        }
        Format::ClaudeCode => r#"{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"é\n\"hi\""}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"r","model":"m","content":[{"type":"tool_use","id":"c","name":"ls","input":{"a":1}}],"usage":{"input_tokens":1}}}
{"type":"user","uuid":"3","parentUuid":"2","toolUseResult":{"a":1},"message":{"content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"x"}]}]}}
{"type":"system","subtype":"compact_boundary","uuid":"4","parentUuid":null,"logicalParentUuid":"3","compactMetadata":{"trigger":"auto","preTokens":9,"preservedSegment":{"headUuid":"1"}}}
{"type":"user","uuid":"5","parentUuid":"4","isCompactSummary":true,"message":{"content":"sum"}}
{"type":"user","uuid":"6","parentUuid":null,"isSidechain":true,"agentId":"A","message":{"content":"side"}}
"#
        .to_owned(),
        Format::Codex => r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"s","cwd":"/w"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"é\n\"hi\""}]}}
{"type":"response_item","payload":{"type":"function_call","name":"ls","arguments":"{\"a\":1}","call_id":"c"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"x"}}
{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":1},"last_token_usage":{"input_tokens":1}}}}
{"type":"compacted","payload":{"message":"sum"}}
"#
        .to_owned(),
        Format::Pi => r#"{"type":"session","version":3,"id":"s","cwd":"/w"}
{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"é\n\"hi\""}}
{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"ls","arguments":{"a":1}}],"usage":{"input":1}}}
{"type":"message","id":"3","parentId":"2","message":{"role":"toolResult","toolCallId":"c","content":[{"type":"text","text":"x"}]}}
{"type":"compaction","id":"4","parentId":"3","summary":"sum","firstKeptEntryId":"2"}
"#
        .to_owned(),
        Format::SweAgent => r#"{"environment":"e","info":{"swe_agent_version":"1"},"history":[{"role":"user","content":"é\n\"hi\""},{"role":"assistant","content":"c","thought":"t","action":"ls"},{"role":"user","content":"x"}],"trajectory":[{"action":"ls"}]}"#.to_owned(),
        Format::AnthropicMessages => r#"{"model":"claude-x","system":"s","messages":[{"role":"user","content":"é\n\"hi\""},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"ls","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}]}"#.to_owned(),
        _ => r#"{"model":"gpt-x","messages":[{"role":"user","content":"é\n\"hi\""},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}]}"#.to_owned(),
    }
}

/// Reads the input, checks that the engine can use the result, and that visiting it gives the same.
fn agree(format: Format, input: &[u8]) -> Option<Transcript> {
    let mut visited = Vec::new();
    let visit = visit_as(format, Cursor::new(input), &mut |_, message| visited.push(message));
    let read = read_as(format, input);
    let is_list = |text: &&str| text.trim_start_matches('\u{feff}').trim_start().starts_with('[');
    // A message per line is supported by the reader, not by the log.
    if let (Format::OpencodeMessages, Some(text)) = (format, std::str::from_utf8(input).ok().filter(is_list))
    {
        // The log reads the same by itself, except for texts that the reader repairs.
        match (&read, plimsoll::Message::read_noted(text)) {
            (Ok(read), Ok((messages, notes))) => {
                assert_eq!((&read.messages, &read.notes), (&messages, &notes));
            }
            (Err(_), Err(_)) => {}
            (read, own) => {
                assert!(text.contains("\\ud") || text.starts_with('\u{feff}'), "{read:?} {own:?}");
            }
        }
    }
    match read {
        Ok(read) => {
            let rest = visit.unwrap();
            assert_eq!(rest.notes, read.notes);
            assert_eq!((&rest.skipped, &rest.unused, rest.torn), (&read.skipped, &read.unused, read.torn));
            let sides = read.side_chains.iter().flat_map(|chain| &chain.messages);
            assert!(visited.iter().eq(read.messages.iter().chain(sides)));
            Some(read)
        }
        Err(error) => {
            assert_eq!(visit.unwrap_err().to_string(), error.to_string());
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

#[test]
fn a_truncated_file_is_read_up_to_its_end() {
    for (format, whole) in samples() {
        for end in 0..=whole.len() {
            let read = agree(format, &whole.as_bytes()[..end]);
            if format.is_lines() && end > 0 {
                let read = read.unwrap_or_else(|| panic!("{format} up to {end}"));
                assert!(read.broken.is_none() || !read.torn, "{format} up to {end}: {:?}", read.broken);
                assert!(
                    !read.skipped.contains_key(BROKEN),
                    "a torn line is not broken: {format} up to {end}"
                );
            }
        }
    }
}

#[test]
fn any_changed_byte_is_handled() {
    for (format, whole) in samples() {
        let whole = whole.into_bytes();
        for at in (0..whole.len()).step_by(3) {
            for byte in [0, b'"', b'{', b'}', b'[', b'9', b'\n', 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                agree(format, &changed);
            }
        }
    }
}

/// Returns all locations in a value as JSON pointers, outermost first.
fn places(value: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().enumerate().for_each(|(at, item)| {
                let path = format!("{path}/{at}");
                found.push(path.clone());
                walk(item, &path, found);
            }),
            Value::Object(map) => map.iter().for_each(|(key, item)| {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                found.push(path.clone());
                walk(item, &path, found);
            }),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}

/// Returns the texts that the model saw, and the metadata of the session.
fn content(read: &Transcript) -> String {
    let bare = |message: &plimsoll::Message| {
        let mut message = message.clone();
        message.info.extra.clear();
        message
    };
    let messages: Vec<plimsoll::Message> = read.messages.iter().map(bare).collect();
    let sides: Vec<String> = read.side_chains.iter().map(content).collect();
    format!("{messages:?} {:?} {sides:?}", read.info)
}

/// Whether a value now occurs as the input of a call or as text, and did not occur as often before. For a list, whether
/// its items do.
fn is_kept(now: &str, before: &str, value: &Value) -> bool {
    let more = |text: &str| text.is_empty() || now.matches(text).count() > before.matches(text).count();
    match value {
        Value::Array(items) => items.iter().all(|item| is_kept(now, before, item)),
        Value::String(text) => more(text),
        other => *other == json!({}) || more(&other.to_string()),
    }
}

/// Returns all reports about invalid content.
fn said_about(read: &Transcript) -> String {
    let sides: Vec<String> = read.side_chains.iter().map(said_about).collect();
    format!("{:?} {:?} {:?} {:?} {sides:?}", read.notes.first(), read.skipped, read.unused, read.broken)
}

#[test]
fn any_value_of_another_type_is_handled_and_reported() {
    let others = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("other"),
        json!([]),
        json!({}),
        json!([[{ "type": "text" }, 7]]),
    ];
    let mut passed_over = Vec::new();
    for (format, whole) in samples() {
        let plain = read_as(format, whole.as_bytes()).unwrap();
        assert!(plain.notes.is_empty(), "{format}: {:?}", plain.notes);
        let (before, said_before) = (content(&plain), said_about(&plain));
        if format == Format::Aider {
            continue;
        }
        let records: Vec<&str> = whole.lines().collect();
        for (at, record) in records.iter().enumerate() {
            let value: Value = serde_json::from_str(record).unwrap();
            for place in places(&value) {
                for other in &others {
                    let mut changed = value.clone();
                    let was = std::mem::replace(changed.pointer_mut(&place).unwrap(), other.clone());
                    let mut lines: Vec<String> = records.iter().map(|line| (*line).to_owned()).collect();
                    lines[at] = changed.to_string();
                    let read = agree(format, lines.join("\n").as_bytes());
                    let list = [
                        "messages",
                        "history",
                        "trajectory",
                        "conversation",
                        "steps",
                        "agent_steps",
                        "llm_interactions",
                    ];
                    let is_list = list.iter().any(|list| place.trim_start_matches('/') == *list);
                    let is_message = place.trim_start_matches("/messages").matches('/').count() == 1
                        && matches!(format, Format::OpencodeExport | Format::OpencodeMessages);
                    let Some(read) = read else {
                        if !is_list && !is_message {
                            passed_over
                                .push(format!("{format}: {place} of line {at} as {other} is an error"));
                        }
                        continue;
                    };
                    if !matches!(format, Format::OpencodeExport | Format::OpencodeMessages) {
                        check(&read);
                    }
                    // A tool's input and output can be anything.
                    let is_free = [
                        "/system",
                        "/input",
                        "/arguments",
                        "/content",
                        "/output",
                        "/args",
                        "/result",
                        "/thought",
                        "/extended_content",
                        "/rubric",
                        "/summary",
                    ];
                    let now = content(&read);
                    if now == before {
                        continue;
                    }
                    let is_free = is_free.iter().any(|free| place.contains(free));
                    if is_free && is_kept(&now.replace("\\\"", "\""), &before.replace("\\\"", "\""), other) {
                        continue;
                    }
                    // Some tools write times as numbers of seconds; of a structured result only small objects are kept.
                    let times = [
                        "timestamp",
                        "startTime",
                        "lastUpdated",
                        "created",
                        "created_at",
                        "updated_at",
                        "ts",
                        "time",
                        "processed_at",
                        "start_time",
                        "end_time",
                    ];
                    let is_time = place.rsplit('/').next().is_some_and(|key| times.contains(&key));
                    let is_seconds = is_time
                        && (was.is_string() || was.is_number())
                        && other.as_f64().is_some_and(|seconds| (0.0..1e17).contains(&seconds));
                    if is_seconds || place.starts_with("/toolUseResult") {
                        continue;
                    }
                    // These fields have two types: OpenHands' ids are numbers or texts, Kimi's prompts are texts or
                    // lists, and origins are texts or objects. A null in the sample may also have the type it gets
                    // here.
                    let field = place.rsplit('/').next().unwrap_or_default();
                    let is_either = match (format, field) {
                        (Format::Openhands, "id") => other.is_string() || other.as_u64().is_some(),
                        (Format::Kimi, "user_input") => other.is_string() || *other == json!([]),
                        (Format::Kimi, "origin") => other.is_string(),
                        (Format::Kimi, "encrypted") => was.is_null() && other.is_string(),
                        (Format::Trae, "usage") => was.is_null() && other.is_object(),
                        _ => false,
                    };
                    if is_either {
                        continue;
                    }
                    let same_type = std::mem::discriminant(&was) == std::mem::discriminant(other);
                    let is_absent = other.is_null() || *other == json!("");
                    if !same_type && !is_absent && said_about(&read) == said_before {
                        passed_over.push(format!("{format}: {place} of line {at}, {was} as {other}"));
                    }
                }
            }
        }
    }
    assert!(passed_over.is_empty(), "nothing is said about these:\n{}", passed_over.join("\n"));
}

/// Runs the fuzzer's seeds like its targets: with any format, and with the format that the first byte selects.
#[test]
fn the_seeds_of_the_fuzzer_are_handled() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
    let all: Vec<Format> =
        Format::ALL.into_iter().filter(|format| *format != Format::OpencodeDatabase).collect();
    let mut met = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if bytes.starts_with(b"SQLite") {
            let database = plimsoll_formats::database::Database::open(&path).unwrap();
            assert!(!database.read(None).unwrap().messages.is_empty(), "{}", path.display());
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
            continue;
        }
        for format in &all {
            agree(*format, &bytes);
        }
        let (first, rest) = bytes.split_first().unwrap();
        // As in the target `formats`: `0` and the characters after it select by position, so that the seeds keep their formats
        // when one is added at the end.
        let position = first.checked_sub(b'0').map(usize::from);
        let chosen = position.and_then(|position| all.get(position));
        let format = *chosen.unwrap_or(&all[usize::from(*first) % all.len()]);
        if agree(format, rest).is_some_and(|read| !read.messages.is_empty() && read.skipped.is_empty()) {
            met.insert(format);
        }
    }
    let missing: Vec<_> = all.iter().filter(|format| !met.contains(*format)).collect();
    assert!(missing.is_empty(), "no seed is read whole as {missing:?}");
}

#[test]
fn nesting_of_a_hundred_thousand_levels_is_rejected() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let objects = "{\"a\":".repeat(100_000) + "1" + &"}".repeat(100_000);
    for (format, whole) in samples().into_iter().filter(|(format, _)| *format != Format::Aider) {
        for deep in [&deep, &objects] {
            let whole = whole.replacen("\"x\"", deep, 1);
            match agree(format, whole.as_bytes()) {
                Some(read) => assert_eq!(read.skipped.get(BROKEN), Some(&1), "{format}: {:?}", read.skipped),
                None => assert!(!format.is_lines(), "{format}"),
            }
        }
    }
}

#[test]
fn a_line_of_a_hundred_megabytes_is_read() {
    let start = Instant::now();
    let text = "x".repeat(100_000_000);
    let line = sample(Format::Codex)
        + &format!(
            r#"{{"type":"response_item","payload":{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}}}"#
        );
    let mut longest = 0;
    visit_as(Format::Codex, Cursor::new(line), &mut |_, message| longest = longest.max(message.text().len()))
        .unwrap();
    assert_eq!(longest, text.len());
    // Generous, for slow machines without optimisation: it takes about a second.
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[rstest]
#[case::utf16_le(|text: &str| [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect())]
#[case::utf16_be(|text: &str| [0xfe, 0xff].into_iter().chain(text.encode_utf16().flat_map(u16::to_be_bytes)).collect())]
#[case::latin_1(|text: &str| text.chars().map(|letter| letter as u8).collect())]
#[case::with_a_mark(|text: &str| ["\u{feff}", text].concat().into_bytes())]
#[case::with_carriage_returns(|text: &str| text.replace('\n', "\r\n").into_bytes())]
#[case::with_zeros(|text: &str| text.replace("hi", "h\0i").into_bytes())]
fn other_encodings_are_read_or_reported(#[case] encode: fn(&str) -> Vec<u8>) {
    for (format, whole) in samples() {
        let bytes = encode(&whole);
        let plain = read(whole.as_bytes()).unwrap();
        agree(format, &bytes);
        match read(&bytes[..]) {
            // Omitted content is counted.
            Ok(read) => {
                // In plain text such a byte is an ordinary character.
                let is_text = format == Format::Aider;
                assert!(
                    read.messages == plain.messages || read.skipped.contains_key(BROKEN) || is_text,
                    "{format}"
                );
            }
            Err(error) => assert!(!error.to_string().is_empty(), "{format}"),
        }
    }
}

#[test]
fn trees_of_all_kinds_are_walked() {
    let record = |uuid: &str, parent: &str, side: bool| {
        format!(
            r#"{{"type":"user","uuid":"{uuid}","parentUuid":{parent},"isSidechain":{side},"message":{{"content":"{uuid}"}}}}"#
        )
    };
    let trees = [
        vec![record("1", "\"1\"", false)],
        vec![record("1", "\"2\"", false), record("2", "\"3\"", false), record("3", "\"1\"", false)],
        vec![record("1", "null", false), record("1", "null", false), record("2", "\"1\"", false)],
        vec![record("1", "null", false), record("2", "\"gone\"", false), record("3", "\"gone too\"", false)],
        vec![record("1", "\"x\"", false), record("x", "\"1\"", true)],
        vec![record("x", "\"x\"", true), record("y", "\"z\"", true), record("z", "\"y\"", true)],
        vec![
            record("1", "null", false),
            record("x", "\"1\"", true),
            record("y", "\"x\"", true),
            record("2", "\"y\"", false),
        ],
    ];
    for tree in trees {
        let read = agree(Format::ClaudeCode, tree.join("\n").as_bytes()).unwrap();
        check(&read);
        assert!(!read.messages.is_empty() || !read.side_chains.is_empty(), "{tree:?}");
        let entries: Vec<String> = tree
            .iter()
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                json!({ "type": "message", "id": line["uuid"], "parentId": line["parentUuid"],
                    "message": { "role": "user", "content": line["uuid"] } })
                .to_string()
            })
            .collect();
        check(&agree(Format::Pi, entries.join("\n").as_bytes()).unwrap());
    }
}

#[test]
fn very_many_small_chains_and_open_calls_are_handled() {
    let mut side = String::new();
    let mut calls = String::new();
    for number in 0..20_000 {
        side += &format!(
            "{{\"type\":\"user\",\"uuid\":\"{number}\",\"parentUuid\":null,\"isSidechain\":{},\"message\":{{\"content\":\"x\"}}}}\n",
            number > 0
        );
        calls += &format!(
            "{{\"type\":\"response_item\",\"payload\":{{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"{{}}\",\"call_id\":\"{number}\"}}}}\n{{\"type\":\"response_item\",\"payload\":{{\"type\":\"message\",\"role\":\"user\",\"content\":\"x\"}}}}\n"
        );
    }
    assert_eq!(agree(Format::ClaudeCode, side.as_bytes()).unwrap().side_chains.len(), 19_999);
    assert_eq!(agree(Format::Codex, calls.as_bytes()).unwrap().messages.len(), 40_000);
}

#[test]
fn a_very_late_result_is_kept_as_a_separate_part() {
    let mut input = String::from(
        "{\"type\":\"response_item\",\"payload\":{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"{}\",\"call_id\":\"c\"}}\n",
    );
    let text = "x".repeat(1 << 20);
    for _ in 0..20 {
        input += &format!(
            "{{\"type\":\"response_item\",\"payload\":{{\"type\":\"message\",\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        );
    }
    input += "{\"type\":\"response_item\",\"payload\":{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"late\"}}\n";
    let read = agree(Format::Codex, input.as_bytes()).unwrap();
    assert_eq!(read.messages.len(), 22);
    assert_eq!(crate::support::shape(&read.messages[21..]), ["user result(c):late"]);
}

/// A record of a generated tree: its kind, its parent (an earlier or later record), and its session.
#[derive(Clone, Debug)]
struct Leaf {
    kind: usize,
    parent: Option<usize>,
    group: usize,
    side: bool,
}

fn leaves() -> impl Strategy<Value = Vec<Leaf>> {
    let leaf = (0..6usize, prop::option::weighted(0.9, 0..30usize), 0..5usize, prop::bool::weighted(0.2));
    let leaf = leaf.prop_map(|(kind, parent, group, side)| Leaf { kind, parent, group, side });
    prop::collection::vec(leaf, 1..30)
}

/// Writes the records in Claude Code's format; each contains its number, as a text or as a result.
fn claude_code(leaves: &[Leaf]) -> String {
    let record = |(number, leaf): (usize, &Leaf)| {
        let words = format!("<{number}>");
        let text = json!({ "type": "text", "text": words });
        let (kind, content) = match leaf.kind {
            0 | 1 => ("user", json!([text])),
            2 => (
                "user",
                json!([{ "type": "tool_result", "tool_use_id": format!("c{}", leaf.group), "content": words }]),
            ),
            3 => (
                "assistant",
                json!([text, { "type": "tool_use", "id": format!("c{}", leaf.group), "name": "f", "input": {} }]),
            ),
            _ => ("assistant", json!([text])),
        };
        let message =
            json!({ "id": (kind == "assistant").then(|| format!("r{}", leaf.group)), "content": content });
        json!({ "type": kind, "uuid": format!("u{number}"), "parentUuid": leaf.parent.map(|parent| format!("u{parent}")),
            "isSidechain": leaf.side, "message": message })
        .to_string()
    };
    leaves.iter().enumerate().map(record).collect::<Vec<_>>().join("\n")
}

fn said(transcript: &Transcript) -> usize {
    let parts = transcript.messages.iter().flat_map(|message| &message.parts);
    let texts = parts.filter(|part| match &part.body {
        PartBody::Text(_) | PartBody::ToolResult(_) => true,
        PartBody::Tool(tool) => tool.state.status.is_final(),
        _ => false,
    });
    let left = transcript.unused.get("record of another branch").copied().unwrap_or(0) as usize;
    texts.count() + left + transcript.side_chains.iter().map(said).sum::<usize>()
}

proptest! {
    #[test]
    fn properties_every_record_of_a_tree_is_shown_or_counted(leaves in leaves()) {
        let read = agree(Format::ClaudeCode, claude_code(&leaves).as_bytes()).unwrap();
        check(&read);
        prop_assert_eq!(said(&read), leaves.len());
    }

    #[test]
    fn properties_items_of_codex_in_any_order_are_all_read(leaves in leaves()) {
        let item = |(number, leaf): (usize, &Leaf)| {
            let (words, call) = (format!("<{number}>"), format!("c{}", leaf.group));
            let payload = match leaf.kind {
                0 => json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": words }] }),
                1 => json!({ "type": "reasoning", "summary": [{ "type": "summary_text", "text": words }] }),
                2 => json!({ "type": "function_call_output", "call_id": call, "output": words }),
                3 => json!({ "type": "function_call", "name": "f", "arguments": "{}", "call_id": call }),
                _ => json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": words }] }),
            };
            json!({ "type": "response_item", "payload": payload }).to_string()
        };
        let input = leaves.iter().enumerate().map(item).collect::<Vec<_>>().join("\n");
        let read = agree(Format::Codex, input.as_bytes()).unwrap();
        check(&read);
        let thoughts_and_calls = leaves.iter().filter(|leaf| matches!(leaf.kind, 1 | 3)).count();
        prop_assert_eq!(said(&read), leaves.len() - thoughts_and_calls);
    }
}
