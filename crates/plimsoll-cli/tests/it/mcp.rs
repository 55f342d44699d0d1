//! `plimsoll mcp` for the tool that asks: the session it is writing itself, without an import.

use std::process::Stdio;

use rmcp::model::{CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Value, json};

use crate::figures::{ClaudeSession, claude};
use crate::support::{Home, export};

const CLAUDE: &str = "5d0c31aa-1111-4222-8333-444455556666";
const CODEX: &str = "019e06e6-0c4e-72d2-a0ab-112233445566";

pub(crate) struct Client {
    service: RunningService<RoleClient, ClientConfig>,
    _child: tokio::process::Child,
}

impl Client {
    /// A client that says it is this tool.
    pub(crate) async fn connect(home: &Home, tool: &str) -> Client {
        Client::connect_with(home, tool, &[]).await
    }

    /// Client that starts the server with these variables.
    async fn connect_with(home: &Home, tool: &str, variables: &[(&str, &str)]) -> Client {
        let mut command = tokio::process::Command::new(assert_cmd::cargo::cargo_bin("plimsoll"));
        command.arg("mcp").env_clear().env("HOME", &home.path).current_dir(&home.project);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let streams = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let info = ClientConfig::new(ClientCapabilities::default(), Implementation::new(tool, "1"));
        Client { service: info.serve(streams).await.unwrap(), _child: child }
    }

    /// The text of an answer, and whether it is an error; or an error of the protocol.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<(String, bool), String> {
        self.call_with(name, arguments, json!({})).await
    }

    /// Client that sends metadata with the call.
    async fn call_with(&self, name: &str, arguments: Value, beside: Value) -> Result<(String, bool), String> {
        let mut request = CallToolRequestParams::new(name.to_owned());
        request.arguments = arguments.as_object().cloned();
        request.meta = Some(serde_json::from_value(beside).unwrap());
        let result = self.service.call_tool(request).await.map_err(|error| error.to_string())?;
        let result = serde_json::to_value(result).unwrap();
        Ok((result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"] == json!(true)))
    }
}

/// A home in which Claude Code has compacted a session and continues it, and Codex has another one for the project.
fn home() -> Home {
    let home = Home::new();
    let at = |second: u32| format!("2026-05-02T09:18:{second:02}.000Z");
    let record = |number: u32, parent: Option<u32>, rest: Value| {
        let uuid = |number: u32| format!("aaaaaaaa-bbbb-4ccc-8ddd-{number:012}");
        let mut record = json!({ "uuid": uuid(number), "parentUuid": parent.map(uuid), "sessionId": CLAUDE,
            "cwd": home.project, "timestamp": at(number) });
        record.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        format!("{record}\n")
    };
    let output: String = (0..40).map(|line| format!("warning {line}: unused\n")).collect();
    let claude = [
        record(
            1,
            None,
            json!({ "type": "user", "message": { "role": "user", "content": "Why is it slow?" } }),
        ),
        record(
            2,
            Some(1),
            json!({ "type": "assistant", "message": { "id": "m1", "role": "assistant", "model": "claude-x",
            "content": [{ "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "make" } }] } }),
        ),
        record(
            3,
            Some(2),
            json!({ "type": "user", "message": { "role": "user",
            "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": output }] } }),
        ),
        record(
            4,
            None,
            json!({ "type": "system", "subtype": "compact_boundary",
            "logicalParentUuid": "aaaaaaaa-bbbb-4ccc-8ddd-000000000003" }),
        ),
        record(
            5,
            Some(4),
            json!({ "type": "user", "isCompactSummary": true,
            "message": { "role": "user", "content": "They made it and saw warnings." } }),
        ),
        record(6, Some(5), json!({ "type": "user", "message": { "role": "user", "content": "Go on" } })),
    ];
    let meta = json!({ "timestamp": at(1), "type": "session_meta", "payload": { "id": CODEX, "cwd": home.project } });
    let said = json!({ "timestamp": at(2), "type": "response_item", "payload": { "type": "message", "role": "user",
        "content": [{ "type": "input_text", "text": "Another matter" }] } });
    let place = format!(".claude/projects/-project/{CLAUDE}.jsonl");
    let rollout = format!(".codex/sessions/2026/05/02/rollout-2026-05-02T09-18-36-{CODEX}.jsonl");
    home.write(&place, &claude.concat());
    home.write(&rollout, &format!("{meta}\n{said}\n"));
    home
}

#[tokio::test]
async fn a_tool_asks_about_the_session_it_is_writing() {
    let home = home();
    let client = Client::connect(&home, "claude-code").await;
    let (text, _) = client.call("inspect_session", json!({})).await.unwrap();
    assert!(text.starts_with(&format!("session {CLAUDE} of Claude Code, not stored")), "{text}");
    assert!(text.contains("a summary at the beginning"), "{text}");
    // What its own compaction took out of the window is in the file all the same.
    let (listed, _) = client.call("list_recallable", json!({})).await.unwrap();
    let line =
        listed.lines().find(|line| line.contains("output of Bash")).unwrap_or_else(|| panic!("{listed}"));
    let handle = line.split_whitespace().next().unwrap();
    let (text, is_error) = client.call("recall", json!({ "handle": handle, "to": 2 })).await.unwrap();
    assert!(!is_error && text.contains("warning 1: unused"), "{text}");
    let (text, _) = client.call("recall", json!({ "search": "warning 3\\d" })).await.unwrap();
    assert!(text.contains("warning 31: unused"), "{text}");
    // The file grows, and nothing of it is stored.
    let more = json!({ "type": "user", "uuid": "aaaaaaaa-bbbb-4ccc-8ddd-000000000007", "sessionId": CLAUDE, "cwd": home.project,
        "parentUuid": "aaaaaaaa-bbbb-4ccc-8ddd-000000000006", "timestamp": "2026-05-02T09:18:07.000Z",
        "message": { "role": "user", "content": "And the tests" } });
    let path = home.path.join(format!(".claude/projects/-project/{CLAUDE}.jsonl"));
    let known = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{known}{more}\n")).unwrap();
    let (grown, _) = client.call("inspect_session", json!({})).await.unwrap();
    assert!(
        grown.contains("6 messages in the session; as a request the window has 4 messages, about "),
        "{grown}"
    );
    let (again, _) = client.call("list_recallable", json!({})).await.unwrap();
    assert!(again.contains(handle), "handles stay: {again}");
    assert!(!home.path.join(".local/share/plimsoll/plimsoll.db").exists());
}

/// A session of Claude Code for the project that ends with a call, and one of Codex, last written this many seconds ago.
fn two_more(home: &Home, claude: &str, call: &str, codex: &str, seconds_ago: u64) {
    let call = json!({ "uuid": "bbbbbbbb-bbbb-4ccc-8ddd-000000000001", "parentUuid": null, "sessionId": claude,
        "cwd": home.project, "timestamp": "2026-05-02T10:00:00.000Z", "type": "assistant",
        "message": { "id": "m1", "role": "assistant", "model": "claude-x",
            "content": [{ "type": "tool_use", "id": call, "name": "mcp__plimsoll__inspect_session", "input": {} }] } });
    let meta = json!({ "timestamp": "2026-05-02T10:00:00.000Z", "type": "session_meta",
        "payload": { "id": codex, "cwd": home.project } });
    let said = json!({ "timestamp": "2026-05-02T10:00:01.000Z", "type": "response_item", "payload": { "type": "message",
        "role": "user", "content": [{ "type": "input_text", "text": "A third matter" }] } });
    let files = [
        home.write(&format!(".claude/projects/-project/{claude}.jsonl"), &format!("{call}\n")),
        home.write(
            &format!(".codex/sessions/2026/05/02/rollout-2026-05-02T10-00-00-{codex}.jsonl"),
            &format!("{meta}\n{said}\n"),
        ),
    ];
    let changed = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds_ago);
    for file in files {
        std::fs::File::options().append(true).open(file).unwrap().set_modified(changed).unwrap();
    }
}

#[tokio::test]
async fn a_client_that_names_its_session_gets_answers_about_that_session() {
    let (older, older_codex) =
        ("6e1d42bb-1111-4222-8333-444455556666", "019e06e6-1111-72d2-a0ab-112233445566");
    let home = home();
    two_more(&home, older, "toolu_older", older_codex, 3_600);
    let of = |id: &str, tool: &str| format!("session {id} of {tool}, not stored");
    // Claude Code names its session when it starts the server.
    let client = Client::connect_with(&home, "claude-code", &[("CLAUDE_CODE_SESSION_ID", older)]).await;
    let (text, _) = client.call("inspect_session", json!({})).await.unwrap();
    assert!(text.starts_with(&of(older, "Claude Code")), "{text}");
    // And each call by the id in the session, which may be another one by now.
    let client = Client::connect_with(&home, "claude-code", &[("CLAUDE_CODE_SESSION_ID", CLAUDE)]).await;
    let beside = json!({ "claudecode/toolUseId": "toolu_older" });
    let (text, _) = client.call_with("inspect_session", json!({}), beside).await.unwrap();
    assert!(text.starts_with(&of(older, "Claude Code")), "{text}");
    // That of a sub-agent's call is not in the session's file.
    let beside = json!({ "claudecode/toolUseId": "toolu_of_a_sub_agent" });
    let (text, _) = client.call_with("inspect_session", json!({}), beside).await.unwrap();
    assert!(text.starts_with(&of(CLAUDE, "Claude Code")), "{text}");
    // Codex names its thread with every call.
    let client = Client::connect(&home, "codex-mcp-client").await;
    let (text, _) = client.call("inspect_session", json!({})).await.unwrap();
    assert!(text.starts_with(&of(CODEX, "Codex")), "{text}");
    let beside = json!({ "threadId": older_codex, "sessionId": "another" });
    let (text, _) = client.call_with("inspect_session", json!({}), beside).await.unwrap();
    assert!(text.starts_with(&of(older_codex, "Codex")), "{text}");
    // One that is kept nowhere is not another one.
    let beside = json!({ "threadId": "019e06e6-2222-72d2-a0ab-112233445566" });
    let refused = client.call_with("inspect_session", json!({}), beside).await.unwrap_err();
    assert!(
        refused.contains("Codex has not written its session `019e06e6-2222-72d2-a0ab-112233445566`"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_session_whose_file_is_not_begun_yet_is_waited_for() {
    let home = home();
    let new = "7f2e53cc-1111-4222-8333-444455556666";
    let client = Client::connect_with(&home, "claude-code", &[("CLAUDE_CODE_SESSION_ID", new)]).await;
    let beside = json!({ "claudecode/toolUseId": "toolu_new" });
    let (answer, ()) = tokio::join!(client.call_with("inspect_session", json!({}), beside), async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        two_more(&home, new, "toolu_new", "019e06e6-1111-72d2-a0ab-112233445566", 0);
    });
    let (text, _) = answer.unwrap();
    assert!(text.starts_with(&format!("session {new} of Claude Code, not stored")), "{text}");
}

#[test]
fn a_server_for_an_unknown_session_does_not_start() {
    let home = home();
    let started =
        |id: &str| home.command(&["mcp", "--session", id], &[]).stdin(Stdio::null()).output().unwrap();
    let refused = started("zzz");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("zzz"), "{said}");
    // That of another tool is one.
    assert!(started(&CLAUDE[..8]).status.success());
}

#[tokio::test]
async fn a_tool_learns_how_full_its_window_is_and_what_fills_it() {
    let home = Home::new();
    let made = claude(&ClaudeSession { responses: 9, hidden: 16_000 });
    let made = made.replace("/srv/app", home.project.to_str().unwrap());
    let path = home.write(".claude/projects/-p/5d0c31aa-1111-4222-8333-444455556666.jsonl", &made);
    let inspected = home.json(&["inspect", path.to_str().unwrap(), "--json"]);
    let client = Client::connect(&home, "claude-code").await;
    let (text, _) = client.call("inspect_session", json!({})).await.unwrap();
    let (window, line) = (inspected["window"].as_u64().unwrap(), inspected["line"].as_u64().unwrap());
    let printed = format!(
        "about {} tokens, {} % of the line at {} in a window of 200,000, 0 outputs cleared",
        plimsoll::Tokens(window),
        (window * 100 + line / 2) / line,
        plimsoll::Tokens(line)
    );
    assert!(text.contains(&printed), "{printed}: {text}");
    let rows = text.lines().filter_map(|line| line.split_once(" tokens: "));
    let sum: u64 = rows.map(|(tokens, _)| tokens.replace(',', "").parse::<u64>().unwrap()).sum();
    assert_eq!(sum, window, "{text}");
    assert!(
        text.contains("tokens: 9 × tool outputs")
            && text.contains("× system prompt and tools (not recorded)"),
        "{text}"
    );
}

#[tokio::test]
async fn each_tool_is_answered_about_its_own_session_and_others_are_named() {
    let home = home();
    let client = Client::connect(&home, "codex-mcp-client").await;
    let (text, _) = client.call("inspect_session", json!({})).await.unwrap();
    assert!(text.starts_with(&format!("session {CODEX} of Codex, not stored")), "{text}");
    let (text, _) = client.call("inspect_session", json!({ "session": "claude-code:5d0c" })).await.unwrap();
    assert!(text.contains(CLAUDE), "{text}");
    let error = client.call("inspect_session", json!({ "session": "ses_none" })).await.unwrap_err();
    assert!(error.contains("-32602"), "{error}");
    // A tool without a session here gets the stored one, or an error that there is none.
    let client = Client::connect(&home, "opencode").await;
    let error = client.call("inspect_session", json!({})).await.unwrap_err();
    assert!(
        error.contains("-32602")
            && error.contains("no session of OpenCode found for `~/project`, and none is stored"),
        "{error}"
    );
}

#[tokio::test]
async fn handles_of_the_original_session_are_answered_in_addition_to_its_own() {
    let home = home();
    let export = export(&home.project).to_string();
    let home = home.with("project/session.json", &export);
    home.run(&["sessions", "import", "session.json"]);
    let printed = home.run(&["prune", "--apply", "ses_5c"]);
    assert!(printed.starts_with("exit: 0"), "{printed}");
    let done = home.json(&["--json", "sessions", "handover", "ses_5c", "--to", "claude-code"]);
    let written = std::fs::read_to_string(done["path"].as_str().unwrap()).unwrap();
    let handle = written.split("recall ").nth(1).unwrap().split(']').next().unwrap();
    let client = Client::connect(&home, "claude-code").await;
    let (text, _) = client.call("inspect_session", json!({})).await.unwrap();
    assert!(
        text.starts_with(&format!("session {} of Claude Code", done["session"].as_str().unwrap())),
        "{text}"
    );
    assert!(text.contains("handed over from: `ses_5c"), "{text}");
    let (text, is_error) = client.call("recall", json!({ "handle": handle, "to": 2 })).await.unwrap();
    assert!(!is_error && text.contains("warning: unused"), "{text}");
    let (listed, _) = client.call("list_recallable", json!({})).await.unwrap();
    assert!(listed.contains(handle), "{listed}");
}

/// A home with `ses_5c`, whose older outputs are cleared, for a directory or the project, and with `ses_6d` for the project,
/// stored later.
fn two_stored(directory: Option<&str>) -> Home {
    let home = Home::new();
    let other = export(&home.project).to_string().replace("ses_5c", "ses_6d").replace("fixed", "other");
    let other = other.replace("warning: unused", "error: unrelated").replace("output ", "result ");
    let first = export(directory.map_or(home.project.as_path(), std::path::Path::new)).to_string();
    let home = home.with("project/session.json", &first);
    let home = home.with("project/other.json", &other);
    home.run(&["sessions", "import", "session.json"]);
    assert!(home.run(&["prune", "--apply", "ses_5c"]).starts_with("exit: 0"));
    home.run(&["sessions", "import", "other.json"]);
    assert!(home.run(&["prune", "--apply", "ses_6d"]).starts_with("exit: 0"));
    home
}

/// The first handle that a session shows.
fn shown_handle(written: &str) -> &str {
    written.split("recall ").nth(1).unwrap().split(']').next().unwrap()
}

#[tokio::test]
async fn a_session_that_was_handed_over_leads_to_its_origin() {
    for directory in [None, Some("/gone/elsewhere")] {
        for (tool, client) in [("claude-code", "claude-code"), ("codex", "codex-mcp-client")] {
            let home = two_stored(directory);
            let done = home.json(&["--json", "sessions", "handover", "ses_5c", "--to", tool]);
            let written = std::fs::read_to_string(done["path"].as_str().unwrap()).unwrap();
            let handle = shown_handle(&written);
            let client = Client::connect(&home, client).await;
            let (listed, _) = client.call("list_recallable", json!({})).await.unwrap();
            assert!(listed.contains(handle) && !listed.contains("other"), "{tool}: {listed}");
            let (text, _) = client.call("recall", json!({ "search": "^output 0" })).await.unwrap();
            assert!(text.contains(handle), "{tool}: {text}");
            let (text, is_error) = client.call("recall", json!({ "handle": handle, "to": 2 })).await.unwrap();
            assert!(!is_error && text.contains("warning: unused"), "{tool}: {text}");
            let (text, _) = client.call("inspect_session", json!({})).await.unwrap();
            assert!(text.contains("handed over from: `ses_5c"), "{tool}: {text}");
            // What is stored of another session has nothing to do with this one.
            let (text, _) = client.call("recall", json!({ "search": "error: unrelated" })).await.unwrap();
            assert!(!text.contains("prt_"), "{tool}: {text}");
        }
    }
}

/// A hand-over reduces only the copy, so the stored original still has in its window what the copy has cleared.
#[tokio::test]
async fn outputs_cleared_only_in_the_copy_are_listed_and_found() {
    for is_stored_first in [true, false] {
        let home = Home::new();
        let first = export(&home.project).to_string();
        let home = home.with("project/session.json", &first);
        let input = if is_stored_first { "ses_5c" } else { "session.json" };
        if is_stored_first {
            home.run(&["sessions", "import", "session.json"]);
        }
        let handover = ["--json", "sessions", "handover", input, "--to", "claude-code", "--context", "80k"];
        let printed = home.command(&handover, &[]).stdin(Stdio::null()).output().unwrap();
        let done: Value = serde_json::from_slice(&printed.stdout).unwrap();
        let said = String::from_utf8(printed.stderr).unwrap();
        let step = "run `plimsoll sessions import session.json` (now or later), then `plimsoll mcp`";
        assert_eq!(said.contains(step), !is_stored_first, "{said}");
        assert!(!done["reduced"]["receipts"].as_array().unwrap().is_empty(), "{done}");
        if !is_stored_first {
            home.run(&["sessions", "import", "session.json"]);
        }
        let written = std::fs::read_to_string(done["path"].as_str().unwrap()).unwrap();
        let handle = shown_handle(&written);
        let client = Client::connect(&home, "claude-code").await;
        let (listed, _) = client.call("list_recallable", json!({})).await.unwrap();
        assert!(listed.contains(handle) && listed.starts_with("Outside the window: "), "{listed}");
        let (text, _) = client.call("recall", json!({ "search": "^output 0" })).await.unwrap();
        assert!(text.contains(handle) && text.contains("output 0"), "{text}");
        // What the copy still has in its window is not listed.
        let cleared = written.matches("result content cleared; recall ").count();
        assert_eq!(listed.matches("output of read").count(), cleared, "{listed}");
        let (text, _) = client.call("recall", json!({ "search": "^output 7" })).await.unwrap();
        assert!(!text.contains("prt_"), "{text}");
    }
}

/// A tool may continue under a new id in a file that it wrote itself. Then only the texts are equal.
#[tokio::test]
async fn the_origin_of_a_session_with_a_new_id_follows_from_its_handles() {
    let home = two_stored(Some("/gone/elsewhere"));
    let done = home.json(&["--json", "sessions", "handover", "ses_5c", "--to", "claude-code"]);
    let path = std::path::PathBuf::from(done["path"].as_str().unwrap());
    let written = std::fs::read_to_string(&path).unwrap();
    let records = written.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["plimsoll"]["handed_over_from"], "ses_5c1000000001ABCDEFGHIJKLMN");
        record.as_object_mut().unwrap().remove("plimsoll");
        record["sessionId"] = CLAUDE.into();
        format!("{record}\n")
    });
    std::fs::write(path.with_file_name(format!("{CLAUDE}.jsonl")), records.collect::<String>()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let client = Client::connect(&home, "claude-code").await;
    let (listed, _) = client.call("list_recallable", json!({})).await.unwrap();
    assert!(listed.contains(shown_handle(&written)) && !listed.contains("other"), "{listed}");
    // Without what it was handed over from, it is a session as any other.
    assert!(home.run(&["sessions", "rm", "ses_5c", "--force"]).starts_with("exit: 0"));
    let (listed, _) = client.call("list_recallable", json!({})).await.unwrap();
    assert!(listed.contains("prt_other"), "{listed}");
}

#[tokio::test]
async fn a_handle_is_answered_wherever_its_session_is_stored_unless_one_is_named() {
    let home = two_stored(Some("/gone/elsewhere"));
    home.claude(CLAUDE, "Another matter", 0);
    let done = home.json(&["--json", "sessions", "handover", "ses_5c", "--to", "claude-code"]);
    let written = std::fs::read_to_string(done["path"].as_str().unwrap()).unwrap();
    let handle = shown_handle(&written);
    // The client is in another session than the one that was handed over, and was shown the handle.
    let client = Client::connect_with(&home, "claude-code", &[("CLAUDE_CODE_SESSION_ID", CLAUDE)]).await;
    let (text, is_error) = client.call("recall", json!({ "handle": handle, "to": 2 })).await.unwrap();
    assert!(!is_error && text.contains("warning: unused"), "{text}");
    // A part of a handle could be guessed, and a search would show what has nothing to do with this session.
    let (text, is_error) = client.call("recall", json!({ "handle": &handle[..8] })).await.unwrap();
    assert!(is_error, "{text}");
    let (text, _) = client.call("recall", json!({ "search": "warning: unused" })).await.unwrap();
    assert!(!text.contains("prt_"), "{text}");
    let current = done["session"].as_str().unwrap();
    let (text, is_error) =
        client.call("recall", json!({ "handle": handle, "session": current })).await.unwrap();
    assert!(is_error, "{text}");
}

#[tokio::test]
async fn an_inspection_stores_the_count_of_every_text() {
    let home = Home::new();
    let export = export(&home.project).to_string();
    let home = home.with("project/session.json", &export);
    assert!(home.run(&["sessions", "import", "session.json"]).starts_with("exit: 0"));
    assert_eq!(home.stored_counts(), [None; 8]);
    let client = Client::connect(&home, "other").await;
    client.call("inspect_session", json!({ "session": "ses_5c" })).await.unwrap();
    assert!(home.stored_counts().iter().all(Option::is_some), "{:?}", home.stored_counts());
}
