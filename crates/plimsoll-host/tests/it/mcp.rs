//! The three MCP tools, called without a protocol.

use plimsoll::prune::PruneChoice;
use plimsoll_host::{Flags, Host, McpAnswer, McpCall, McpClient, McpRefusal, Reduced, mcp_tools};
use serde_json::{Value, json};

use crate::fixtures::{CLAUDE, claude, long_chat, output, stored};
use crate::hosts::Place;

fn call(host: &Host, tool: &str, arguments: Value) -> Result<McpAnswer, McpRefusal> {
    let Value::Object(arguments) = arguments else { panic!("arguments must be an object") };
    McpCall { tool: tool.to_owned(), arguments, session: None, client: McpClient::default() }.answer(host)
}

fn text(host: &Host, tool: &str, arguments: Value) -> String {
    let answer = call(host, tool, arguments).unwrap();
    assert!(!answer.is_error, "{}", answer.text);
    answer.text
}

/// Asserts that a call is invalid, with this in its message.
fn invalid(host: &Host, tool: &str, arguments: Value, part: &str) {
    match call(host, tool, arguments) {
        Err(McpRefusal::Invalid(message)) => assert!(message.contains(part), "{message}"),
        other => panic!("{other:?}"),
    }
}

/// A project with a stored session whose older outputs are cleared.
fn pruned(calls: usize) -> (Place, Host) {
    let place = Place::new();
    let host = place.host();
    let config = host.config(&Flags::default()).unwrap();
    let session = stored(&place, &host, &config, &long_chat(calls));
    let choice = PruneChoice { tools: vec!["read".to_owned()], keep: Some(1), ..PruneChoice::default() };
    let done = session.prune(Some(&choice), &config, false, &host).unwrap();
    assert!(matches!(done, Reduced::Done(..)));
    (place, host)
}

#[test]
fn every_tool_is_declared_with_an_object_schema() {
    let tools = mcp_tools();
    assert_eq!(
        tools.iter().map(|tool| tool.name).collect::<Vec<_>>(),
        ["recall", "list_recallable", "inspect_session"]
    );
    for tool in &tools {
        assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
        assert!(tool.input_schema["properties"].get("session").is_some(), "{}", tool.name);
    }
}

#[test]
fn cleared_outputs_are_listed_with_handles_that_recall_them() {
    let (_place, host) = pruned(3);
    let listed = text(&host, "list_recallable", json!({}));
    let handles: Vec<&str> = listed.lines().filter(|line| line.contains("output of read")).collect();
    assert_eq!(handles.len(), 2, "{listed}");
    // Newest first.
    let handle = handles[0].split_whitespace().next().unwrap();
    let recalled = text(&host, "recall", json!({ "handle": handle, "to": 1 }));
    assert!(recalled.contains(output(1).lines().next().unwrap()), "{recalled}");
    let found = text(&host, "recall", json!({ "search": "output number 0" }));
    assert!(found.contains("output number 0 begins"), "{found}");
}

#[test]
fn a_long_list_is_paged() {
    let (_place, host) = pruned(61);
    let first = text(&host, "list_recallable", json!({}));
    assert!(first.ends_with("10 more; continue with `after`: 50"), "{first}");
    let second = text(&host, "list_recallable", json!({ "after": 50 }));
    assert_eq!(second.lines().filter(|line| line.starts_with("prt_")).count(), 10, "{second}");
    assert!(!second.contains("more; continue"), "{second}");
}

#[test]
fn the_current_session_of_a_tool_is_inspected_without_storing_it() {
    let place = Place::new();
    let host = place.host();
    claude(&place, &host, CLAUDE, &["Why is it slow?", "Because of the cache."]);
    let inspected = text(&host, "inspect_session", json!({}));
    assert!(inspected.starts_with(&format!("session {CLAUDE} of Claude Code, not stored")), "{inspected}");
    assert!(host.open_default().is_err(), "no database was created");
}

#[test]
fn secrets_are_redacted_in_answers() {
    let place = Place::new();
    let host = place.host();
    let secret = ["ghp_", "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD3fG6"].concat();
    claude(&place, &host, CLAUDE, &[&format!("my token is {secret}"), "Noted."]);
    let found = text(&host, "recall", json!({ "search": "my token" }));
    assert!(!found.contains(&secret), "{found}");
}

#[test]
fn invalid_calls_name_the_argument() {
    let (_place, host) = pruned(2);
    invalid(&host, "forget", json!({}), "recall, list_recallable, inspect_session");
    invalid(&host, "inspect_session", json!({ "deep": true }), "`deep`");
    invalid(&host, "list_recallable", json!({ "after": -1 }), "`after`");
    invalid(&host, "inspect_session", json!({ "session": "" }), "`session`");
    invalid(&host, "inspect_session", json!({ "session": "ses_unknown" }), "ses_unknown");
}
