//! `compact --from MESSAGE --to MESSAGE`: a summary in the middle of a window.

use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::Value;

use crate::support::{Home, export};

/// The outputs 2 to 5 of the sample.
const FROM: &str = "msg_fixed0000004";
const TO: &str = "msg_fixed0000007";

/// A home with a session of eight long outputs in its database, and that session's id.
fn stored() -> (Home, String) {
    let home = Home::new();
    let session = export(&home.project);
    home.write("project/s.json", &session.to_string());
    assert!(home.run(&["sessions", "import", "s.json"]).starts_with("exit: 0"));
    (home, session["info"]["id"].as_str().unwrap().to_owned())
}

fn window(home: &Home, id: &str) -> Vec<Value> {
    let body = home.json(&["window", "--as", "openai-chat", "--session", id]);
    body["messages"].as_array().unwrap().clone()
}

/// Asserts that the range is replaced by a summary with this text, and everything else is unchanged.
fn check(before: &[Value], after: &[Value], words: &str) {
    // Each of the four calls had a message for its result.
    let (head, rest) = before.split_at(5);
    let tail = &rest[8..];
    assert_eq!(&after[..head.len()], head);
    assert_eq!(&after[after.len() - tail.len()..], tail);
    let middle = &after[head.len()..after.len() - tail.len()];
    assert_eq!(middle.len(), 1, "{middle:?}");
    assert!(middle[0].to_string().contains(words), "{middle:?}");
}

fn receipt(printed: &str) -> Value {
    assert!(printed.starts_with("exit: 0"), "{printed}");
    let json = printed.lines().find(|line| line.starts_with('{')).unwrap();
    serde_json::from_str::<Value>(json).unwrap()["receipts"][0].clone()
}

#[test]
fn a_range_is_compacted_without_a_model_recalled_and_undone() {
    let (home, id) = stored();
    let before = window(&home, &id);
    let weighed = home.json(&["inspect", "-s", &id, "--json"]);
    let printed =
        home.run(&["compact", "--from", FROM, "--to", TO, "--offline", "--apply", "-s", &id, "--json"]);
    let receipt = receipt(&printed);
    assert_eq!((&receipt["plan"]["kind"], &receipt["plan"]["messages"]), (&"range".into(), &4.into()));
    let after = window(&home, &id);
    check(&before, &after, "[Summary of 4 messages]");
    let inspected = home.json(&["inspect", "-s", &id, "--json"]);
    let (now, then) = (inspected["window"].as_u64().unwrap(), weighed["window"].as_u64().unwrap());
    assert!(now < then * 2 / 3, "{now} of {then}");
    assert!(
        inspected["byKind"].as_array().unwrap().iter().any(|row| row["name"] == "summaries"),
        "{inspected}"
    );
    // The replaced content can be searched and recalled.
    let name = receipt["id"].as_str().unwrap();
    assert!(home.run(&["receipts", name]).contains("compact 4 messages"));
    let found = home.run(&["recall", "-s", &id, "-F", "-g", "output 3"]);
    assert!(found.starts_with("exit: 0") && found.contains("output 3"), "{found}");
    let handle = receipt["handles"][0]["messages"].as_array().unwrap();
    let run = format!("{}..{}", handle[0].as_str().unwrap(), handle[1].as_str().unwrap());
    let whole = home.run(&["recall", &run]);
    assert!(whole.starts_with("exit: 0") && whole.contains("output 3"), "{}", &whole[..whole.len().min(300)]);
    let part = home.run(&["recall", "prt_fixed000000500CDEFGHIJKLMN"]);
    assert!(part.starts_with("exit: 0") && part.contains("output 3"), "{}", &part[..part.len().min(300)]);
    // A compaction of all of it has the summary in its request.
    let asked = home.run(&[
        "compact",
        "-s",
        &id,
        "--command",
        "cat > request.txt; echo '## Goal'; echo 'All of it.'",
    ]);
    assert!(asked.starts_with("exit: 0"), "{asked}");
    let request = std::fs::read_to_string(home.project.join("request.txt")).unwrap();
    assert!(request.contains("[Summary of 4 messages]") && !request.contains("output 3"), "{request}");
    let undone = home.run(&["undo", name]);
    assert!(undone.starts_with("exit: 0"), "{undone}");
    assert_eq!(window(&home, &id), before);
    assert!(!home.run(&["undo", name]).starts_with("exit: 0"), "it is undone once");
}

#[test]
fn a_model_or_command_summarises_only_the_range_and_the_summary_can_be_edited() {
    let ((home, id), server) = (stored(), ModelServer::start().unwrap());
    let before = window(&home, &id);
    let range = ["compact", "--from", FROM, "--to", TO, "--apply", "-s", &id, "--json"];
    server.push(Reply::new().text("## Goal\nFour files were read."));
    let variables =
        [("ANTHROPIC_API_KEY", "sk-ant-test-0123456789abcdefghij"), ("ANTHROPIC_BASE_URL", &server.url())];
    let printed =
        home.run_with(&[&range[..], &["--model", "anthropic/claude-haiku-4-5"]].concat(), &variables);
    let done = receipt(&printed);
    assert_eq!(done["plan"]["made"], "byModel");
    let asked = server.requests()[0].body["messages"].to_string();
    assert!(asked.contains("output 2") && asked.contains("output 5"), "the range is asked about");
    assert!(
        !asked.contains("output 1\\n") && !asked.contains("output 6") && !asked.contains("Next 0"),
        "{asked}"
    );
    check(&before, &window(&home, &id), "Four files were read.");
    assert!(home.run(&["undo", done["id"].as_str().unwrap()]).starts_with("exit: 0"));
    // Edited, by a command's words and by those that are extracted.
    let editor = [("EDITOR", "sed -i '1s/.*/In my words./'"), ("PATH", "/usr/bin:/bin")];
    for summariser in [&["--command", "echo first words"][..], &["--offline"]] {
        let printed = home.run_with(&[&range[..], summariser, &["--edit"]].concat(), &editor);
        let done = receipt(&printed);
        check(&before, &window(&home, &id), "In my words.");
        assert!(home.run(&["undo", done["id"].as_str().unwrap()]).starts_with("exit: 0"));
    }
    assert_eq!(window(&home, &id), before);
    // A summary that fails, or is not shorter, changes nothing.
    for (command, printed) in
        [("exit 7", "exit status: 7"), ("true", "empty"), ("yes word | head -c 900000", "not smaller")]
    {
        let failed = home.run_with(&[&range[..], &["--command", command]].concat(), &editor);
        assert!(failed.starts_with("exit: 3") && failed.contains(printed), "{command}: {failed}");
    }
    assert_eq!(window(&home, &id), before);
}

#[test]
fn a_range_is_previewed_and_an_invalid_one_is_rejected() {
    let (home, id) = stored();
    let before = window(&home, &id);
    let plan = home.run(&["compact", "--from", FROM, "--to", TO, "--dry-run", "s.json"]);
    assert!(plan.starts_with("exit: 0") && plan.contains("compact 4 messages"), "{plan}");
    let json = home.json(&["compact", "--from", FROM, "--to", TO, "--plan", "--json", "s.json"]);
    assert_eq!(json["first"], "msg_fixed0000004ABCDEFGHIJKLMN");
    let summary = home.json(&["compact", "--from", FROM, "--to", TO, "--offline", "--json", "s.json"]);
    assert!(!summary["summary"].as_str().unwrap().is_empty());
    for (from, to, printed) in [
        (TO, FROM, "comes before"),
        ("msg_none", TO, "no message in the window"),
        ("msg_", TO, "more than one message"),
        (FROM, "msg_fixed0000025", "has no answer yet"),
    ] {
        let refused = home.run(&["compact", "--from", from, "--to", to, "--offline", "--apply", "-s", &id]);
        assert!(refused.starts_with("exit: 2") && refused.contains(printed), "{refused}");
    }
    let alone = home.run(&["compact", "--from", FROM, "-s", &id]);
    assert!(alone.starts_with("exit: 2") && alone.contains("--to"), "{alone}");
    assert_eq!(window(&home, &id), before);
}

#[test]
fn a_session_with_a_compacted_range_continues_in_other_tools() {
    let (home, id) = stored();
    let printed = home.run(&["compact", "--from", FROM, "--to", TO, "--offline", "--apply", "-s", &id]);
    assert!(printed.starts_with("exit: 0"), "{printed}");
    let tools = ["claude-code", "codex", "opencode"];
    let files = tools.map(|tool| {
        let done = home.json(&["--json", "sessions", "handover", &id, "--to", tool]);
        done["file"].as_str().or(done["path"].as_str()).unwrap_or_else(|| panic!("{done}")).to_owned()
    });
    assert!(home.run(&["sessions", "export", &id, "-o", "out.json"]).starts_with("exit: 0"));
    for file in files.iter().map(String::as_str).chain(["out.json"]) {
        let body = home.json(&["window", "--as", "openai-chat", file]).to_string();
        assert!(body.contains("[Summary of 4 messages]"), "{file}");
        assert!(
            body.contains("output 1\\n") && body.contains("output 6\\n") && body.contains("Next 2"),
            "{file}"
        );
        assert!(!body.contains("output 3\\n"), "{file}: the replaced messages are not in the request");
        // The tools know nothing of our marks: what is in the file they send.
        let written = std::fs::read_to_string(home.project.join(file)).unwrap();
        assert!(written.contains("[Summary of 4 messages]") && written.contains("output 6\\n"), "{file}");
        assert!(!written.contains("output 3\\n"), "{file}: the replaced messages are in the file");
        // OpenCode does not overwrite an id that it has. The id occurs only as the origin of the session.
        let origin = serde_json::json!({ "plimsoll": { "handed_over_from": id } }).to_string();
        let origin = origin.trim_start_matches('{').strip_suffix('}').unwrap();
        let is_marked = file.ends_with(".jsonl");
        assert_eq!(written.contains(origin), is_marked, "{file}");
        assert!(!written.replace(origin, "").contains(&id), "{file}: the session has a new id");
    }
}

#[test]
fn a_summary_without_a_model_is_edited_before_it_is_applied() {
    let (home, id) = stored();
    let before = window(&home, &id);
    let run = |editor: &str, more: &[&str]| {
        let args = [&["compact", "--offline", "--edit"], more].concat();
        home.run_with(&args, &[("EDITOR", editor), ("PATH", "/usr/bin:/bin")])
    };
    let apply = ["--apply", "-s", &id, "--json"];
    let emptied = run("truncate -s 0", &apply);
    assert!(emptied.starts_with("exit: 1") && emptied.contains("the summary is empty"), "{emptied}");
    assert_eq!(window(&home, &id), before);
    let done = receipt(&run("sed -i '1s/.*/In my words./'", &apply));
    assert_eq!(done["plan"]["made"], "withoutModel");
    let shown = serde_json::to_string(&window(&home, &id)).unwrap();
    assert!(shown.contains("In my words."), "{}", &shown[..shown.len().min(1_500)]);
    assert!(home.run(&["undo", done["id"].as_str().unwrap()]).starts_with("exit: 0"));
    assert_eq!(window(&home, &id), before);
    let printed = run("sed -i '1s/.*/In my words./'", &["s.json"]);
    assert!(printed.starts_with("exit: 0") && printed.contains("In my words."), "{printed}");
}

/// Figures of the window of a stored session by command, which must agree.
fn figure(home: &Home, id: &str) -> u64 {
    let inspected = home.json(&["inspect", "-s", id, "--json"])["window"].as_u64().unwrap();
    let watched = home.json(&["watch", "--once", "--json", "-s", id])["tokens"].as_u64().unwrap();
    let shown = home.json(&["window", "-s", id, "--json"])["tokens"].as_u64().unwrap();
    let rows = home.json(&["sessions", "--json", "--tool", "plimsoll"]);
    let listed = rows.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
    assert_eq!([watched, shown, listed["window"].as_u64().unwrap()], [inspected; 3]);
    inspected
}

/// A session whose provider counted fewer or more tokens than its content has.
fn counted(last: u64) -> (Home, String) {
    let home = Home::new();
    let mut session = export(&home.project);
    let answers = session["messages"].as_array_mut().unwrap().iter_mut();
    for (number, answer) in answers.filter(|message| message["info"]["role"] == "assistant").enumerate() {
        let input = if number < 8 { 20_000 + 14_000 * number as u64 } else { last };
        answer["info"]["tokens"]["input"] = input.into();
    }
    home.write("project/s.json", &session.to_string());
    assert!(home.run(&["sessions", "import", "s.json"]).starts_with("exit: 0"));
    (home, session["info"]["id"].as_str().unwrap().to_owned())
}

#[test]
fn after_a_reduction_every_command_shows_the_smaller_window() {
    for last in [70_000, 131_000, 250_000] {
        let (home, id) = counted(last);
        let before = figure(&home, &id);
        assert!(before.abs_diff(last) < 3_000, "{before}");
        let one = ["compact", "--from", FROM, "--to", FROM, "--offline", "--apply", "-s", &id, "--json"];
        let first = receipt(&home.run(&one));
        let after = figure(&home, &id);
        // One of eight outputs, on the scale of what the provider counted.
        let most = last / 4;
        assert!(after < before && before - after < most, "{last}: {before}, then {after}");
        let number = |receipt: &Value, key: &str| receipt[key].as_u64().unwrap();
        assert!(number(&first, "before").abs_diff(before) < 3_000, "{last}: {first}");
        // The next command continues from there, not from an estimate without usage.
        let pruned = receipt(&home.run(&["prune", "--keep", "2", "--apply", "-s", &id, "--json"]));
        let (then, now) = (number(&first, "after"), number(&pruned, "before"));
        assert!(then.abs_diff(now) <= 2, "{last}: {then}, then {now}");
        assert!(figure(&home, &id) < after);
        for undone in [&pruned, &first] {
            assert!(home.run(&["undo", undone["id"].as_str().unwrap()]).starts_with("exit: 0"));
        }
        assert_eq!(figure(&home, &id), before, "{last}");
        let compacted = home.run(&["compact", "--offline", "--apply", "-s", &id]);
        assert!(compacted.starts_with("exit: 0"), "{compacted}");
        assert!(figure(&home, &id) < before / 2, "{last}");
    }
}
