//! Invalid input: a clear error or a count, never a panic.

use plimsoll_formats::{BROKEN, Format, FormatError, read, read_as};
use rstest::rstest;

use crate::support::shape;

const HEAD: &str = "{\"type\":\"session\",\"id\":\"s\",\"cwd\":\"/\"}\n";
const HELLO: &str = "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";

#[test]
fn a_truncated_last_line_is_not_an_error() {
    let torn = read(format!("{HEAD}{HELLO}{}", &HELLO[..40]).as_bytes()).unwrap();
    assert!(torn.torn && torn.skipped.is_empty());
    assert_eq!(shape(&torn.messages), ["user text:hello"]);
    let whole = read(format!("{HEAD}{}", HELLO.trim_end()).as_bytes()).unwrap();
    assert!(!whole.torn, "a last line that is complete is not torn, with a newline or without");
    assert_eq!(whole.messages.len(), 1);
}

#[test]
fn broken_lines_are_counted_and_the_first_is_reported() {
    let mut input = HEAD.as_bytes().to_vec();
    input.extend_from_slice(b"\0\0\0\n\xff\xfe{}\n[1]\n{\"type\":\"message\"\n\n");
    input.extend_from_slice("[".repeat(100_000).as_bytes());
    input.extend_from_slice(format!("\n{HELLO}").as_bytes());
    let read = read(&input[..]).unwrap();
    assert_eq!(read.skipped[BROKEN], 5);
    assert_eq!(read.broken.unwrap().line, 2);
    assert_eq!(shape(&read.messages), ["user text:hello"]);
}

#[test]
fn a_file_without_any_readable_line_is_an_error() {
    let error = read_as(Format::Codex, "{oops\nand more\n".as_bytes()).unwrap_err();
    assert!(matches!(error, FormatError::Lines { line: 1, .. }));
    let said = error.to_string();
    assert!(said.starts_with("codex: no line could be read; line 1: key must be a string"), "{said}");
}

#[test]
fn errors_in_documents_have_a_location() {
    let problem = |input: &str| read(input.as_bytes()).unwrap_err().to_string();
    let odd =
        read(&br#"{"messages":[{"role":"user","content":"x"},{"role":"user","content":7}]}"#[..]).unwrap();
    let note = odd.notes.first()[0].to_string();
    assert_eq!(note, "messages[1].content: expected a string or a list, found 7; kept as text");
    assert_eq!(
        problem(r#"[{"info":{"role":"user"},"parts":[]},7]"#),
        "opencode-messages: [1]: expected an object, found 7"
    );
    assert!(
        problem("[{\"role\":\"user\",\"content\":\"x\"},\n{\"ro")
            .starts_with("openai-chat: not valid JSON at line 2")
    );
    let error = read_as(Format::SweAgent, "{\"trajectory\":3}".as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "swe-agent: trajectory: expected a list of messages, found a number");
}

#[test]
fn a_session_with_an_id_and_no_messages_is_empty() {
    for (input, format) in
        [(r#"{"info":{"id":"ses_1","title":"t"},"messages":[]}"#, Format::OpencodeExport), (HEAD, Format::Pi)]
    {
        let read = read(input.as_bytes()).unwrap();
        assert_eq!((read.format, read.messages.len()), (format, 0), "{input}");
        assert!(read.notes.is_empty() && read.skipped.is_empty() && !read.torn, "{input}");
    }
    assert!(read(&b"[ {\"a\":1} ]"[..]).is_err(), "a list of something else is none");
    let broken_first = format!("[]\n{HEAD}{HELLO}");
    assert_eq!(
        read(broken_first.as_bytes()).unwrap().messages.len(),
        1,
        "a broken line is not an empty session"
    );
}

#[test]
fn deep_nesting_has_a_clear_message() {
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    let error = read_as(Format::OpencodeMessages, deep.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        error,
        "opencode-messages: not valid JSON at line 1, column 128: nested more than 127 levels deep"
    );
    let line = format!("{HEAD}{{\"type\":\"message\",\"message\":{deep}}}\n{HELLO}");
    let read = read(line.as_bytes()).unwrap();
    assert_eq!(read.broken.unwrap().problem, "nested more than 127 levels deep");
}

#[test]
fn a_message_without_a_role_is_kept_and_noted() {
    let json =
        r#"[{"role":"user","content":"a"},{"role":null,"content":"b"},{"content":"c","tool_call_id":"x"},7]"#;
    let read = read(json.as_bytes()).unwrap();
    assert_eq!(shape(&read.messages), ["user text:a", "? text:b", "user result(x):c"]);
    let output: Vec<String> = read.notes.first().iter().map(ToString::to_string).collect();
    assert_eq!(
        output,
        [
            "[1].role: expected a string, found null; kept under `unread`",
            "[2].role: expected a string, found null; read by its shape",
            "[3]: expected an object, found 7; left out",
        ]
    );
}

/// The last of several fields with one name counts, as in JavaScript, in both ways to read a part.
#[test]
fn the_last_of_fields_with_one_name_counts() {
    let part = |odd: &str| {
        let json = format!(
            r#"[{{"info":{{"role":"user"}},"parts":[{{"text":"a","type":"text"{odd},"text":"b"}}]}}]"#
        );
        shape(&read(json.as_bytes()).unwrap().messages)
    };
    assert_eq!(part(""), ["user text:b"]);
    assert_eq!(part(r#","synthetic":false"#), ["user text:b"]);
}

#[test]
fn other_files_are_described_by_the_nearest_format() {
    let problem = |input: &[u8]| read(input).unwrap_err().to_string();
    assert_eq!(problem(b" \n "), "the transcript is empty");
    assert!(problem(b"hello").starts_with(
        "not a transcript of a known format, it is text: nearest is aider, but no line begins with `# aider chat started at`; known formats: opencode-export"
    ));
    assert!(problem(b"SQLite format 3\0...").contains("give the path of the file"));
    assert!(problem(b"\xff\xfe{\0").contains("UTF-16"));
    assert!(problem(b"\x1f\x8b\x08").contains("gzip"));
    let zero = problem(b"[{\"info\":{\"role\":\"us\0er\"},\n\"parts\":[]}]");
    assert!(zero.contains("it starts like JSON but is none at line 1, column 2"), "{zero}");
    assert!(
        zero.contains("control character (\\u0000-\\u001F) found while parsing a string; known formats"),
        "{zero}"
    );
}

/// An unknown format is reported with the nearest one and what is missing for it; nothing is read as zero messages.
#[rstest]
#[case::list_of_others(
    r#"[{"scope":"https://a","method":"GET","path":"/","status":200}]"#,
    "nearest is openai-chat, but the first item has no `role`, only `scope`, `method`, `path`, `status`; known formats"
)]
#[case::list_of_numbers("[1, 2]", "nearest is openai-chat, but the first item is a number, no message")]
#[case::other_document(
    r#"{"name":"package","version":"1"}"#,
    "nearest is openai-chat, but it has no list `messages`, only `name`, `version`"
)]
#[case::messages_of_others(
    r#"{"messages":[{"from":"a","body":"b"}]}"#,
    "this looks like openai-chat, but nothing in it is a message: messages[0].role: expected a string, found null"
)]
#[case::messages_that_are_none(
    r#"{"messages":[1, 2]}"#,
    "this looks like openai-chat, but nothing in it is a message: messages[0]: expected an object, found 1"
)]
#[case::no_list(r#"{"messages":"none"}"#, "nearest is openai-chat, but `messages` is a string, no list")]
#[case::lines_of_others(
    "{\"level\":\"info\",\"msg\":\"a\"}\n{\"level\":\"info\"}\n",
    "nearest is openai-chat, but its first record has no `role`, only `level`, `msg`"
)]
#[case::lines_with_types(
    "{\"type\":\"start\",\"at\":1}\n{\"type\":\"end\"}\n",
    "nearest is codex, but its first record has no `payload`, only `type`, `at`"
)]
#[case::records_like_codex(
    "{\"type\":\"request\",\"payload\":{}}\n",
    "this looks like codex, but nothing in it is a message: its records are of unknown kinds: `request`"
)]
#[case::steps_of_others(
    r#"{"steps":[{"run":"make"}]}"#,
    "nearest is trae, but the first of `steps` has only `run`"
)]
#[case::no_fields(
    "{}",
    "nearest is openai-chat, but it has no list `messages`, nor any other field; known formats"
)]
#[case::item_without_fields(
    "[{}]",
    "nearest is openai-chat, but the first item has no `role`, nor any other field; known formats"
)]
#[case::cut_off(
    "{\"a\": [1, 2, {\"b\"",
    "format, its JSON breaks off at line 1, column 17; nearest is openai-chat, but it has no list `messages`, only `a`; known formats"
)]
#[case::a_number("42\n", "format, it is a number by itself; known formats")]
#[case::a_string("\"hello\"", "format, it is a string by itself; known formats")]
#[case::nothing("null", "format, it is null by itself; known formats")]
#[case::http_recording(
    r#"{"log":{"version":"1.2","entries":[{"request":{"method":"POST","postData":{"text":"{}"}}}]}}"#,
    "format, it is a recording of HTTP requests (HAR): nearest is openai-chat, which is the `text` of a request's `postData`; known formats"
)]
#[case::answer_of_a_provider(
    "event: message_start\ndata: {\"type\":\"message_start\"}\n\n",
    "format, it is a stream of events as providers answer with: it has one answer and not the conversation; known formats"
)]
#[case::terminal_log(
    "\u{1b}[32m$ make\u{1b}[0m\r\ncc -c a.c\r\n",
    "format, it is what a terminal showed, with its control codes; nearest is aider, but no line begins with"
)]
#[case::terminal_recording(
    "{\"version\":2,\"width\":80,\"height\":24}\n[0.1,\"o\",\"hi\"]\n",
    "format, it is a recording of a terminal (asciicast); known formats"
)]
#[case::table(
    "id,role,content\n1,user,hi\n2,assistant,hello\n",
    "format, it looks like a table (CSV); nearest is openai-chat, with an object of `role` and `content` on each line; known formats"
)]
#[case::prose("Dear Ada, dear Bob,\n\nit works.\n", "it is text: nearest is aider")]
#[case::binary("\u{1}\0\u{2}", "it is neither JSON nor text")]
#[case::archive("PK\u{3}\u{4}", "it is a ZIP archive (unpack it first)")]
fn an_unknown_format_is_reported_with_the_nearest_one(#[case] input: &str, #[case] output: &str) {
    let error = read(input.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(output), "{error}");
}

/// Lists without a message are an error: as an empty session they would give "0 messages" and exit code 0.
#[rstest]
#[case::list("[]", "format, nearest is openai-chat, but the list has no complete message")]
#[case::blank_list(" [\n] \n", "format, nearest is openai-chat, but the list has no complete message")]
#[case::request(
    r#"{"messages":[]}"#,
    "this looks like openai-chat, but nothing in it is a message: all messages in its list are empty"
)]
#[case::trajectory(
    r#"{"trajectory":[]}"#,
    "this looks like swe-agent, but nothing in it is a message: all messages in its list are empty"
)]
fn a_file_without_id_and_messages_is_not_a_session(#[case] input: &str, #[case] output: &str) {
    let error = read(input.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(output), "{error}");
}

#[test]
fn a_long_first_line_is_still_detected() {
    let long = format!(
        "{{\"type\":\"message\",\"message\":{{\"role\":\"user\",\"content\":\"{}\"}}}}\n",
        "x".repeat(1 << 20)
    );
    let read = read(long.as_bytes()).unwrap();
    assert_eq!((read.format, read.messages.len()), (Format::Pi, 1));
}

#[test]
fn a_chain_of_a_hundred_thousand_is_walked() {
    let mut input = String::new();
    for number in 0..100_000 {
        let parent = if number == 0 { "null".into() } else { format!("\"{}\"", number - 1) };
        input += &format!(
            "{{\"type\":\"user\",\"uuid\":\"{number}\",\"parentUuid\":{parent},\"message\":{{\"content\":\"x\"}}}}\n"
        );
    }
    assert_eq!(read(input.as_bytes()).unwrap().messages.len(), 100_000);
}

#[test]
fn names_that_repeat_a_hundred_thousand_times_get_distinct_ids() {
    let message = r#"{"role":"user","id":"same","content":"x"}"#;
    let input = format!("[{}]", vec![message; 100_000].join(","));
    let messages = read(input.as_bytes()).unwrap().messages;
    let ids: std::collections::HashSet<_> = messages.iter().map(|message| &message.info.id).collect();
    assert_eq!(ids.len(), 100_000);
}
