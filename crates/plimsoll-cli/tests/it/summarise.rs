//! `compact` with a model or a command that summarises, and with an editor between.

use plimsoll_testkit::server::{Fault, ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::{Home, export};

const KEY: &str = "sk-ant-test-0123456789abcdefghij";
const MODEL: &str = "anthropic/claude-haiku-4-5";

/// A home with a session of eight long outputs in its database, and that session's id.
fn stored() -> (Home, String) {
    let home = Home::new();
    let session = export(&home.project);
    home.write("project/s.json", &session.to_string());
    assert!(home.run(&["sessions", "import", "s.json"]).starts_with("exit: 0"));
    (home, session["info"]["id"].as_str().unwrap().to_owned())
}

fn window(home: &Home, id: &str) -> String {
    home.run(&["window", "--as", "openai-chat", "--session", id])
}

fn run(home: &Home, server: &ModelServer, args: &[&str]) -> String {
    home.run_with(args, &[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &server.url())])
}

#[test]
fn a_model_summarises_a_stored_session_and_it_can_be_undone() {
    let ((home, id), server) = (stored(), ModelServer::start().unwrap());
    let before = window(&home, &id);
    server.push(Reply::new().text("## Goal\nThe build was read through; never touch the tests."));
    let printed = run(&home, &server, &["compact", "--model", MODEL, "--apply", "--session", &id, "--json"]);
    assert!(printed.starts_with("exit: 0"), "{printed}");
    let json = printed.lines().find(|line| line.starts_with('{')).unwrap();
    let receipt: Value = serde_json::from_str::<Value>(json).unwrap()["receipts"][0].clone();
    assert_eq!(receipt["plan"]["made"], "byModel");
    // The request: the model, no tools, the history to be summarised.
    let captured = server.requests();
    assert_eq!(captured.len(), 1);
    let body = &captured[0].body;
    assert_eq!(body["model"], "claude-haiku-4-5");
    assert!(body.get("tools").is_none_or(|tools| tools.as_array().is_some_and(Vec::is_empty)), "{body}");
    assert!(body["messages"].to_string().contains("Never touch the tests"), "the history is asked about");
    let reduced = window(&home, &id);
    assert!(reduced.contains("The build was read through"));
    assert!(reduced.contains(r#""model":"model-1""#), "the session's model is not the one that summarised");
    let undone = home.run(&["undo", receipt["id"].as_str().unwrap()]);
    assert!(undone.starts_with("exit: 0"), "{undone}");
    assert_eq!(window(&home, &id), before);
}

#[test]
fn any_compatible_endpoint_will_do_and_a_file_is_only_read() {
    let ((home, _), server) = (stored(), ModelServer::start().unwrap());
    server.push(Reply::new().text("## Goal\nSummarised elsewhere."));
    let url = format!("{}/v1", server.url());
    let printed = home.run_with(
        &["compact", "-m", "openai-chat/local-model", "s.json"],
        &[("OPENAI_BASE_URL", &url), ("OPENAI_API_KEY", "none")],
    );
    assert!(printed.starts_with("exit: 0") && printed.contains("Summarised elsewhere."), "{printed}");
    assert_eq!(server.requests()[0].body["model"], "local-model");
}

#[test]
fn if_the_summariser_fails_the_session_is_unchanged() {
    let ((home, id), server) = (stored(), ModelServer::start().unwrap());
    let before = window(&home, &id);
    let apply = |more: &[&str]| {
        let args = [&["compact", "--apply", "--session", &id], more].concat();
        let printed = run(&home, &server, &args);
        assert_eq!(window(&home, &id), before, "{printed}");
        printed
    };
    server.push(Reply::failing(Fault::status(400)));
    let refused = apply(&["--model", MODEL]);
    assert!(refused.starts_with("exit: 3") && refused.contains("nothing was changed"), "{refused}");
    assert!(!refused.contains(KEY), "{refused}");
    for (command, printed) in [
        ("exit 7", "it failed with exit status: 7"),
        ("echo no quota >&2; exit 1", "no quota"),
        ("true", "the summary was empty"),
        ("cat; cat /dev/zero | tr '\\0' x | head -c 2000000", "is not smaller than"),
        ("no-such-command-here", "it failed with exit status: 127"),
    ] {
        let failed = apply(&["--command", command]);
        assert!(failed.starts_with("exit: 3") && failed.contains(printed), "{command}: {failed}");
    }
    for (flags, printed) in [
        (vec![], "`--apply` needs a summary"),
        (vec!["--edit"], "required arguments"),
        (vec!["--model", "nowhere/at-all"], "nowhere"),
        (vec!["--model", MODEL, "--offline"], "cannot be used with"),
        (vec!["--model", MODEL, "--command", "x"], "cannot be used with"),
    ] {
        let wrong = apply(&flags);
        assert!(wrong.starts_with("exit: 2") && wrong.contains(printed), "{flags:?}: {wrong}");
    }
}

#[test]
fn a_command_reads_the_request_and_prints_the_summary() {
    let (home, id) = stored();
    let command = "tee request.txt | grep -c 'Never touch the tests' | sed 's/.*/# A summary by a command./'";
    let printed = home.run(&["compact", "--apply", "--session", &id, "--command", command]);
    assert!(printed.starts_with("exit: 0"), "{printed}");
    assert!(window(&home, &id).contains("A summary by a command."));
    let request = std::fs::read_to_string(home.project.join("request.txt")).unwrap();
    assert!(request.contains("Never touch the tests") && request.len() > 1_000);
    // One that answers without reading is as good.
    let printed = home.run(&["compact", "s.json", "--command", "echo '## Goal'; echo 'Not read.'"]);
    assert!(printed.starts_with("exit: 0") && printed.contains("Not read."), "{printed}");
}

#[test]
fn a_summary_is_edited_before_it_is_applied() {
    let (home, id) = stored();
    let before = window(&home, &id);
    let apply = |editor: &str| {
        home.run_with(
            &["compact", "--apply", "--session", &id, "--command", "echo first words", "--edit"],
            &[("EDITOR", editor), ("PATH", "/usr/bin:/bin")],
        )
    };
    let emptied = apply("truncate -s 0");
    assert!(emptied.starts_with("exit: 1") && emptied.contains("the summary is empty"), "{emptied}");
    let failed = apply("false");
    assert!(failed.starts_with("exit: 3") && failed.contains("`false` failed with"), "{failed}");
    let none = home.run(&["compact", "--apply", "--session", &id, "--command", "echo x", "--edit"]);
    assert!(none.starts_with("exit: 2") && none.contains("VISUAL or EDITOR"), "{none}");
    assert_eq!(window(&home, &id), before);
    let edited = apply("sed -i 's/first/second/'");
    assert!(edited.starts_with("exit: 0"), "{edited}");
    let shown = window(&home, &id);
    assert!(
        shown.contains("second words") && !shown.contains("first words"),
        "{edited}\n{}",
        &shown[..shown.len().min(1_500)]
    );
}

/// Without a model, the preview equals what would be applied: both fail if the summary is not shorter.
#[test]
fn an_offline_summary_is_shown_if_it_would_be_applied() {
    let home = Home::new();
    let said = |role: &str, text: String| serde_json::json!({ "role": role, "content": text });
    let mut is_shown = Vec::new();
    for words in [1, 10, 30, 60, 100, 1_000] {
        let text = |words: usize| "rate limits ".repeat(words);
        let chat = [
            said("user", text(words)),
            said("assistant", text(words)),
            said("user", text(1)),
            said("assistant", text(1)),
            said("user", "And now?".to_owned()),
        ];
        home.write("project/chat.json", &serde_json::json!({ "messages": chat }).to_string());
        let printed = home.run(&["sessions", "import", "chat.json"]);
        let id = printed.lines().nth(2).unwrap().to_owned();
        let shown = home.run(&["compact", "--offline", &id]);
        let as_json = home.run(&["compact", "--offline", &id, "--json"]);
        let applied = home.run(&["compact", "--offline", "--apply", &id]);
        let code = |printed: &str| printed.lines().next().unwrap().to_owned();
        assert_eq!(code(&shown), code(&applied), "{words}: {shown}\n{applied}");
        assert_eq!(code(&as_json), code(&applied), "{words}: {as_json}\n{applied}");
        if code(&applied) == "exit: 0" {
            let summary = shown.lines().skip(2).take_while(|line| !line.starts_with("----- stderr"));
            let window = home.run(&["window", &id]);
            summary.for_each(|line| assert!(window.contains(line), "{line}: {window}"));
        }
        is_shown.push(code(&applied) == "exit: 0");
    }
    assert!(is_shown.contains(&true) && is_shown.contains(&false), "{is_shown:?}");
}

#[test]
fn a_missing_key_names_its_variable() {
    let (home, id) = stored();
    for (model, variable) in [
        (MODEL, "ANTHROPIC_API_KEY"),
        ("openai/gpt-5", "OPENAI_API_KEY"),
        ("openai-chat/gpt-5", "OPENAI_API_KEY"),
    ] {
        for more in [None, Some("--apply")] {
            let args: Vec<&str> =
                ["compact", "--model", model, "--session", &id].into_iter().chain(more).collect();
            let printed = home.run(&args);
            assert!(
                printed.starts_with("exit: 2") && printed.contains(&format!("hint: set `{variable}`")),
                "{printed}"
            );
        }
    }
}

/// The limits of configured models were applied by one loader of the configuration and not by the other, so that the same
/// session was compacted in a window of 200,000 tokens with a model and in its own without.
#[test]
fn a_session_is_compacted_in_the_same_window_with_a_model_and_without() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    let config = format!(
        "[providers.local]\napi = \"openai-chat\"\nbase_url = \"{}/v1\"\n\n\
         [providers.local.models.harbour-1]\ncontext = 24000\noutput = 2000\n",
        server.url()
    );
    home.write(".config/plimsoll/config.toml", &config);
    let turns = (0..30).flat_map(|turn| {
        let words = |word: &str| format!("{turn}: {}", word.repeat(400));
        [
            json!({ "role": "user", "content": words("why ") }),
            json!({ "role": "assistant", "content": words("so. ") }),
        ]
    });
    let chat = json!({ "model": "harbour-1", "messages": turns.collect::<Vec<_>>() });
    home.write("project/s.json", &chat.to_string());
    let tail = |more: &[&str]| {
        let found = home.json(&[&["compact", "--json", "s.json"], more].concat());
        found["plan"]["tailMessages"].as_u64().unwrap_or_else(|| panic!("{more:?}: {found}"))
    };
    let offline = tail(&["--offline"]);
    assert_ne!(offline, tail(&["--offline", "--context", "200000"]), "the window decides what stays");
    // The history is summarised in several requests.
    server.push_all((0..20).map(|_| Reply::new().text("## Goal\nAnswer why.")));
    assert_eq!(tail(&["--model", "local/harbour-1"]), offline);
}

/// A summariser that does not answer once took two hours.
#[test]
fn a_compaction_by_command_ends_after_its_time_limit() {
    let ((home, id), server) = (stored(), ModelServer::start().unwrap());
    home.write(".config/plimsoll/config.toml", "[compact]\nmaxSeconds = 1\n");
    let before = window(&home, &id);
    server.push(Reply::failing(Fault::NoAnswer));
    let mark = home.project.join("pid");
    let command = format!("sleep 1000 | (echo $$ > {}; cat)", mark.display());
    for source in [["--model", MODEL], ["--command", &command], ["--command", "cat /dev/zero"]] {
        for range in [vec![], vec!["--from", "msg_fixed0000004", "--to", "msg_fixed0000007"]] {
            if source[0] == "--model" {
                server.push(Reply::failing(Fault::NoAnswer));
            }
            let args = [&["compact", "--apply", "--session", &id], &source[..], &range].concat();
            let printed = run(&home, &server, &args);
            let why = match source[1] {
                "cat /dev/zero" => "its output has more than 16 MB",
                _ => "timed out after 1 seconds",
            };
            assert!(printed.starts_with("exit: 3") && printed.contains(why), "{args:?}: {printed}");
            assert!(printed.contains("nothing was changed"), "{printed}");
        }
    }
    assert_eq!(window(&home, &id), before);
    let pid = std::fs::read_to_string(mark).unwrap();
    let is_running =
        |pid: &str| std::path::Path::new("/proc").join(pid.trim()).join("exe").read_link().is_ok();
    assert!(!is_running(&pid), "the command is still running");
}
