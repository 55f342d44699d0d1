//! `plimsoll run`, against a scripted model on this machine.

use std::io::Write;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plimsoll::{Tokens, Usage};
use plimsoll_testkit::server::{Captured, Fault, Finish, Gate, ModelServer, Reply};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::Home;

const KEY: &str = "sk-ant-test-0123456789abcdefghij";

fn run(home: &Home, server: &ModelServer, args: &[&str]) -> Output {
    run_with(home, args, &[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &server.url())])
}

fn run_with(home: &Home, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut all = vec!["run"];
    all.extend_from_slice(args);
    home.command(&all, variables).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

const MODEL: &str = "anthropic/claude-sonnet-4-6";

#[test]
fn without_a_model_the_error_explains_the_setup_and_creates_no_database() {
    let home = Home::new();
    insta::assert_snapshot!(home.run(&["run", "hello"]));
    assert!(!home.path.join(".local/share/plimsoll").exists());
}

#[test]
fn a_truncation_on_arrival_is_not_undone_but_recalled() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let lines: String = (1..=9_000).map(|n| format!("line {n}\n")).collect();
    home.write("project/long.txt", &lines);
    server.push_all([
        Reply::new().call("call_1", "read", json!({ "path": "long.txt", "limit": 9_000 })),
        Reply::new().text("It is long."),
    ]);
    let output = run(&home, &server, &["--model", MODEL, "Read it"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let receipts = home.json(&["receipts", "--json"]);
    let receipt =
        receipts.as_array().unwrap_or_else(|| receipts["receipts"].as_array().unwrap())[0]["id"].clone();
    let undone = home.command(&["undo", receipt.as_str().unwrap()], &[]).output().unwrap();
    let said = stderr(&undone);
    assert_eq!(code(&undone), 1, "{said}");
    assert!(said.contains("truncated an output on arrival"), "{said}");
    let handle = said.split("plimsoll recall ").nth(1).unwrap().split('`').next().unwrap();
    assert!(home.run(&["recall", handle, "--grep", "line 4321"]).contains("line 4321"), "{said}");
}

#[test]
fn the_answer_goes_to_standard_output_and_the_rest_to_standard_error() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write("project/depth.txt", "nine metres\n");
    server.push_all([
        Reply::new().text("Let me look.").call("call_1", "read", json!({ "path": "depth.txt" })),
        Reply::new().text("It is nine metres deep."),
    ]);
    let output = run(&home, &server, &["--model", MODEL, "How", "deep?"]);
    assert_eq!(
        (code(&output), stdout(&output).as_str()),
        (0, "It is nine metres deep.\n"),
        "{}",
        stderr(&output)
    );
    let printed = stderr(&output);
    assert!(printed.contains("· read depth.txt") && printed.contains("2 steps"), "{printed}");
    assert!(server.last().unwrap().contains("How deep?"));
    // It continues with its model and its history.
    server.push(Reply::new().text("Metres."));
    let output = run(&home, &server, &["--continue", "In which unit?"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "Metres.\n"), "{}", stderr(&output));
    assert!(
        !stderr(&output).contains("note:"),
        "the first run has given its session back: {}",
        stderr(&output)
    );
    let last = server.last().unwrap();
    assert!(last.contains("nine metres deep") && last.contains("In which unit?"));
    assert_eq!(last.model, "claude-sonnet-4-6");
    let listed = home.run(&["sessions", "--tool", "plimsoll"]);
    assert!(listed.contains("How deep?"), "{listed}");
}

#[test]
fn machines_get_events_and_a_report() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.push_all([Reply::new().call("call_1", "list", json!({})), Reply::new().text("Nothing is here.")]);
    let output = run(&home, &server, &["--json", "--model", MODEL, "Look"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let events: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    for kind in [
        "opened",
        "prompted",
        "weighed",
        "requested",
        "text",
        "answered",
        "callStarted",
        "callEnded",
        "ended",
    ] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    let report = events.last().unwrap();
    assert_eq!(
        (report["type"].as_str(), report["text"].as_str()),
        (Some("report"), Some("Nothing is here."))
    );
    let stored: Vec<&Value> = events.iter().filter(|event| event["type"] == "stored").collect();
    assert!(stored.iter().any(|event| event["kind"] == "appended"), "{stored:?}");
    let sequences: Vec<u64> = stored.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert!(sequences.windows(2).all(|pair| pair[0] < pair[1]), "what is stored comes in order");
}

/// One denial of each kind: a tool that the agent lacks, a tool that needs a rule with its name, an unreadable file, and a
/// host that needs a separate setting.
#[test]
fn denials_name_the_rule_that_would_allow_them() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write(
        ".config/plimsoll/config.toml",
        "[permissions]\nbash = \"allow\"\nwrite = \"allow\"\n[permissions.read]\n\"secrets/*\" = \"deny\"\n",
    );
    home.write("project/secrets/key", "hunter2\n");
    let denied = |agent: &str, tool: &str, input: Value| {
        server.push_all([Reply::new().call("call_1", tool, input), Reply::new().text("Done.")]);
        let output = run(&home, &server, &["--model", MODEL, "--agent", agent, "Do it"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let printed = stderr(&output).replace(home.path.to_str().unwrap(), "[HOME]");
        printed.lines().find(|line| line.contains("was denied")).unwrap_or(&printed).trim().to_owned()
    };
    let printed = [
        denied("plan", "bash", json!({ "command": "touch x" })),
        denied("build", "write", json!({ "path": ".git/hooks/pre-commit", "content": "x" })),
        denied("build", "grep", json!({ "path": "secrets", "pattern": "hunter" })),
        denied("build", "list", json!({ "path": "secrets" })),
        denied("build", "read", json!({ "path": "/etc/passwd" })),
        denied("build", "webfetch", json!({ "url": "http://127.0.0.1:9/" })),
    ];
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn truncated_instructions_are_reported_before_the_answer() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write("project/AGENTS.md", &"Be brief. ".repeat(30_000));
    server.push(Reply::new().text("Done."));
    let output = run(&home, &server, &["--model", MODEL, "Do it"]);
    let printed = stderr(&output);
    assert!(printed.contains("· only 200000 of the 300000 bytes of `"), "{printed}");
}

#[test]
fn denials_name_the_flag_that_allows_them() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let script = || {
        [Reply::new().call("call_1", "bash", json!({ "command": "touch made" })), Reply::new().text("Done.")]
    };
    server.push_all(script());
    let output = run(&home, &server, &["--model", MODEL, "Make it"]);
    assert_eq!(code(&output), 0);
    assert!(
        stderr(&output).contains("bash was denied; `--allow 'bash:touch *'` allows it"),
        "{}",
        stderr(&output)
    );
    assert!(!home.project.join("made").exists());
    server.push_all(script());
    let output = run(&home, &server, &["--model", MODEL, "--allow", "bash:touch *", "Make it"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(home.project.join("made").exists());
    let output = run(&home, &server, &["--model", MODEL, "--allow", "ba sh", "Make it"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("does not say what to allow"), "{}", stderr(&output));
    let output = run(&home, &server, &["--model", MODEL, "--allow", "bsah", "Make it"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("unknown tool `bsah`; did you mean `bash`?"), "{}", stderr(&output));
}

#[test]
fn a_rule_for_an_unknown_tool_is_reported() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write(".config/plimsoll/config.toml", "[permissions]\nbahs = \"deny\"\n");
    server.push_all([Reply::new().text("Done.")]);
    let output = run(&home, &server, &["--model", MODEL, "Hello"]);
    let printed = "config.toml:2: the rule for unknown tool `bahs` (`deny`) is ignored; did you mean `bash`?";
    assert!(stderr(&output).contains(printed), "{}", stderr(&output));
    let printed_by_check = home.run(&["config", "check"]);
    assert!(printed_by_check.contains(printed), "{printed_by_check}");
}

#[test]
fn the_exit_code_says_how_a_run_ended() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.repeat(Reply::new().call("call_1", "list", json!({})));
    let output = run(&home, &server, &["--model", MODEL, "--max-steps", "1", "Look"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("--max-steps"), "{}", stderr(&output));
    server.repeat(Reply::failing(Fault::status(401)));
    let output = run(&home, &server, &["--model", MODEL, "Hello"]);
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("not authorised"), "{}", stderr(&output));
    for args in [["--agent", "nobody", "Hello"], ["--model", "nonsense", "Hello"]] {
        assert_eq!(code(&run(&home, &server, &args)), 2, "{args:?}");
    }
    assert_eq!(code(&run(&home, &server, &["--model", MODEL])), 2, "there is no prompt");
}

/// The request went out over the line and the command ended with 0, as if the summary had been taken.
#[test]
fn r128_r129_a_run_whose_summary_is_rejected_fails_with_the_reason() {
    for (policy, summary, reason) in [
        ("opencode", "", "the summary was empty"),
        ("openfork", "I'm sorry, I can't help", "the summariser refused to write a summary"),
    ] {
        let home = Home::new();
        // Outputs that together are more than the window that is configured.
        home.write("project/long.txt", &"a line of some length, again and again\n".repeat(900));
        let limits = json!({ "claude-sonnet-4-6": { "context": 24_000, "output": 4_000 } });
        let file = json!({ "preset": policy, "overflow": { "models": limits } });
        home.write("project/plimsoll.json", &file.to_string());
        let (reads, summary) = (AtomicUsize::new(0), summary.to_owned());
        let server = ModelServer::answering(move |request: &Captured| {
            if request.system.contains("You write the summary")
                || request.system.contains("conversation summarizer")
            {
                return Reply::new().text(summary.clone());
            }
            let call = format!("call_{}", reads.fetch_add(1, Ordering::Relaxed));
            Reply::new()
                .call(call, "read", json!({ "path": "long.txt" }))
                .usage(Usage::new(Tokens(30_000), Tokens(10)))
        })
        .unwrap();
        let args = ["--json", "--policy", "plimsoll.json", "--model", MODEL, "Read it"];
        let output = run(&home, &server, &args);
        assert_eq!(code(&output), 3, "{policy}: {}", stdout(&output));
        assert!(stderr(&output).contains(reason) && stderr(&output).contains("hint:"), "{}", stderr(&output));
        let events: Vec<Value> =
            stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of =
            |kind: &str| events.iter().filter(|event| event["type"] == kind).cloned().collect::<Vec<_>>();
        assert!(of("summarised").iter().all(|event| event["error"] == reason), "{:?}", of("summarised"));
        assert_eq!(of("error")[0]["name"], "SummaryError", "{policy}");
        assert!(of("report").is_empty(), "{policy}");
    }
}

#[test]
fn the_key_is_never_shown() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.push_all([
        Reply::new().call("call_1", "bash", json!({ "command": "env" })),
        Reply::failing(Fault::Status {
            status: 400,
            headers: Vec::new(),
            body: Some(json!({ "error": { "message": format!("bad key {KEY}") } })),
        }),
    ]);
    let variables: Vec<(&str, String)> = vec![
        ("ANTHROPIC_API_KEY", KEY.into()),
        ("ANTHROPIC_BASE_URL", server.url()),
        ("PLIMSOLL_LOG", "trace".into()),
        ("PATH", std::env::var("PATH").unwrap()),
    ];
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let output = run_with(&home, &["--json", "--allow", "all", "--model", MODEL, "Show it"], &variables);
    assert_eq!(code(&output), 3);
    let printed = stdout(&output) + &stderr(&output);
    assert!(!printed.contains(KEY), "{printed}");
    for file in home.files().iter().filter(|file| file.is_file()) {
        let bytes = std::fs::read(file).unwrap();
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{}", file.display());
    }
}

#[test]
fn a_session_whose_first_request_failed_continues_with_its_model() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.push(Reply::failing(Fault::status(400)));
    let failed = run(&home, &server, &["--model", MODEL, "Hello"]);
    assert_eq!(code(&failed), 3, "{}", stderr(&failed));
    server.push(Reply::new().text("Hello again."));
    let output = run(&home, &server, &["--continue", "Once more"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "Hello again.\n"), "{}", stderr(&output));
    assert_eq!(server.last().unwrap().model, "claude-sonnet-4-6");
}

#[test]
fn a_prompt_comes_from_standard_input_too() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.push(Reply::new().text("Read."));
    let url = server.url();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
    let mut command = home.command(&["run", "--model", MODEL, "-"], &variables);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"Words from a pipe\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(server.last().unwrap().last_user_text(), "Words from a pipe");
}

#[test]
fn a_session_of_another_tool_continues_here() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.codex("0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000", &home.project, "Words said in Codex", 1);
    server.push(Reply::new().text("I know."));
    let output = run(&home, &server, &["--model", MODEL, "--session", "0199aaaa", "Go on here"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "I know.\n"), "{}", stderr(&output));
    let last = server.last().unwrap();
    assert!(last.contains("Words said in Codex") && last.contains("Go on here"));
    let output = run(&home, &server, &["--model", MODEL, "--session", "nothing-like-it", "Go on"]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
}

/// The strict model signs its thoughts and refuses those of others, as providers do.
#[test]
fn a_session_with_signed_reasoning_of_another_tool_continues_here() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let id = "5d0c31aa-1111-4222-8333-444455556666";
    let record = |kind: &str, uuid: &str, parent: Option<&str>, message: serde_json::Value| {
        json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": id, "cwd": home.project,
            "timestamp": "2026-11-01T10:00:00Z", "message": message })
    };
    let thought =
        json!({ "type": "thinking", "thinking": "A thought from elsewhere", "signature": "ErcBCkgIBx" });
    let call =
        json!({ "type": "tool_use", "id": "toolu_1", "name": "Read", "input": { "file_path": "a.txt" } });
    let result = json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": "nine metres" });
    let answer = |id: &str, content: serde_json::Value| json!({ "id": id, "role": "assistant", "model": "claude-sonnet-4-6", "content": content });
    let lines: Vec<String> = [
        record("user", "u1", None, json!({ "role": "user", "content": "How deep?" })),
        record("assistant", "u2", Some("u1"), answer("msg_1", json!([thought, call]))),
        record("user", "u3", Some("u2"), json!({ "role": "user", "content": [result] })),
        record("assistant", "u4", Some("u3"), answer("msg_2", json!([{ "type": "text", "text": "Nine." }]))),
    ]
    .iter()
    .map(|record| format!("{record}\n"))
    .collect();
    home.write(&format!(".claude/projects/-project/{id}.jsonl"), &lines.concat());
    server.push_all([Reply::new().text("Still nine."), Reply::new().text("Yes.")]);
    let output = run(&home, &server, &["--model", MODEL, "--session", "claude-code:5d0c31aa", "And now?"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "Still nine.\n"), "{}", stderr(&output));
    let request = server.last().unwrap();
    assert!(request.contains("nine metres") && !request.contains("A thought from elsewhere"));
    let output = run(&home, &server, &["--model", MODEL, "--continue", "Sure?"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "Yes.\n"), "{}", stderr(&output));
    server.assert_legal();
}

#[test]
fn an_interrupt_ends_the_run_and_gives_the_session_back() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let gate = Gate::new();
    server.push(Reply::new().text("A long answer that takes its time").piece_size(Some(4)).gate(5, &gate));
    let url = server.url();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
    let mut command = home.command(&["run", "--model", MODEL, "Talk"], &variables);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(gate.wait_reached());
    std::thread::sleep(Duration::from_millis(100));
    kill_process(pid(child.id()), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    gate.release();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(stderr(&output).contains("plimsoll run --continue` resumes it"), "{}", stderr(&output));
    server.push(Reply::new().text("As I was saying."));
    let begun = Instant::now();
    let output = run(&home, &server, &["--continue"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "As I was saying.\n"), "{}", stderr(&output));
    assert!(begun.elapsed() < Duration::from_secs(30), "no waiting until the lease expires");
    assert!(server.last().unwrap().contains("A lo"), "what was said by then is there");
}

#[test]
fn a_killed_run_continues_without_waiting_for_its_lease() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let gate = Gate::new();
    server.push(Reply::new().text("Half an answer").piece_size(Some(3)).gate(5, &gate));
    let url = server.url();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
    let mut command = home.command(&["run", "--model", MODEL, "Talk"], &variables);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(gate.wait_reached());
    std::thread::sleep(Duration::from_millis(200));
    child.kill().unwrap();
    child.wait().unwrap();
    gate.release();
    server.push(Reply::new().text("The other half."));
    let output = run(&home, &server, &["--continue"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "The other half.\n"), "{}", stderr(&output));
    assert!(stderr(&output).contains("was killed; continuing from what was stored"), "{}", stderr(&output));
    assert!(home.run(&["sessions", "check"]).contains("exit: 0"));
}

#[test]
fn a_checkouts_opencode_file_sends_no_key_anywhere_before_it_is_trusted() {
    let (home, trap) = (Home::new(), ModelServer::start().unwrap());
    let file = json!({
        "model": "harbour/small",
        "provider": { "harbour": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("{}/v1", trap.url()), "apiKey": "{env:OPENAI_API_KEY}" },
            "models": { "small": { "limit": { "context": 16_000, "output": 2_000 } } },
        } },
    });
    home.write("project/opencode.json", &file.to_string());
    let path = std::env::var("PATH").unwrap();
    let variables = [("OPENAI_API_KEY", KEY), ("PATH", path.as_str())];
    let output = run_with(&home, &["Hello"], &variables);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("plimsoll trust"), "{}", stderr(&output));
    assert!(trap.requests().is_empty(), "nothing was sent");
    let trusted = home.run(&["trust", "--yes"]);
    let trusted = if trusted.contains("exit: 0") { trusted } else { home.run(&["trust"]) };
    assert!(trusted.contains("exit: 0"), "{trusted}");
    trap.push(Reply::new().text("Hello yourself."));
    let output = run_with(&home, &["Hello"], &variables);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "Hello yourself.\n"), "{}", stderr(&output));
    assert_eq!(trap.last().unwrap().model, "small");
}

#[test]
fn a_configured_agent_has_its_prompt_tools_and_instructions() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write("project/RULES.md", "Never use tabs.\n");
    home.write(
        ".config/plimsoll/config.toml",
        &format!(
            "model = \"harbour/big\"\ninstructions = [\"{}\"]\n\n[providers.harbour]\napi = \"openai\"\nbase_url = \"{}\"\nkey = \"{{env:HARBOUR_KEY}}\"\n\n\
             [agents.reviewer]\nprompt = \"You review code.\"\nsteps = 3\n\n[agents.reviewer.tools]\nbash = false\n",
            home.project.join("RULES.md").display(),
            server.url()
        ),
    );
    server.push(Reply::new().text("Fine."));
    let output = run_with(&home, &["--agent", "reviewer", "Review"], &[("HARBOUR_KEY", KEY)]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "Fine.\n"), "{}", stderr(&output));
    let request: Captured = server.last().unwrap();
    assert!(request.system.contains("You review code.") && request.system.contains("Never use tabs."));
    assert!(!request.tools.contains(&"bash".to_owned()) && request.tools.contains(&"read".to_owned()));
    assert_eq!(request.path, "/responses");
}

#[test]
fn an_answer_that_was_cut_off_or_filtered_is_not_a_success() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.push(Reply::new().text("Once upon").finish(Finish::Length));
    let output = run(&home, &server, &["--model", MODEL, "Tell a story"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (1, "Once upon\n"));
    assert!(stderr(&output).contains("reached the output limit"), "{}", stderr(&output));
    server.push(Reply::new().text("I will not").finish(Finish::Filter));
    assert_eq!(code(&run(&home, &server, &["--model", MODEL, "Do something bad"])), 1);
    let output = run(&home, &server, &["--model", "anthropic/nobody-knows-it", "--max-cost", "1", "Hello"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("--max-tokens"), "{}", stderr(&output));
}

#[test]
fn keys_of_configured_providers_are_not_in_the_environment_of_commands() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write(
        ".config/plimsoll/config.toml",
        &format!(
            "model = \"harbour/big\"\n\n[providers.harbour]\napi = \"anthropic\"\nbase_url = \"{}\"\nkey = \"{{env:HARBOUR_KEY}}\"\n\n\
             [agents.quiet]\nprompt = \"You are quiet.\"\n",
            server.url()
        ),
    );
    server.push_all([
        Reply::new().call("call_1", "bash", json!({ "command": "env" })),
        Reply::new().text("Done."),
    ]);
    let path = std::env::var("PATH").unwrap();
    let variables = [("HARBOUR_KEY", KEY), ("PATH", path.as_str()), ("HARBOUR_NAME", "north")];
    let output = run_with(&home, &["--agent", "quiet", "--allow", "bash", "Show it"], &variables);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let request = server.last().unwrap();
    let shown = request.result("call_1").unwrap();
    assert!(shown.contains("HARBOUR_NAME=north") && !shown.contains("HARBOUR_KEY"), "{shown}");
    // The session continues with its agent.
    server.push(Reply::new().text("Still quiet."));
    let output = run_with(&home, &["--continue", "Hello"], &variables);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(server.last().unwrap().system.contains("You are quiet."));
}

/// Keys in headers, in an address and in a file that a variable repeats, in the environments of a command, a hook and a server.
#[test]
fn no_key_of_a_provider_is_in_the_environment_of_other_processes() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let url = server.url().replace("http://", "http://{env:HARBOUR_LOGIN}@");
    home.write(".config/plimsoll/secret", "sk-in-a-file-0123456789");
    home.write(
        ".config/plimsoll/config.toml",
        &format!(
            "model = \"harbour/big\"\n[providers.harbour]\napi = \"anthropic\"\nbase_url = \"{url}\"\n\
             [providers.harbour.headers]\nAuthorization = \"Bearer {{env:HARBOUR_KEY}}\"\nX-Other = \"v1 {{file:secret}}\"\n\
             [mcp.port]\ncommand = [\"sh\", \"-c\", \"env > server.env\"]\n\
             [[hooks]]\nevent = \"tool.after\"\ncommand = [\"sh\", \"-c\", \"env > hook.env\"]\n",
        ),
    );
    server.push_all([
        Reply::new().call("call_1", "bash", json!({ "command": "env > command.env" })),
        Reply::new().text("Done."),
    ]);
    let path = std::env::var("PATH").unwrap();
    let header = format!("Bearer {KEY}");
    let variables = [
        ("WRAPPED", header.as_str()),
        ("OPENCODE_SERVER_PASSWORD", "the-servers-own"),
        ("HARBOUR_KEY", KEY),
        ("HARBOUR_LOGIN", "me:hunter2"),
        ("HARBOUR_COPY", "sk-in-a-file-0123456789"),
        // What servers are given as well.
        ("TZ", KEY),
        ("PATH", path.as_str()),
        ("LANG", "north"),
    ];
    let output = run_with(&home, &["--allow", "bash", "Show it"], &variables);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for name in ["command.env", "hook.env", "server.env"] {
        let seen = std::fs::read_to_string(home.project.join(name)).unwrap();
        assert!(seen.contains("LANG=north"), "{name}: {seen}");
        for secret in [KEY, "hunter2", "sk-in-a-file", "HARBOUR_", "the-servers-own"] {
            assert!(!seen.contains(secret), "{name} has {secret}: {seen}");
        }
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
}

/// Following the suggested setting makes the call work.
#[test]
fn the_setting_that_a_denial_names_allows_the_call() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let call = || Reply::new().call("call_1", "bash", json!({ "command": "touch made" }));
    server.push_all([call(), Reply::new().text("Denied.")]);
    let printed = stderr(&run(&home, &server, &["--model", MODEL, "Make it"]));
    let (_, setting) = printed.split_once("or `").unwrap();
    let (setting, then) = setting.split_once('`').unwrap();
    assert!(then.starts_with(" in plimsoll.toml, then `plimsoll trust`"), "{printed}");
    home.write("project/plimsoll.toml", &format!("{setting}\n"));
    let trusted = home.run(&["trust"]);
    assert!(trusted.starts_with("exit: 0"), "{trusted}");
    server.push_all([call(), Reply::new().text("Made.")]);
    let output = run(&home, &server, &["--model", MODEL, "Make it"]);
    assert!(home.project.join("made").exists(), "{}", stderr(&output));
}

#[test]
fn a_rejected_address_is_reported_with_the_setting_that_allows_it() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let call = json!({ "url": "http://localhost:9/a/long/path/to/a/page/that/nobody/has/ever/written" });
    server.push_all([Reply::new().call("call_1", "webfetch", call), Reply::new().text("Refused.")]);
    let printed = stderr(&run(&home, &server, &["--model", MODEL, "--allow", "webfetch", "Fetch it"]));
    assert!(printed.contains("· webfetch http://localhost:9/a/long"), "{printed}");
    let hint = "webfetch was denied; `webfetch.hosts = [\"localhost:9\"]` in plimsoll.toml, then `plimsoll trust`, allows it";
    assert!(printed.contains(hint), "{printed}");
    let said = server.last().unwrap().result("call_1").unwrap().to_owned();
    assert!(said.starts_with("Refused: `localhost` is this machine itself."), "{said}");
}

#[test]
fn continuing_a_session_in_another_directory_is_reported() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    server.repeat(Reply::new().text("Here."));
    let printed = stderr(&run(&home, &server, &["--model", MODEL, "Where?"]));
    let (_, id) = printed.trim_end().rsplit_once("session ").unwrap();
    assert!(!printed.contains("so far"), "{printed}");
    std::fs::create_dir_all(home.path.join("other")).unwrap();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &server.url())];
    let mut command = home.command(&["run", "--session", id, "And now?"], &variables);
    let output = command.current_dir(home.path.join("other")).stdin(Stdio::null()).output().unwrap();
    let printed = stderr(&output);
    assert!(
        printed.contains("note: the session was started in `~/project` and continues in this directory"),
        "{printed}"
    );
    let again = stderr(&run(&home, &server, &["--session", id, "And here?"]));
    assert!(!again.contains("so far"), "{again}");
}

/// Decoded token tables took 64 MB before the first request was sent. Pages of the executable do not count.
#[cfg(target_os = "linux")]
#[test]
fn little_memory_is_used_before_the_first_request() {
    let home = Home::new();
    let gate = Gate::new();
    let server = ModelServer::start().unwrap();
    server.push(Reply::new().text("Aye.").gate(0, &gate));
    let url = server.url();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
    let mut command = home.command(&["run", "--model", MODEL, "Go"], &variables);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(gate.wait_reached());
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let held = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let held: u64 = held.trim().trim_end_matches(" kB").parse().unwrap();
    gate.release();
    assert!(child.wait().unwrap().success());
    println!("{held} kB at the first request");
    assert!(held < 30_000, "{held} kB");
}
