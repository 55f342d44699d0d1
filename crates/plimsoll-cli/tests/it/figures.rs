//! Figures of sessions that record usage: window, cost, and differences between recorded and rebuilt requests.

use std::time::Duration;

use insta::assert_snapshot;
use plimsoll::{Message, Part};
use plimsoll_store::NewSession;
use serde_json::{Value, json};

use crate::support::{Home, now};

/// Parameters of a generated session.
pub(crate) struct ClaudeSession {
    /// Responses, each of which reads a file.
    pub(crate) responses: usize,
    /// Tokens of what the host sends with every request and the file does not show.
    pub(crate) hidden: u64,
}

/// A session of Claude Code in `/srv/app`: a prompt, an attachment of the host, and reads of three files in turn. The
/// usage is that of a provider which counts three tokens for every eight letters, and of a host that sends so many
/// tokens unseen.
pub(crate) fn claude(made: &ClaudeSession) -> String {
    let mut lines = Vec::new();
    let mut parent = Value::Null;
    let mut sent = made.hidden;
    let mut line = |mut record: Value, parent: &mut Value| {
        let uuid = format!("r{}", lines.len());
        record["uuid"] = json!(uuid);
        record["parentUuid"] = parent.take();
        record["sessionId"] = json!("5d0c31aa-1111-4222-8333-444455556666");
        record["cwd"] = json!("/srv/app");
        record["timestamp"] =
            json!(format!("2026-05-01T10:{:02}:{:02}.000Z", lines.len() / 60, lines.len() % 60));
        *parent = json!(uuid);
        lines.push(record.to_string());
    };
    let tokens = |text: &str| text.len() as u64 * 3 / 8 + 10;
    let prompt = "Find out why the sums are wrong.";
    line(json!({ "type": "user", "message": { "role": "user", "content": prompt } }), &mut parent);
    let listing = "- review: looks at a change\n".repeat(20);
    line(
        json!({ "type": "attachment", "attachment": { "type": "skill_listing", "content": listing } }),
        &mut parent,
    );
    sent += tokens(prompt) + tokens(&listing);
    for number in 0..made.responses {
        let path = format!("/srv/app/src/{}.rs", ["sums", "ledger", "main"][number % 3]);
        let call = json!({ "type": "tool_use", "id": format!("c{number}"), "name": "Read", "input": { "file_path": path } });
        let usage = json!({ "input_tokens": 5, "cache_read_input_tokens": sent - 5 - 600, "cache_creation_input_tokens": 600,
            "cache_creation": { "ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 500 }, "output_tokens": 40 });
        let message = json!({ "id": format!("m{number}"), "model": "claude-sonnet-4-6", "role": "assistant",
            "content": [call], "stop_reason": "tool_use", "usage": usage });
        line(
            json!({ "type": "assistant", "requestId": format!("q{number}"), "message": message }),
            &mut parent,
        );
        let content: String =
            (0..120 + number * 7 % 40).map(|n| format!("let sum_{n} = {};\n", n * 7 + number)).collect();
        sent += 40 + tokens(&content);
        let result =
            json!({ "type": "tool_result", "tool_use_id": format!("c{number}"), "content": content });
        line(json!({ "type": "user", "message": { "role": "user", "content": [result] } }), &mut parent);
    }
    let usage = json!({ "input_tokens": 5, "cache_read_input_tokens": sent - 5, "output_tokens": 60 });
    let message = json!({ "id": "last", "model": "claude-sonnet-4-6", "role": "assistant",
        "content": [{ "type": "text", "text": "The ledger adds twice." }], "stop_reason": "end_turn", "usage": usage });
    line(json!({ "type": "assistant", "requestId": "last", "message": message }), &mut parent);
    lines.join("\n") + "\n"
}

fn home() -> Home {
    Home::new().with("project/s.jsonl", &claude(&ClaudeSession { responses: 9, hidden: 16_000 }))
}

#[test]
fn inspect_shows_the_window_by_recorded_usage() {
    assert_snapshot!(home().page(&["inspect s.jsonl"]));
}

#[test]
fn a_wide_terminal_is_used_and_the_log_is_shown_on_request() {
    let printed = home().page(&["COLUMNS=200 inspect --log s.jsonl"]);
    assert!(printed.lines().any(|line| line.chars().count() > 100), "{printed}");
    assert_snapshot!(printed);
}

#[test]
fn nothing_is_wider_than_the_page() {
    let home = home();
    for columns in ["40", "80", "120", "200"] {
        let printed = home.page(&[&format!("COLUMNS={columns} inspect --log s.jsonl")]);
        let most: usize = columns.parse().unwrap();
        for line in printed.lines().skip(1) {
            assert!(line.chars().count() <= most.max(60), "{columns}: {line}");
        }
    }
}

#[test]
fn recorded_usage_is_for_machines_too() {
    let found = home().json(&["inspect", "s.jsonl", "--json"]);
    let recorded = &found["recorded"];
    assert_eq!((&recorded["responses"], &recorded["output"]), (&json!(10), &json!(9 * 40 + 60)));
    assert_eq!((&recorded["input"], &recorded["cacheWrite"]), (&json!(50), &json!(9 * 600)));
    let read = recorded["cacheRead"].as_u64().unwrap() as f64;
    // Sonnet: input 3, read 0.3, written 3.75 and 6 for an hour, output 15 dollars a million.
    let cost = (50.0 * 3.0 + read * 0.3 + 900.0 * 3.75 + 4_500.0 * 6.0 + 420.0 * 15.0) / 1e6;
    assert!((recorded["cost"].as_f64().unwrap() - cost).abs() < 1e-9, "{recorded}");
    let last = recorded["lastRequest"].as_u64().unwrap();
    let window = found["window"].as_u64().unwrap();
    assert!((last..=last + 60).contains(&window), "{window}: the last request and its answer");
    assert_eq!((&found["measured"], &found["context"]), (&json!("usage"), &json!(200_000)));
    let hidden = found["hidden"].as_u64().unwrap();
    assert!((15_000..17_000).contains(&hidden), "{hidden}");
    let host = found["byKind"].as_array().unwrap().iter().find(|kind| kind["name"] == "the host").unwrap();
    assert_eq!(host["count"], 1, "an attachment is not the user's");
    assert!(found["rebuilt"]["gap"].as_f64().unwrap().abs() < 0.05, "{}", found["rebuilt"]);
}

#[test]
fn window_and_sessions_show_recorded_figures() {
    let home = home();
    let window = home.json(&["window", "s.jsonl", "--json"]);
    let inspected = home.json(&["inspect", "s.jsonl", "--json"]);
    assert_eq!((&window["tokens"], &window["measured"]), (&inspected["window"], &json!(true)));
    let printed = home.run(&["window", "s.jsonl"]);
    assert!(
        printed.contains("tokens by recorded usage, ") && printed.contains(" of them not in the file"),
        "{printed}"
    );
    let text = std::fs::read_to_string(home.project.join("s.jsonl")).unwrap();
    let text = text.replace("/srv/app", home.project.to_str().unwrap());
    home.write(".claude/projects/-work-app/5d0c31aa-1111-4222-8333-444455556666.jsonl", &text);
    let printed = home.run(&["sessions"]);
    assert!(printed.contains("COST") && printed.contains("$0.10"), "{printed}");
    let rows = home.json(&["sessions", "--json"]);
    assert_eq!(rows[0]["recorded"], inspected["recorded"]);
}

#[test]
fn content_after_the_last_response_weighs_the_same_in_every_list() {
    let home = home();
    let text = std::fs::read_to_string(home.project.join("s.jsonl")).unwrap();
    let text = text.replace("/srv/app", home.project.to_str().unwrap());
    // The answer to the last prompt is still to come.
    let prompt = json!({ "type": "user", "uuid": "late", "parentUuid": "r20", "cwd": home.project,
        "sessionId": "5d0c31aa-1111-4222-8333-444455556666", "timestamp": "2026-05-01T11:00:00.000Z",
        "message": { "role": "user", "content": "let sum = 7 * 8 + total_of_row(9);\n".repeat(400) } });
    let place = ".claude/projects/-work-app/5d0c31aa-1111-4222-8333-444455556666.jsonl";
    let path = home.write(place, &format!("{text}{prompt}\n"));
    let inspected = home.json(&["inspect", path.to_str().unwrap(), "--json"]);
    let last = inspected["recorded"]["lastRequest"].as_u64().unwrap();
    assert!(inspected["window"].as_u64().unwrap() > last + 3_000, "{}", inspected["window"]);
    assert_eq!(home.json(&["sessions", "--json"])[0]["window"], inspected["window"]);
    assert_eq!(home.json(&["window", path.to_str().unwrap(), "--json"])["tokens"], inspected["window"]);
}

#[test]
fn a_gap_between_recorded_and_rebuilt_requests_is_explained() {
    // Of a longer session the middle is lost: the links hold, but most of what was sent is not there.
    let made = claude(&ClaudeSession { responses: 60, hidden: 4_000 });
    let lines: Vec<&str> = made.lines().collect();
    let rest = format!("{}\n{}\n", lines[..16].join("\n"), lines[110..].join("\n"));
    let home = Home::new().with("project/s.jsonl", &rest);
    let printed = home.run(&["inspect", "s.jsonl"]);
    assert!(printed.contains("note: the last request was recorded with "), "{printed}");
    assert!(
        printed.split_whitespace().collect::<Vec<_>>().join(" ").contains("something that the file does not"),
        "{printed}"
    );
    let found = home.json(&["inspect", "s.jsonl", "--json"]);
    assert!(found["rebuilt"]["gap"].as_f64().unwrap() > 0.34, "{}", found["rebuilt"]);
}

#[test]
fn a_recorded_window_decides_where_the_line_is() {
    let count = json!({ "type": "event_msg", "payload": { "type": "token_count", "info": {
        "total_token_usage": { "total_tokens": 300_010 }, "model_context_window": 353_400,
        "last_token_usage": { "input_tokens": 300_000, "cached_input_tokens": 200_000, "output_tokens": 10 } } } });
    let said = |role: &str, kind: &str, text: &str| {
        json!({ "type": "response_item", "payload": { "type": "message", "role": role,
            "content": [{ "type": kind, "text": text }] } })
    };
    let context = json!({ "type": "turn_context", "payload": { "model": "gpt-5.5", "cwd": "/work" } });
    let records =
        [context, said("user", "input_text", "Go on"), said("assistant", "output_text", "Done"), count];
    let file: String = records.iter().map(|record| format!("{record}\n")).collect();
    let home = Home::new().with("project/s.jsonl", &file);
    let found = home.json(&["inspect", "s.jsonl", "--json"]);
    assert_eq!((&found["context"], &found["contextSource"]), (&json!(353_400), &json!("recorded")));
    assert_eq!(found["window"], 300_010);
    assert!(found["line"].as_u64().unwrap() > 300_010, "{}", found["line"]);
    assert_eq!(home.json(&["inspect", "s.jsonl", "--json", "--context", "100000"])["context"], 100_000);
}

/// A session of Codex that records a window of this size after each answer.
fn codex_with_windows(windows: &[u64]) -> String {
    let mut records = vec![
        json!({ "type": "session_meta", "payload": { "id": "0199aaaa-1111-7222-8333-444455556666", "cwd": "/work" } }),
        json!({ "type": "turn_context", "payload": { "model": "gpt-5.5", "cwd": "/work" } }),
    ];
    let said = |role: &str, kind: &str, text: &str| {
        json!({ "type": "response_item", "payload": { "type": "message", "role": role,
            "content": [{ "type": kind, "text": text }] } })
    };
    for window in windows {
        records.push(said("user", "input_text", "Go on"));
        records.push(said("assistant", "output_text", "Done"));
        records.push(json!({ "type": "event_msg", "payload": { "type": "token_count", "info": {
            "total_token_usage": { "total_tokens": 300_010 }, "model_context_window": window,
            "last_token_usage": { "input_tokens": 300_000, "cached_input_tokens": 200_000, "output_tokens": 10 } } } }));
    }
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// A session's window in the commands: its size and source, the line, and the target of `prune --to`.
fn shown_windows(home: &Home, session: &str) -> Value {
    let inspected = home.json(&["inspect", session, "--json"]);
    let watched = home.json(&["watch", "--once", "--json", session]);
    let replayed = home.json(&["replay", "--json", "--policy", "none", session]);
    let pruned = home.json(&["prune", "--to", "50%", "--json", session]);
    json!({
        "inspect": [inspected["context"], inspected["contextSource"], inspected["line"]],
        "watch": [watched["context"], watched["line"]],
        "replay": replayed["sessions"][0]["context"],
        "prune": pruned["shortfall"]["needed"],
    })
}

#[test]
fn an_imported_session_keeps_the_window_it_was_recorded_under() {
    let home = Home::new().with("project/s.jsonl", &codex_with_windows(&[353_400]));
    let stored = "0199aaaa-1111-7222-8333-444455556666";
    home.json(&["sessions", "import", "s.jsonl", "--json"]);
    let of_file = shown_windows(&home, "s.jsonl");
    assert_eq!(of_file["inspect"], json!([353_400, "recorded", 337_016]));
    assert_eq!(of_file["prune"], 176_700);
    assert_eq!(shown_windows(&home, stored), of_file);
    let printed = home.run(&["window", stored]);
    assert!(printed.contains("% of the line at 337,016"), "{printed}");
    let printed = home.run(&["prune", "--to", "90%", "--apply", stored]);
    assert!(printed.contains("the target is 318,060"), "{printed}");
    assert_eq!(home.json(&["inspect", stored, "--json", "--context", "100000"])["context"], 100_000);
    // It continues in another window.
    home.write("project/s.jsonl", &codex_with_windows(&[353_400, 320_000]));
    home.json(&["sessions", "import", "s.jsonl", "--json"]);
    assert_eq!(shown_windows(&home, stored), shown_windows(&home, "s.jsonl"));
    assert_eq!(home.json(&["inspect", stored, "--json"])["context"], 320_000);
    // A fork begins with what was said in that window.
    let archive = home.archive();
    archive.store().fork(&stored.into(), None, NewSession::new("ses_fork".into()), now()).unwrap();
    assert_eq!(shown_windows(&home, "ses_fork"), shown_windows(&home, "s.jsonl"));
    // From the first answer that was asked for here, the model's window counts.
    let mut answer = Message::assistant("msg_here".into(), vec![Part::text("prt_here".into(), "On it")]);
    answer.info.model_id = Some("claude-sonnet-4-6".into());
    answer.info.finish = Some("stop".into());
    let lease = archive.store().lease(&stored.into(), "a test", Duration::from_secs(60)).unwrap();
    archive.store().append(&lease.claim(), vec![answer.at(now()).asked_here()], now()).unwrap();
    let found = home.json(&["inspect", stored, "--json"]);
    assert_eq!(found["contextSource"], "model", "{}", found["context"]);
}

/// A session of a model that is configured for runs was shown in the window of models of which nothing is known.
#[test]
fn a_session_is_shown_in_the_window_that_is_configured_for_its_model() {
    let chat = json!({ "model": "harbour-1", "messages": [{ "role": "user", "content": "How deep is it?" },
        { "role": "assistant", "content": "Nine metres." }] });
    let home = Home::new().with("project/s.json", &chat.to_string());
    home.write(
        ".config/plimsoll/config.toml",
        "[providers.local]\napi = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\n\
         [providers.local.models.harbour-1]\ncontext = 32000\noutput = 4000\n\
         price = { input = 2, output = 8 }\n",
    );
    let found = home.json(&["inspect", "s.json", "--json"]);
    assert_eq!((&found["context"], &found["line"]), (&json!(32_000), &json!(28_000)));
    assert_eq!(home.json(&["watch", "--once", "--json", "s.json"])["line"], 28_000);
    let replayed = &home.json(&["replay", "--json", "--policy", "none", "s.json"])["sessions"][0];
    assert_eq!((&replayed["price"], &replayed["prices"]["output"]), (&json!("harbour-1"), &json!(8.0)));
    let named = &home.json(&["replay", "--json", "--policy", "none", "--price-as", "default", "s.json"])["sessions"]
        [0];
    assert_eq!(named["price"], "default");
}

/// How many requests a summary takes, and how much may be pinned, depends on the window.
#[test]
fn a_compaction_and_pins_are_within_the_window_that_was_recorded() {
    let said = |role: &str, kind: &str, text: String| {
        json!({ "timestamp": "2026-05-02T09:18:36.000Z", "type": "response_item", "payload": { "type": "message",
            "role": role, "content": [{ "type": kind, "text": text }] } })
    };
    let meta = json!({ "timestamp": "2026-05-02T09:18:36.000Z", "type": "session_meta",
        "payload": { "id": "0199aaaa-1111-7222-8333-444455556666", "cwd": "/srv/app" } });
    let window = json!({ "timestamp": "2026-05-02T09:18:36.000Z", "type": "event_msg", "payload": { "type": "token_count",
        "info": { "model_context_window": 20_000 } } });
    let turns = (0..12).flat_map(|turn| {
        [
            said("user", "input_text", format!("Question {turn}: {}", "why ".repeat(1_000))),
            said("assistant", "output_text", format!("Answer {turn}: {}", "so. ".repeat(1_000))),
        ]
    });
    let lines: Vec<String> =
        std::iter::once(meta).chain(turns).chain([window]).map(|line| line.to_string()).collect();
    let home = Home::new().with("project/s.jsonl", &lines.join("\n"));
    home.json(&["sessions", "import", "s.jsonl", "--json"]);
    for session in ["s.jsonl", "0199aaaa-1111-7222-8333-444455556666"] {
        assert_eq!(home.json(&["inspect", session, "--json"])["context"], 20_000);
        let calls = |more: &[&str]| {
            let args: Vec<&str> = [&["compact", session, "--json"], more].concat();
            home.json(&args)["calls"].as_u64().unwrap()
        };
        assert_eq!(calls(&["--context", "200000"]), 1, "{session}");
        assert_eq!(calls(&[]), calls(&["--context", "20000"]), "{session}");
        assert!(calls(&[]) > 1, "{session}");
    }
    let pins = home.json(&["pins", "0199aaaa-1111-7222-8333-444455556666", "--json"]);
    // A quarter of its line.
    assert_eq!(pins["budget"], 2_500, "{pins}");
}

#[test]
fn an_imported_session_of_claude_code_keeps_its_usual_window() {
    let home = Home::new().with("project/s.jsonl", &claude(&ClaudeSession { responses: 9, hidden: 16_000 }));
    let stored = "5d0c31aa-1111-4222-8333-444455556666";
    home.json(&["sessions", "import", "s.jsonl", "--json"]);
    let of_file = shown_windows(&home, "s.jsonl");
    assert_eq!(of_file["inspect"][0], 200_000);
    assert_eq!(shown_windows(&home, stored), of_file);
    // As a version left it that did not keep the tool.
    let database = home.path.join(".local/share/plimsoll/plimsoll.db");
    let database = rusqlite::Connection::open(database).unwrap();
    database.execute("UPDATE session SET tool = NULL", []).unwrap();
    assert_ne!(shown_windows(&home, stored), of_file);
    let printed = home.run(&["sessions", "import", "s.jsonl"]);
    assert!(printed.contains("is already stored"), "{printed}");
    assert_eq!(shown_windows(&home, stored), of_file);
}

#[test]
fn images_weigh_in_the_log_what_they_weigh_in_the_window() {
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" } });
    let chat = json!([{ "role": "user", "content": [{ "type": "text", "text": "Look at both" }, image] },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "a", "name": "Read",
            "input": { "file_path": "/srv/app/a.png" } }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "a", "content": [image] }] }]);
    let home = Home::new().with("project/s.json", &chat.to_string());
    let found = home.json(&["inspect", "s.json", "--json"]);
    let of = |rows: &Value, name: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name);
        row.unwrap_or_else(|| panic!("no {name} in {rows}"))["tokens"].as_u64().unwrap()
    };
    // A row of the window has its share of what a message costs by itself.
    for kind in ["files", "tool outputs"] {
        let (log, window) = (of(&found["log"]["byKind"], kind), of(&found["byKind"], kind));
        assert!((window.saturating_sub(20)..=window).contains(&log), "{kind}: {log} of {window}");
    }
    assert!(of(&found["log"]["byTool"], "Read") >= 1_600, "{}", found["log"]);
    assert!(found["tokens"].as_u64().unwrap() >= 3_200, "{}", found["tokens"]);
}

#[test]
fn a_call_that_names_several_files_is_counted_once() {
    let change = "@@\n-let a = 1;\n+let a = 2;\n".repeat(50);
    let change = |file: &str| format!("*** Update File: {file}\n{change}");
    let patch = format!("*** Begin Patch\n{}{}*** End Patch\n", change("a.rs"), change("b.rs"));
    let chat = json!([{ "role": "user", "content": "Look at both" },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "a", "name": "apply_patch",
            "input": { "patch": patch } }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "a", "content": "Updated both" }] }]);
    let home = Home::new().with("project/s.json", &chat.to_string());
    let found = home.json(&["inspect", "s.json", "--json"]);
    let sum = |rows: &Value| -> u64 {
        rows.as_array().unwrap().iter().map(|row| row["tokens"].as_u64().unwrap()).sum()
    };
    for rows in [&found, &found["log"]] {
        assert_eq!(rows["byFile"].as_array().unwrap().len(), 2, "{}", rows["byFile"]);
        assert!(sum(&rows["byFile"]) <= sum(&rows["byTool"]), "{} but {}", rows["byFile"], rows["byTool"]);
    }
}

#[test]
fn several_sessions_in_a_file_are_reported() {
    let one =
        r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"one","message":{"content":"first"}}"#;
    let two =
        r#"{"type":"user","uuid":"u2","parentUuid":null,"sessionId":"two","message":{"content":"second"}}"#;
    let home = Home::new().with("project/s.jsonl", &format!("{one}\n{two}\n"));
    let printed = home.run(&["inspect", "s.jsonl"]);
    assert!(
        printed.contains(
            "note: `s.jsonl` contains 2 sessions; using `two`, not one (choose another with `--session`)"
        ),
        "{printed}"
    );
}

#[test]
fn a_replay_weighs_requests_as_they_were_counted() {
    let home = home();
    let replay = home.json(&["replay", "--json", "--policy", "none", "s.jsonl"]);
    let session = &replay["sessions"][0];
    assert_eq!((&session["measured"], &session["context"]), (&json!(true), &json!(200_000)));
    assert_eq!(session["cacheMinutes"], 60, "most was written to the cache for an hour");
    assert_eq!(session["prices"]["cacheWrite"], 6.0, "which has its price");
    let hidden = session["hidden"].as_u64().unwrap();
    assert!((15_000..17_000).contains(&hidden), "{hidden}");
    let windows = session["policies"][0]["windows"].as_array().unwrap();
    let sent = windows.last().unwrap()["tokens"].as_u64().unwrap();
    let recorded = home.json(&["inspect", "s.jsonl", "--json"])["recorded"]["lastRequest"].as_u64().unwrap();
    assert!(sent.abs_diff(recorded) * 20 <= recorded, "{sent} for {recorded}");
    assert_eq!(session["recordedRequests"].as_array().unwrap().last().unwrap(), &json!(recorded));
    let printed = home.run(&["replay", "--html", "page.html", "s.jsonl"]);
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.contains("The window never came near the line: "), "{printed}");
    let page = std::fs::read_to_string(home.project.join("page.html")).unwrap();
    assert!(page.contains("class=\"recorded\"") && page.contains(">recorded</text>"), "a separate line");
    assert!(page.contains("try <code>--context 16000</code>"), "what would be near");
}

/// In every command, a figure with the same name has the same value.
#[test]
fn counts_agree_between_commands() {
    let pi = [
        json!({ "type": "session", "id": "p1", "timestamp": "2026-05-01T10:00:00Z", "cwd": "/srv/app" }),
        json!({ "type": "message", "message": { "role": "user", "content": "Look around" } }),
        json!({ "type": "message", "message": { "role": "assistant", "model": "claude-sonnet-4-6", "stopReason": "toolUse",
            "content": [{ "type": "toolCall", "id": "a", "name": "ls", "arguments": {} },
                { "type": "toolCall", "id": "b", "name": "ls", "arguments": { "path": "src" } }],
            "usage": { "input": 900, "output": 20, "cacheRead": 0, "cacheWrite": 0 } } }),
        json!({ "type": "message", "message": { "role": "toolResult", "toolCallId": "a", "content": "a.rs" } }),
        json!({ "type": "message", "message": { "role": "toolResult", "toolCallId": "b", "content": "b.rs" } }),
        json!({ "type": "message", "message": { "role": "assistant", "content": [{ "type": "text", "text": "Half" }],
            "stopReason": "error", "errorMessage": "overloaded", "usage": { "input": 0, "output": 0 } } }),
    ];
    let pi: String = pi.iter().map(|record| format!("{record}\n")).collect();
    let chat = json!([{ "role": "user", "content": "Look around" },
        { "role": "assistant", "content": null, "tool_calls":
            [{ "id": "a", "type": "function", "function": { "name": "ls", "arguments": "{}" } }] },
        { "role": "tool", "tool_call_id": "a", "content": "a.rs" }]);
    let claude = claude(&ClaudeSession { responses: 9, hidden: 16_000 });
    let mut samples = vec![
        ("s.jsonl".to_owned(), claude),
        ("pi.jsonl".to_owned(), pi),
        ("chat.json".to_owned(), chat.to_string()),
    ];
    samples.extend(seeds());
    let differences: Vec<String> = samples.iter().flat_map(|(file, text)| differences(file, text)).collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

/// A sample of every format: the seeds of the fuzz target, whose first byte only chooses the format.
fn seeds() -> Vec<(String, String)> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|ending| ending == "txt"));
    let mut seeds: Vec<(String, String)> = texts
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), text[1..].to_owned())
        })
        .collect();
    seeds.sort();
    assert!(seeds.len() >= 16, "{}", seeds.len());
    seeds
}

/// Figures of one session that differ between commands.
fn differences(file: &str, text: &str) -> Vec<String> {
    let home = Home::new().with(&format!("project/{file}"), text);
    let json = |args: &[&str]| -> Value {
        let output = home.command(args, &[]).output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{file}: {args:?}: {}", String::from_utf8_lossy(&output.stderr)))
    };
    let mut found = Vec::new();
    let mut same = |what: &str, one: &Value, other: &Value| {
        if one != other {
            found.push(format!("{file}: {what}: {one} and {other}"));
        }
    };
    let inspected = json(&["inspect", file, "--json"]);
    let window = json(&["window", file, "--json"]);
    for (ours, theirs) in [("window", "tokens"), ("hidden", "hidden"), ("unseen", "unseen")] {
        same(&format!("{ours} in inspect and window"), &inspected[ours], &window[theirs]);
    }
    same("measured", &json!(inspected["measured"] == "usage"), &window["measured"]);
    let watched = json(&["watch", "--once", file, "--json"]);
    for (ours, theirs) in [("window", "tokens"), ("line", "line"), ("messages", "messages")] {
        same(&format!("{ours} in inspect and watch"), &inspected[ours], &watched[theirs]);
    }
    let forked = json(&["fork", file, "--json"]);
    same("messages in inspect and fork", &inspected["messages"], &forked["stats"]["originalCount"]);
    // Calls of tools, in the log and in what is written of it.
    let rows = inspected["log"]["byTool"].as_array().unwrap();
    let calls: u64 = rows.iter().map(|row| row["count"].as_u64().unwrap()).sum();
    let chat = json(&["convert", "--to", "openai-chat", file]);
    let said = chat["messages"].as_array().unwrap();
    let written: usize = said.iter().map(|one| one["tool_calls"].as_array().map_or(0, Vec::len)).sum();
    same("calls in inspect and convert", &json!(calls), &json!(written));
    let printed = home.run(&["convert", "--to", "openai-chat", file, "-o", "out.json"]);
    same(
        "messages that convert writes",
        &json!(printed.contains(&format!("wrote {} message", said.len()))),
        &json!(true),
    );
    // In one sample a turn was undone. It was paid for, but is not part of the session.
    let is_whole = file != "format-8.txt";
    let responses = inspected["recorded"]["responses"].as_u64().unwrap();
    let counted = match responses {
        1 => "1 record of usage".to_owned(),
        _ => format!("{responses} records of usage"),
    };
    same(
        &format!("usage that convert loses ({printed})"),
        &json!(!is_whole || responses == 0 || printed.contains(&counted)),
        &json!(true),
    );
    same("failed answers", &json!(printed.contains("1 failed answer")), &json!(file == "pi.jsonl"));
    // Each answer of the model is replayed, whether or not something was counted for it; a session without any cannot be.
    let log = json(&["convert", "--to", "opencode-messages", file]);
    let is_answer = |message: &&Value| {
        let info = &message["info"];
        info["role"] == "assistant"
            && info["summary"] != true
            && info["error"].is_null()
            && !message["parts"].as_array().unwrap().is_empty()
    };
    let answers = log.as_array().unwrap().iter().filter(is_answer).count();
    let replay = home.command(&["replay", file, "--policy", "none", "--json"], &[]).output().unwrap();
    let replayed: Value = serde_json::from_slice(&replay.stdout).unwrap_or_default();
    let replayed = replayed["total"][0]["calls"].as_u64().unwrap_or(0);
    same("answers in the log and calls in replay", &json!(answers), &json!(replayed));
    // Stored, it is the same session.
    home.run(&["sessions", "import", file]);
    let listed = &json(&["sessions", "--all", "--json"])[0];
    let shown = json(&["sessions", "show", listed["id"].as_str().unwrap(), "--json"]);
    for (command, printed) in [("sessions", listed), ("show", &shown)] {
        same(&format!("messages in inspect and {command}"), &inspected["messages"], &printed["messages"]);
        if is_whole {
            same(&format!("recorded in inspect and {command}"), &inspected["recorded"], &printed["recorded"]);
        }
    }
    same("window in inspect and sessions", &inspected["window"], &listed["window"]);
    found
}
