//! `plimsoll chat`: figures about the window add up, and changes to files and rules are reported correctly.

use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::chat::{assert_screen, begin, command};
use crate::support::Home;
use crate::tmux::{Tmux, is_missing};

const ID: &str = "5d0c31aa-1111-4222-8333-444455556666";

#[test]
fn a_session_of_another_tool_is_weighed_with_our_system_prompt_and_tools() {
    if is_missing("a_session_of_another_tool_is_weighed_with_our_system_prompt_and_tools") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let id = ID;
    let line = |uuid: &str, parent: Option<&str>, kind: &str, message: serde_json::Value| {
        json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": id, "cwd": home.project,
            "timestamp": "2026-05-02T09:18:37.730Z", "message": message })
    };
    let (first, second) = ("11111111-aaaa-4222-8333-444455556666", "22222222-aaaa-4222-8333-444455556666");
    let said = line(first, None, "user", json!({ "role": "user", "content": "Hello" }));
    let answer = json!({ "id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-6", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "Hello." }], "usage": { "input_tokens": 10, "output_tokens": 5 } });
    let answered = line(second, Some(first), "assistant", answer);
    home.write(&format!(".claude/projects/-project/{id}.jsonl"), &format!("{said}\n{answered}\n"));
    let tmux = Tmux::start(&command(&home, &server, &["--session", "claude-code:5d0c31aa"]), 80, 24);
    let seen = tmux.prompt_after(" of 968,000 tokens");
    assert!(seen.contains("Hello.") && !seen.contains("15 of 968,000"), "{seen}");
    let (before, _) = seen.rsplit_once(" of 968,000 tokens").unwrap();
    let weight: u64 = before.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap();
    assert!(weight > 1_000, "{seen}");
    // Its ids are recognised although they do not look like our own.
    tmux.line("/window");
    let seen = tmux.prompt_after("HANDLE");
    assert!(seen.contains(second), "{seen}");
    tmux.line("/recall 22222222-aaaa");
    tmux.prompt_after(&format!("[recall {second}: message"));
}

/// A session of Claude Code: some questions with long answers, with the usage of requests that carry 25,000 tokens of a system
/// prompt and tools.
fn write_session(home: &Home) {
    let mut lines = String::new();
    let mut parent: Option<String> = None;
    for number in 0..6 {
        let words = format!("Question {number}? {}", "Some words of it. ".repeat(60));
        let answer = format!("Answer {number}. {}", "Some words more. ".repeat(200));
        let usage = json!({ "input_tokens": 25_000 + 1_200 * number, "output_tokens": 900 });
        let messages = [
            ("user", json!({ "role": "user", "content": words })),
            (
                "assistant",
                json!({ "id": format!("msg_{number}"), "role": "assistant", "model": "claude-sonnet-4-6",
                    "stop_reason": "end_turn", "content": [{ "type": "text", "text": answer }], "usage": usage }),
            ),
        ];
        for (kind, message) in messages {
            let uuid = format!("{}{number}1111111-aaaa-4222-8333-444455556666", &kind[..1]);
            let line = json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": ID, "cwd": "/elsewhere",
                "timestamp": "2026-05-02T09:18:37.730Z", "message": message });
            lines.push_str(&format!("{line}\n"));
            parent = Some(uuid);
        }
    }
    home.write(&format!(".claude/projects/-project/{ID}.jsonl"), &lines);
}

/// The figures of all meters, oldest first.
fn meters(seen: &str) -> Vec<u64> {
    let number = |text: &str| text.rsplit(' ').next()?.replace(',', "").parse().ok();
    let pieces: Vec<&str> = seen.split(" of 968,000 tokens").collect();
    let meters = pieces[..pieces.len() - 1].iter().filter(|before| before.contains('%'));
    meters.filter_map(|before| number(before)).collect()
}

/// The figure before `words`.
fn figure(seen: &str, words: &str) -> u64 {
    let (before, _) = seen.rsplit_once(words).unwrap_or_else(|| panic!("no `{words}` in:\n{seen}"));
    before.trim_end().rsplit([' ', '\n']).next().unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn meter_notices_window_and_receipts_agree_about_an_imported_session() {
    if is_missing("meter_notices_window_and_receipts_agree_about_an_imported_session") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    write_session(&home);
    let tmux = Tmux::start(&command(&home, &server, &["--session", "claude-code:5d0c31aa"]), 100, 50);
    let before = *meters(&tmux.prompt_after(" of 968,000 tokens")).last().unwrap();
    assert!(before < 20_000, "what the other tool sent with each request is not sent by us: {before}");
    for round in 0..2 {
        server.push(Reply::new().text("## Goal\nAnswer questions."));
        tmux.line("/compact");
        tmux.wait_until("a compaction", |seen| seen.matches("stored verbatim").count() == round + 1);
        let seen = tmux.prompt_after("stored verbatim");
        let (freed, after) = (figure(&seen, " tokens; stored verbatim"), *meters(&seen).last().unwrap());
        assert_eq!(before - freed, after, "{seen}");
        tmux.line("/undo");
        tmux.wait_until("an undo", |seen| seen.matches("undone, back in").count() == round + 1);
        let seen = tmux.prompt_after("undone, back in the window");
        assert_eq!(*meters(&seen).last().unwrap(), before, "{seen}");
        assert_eq!(figure(&seen, " → "), after, "{seen}");
        assert_eq!(figure(&seen, " tokens (receipt"), before, "{seen}");
    }
    tmux.line("/receipts");
    let seen = tmux.prompt_after("RECEIPT");
    let rows: Vec<&str> = seen.lines().filter(|line| line.starts_with("rcp_")).collect();
    let freed = |row: &str| row.split_whitespace().nth(2).unwrap()[1..].to_owned();
    assert_eq!(rows.len(), 4, "{seen}");
    assert!(rows.iter().all(|row| freed(row) == freed(rows[0])), "{seen}");
    // What the window is made of is the window.
    tmux.line("/window");
    let seen = tmux.prompt_after("HANDLE");
    let (_, shown) = seen.rsplit_once("/window").unwrap();
    let shares = shown
        .lines()
        .skip_while(|line| !line.contains("messages"))
        .skip(1)
        .take_while(|line| !line.is_empty());
    let sum: u64 = shares
        .filter(|line| !line.contains("pinned"))
        .map(|line| line.split_whitespace().next().unwrap().replace(',', "").parse::<u64>().unwrap())
        .sum();
    assert!(sum.abs_diff(before) < 50, "{sum} of {before}: {shown}");
    // An answer of ours is believed from then on.
    server.push(Reply::new().text("Here."));
    tmux.line("And now?");
    let seen = tmux.prompt_after("Here.");
    let (before, usage) = (*meters(&seen).last().unwrap(), server.last().unwrap());
    server.push(Reply::new().text("## Goal\nAnswer questions."));
    tmux.line("/compact");
    tmux.wait_until("a compaction", |seen| seen.matches("stored verbatim").count() == 3);
    let seen = tmux.prompt_after("stored verbatim");
    let freed = figure(&seen, " tokens; stored verbatim");
    let after = *meters(&seen).last().unwrap();
    assert_eq!(before - freed, after, "{seen}\n{}", usage.outline());
    // Also when the session is opened again, but for what the counter had learned.
    tmux.line("/quit");
    tmux.exit_code();
    let tmux = Tmux::start(&command(&home, &server, &["--session", "claude-code:5d0c31aa"]), 100, 50);
    let again = *meters(&tmux.prompt_after(" of 968,000 tokens")).last().unwrap();
    assert!(again.abs_diff(after) * 100 <= after, "{again}, before {after}");
}

/// Handles and receipts are copied from there, so none is broken over two lines.
#[test]
fn ids_stay_in_one_line_in_a_narrow_terminal() {
    if is_missing("ids_stay_in_one_line_in_a_narrow_terminal") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    write_session(&home);
    let tmux = Tmux::start(&command(&home, &server, &["--session", "claude-code:5d0c31aa"]), 40, 100);
    tmux.prompt_after(" %");
    server.push(Reply::new().text("## Goal\nAnswer questions."));
    tmux.line("/compact");
    tmux.prompt_after("`/undo");
    for (command, names, count) in [("/receipts", "^rcp_", 1), ("/window", r"[au]\d1{7}-.*\.1$", 2)] {
        tmux.line(command);
        let seen = tmux.wait_until(command, |seen| {
            seen.rsplit_once(command).is_some_and(|(_, shown)| shown.contains("\n›"))
        });
        let (_, shown) = seen.rsplit_once(command).unwrap();
        let names = regex::Regex::new(names).unwrap();
        let ids: Vec<&str> = shown.split_whitespace().filter(|word| names.is_match(word)).collect();
        assert_eq!(ids.len(), count, "{command}: {shown}");
        // All of a kind are of one length, so a broken one would be shorter.
        assert!(ids.iter().all(|id| id.len() >= 24), "{command}: {shown}");
    }
    let seen = tmux.everything();
    assert_screen("narrow_window", seen.rsplit_once("/window").unwrap().1.trim());
}

#[test]
fn notes_before_the_greeting_are_wrapped_at_words() {
    if is_missing("notes_before_the_greeting_are_wrapped_at_words") {
        return;
    }
    for columns in [80, 40] {
        let (home, server) = (Home::new(), ModelServer::start().unwrap());
        write_session(&home);
        let command = command(&home, &server, &["--session", "claude-code:5d0c31aa"]);
        let tmux = Tmux::start(&command, columns, 40);
        let seen = tmux.prompt_after(" %");
        let (before, _) = seen.split_once("anthropic/").unwrap();
        let words: Vec<&str> = before.split_whitespace().collect();
        assert!(words.ends_with(&["12", "messages", "(directory", "`/elsewhere`)"]), "{before}");
        // A path that is longer than the line is broken by the terminal and by nothing else.
        let ends_in_word = |line: &&str| line.len() == usize::from(columns) && !line.contains(".claude");
        assert_eq!(before.lines().find(ends_in_word), None, "{before}");
    }
}

#[test]
fn a_revert_that_changes_nothing_reports_it() {
    if is_missing("a_revert_that_changes_nothing_reports_it") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let write = |content: &str| json!({ "path": "a.txt", "content": content });
    let edit: Value = json!({ "path": "a.txt", "old": "by hand", "new": "by the agent" });
    let tmux = begin(&home, &server, &["--allow", "write", "--allow", "edit"]);
    server.push_all([Reply::new().call("call_1", "write", write("one\n")), Reply::new().text("Written.")]);
    tmux.line("Write it");
    tmux.prompt_after("Written.");
    home.write("project/a.txt", "one\nby hand\n");
    server.push_all([
        Reply::new().call("call_2", "read", json!({ "path": "a.txt" })),
        Reply::new().call("call_3", "edit", edit),
        Reply::new().text("Edited."),
    ]);
    tmux.line("Edit it");
    tmux.prompt_after("Edited.");
    let content = || std::fs::read_to_string(home.project.join("a.txt")).unwrap();
    assert_eq!(content(), "one\nby the agent\n");
    tmux.line("/revert");
    let seen = tmux.prompt_after("/revert undo");
    assert!(seen.contains("files are in their state before turn 2"), "{seen}");
    assert_eq!(content(), "one\nby hand\n");
    tmux.line("/revert");
    let seen = tmux.prompt_after("No file was changed.");
    assert!(seen.contains("no file was restored to its state before turn 1"), "{seen}");
    assert_eq!(
        seen.matches("restores it").count(),
        1,
        "an undo that changed nothing cannot be undone: {seen}"
    );
    assert_eq!(content(), "one\nby hand\n");
}

#[test]
fn flags_are_for_the_agent_that_the_chat_began_with() {
    if is_missing("flags_are_for_the_agent_that_the_chat_began_with") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let touch =
        |id: &str, file: &str| Reply::new().call(id, "bash", json!({ "command": format!("touch {file}") }));
    let tmux = begin(&home, &server, &["--allow", "bash"]);
    server.push_all([touch("call_1", "one"), Reply::new().text("First.")]);
    tmux.line("Make one");
    tmux.prompt_after("First.");
    assert!(home.project.join("one").exists());
    tmux.line("/agent plan");
    let seen = tmux.prompt_after("with its own rules");
    assert!(seen.contains("`--allow` applied to build only"), "{seen}");
    server.push_all([touch("call_2", "two"), Reply::new().text("Second.")]);
    tmux.line("Make two");
    tmux.wait("allow? [y/a/N]");
    assert!(!home.project.join("two").exists());
    std::thread::sleep(std::time::Duration::from_millis(600));
    tmux.line("n");
    tmux.prompt_after("Second.");
    assert!(!home.project.join("two").exists());
    tmux.line("/agent build");
    tmux.prompt_after("switched to agent build with its own rules\n");
    server.push_all([touch("call_3", "three"), Reply::new().text("Third.")]);
    tmux.line("Make three");
    tmux.prompt_after("Third.");
    assert!(home.project.join("three").exists());
}

#[test]
fn unconfined_commands_are_reported_before_the_question() {
    if is_missing("unconfined_commands_are_reported_before_the_question") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let tmux = begin(&home, &server, &["--sandbox", "off"]);
    server.push_all([
        Reply::new().call("call_1", "bash", json!({ "command": "echo hello" })),
        Reply::new().text("Done."),
    ]);
    tmux.line("Say hello");
    let seen = tmux.wait("allow? [y/a/N]");
    assert!(seen.contains("commands are not confined"), "{seen}");
    std::thread::sleep(std::time::Duration::from_millis(600));
    tmux.line("y");
    let seen = tmux.prompt_after("Done.");
    assert_eq!(seen.matches("commands are not confined").count(), 1, "{seen}");
}

#[test]
fn a_compaction_that_would_free_nothing_reports_its_figures() {
    if is_missing("a_compaction_that_would_free_nothing_reports_its_figures") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let tmux = begin(&home, &server, &[]);
    server.push(Reply::new().text("Hello."));
    tmux.line("Hi");
    tmux.prompt_after("Hello.");
    tmux.line("/compact");
    let seen = tmux.prompt_after("too little to summarise");
    assert!(seen.contains("too little to summarise: 2 messages, "), "{seen}");
}

#[test]
fn a_fork_shows_what_is_out_of_its_window() {
    if is_missing("a_fork_shows_what_is_out_of_its_window") {
        return;
    }
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let tmux = begin(&home, &server, &[]);
    for number in 0..4 {
        server.push(Reply::new().text(format!("Answer {number}. {}", "Some words more. ".repeat(300))));
        tmux.line(&format!("Question {number}?"));
        tmux.prompt_after(&format!("Answer {number}."));
    }
    server.push(Reply::new().text("## Goal\nAnswer questions."));
    tmux.line("/compact");
    tmux.prompt_after("1 summary");
    server.push(Reply::new().text("In the fork."));
    tmux.line("/fork Go on here");
    let seen = tmux.prompt_after("In the fork.");
    let (_, after) = seen.rsplit_once("In the fork.").unwrap();
    assert!(after.contains("1 summary"), "{seen}");
}
