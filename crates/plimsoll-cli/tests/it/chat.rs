//! `plimsoll chat` in a terminal, against a scripted model on this machine.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use plimsoll_testkit::server::{Fault, Gate, ModelServer, Reply};
use serde_json::json;

use crate::support::Home;
use crate::tmux::{Tmux, is_missing};

pub(crate) const KEY: &str = "sk-ant-test-0123456789abcdefghij";
pub(crate) const MODEL: &str = "anthropic/claude-sonnet-4-6";

/// `plimsoll chat` with a model that is set up.
pub(crate) fn command(home: &Home, server: &ModelServer, args: &[&str]) -> Command {
    let mut all = vec!["chat", "--model", MODEL];
    all.extend_from_slice(args);
    home.command(&all, &[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &server.url())])
}

pub(crate) fn begin(home: &Home, server: &ModelServer, args: &[&str]) -> Tmux {
    let tmux = Tmux::start(&command(home, server, args), 80, 40);
    tmux.prompt_after("Ctrl-D quits");
    tmux
}

/// A screen with what differs from run to run replaced.
pub(crate) fn assert_screen(name: &str, screen: &str) {
    let filters = [
        (r"(ses|rcp|prt|msg)_[0-9a-zA-Z]{10,}", "${1}_[ID]"),
        (r"\d+\.\d s\b", "[TIME]"),
        (r"(/[^ \n]*)?/project\b", "[PROJECT]"),
        (r"\$\d+\.\d+", "$$[COST]"),
        // How much something weighs is calibrated by the usage of requests, which grow with the tools that there are.
        (r"[\d,]+ → (at most )?[\d,]+ tokens", "[N] → ${1}[N] tokens"),
        (r"([\d,]+ of )?[\d,]+ tokens", "[N] tokens"),
        (r"\d+k of \d+k", "[N]"),
        (r"[█░]{10} \d+ %", "[BAR] [N] %"),
        (r"(?m)^ *[\d,]+  ", "  [N]  "),
        (r" +[-+][\d,]+  ", "  [N]  "),
    ];
    insta::with_settings!({ filters => filters }, { insta::assert_snapshot!(name, screen) });
}

#[test]
fn a_conversation_with_calls_and_code() {
    if is_missing("a_conversation_with_calls_and_code") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write("project/depth.txt", "nine metres\n");
    server.push_all([
        Reply::new()
            .text("Let me **look** at `depth.txt`.")
            .call("call_1", "read", json!({ "path": "depth.txt" }))
            .call("call_2", "read", json!({ "path": "width.txt" })),
        Reply::new().text(
            "# Depth\n\nIt is **nine metres** deep:\n\n```rust\n/// In metres.\nconst DEPTH: u32 = 9;\n```\n\n- 深さは九メートル\n- \
             a line that is long enough to be wrapped at the end of the page, and goes on below\n",
        ),
    ]);
    let tmux = begin(&home, &server, &[]);
    tmux.line("How deep is it?");
    assert_screen("conversation", &tmux.prompt_after("goes on\n  below"));
    // A line that is being typed survives a new size.
    tmux.text("In which").resize(40, 40);
    server.push(
        Reply::new().text(
            "In *metres*, and `narrow` pages are **no** trouble at all: 文字も大丈夫です、狭い画面でも。",
        ),
    );
    tmux.line(" unit?");
    tmux.prompt_after("狭");
    assert_eq!(server.last().unwrap().last_user_text(), "In which unit?");
    tmux.line("/help");
    assert_screen("narrow", &tmux.prompt_after("at the start of a prompt"));
    tmux.resize(200, 40);
    server.push(Reply::new().text("wide ".repeat(60)));
    tmux.line("And wide?");
    let seen = tmux.prompt_after("wide wide");
    let widest = seen.lines().filter(|line| line.starts_with("wide")).map(str::len).max();
    assert_eq!(widest, Some(99), "prose is not set wider than can be read:\n{seen}");
    tmux.key("C-d");
    assert_eq!(tmux.exit_code(), 0);
    tmux.wait("is stored; continue with `plimsoll chat --continue`");
    let listed = home.run(&["sessions", "--tool", "plimsoll"]);
    assert!(listed.contains("How deep is it?"), "{listed}");
}

#[test]
fn a_question_is_answered_by_the_user_and_not_by_keys_typed_before() {
    if is_missing("a_question_is_answered_by_the_user_and_not_by_keys_typed_before") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let gate = Gate::new();
    let touch =
        |id: &str, file: &str| Reply::new().call(id, "bash", json!({ "command": format!("touch {file}") }));
    server.push_all([
        Reply::new()
            .text("I want to.")
            .call("call_1", "bash", json!({ "command": "touch one\u{1b}[2K\rls" }))
            .gate(4, &gate),
        touch("call_2", "two"),
        touch("call_3", "three"),
        Reply::new().text("Done with all."),
    ]);
    let tmux = begin(&home, &server, &[]);
    tmux.line("Make files");
    assert!(gate.wait_reached());
    // Typed before the question is there.
    tmux.line("y").line("a");
    gate.release();
    tmux.wait("allow? [y/a/N]");
    // Long enough for an answer to be taken, if one were.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!server.requests().iter().any(|request| request.result("call_1").is_some()));
    assert_screen("question", &tmux.screen());
    tmux.line("use a temporary directory instead");
    tmux.wait("touch two");
    tmux.wait_until("two questions", |seen| seen.matches("allow? [y/a/N]").count() == 2);
    tmux.line("a");
    assert_screen("answers", &tmux.prompt_after("Done with all."));
    let printed =
        server.requests().iter().find_map(|request| request.result("call_1").map(str::to_owned)).unwrap();
    assert!(printed.contains("the user declined: use a temporary directory instead"), "{printed}");
    assert!(
        home.project.join("two").exists() && home.project.join("three").exists(),
        "always is for all that fit"
    );
    assert!(!home.project.join("one").exists());
    // Enter without text is a no.
    server.push_all([
        Reply::new().call("call_4", "bash", json!({ "command": "mkdir four" })),
        Reply::new().text("No four."),
    ]);
    tmux.line("One more");
    tmux.wait_until("three questions", |seen| seen.matches("allow? [y/a/N]").count() == 3);
    tmux.key("Enter");
    tmux.prompt_after("No four.");
    assert!(!home.project.join("four").exists());
}

#[test]
fn content_longer_than_the_screen_is_paged_before_always_is_available() {
    if is_missing("content_longer_than_the_screen_is_paged_before_always_is_available") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    // More lines, and more characters, than any limit there ever was on what is shown.
    let content: String = (1..=3_000).map(|n| format!("line {n} of a long file\n")).collect();
    let echoes: Vec<String> = (1..=60).map(|n| format!("echo {n} >> made")).collect();
    server.push_all([
        Reply::new().call("call_1", "write", json!({ "path": "long.txt", "content": content })),
        Reply::new().call("call_2", "bash", json!({ "command": echoes.join("\n") })),
        Reply::new().text("Both are done."),
    ]);
    let tmux = Tmux::start(&command(&home, &server, &[]), 80, 24);
    tmux.prompt_after("Ctrl-D quits");
    tmux.line("Write it");
    let seen = tmux.wait("allow? [y/v/N]");
    assert!(seen.contains("of 3,000 lines shown") && seen.contains("│ line 1 of a long file"), "{seen}");
    assert_screen("long_change", &tmux.screen());
    // "Always" is rejected before everything was shown, and does not count as a reason to deny.
    tmux.line("a");
    tmux.wait_until("the question again", |seen| seen.matches("allow? [y/v/N]").count() == 2);
    tmux.wait("not everything was shown");
    assert!(!home.project.join("long.txt").exists());
    tmux.line("v");
    tmux.wait_seen("1-23 of 3,005");
    tmux.key("Space").wait_seen("23-45 of 3,005");
    tmux.resize(60, 20).wait_seen("23-41 of 3,005");
    assert_screen("long_change_paged", &tmux.screen());
    tmux.key("q").wait_until("the question again", |seen| seen.matches("allow? [y/v/N]").count() == 3);
    tmux.line("v");
    tmux.wait_seen("1-19 of 3,005");
    tmux.key("G");
    tmux.wait_seen("3,005 of 3,005");
    assert!(tmux.screen().contains("line 3000 of a long file"), "{}", tmux.screen());
    tmux.key("q").wait("allow? [y/a/v/N]");
    tmux.line("y");
    let seen = tmux.wait_until("the command", |seen| seen.contains("│ echo 1 >> made"));
    assert!(!seen.contains("echo 60"), "{seen}");
    tmux.wait_until("its question", |seen| seen.contains("allow? [v/N]"));
    // What cannot be put back is not allowed unseen.
    tmux.line("y");
    tmux.wait_until("the question again", |seen| seen.matches("allow? [v/N]").count() == 2);
    assert!(!home.project.join("made").exists());
    assert_eq!(std::fs::read_to_string(home.project.join("long.txt")).unwrap(), content);
    tmux.line("v");
    tmux.wait_seen("1-19 of ");
    // Everything that would run can be seen, without a jump.
    let mut pages = tmux.screen();
    for _ in 0..8 {
        tmux.key("Space");
        std::thread::sleep(Duration::from_millis(150));
        pages.push_str(&tmux.screen());
    }
    let missing: Vec<usize> =
        (1..=60).filter(|n| !pages.contains(&format!("│ echo {n} >> made\n"))).collect();
    assert!(missing.is_empty(), "{missing:?} in {pages}");
    tmux.key("q").wait_until("the offer", |seen| seen.matches("allow? [y/a/v/N]").count() == 2);
    tmux.line("a");
    tmux.prompt_after("Both are done.");
    assert_eq!(std::fs::read_to_string(home.project.join("made")).unwrap().lines().count(), 60);
    // Ctrl-C on a page is Ctrl-C at the question.
    server.push(Reply::new().call("call_3", "bash", json!({ "command": echoes.join(";\n") })));
    tmux.line("Once more");
    tmux.wait_until("a question", |seen| seen.matches("allow? [v/N]").count() == 3);
    tmux.line("v");
    tmux.wait_seen("1-19 of ");
    tmux.key("C-c");
    tmux.prompt_after("stopped; everything so far is stored");
}

#[test]
fn content_that_leaves_the_window_is_reported_with_its_receipt_and_restored() {
    if is_missing("content_that_leaves_the_window_is_reported_with_its_receipt_and_restored") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write("project/log.txt", &"line of a long log with a needle in it\n".repeat(2_000));
    let read = |id: &str| Reply::new().call(id, "read", json!({ "path": "log.txt", "limit": 1500 }));
    server.push_all([read("call_1"), Reply::new().text("Read once. Never touch the tests.")]);
    let mut command = command(&home, &server, &["--context", "60000"]);
    command.envs([("PLIMSOLL_PRUNE_PROTECT_TOKENS", "1000"), ("PLIMSOLL_PRUNE_MIN_TOKENS", "100")]);
    let tmux = Tmux::start(&command, 100, 50);
    tmux.prompt_after("Ctrl-D quits");
    tmux.line("Read the log");
    tmux.prompt_after("Read once.");
    tmux.line("/pin Never touch the tests.");
    tmux.prompt_after("pinned: stays in the window");
    tmux.line("/window");
    tmux.prompt_after("HANDLE");
    tmux.line("/plan");
    assert_screen("window_and_plan", &tmux.prompt_after("stays stored"));
    server.push(Reply::new().text("## Goal\nRead the log.\n\n## Decisions\nNever touch the tests."));
    tmux.line("/compact the needle");
    let seen = tmux.prompt_after("stored verbatim");
    assert_screen("compacted", &tmux.screen());
    assert!(server.last().unwrap().contains("<focus>"), "the focus is in the request");
    assert!(seen.contains("summarised"), "{seen}");
    tmux.line("/recall needle");
    tmux.prompt_after("[recall:");
    tmux.line("/undo");
    tmux.prompt_after("undone, back in the window");
    tmux.line("/receipts");
    assert_screen("undone", &tmux.prompt_after("RECEIPT"));
    tmux.line("/exit");
    assert_eq!(tmux.exit_code(), 0);
}

#[test]
fn cleared_outputs_are_reported_and_can_be_restored() {
    if is_missing("cleared_outputs_are_reported_and_can_be_restored") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write("project/log.txt", &"a line of a log\n".repeat(200));
    let read = |id: &str| Reply::new().call(id, "read", json!({ "path": "log.txt" }));
    let mut command = command(&home, &server, &[]);
    command.envs([
        ("PLIMSOLL_PRUNE_AFTER_TURN", "true"),
        ("PLIMSOLL_PRUNE_PROTECT_TOKENS", "10"),
        ("PLIMSOLL_PRUNE_MIN_TOKENS", "100"),
        ("PLIMSOLL_PRUNE_ACTIVE_TURNS", "1"),
    ]);
    let tmux = Tmux::start(&command, 80, 40);
    tmux.prompt_after("Ctrl-D quits");
    server.push_all([read("call_1"), read("call_2"), Reply::new().text("Read twice.")]);
    tmux.line("Read the log");
    tmux.prompt_after("Read twice.");
    server.push(Reply::new().text("Nothing more."));
    tmux.line("Anything else?");
    let seen = tmux.prompt_after("stored: `/recall`, undo with");
    assert!(seen.contains("2 outputs were cleared"), "{seen}");
    tmux.line("/recall");
    tmux.prompt_after("HANDLE");
    tmux.line("/undo");
    assert_screen("set_aside", &tmux.prompt_after("undone, back in the window"));
}

#[test]
fn changes_of_files_are_shown_made_and_put_back() {
    if is_missing("changes_of_files_are_shown_made_and_put_back") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write("project/depth.txt", "one metre\nnine metres\nten metres\n");
    let edit = json!({ "path": "depth.txt", "old": "nine", "new": "eight" });
    server.push_all([
        Reply::new().call("call_1", "read", json!({ "path": "depth.txt" })),
        Reply::new().call("call_2", "edit", edit).call(
            "call_3",
            "write",
            json!({ "path": "new.txt", "content": "new\n" }),
        ),
        Reply::new().call("call_4", "bash", json!({ "command": "echo more > other.txt" })),
        Reply::new().text("It is eight now."),
    ]);
    let tmux = begin(&home, &server, &["--allow", "bash"]);
    tmux.line("Correct it");
    tmux.wait_until("a question", |seen| seen.matches("allow? [y/a/N]").count() == 1);
    tmux.line("y");
    tmux.wait_until("another question", |seen| seen.matches("allow? [y/a/N]").count() == 2);
    tmux.line("y");
    tmux.prompt_after("It is eight now.");
    let read = |name: &str| std::fs::read_to_string(home.project.join(name)).ok();
    assert_eq!(read("depth.txt").as_deref(), Some("one metre\neight metres\nten metres\n"));
    tmux.line("/revert");
    assert_screen("reverted", &tmux.prompt_after("The model is informed."));
    assert_eq!(read("depth.txt").as_deref(), Some("one metre\nnine metres\nten metres\n"));
    assert_eq!((read("new.txt"), read("other.txt").as_deref()), (None, Some("more\n")));
    tmux.line("/revert undo");
    tmux.prompt_after("undid the revert");
    assert_eq!(read("depth.txt").as_deref(), Some("one metre\neight metres\nten metres\n"));
    tmux.line("/revert nonsense");
    tmux.prompt_after("invalid turn `nonsense`");
}

#[test]
fn a_paste_of_many_lines_is_one_prompt_and_lines_can_be_begun() {
    if is_missing("a_paste_of_many_lines_is_one_prompt_and_lines_can_be_begun") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.repeat(Reply::new().text("I have read it."));
    let tmux = begin(&home, &server, &[]);
    let pasted: Vec<String> = (1..=200).map(|n| format!("line {n} of a paste")).collect();
    tmux.paste(&pasted.join("\n"));
    tmux.wait("line 200 of a paste");
    assert_eq!(server.received(), 0, "nothing is sent before Enter");
    tmux.key("Enter");
    tmux.prompt_after("I have read it.");
    assert_eq!((server.received(), server.last().unwrap().last_user_text()), (1, pasted.join("\n")));
    tmux.text("one").key("M-Enter").text("two").key("Enter");
    tmux.wait_until("two answers", |seen| seen.matches("I have read it.").count() == 2);
    assert_eq!(server.last().unwrap().last_user_text(), "one\ntwo");
    tmux.line("//compact is a word");
    tmux.wait_until("three answers", |seen| seen.matches("I have read it.").count() == 3);
    assert_eq!(server.last().unwrap().last_user_text(), "/compact is a word");
    tmux.line("/comapct");
    tmux.prompt_after("did you mean `/compact`?");
    tmux.text("/und").key("Tab");
    tmux.wait("› /undo");
    tmux.key("C-c");
    tmux.prompt_after("› /undo");
    tmux.key("C-d");
    assert_eq!(tmux.exit_code(), 0);
    // The history is restored next time, and only its user can read it.
    let history = home.path.join(".local/share/plimsoll/chat-history");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&history).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let tmux = Tmux::start(&command(&home, &server, &["--continue"]), 80, 24);
    tmux.prompt_after("I have read it.");
    tmux.key("Up");
    tmux.wait("› /comapct");
}

#[test]
fn sessions_models_and_agents_are_switched() {
    if is_missing("sessions_models_and_agents_are_switched") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.codex("0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000", &home.project, "Words said in Codex", 1);
    server.push(Reply::new().text("I know them."));
    let tmux =
        Tmux::start(&command(&home, &server, &["--session", "codex:0199aaaa", "What was said?"]), 90, 45);
    let seen = tmux.prompt_after("I know them.");
    // An imported session is weighed with system prompt and tools before the first prompt, like afterwards.
    let weights: Vec<u64> = seen
        .lines()
        .filter_map(|line| line.split_once(" of 968,000 tokens")?.0.rsplit(' ').next())
        .map(|number| number.replace(',', "").parse().unwrap())
        .collect();
    assert!(weights.len() == 2 && weights[0] * 2 > weights[1], "{weights:?} in {seen}");
    assert!(server.last().unwrap().contains("Words said in Codex"));
    server.push(Reply::new().text("In a fork."));
    tmux.line("/fork Try another way");
    tmux.prompt_after("In a fork.");
    let last = server.last().unwrap();
    assert!(last.contains("Words said in Codex") && last.contains("Try another way"));
    tmux.line("/resume 0199aaaa");
    tmux.prompt_after("session 0199aaaa");
    server.push(Reply::new().text("Back again."));
    tmux.line("And here?");
    tmux.prompt_after("Back again.");
    assert!(!server.last().unwrap().contains("Try another way"), "the old session knows nothing of the fork");
    tmux.line("/model anthropic/claude-haiku-4-5");
    tmux.prompt_after("switched to");
    tmux.line("/agent plan");
    tmux.prompt_after("switched to agent plan");
    server.push(Reply::new().text("Planned."));
    tmux.line("Plan it");
    tmux.prompt_after("Planned.");
    let last = server.last().unwrap();
    assert_eq!(last.model, "claude-haiku-4-5");
    assert!(last.contains("Plan without changing anything"));
    for (command, printed) in [
        ("/tasks cancel", "`/tasks cancel` needs a task id"),
        ("/tasks cancel none", "`/tasks` lists the tasks of this session"),
        ("/pin msg_none", "unknown id `msg_none` in this session"),
        ("/agent nobody", "unknown agent `nobody`"),
    ] {
        tmux.line(command);
        tmux.prompt_after(printed);
    }
    tmux.line("/agent");
    tmux.prompt_after("› plan");
    tmux.line("/permissions");
    assert_screen("switched", &tmux.prompt_after("Rules"));
    server.push(Reply::failing(Fault::status(401)));
    tmux.line("Fail");
    tmux.prompt_after("hint: `plimsoll config` shows where the key comes from");
    tmux.line("/new");
    tmux.prompt_after("new session; the previous one is stored");
}

/// Tasks of a session that are resumed later are bounded by the agent that the session has then.
#[test]
fn a_switched_agent_is_recorded_and_a_task_keeps_its_own() {
    if is_missing("a_switched_agent_is_recorded_and_a_task_keeps_its_own") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.push(Reply::new().text("Good day."));
    let tmux = begin(&home, &server, &[]);
    tmux.line("Hello");
    tmux.prompt_after("Good day.");
    let id = home.json(&["sessions", "--all", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let agent_of = |id: &str| home.archive().store().session(&id.into()).unwrap().agent;
    assert_ne!(agent_of(&id).as_deref(), Some("plan"));
    tmux.line("/agent plan");
    tmux.prompt_after("switched to agent plan");
    assert_eq!(agent_of(&id).as_deref(), Some("plan"));
    tmux.key("C-d");
    assert_eq!(tmux.exit_code(), 0);

    server.push(Reply::new().text("Measured."));
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &server.url())];
    let args = ["fork", &id, "--run", "Measure it", "--model", MODEL, "--agent", "explore"];
    let forked = home.command(&args, &variables).stdin(Stdio::null()).output().unwrap();
    assert!(forked.status.success(), "{}", String::from_utf8_lossy(&forked.stderr));
    let task = home.json(&["tasks", "--all", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let tmux = begin(&home, &server, &["--session", &task]);
    tmux.line("/agent build");
    tmux.prompt_after("the agent of a background task cannot be changed");
    assert_eq!(agent_of(&task).as_deref(), Some("explore"));
    server.push(Reply::new().text("It is nine metres."));
    tmux.line("And how deep?");
    tmux.prompt_after("It is nine metres.");
    assert!(
        server.last().unwrap().system.contains("without changing anything"),
        "the agent is `explore` still"
    );
}

/// The death of a process changes nothing in the store, so that an idle chat has to look.
#[test]
fn an_idle_chat_finds_a_task_whose_process_has_died() {
    if is_missing("an_idle_chat_finds_a_task_whose_process_has_died") {
        return;
    }
    let home = Home::new();
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request| {
        let said = request.last_user_text();
        match said.as_str() {
            "Hello" => Reply::new().text("Good day."),
            _ if said.contains("Task Progress") => Reply::new().text("So it has died."),
            _ => Reply::new().text("Never said.").gate(0, &held),
        }
    })
    .unwrap();
    let tmux = begin(&home, &server, &[]);
    tmux.line("Hello");
    tmux.prompt_after("Good day.");
    let id = home.json(&["sessions", "--all", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let url = server.url();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
    let args = ["fork", &id, "--run", "Measure it", "--model", MODEL, "--agent", "explore"];
    let mut worker = home.command(&args, &variables);
    worker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut worker = worker.spawn().unwrap();
    assert!(gate.wait_reached());
    worker.kill().unwrap();
    worker.wait().unwrap();
    // Without a key.
    tmux.prompt_after("So it has died.");
    let request = server.last().unwrap();
    assert!(request.contains("interrupted"), "{}", request.outline());
    gate.release();
}

#[test]
fn without_a_terminal_lines_are_prompts_and_questions_are_denied() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.push_all([
        Reply::new().text("**First** answer.\u{1b}[31m"),
        Reply::new().call("call_1", "bash", json!({ "command": "touch made" })),
        Reply::new().text("Second answer."),
    ]);
    let mut command = command(&home, &server, &[]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"One\n\nTwo\n/nonsense\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(stdout, "**First** answer.[31m\nSecond answer.\n", "{stderr}");
    assert!(!stderr.contains('\u{1b}') && !home.project.join("made").exists());
    assert!(
        stderr.contains("--allow 'bash:touch *'") && stderr.contains("unknown command `/nonsense`"),
        "{stderr}"
    );
    assert!(output.status.success(), "{stderr}");
    let json = home.run(&["chat", "--json"]);
    assert!(json.contains("exit: 2") && json.contains("plimsoll run --json"), "{json}");
}
