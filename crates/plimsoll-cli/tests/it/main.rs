//! The command as a person runs it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use assert_cmd::Command;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A chat with a long tool output, written here.
fn chat(outputs: usize) -> String {
    let mut messages = vec![json!({ "role": "user", "content": "Look around. Never touch the tests." })];
    for n in 0..outputs {
        let call = json!({ "id": format!("call_{n}"), "type": "function",
            "function": { "name": "read", "arguments": "{\"path\":\"src/lib.rs\",\"a\":1}" } });
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
        messages.push(
            json!({ "role": "tool", "tool_call_id": format!("call_{n}"), "content": "word ".repeat(8_000) }),
        );
    }
    for turn in 0..3 {
        messages.push(json!({ "role": "assistant", "content": "Done." }));
        messages.push(json!({ "role": "user", "content": format!("Next {turn}") }));
    }
    json!({ "messages": messages }).to_string()
}

/// Runs the command; what it works on comes on standard input.
fn plimsoll(args: &[&str], stdin: &str) -> std::process::Output {
    let mut command = Command::cargo_bin("plimsoll").unwrap();
    let reads = ["inspect", "window", "convert", "fork", "prune", "compact"];
    let from_stdin = args.first().is_some_and(|name| reads.contains(name)) && !stdin.is_empty();
    command.args(args).args(from_stdin.then_some("-")).env_clear().write_stdin(stdin.to_owned());
    command.output().unwrap()
}

fn ok(args: &[&str], stdin: &str) -> String {
    let output = plimsoll(args, stdin);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn parsed(args: &[&str], stdin: &str) -> Value {
    serde_json::from_str(&ok(args, stdin)).unwrap()
}

fn refused(args: &[&str], stdin: &str) -> (i32, String) {
    let output = plimsoll(args, stdin);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn fork_writes_preamble_and_digest_for_another_agent() {
    let text = ok(&["fork"], &chat(2));
    assert!(text.starts_with("You are working with forked context from a parent agent session.\n"));
    assert!(text.contains("[Tool: read] {\"path\":\"src/lib.rs\",\"a\":1}"), "inputs keep their key order");
    let json = parsed(&["fork", "--json"], &chat(2));
    assert_eq!(json["stats"]["tierDistribution"], json!({ "tier1": 2, "tier2": 0, "tier3": 0 }));
    assert!(json["context"].as_str().unwrap().starts_with("<inherited_context>"));
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
    assert!(ok(&["prune"], &chat(8)).starts_with("prune 4 tool outputs, 40,000 tokens\n"));
}

#[test]
fn window_is_what_the_model_would_be_given() {
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
    assert_eq!((code, message.trim()), (1, "there is too little to summarise"));
}

#[test]
fn inspect_tells_where_the_tokens_go() {
    let found = parsed(&["inspect", "--json"], &chat(3));
    assert_eq!(found["byKind"][0]["name"], "tool outputs");
    assert_eq!((&found["byTool"][0]["name"], &found["byTool"][0]["count"]), (&json!("read"), &json!(3)));
    assert_eq!(
        (&found["repeated"][0]["name"], &found["repeated"][0]["count"]),
        (&json!("src/lib.rs"), &json!(2))
    );
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
fn truncate_is_a_filter_that_keeps_the_whole_elsewhere() {
    let short = "a\nb\n";
    assert_eq!(ok(&["truncate", "--tool", "bash"], short), short, "what fits passes byte for byte");
    let folder = TempDir::new().unwrap();
    let long = format!("{}error: at the end\n", "line\n".repeat(5_000));
    let spill = folder.path().join("spill");
    let shown = ok(&["truncate", "--tool", "bash", "--spill-dir", spill.to_str().unwrap()], &long);
    assert!(shown.contains("error: at the end") && shown.len() < 12_000);
    let files: Vec<_> = std::fs::read_dir(&spill).unwrap().flatten().collect();
    assert_eq!(std::fs::read_to_string(files[0].path()).unwrap(), long);
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "x").unwrap();
    let lost = ok(&["truncate", "--spill-dir", blocked.to_str().unwrap()], &long);
    assert!(lost.contains("could not be saved and is lost"), "{lost}");
}

#[test]
fn config_shows_checks_and_describes_policies() {
    assert_eq!(parsed(&["config", "--json", "--policy", "openfork"], "")["name"], "openfork");
    assert!(ok(&["config", "--schema"], "").contains("TokenManagement"));
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("policy.json");
    std::fs::write(&file, r#"{ "compact": { "tailMin": 99999 } }"#).unwrap();
    let (code, message) = refused(&["config", "--check", "--policy", file.to_str().unwrap()], "");
    assert_eq!(code, 1);
    assert!(message.contains("`compact.tailMin`: 99,999 is more than `compact.tailMax`"), "{message}");
    let (code, message) = refused(&["config", "--policy", "opencod"], "");
    assert!(code == 2 && message.contains("there is no preset `opencod`"), "{message}");
}

#[test]
fn bad_input_says_what_where_and_what_to_do() {
    let (code, message) = refused(&["window", "no/such/file.json"], "");
    assert!(
        code == 2 && message.contains("cannot open `no/such/file.json`") && message.contains("hint: "),
        "{message}"
    );
    let (code, message) = refused(&["window"], "this is no transcript");
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

#[test]
fn without_a_file_the_newest_session_of_the_directory_is_taken() {
    let home = TempDir::new().unwrap();
    let here = home.path().canonicalize().unwrap().join("project");
    std::fs::create_dir_all(&here).unwrap();
    let run = || {
        let mut command = Command::cargo_bin("plimsoll").unwrap();
        let output =
            command.args(["fork"]).env_clear().env("HOME", home.path()).current_dir(&here).output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, _, message) = run();
    assert!(code == 2 && message.contains("found no session of Claude Code, Codex or pi"), "{message}");

    let session = |place: &str, cwd: &str, words: &str| {
        let file = home.path().join(place);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let meta = json!({ "timestamp": "2026-05-02T09:18:36.730Z", "type": "session_meta", "payload": { "id": "s", "cwd": cwd } });
        let said = json!({ "timestamp": "2026-05-02T09:18:37.730Z", "type": "response_item", "payload": {
            "type": "message", "role": "user", "content": [{ "type": "input_text", "text": words }] } });
        std::fs::write(file, format!("{meta}\n{said}\n")).unwrap();
    };
    session(".codex/sessions/2026/05/02/rollout-1.jsonl", here.to_str().unwrap(), "here");
    session(".codex/sessions/2026/05/02/rollout-2.jsonl", "/elsewhere", "elsewhere");
    let (code, digest, message) = run();
    assert_eq!(code, 0, "{message}");
    assert!(message.starts_with("Codex: `") && message.contains("rollout-1.jsonl"), "{message}");
    assert!(digest.contains("here") && !digest.contains("elsewhere"));
}

#[test]
fn shells_can_complete_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(&["completions", shell], "").contains("inspect"), "{shell}");
    }
    assert_eq!(refused(&["completions", "cobol"], "").0, 2);
}
