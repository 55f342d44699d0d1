//! `plimsoll revert`: restoring files to their state before a turn.

use std::process::Stdio;

use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::Home;

const MODEL: &str = "anthropic/claude-sonnet-4-6";

/// A session of one turn that changed a file, made one and ran a command.
fn changed() -> Home {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write("project/depth.txt", "nine metres\n");
    let edit = json!({ "path": "depth.txt", "old": "nine", "new": "ten" });
    server.push_all([
        Reply::new().call("call_1", "read", json!({ "path": "depth.txt" })),
        Reply::new().call("call_2", "edit", edit),
        Reply::new().call("call_3", "write", json!({ "path": "notes/new.txt", "content": "new\n" })),
        Reply::new().call("call_4", "bash", json!({ "command": "echo hello" })),
        Reply::new().text("Done."),
    ]);
    let variables = [("ANTHROPIC_API_KEY", "sk-ant-test-0123456789"), ("ANTHROPIC_BASE_URL", &server.url())];
    let args = ["run", "--model", MODEL, "--allow", "all", "Make", "it", "deeper"];
    let ran = home.command(&args, &variables).stdin(Stdio::null()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(content(&home, "depth.txt").as_deref(), Some("ten metres\n"));
    home
}

fn content(home: &Home, name: &str) -> Option<String> {
    std::fs::read_to_string(home.project.join(name)).ok()
}

/// Output without values that differ each time.
fn printed(home: &Home, args: &[&str]) -> String {
    let said =
        home.run(args).replace(&home.project.canonicalize().unwrap().display().to_string(), "[PROJECT]");
    let said = said.replace(&home.project.display().to_string(), "[PROJECT]");
    let words: Vec<String> = said
        .split(' ')
        .map(|word| if word.starts_with("ses_") { "[SESSION]:".to_owned() } else { word.to_owned() })
        .collect();
    words.join(" ")
}

#[test]
fn files_are_restored_and_calls_with_unknown_effects_are_listed() {
    let home = changed();
    let planned = printed(&home, &["revert", "--plan"]);
    insta::assert_snapshot!(planned);
    assert_eq!(content(&home, "depth.txt").as_deref(), Some("ten metres\n"), "a plan does nothing");
    assert_eq!(printed(&home, &["revert"]), planned.replace("would be", "are"));
    assert_eq!(content(&home, "depth.txt").as_deref(), Some("nine metres\n"));
    assert!(!home.project.join("notes").exists());
    insta::assert_snapshot!(printed(&home, &["revert"]));
    insta::assert_snapshot!(printed(&home, &["revert", "--turn", "7"]));
    insta::assert_snapshot!(printed(&home, &["revert", "--undo"]));
    assert_eq!(content(&home, "notes/new.txt").as_deref(), Some("new\n"));
    // Later changes by the user stay, and the exit code reports it.
    home.write("project/depth.txt", "by hand\n");
    let args = ["revert", "--turn", "1", "--json"];
    let ran = home.command(&args, &[]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(ran.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(report["files"][0]["action"], "left");
    assert_eq!(report["files"][1]["action"], "removed");
    assert_eq!(report["uncovered"][0]["input"], "echo hello");
    assert_eq!((report["turn"].as_u64(), report["plan"].as_bool()), (Some(1), Some(false)));
    assert_eq!(content(&home, "depth.txt").as_deref(), Some("by hand\n"));
}

/// A task changes a file that its parent has changed too, makes one, and runs a command.
#[test]
fn changes_of_a_background_task_are_reverted_with_the_turn_that_launched_it() {
    let home = Home::new();
    home.write("project/depth.txt", "nine metres\n");
    let server = ModelServer::answering(|request| {
        let calls = request.call_ids();
        let is_task = request.messages.iter().any(|message| message.text().contains("Sound the harbour."));
        let edit = |old: &str, new: &str| json!({ "path": "depth.txt", "old": old, "new": new });
        let script = match is_task {
            true => vec![
                ("read", json!({ "path": "depth.txt" })),
                ("edit", edit("ten", "eleven")),
                ("write", json!({ "path": "soundings.txt", "content": "11\n" })),
                ("bash", json!({ "command": "echo sounded" })),
            ],
            false => vec![
                ("read", json!({ "path": "depth.txt" })),
                ("edit", edit("nine", "ten")),
                (
                    "background_task",
                    json!({ "description": "Sound it", "prompt": "Sound the harbour.", "agent": "general" }),
                ),
            ],
        };
        match script.get(calls.len()) {
            Some((tool, input)) => {
                Reply::new().call(format!("call_{is_task}_{}", calls.len()), *tool, input.clone())
            }
            None => Reply::new().text("Done."),
        }
    })
    .unwrap();
    let variables = [("ANTHROPIC_API_KEY", "sk-ant-test-0123456789"), ("ANTHROPIC_BASE_URL", &server.url())];
    let args = ["run", "--model", MODEL, "--allow", "all", "Make", "it", "deeper"];
    let ran = home.command(&args, &variables).stdin(Stdio::null()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(content(&home, "depth.txt").as_deref(), Some("eleven metres\n"));
    let planned = printed(&home, &["revert", "--plan"]);
    insta::assert_snapshot!(planned);
    assert_eq!(printed(&home, &["revert"]), planned.replace("would be", "are"));
    assert_eq!(content(&home, "depth.txt").as_deref(), Some("nine metres\n"));
    assert!(!home.project.join("soundings.txt").exists());
    insta::assert_snapshot!(printed(&home, &["revert", "--undo"]));
    assert_eq!(content(&home, "depth.txt").as_deref(), Some("eleven metres\n"));
}
