//! Suggested commands, plans and figures that must do what they say.

use std::process::Stdio;

use plimsoll::{Message, SessionId};
use plimsoll_store::NewSession;
use serde_json::{Value, json};

use crate::support::{Home, now};

/// Claude Code's record of calls and results, one after the other.
struct Recording {
    lines: Vec<Value>,
    id: &'static str,
}

impl Recording {
    fn new(home: &Home, id: &'static str) -> Recording {
        let mut recording = Recording { lines: Vec::new(), id };
        recording.add(home, "user", &json!({ "role": "user", "content": "Mend the parser" }));
        recording
    }

    fn add(&mut self, home: &Home, kind: &str, message: &Value) {
        let number = self.lines.len();
        let parent = number.checked_sub(1).map(|before| format!("u{before}"));
        self.lines.push(json!({ "type": kind, "uuid": format!("u{number}"), "parentUuid": parent,
            "sessionId": self.id, "cwd": home.project, "timestamp": format!("2026-05-02T09:18:{:02}.730Z", number % 60),
            "message": message }));
    }

    /// A call with its result.
    fn call(mut self, home: &Home, tool: &str, input: &Value, output: &str) -> Recording {
        let id = format!("toolu_{}", self.lines.len());
        let call = json!({ "id": format!("msg_{id}"), "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [{ "type": "tool_use", "id": id, "name": tool, "input": input }] });
        self.add(home, "assistant", &call);
        let result = json!({ "role": "user",
            "content": [{ "type": "tool_result", "tool_use_id": id, "content": output }] });
        self.add(home, "user", &result);
        self
    }

    fn write(&self, home: &Home) {
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        home.write(&format!(".claude/projects/-project/{}.jsonl", self.id), &text);
    }
}

const ID: &str = "5d0c31aa-1111-4222-8333-444455556666";

/// A file that is read three times whole and edited then.
fn read_thrice(home: &Home) -> Recording {
    let read = |recording: Recording, n: u64| {
        let text = format!("fn parse_{n}() {{}}\n").repeat(200);
        recording.call(home, "Read", &json!({ "file_path": home.project.join("src/parser.rs") }), &text)
    };
    let recording = (0..3).fold(Recording::new(home, ID), read);
    let edit =
        json!({ "file_path": home.project.join("src/parser.rs"), "old_string": "a", "new_string": "b" });
    recording.call(home, "Edit", &edit, &"The file was updated. ".repeat(40))
}

/// `inspect` advised `prune --file F --keep 1`, which cleared all three reads: the result of the edit counted as the newest.
#[test]
fn the_prune_that_inspect_advises_keeps_the_newest_read_of_a_file() {
    let home = Home::new();
    read_thrice(&home).write(&home);
    home.json(&["sessions", "import", "--json", ID]);
    let page = home.run(&["inspect", ID]);
    assert!(page.contains("`src/parser.rs` was read 3 times"), "{page}");
    let advised = page.split("`plimsoll ").nth(1).unwrap().split('`').next().unwrap();
    let mut args: Vec<&str> = advised.split_whitespace().collect();
    args.push("--apply");
    assert!(home.run(&args).contains("prune 2 tool outputs"), "{advised}");
    let window = home.run(&["window", ID]);
    assert!(window.contains("fn parse_2()") && window.contains("The file was updated."), "{window}");
    assert!(!window.contains("fn parse_0()") && !window.contains("fn parse_1()"), "{window}");
}

#[test]
fn keep_with_a_file_counts_its_reads() {
    let home = Home::new();
    read_thrice(&home).write(&home);
    let plan = home.json(&["prune", "--json", "--file", "src/parser.rs", "--keep", "1", ID]);
    let tools: Vec<&str> =
        plan["items"].as_array().unwrap().iter().map(|item| item["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["Read", "Read"], "{plan}");
}

#[test]
fn a_plan_names_files_turns_and_the_window_it_leaves_and_json_has_the_ids() {
    let home = Home::new();
    read_thrice(&home)
        .call(&home, "Bash", &json!({ "command": "cargo test" }), &"ok\n".repeat(900))
        .write(&home);
    let args = ["prune", "--tool", "read", "--tool", "bash", ID];
    let page = home.run(&args);
    for printed in ["TURN", "WHAT", "src/parser.rs", "cargo test", "window", " → "] {
        assert!(page.contains(printed), "{printed}: {page}");
    }
    assert!(!page.contains("toolu_") && !page.contains("prt_") && !page.contains(".0 "), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80 || line.contains("jsonl")), "{page}");
    let plan = home.json(&["prune", "--json", "--tool", "read", ID]);
    let item = &plan["items"][0];
    assert!(item["part"].is_string() && item["message"].is_string(), "{plan}");
    assert_eq!((&item["turn"], &item["about"]), (&json!(1), &json!("src/parser.rs")));
    assert!(plan["window"]["before"].as_u64() > plan["window"]["after"].as_u64(), "{plan}");
    let compaction = home.run(&["compact", "--plan", "--context", "8000", ID]);
    assert!(compaction.contains("turn 1") && compaction.contains("at most"), "{compaction}");
    assert!(!compaction.contains("msg_"), "{compaction}");
}

/// The tokens that each part frees add up to the difference of the window that stands above it.
#[test]
fn the_tokens_that_parts_free_add_up_to_the_window() {
    let home = Home::new();
    read_thrice(&home).write(&home);
    let page = home.run(&["prune", "--tool", "read", ID]);
    let number = |text: &str| text.replace(',', "").parse::<u64>().unwrap();
    let window = page.lines().find_map(|line| line.trim().strip_prefix("window")).unwrap();
    let mut sizes = window.split_whitespace().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let freed = number(sizes.next().unwrap()) - number(sizes.next().unwrap());
    let rows = page.lines().filter(|line| line.contains("src/parser.rs"));
    let sum: u64 = rows.map(|line| number(line.split_whitespace().last().unwrap())).sum();
    assert_eq!(sum, freed, "{page}");
}

/// `inspect` said that pruning frees repeated reads, and `prune` then that there is nothing to clear.
#[test]
fn a_prune_that_finds_nothing_mentions_repeated_reads() {
    let home = Home::new();
    read_thrice(&home).write(&home);
    home.json(&["sessions", "import", "--json", ID]);
    for (args, code) in [(["prune", ID].as_slice(), 0), (&["prune", "--apply", ID], 1)] {
        let printed = home.run(args);
        assert!(printed.starts_with(&format!("exit: {code}")), "{printed}");
        assert!(printed.contains("hint: `--repeated` clears reads that a later read repeats, "), "{printed}");
    }
    home.json(&["prune", "--json", "--apply", "--repeated", ID]);
    let printed = home.run(&["prune", ID]);
    assert!(!printed.contains("--repeated"), "{printed}");
}

/// A stored session with two reductions that can be undone. Returns their receipts, oldest first.
fn reduced(home: &Home) -> Vec<String> {
    read_thrice(home).write(home);
    home.json(&["sessions", "import", "--json", ID]);
    let receipt = |args: &[&str]| home.json(args)["receipts"][0]["id"].as_str().unwrap().to_owned();
    vec![
        receipt(&["prune", "--json", "--apply", "--repeated", ID]),
        receipt(&["prune", "--json", "--apply", "--tool", "edit", ID]),
    ]
}

#[test]
fn undo_without_a_receipt_undoes_the_newest_and_names_it() {
    let home = Home::new();
    let receipts = reduced(&home);
    for (args, undone) in [(vec!["undo"], &receipts[1]), (vec!["undo", "5d0c"], &receipts[0])] {
        let printed = home.run(&args);
        assert!(printed.starts_with("exit: 0"), "{printed}");
        assert!(
            printed.contains(&**undone) && printed.contains("undone: prune") && printed.contains(ID),
            "{printed}"
        );
    }
    let printed = home.run(&["undo"]);
    assert!(printed.starts_with("exit: 1") && printed.contains("has nothing to undo"), "{printed}");
    assert!(home.run(&["window", ID]).contains("fn parse_0()"), "all of it is back");
    for (bad, printed) in [("rcp_ffff", "unknown receipt"), ("nobody", "no stored session")] {
        let page = home.run(&["undo", bad]);
        assert!(page.starts_with("exit: 2") && page.contains(printed), "{page}");
    }
}

/// Of two sessions whose receipts were made in the same millisecond, each was shown by what both begin with.
#[test]
fn a_receipt_id_that_is_shown_names_one_receipt() {
    let home = Home::new();
    let receipts = reduced(&home);
    let archive = home.archive();
    let (_, mut receipt) = archive.store().receipt(&receipts[0].as_str().into()).unwrap();
    // Another session has one that begins alike.
    let other = SessionId::new("ses_other");
    let message = Message::user("msg_x".into(), "prt_x".into(), "hello");
    archive
        .store()
        .create(NewSession { messages: vec![message], ..NewSession::new(other.clone()) }, now())
        .unwrap();
    let twin = format!("{}zzzz", &receipts[0][..receipts[0].len() - 4]);
    let plan = plimsoll::Plan::Purge(plimsoll::plan::PurgePlan::default());
    (receipt.id, receipt.plan, receipt.handles) = (twin.as_str().into(), plan, Vec::new());
    let reduction = plimsoll::Reduction { receipts: vec![receipt], ..plimsoll::Reduction::default() };
    archive.store().reduce(&plimsoll_store::Claim::unleased(&other), reduction, None, now()).unwrap();
    drop(archive);
    let table = home.run(&["receipts", ID]);
    let shown: Vec<&str> = table.split_whitespace().filter(|word| word.starts_with("rcp_")).collect();
    assert_eq!(shown.len(), 2, "{table}");
    for (shown, whole) in shown.into_iter().zip(&receipts) {
        assert!(whole.starts_with(shown));
        assert_eq!(home.json(&["receipts", "--json", shown])["id"], json!(whole), "{shown}");
    }
}

#[test]
fn a_stored_copy_whose_source_has_more_is_called_stale() {
    let home = Home::new();
    read_thrice(&home).write(&home);
    home.json(&["sessions", "import", "--json", ID]);
    let fresh = home.run(&["inspect", ID]);
    assert!(fresh.contains("Plimsoll: ") && !fresh.contains("note:"), "{fresh}");
    read_thrice(&home).call(&home, "Bash", &json!({ "command": "cargo test" }), "ok").write(&home);
    let stale = home.run(&["inspect", ID]);
    let update = format!("`plimsoll sessions import claude-code:{ID}`");
    assert!(stale.contains("Claude Code has 1 message more than the stored copy"), "{stale}");
    assert!(stale.contains(&update), "{stale}");
    assert!(!home.run(&["inspect", &format!("plimsoll:{ID}")]).contains("note:"), "it was asked for");
    home.json(&["sessions", "import", "--json", &format!("claude-code:{ID}")]);
    let updated = home.run(&["inspect", ID]);
    assert!(!updated.contains("note:"), "{updated}");
}

/// A session of about 240,000 tokens with a title.
fn large(home: &Home) {
    let mut recording = Recording::new(home, ID);
    recording
        .lines
        .push(json!({ "type": "ai-title", "aiTitle": "Mend the parser for good", "sessionId": ID }));
    let read = |recording: Recording, n: usize| {
        let text = format!("line of file {n}\n").repeat(1_400);
        recording.call(home, "Read", &json!({ "file_path": format!("/srv/file_{n}.rs") }), &text)
    };
    (0..40).fold(recording, read).write(home);
}

/// Window and title of a session that was handed over.
fn handed(home: &Home, path: &Value) -> (u64, u64, Value) {
    let inspected = home.json(&["inspect", "--json", path.as_str().unwrap()]);
    let figure = |name: &str| inspected[name].as_u64().unwrap();
    (figure("window"), figure("line"), inspected["title"].clone())
}

/// 225,958 tokens were handed over to a line of 168,000, without the title.
#[test]
fn a_session_is_handed_over_under_the_line_with_its_title() {
    let home = Home::new();
    large(&home);
    home.json(&["sessions", "import", "--json", ID]);
    let before = home.run(&["window", ID]);
    for (tool, title) in [("claude-code", true), ("codex", true), ("opencode", true)] {
        let mut args = vec!["sessions", "handover", "--json", ID, "--to", tool, "--context", "200000"];
        let directory = home.path.join(format!("out-{tool}"));
        std::fs::create_dir_all(&directory).unwrap();
        args.extend(["--dir", directory.to_str().unwrap()]);
        let output = home.command(&args, &[]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let reduced = &printed["reduced"];
        assert!(reduced["before"].as_u64() > reduced["line"].as_u64(), "{reduced}");
        assert!(reduced["after"].as_u64() <= reduced["line"].as_u64(), "{reduced}");
        assert!(!reduced["receipts"].as_array().unwrap().is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("the copy is reduced to") && said.contains("the original is unchanged"),
            "{said}"
        );
        let (window, line, named) = handed(&home, &printed["path"]);
        assert!(window <= line, "{tool}: {window} of {line}");
        assert_eq!(reduced["estimated"], json!(window), "{tool}: what `inspect` says of the copy");
        assert_eq!(named == json!("Mend the parser for good"), title, "{tool}: {named}");
    }
    assert_eq!(home.run(&["window", ID]), before, "the session is as it was");
}

#[test]
fn a_session_is_handed_over_unchanged_if_requested_or_if_it_fits() {
    let home = Home::new();
    large(&home);
    let handover = |more: &[&str]| {
        let args = [&["sessions", "handover", "--json", ID, "--to", "claude-code"], more].concat();
        let output = home.command(&args, &[]).stdin(Stdio::null()).output().unwrap();
        (String::from_utf8(output.stderr).unwrap(), serde_json::from_slice::<Value>(&output.stdout).ok())
    };
    let (said, printed) = handover(&["--as-is"]);
    assert!(said.contains("the window exceeds the line (221,188 of 168,000 tokens)"), "{said}");
    assert_eq!(printed.unwrap()["reduced"], Value::Null);
    let (said, printed) = handover(&["--context", "1m"]);
    assert!(!said.contains("exceeds the line"), "{said}");
    assert_eq!(printed.unwrap()["reduced"], Value::Null);
    // Where the policy can do no more it says so and hands nothing over.
    let (said, printed) = handover(&["--context", "40k", "--policy", "opencode"]);
    assert!(printed.is_none() && said.contains("--as-is"), "{said}");
}

/// R62: an export of a child names its parent. What is handed over is a session without one.
#[test]
fn r62_the_export_of_a_task_names_its_parent() {
    let home = Home::new();
    std::fs::create_dir_all(home.path.join(".local/share/plimsoll")).unwrap();
    let archive = home.archive();
    let message = |id: &str| vec![Message::user(id.into(), format!("prt_{id}").as_str().into(), "hello")];
    let parent = NewSession { messages: message("msg_1"), ..NewSession::new("ses_parent".into()) };
    let parent = archive.store().create(parent, now()).unwrap().id;
    let child = NewSession::new("ses_child".into());
    let child = NewSession { parent: Some(parent), messages: message("msg_2"), ..child };
    archive.store().create(child, now()).unwrap();
    drop(archive);
    assert_eq!(home.json(&["sessions", "export", "ses_child"])["info"]["parentID"], "ses_parent");
    assert_eq!(home.json(&["sessions", "export", "ses_parent"])["info"].get("parentID"), None);
    let printed = home.json(&["sessions", "handover", "--json", "ses_child", "--to", "opencode"]);
    let text = std::fs::read_to_string(printed["path"].as_str().unwrap()).unwrap();
    assert!(!text.contains("ses_parent"), "{text}");
}
