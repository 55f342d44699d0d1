//! Properties of real files that the tools do not document: each case was once read wrongly.

use plimsoll::Tokens;
use plimsoll_formats::Format;

use crate::support::{read_ok, shape};

fn lines(records: &[&str]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

#[test]
fn records_after_a_result_on_a_side_branch_are_included() {
    // The call's progress and its result are siblings. The conversation continued after the result, but the next prompt
    // has the progress as its parent.
    let read = read_ok(&lines(&[
        r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"content":"start"}}"#,
        r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"s","message":{"id":"r1","content":[{"type":"tool_use","id":"c1","name":"Task","input":{}}]}}"#,
        r#"{"type":"progress","uuid":"p1","parentUuid":"a1","sessionId":"s"}"#,
        r#"{"type":"user","uuid":"t1","parentUuid":"a1","sessionId":"s","message":{"content":[{"type":"tool_result","tool_use_id":"c1","content":"done"}]}}"#,
        r#"{"type":"assistant","uuid":"a2","parentUuid":"t1","sessionId":"s","message":{"id":"r2","content":[{"type":"tool_use","id":"c2","name":"Read","input":{}}]}}"#,
        r#"{"type":"progress","uuid":"p2","parentUuid":"a2","sessionId":"s"}"#,
        r#"{"type":"user","uuid":"t2","parentUuid":"p2","sessionId":"s","message":{"content":[{"type":"tool_result","tool_use_id":"c2","content":"text"}]}}"#,
        r#"{"type":"assistant","uuid":"a3","parentUuid":"t2","sessionId":"s","message":{"id":"r3","content":[{"type":"text","text":"It is so."}]}}"#,
        r#"{"type":"user","uuid":"u2","parentUuid":"p1","sessionId":"s","message":{"content":"and now?"}}"#,
        r#"{"type":"assistant","uuid":"a4","parentUuid":"u2","sessionId":"s","message":{"id":"r4","content":[{"type":"text","text":"Done."}]}}"#,
    ]));
    assert_eq!(
        shape(&read.messages),
        [
            "user text:start",
            "assistant [tool-calls] Task{}=done",
            "assistant [tool-calls] Read{}=text",
            "assistant [stop] text:It is so.",
            "user text:and now?",
            "assistant text:Done.",
        ]
    );
    assert_eq!(read.unused.get("record of another branch"), None);
}

#[test]
fn an_abandoned_branch_is_not_included_even_if_its_calls_have_results() {
    let read = read_ok(&lines(&[
        r#"{"type":"user","uuid":"u1","parentUuid":null,"message":{"content":"start"}}"#,
        r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"id":"r1","content":[{"type":"text","text":"ok"}]}}"#,
        r#"{"type":"user","uuid":"u2","parentUuid":"a1","message":{"content":"old try"}}"#,
        r#"{"type":"assistant","uuid":"a2","parentUuid":"u2","message":{"id":"r2","content":[{"type":"tool_use","id":"c1","name":"Read","input":{}}]}}"#,
        r#"{"type":"user","uuid":"t1","parentUuid":"a2","message":{"content":[{"type":"tool_result","tool_use_id":"c1","content":"old"}]}}"#,
        r#"{"type":"user","uuid":"u3","parentUuid":"a1","message":{"content":"new try"}}"#,
    ]));
    assert_eq!(shape(&read.messages), ["user text:start", "assistant [stop] text:ok", "user text:new try"]);
    assert_eq!(read.unused["record of another branch"], 3);
}

#[test]
fn of_several_claude_code_sessions_in_one_file_the_newest_is_read() {
    let read = read_ok(&lines(&[
        r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"one","cwd":"/one","message":{"content":"first"}}"#,
        r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"one","message":{"id":"r1","model":"claude-x","content":[{"type":"text","text":"1"}],"usage":{"input_tokens":7,"output_tokens":1}}}"#,
        r#"{"type":"ai-title","aiTitle":"The first","sessionId":"one"}"#,
        r#"{"type":"user","uuid":"u2","parentUuid":null,"sessionId":"two","cwd":"/two","message":{"content":"second"}}"#,
        r#"{"type":"assistant","uuid":"a2","parentUuid":"u2","sessionId":"two","message":{"id":"r2","model":"claude-x","content":[{"type":"text","text":"2"}],"usage":{"input_tokens":9,"output_tokens":1}}}"#,
    ]));
    assert_eq!(shape(&read.messages), ["user text:second", "assistant text:2"]);
    let info = &read.info;
    assert_eq!(
        (info.id.as_deref(), info.directory.as_deref(), info.title.as_deref()),
        (Some("two"), Some("/two"), None)
    );
    let others: Vec<_> =
        read.other_sessions.iter().map(|info| (info.id.as_deref(), info.title.as_deref())).collect();
    assert_eq!(others, [(Some("one"), Some("The first"))]);
    assert_eq!(read.unused["record of another session"], 2);
    let inputs: Vec<Tokens> = read.recorded.responses().map(|response| response.input).collect();
    assert_eq!(inputs, [Tokens(9)], "the other session's usage is not this one's");
}

#[test]
fn a_resumed_session_is_one_whatever_its_ids() {
    let read = read_ok(&lines(&[
        r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"one","cwd":"/w","message":{"content":"first"}}"#,
        r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"one","message":{"id":"r1","content":[{"type":"text","text":"1"}]}}"#,
        r#"{"type":"user","uuid":"u2","parentUuid":"a1","sessionId":"two","cwd":"/w","message":{"content":"second"}}"#,
    ]));
    assert_eq!(read.messages.len(), 3);
    assert_eq!((read.info.id.as_deref(), read.other_sessions.len()), (Some("one"), 0));
}

#[test]
fn of_several_codex_sessions_in_one_file_the_newest_is_read() {
    let said = |text: &str| {
        format!(
            r#"{{"type":"response_item","payload":{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}}}"#
        )
    };
    let meta = |id: &str| {
        format!(r#"{{"type":"session_meta","payload":{{"id":"{id}","cwd":"/{id}","cli_version":"1"}}}}"#)
    };
    let (one, parent, two) = (meta("one"), meta("parent"), meta("two"));
    let (first, second) = (said("first"), said("second"));
    let read = read_ok(&lines(&[&one, &first, &two, &parent, &second]));
    assert_eq!(shape(&read.messages), ["user text:second"]);
    assert_eq!(
        read.info.id.as_deref(),
        Some("two"),
        "a fork repeats its parent's record, which is not a session here"
    );
    assert_eq!(read.other_sessions.iter().map(|info| info.id.as_deref()).collect::<Vec<_>>(), [Some("one")]);
    assert_eq!(read.unused["record of another session"], 2);
    let resumed = read_ok(&lines(&[&one, &first, &one, &second]));
    assert_eq!((resumed.messages.len(), resumed.other_sessions.len()), (2, 0));
}

#[test]
fn of_several_pi_sessions_in_one_file_the_newest_is_read() {
    let read = read_ok(&lines(&[
        r#"{"type":"session","id":"one","cwd":"/one","timestamp":"2026-01-01T00:00:00Z"}"#,
        r#"{"type":"message","message":{"role":"user","content":"first"}}"#,
        r#"{"type":"session","id":"two","cwd":"/two","timestamp":"2026-01-02T00:00:00Z"}"#,
        r#"{"type":"message","message":{"role":"user","content":"second"}}"#,
    ]));
    assert_eq!(shape(&read.messages), ["user text:second"]);
    assert_eq!((read.info.id.as_deref(), read.other_sessions[0].id.as_deref()), (Some("two"), Some("one")));
}

#[test]
fn records_of_newer_versions_are_known() {
    let kinds = [
        "agent-name",
        "bridge-session",
        "file-history-delta",
        "attribution-snapshot",
        "cost-state",
        "frame-link",
    ];
    let mut file =
        r#"{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","message":{"content":"hello"}}"#
            .to_owned();
    kinds.iter().for_each(|kind| file += &format!("\n{{\"type\":\"{kind}\",\"sessionId\":\"s\"}}"));
    let read = read_ok(&file);
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    assert!(kinds.iter().all(|kind| read.unused[*kind] == 1), "{:?}", read.unused);
}

/// An export of chat messages that writes each block of a response separately, with a count for each.
const EXPORT: &str = r#"{"meta":{"session_meta":{"session_id":"s","cwd":"/w"},"token_counts":[
    {"type":"token_count","_timestamp":"2026-01-01T00:00:01.000Z","info":{"last_token_usage":{"input_tokens":3,"cached_input_tokens":100,"output_tokens":1}}},
    {"type":"token_count","_timestamp":"2026-01-01T00:00:02.000Z","info":{"last_token_usage":{"input_tokens":3,"cached_input_tokens":100,"output_tokens":40}}},
    {"type":"token_count","_timestamp":"2026-01-01T00:00:04.000Z","info":{"last_token_usage":{"input_tokens":3,"cached_input_tokens":100,"output_tokens":40}}},
    {"type":"token_count","_timestamp":"2026-01-01T00:00:07.000Z","info":{"last_token_usage":{"input_tokens":5,"cached_input_tokens":180,"output_tokens":6},"model_context_window":353400}}
  ]},"messages":[
    {"role":"user","content":[{"type":"text","text":"Look"}],"_metadata":{"timestamp":"2026-01-01T00:00:00.000Z"}},
    {"role":"assistant","content":[{"type":"text","text":"I look."}],"_metadata":{"timestamp":"2026-01-01T00:00:01.000Z"}},
    {"role":"assistant","content":[{"type":"tool_call","tool_call_id":"c1","name":"Read","arguments":"{}"}],"_metadata":{"timestamp":"2026-01-01T00:00:02.000Z"}},
    {"role":"tool","tool_call_id":"c1","content":[{"type":"tool_output","text":"one"}],"_metadata":{"timestamp":"2026-01-01T00:00:03.000Z"}},
    {"role":"assistant","content":[{"type":"tool_call","tool_call_id":"c2","name":"Read","arguments":"{}"}],"_metadata":{"timestamp":"2026-01-01T00:00:04.000Z"}},
    {"role":"tool","tool_call_id":"c2","content":[{"type":"tool_output","text":"two"}],"_metadata":{"timestamp":"2026-01-01T00:00:05.000Z"}},
    {"role":"assistant","content":[{"type":"text","text":"Seen."}],"_metadata":{"timestamp":"2026-01-01T00:00:07.000Z"}}
]}"#;

#[test]
fn messages_that_are_one_response_are_one_call() {
    let read = read_ok(EXPORT);
    assert_eq!(
        shape(&read.messages),
        [
            "user text:Look",
            "assistant [tool-calls] text:I look. Read{}=one Read{}=two",
            "assistant text:Seen.",
        ]
    );
    let usage: Vec<_> = read.recorded.responses().map(|r| (r.input, r.cache_read, r.output)).collect();
    let [first, second] = [(Tokens(3), Tokens(100), Tokens(40)), (Tokens(5), Tokens(180), Tokens(6))];
    assert_eq!(usage, [first, second]);
    assert_eq!(read.messages[1].info.tokens.as_ref().unwrap().output, Tokens(40));
    assert_eq!(read.info.context, Some(Tokens(353_400)));
}

#[test]
fn without_counts_consecutive_messages_are_one_response() {
    let read = read_ok(
        r#"[{"role":"user","content":"Look"},
        {"role":"assistant","content":"I look."},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c2","function":{"name":"g","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"one"},
        {"role":"tool","tool_call_id":"c2","content":"two"},
        {"role":"assistant","content":"Seen."},
        {"role":"user","content":"More"},
        {"role":"assistant","id":"x","content":"a"},
        {"role":"assistant","id":"y","content":"b"}]"#,
    );
    assert_eq!(
        shape(&read.messages),
        [
            "user text:Look",
            "assistant [tool-calls] text:I look. f{}=one g{}=two",
            "assistant [stop] text:Seen.",
            "user text:More",
            "assistant [stop] text:a",
            "assistant text:b",
        ],
        "two that are named are two"
    );
}

#[test]
fn cached_input_that_is_part_of_the_input_is_not_counted_twice() {
    let read = read_ok(
        r#"{"meta":{"token_counts":[
        {"type":"token_count","_timestamp":"2026-01-01T00:00:02.000Z","info":{"last_token_usage":{"input_tokens":1000,"cached_input_tokens":900,"output_tokens":10,"reasoning_output_tokens":4}}}]},
        "messages":[{"role":"user","content":"x","_metadata":{"timestamp":"2026-01-01T00:00:00.000Z"}},
        {"role":"assistant","content":"y","_metadata":{"timestamp":"2026-01-01T00:00:01.000Z"}}]}"#,
    );
    let response = read.recorded.responses().next().unwrap();
    assert_eq!(
        (response.input, response.cache_read, response.output),
        (Tokens(100), Tokens(900), Tokens(10))
    );
    assert_eq!(read.messages[1].info.tokens.as_ref().unwrap().reasoning, Tokens(4));
}

#[test]
fn an_answer_has_the_output_of_its_last_count() {
    let read = read_ok(
        r#"{"meta":{"token_counts":[
        {"type":"token_count","_timestamp":"2026-01-01T00:00:01.000Z","info":{"last_token_usage":{"input_tokens":3,"cached_input_tokens":900,"output_tokens":1}}},
        {"type":"token_count","_timestamp":"2026-01-01T00:00:02.000Z","info":{"last_token_usage":{"input_tokens":3,"cached_input_tokens":900,"output_tokens":85}}}]},
        "messages":[{"role":"user","content":"x","_metadata":{"timestamp":"2026-01-01T00:00:00.000Z"}},
        {"role":"assistant","content":"y","_metadata":{"timestamp":"2026-01-01T00:00:01.000Z"}}]}"#,
    );
    let outputs: Vec<Tokens> = read.recorded.responses().map(|response| response.output).collect();
    assert_eq!(outputs, [Tokens(85)]);
    assert_eq!(read.messages[1].info.tokens.as_ref().unwrap().output, Tokens(85));
}

#[test]
fn sub_agents_among_the_messages_are_side_chains() {
    let read = read_ok(
        r#"{"messages":[{"role":"user","content":"Delegate"},
        {"role":"assistant","tool_calls":[{"id":"t","function":{"name":"Task","arguments":"{}"}}]},
        {"role":"user-subagent-a1","content":"sub task"},
        {"role":"assistant-subagent-a1","tool_calls":[{"id":"s","function":{"name":"Read","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"s","content":"inside"},
        {"role":"assistant-subagent-a1","content":"found"},
        {"role":"tool","tool_call_id":"t","content":"found it"},
        {"role":"assistant","content":"Done."}]}"#,
    );
    assert_eq!(
        shape(&read.messages),
        ["user text:Delegate", "assistant [tool-calls] Task{}=found it", "assistant text:Done."]
    );
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    assert_eq!(read.side_chains[0].info.id.as_deref(), Some("a1"));
    assert_eq!(
        shape(&read.side_chains[0].messages),
        ["user text:sub task", "assistant [tool-calls] Read{}=inside", "assistant text:found"]
    );
}

#[test]
fn messages_on_a_line_each_are_read() {
    let openai = "{\"role\":\"user\",\"content\":\"Look\"}\n{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}\nnot json\n{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"one\"}\n{\"role\":\"assist";
    let read = read_ok(openai);
    assert_eq!(read.format, Format::OpenaiChat);
    assert_eq!(shape(&read.messages), ["user text:Look", "assistant [tool-calls] f{}=one"]);
    assert!(read.torn);
    assert_eq!((read.broken.unwrap().line, read.skipped["broken line"]), (3, 1));

    let anthropic = lines(&[
        r#"{"timestamp":"2026-01-01T00:00:00Z","role":"user","content":"Look"}"#,
        r#"{"timestamp":"2026-01-01T00:00:01Z","role":"assistant","content":[],"model":"claude-x"}"#,
        r#"{"timestamp":"2026-01-01T00:00:02Z","role":"assistant","content":[{"type":"text","text":"I look."}],"model":"claude-x"}"#,
        r#"{"timestamp":"2026-01-01T00:00:03Z","role":"assistant","content":[{"type":"tool_use","id":"c","name":"Read","input":{}}],"model":"claude-x"}"#,
        r#"{"timestamp":"2026-01-01T00:00:04Z","role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"one"}]}"#,
    ]);
    let read = read_ok(&anthropic);
    assert_eq!(read.format, Format::AnthropicMessages);
    assert_eq!(shape(&read.messages), ["user text:Look", "assistant [tool-calls] text:I look. Read{}=one"]);
    assert_eq!(read.info.model.as_deref(), Some("claude-x"));
    assert!(read.info.started < read.info.updated);
}

#[test]
fn a_result_before_its_call_finds_it() {
    let openai = r#"[{"role":"user","content":"Look"},{"role":"tool","tool_call_id":"c","content":"one"},
        {"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"x"}]"#;
    let codex = lines(&[
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Look"}]}}"#,
        r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"one"}}"#,
        r#"{"type":"response_item","payload":{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}}"#,
        r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}}"#,
    ]);
    let claude = lines(&[
        r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"Look"}}"#,
        r#"{"type":"user","uuid":"2","parentUuid":"1","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"one"}]}}"#,
        r#"{"type":"assistant","uuid":"3","parentUuid":"2","message":{"id":"r","content":[{"type":"tool_use","id":"c","name":"f","input":{}},{"type":"text","text":"x"}]}}"#,
    ]);
    for file in [openai, &codex, &claude] {
        let read = read_ok(file);
        assert_eq!(
            shape(&read.messages),
            ["user text:Look", "assistant [tool-calls] f{}=one text:x"],
            "{file}"
        );
    }
}

#[test]
fn a_result_without_a_call_is_kept() {
    let read = read_ok(
        r#"[{"role":"user","content":"Look"},{"role":"tool","tool_call_id":"lost","content":"one"},{"role":"assistant","content":"x"}]"#,
    );
    assert_eq!(shape(&read.messages), ["user text:Look", "user result(lost):one", "assistant text:x"]);
}

/// Five entries with a compaction that keeps from the entry with number 3, the second question.
fn pi() -> Vec<&'static str> {
    vec![
        r#"{"type":"session","id":"s","cwd":"/w","timestamp":"2026-01-01T00:00:00Z"}"#,
        r#"{"type":"message","message":{"role":"user","content":"one"}}"#,
        r#"{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"1"}]}}"#,
        r#"{"type":"message","message":{"role":"user","content":"two"}}"#,
        r#"{"type":"compaction","summary":"Counting.","firstKeptEntryIndex":3,"timestamp":"2026-01-01T00:00:01Z"}"#,
        r#"{"type":"message","message":{"role":"user","content":"three"}}"#,
    ]
}

#[test]
fn a_pi_file_without_header_or_with_broken_lines_keeps_its_tail() {
    let tail = |file: &str| {
        let read = read_ok(file);
        let start = read.messages.iter().find_map(|message| message.marker()?.tail_start.clone()).unwrap();
        read.messages.iter().find(|message| message.info.id == start).unwrap().text()
    };
    assert_eq!(tail(&lines(&pi())), "two");
    assert_eq!(tail(&lines(&pi()[1..])), "two", "without a header");
    let mut broken = pi();
    broken[0] = r#"{"type":"session","id":"s"#;
    assert_eq!(tail(&lines(&broken)), "two", "with a broken header");
    let mut broken = pi();
    broken[1] = r#"{"type":"message","mess"#;
    assert_eq!(tail(&lines(&broken)), "two", "with a broken line before it");
}

#[test]
fn usage_is_recorded_once_per_response_including_abandoned_branches() {
    let read = read_ok(&lines(&[
        r#"{"type":"user","uuid":"u1","parentUuid":null,"message":{"content":"start"}}"#,
        r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","requestId":"q1","message":{"id":"r1","model":"claude-x","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":3,"cache_creation_input_tokens":50,"cache_read_input_tokens":7,"output_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30}}}}"#,
        r#"{"type":"assistant","uuid":"a2","parentUuid":"a1","requestId":"q1","message":{"id":"r1","model":"claude-x","content":[{"type":"text","text":"b"}],"usage":{"input_tokens":3,"cache_creation_input_tokens":50,"cache_read_input_tokens":7,"output_tokens":90,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30}}}}"#,
        r#"{"type":"assistant","uuid":"x1","parentUuid":null,"isSidechain":true,"message":{"id":"r9","model":"claude-y","content":[{"type":"text","text":"sub"}],"usage":{"input_tokens":4,"output_tokens":2}}}"#,
        r#"{"type":"user","uuid":"u2","parentUuid":"a2","message":{"content":"old"}}"#,
        r#"{"type":"assistant","uuid":"a3","parentUuid":"u2","message":{"id":"r2","model":"claude-x","content":[{"type":"text","text":"c"}],"usage":{"input_tokens":5,"output_tokens":2}}}"#,
        r#"{"type":"assistant","uuid":"a0","parentUuid":"u2","message":{"id":"r3","model":"<synthetic>","content":[{"type":"text","text":"limit"}],"usage":{"input_tokens":0,"output_tokens":0}}}"#,
        r#"{"type":"user","uuid":"u3","parentUuid":"a2","message":{"content":"new"}}"#,
    ]));
    let responses: Vec<_> = read
        .recorded
        .responses()
        .map(|r| {
            (
                r.model.as_deref().unwrap().to_owned(),
                r.input.0,
                r.cache_read.0,
                r.cache_write.0,
                r.cache_write_hour.0,
                r.output.0,
            )
        })
        .collect();
    assert_eq!(
        responses,
        [("claude-x", 3, 7, 50, 30, 90), ("claude-y", 4, 0, 0, 0, 2), ("claude-x", 5, 0, 0, 0, 2)]
            .map(|(model, a, b, c, d, e)| (model.to_owned(), a, b, c, d, e))
    );
    assert_eq!(read.recorded.responses().next().unwrap().request(), Tokens(60));
}

#[test]
fn codex_records_the_window_and_rolled_back_turns() {
    let count = |input: u64, total: u64| {
        format!(
            r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"total_tokens":{total}}},"last_token_usage":{{"input_tokens":{input},"cached_input_tokens":10,"output_tokens":5}},"model_context_window":353400}}}}}}"#
        )
    };
    let said = |role: &str, text: &str| {
        let kind = if role == "user" { "input_text" } else { "output_text" };
        format!(
            r#"{{"type":"response_item","payload":{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"{text}"}}]}}}}"#
        )
    };
    let back = r#"{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}"#;
    let file = lines(&[
        &said("user", "one"),
        &said("assistant", "1"),
        &count(100, 105),
        &count(100, 105),
        &said("user", "two"),
        &said("assistant", "2"),
        &count(200, 310),
        back,
        &said("user", "three"),
        &said("assistant", "3"),
        &count(300, 615),
    ]);
    let read = read_ok(&file);
    assert_eq!(read.info.context, Some(Tokens(353_400)));
    let requests: Vec<Tokens> = read.recorded.responses().map(|response| response.request()).collect();
    assert_eq!(requests, [Tokens(100), Tokens(200), Tokens(300)], "a count that is repeated is one");
    assert_eq!(
        shape(&read.messages),
        ["user text:one", "assistant [stop] text:1", "user text:three", "assistant text:3"]
    );
    assert_eq!(read.messages[3].info.tokens.as_ref().unwrap().input, Tokens(290));
}
