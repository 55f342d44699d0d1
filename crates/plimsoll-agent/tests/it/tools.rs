//! The built-in tools, called by a model.

use plimsoll_agent::{Conversation, Event};
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::{Dock, lines, run};

/// Lets the model call a tool, and returns the result.
async fn call(dock: &Dock, conversation: &mut Conversation, tool: &str, input: Value) -> String {
    let id = format!("call_{}", dock.server.requests().len());
    dock.server.push_all([Reply::new().call(&id, tool, input), Reply::new().text("Thanks.")]);
    run(conversation, "Do it").await;
    dock.server.last().unwrap().result(&id).unwrap().to_owned()
}

#[tokio::test]
async fn read_returns_numbered_lines_and_how_to_continue() {
    let dock = Dock::new(ModelServer::start().unwrap());
    dock.write("a.txt", "one\ntwo\nthree\nfour");
    dock.write("empty.txt", "");
    std::fs::write(dock.directory.path().join("project/data.bin"), [0, 159, 146, 150]).unwrap();
    std::fs::write(dock.directory.path().join("project/wide.txt"), b"\xff\xfeh\0i\0").unwrap();
    let talk = &mut dock.begin().await;
    let all = call(&dock, talk, "read", json!({ "path": "a.txt" })).await;
    assert_eq!(all.trim_end(), "1\tone\n2\ttwo\n3\tthree\n4\tfour");
    let some = call(&dock, talk, "read", json!({ "path": "a.txt", "offset": "2", "limit": 2 })).await;
    assert_eq!(some.trim_end(), "2\ttwo\n3\tthree\n[There are more lines: continue with offset 4.]");
    let beyond = call(&dock, talk, "read", json!({ "path": "a.txt", "offset": 9 })).await;
    assert!(beyond.contains("has only 4 lines"));
    assert!(call(&dock, talk, "read", json!({ "path": "empty.txt" })).await.contains("is empty"));
    assert!(call(&dock, talk, "read", json!({ "path": "data.bin" })).await.contains("is a binary file"));
    assert!(call(&dock, talk, "read", json!({ "path": "wide.txt" })).await.contains("iconv -f UTF-16"));
    assert!(call(&dock, talk, "read", json!({ "path": "." })).await.contains("use `list`"));
    let missing = call(&dock, talk, "read", json!({ "path": "a.tx" })).await;
    assert!(missing.contains("`a.tx` does not exist") && missing.contains("a.txt"), "{missing}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_out_of_the_project_is_recognised() {
    let dock = Dock::new(ModelServer::start().unwrap());
    let secret = dock.directory.path().join("secret.txt");
    std::fs::write(&secret, "hidden").unwrap();
    std::os::unix::fs::symlink(&secret, dock.directory.path().join("project/link.txt")).unwrap();
    std::os::unix::fs::symlink(dock.directory.path(), dock.directory.path().join("project/up")).unwrap();
    let talk = &mut dock.begin().await;
    for path in
        ["link.txt", "up/secret.txt", "../secret.txt", "up/nothing/../secret.txt", secret.to_str().unwrap()]
    {
        let answer = call(&dock, talk, "read", json!({ "path": path })).await;
        assert!(answer.starts_with("Denied:"), "{path}: {answer}");
    }
    for tool in ["list", "grep"] {
        let answer = call(&dock, talk, tool, json!({ "path": "up", "pattern": "hidden" })).await;
        assert!(answer.starts_with("Denied:"), "{tool}: {answer}");
    }
    let found = call(&dock, talk, "grep", json!({ "pattern": "hidden" })).await;
    assert_eq!(found.trim(), "[No matches.]", "links are not followed");
}

#[tokio::test]
async fn list_and_grep_skip_files_that_git_ignores() {
    let dock = Dock::new(ModelServer::start().unwrap());
    std::fs::create_dir_all(dock.directory.path().join("project/src/deep")).unwrap();
    dock.write(".gitignore", "target\n");
    dock.write("src/main.rs", "fn main() {\n    let Answer = 42;\n}\n");
    dock.write("src/deep/other.txt", "answer\n");
    dock.write("target", "answer\n");
    let talk = &mut dock.begin().await;
    assert_eq!(call(&dock, talk, "list", json!({})).await.trim(), "src/");
    let deep = call(&dock, talk, "list", json!({ "path": "src", "depth": 3 })).await;
    assert_eq!(deep.trim(), "deep/\ndeep/other.txt\nmain.rs");
    let found = call(&dock, talk, "grep", json!({ "pattern": "(?i)ANSWER" })).await;
    assert_eq!(found.trim(), "src/deep/other.txt:1:answer\nsrc/main.rs:2:    let Answer = 42;");
    let some =
        call(&dock, talk, "grep", json!({ "pattern": "answer", "ignore_case": true, "include": "*.rs" }))
            .await;
    assert_eq!(some.trim(), "src/main.rs:2:    let Answer = 42;");
    assert!(call(&dock, talk, "grep", json!({ "pattern": "(" })).await.contains("not a regular expression"));
    assert!(call(&dock, talk, "grep", json!({ "pattern": "zebra" })).await.contains("No matches"));
}

#[tokio::test]
async fn bash_returns_output_in_order_with_the_exit_code() {
    let dock = Dock::new(ModelServer::start().unwrap()).allow("bash");
    let talk = &mut dock.begin().await;
    let answer =
        call(&dock, talk, "bash", json!({ "command": "echo out; echo err >&2; echo more; exit 3" })).await;
    assert_eq!(answer.trim_end(), "out\nerr\nmore\n[exit code 3]");
    assert_eq!(call(&dock, talk, "bash", json!({ "command": "true" })).await, "[no output]");
    let input = json!({ "command": "echo begun; sleep 60; echo never", "timeout": 1 });
    let slow = call(&dock, talk, "bash", input).await;
    assert!(slow.starts_with("begun\n[timed out after 1 s]"), "{slow}");
    let left =
        call(&dock, talk, "bash", json!({ "command": "sleep 300 & echo $! ; printf no-newline" })).await;
    let pid = left.lines().next().unwrap().trim();
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "what it left in the background has ended");
    let killed = call(&dock, talk, "bash", json!({ "command": "kill -9 $$" })).await;
    assert!(killed.contains("ended by signal 9"), "{killed}");
    let keys =
        call(&dock, talk, "bash", json!({ "command": "env | grep -c '^OPENAI_API_KEY=' ; true" })).await;
    assert_eq!(keys.trim(), "0");
}

#[tokio::test]
async fn an_output_of_any_size_is_cut_as_it_streams_and_recalled_by_its_handle() {
    let dock = Dock::new(ModelServer::start().unwrap()).allow("bash");
    let talk = &mut dock.begin().await;
    let command = "for i in $(seq 1 60000); do echo \"line $i of a long output\"; done";
    let shown = call(&dock, talk, "bash", json!({ "command": command })).await;
    assert!(shown.len() < 60_000, "{}", shown.len());
    let at = shown.find("spill_").expect("it names where the whole is");
    let handle: String = shown[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let back = call(&dock, talk, "recall", json!({ "handle": handle, "from": 59_999, "to": 60_000 })).await;
    assert!(back.contains("line 59999 of a long output") && back.contains("line 60000"), "{back}");
    let found = call(&dock, talk, "recall", json!({ "handle": handle, "search": "line 31415 " })).await;
    assert!(found.contains("31415"), "{found}");
    let cut = dock.events.lock().unwrap().iter().any(|event| matches!(event, Event::Reduced(_)));
    assert!(cut);
}

/// Under `openfork` the notice names a file to read. No rule is needed, because the session already has the content.
#[tokio::test]
async fn r136_openfork_a_cut_output_is_read_back_from_the_file_that_the_notice_names() {
    let mut dock = Dock::new(ModelServer::start().unwrap()).allow("bash");
    dock.agent.policy = std::sync::Arc::new(plimsoll::Preset::Openfork.policy());
    let talk = &mut dock.begin().await;
    let command = "for i in $(seq 1 9000); do echo \"line $i of a long output\"; done";
    let shown = call(&dock, talk, "bash", json!({ "command": command })).await;
    let path = shown.lines().find_map(|line| line.strip_prefix("[Full output saved to: ")).expect("a path");
    let path = path.strip_suffix(']').unwrap();
    assert!(shown.contains("[Use 'read' tool with the path above to see full content]"), "{shown}");
    let input = json!({ "path": path, "offset": 8_999, "limit": 2 });
    let back = call(&dock, talk, "read", input.clone()).await;
    assert!(back.contains("line 8999 of a long output") && back.contains("line 9000"), "{back}");
    // For another session it is a file outside the project like any other.
    let other = &mut dock.begin().await;
    let denied = call(&dock, other, "read", input).await;
    assert!(denied.contains("Denied: reading outside the project"), "{denied}");
}

#[tokio::test]
async fn calls_that_look_run_side_by_side_and_those_that_act_one_after_the_other() {
    let dock = Dock::new(ModelServer::start().unwrap()).allow("bash");
    dock.write("a.txt", &lines(3));
    let step = |n: u64| json!({ "command": format!("test -e step-{} || [ {n} = 0 ] && sleep 0.05 && touch step-{n}", n.saturating_sub(1)) });
    dock.server.push_all([
        Reply::new()
            .call("a", "bash", step(0))
            .call("b", "read", json!({ "path": "a.txt" }))
            .call("c", "bash", step(1))
            .call("d", "bash", step(2)),
        Reply::new().text("Done."),
    ]);
    let mut talk = dock.begin().await;
    run(&mut talk, "Go").await;
    assert!(dock.directory.path().join("project/step-2").exists());
    let order: Vec<String> = dock
        .events
        .lock()
        .unwrap()
        .iter()
        .filter_map(|event| match event {
            Event::CallEnded { tool, .. } => Some(tool.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["bash", "read", "bash", "bash"]);
}

#[tokio::test]
async fn unreadable_files_are_neither_searched_nor_listed() {
    let mut dock = Dock::new(ModelServer::start().unwrap());
    std::fs::create_dir_all(dock.directory.path().join("project/secrets")).unwrap();
    dock.write("secrets/prod.txt", "password: hunter2\n");
    dock.write("prod.env", "password: hunter2\n");
    dock.write("open.txt", "password: none\n");
    let mut deny = |rule: &str| {
        let mut rule = plimsoll_agent::parse_allow(rule, None).unwrap();
        rule.action = plimsoll_config::Action::Deny;
        dock.agent.profile.permissions.rules.push(rule);
    };
    deny("read:*.env");
    deny("grep:secrets/*");
    deny("list:secrets/*");
    let talk = &mut dock.begin().await;
    let found = call(&dock, talk, "grep", json!({ "pattern": "password" })).await;
    assert_eq!(found.trim(), "open.txt:1:password: none");
    assert!(
        call(&dock, talk, "grep", json!({ "pattern": "password", "path": "prod.env" }))
            .await
            .starts_with("Denied:")
    );
    let read = call(&dock, talk, "read", json!({ "path": "prod.env" })).await;
    assert!(read.starts_with("Denied: reading this is not allowed"), "{read}");
    let listed = call(&dock, talk, "list", json!({ "depth": 3 })).await;
    assert_eq!(listed.trim(), "open.txt", "what `read` denies is not named either");
}

#[tokio::test]
async fn the_output_of_a_stopped_command_is_stored() {
    let dock = Dock::new(ModelServer::start().unwrap()).allow("bash");
    let talk = &mut dock.begin().await;
    for (count, is_cut) in [(3, false), (60_000, true)] {
        let id = format!("call_{count}");
        let command = format!("seq 1 {count}; echo ready > ready; sleep 600");
        dock.server.push(Reply::new().call(&id, "bash", json!({ "command": command })));
        let cancel = tokio_util::sync::CancellationToken::new();
        let (ready, stop) = (dock.directory.path().join("project/ready"), cancel.clone());
        let watch = tokio::spawn(async move {
            while !ready.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            std::fs::remove_file(&ready).unwrap();
            stop.cancel();
        });
        let report = talk.run("Do it", &cancel).await.unwrap();
        watch.await.unwrap();
        assert_eq!(report.end, plimsoll_agent::RunEnd::Cancelled);
        assert_eq!(report.reductions.len(), usize::from(is_cut), "a truncation is reported with its receipt");
        dock.server.push(Reply::new().text("I see."));
        run(talk, "What came of it?").await;
        let last = dock.server.last().unwrap();
        let shown = last.result(&id).unwrap();
        assert!(shown.starts_with("1\n2\n3\n") && shown.contains("[Interrupted:"), "{shown}");
        assert_eq!(shown.contains("spill_"), is_cut);
    }
}

#[tokio::test]
async fn grep_searches_hidden_files_but_not_the_git_directory() {
    let dock = Dock::new(ModelServer::start().unwrap());
    for (directory, file) in [(".github", ".github/ci.yml"), (".git", ".git/config")] {
        std::fs::create_dir_all(dock.directory.path().join("project").join(directory)).unwrap();
        dock.write(file, "needle\n");
    }
    let talk = &mut dock.begin().await;
    let found = call(&dock, talk, "grep", json!({ "pattern": "needle" })).await;
    assert_eq!(found.trim(), ".github/ci.yml:1:needle");
}
