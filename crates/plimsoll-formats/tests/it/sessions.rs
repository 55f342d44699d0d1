//! Files with several sessions: the newest is read by default.

use std::io::Cursor;

use plimsoll_formats::{Chain, read, read_session, visit_session};
use rstest::rstest;

use crate::samples;
use crate::support::{check, shape};

const CLAUDE_CODE: &str = r#"{"type":"user","uuid":"1","parentUuid":null,"sessionId":"first-1","message":{"content":"One"}}
{"type":"assistant","uuid":"2","parentUuid":"1","sessionId":"first-1","message":{"id":"r1","content":[{"type":"text","text":"1"}],"usage":{"input_tokens":3}}}
{"type":"user","uuid":"3","parentUuid":null,"sessionId":"second-2","message":{"content":"Two"}}
"#;

const CODEX: &str = r#"{"type":"session_meta","payload":{"id":"first-1","cwd":"/a"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Zero"}]}}
{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"One"}]}}
{"type":"session_meta","payload":{"id":"second-2","cwd":"/b"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Two"}]}}
"#;

const PI: &str = r#"{"type":"session","id":"first-1","cwd":"/a"}
{"type":"message","message":{"role":"user","content":"One"}}
{"type":"session","id":"second-2","cwd":"/b"}
{"type":"message","message":{"role":"user","content":"Two"}}
"#;

#[rstest]
#[case::claude_code(CLAUDE_CODE, "second-2", "first-1", "first", "user text:One")]
#[case::codex(CODEX, "second-2", "first-1", "fir", "user text:One")]
#[case::pi(PI, "second-2", "first-1", "first-", "user text:One")]
#[case::openhands(samples::OPENHANDS_RUNS, "two", "one", "o", "user text:first")]
#[case::trae(samples::TRAE_STEPS, "three", "one", "on", "system text:Be brief")]
#[case::aider(samples::AIDER, "2026-01-02-113005", "2026-01-01-100000", "2026-01-01", "user text:first")]
fn one_of_several_sessions_can_be_picked(
    #[case] file: &str,
    #[case] newest: &str,
    #[case] other: &str,
    #[case] beginning: &str,
    #[case] first: &str,
) {
    let ids = |read: &plimsoll_formats::Transcript| {
        let others: Vec<_> = read.other_sessions.iter().filter_map(|info| info.id.clone()).collect();
        (read.info.id.clone().unwrap(), others)
    };
    assert_eq!(ids(&read(file.as_bytes()).unwrap()), (newest.to_owned(), vec![other.to_owned()]));
    for id in [other, beginning] {
        let picked = read_session(file.as_bytes(), id).unwrap();
        check(&picked);
        assert_eq!(ids(&picked), (other.to_owned(), vec![newest.to_owned()]), "{id}");
        assert_eq!(shape(&picked.messages)[0], first);
        let mut visited = Vec::new();
        visit_session(Cursor::new(file), id, &mut |chain, message| {
            assert_eq!(chain, Chain::Main);
            visited.push(message);
        })
        .unwrap();
        assert_eq!(visited, picked.messages);
    }
    let own = read_session(file.as_bytes(), newest).unwrap();
    assert_eq!(own.messages, read(file.as_bytes()).unwrap().messages);
    let error = read_session(file.as_bytes(), "gone").unwrap_err().to_string();
    assert!(error.contains("no session `gone`; it holds 2: `"), "{error}");
}

#[test]
fn an_ambiguous_prefix_is_an_error() {
    let file = PI.replace("second-2", "first-2");
    let error = read_session(file.as_bytes(), "first").unwrap_err().to_string();
    assert_eq!(error, "pi: no session `first`; several begin with it: `first-2`, `first-1`");
}

#[test]
fn an_id_other_than_that_of_the_only_session_is_an_error() {
    let file = samples::CLINE;
    assert_eq!(read_session(file.as_bytes(), "s1").unwrap().messages.len(), 3);
    let error = read_session(file.as_bytes(), "s2").unwrap_err().to_string();
    assert_eq!(error, "cline: no session `s2`; it only has `s1`");
    let error = read_session(br#"[{"role":"user","content":"x"}]"#.as_slice(), "s").unwrap_err().to_string();
    assert_eq!(error, "openai-chat: no session `s`; its session has no id");
}
