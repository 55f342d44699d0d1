//! OpenCode, OpenAI, Anthropic and SWE-agent: formats that are one JSON document.

use plimsoll_formats::Format;

use crate::support::{read_ok, shape};

#[test]
fn an_opencode_export_is_read_unchanged() {
    let read = read_ok(
        r#"{"info":{"id":"ses_1","title":"T","directory":"/w","version":"1.2","time":{"created":1000000000000,"updated":1000000009000}},
        "messages":[{"info":{"id":"m1","sessionID":"ses_1","role":"user","time":{"created":1000000000001}},"parts":[{"id":"p1","type":"text","text":"hi"}]},
        {"info":{"id":"m2","role":"assistant","modelID":"m","finish":"stop","novel":1},"parts":[{"id":"p2","type":"novel-part","x":1},{"id":"p3","type":"text","text":"ho"}]}]}"#,
    );
    assert_eq!(read.format, Format::OpencodeExport);
    assert_eq!(shape(&read.messages)[0], "user text:hi");
    assert_eq!(read.messages[1].info.extra["novel"], 1);
    assert_eq!(read.messages[1].parts[0].extra["x"], 1);
    let info = &read.info;
    assert_eq!((info.title.as_deref(), info.model.as_deref()), (Some("T"), Some("m")));
    assert_eq!(info.updated.unwrap().0, 1_000_000_009_000);
}

#[test]
fn a_list_of_opencode_messages_is_one_too() {
    let read = read_ok(
        r#"[{"info":{"id":"m1","sessionID":"s","role":"user"},"parts":[{"id":"p","type":"text","text":"hi"}]}]"#,
    );
    assert_eq!(read.format, Format::OpencodeMessages);
    assert_eq!(read.info.id.as_deref(), Some("s"));
}

#[test]
fn openai_messages_in_both_contents() {
    let read = read_ok(
        r#"{"model":"gpt-x","messages":[
        {"role":"developer","content":"Rules"},
        {"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]},
        {"role":"assistant","reasoning_content":"hm","content":"calling","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"not json"}}]},
        {"role":"tool","tool_call_id":"c2","content":[{"type":"tool_output","text":[{"type":"text","text":"two"}]}]},
        {"role":"tool","tool_call_id":"c1","content":"one"},
        {"role":"assistant","function_call":{"name":"old","arguments":"{}"},"content":null},
        {"role":"function","name":"old","content":"three"},
        {"role":"tool","tool_call_id":"unknown","content":"stray"},
        {"role":"narrator","content":"meanwhile"}]}"#,
    );
    assert_eq!(read.format, Format::OpenaiChat);
    assert_eq!(
        shape(&read.messages),
        [
            "system text:Rules",
            "user text:see file:https://x/y.png",
            "assistant [tool-calls] thought:hm text:calling f{\"a\":1}=one g\"not json\"=two",
            "assistant [tool-calls] old{}=three",
            "user result(unknown):stray",
        ]
    );
    assert_eq!(read.skipped["message of role narrator"], 1);
}

#[test]
fn an_anthropic_request() {
    let read = read_ok(
        r#"{"model":"claude-x","max_tokens":10,"messages":[
        {"role":"user","content":"hi"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"S"},{"type":"redacted_thinking","data":"D"},{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"out","is_error":true},{"type":"text","text":"and?"},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"UA=="}}]}],
        "system":[{"type":"text","text":"Rules"}]}"#,
    );
    assert_eq!(read.format, Format::AnthropicMessages);
    assert_eq!(
        shape(&read.messages),
        [
            "system text:Rules",
            "user text:hi",
            "assistant [tool-calls] thought:t thought: f{\"a\":1}!out",
            "user text:and? file:data:application/pdf;base64,UA==",
        ]
    );
}

#[test]
fn swe_agent_commands_are_calls() {
    let read = read_ok(
        r#"{"environment":"repo-1","trajectory":[{"action":"ls"}],"info":{"swe_agent_version":"1.1"},"history":[
        {"role":"system","content":"Rules","agent":"main"},
        {"role":"user","content":[{"type":"text","text":"Fix it"}],"agent":"main"},
        {"role":"assistant","content":"I look.\n```\nls -a\n```","thought":"I look.","action":"ls -a\n","tool_calls":null},
        {"role":"user","content":"file","message_type":"observation"},
        {"role":"assistant","content":"Edit","thought":"Edit","action":"edit x","tool_calls":[{"id":"c","type":"function","function":{"name":"edit","arguments":"{\"f\":\"x\"}"}}]},
        {"role":"tool","content":[{"type":"text","text":"done"}],"tool_call_ids":["c"]},
        {"role":"assistant","content":"Bye","thought":"Bye","action":""}]}"#,
    );
    assert_eq!(read.format, Format::SweAgent);
    assert_eq!(
        shape(&read.messages),
        [
            "system text:Rules",
            "user text:Fix it",
            "assistant [tool-calls] text:I look. ls{\"command\":\"ls -a\"}=file",
            "assistant [tool-calls] text:Edit edit{\"f\":\"x\"}=done",
            "assistant text:Bye",
        ]
    );
}

#[test]
fn a_trajectory_without_history_is_read_from_its_steps() {
    let read = read_ok(
        r#"{"trajectory":[{"action":"ls","thought":"look","observation":"a"},{"action":"","response":"bye","observation":""}]}"#,
    );
    assert_eq!(
        shape(&read.messages),
        ["assistant [tool-calls] text:look ls{\"command\":\"ls\"}=a", "assistant text:bye"]
    );
}

#[test]
fn blank_arguments_are_an_empty_input() {
    let read = read_ok(
        r#"[{"role":"user","content":"go"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":""}},{"id":"b","function":{"name":"g","arguments":" \n"}}]}]"#,
    );
    assert_eq!(shape(&read.messages), ["user text:go", "assistant [tool-calls] f{}… g{}…"]);
}

#[test]
fn results_with_one_id_belong_to_its_calls_in_order() {
    let read = read_ok(
        r#"[{"role":"user","content":"go"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}},{"id":"c","function":{"name":"g","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c","content":"one"},
        {"role":"tool","tool_call_id":"c","content":"two"},
        {"role":"tool","tool_call_id":"c","content":"three"}]"#,
    );
    assert_eq!(
        shape(&read.messages),
        ["user text:go", "assistant [tool-calls] f{}=one g{}=two", "user result(c):three"]
    );
}

#[test]
fn an_abandoned_call_does_not_take_a_later_turns_result() {
    let read = read_ok(
        r#"[{"role":"user","content":"go"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},
        {"role":"user","content":"stop, do that"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"g","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c","content":"done"}]"#,
    );
    assert_eq!(
        shape(&read.messages),
        [
            "user text:go",
            "assistant [tool-calls] f{}…",
            "user text:stop, do that",
            "assistant [tool-calls] g{}=done"
        ]
    );
}

/// A window shows no text file as a file, so the content of such a document must become text. Otherwise it would be
/// missing from windows, counts and conversions.
#[test]
fn the_content_of_a_text_document_becomes_text() {
    let read = read_ok(
        r#"{"model":"claude-x","messages":[
        {"role":"user","content":[
            {"type":"document","title":"notes.txt","source":{"type":"text","media_type":"text/plain","data":"Nine metres"}},
            {"type":"document","source":{"type":"text","data":"Ten metres"}},
            {"type":"document","title":"log.txt","source":{"type":"base64","media_type":"text/plain","data":"RWxldmVuIG1ldHJlcw=="}},
            {"type":"document","title":"parts","source":{"type":"content","content":[{"type":"text","text":"Twelve"},{"type":"text","text":"metres"}]}},
            {"type":"document","title":"far.txt","source":{"type":"url","media_type":"text/plain","url":"https://x/far.txt"}},
            {"type":"document","title":"chart.pdf","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"}}]},
        {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"web_fetch","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[
            {"type":"document","title":"page","source":{"type":"text","media_type":"text/plain","data":"Low tide at six"}},
            {"type":"search_result","source":"https://x/tides","title":"Tides","content":[{"type":"text","text":"High tide at noon"}]}]}]}]}"#,
    );
    assert_eq!(read.format, Format::AnthropicMessages);
    assert_eq!(
        shape(&read.messages),
        [
            "user host:[Attached file: notes.txt]\nNine metres host:[Attached file: text]\nTen metres \
             host:[Attached file: log.txt]\nEleven metres host:[Attached file: parts]\nTwelve\nmetres \
             host:[Attached file: far.txt, at https://x/far.txt] file:data:application/pdf;base64,AAAA",
            "assistant [tool-calls] web_fetch{}=[Attached file: page]\nLow tide at six\nTides\nhttps://x/tides\nHigh tide at noon",
        ]
    );
    let window = plimsoll::Window::of(&read.messages, &plimsoll::Policy::default());
    let shown = serde_json::to_string(&window).unwrap();
    for said in ["Nine metres", "Ten metres", "Eleven metres", "Twelve", "Low tide at six", "https://x/tides"]
    {
        assert!(shown.contains(said), "{said} is not in the window");
    }
}
