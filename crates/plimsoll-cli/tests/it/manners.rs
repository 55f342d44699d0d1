//! Messages name figures, dropped content and corrections; and pages fit their width.

use std::io::Write;
use std::process::Stdio;

use insta::assert_snapshot;

use crate::support::{Home, chat, export};

/// The session that is shipped with the project.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/session.json");

/// Output of a command for an input.
fn piped(home: &Home, args: &[&str], input: &[u8]) -> String {
    let mut command = home.command(args, &[]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    home.output_text(&child.wait_with_output().unwrap())
}

/// Standard error.
fn stderr(printed: &str) -> &str {
    printed.split_once("----- stderr -----\n").unwrap().1
}

#[test]
fn truncating_without_a_spill_reports_what_was_dropped() {
    let long = (1..=5_000).map(|n| format!("line {n}\n")).collect::<String>();
    let home = Home::new();
    let dropped = "dropped: 3,001 of 5,001 lines, 30,009 of 48,893 bytes\n";
    let hint = "hint: use `--spill-dir DIR` to store the full output\n";
    let printed = piped(&home, &["truncate"], long.as_bytes());
    assert_eq!(stderr(&printed), format!("{dropped}{hint}"));
    assert_eq!(stderr(&piped(&home, &["truncate", "--json"], long.as_bytes())), format!("{dropped}{hint}"));
    let wide = |chars: usize| format!("{}\nshort\n", "x".repeat(chars));
    let within = piped(&home, &["truncate"], wide(10_000).as_bytes());
    assert_eq!(stderr(&within), "", "a long line of an output within its limits stays whole");
    let over = piped(&home, &["truncate"], wide(100_000).as_bytes());
    assert_eq!(
        stderr(&over),
        format!("dropped: 0 of 3 lines, 75,006 of 100,007 bytes; the end of 1 long line\n{hint}")
    );
    let printed = piped(&home, &["truncate", "--spill-dir", "/dev/null/spill"], long.as_bytes());
    assert!(
        stderr(&printed).starts_with(&format!("{dropped}hint: the full output could not be stored: ")),
        "{printed}"
    );
    home.write("project/plimsoll.toml", "[truncate]\nspill = false\n");
    home.run(&["trust"]);
    let printed = piped(&home, &["truncate", "--spill-dir", "spill"], long.as_bytes());
    assert_eq!(
        stderr(&printed),
        format!("{dropped}hint: the policy stores no outputs; set `truncate.spill = true`\n")
    );
    // Without a loss there is no notice.
    let home = Home::new();
    assert_eq!(stderr(&piped(&home, &["truncate"], b"short\n")), "");
    assert_eq!(stderr(&piped(&home, &["truncate", "--spill-dir", "spill"], long.as_bytes())), "");
}

#[test]
fn a_model_without_a_price_is_an_error_with_the_names_that_are_near() {
    let home = Home::new()
        .with("project/s.json", &chat(2))
        .with("project/prices.json", r#"{"house-model": {"cacheRead": 1, "cacheWrite": 1, "output": 1}}"#);
    assert_snapshot!(home.page(&[
        "replay s.json --policy none --price-as claude-sonet-4-5",
        "replay s.json --policy none --price-as nobody-knows",
        "replay s.json --policy none --prices prices.json --price-as hause-model",
    ]));
    let printed = home.run(&["replay", "s.json", "--policy", "none", "--price-as", ""]);
    assert!(
        printed.starts_with("exit: 2")
            && printed.contains(
                "error: `--price-as` needs the name of a model\nhint: list models with prices with `plimsoll replay --list-prices`"
            ),
        "{printed}"
    );
    for price in ["claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", "default", "gpt-5.5"] {
        let printed = home.run(&["replay", "s.json", "--policy", "none", "--price-as", price]);
        assert!(printed.starts_with("exit: 0"), "{printed}");
    }
}

#[test]
fn without_a_reduction_the_figures_are_reported() {
    let home = Home::new()
        .with("project/one.json", r#"[{"role": "user", "content": "hi"}]"#)
        .with("project/few.json", &chat(2))
        .with("project/some.json", &chat(5));
    assert_snapshot!(home.page(&[
        "prune few.json",
        "prune some.json",
        "prune some.json --policy openfork",
        "compact one.json",
    ]));
}

#[test]
fn outputs_are_pruned_by_choice_with_a_receipt_and_an_undo() {
    let home = Home::new();
    let session = export(&home.project);
    home.write("project/s.json", &session.to_string());
    let id = session["info"]["id"].as_str().unwrap();
    let tool = session["messages"][1]["parts"][0]["tool"].as_str().unwrap().to_owned();
    assert_snapshot!(home.page(&[
        &format!("prune s.json --tool {tool} --keep 6"),
        "prune s.json --tool nothing",
        "prune s.json --keep 2 --to 30% --context 100k",
        "prune s.json --to 1% --keep 7 --context 100k",
        "prune s.json --to 90%",
        "prune s.json --file no/such/file.rs",
        "prune s.json --to 100%",
        "prune s.json --to some",
    ]));
    home.run(&["sessions", "import", "s.json"]);
    let window = || home.run(&["window", "--as", "openai-chat", "--session", id]).len();
    let before = window();
    let done = home.json(&["prune", "--apply", "--session", id, "--tool", &tool, "--keep", "6", "--json"]);
    let receipt = &done["receipts"][0];
    assert_eq!(receipt["plan"]["items"].as_array().unwrap().len(), 2);
    let reason = format!("chosen by the user: outputs of `{tool}`, all but the newest 6");
    assert_eq!(receipt["reason"], reason.as_str());
    assert!(window() < before - 70_000, "two outputs are out of the window");
    let listed = home.run(&["receipts", receipt["id"].as_str().unwrap()]);
    assert!(listed.contains(&reason) && listed.contains("chosen"), "{listed}");
    let undone = home.run(&["undo", receipt["id"].as_str().unwrap()]);
    assert!(undone.starts_with("exit: 0"), "{undone}");
    assert_eq!(window(), before);
    let nothing = home.run(&["prune", "--apply", "--session", id, "--tool", "nothing"]);
    assert!(
        nothing.starts_with("exit: 1") && nothing.contains("no tool output matches the choice"),
        "{nothing}"
    );
}

#[test]
fn pages_are_set_for_80_and_for_200_columns() {
    let home = Home::new().with("project/session.json", &std::fs::read_to_string(SAMPLE).unwrap());
    home.codex("019e0000-0000-7000-8000-000000000001", &home.project, "words of a session that go on for long, so that a title of theirs is wider than a narrow page can hold it", 1);
    home.claude("5d0c0000-0000-4000-8000-000000000002", "a short one", 2);
    for columns in ["80", "200"] {
        for (name, args) in [
            ("inspect", vec!["inspect", "session.json"]),
            ("sessions", vec!["sessions"]),
            ("replay", vec!["replay", "session.json", "--context", "200k"]),
        ] {
            let printed = home.run_with(&args, &[("COLUMNS", columns)]);
            assert_snapshot!(format!("{name}_{columns}"), printed);
            let widest = printed.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= columns.parse().unwrap(), "{name} at {columns} is {widest} wide");
        }
    }
}

#[test]
fn a_fork_takes_the_childs_task_and_leaves_out_secrets() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let history = serde_json::json!([
        { "role": "user", "content": format!("Push with {secret}.") },
        { "role": "assistant", "content": "Pushed." },
    ]);
    let home = Home::new().with("project/s.json", &history.to_string());
    let printed = home.run(&["fork", "s.json", "--redact", "--task", "Review the last change."]);
    assert!(!printed.contains(&secret), "{printed}");
    assert_snapshot!(printed);
    let json = home.json(&["fork", "s.json", "--redact", "--task", "Review.", "--json"]);
    assert_eq!(json["redacted"], 1);
    assert!(json["task"].as_str().unwrap().ends_with("<task>\nReview.\n</task>"), "{json}");
    // As before without the flags.
    let plain = home.run(&["fork", "s.json"]);
    assert!(plain.contains(&secret) && !plain.contains("<task>"), "{plain}");
    assert_snapshot!(home.page(&["fork s.json --task --stats", "fork s.json --run x --task y",]));
}

#[test]
fn a_page_does_not_overwrite_an_existing_file() {
    let home = Home::new().with("project/s.json", &chat(2)).with("project/page.html", "mine");
    let printed = home.run(&["replay", "--html", "page.html", "s.json"]);
    assert!(printed.contains("exit: 2") && printed.contains("`page.html` already exists"), "{printed}");
    assert!(stderr(&printed).contains("`--force` to overwrite it"), "{printed}");
    assert_eq!(std::fs::read_to_string(home.project.join("page.html")).unwrap(), "mine");
}

#[cfg(unix)]
#[test]
fn a_pipe_that_is_not_read_is_reported() {
    let home = Home::new();
    home.codex("0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000", &home.project, "Words said in Codex", 1);
    // What was written before the command starts waits there for sure.
    let (reading, mut writing) = std::io::pipe().unwrap();
    writing.write_all(b"[]").unwrap();
    let mut command = home.command(&["inspect"], &[]);
    let printed = home.output_text(&command.stdin(reading).output().unwrap());
    assert!(
        stderr(&printed).contains("standard input is a pipe and is ignored; use `-` as FILE to read it"),
        "{printed}"
    );
    let printed = home.output_text(&home.command(&["inspect"], &[]).stdin(Stdio::null()).output().unwrap());
    assert!(!printed.contains("is a pipe"), "{printed}");
}

#[test]
fn empty_messages_are_not_reported_as_an_empty_list() {
    let home = Home::new().with("project/s.json", r#"{"messages":[{"role":"user"}]}"#);
    let printed = home.run(&["inspect", "s.json"]);
    assert!(
        printed.contains("exit: 3") && printed.contains("all messages in its list are empty"),
        "{printed}"
    );
}
