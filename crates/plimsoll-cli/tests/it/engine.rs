//! Commands of the engine: inspect, window, prune, compact, fork, convert, truncate.

use insta::assert_snapshot;
use plimsoll::Counter;
use plimsoll_tokens::Bpe;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Home, chat, ok, parsed, refused};

#[test]
fn fork_writes_preamble_and_digest_for_another_agent() {
    let text = ok(&["fork"], &chat(2));
    assert!(text.starts_with("You are working with forked context from a parent agent session.\n"));
    assert!(text.contains("[Tool: read] {\"path\":\"src/lib.rs\",\"a\":1}"), "inputs keep their key order");
    let json = parsed(&["fork", "--json"], &chat(2));
    assert_eq!(json["stats"]["tierDistribution"], json!({ "tier1": 2, "tier2": 0, "tier3": 0 }));
    assert!(json["context"].as_str().unwrap().starts_with("<inherited_context>"));
}

/// The digest and its preamble fit the window that is named, by a real vocabulary, and leave half of the line.
#[test]
fn fork_fits_the_given_context() {
    let ships = chat(8).replace("word word ", "海の船は");
    for (session, context) in [(chat(8), 2_000), (chat(8), 16_000), (chat(8), 64_000), (ships, 32_000)] {
        let text = ok(&["fork", "--context", &context.to_string()], &session);
        let tokens = Bpe::O200k.count(&text).0;
        assert!(tokens <= context / 4, "{tokens} of {context}");
        assert!(text.contains("Never touch the tests."), "the user's words stay");
        assert!(text.trim_end().ends_with("</inherited_context>"));
    }
    let (code, printed) = refused(&["fork", "--context", "1000"], &chat(8));
    assert_eq!(code, 1);
    assert!(printed.contains("the smallest digest has") && printed.contains("--context"), "{printed}");
}

#[test]
fn prune_shows_only_what_would_be_applied() {
    let plan = parsed(&["prune", "--plan", "--json"], &chat(8));
    // Four of ten thousand tokens are exactly what is protected.
    assert_eq!(plan["items"].as_array().unwrap().len(), 4);
    assert_eq!(plan["items"][0]["tool"], "read");
    assert_eq!(plan["freedTokens"], 40_000);
    let nothing = parsed(&["prune", "--plan", "--json"], &chat(2));
    assert_eq!((&nothing["items"], &nothing["freedTokens"]), (&json!([]), &json!(0)));
    assert!(ok(&["prune"], &chat(8)).starts_with("prune 4 tool outputs\n  window "));
}

#[test]
fn window_is_what_the_model_would_receive() {
    let window = parsed(&["window", "--json"], &chat(1));
    assert_eq!(window["messages"][0]["role"], "user");
    assert_eq!(window["messages"][2]["blocks"][0]["type"], "result");
    assert!(window["tokens"].as_u64().unwrap() > 10_000);
    assert!(ok(&["window"], &chat(1)).contains("── tool  10,00"));
}

#[test]
fn compact_plans_and_summarises_without_a_model() {
    let plan = parsed(&["compact", "--plan", "--json", "--context", "60000"], &chat(6));
    assert_eq!(plan["made"], "byModel");
    assert!(plan["messages"].as_u64().unwrap() > 4);
    let summary = ok(&["compact", "--offline", "--context", "60000"], &chat(6));
    assert!(summary.starts_with("(This summary was made without a model"));
    assert!(summary.contains("Never touch the tests.") && summary.contains("src/lib.rs"));
    let (code, message) = refused(&["compact"], &json!([{ "role": "user", "content": "hi" }]).to_string());
    assert_eq!((code, message.trim()), (1, "too little to summarise: 1 message, 5 tokens"));
}

/// Codex has no tool for reading: it reads through a shell.
#[test]
fn files_read_through_a_shell_come_with_advice() {
    let call = |number: usize, command: &str| {
        let id = format!("c{number}");
        let call = json!({ "id": id, "type": "function",
            "function": { "name": "shell", "arguments": json!({ "command": command }).to_string() } });
        [
            json!({ "role": "assistant", "content": null, "tool_calls": [call] }),
            json!({ "role": "tool", "tool_call_id": id, "content": "a line of it\n".repeat(200) }),
        ]
    };
    let commands = [
        "sed -n '1,80p' src/lib.rs",
        "nl -ba src/lib.rs | sed -n '80,200p'",
        "cat src/lib.rs",
        "cat README.md && cargo test",
        "cat README.md",
    ];
    let calls = commands.iter().enumerate().flat_map(|(number, command)| call(number, command));
    let begin = [json!({ "role": "user", "content": "Look at it." })];
    let session = json!(begin.into_iter().chain(calls).collect::<Vec<_>>()).to_string();
    let found = parsed(&["inspect", "--json"], &session);
    let repeated = found["repeated"].as_array().unwrap();
    assert_eq!(repeated.len(), 1, "what else a command printed would be lost: {repeated:?}");
    assert_eq!((&repeated[0]["name"], &repeated[0]["count"]), (&json!("src/lib.rs"), &json!(3)));
    let files: Vec<&str> =
        found["byFile"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(files, ["src/lib.rs", "README.md"]);
    assert!(ok(&["inspect"], &session).contains("`src/lib.rs` was read 3 times; pruning frees"));
}

/// A command that the user ran in the agent's shell mode is neither a prompt nor a turn.
#[test]
fn commands_that_the_user_ran_are_a_kind_of_their_own() {
    let session = r#"{"type":"session","id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}
{"type":"message","id":"a","message":{"role":"user","content":"Mend it so that it builds."}}
{"type":"message","id":"b","parentId":"a","message":{"role":"bashExecution","command":"make","output":"one error and many more words"}}
{"type":"message","id":"c","parentId":"b","message":{"role":"assistant","content":[{"type":"text","text":"I see."}]}}
"#;
    let found = parsed(&["inspect", "--json"], session);
    let kinds = |rows: &serde_json::Value| {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&found["byKind"]), ["user's commands", "the user", "the model"]);
    assert_eq!(kinds(&found["log"]["byKind"]), ["user's commands", "the user", "the model"]);
    assert_eq!(found["growth"].as_array().unwrap().len(), 1);
}

#[test]
fn inspect_shows_where_the_tokens_go() {
    let found = parsed(&["inspect", "--json"], &chat(3));
    assert_eq!(found["byKind"][0]["name"], "tool outputs");
    assert_eq!((&found["byTool"][0]["name"], &found["byTool"][0]["count"]), (&json!("read"), &json!(3)));
    assert_eq!(
        (&found["repeated"][0]["name"], &found["repeated"][0]["count"]),
        (&json!("src/lib.rs"), &json!(3))
    );
    assert_eq!((&found["measured"], &found["hidden"]), (&json!("characters"), &json!(null)));
    assert_eq!(found["growth"].as_array().unwrap().len(), 4);
    insta::assert_snapshot!(ok(&["inspect", "--context", "100000"], &chat(3)));
}

#[test]
fn convert_writes_for_another_provider() {
    let request = parsed(&["convert", "--to", "anthropic-messages"], &chat(1));
    assert_eq!(request["messages"][1]["content"][0]["type"], "tool_use");
    let (code, message) = refused(&["convert", "--to", "msword"], &chat(1));
    assert!(code == 2 && message.contains("msword"), "{message}");
}

#[test]
fn truncate_is_a_filter_that_spills_the_full_output() {
    let short = "a\nb\n";
    assert_eq!(ok(&["truncate", "--tool", "bash"], short), short, "what fits passes byte for byte");
    let directory = TempDir::new().unwrap();
    let long = format!("{}error: at the end\n", "line\n".repeat(5_000));
    let spill = directory.path().join("spill");
    let shown = ok(&["truncate", "--tool", "bash", "--spill-dir", spill.to_str().unwrap()], &long);
    assert!(shown.contains("error: at the end") && shown.len() < 12_000);
    let files: Vec<_> = std::fs::read_dir(&spill).unwrap().flatten().collect();
    assert_eq!(std::fs::read_to_string(files[0].path()).unwrap(), long);
    let blocked = directory.path().join("file");
    std::fs::write(&blocked, "x").unwrap();
    let lost = ok(&["truncate", "--spill-dir", blocked.to_str().unwrap()], &long);
    assert!(lost.contains("could not be saved and is lost"), "{lost}");
}

#[test]
fn errors_about_input_name_the_problem_the_place_and_the_next_step() {
    let (code, message) = refused(&["window", "no/such/file.json"], "");
    assert!(
        code == 2 && message.contains("cannot open `no/such/file.json`") && message.contains("hint: "),
        "{message}"
    );
    let (code, message) = refused(&["window"], "this is not a transcript");
    assert!(code == 3 && message.starts_with("error: cannot read standard input: "), "{message}");
    let (code, _) = refused(&["frobnicate"], "");
    assert_eq!(code, 2);
}

#[test]
fn escape_sequences_of_a_transcript_do_not_reach_the_terminal() {
    let evil = json!([{ "role": "user", "content": "\u{1b}]0;owned\u{7}hello" }]).to_string();
    for command in ["inspect", "window"] {
        let shown = ok(&[command], &evil);
        assert!(
            shown.contains("hello") && !shown.contains('\u{1b}') && !shown.contains('\u{7}'),
            "{shown:?}"
        );
    }
}

/// A project with a short chat, a session with a record of an unknown kind, and a broken line.
fn project() -> Home {
    let short = json!({ "messages": [
        { "role": "user", "content": "What is in the directory?" },
        { "role": "assistant", "content": null, "reasoning_content": "I should look.", "tool_calls": [
            { "id": "call_1", "type": "function", "function": { "name": "ls", "arguments": "{}" } }] },
        { "role": "tool", "tool_call_id": "call_1", "content": "README.md" },
        { "role": "assistant", "content": "A README." },
    ] });
    let odd = concat!(
        r#"{"type":"session","id":"s1","timestamp":"2026-01-01T00:00:00Z","cwd":"/home/me"}"#,
        "\n",
        r#"{"type":"message","message":{"role":"user","content":[{"type":"text","text":"Hello"}]}}"#,
        "\n",
        r#"{"type":"hologram"}"#,
        "\n{\"type\": nonsense}\n",
        r#"{"type":"message","mess"#,
    );
    Home::new()
        .with("project/short.json", &short.to_string())
        .with("project/odd.jsonl", odd)
        .with("project/long.json", &chat(8))
}

#[test]
fn each_command_reads_well() {
    let home = project();
    assert_snapshot!("window", home.page(&["window short.json", "window --json short.json"]));
    assert_snapshot!("fork", home.page(&["fork --stats short.json", "fork --json short.json"]));
    assert_snapshot!("prune", home.page(&["prune --plan long.json", "prune --plan --json short.json"]));
    assert_snapshot!(
        "compact",
        home.page(&[
            "compact --plan --context 60000 long.json",
            "compact --offline --context 60000 long.json",
            "compact --json odd.jsonl",
        ])
    );
}

#[test]
fn a_window_can_be_printed_as_the_body_of_a_request() {
    let home = project();
    assert_snapshot!(home.page(&[
        "window --as openai-chat short.json",
        "window --as anthropic-messages short.json",
        "window --as pi short.json",
    ]));
}

#[test]
fn convert_reports_losses_and_overwrites_only_on_request() {
    let home = project();
    assert_snapshot!(home.page(&[
        "convert --to openai-chat short.json",
        "convert --to anthropic-messages short.json",
        "convert --to pi short.json",
        "convert --to openai-chat --out chat.json odd.jsonl",
        "convert --to openai-chat --out chat.json odd.jsonl",
        "convert --to openai-chat --out chat.json --force odd.jsonl",
        "convert --to openai-chat --out no/such/directory/chat.json short.json",
    ]));
    let written = std::fs::read_to_string(home.project.join("chat.json")).unwrap();
    assert!(written.contains("Hello") && written.ends_with("}\n"), "{written}");
    let beside: Vec<_> =
        std::fs::read_dir(&home.project).unwrap().flatten().map(|file| file.file_name()).collect();
    assert_eq!(beside.len(), 4, "no temporary file stays: {beside:?}");
}

#[test]
fn unknown_records_are_reported_once_or_rejected() {
    let home = project();
    assert_snapshot!(home.page(&["prune odd.jsonl", "prune odd.jsonl --strict"]));
    for command in ["inspect", "window", "prune", "compact", "fork", "convert"] {
        let to: &[&str] = if command == "convert" { &["--to", "openai-chat"] } else { &[] };
        let printed = home.run(&[&[command, "--strict", "odd.jsonl"], to].concat());
        assert!(printed.starts_with("exit: 3"), "{command}: {printed}");
    }
}

#[test]
fn a_bad_value_is_noted_or_refused() {
    let bad = r#"[{"info":{"id":"m","role":null,"finish":null,"time":{"created":1.5}},"parts":[{"type":"text","text":"Hello"},7]}]"#;
    let home = project().with("project/bad.json", bad);
    assert_snapshot!(home.page(&["window bad.json", "window bad.json --strict"]));
    let inspected = home.json(&["inspect", "bad.json", "--json"]);
    assert_eq!(inspected["wrongValues"], 4);
    assert_eq!(inspected["notes"][2]["at"], "[0].info.time.created");
    for command in ["inspect", "window", "prune", "compact", "fork", "convert"] {
        let to: &[&str] = if command == "convert" { &["--to", "openai-chat"] } else { &[] };
        let printed = home.run(&[&[command, "--strict", "bad.json"], to].concat());
        assert!(printed.starts_with("exit: 3"), "{command}: {printed}");
    }
}

#[test]
fn a_session_without_messages_is_valid_and_an_empty_list_is_not_a_session() {
    let home = project()
        .with("project/none.json", "[]")
        .with("project/export.json", r#"{"info":{"id":"ses_e"},"messages":[]}"#);
    assert_snapshot!(home.page(&[
        "inspect none.json",
        "sessions import none.json export.json",
        "inspect export.json",
        "window export.json",
        "prune export.json",
        "compact export.json",
        "fork export.json",
        "convert --to opencode-messages export.json",
        "replay export.json",
    ]));
}

#[test]
fn invalid_files_are_distinguished() {
    let home = project();
    home.write("project/empty.jsonl", "");
    home.write("project/words.txt", "just words");
    assert_snapshot!(home.page(&[
        "window .",
        "window missing.jsonl",
        "window empty.jsonl",
        "window words.txt",
    ]));
}

#[cfg(unix)]
#[test]
fn spills_are_for_the_users_eyes_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().unwrap();
    let spill = directory.path().join("deep/spill");
    let _ = ok(&["truncate", "--spill-dir", spill.to_str().unwrap()], &"line\n".repeat(5_000));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let files: Vec<_> = std::fs::read_dir(&spill).unwrap().flatten().map(|file| file.path()).collect();
    assert_eq!((mode(&spill), mode(&files[0]), files.len()), (0o700, 0o600, 1));
}
