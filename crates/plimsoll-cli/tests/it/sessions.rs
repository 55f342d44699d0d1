//! Which sessions there are, and which one is taken.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::Home;

const DATABASE: &str = ".local/share/opencode/opencode.db";

/// Sessions of all four tools for the project, and one of elsewhere.
fn home() -> Home {
    let home = Home::new();
    home.codex("019e06e6-0c4e-72d2", &home.project, "Fix the build", 3);
    home.codex("019e06e6-0c4f-8000", &home.path.join("elsewhere"), "Other work", 1);
    home.claude("5d0c31aa-1111", "Why is it\u{1b}[31m slow?\nSay more", 2);
    home.claude("agent-77", "You are a sub-agent", 0);
    home.pi("ffae836b-9420", "Read it all", 50);
    home.opencode(
        DATABASE,
        &[
            ("ses_5c1000000001", "An older one", 200, None),
            ("ses_5c1000000002", "Child", 0, Some("ses_5c1000000001")),
        ],
    );
    home
}

#[test]
fn sessions_of_this_directory_are_listed_newest_first() {
    assert_snapshot!(home().page(&["sessions"]));
    assert_eq!(home().run(&["sessions", "list"]), home().run(&["sessions"]));
}

#[test]
fn sessions_can_be_of_every_directory_of_one_tool_and_fewer() {
    assert_snapshot!(home().page(&["sessions --all", "sessions --all --tool codex --limit 1"]));
}

#[test]
fn an_empty_list_is_reported() {
    assert_snapshot!(Home::new().page(&["sessions", "sessions --all --tool pi", "sessions --json", "fork"]));
}

#[test]
fn sessions_for_machines() {
    let home = home();
    let output = home.command(&["sessions", "--json"], &[]).output().unwrap();
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["5d0c31aa-1111", "019e06e6-0c4e-72d2", "ffae836b-9420", "ses_5c1000000001"]);
    let row = &rows[1];
    assert_eq!((&row["tool"], &row["messages"]), (&"codex".into(), &1.into()));
    assert_eq!(row["directory"], home.project.to_str().unwrap());
    assert_eq!(row["started"], 1_777_713_516_730_u64);
    assert!(row["updated"].as_u64().unwrap() > 1_790_000_000_000 && row["window"].as_u64().unwrap() > 0);
    assert!(row["path"].as_str().unwrap().ends_with("019e06e6-0c4e-72d2.jsonl"));
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_others() {
    let home = home();
    let broken = format!("{{\"type\":\"session\",\"id\":\"x\",\"cwd\":{:?}}}\n", home.project);
    home.write_aged(".claude/projects/-project/0bad.jsonl", &broken.replace("session", "nonsense"), 1);
    home.write(DATABASE, "no database");
    assert_snapshot!(home.page(&["sessions"]));
}

#[test]
fn tools_can_keep_their_sessions_elsewhere() {
    let home = home();
    let moved = home.path.join("moved");
    std::fs::create_dir_all(moved.join("opencode")).unwrap();
    std::fs::rename(home.path.join(".claude"), moved.join("claude")).unwrap();
    std::fs::rename(home.path.join(".codex/sessions"), moved.join("archived_sessions")).unwrap();
    std::fs::rename(home.path.join(DATABASE), moved.join("opencode/opencode.db")).unwrap();
    let claude = moved.join("claude");
    let variables = [
        ("CLAUDE_CONFIG_DIR", claude.to_str().unwrap()),
        ("CODEX_HOME", moved.to_str().unwrap()),
        ("XDG_DATA_HOME", moved.to_str().unwrap()),
    ];
    assert_eq!(home.run_with(&["sessions"], &variables), self::home().run(&["sessions"]));
}

#[test]
fn without_a_file_the_newest_session_of_the_directory_is_used() {
    let printed = home().run(&["fork"]);
    assert!(printed.contains("Why is it") && !printed.contains("sub-agent"), "{printed}");
    assert!(printed.contains("Claude Code: `~/.claude/projects/-project/5d0c31aa-1111.jsonl`"), "{printed}");
    let home = Home::new();
    home.opencode(
        DATABASE,
        &[("ses_5c1000000001", "One", 1, None), ("ses_5c1000000002", "Child", 0, Some("ses_5c1000000001"))],
    );
    let printed = home.run(&["fork"]);
    assert!(
        printed.contains("OpenCode: `ses_5c1000000001` in `~/.local/share/opencode/opencode.db`"),
        "{printed}"
    );
    assert!(printed.contains("words of One"), "{printed}");
}

#[test]
fn a_session_can_be_named_by_an_id_prefix() {
    for id in ["019e06e6-0c4e", "5d0c", "ffae836b-9420", "ses_5c1000000002"] {
        let printed = home().run(&["fork", id]);
        assert!(printed.starts_with("exit: 0"), "{id}: {printed}");
        let printed = home().run(&["fork", "--session", id]);
        assert!(printed.starts_with("exit: 0"), "{id}: {printed}");
    }
    assert_snapshot!(home().page(&["fork 019e06e6", "fork 0abcdef", "fork --session 0abcdef"]));
}

#[test]
fn a_database_is_a_file_with_sessions_to_choose_from() {
    let home = Home::new();
    home.opencode(
        "project/copy.db",
        &[("ses_a1", "One", 2, None), ("ses_a2", "Two", 1, None), ("ses_b", "Three", 3, None)],
    );
    assert!(home.run(&["fork", "copy.db"]).contains("words of Two"));
    assert!(home.run(&["fork", "copy.db", "--session", "ses_b"]).contains("words of Three"));
    home.write("project/chat.json", r#"[{"role":"user","content":"hi"}]"#);
    assert_snapshot!(home.page(&[
        "prune copy.db",
        "prune copy.db --session ses_a",
        "prune copy.db --session ses_c",
        "prune chat.json --session ses_c",
    ]));
}

#[test]
fn sessions_of_gooses_database_are_listed_and_picked() {
    let home = Home::new();
    home.goose(
        ".local/share/goose/sessions/sessions.db",
        &[
            ("20260101_1", "One", 2, "user"),
            ("20260101_2", "Two", 1, "user"),
            ("20260101_3", "Child", 0, "sub_agent"),
        ],
    );
    // goose leaves files of older versions next to the database that it imported them into.
    let old = json!({ "working_dir": home.project, "description": "One" }).to_string() + "\n";
    let said = r#"{"role":"user","created":1767225600,"content":[{"type":"text","text":"words of One"}]}"#;
    home.write(".local/share/goose/sessions/20260101_1.jsonl", &(old.clone() + said));
    home.write(".local/share/goose/sessions/20250101_9.jsonl", &(old + said));
    let listed = home.run(&["sessions", "--tool", "goose"]);
    assert!(listed.contains("Two") && !listed.contains("Child"), "{listed}");
    assert_eq!(listed.matches("20260101_1").count(), 1, "{listed}");
    assert!(listed.contains("20250101_9"), "{listed}");
    assert!(home.run(&["fork", "20260101_1"]).contains("words of One"));
    assert!(home.run(&["fork", "--session", "20260101_7"]).starts_with("exit: 2"));
    let newest = home.run(&["fork"]);
    assert!(!newest.contains("Child"), "{newest}");
    home.goose("project/copy.db", &[("20260102_1", "Three", 1, "user"), ("20260102_2", "Four", 0, "user")]);
    assert!(home.run(&["fork", "copy.db"]).contains("words of Four"));
    assert!(home.run(&["fork", "copy.db", "--session", "20260102_1"]).contains("words of Three"));
}

#[test]
fn in_a_directory_of_a_project_the_sessions_of_the_project_are_listed() {
    let home = Home::new();
    home.codex("019e06e6-0c4e-72d2", &home.project, "Fix the build", 3);
    home.codex("019e06e6-0c4f-8000", &home.project.join("own"), "In its own", 4);
    home.write("project/src/deep/a.rs", "");
    home.write("project/own/a.rs", "");
    let listed = |directory: &str, args: &[&str]| {
        let output = home.command(args, &[]).current_dir(home.project.join(directory)).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let above = listed("src/deep", &["sessions"]);
    assert!(above.contains("Fix the build") && !above.contains("In its own"), "{above}");
    assert!(above.contains("sessions of `~/project`, the nearest directory above with sessions"), "{above}");
    // Those of a directory that has its own come first, as for the commands that take the newest.
    let own = listed("own", &["sessions"]);
    assert!(own.contains("In its own") && !own.contains("Fix the build"), "{own}");
    let rows: Value = serde_json::from_str(&listed("src/deep", &["sessions", "--json"])).unwrap();
    assert_eq!(rows[0]["directory"], home.project.to_str().unwrap());
}

/// Two sessions of pi that were put into one file.
const TWO: &str = r#"{"type":"session","id":"first-1","cwd":"/a"}
{"type":"message","message":{"role":"user","content":"words of One"}}
{"type":"session","id":"second-2","cwd":"/b"}
{"type":"message","message":{"role":"user","content":"words of Two"}}
"#;

#[test]
fn one_of_several_sessions_in_a_file_can_be_picked() {
    let home = Home::new().with("project/two.jsonl", TWO);
    assert!(home.run(&["fork", "two.jsonl"]).contains("words of Two"));
    let picked = home.run(&["fork", "two.jsonl", "--session", "first"]);
    assert!(picked.contains("words of One") && !picked.contains("words of Two"), "{picked}");
    let inspected = home.run(&["inspect", "two.jsonl", "--session", "first", "--json"]);
    assert!(inspected.contains("\"first-1\""), "{inspected}");
    let gone = home.run(&["fork", "two.jsonl", "--session", "gone"]);
    assert!(gone.contains("no session `gone`; it holds 2: `second-2`, `first-1`"), "{gone}");
}

#[test]
fn a_file_on_standard_input_is_read_without_being_named() {
    let home = Home::new().with("project/two.jsonl", TWO);
    let run = |args: &[&str], input: std::process::Stdio| {
        let output = home.command(args, &[]).stdin(input).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let file = || std::fs::File::open(home.project.join("two.jsonl")).unwrap().into();
    assert!(run(&["fork"], file()).contains("words of Two"));
    assert!(run(&["fork", "-", "--session", "first"], file()).contains("words of One"));
    // Without a file the newest session is looked for, whatever else standard input is.
    assert!(run(&["fork"], std::process::Stdio::null()).contains("no session of any known tool"));
    assert!(run(&["fork"], std::process::Stdio::piped()).contains("no session of any known tool"));
}

#[test]
fn an_empty_file_on_standard_input_is_not_another_session() {
    let home = home().with("project/empty", "").with("project/two.jsonl", TWO);
    let open = |name: &str| std::fs::File::open(home.project.join(name)).unwrap();
    let commands: [&[&str]; 5] =
        [&["inspect"], &["window"], &["prune"], &["fork"], &["convert", "--to", "openai-chat"]];
    for args in commands {
        let printed = home.output_text(&home.command(args, &[]).stdin(open("empty")).output().unwrap());
        let expected = "exit: 3\n----- stdout -----\n----- stderr -----\n\
            error: cannot read standard input: the transcript is empty\n";
        assert_eq!(printed, expected, "{args:?}");
    }
    // A script's own standard input, which an earlier command has read, is not meant.
    let mut read = open("two.jsonl");
    std::io::Read::read_to_end(&mut read, &mut Vec::new()).unwrap();
    let printed = home.output_text(&home.command(&["fork"], &[]).stdin(read).output().unwrap());
    assert!(printed.contains("Claude Code: "), "{printed}");
}

#[test]
fn a_session_is_found_from_a_directory_inside_its_project() {
    let home = Home::new();
    let record = serde_json::json!({ "type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "5d0c31aa-1111",
        "cwd": home.project, "message": { "role": "user", "content": "words of the project" } });
    home.write(".claude/projects/-project/5d0c31aa-1111.jsonl", &format!("{record}\n"));
    let inside = home.project.join("src/deep");
    std::fs::create_dir_all(&inside).unwrap();
    let output = home.command(&["fork"], &[]).current_dir(&inside).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("words of the project"), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_list_fits_its_page_whatever_the_ids_are() {
    let home = home();
    let like = ["a", "b"].map(|end| format!("019e06e6-0c4e-72d2-a0ab-1122{end}"));
    home.codex(&like[0], &home.path.join("a-directory-far-away"), "Words that give way to other columns", 4);
    home.codex(&like[1], &home.path.join("a-directory-far-away"), "Words that give way to other columns", 4);
    let long = format!("ses_{}", "x".repeat(70));
    home.claude(&format!("{long}a"), "A long one", 5);
    for with_longest in [false, true] {
        if with_longest {
            home.claude(&format!("{long}b"), "A long one", 5);
        }
        let printed = home.run(&["sessions", "--all"]);
        let widest = printed.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{widest}: {printed}");
        for id in &like {
            assert!(printed.contains(id), "{printed}");
        }
    }
}

#[test]
fn an_unknown_id_is_reported_as_an_id_whatever_its_length() {
    let home = home();
    for (id, session) in [
        ("zz", "session with id `zz`"),
        ("zz99", "session with id `zz99`"),
        ("codex:zzz", "session of Codex with id `zzz`"),
    ] {
        for args in [["inspect", id].as_slice(), &["--json", "inspect", id]] {
            let printed = home.run(args);
            let expected = format!("error: no file `{id}` and no {session}\n");
            assert!(printed.starts_with("exit: 2") && printed.contains(&expected), "{args:?}: {printed}");
        }
    }
    // A short one that there is will do as well.
    assert!(home.run(&["fork", "5d0"]).starts_with("exit: 0"));
    // A path is none.
    let printed = home.run(&["inspect", "zz/zz.jsonl"]);
    assert!(printed.contains("cannot open `zz/zz.jsonl`: no such file or directory"), "{printed}");
    let printed = home.run(&["chat", "--session", "claude-code:zzz", "--model", "anthropic/claude-x"]);
    assert!(
        printed.contains("no session of Claude Code with id `zzz`")
            && printed.contains("hint: list its sessions with `plimsoll sessions --tool claude-code --all`"),
        "{printed}"
    );
}

#[test]
fn a_listed_id_can_be_used_as_an_argument() {
    let home = home();
    let printed = home.run(&["sessions", "--all"]);
    let ids: Vec<&str> =
        printed.lines().skip(3).filter_map(|line| line.split_whitespace().next()).take(5).collect();
    for id in &ids {
        let printed = home.run(&["fork", id]);
        assert!(printed.starts_with("exit: 0"), "{id}: {printed}");
    }
    assert_eq!(ids, ["019e06e6-0c4f", "5d0c31aa", "019e06e6-0c4e", "ffae836b", "ses_5c1000000001"]);
}

#[test]
fn recorded_usage_includes_cache_writes() {
    let home = Home::new();
    home.pi("ffae836b-9420", "Read it all", 1);
    let file = ".pi/agent/sessions/--project--/2026_ffae836b-9420.jsonl";
    let text = std::fs::read_to_string(home.path.join(file)).unwrap();
    let answer = json!({ "type": "message", "timestamp": "2026-05-02T09:18:38.730Z", "message": { "role": "assistant",
        "content": [{ "type": "text", "text": "Done" }], "stopReason": "stop", "usage": { "input": 10, "output": 30,
        "cacheRead": 0, "cacheWrite": 167_978, "totalTokens": 168_018, "cost": { "total": 1.0 } } } });
    home.write(file, &format!("{text}{answer}\n"));
    let output = home.command(&["sessions", "--json"], &[]).output().unwrap();
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&rows[0]["window"], &rows[0]["measured"]), (&168_018.into(), &true.into()));
}

/// A transcript of Claude Code with some turns, the second prompt being a secret.
fn long_transcript(home: &Home, turns: usize) -> String {
    let mut text = String::new();
    for turn in 0..turns {
        let words = if turn == 0 {
            "Why is it slow?".to_owned()
        } else {
            format!("hunter2 {turn} {}", "x".repeat(400))
        };
        let parent = turn.checked_sub(1).map(|last| format!("u{last}"));
        let said = json!({ "type": "user", "uuid": format!("u{turn}"), "parentUuid": parent, "sessionId": "5d0c31aa-1111",
            "cwd": home.project, "timestamp": "2026-05-02T09:18:37.730Z", "message": { "role": "user", "content": words } });
        text.push_str(&format!("{said}\n"));
    }
    text
}

const TRANSCRIPT: &str = ".claude/projects/-project/5d0c31aa-1111.jsonl";

/// Replaces the middle of a file, which no list looks at, and keeps its size and time.
fn blank_the_middle(path: &std::path::Path) {
    let modified = path.metadata().unwrap().modified().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    let (from, to) = (bytes.len() / 4, bytes.len() - 8_000);
    bytes[from..to].fill(b' ');
    std::fs::write(path, bytes).unwrap();
    std::fs::File::options().append(true).open(path).unwrap().set_modified(modified).unwrap();
}

#[test]
fn a_transcript_that_did_not_change_is_not_read_again() {
    let home = Home::new();
    home.write_aged(TRANSCRIPT, &long_transcript(&home, 60), 2);
    let path = home.path.join(TRANSCRIPT);
    let first = home.json(&["sessions", "--json"]);
    assert_eq!(first[0]["messages"], 60);
    let other_policy = home.json(&["sessions", "--json", "--policy", "opencode"]);
    assert_eq!(home.json(&["sessions", "--json"]), first);

    // Reading it again would show fewer messages.
    blank_the_middle(&path);
    assert_eq!(home.json(&["sessions", "--json"]), first);
    assert_ne!(home.json(&["sessions", "--json", "--policy", "opencode"]), other_policy);

    // Neither are messages stored, nor may others read what is.
    let entries: Vec<_> = home
        .files()
        .into_iter()
        .filter(|path| path.starts_with(home.path.join(".cache")) && path.is_file())
        .collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let entry = std::fs::read_to_string(&entries[0]).unwrap();
    assert!(entry.contains("Why is it slow?") && !entry.contains("hunter2"), "{entry}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&entries[0]), mode(entries[0].parent().unwrap())), (0o600, 0o700));
    }
}

#[test]
fn a_transcript_that_changed_is_read_again() {
    let home = Home::new();
    let messages = |home: &Home| home.json(&["sessions", "--json"])[0]["messages"].clone();
    home.write_aged(TRANSCRIPT, &long_transcript(&home, 3), 2);
    assert_eq!(messages(&home), 3);
    home.write_aged(TRANSCRIPT, &long_transcript(&home, 5), 2);
    assert_eq!(messages(&home), 5);
    // As long as before, and of the same time.
    let path = home.path.join(TRANSCRIPT);
    let modified = path.metadata().unwrap().modified().unwrap();
    let text = long_transcript(&home, 5).replace("\"uuid\":\"u4\"", "\"uuid\":\"u3\"");
    std::fs::write(&path, text).unwrap();
    std::fs::File::options().append(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_ne!(messages(&home), 5);
}

#[test]
fn a_damaged_or_unwritable_cache_changes_nothing() {
    let home = Home::new();
    home.write_aged(TRANSCRIPT, &long_transcript(&home, 60), 2);
    let first = home.json(&["sessions", "--json"]);
    let entry =
        home.files().into_iter().find(|path| path.starts_with(home.path.join(".cache")) && path.is_file());
    let entry = entry.unwrap();
    let whole = std::fs::read(&entry).unwrap();
    for damaged in [&b""[..], &whole[..whole.len() / 2], b"{}", b"[[[["] {
        std::fs::write(&entry, damaged).unwrap();
        assert_eq!(home.json(&["sessions", "--json"]), first);
        assert_eq!(std::fs::read(&entry).unwrap(), whole);
    }
    let file = home.write("a-file", "no directory");
    let output = home
        .command(&["sessions", "--json"], &[("XDG_CACHE_HOME", file.to_str().unwrap())])
        .output()
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), first);
}
