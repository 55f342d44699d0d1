//! Numbers at their extremes, in sessions, flags and policies: the command answers or refuses, and never dies of one.

use plimsoll::{Tokens, Usage};
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::json;

use crate::support::Home;

const MOST: &str = "18446744073709551615";

/// A session in which every number is as large as it can be.
fn session() -> String {
    let most = u64::MAX;
    let usage = json!({ "total": most, "input": most, "output": most, "reasoning": most,
        "cache": { "read": most, "write": most } });
    let time = json!({ "created": most, "completed": most });
    json!({ "info": { "id": "ses_extreme_numbers", "title": "t", "time": { "created": most, "updated": most } },
        "messages": [
            { "info": { "id": "msg_1", "role": "user", "time": time },
              "parts": [{ "id": "prt_1", "type": "text", "text": "Read the file. ".repeat(50) }] },
            { "info": { "id": "msg_2", "role": "assistant", "time": time, "finish": "tool-calls", "cost": 1e308,
                "modelID": "m", "tokens": usage },
              "parts": [{ "id": "prt_2", "type": "tool", "callID": "c", "tool": "read", "state": {
                "status": "completed", "input": { "path": "a" }, "output": "needle in a line\n".repeat(400),
                "time": { "start": most, "end": most } } }] },
            { "info": { "id": "msg_3", "role": "assistant", "time": time, "finish": "stop", "cost": 1e308,
                "modelID": "m", "tokens": usage },
              "parts": [{ "id": "prt_3", "type": "text", "text": "Done." }] },
            { "info": { "id": "msg_4", "role": "user", "time": time },
              "parts": [{ "id": "prt_4", "type": "text", "text": "Go on." }] }
        ] })
    .to_string()
}

fn assert_answered(home: &Home, command: &str) -> String {
    let args: Vec<&str> = command.split(' ').collect();
    let output = home.command(&args, &[]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code().is_some_and(|code| code <= 3), "{command}: {:?}: {printed}", output.status);
    assert!(!printed.contains("panicked"), "{command}: {printed}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn commands_answer_whatever_the_numbers_are() {
    let policy = json!({
        "count": { "charsPerToken": 1 },
        "truncate": { "maxLines": u64::MAX, "maxBytes": u64::MAX, "maxLineChars": u64::MAX, "defaultLimit": u64::MAX },
        "prune": { "protectTokens": 0, "minTokens": 0, "activeTurns": 0, "retainChars": u64::MAX },
        "overflow": { "maxFactor": f64::MAX, "outputCap": u64::MAX, "inputReserve": u64::MAX,
            "models": { "m": { "context": u64::MAX, "input": u64::MAX, "output": u64::MAX } } },
        "compact": { "tailMin": 0, "tailMax": u64::MAX, "extractiveTokens": u64::MAX, "hookChars": u64::MAX },
        "fork": { "charBudget": u64::MAX, "tier1Count": u64::MAX, "tier2Count": u64::MAX },
    });
    let prices = json!({ "m": { "cacheRead": 1e6, "cacheWrite": 1e6, "output": 1e6 } });
    let absurd = json!({ "m": { "cacheRead": f64::MAX, "cacheWrite": f64::MAX, "output": f64::MAX } });
    let home = Home::new()
        .with("project/s.json", &session())
        .with("project/policy.json", &policy.to_string())
        .with("project/absurd.json", &absurd.to_string())
        .with("project/prices.json", &prices.to_string());
    let printed = home.run(&["replay", "s.json", "--prices", "absurd.json"]);
    assert!(printed.contains("exit: 2") && printed.contains("`m.cacheRead`"), "{printed}");
    for flags in ["", "--json", "--policy policy.json", "--policy openfork"] {
        for context in ["", "1", "2000", "9223372036854775807", MOST] {
            for command in ["inspect", "window", "prune", "compact", "compact --offline", "fork --stats"] {
                let context = if context.is_empty() { String::new() } else { format!("--context {context}") };
                let command = format!("{command} s.json {flags} {context}");
                assert_answered(&home, command.split_whitespace().collect::<Vec<_>>().join(" ").as_str());
            }
        }
    }
    for policy in ["plimsoll", "policy.json"] {
        let mut truncate = home.command(&["truncate", "--tool", "bash", "--policy", policy], &[]);
        let output =
            truncate.stdin(std::fs::File::open(home.project.join("s.json")).unwrap()).output().unwrap();
        assert!(output.status.success(), "{policy}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for flags in [
        String::new(),
        format!("--context {MOST} --max-output {MOST} --overhead {MOST} --cache-minutes {MOST}"),
        "--prices prices.json --html page.html --force".to_owned(),
        format!("--context {MOST} --prices prices.json --price-as m --html page.html --force --json"),
        "--context 1 --policy policy.json".to_owned(),
        "--context 300 --policy policy.json --policy mask-18446744073709551615".to_owned(),
    ] {
        assert_answered(&home, format!("replay s.json {flags}").trim());
    }
    let page = std::fs::read_to_string(home.project.join("page.html")).unwrap();
    assert!(!page.contains("NaN") && !page.contains(">inf") && page.len() < 1_000_000);
}

#[test]
fn stored_sessions_take_whatever_the_numbers_are() {
    let home = Home::new().with("project/s.json", &session());
    let id = assert_answered(&home, "sessions import s.json");
    let id = id.trim();
    assert!(!id.is_empty(), "it was stored");
    for command in [
        "sessions --all".to_owned(),
        format!("sessions --all --limit {MOST} --context {MOST}"),
        format!("sessions show {id} --messages {MOST}"),
        format!("sessions show {id} --messages 0 --json"),
        format!("sessions export {id}"),
        format!("inspect --session {id}"),
        format!("prune --apply --session {id} --context {MOST}"),
        format!("compact --apply --session {id} --context 1000"),
        format!("receipts {id}"),
        format!("recall prt_2 --grep needle --context-lines {MOST} --max-bytes {MOST}"),
        format!("recall prt_2 --lines 1-{MOST} --max-bytes 0"),
        format!("recall --session {id} --grep needle --context-lines {MOST}"),
        format!("replay --session {id}"),
        "sessions check".to_owned(),
        "sessions gc".to_owned(),
    ] {
        assert_answered(&home, &command);
    }
}

#[test]
fn flags_beyond_64_bits_are_refused() {
    let home = Home::new().with("project/s.json", &session());
    for flag in ["18446744073709551616", "-1", "0", "1.5", "NaN", "1e400"] {
        let printed = home.run(&["window", "s.json", "--context", flag]);
        assert!(printed.contains("exit: 2"), "{flag}: {printed}");
    }
}

#[test]
fn a_run_ends_whatever_usage_the_provider_reports() {
    let most = Tokens(u64::MAX);
    let mut all = Usage::new(most, most);
    (all.cache_read, all.cache_write, all.reasoning, all.total) = (most, most, most, Some(most));
    let mut cached = Usage::new(Tokens(7), Tokens(3));
    cached.cache_read = most;
    let mut written = Usage::new(Tokens(7), most);
    written.cache_write = most;
    for model in ["anthropic/claude-sonnet-4-6", "openai/gpt-5.1"] {
        let (home, server) = (Home::new().with("project/a.txt", "deep"), ModelServer::start().unwrap());
        let url = server.url();
        let environment = [
            ("ANTHROPIC_API_KEY", "sk-test-0123456789"),
            ("ANTHROPIC_BASE_URL", url.as_str()),
            ("OPENAI_API_KEY", "sk-test-0123456789"),
            ("OPENAI_BASE_URL", url.as_str()),
        ];
        for (usage, flags) in
            [(&cached, ""), (&written, ""), (&all, ""), (&all, "--json"), (&all, "--continue")]
        {
            server.push(Reply::new().call("call_1", "read", json!({ "path": "a.txt" })).usage(usage.clone()));
            server.push(Reply::new().text("It is deep.").usage(usage.clone()));
            let args: Vec<&str> =
                ["run", "--model", model].into_iter().chain(flags.split_whitespace()).collect();
            let mut command = home.command(&args, &environment);
            let output = command.arg("How deep?").stdin(std::process::Stdio::null()).output().unwrap();
            let printed = String::from_utf8_lossy(&output.stderr);
            let answer = String::from_utf8_lossy(&output.stdout);
            assert!(!printed.contains("panicked"), "{model} {flags}: {printed}");
            assert!(output.status.success(), "{model} {flags}: {:?}: {printed}", output.status);
            assert!(answer.contains("It is deep."), "{model} {flags}: {answer}{printed}");
            assert_answered(&home, "sessions show");
        }
        assert_answered(&home, "sessions --all --json");
        assert_answered(&home, "inspect");
    }
}
