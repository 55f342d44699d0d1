//! Work of a run besides its prompt: figures about reductions, and spilled outputs that are past their retention.

use std::process::{Output, Stdio};

use plimsoll::{Millis, Policy, Preset, SessionId};
use plimsoll_store::{Claim, NewSession};
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::{Home, now};

const MODEL: &str = "anthropic/claude-sonnet-4-6";

fn run(home: &Home, server: &ModelServer, args: &[&str]) -> Output {
    let key = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789abcdefghij");
    let all = [&["run", "--model", MODEL], args].concat();
    let output =
        home.command(&all, &[key, ("ANTHROPIC_BASE_URL", &server.url())]).stdin(Stdio::null()).output();
    output.unwrap()
}

/// A model that reads a file of 9,000 lines and then says so.
fn reader(home: &Home) -> ModelServer {
    let lines: String = (1..=9_000).map(|n| format!("line {n}\n")).collect();
    home.write("project/long.txt", &lines);
    let server = ModelServer::start().unwrap();
    server.push_all([
        Reply::new().call("call_1", "read", json!({ "path": "long.txt", "limit": 9_000 })),
        Reply::new().text("It is long."),
    ]);
    server
}

#[test]
fn r156_the_report_of_a_run_has_the_eight_figures() {
    let home = Home::new();
    let output = run(&home, &reader(&home), &["--json", "Read it"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let report: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(report["type"], "report", "{report}");
    let metrics = report["metrics"].as_object().unwrap();
    let mut keys: Vec<&str> = metrics.keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected = [
        "bytesTruncated",
        "spillBytesWritten",
        "spillFilesCreated",
        "tokensCompacted",
        "tokensPruned",
        "totalCompactions",
        "totalPrunings",
        "totalTruncations",
    ];
    assert_eq!(keys, expected);
    assert_eq!((&metrics["totalTruncations"], &metrics["spillFilesCreated"]), (&json!(1), &json!(1)));
    assert!(metrics["spillBytesWritten"].as_u64() > metrics["bytesTruncated"].as_u64(), "{metrics:?}");
}

#[test]
fn r156_reductions_are_summarised_in_a_line_if_there_were_any() {
    let home = Home::new();
    let printed = home.output_text(&run(&home, &reader(&home), &["Read it"]));
    assert!(
        printed.contains("reduced: 1 output truncated by ") && printed.contains(" stored in 1 file)"),
        "{printed}"
    );
    let server = ModelServer::start().unwrap();
    server.push(Reply::new().text("Hello."));
    let printed = home.output_text(&run(&home, &server, &["Hello"]));
    assert!(!printed.contains("reduced:"), "{printed}");
}

/// A session whose output was spilled some days ago. Returns its handle.
fn spilled(home: &Home, days: u64) -> String {
    let (archive, session) = (home.archive(), SessionId::new("ses_old"));
    let then = Millis(now().0 - days * 24 * 3_600_000);
    archive.store().create(NewSession::new(session.clone()), then).unwrap();
    let mut output = format!("{days} days\n").repeat(20_000).into_bytes();
    let taken = archive
        .take_output(
            &Claim::unleased(&session),
            &"prt_1".into(),
            "bash",
            &mut &*output,
            &Policy::default(),
            then,
        )
        .unwrap();
    output.clear();
    plimsoll_store::handles(&taken.receipt.unwrap()).remove(0)
}

fn spill_files(home: &Home) -> usize {
    home.files().iter().filter(|path| path.extension().is_some_and(|kind| kind == "zst")).count()
}

/// Nothing but `plimsoll sessions gc` removed them.
#[test]
fn r141_a_run_removes_spilled_outputs_that_are_past_their_retention() {
    let retained = [
        (format!("policy = \"{}\"\n", Preset::Openfork), 8),
        ("[spills]\nage = \"7d\"\n".to_owned(), 30),
        ("policy = \"opencode\"\n[spills]\nage = \"7d\"\n".to_owned(), 30),
    ];
    for (config, days) in retained {
        let home = Home::new().with(".config/plimsoll/config.toml", &config);
        std::fs::create_dir_all(home.path.join(".local/share/plimsoll")).unwrap();
        let handle = spilled(&home, days);
        assert_eq!(spill_files(&home), 1);
        let server = ModelServer::start().unwrap();
        server.push(Reply::new().text("Hello."));
        let output = run(&home, &server, &["Hello"]);
        assert!(output.status.success(), "{}", home.output_text(&output));
        assert_eq!(spill_files(&home), 0, "{config}");
        assert!(home.run(&["recall", &handle]).contains("expired at"), "{config}");
    }
}

#[test]
fn r141_a_run_keeps_what_is_within_its_retention() {
    let home = Home::new().with(".config/plimsoll/config.toml", "policy = \"openfork\"\n");
    std::fs::create_dir_all(home.path.join(".local/share/plimsoll")).unwrap();
    let handle = spilled(&home, 6);
    let server = ModelServer::start().unwrap();
    server.push(Reply::new().text("Hello."));
    run(&home, &server, &["Hello"]);
    assert!(home.run(&["recall", &handle]).contains("6 days"));
}
