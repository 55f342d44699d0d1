//! Sessions that continue in other tools, and recall over MCP.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use plimsoll_formats::Format;
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};

use crate::support::{Home, export};

const SESSION: &str = "ses_5c1000000001ABCDEFGHIJKLMN";

/// A home with a stored session whose older outputs are cleared.
fn reduced() -> Home {
    let home = Home::new();
    let export = export(&home.project).to_string();
    let home = home.with("project/session.json", &export);
    home.run(&["sessions", "import", "session.json"]);
    let printed = home.run(&["prune", "--apply", "ses_5c"]);
    assert!(printed.starts_with("exit: 0"), "{printed}");
    home
}

#[test]
fn a_reduced_session_is_handed_over_as_a_new_file() {
    let home = reduced();
    let window = home.json(&["--json", "window", "ses_5c"]);
    for (tool, format, command) in
        [("claude-code", Format::ClaudeCode, "claude --resume "), ("codex", Format::Codex, "codex resume ")]
    {
        let before = home.json(&["sessions", "export", "ses_5c"]);
        let done = home.json(&["--json", "sessions", "handover", "ses_5c", "--to", tool]);
        let (id, path) = (done["session"].as_str().unwrap(), done["path"].as_str().unwrap());
        assert_eq!(done["command"], format!("{command}{id}"), "{done}");
        assert!(path.contains(id) && path.starts_with(home.path.to_str().unwrap()), "{path}");
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("[Old tool result content cleared; recall prt_"), "{tool}");
        assert!(!text.contains("output 0\\nwarning"), "what is cleared is not handed over");
        assert!(text.contains("output 7\\nwarning"), "what is not cleared is");
        let read = plimsoll_formats::read(text.as_bytes()).unwrap();
        assert_eq!((read.format, read.skipped.len(), read.notes.count()), (format, 0, 0));
        let again = home.json(&["--json", "window", path]);
        assert_eq!(shown(&again), shown(&window), "{tool}");
        assert_eq!(home.json(&["sessions", "export", "ses_5c"]), before, "the original is as it was");
        let other = home.json(&["--json", "sessions", "handover", "ses_5c", "--to", tool]);
        assert_ne!(other["session"], done["session"], "no file is written over");
    }
}

/// The texts of a window.
fn shown(window: &Value) -> Vec<String> {
    let blocks = window["messages"].as_array().unwrap().iter().flat_map(|m| m["blocks"].as_array().unwrap());
    blocks.filter_map(|block| block["text"].as_str()).map(str::to_owned).collect()
}

#[test]
fn an_export_for_opencode_with_reductions_has_new_ids() {
    let home = reduced();
    let done = home.json(&["--json", "sessions", "handover", "ses_5c", "--to", "opencode"]);
    let id = done["session"].as_str().unwrap();
    assert!(
        id.starts_with("ses_") && id != SESSION,
        "OpenCode would keep what it has under the old id: {done}"
    );
    let path = done["path"].as_str().unwrap();
    assert_eq!(done["command"], format!("opencode import {path} && opencode --session {id}"));
    let printed = home.run(&["sessions", "handover", "ses_5c", "--to", "opencode"]);
    assert!(printed.starts_with("exit: 2") && printed.contains("already exists"), "{printed}");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(written["messages"][1]["parts"][0]["state"]["time"]["compacted"].is_u64());
    assert!(written["messages"][1]["parts"][0]["state"]["output"].as_str().unwrap().starts_with("output 0"));
}

/// A tool looks for sessions in its own directory, and not in any that a handover is written to.
#[test]
fn the_command_to_continue_is_printed_if_the_tool_finds_the_session() {
    let home = reduced();
    let root = home.path.to_str().unwrap();
    let handover = |tool: &str, directory: &str| {
        home.json(&["--json", "sessions", "handover", "ses_5c", "--to", tool, "--dir", directory])
    };
    for (tool, variable, command, own, name) in [
        ("claude-code", "CLAUDE_CONFIG_DIR", "claude --resume", ".claude", "projects"),
        ("codex", "CODEX_HOME", "codex resume", ".codex", "sessions"),
    ] {
        let line = |done: &Value, before: String| {
            assert_eq!(done["command"], format!("{before}{command} {}", done["session"].as_str().unwrap()));
        };
        line(&handover(tool, &format!("{root}/{own}/{name}")), String::new());
        line(&handover(tool, &format!("../{own}/{name}/.")), String::new());
        line(&handover(tool, &format!("{root}/other/{name}")), format!("{variable}={root}/other "));
        line(
            &handover(tool, &format!("own {tool}/{name}")),
            format!("{variable}='{root}/project/own {tool}' "),
        );
        let done = handover(tool, "elsewhere");
        assert_eq!(done["command"], Value::Null, "{done}");
        assert!(std::path::Path::new(&home.project).join(done["path"].as_str().unwrap()).is_file(), "{done}");
        let printed = home.run(&["sessions", "handover", "ses_5c", "--to", tool, "--dir", "elsewhere"]);
        assert!(
            printed.starts_with("exit: 0\n----- stdout -----\n----- stderr -----\n")
                && printed.contains(&format!("`{name}` below `{variable}`"))
                && !printed.contains(command),
            "{printed}"
        );
    }
}

#[test]
fn an_unknown_tool_and_an_empty_session_are_refused() {
    let home = reduced().with("project/empty.json", r#"{"info":{"id":"ses_e"},"messages":[]}"#);
    let printed = home.run(&["sessions", "handover", "ses_5c", "--to", "pi"]);
    assert!(printed.starts_with("exit: 2"), "{printed}");
    let printed = home.run(&["sessions", "handover", "empty.json", "--to", "codex"]);
    assert!(printed.starts_with("exit: 1") && printed.contains("the session is empty"), "{printed}");
}

#[tokio::test]
async fn content_outside_the_window_is_available_over_mcp() {
    let home = reduced();
    let mut command = tokio::process::Command::new(assert_cmd::cargo::cargo_bin("plimsoll"));
    command.arg("mcp").env_clear().env("HOME", &home.path).current_dir(&home.project);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let streams = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let client = ().serve(streams).await.unwrap();
    let names: Vec<String> =
        client.list_all_tools().await.unwrap().into_iter().map(|tool| tool.name.into_owned()).collect();
    assert_eq!(names, ["recall", "list_recallable", "inspect_session"]);
    let call = async |name: &str, arguments: Value| {
        let mut request = CallToolRequestParams::new(name.to_owned());
        request.arguments = arguments.as_object().cloned();
        let result = client.call_tool(request).await.map_err(|error| error.to_string())?;
        let result = serde_json::to_value(result).unwrap();
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        Ok::<_, String>((text, result["isError"] == json!(true)))
    };
    let (listed, _) = call("list_recallable", json!({})).await.unwrap();
    let handle = listed.split_whitespace().find(|word| word.starts_with("prt_")).unwrap().to_owned();
    let (text, is_error) = call("recall", json!({ "handle": handle, "to": 2 })).await.unwrap();
    assert!(!is_error && text.contains("warning: unused"), "{text}");
    let (text, _) = call("recall", json!({ "search": "^output 0" })).await.unwrap();
    assert!(text.contains("output 0"), "{text}");
    let (text, is_error) = call("recall", json!({ "handle": "prt_none" })).await.unwrap();
    assert!(is_error, "{text}");
    let (text, _) = call("inspect_session", json!({ "session": "ses_5c" })).await.unwrap();
    assert!(text.contains(SESSION) && text.contains("outputs cleared"), "{text}");
    for (name, arguments) in [
        ("forget", json!({})),
        ("recall", json!({})),
        ("recall", json!({ "handle": 7 })),
        ("recall", json!({ "handle": handle, "colour": "red" })),
        ("recall", json!({ "handle": handle, "session": "ses_none" })),
        ("list_recallable", json!({ "after": -1 })),
    ] {
        let error = call(name, arguments.clone()).await.unwrap_err();
        assert!(error.contains("-32602"), "{name} {arguments}: {error}");
    }
    client.cancel().await.unwrap();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), child.wait()).await;
    assert!(ended.expect("it ends with its client").unwrap().success());
}
