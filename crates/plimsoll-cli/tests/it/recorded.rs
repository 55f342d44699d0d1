//! Recorded facts of a session: the size of its window, which messages were calls, and their cost.

use serde_json::{Value, json};

use crate::figures::{ClaudeSession, claude};
use crate::support::{Home, chat};

/// Output of a command on one line.
fn printed(home: &Home, args: &[&str]) -> String {
    home.run(args).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// A session of a model that no table knows.
fn unknown_model(made: &ClaudeSession) -> String {
    claude(made).replace("claude-sonnet-4-6", "nobody-1")
}

#[test]
fn a_window_guessed_from_a_recording_has_room_for_it() {
    for (hidden, context) in [(250_000, 400_000), (180_000, 256_000)] {
        let home =
            Home::new().with("project/s.jsonl", &unknown_model(&ClaudeSession { responses: 20, hidden }));
        let replay = home.json(&["replay", "--json", "--policy", "none", "s.jsonl"]);
        let session = &replay["sessions"][0];
        assert_eq!(
            (&replay["total"][0]["deaths"], &session["context"]),
            (&json!(0), &json!(context)),
            "{hidden}"
        );
        let inspected = home.json(&["inspect", "s.jsonl", "--json"]);
        assert_eq!(
            (&inspected["context"], &inspected["contextSource"]),
            (&json!(context), &json!("largestRequest")),
        );
        let printed = printed(&home, &["inspect", "s.jsonl"]);
        assert!(printed.contains("% of a guessed line at "), "{printed}");
        assert!(printed.contains("(guessed: at least its largest request)"), "{printed}");
    }
}

#[test]
fn a_session_without_usage_fits_the_window_it_is_replayed_in() {
    let home = Home::new().with("project/a.json", &chat(24));
    let replay = home.json(&["replay", "--json", "--policy", "none", "a.json"]);
    assert_eq!(
        (&replay["total"][0]["deaths"], &replay["sessions"][0]["context"]),
        (&json!(0), &json!(256_000))
    );
    let printed = printed(&home, &["replay", "--policy", "none", "a.json"]);
    assert!(
        printed.contains("in a window of 256,000 tokens (guessed: at least its largest request)"),
        "{printed}"
    );
    // A window that `--context` names is not replaced by a guess.
    let named = home.json(&["replay", "--json", "--policy", "none", "--context", "200000", "a.json"]);
    assert!(named["total"][0]["deaths"].as_u64().unwrap() > 0, "{}", named["total"]);
}

#[test]
fn a_window_that_is_not_configured_is_the_default() {
    let home = Home::new().with("project/a.json", &chat(2));
    let source = |variables: &[(&str, &str)]| {
        let output = home.command(&["inspect", "a.json", "--json"], variables).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        (found["context"].as_u64().unwrap(), found["contextSource"].as_str().unwrap().to_owned())
    };
    assert_eq!(source(&[]), (200_000, "default".to_owned()));
    assert_eq!(source(&[("PLIMSOLL_CONTEXT", "200000")]), (200_000, "configured".to_owned()));
    let printed = printed(&home, &["inspect", "a.json"]);
    assert!(printed.contains("window of 200,000 (the default)"), "{printed}");
}

#[test]
fn a_placeholder_of_the_host_is_not_a_call() {
    let made = claude(&ClaudeSession { responses: 3, hidden: 16_000 });
    let last = made.lines().count() - 1;
    let placeholder = json!({ "type": "assistant", "uuid": "p1", "parentUuid": format!("r{last}"),
        "sessionId": "5d0c31aa-1111-4222-8333-444455556666", "timestamp": "2026-05-01T18:00:00.000Z",
        "isApiErrorMessage": false, "message": { "id": "made-up", "model": "<synthetic>", "role": "assistant",
            "content": [{ "type": "text", "text": "No response requested." }], "stop_reason": "stop_sequence",
            "usage": { "input_tokens": 0, "output_tokens": 0 } } });
    let home = Home::new()
        .with("project/s.jsonl", &made)
        .with("project/placeholder.jsonl", &(made.clone() + &lines(&[placeholder])));
    let figures = |file: &str| {
        let replay = home.json(&["replay", "--json", "--policy", "none", file]);
        (replay["total"][0]["calls"].clone(), replay["total"][0]["cost"].clone())
    };
    assert_eq!(figures("placeholder.jsonl"), figures("s.jsonl"));
    let inspected = home.json(&["inspect", "placeholder.jsonl", "--json"]);
    assert_eq!(inspected["recorded"]["responses"], 4);
    assert!(home.run(&["window", "placeholder.jsonl"]).contains("No response requested."));
}

/// A session of OpenCode that records what each of its responses cost.
fn opencode(model: &str, cost: f64) -> String {
    let mut messages = Vec::new();
    for turn in 0..6u64 {
        let (asked, answered) = (format!("msg_{turn}a"), format!("msg_{turn}b"));
        let time = json!({ "created": 1_779_097_539_728u64 + turn * 60_000, "completed": 1_779_097_539_928u64 + turn * 60_000 });
        messages.push(json!({ "info": { "id": asked, "role": "user", "sessionID": "ses_1", "time": time },
            "parts": [{ "id": format!("prt_{turn}a"), "type": "text", "text": "ask ".repeat(1_000) }] }));
        messages.push(json!({ "info": { "id": answered, "role": "assistant", "sessionID": "ses_1", "modelID": model,
                "providerID": "opencode", "time": time, "finish": "stop", "cost": cost,
                "tokens": { "input": 1_000, "output": 50, "reasoning": 0, "cache": { "read": turn * 1_050, "write": 0 } } },
            "parts": [{ "id": format!("prt_{turn}b"), "type": "text", "text": "tell ".repeat(40) }] }));
    }
    json!({ "info": { "id": "ses_1", "directory": "/srv/app", "title": "Asking", "version": "1.14.46" },
        "messages": messages })
    .to_string()
}

#[test]
fn a_free_model_costs_nothing_and_nothing_saves_money() {
    let home = Home::new().with("project/s.json", &opencode("deepseek-v4-flash-free", 0.0));
    let replay = home.json(&["replay", "--json", "s.json"]);
    let session = &replay["sessions"][0];
    assert_eq!((&session["price"], &session["prices"]["output"]), (&json!("free"), &json!(0.0)));
    for policy in replay["total"].as_array().unwrap() {
        assert_eq!(policy["cost"], 0.0, "{}", policy["policy"]);
    }
    let page = printed(&home, &["replay", "--html", "page.html", "s.json"]);
    assert!(page.contains("priced at zero: every response was recorded with a cost of $0"), "{page}");
    assert!(page.contains("Every price here is zero, so no policy saves money."), "{page}");
    assert!(!page.contains("than no policy") && !page.contains("the same as no policy"), "{page}");
    let html = std::fs::read_to_string(home.project.join("page.html")).unwrap();
    assert!(!html.contains("<tr class=\"used\">"), "no row of the prices was taken");
    // A price that `--price-as` names counts more than that the session was free.
    let priced = home.json(&["replay", "--json", "--price-as", "default", "--policy", "none", "s.json"]);
    assert!(priced["total"][0]["cost"].as_f64().unwrap() > 0.0);
    // A subscription is recorded with a cost of 0 too, for a model that has a price.
    home.write("project/s.json", &opencode("claude-sonnet-4-6", 0.0));
    let priced = home.json(&["replay", "--json", "--policy", "none", "s.json"]);
    assert_eq!(priced["sessions"][0]["price"], "claude-sonnet-4-6");
}

#[test]
fn notifications_about_tasks_are_the_hosts() {
    let said = |uuid: &str, parent: Value, text: &str| {
        json!({ "type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "s",
            "message": { "role": "user", "content": text } })
    };
    let mut notified =
        said("3", json!("2"), "<task-notification>\n<task-id>b1</task-id>\n</task-notification>");
    notified["origin"] = json!({ "kind": "task-notification" });
    let answer = json!({ "type": "assistant", "uuid": "2", "parentUuid": "1", "sessionId": "s",
        "message": { "id": "r1", "role": "assistant", "content": [{ "type": "text", "text": "It runs." }] } });
    let mut typed = said("4", json!("3"), "And now?");
    typed["origin"] = json!({ "kind": "human" });
    let home = Home::new()
        .with("project/s.jsonl", &lines(&[said("1", Value::Null, "Start it"), answer, notified, typed]));
    let found = home.json(&["inspect", "s.jsonl", "--json"]);
    let count = |name: &str| {
        let row = found["byKind"].as_array().unwrap().iter().find(|row| row["name"] == name);
        row.unwrap_or_else(|| panic!("no {name} in {}", found["byKind"]))["count"].clone()
    };
    assert_eq!((count("the user"), count("the host")), (json!(2), json!(1)));
    assert_eq!(found["growth"].as_array().unwrap().len(), 2, "{}", found["growth"]);
}

#[test]
fn messages_that_a_host_wrote_in_the_users_name_are_not_prompts() {
    let user = |uuid: &str, parent: Value, content: Value| {
        json!({ "type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "s",
            "message": { "role": "user", "content": content } })
    };
    let attached = |uuid: &str, parent: &str, attachment: Value| json!({ "type": "attachment", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "attachment": attachment });
    let command = "<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>only src</command-args>";
    let answer = json!({ "type": "assistant", "uuid": "5", "parentUuid": "4", "sessionId": "s",
        "message": { "id": "r1", "role": "assistant", "content": [{ "type": "text", "text": "Done." }] } });
    let records = [
        user("1", Value::Null, json!(command)),
        user("2", json!("1"), json!([{ "type": "text", "text": "# Review\n\nRead every file." }])),
        attached("3", "2", json!({ "type": "edited_text_file", "filename": "/w/a", "snippet": "1 x" })),
        attached(
            "4",
            "3",
            json!({ "type": "mcp_instructions_delta", "addedNames": ["pay"], "addedBlocks": ["## pay"] }),
        ),
        answer,
        attached(
            "6",
            "5",
            json!({ "type": "queued_command", "prompt": "and the tests", "origin": { "kind": "human" } }),
        ),
    ];
    let home = Home::new().with("project/s.jsonl", &lines(&records));
    let found = home.json(&["inspect", "s.jsonl", "--json"]);
    let count = |name: &str| {
        let row = found["byKind"].as_array().unwrap().iter().find(|row| row["name"] == name);
        row.unwrap_or_else(|| panic!("no {name} in {}", found["byKind"]))["count"].clone()
    };
    assert_eq!((count("the user"), count("the host")), (json!(2), json!(3)));
    let digest = printed(&home, &["fork", "s.jsonl"]);
    let blocks = |label: &str| digest.matches(label).count();
    assert_eq!((blocks(" User: "), blocks(" Host: ")), (2, 3), "{digest}");
    let summary = printed(&home, &["compact", "--offline", "s.jsonl"]);
    assert!(!summary.contains("Read every file"), "{summary}");
}

#[test]
fn a_cost_far_from_the_recorded_one_is_reported_with_both() {
    // All input of each request was charged again.
    let made = claude(&ClaudeSession { responses: 9, hidden: 16_000 });
    let missed: Vec<Value> = made
        .lines()
        .map(|line| {
            let mut record: Value = serde_json::from_str(line).unwrap();
            if let Some(usage) = record["message"].get_mut("usage") {
                usage["input_tokens"] = usage["cache_read_input_tokens"].clone();
                usage["cache_read_input_tokens"] = json!(0);
            }
            record
        })
        .collect();
    let home = Home::new().with("project/s.jsonl", &made).with("project/missed.jsonl", &lines(&missed));
    let sentence = "10 calls were recorded at ";
    let far = printed(&home, &["replay", "--policy", "none", "--policy", "plimsoll", "missed.jsonl"]);
    let recorded = home.json(&["inspect", "missed.jsonl", "--json"])["recorded"]["cost"].as_f64().unwrap();
    assert!(far.contains(&format!("{sentence}${recorded:.3} and cost $")), "{far}");
    assert!(far.contains("its tool may not use the cache"), "{far}");
    let asked = printed(&home, &["replay", "--policy", "none", "--price-as", "gpt-5.5", "missed.jsonl"]);
    assert!(!asked.contains(sentence), "another price is another cost: {asked}");
}

/// A session whose requests were recorded with more than the file has, but for the last of them.
fn half_unseen() -> String {
    let mut sent = 5_000;
    let mut records = Vec::new();
    for turn in 0..9u64 {
        let parent = if turn == 0 { Value::Null } else { json!(format!("a{}", turn - 1)) };
        let words = "word ".repeat(4_000);
        records.push(
            json!({ "type": "user", "uuid": format!("u{turn}"), "parentUuid": parent, "sessionId": "s",
            "message": { "role": "user", "content": words } }),
        );
        sent += 5_000;
        // Thoughts of the turn are sent again until it ends.
        let unseen = if turn == 8 { 0 } else { 9_000 };
        records.push(json!({ "type": "assistant", "uuid": format!("a{turn}"), "parentUuid": format!("u{turn}"), "sessionId": "s",
            "message": { "id": format!("m{turn}"), "model": "claude-sonnet-4-6", "role": "assistant",
                "content": [{ "type": "text", "text": "Read." }], "stop_reason": "end_turn",
                "usage": { "input_tokens": 5, "cache_read_input_tokens": sent + unseen * turn, "output_tokens": 40 } } }));
    }
    lines(&records)
}

#[test]
fn requests_have_their_recorded_size_and_the_rebuilt_share_is_reported() {
    let home = Home::new().with("project/s.jsonl", &half_unseen());
    let replay = home.json(&["replay", "--json", "--policy", "none", "s.jsonl"]);
    let session = &replay["sessions"][0];
    let windows = session["policies"][0]["windows"].as_array().unwrap().iter();
    let sent: Vec<&Value> = windows.map(|window| &window["tokens"]).collect();
    assert_eq!(sent, session["recordedRequests"].as_array().unwrap().iter().collect::<Vec<_>>());
    let share = session["rebuiltShare"].as_f64().unwrap();
    assert!(share < 0.9, "{share}");
    let printed = printed(&home, &["replay", "--policy", "none", "--policy", "plimsoll", "s.jsonl"]);
    let sentence =
        format!("the median request is rebuilt with {:.1} % of its recorded tokens", share * 100.0);
    assert!(printed.contains(&sentence), "{sentence}: {printed}");
    // What `inspect` shows as the largest request was the fullest.
    let largest =
        home.json(&["inspect", "s.jsonl", "--json"])["recorded"]["largestRequest"].as_u64().unwrap();
    assert_eq!(session["policies"][0]["peak"].as_u64(), Some(largest));
    let fullest = format!("never came near the line: at most {} of 200,000", plimsoll::Tokens(largest));
    assert!(printed.contains(&fullest), "{fullest}: {printed}");
}

#[test]
fn inspect_names_the_last_model_and_the_one_that_answered_most() {
    let made = claude(&ClaudeSession { responses: 4, hidden: 16_000 });
    let (most, last) = made.trim_end().rsplit_once('\n').unwrap();
    let mixed = format!("{most}\n{}\n", last.replace("claude-sonnet-4-6", "claude-opus-4-6"));
    let home = Home::new().with("project/s.jsonl", &mixed).with("project/one.jsonl", &made);
    let heading =
        |file: &str| home.run(&["inspect", file]).lines().find(|line| line.contains('·')).unwrap().to_owned();
    assert!(
        heading("s.jsonl").contains("· claude-opus-4-6, mostly claude-sonnet-4-6 ·"),
        "{}",
        heading("s.jsonl")
    );
    assert!(!heading("one.jsonl").contains("mostly"), "{}", heading("one.jsonl"));
}
