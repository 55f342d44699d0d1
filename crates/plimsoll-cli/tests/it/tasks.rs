//! `plimsoll tasks`, `plimsoll fork --run` and the tasks of `plimsoll run`, against a scripted model on this machine.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plimsoll::{Tokens, Usage};
use plimsoll_testkit::server::{Captured, Gate, ModelServer, Reply};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Home, export};
use crate::tmux::{Tmux, is_missing};

const KEY: &str = "sk-ant-test-0123456789abcdefghij";
const MODEL: &str = "anthropic/claude-sonnet-4-6";
/// The session of [`export`].
const PARENT: &str = "ses_5c1000000001ABCDEFGHIJKLMN";
/// Longer than a busy machine needs for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

fn command(home: &Home, server: &ModelServer, args: &[&str]) -> Command {
    let url = server.url();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
    let mut command = home.command(args, &variables);
    command.stdin(Stdio::null());
    command
}

fn run(home: &Home, server: &ModelServer, args: &[&str]) -> Output {
    command(home, server, args).output().unwrap()
}

fn spawn(home: &Home, server: &ModelServer, args: &[&str]) -> Child {
    command(home, server, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
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

/// A home with a stored session that has eight long outputs.
fn with_parent() -> Home {
    let home = Home::new();
    let path = home.write("session.json", &export(&home.project).to_string());
    let printed = home.run(&["sessions", "import", path.to_str().unwrap()]);
    assert!(printed.contains(PARENT), "{printed}");
    home
}

/// Output of a command, with values that differ from run to run replaced.
fn assert_page(name: &str, page: &str) {
    let filters = [
        (r"ses_5c1000000001ABCDEFGHIJKLMN", "ses_[PARENT]"),
        (r"ses_[0-9a-f]{12}[0-9A-Za-z]{14}\b", "ses_[TASK]"),
        (r"\b[0-9a-f]{8,12}\b", "[SHORT]"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "[TIME]"),
        (r" +(\d+m )?\d+s\b", " [S]s"),
        (r"\d+\.\d s\b", "[SECONDS]"),
        (r"[\d,]+ of [\d,]+ tokens", "[N] of [N] tokens"),
        (r"\d+:\d\d", "[ELAPSED]"),
        (r"input [\d,]+", "input [N]"),
        (r"cache (read|write) [\d,]+", "cache $1 [N]"),
        (r"output [\d,]+", "output [N]"),
        (r"\$\d+\.\d+", "$$[COST]"),
        (r"[\d,]+ tokens", "[N] tokens"),
        (r"[\d,]+ from the cache\), [\d,]+ out", "[N] from the cache), [N] out"),
        (r"[\d,]+ chars", "[N] chars"),
    ];
    insta::with_settings!({ filters => filters }, { insta::assert_snapshot!(name, page) });
}

/// The only task there is, as machines see it.
fn only_task(home: &Home) -> Value {
    let tasks = home.json(&["tasks", "--all", "--json"]);
    assert_eq!(tasks.as_array().unwrap().len(), 1, "{tasks}");
    tasks[0].clone()
}

fn wait_for_status(home: &Home, status: &str) -> Value {
    let begun = Instant::now();
    loop {
        let tasks = home.json(&["tasks", "--all", "--json"]);
        if tasks[0]["status"] == status {
            return tasks[0].clone();
        }
        assert!(begun.elapsed() < PATIENCE, "no task is {status}: {tasks}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn has_task(request: &Captured, prompt: &str) -> bool {
    let users = request.messages.iter().filter(|message| message.role == "user");
    users.map(|message| message.text()).any(|text| text.contains(prompt))
}

#[test]
fn r73_run_waits_for_its_tasks_reports_their_ends_and_lets_the_model_answer() {
    let home = Home::new();
    let server = ModelServer::answering(|request| {
        let said = request.last_user_text();
        if said == "Measure the harbour." {
            let slowly = Duration::from_millis(150);
            return Reply::new().text("It is nine metres deep.").piece_size(Some(2)).pause(slowly);
        }
        if request.call_ids().is_empty() {
            let input =
                json!({ "description": "Measure it", "prompt": "Measure the harbour.", "agent": "explore" });
            return Reply::new().call("call_1", "background_task", input);
        }
        if said.contains("Task Progress: 1/1") {
            return Reply::new().text("Nine metres, says the task.");
        }
        Reply::new().text("I have handed it on.")
    })
    .unwrap();
    let output = run(&home, &server, &["run", "--model", MODEL, "How deep is it?"]);
    let printed = stderr(&output);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "Nine metres, says the task.\n"), "{printed}");
    assert_page("run", &printed);
    let task = only_task(&home);
    assert_eq!(
        (task["status"].as_str(), task["result"].as_str()),
        (Some("completed"), Some("It is nine metres deep."))
    );
    // Machines get the same as events.
    let output = run(&home, &server, &["run", "--json", "--model", MODEL, "How deep is it?"]);
    let kinds: Vec<Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone())
        .collect();
    for kind in ["taskLaunched", "taskProgress", "taskEnded", "report"] {
        assert!(kinds.iter().any(|other| other == kind), "{kind} in {kinds:?}");
    }
}

#[test]
fn a_fork_runs_on_an_imported_session_and_is_listed_shown_and_resumed() {
    let (home, server) = (with_parent(), ModelServer::start().unwrap());
    server.push(Reply::new().text("Only the tests are missing."));
    let args = ["fork", PARENT, "--run", "What is missing?", "--model", MODEL, "--agent", "explore"];
    let output = run(&home, &server, &args);
    assert_eq!(
        (code(&output), stdout(&output).as_str()),
        (0, "Only the tests are missing.\n"),
        "{}",
        stderr(&output)
    );
    let request = server.last().unwrap();
    assert!(request.contains("Next 2") && has_task(&request, "What is missing?"), "{}", request.outline());
    assert!(request.system.contains("without changing anything"), "the agent is `explore`");
    assert_page("fork_run", &stderr(&output));
    let task = only_task(&home);
    let id = task["id"].as_str().unwrap().to_owned();
    let short = &id["ses_".len().."ses_".len() + 8];
    assert_eq!((task["parent"].as_str(), task["fork"]["way"].as_str()), (Some(PARENT), Some("digest")));
    // Any length of the id names it, with its prefix or without.
    for name in [&id["ses_".len()..], &id[.."ses_".len() + 6], short] {
        assert_eq!(home.json(&["tasks", "show", name, "--json"])["id"], id.as_str());
    }
    assert_page(
        "completed",
        &home.page(&[
            "tasks",
            &format!("tasks show {short}"),
            &format!("tasks output {short}"),
            &format!("tasks output {short} --json"),
            &format!("tasks cancel {short}"),
            &format!("tasks steer {short} more"),
        ]),
    );
    let said = home.run(&["tasks", "output", short, "--full", "--messages", "1"]);
    assert!(
        said.contains("] assistant: Only the tests are missing.") && !said.contains("] user: "),
        "{said}"
    );
    // It continues here, with its own model and history.
    server.push(Reply::new().text("The documentation, too."));
    let output = run(&home, &server, &["tasks", "resume", short, "What", "else?"]);
    assert_eq!(
        (code(&output), stdout(&output).as_str()),
        (0, "The documentation, too.\n"),
        "{}",
        stderr(&output)
    );
    let request = server.last().unwrap();
    assert!(request.contains("Only the tests are missing.") && request.last_user_text() == "What else?");
    assert_eq!(request.model, "claude-sonnet-4-6");
    assert_page(
        "resumed",
        &home.page(&[
            "tasks list",
            &format!("tasks show {short}"),
            "tasks clear",
            "tasks",
            "tasks --cleared --status error",
        ]),
    );
    // The parent is notified when it is opened next.
    server.push(Reply::new().text("Good."));
    let output = run(&home, &server, &["run", "--model", MODEL, "--session", PARENT]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "Good.\n"), "{}", stderr(&output));
    let request = server.last().unwrap();
    assert!(request.contains("Resume #1 completed in"), "{}", request.outline());
}

#[test]
fn the_cost_of_tasks_is_shown_with_their_parents_and_counts_against_the_limit_of_a_run() {
    let home = Home::new();
    home.write(".config/plimsoll/config.toml", "[agents.general]\ntools = { \"background_*\" = true }\n");
    let emit_first = |prompt: &str, agent: &str| {
        let input =
            json!({ "description": agent, "prompt": prompt, "agent": agent, "fork": agent == "general" });
        Reply::new().call("call_1", "background_task", input)
    };
    let server = ModelServer::answering(move |request| {
        let charged = |reply: Reply, input| reply.usage(Usage::new(Tokens(input), Tokens(1)));
        if has_task(request, "Measure the harbour.") {
            return charged(Reply::new().text("Nine metres."), 4_999);
        }
        let is_first = request.call_ids().is_empty();
        let reply = match has_task(request, "Survey the harbour.") {
            true if is_first => emit_first("Measure the harbour.", "explore"),
            false if is_first => emit_first("Survey the harbour.", "general"),
            _ => Reply::new().text("So be it."),
        };
        charged(reply, 9)
    })
    .unwrap();
    let output = run(&home, &server, &["run", "--model", MODEL, "How deep is it?"]);
    let printed = stderr(&output);
    assert_eq!(code(&output), 0, "{printed}");
    // The survey launches, halts and answers the notification, ten tokens each.
    assert!(printed.contains("; its tasks 5,030 tokens, $0.0"), "{printed}");
    let tasks = home.json(&["tasks", "--all", "--json"]);
    let survey = tasks.as_array().unwrap().iter().find(|task| task["agent"] == "general").unwrap();
    assert_eq!((&survey["fork"]["cut"], &survey["fork"]["way"]), (&json!(false), &json!("digest")));
    let shown = home.json(&["tasks", "show", survey["id"].as_str().unwrap(), "--json"]);
    assert_eq!(shown["tasksSpend"]["usage"]["input"], 4_999, "{shown}");
    assert_eq!(shown["progress"]["usage"]["input"], 27, "its own apart from that");
    let page = home.run(&["tasks", "show", survey["id"].as_str().unwrap()]);
    assert!(page.contains("  its tasks    5,000 tokens, $0.0"), "{page}");
    let list = home.run(&["tasks", "--all"]);
    assert!(list.contains("1 fork: 1 digest; about "), "{list}");
    // The same again, with less than the tasks will spend.
    let args = ["run", "--max-tokens", "4000", "--model", MODEL, "How deep is it?"];
    let output = run(&home, &server, &args);
    let printed = stderr(&output);
    assert_eq!(code(&output), 1, "{printed}");
    assert!(printed.contains("stopped at the token limit of a run (`--max-tokens`)"), "{printed}");
}

#[test]
fn a_fork_with_the_history_begins_as_its_parent_ended() {
    let (home, server) = (Home::new(), ModelServer::start().unwrap());
    home.write("project/depth.txt", "nine metres\n");
    server.push_all([
        Reply::new().call("call_1", "read", json!({ "path": "depth.txt" })),
        Reply::new().text("It is nine metres deep."),
    ]);
    assert_eq!(code(&run(&home, &server, &["run", "--model", MODEL, "How deep?"])), 0);
    let parent = server.last().unwrap();
    server.push(Reply::new().text("In metres."));
    let args = ["fork", "--run", "In which unit?", "--inherit", "history", "--model", MODEL, "--json"];
    let output = run(&home, &server, &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let last = stdout(&output);
    let task: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!(
        (task["type"].as_str(), task["fork"]["way"].as_str()),
        (Some("task"), Some("history")),
        "{task}"
    );
    assert_eq!((task["agent"].as_str(), task["result"].as_str()), (Some("build"), Some("In metres.")));
    let child = server.last().unwrap();
    assert_eq!(child.system, parent.system);
    assert!(child.messages.len() > parent.messages.len() && child.result("call_1").is_some());
    assert!(child.contains("nine metres deep") && has_task(&child, "In which unit?"), "{}", child.outline());
}

#[test]
fn another_process_steers_a_task_queues_a_resume_and_cancels_it() {
    let (home, server) = (with_parent(), ModelServer::start().unwrap());
    let (first, second, third) = (Gate::new(), Gate::new(), Gate::new());
    server.push_all([
        Reply::new().call("call_1", "list", json!({})).gate(0, &first),
        Reply::new().text("I leave them alone.").gate(0, &second),
        Reply::new().text("Never said.").gate(0, &third),
    ]);
    let args = ["fork", PARENT, "--run", "Tidy up", "--model", MODEL, "--description", "Tidy up the harbour"];
    let child = spawn(&home, &server, &args);
    assert!(first.wait_reached());
    let task = wait_for_status(&home, "running");
    let id = task["id"].as_str().unwrap()[4..12].to_owned();
    assert_page(
        "running",
        &home.page(&[
            "tasks",
            &format!("tasks output {id}"),
            &format!("tasks steer {id} leave the tests alone"),
            "tasks clear",
            &format!("tasks resume {id} And the docks?"),
            &format!("tasks resume {id} And the cranes?"),
        ]),
    );
    let waited = run(&home, &server, &["tasks", "output", &id, "--wait=0"]);
    assert_eq!(
        (code(&waited), stderr(&waited).as_str()),
        (1, "the task is still running: waiting for the model\n")
    );
    first.release();
    assert!(second.wait_reached());
    let request = server.last().unwrap();
    assert_eq!(request.last_user_text(), "leave the tests alone", "{}", request.outline());
    second.release();
    // The resume that was put in line begins by itself.
    assert!(third.wait_reached());
    assert_eq!(server.last().unwrap().last_user_text(), "And the docks?");
    wait_for_status(&home, "resumed");
    // One that was resumed runs.
    let running = home.json(&["tasks", "--json", "--status", "running"]);
    assert_eq!(running[0]["status"], "resumed", "{running}");
    assert_page("cancelled", &home.page(&[&format!("tasks cancel {id}")]));
    let output = child.wait_with_output().unwrap();
    third.release();
    // The run that was asked for here has its answer; the one in line was another's.
    assert_eq!(
        (code(&output), stdout(&output).as_str()),
        (0, "I leave them alone.\n"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("a queued resume ran after this"), "{}", stderr(&output));
    let shown = home.run(&["tasks", "show", &id]);
    assert!(shown.contains("\nResult of run 1\n  I leave them alone."), "{shown}");
    assert_eq!(only_task(&home)["status"], "cancelled");
}

#[test]
fn a_resume_prints_its_own_answer_although_another_is_queued() {
    let (home, server) = (with_parent(), ModelServer::start().unwrap());
    server.push(Reply::new().text("Nine metres."));
    let output = run(&home, &server, &["fork", PARENT, "--run", "How deep?", "--model", MODEL]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let id = only_task(&home)["id"].as_str().unwrap().to_owned();
    put_in_line(&home, &id, "And the docks?");
    server.push_all([Reply::new().text("Three cranes."), Reply::new().text("Two docks.")]);
    let output = run(&home, &server, &["tasks", "resume", &id, "And the cranes?"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "Three cranes.\n"), "{}", stderr(&output));
    assert!(stderr(&output).contains("a queued resume ran after this"), "{}", stderr(&output));
    let task = only_task(&home);
    assert_eq!(
        (&task["result"], &task["runs"][1]["result"]),
        (&json!("Two docks."), &json!("Three cranes."))
    );
}

/// A queued resume of an ended task, as left by a process that dies at that moment.
fn put_in_line(home: &Home, id: &str, words: &str) {
    let archive = home.archive();
    let record = archive.store().task(id).unwrap();
    let mut data = record.data.clone();
    data["pending"] = words.into();
    let step = plimsoll_store::TaskMove {
        from: record.status.clone(),
        to: record.status,
        data: Some(data),
        ..Default::default()
    };
    archive.store().move_task(id, step, plimsoll::Millis(1)).unwrap();
}

#[test]
fn an_interrupt_leaves_a_task_that_can_be_resumed_and_so_does_a_kill() {
    let (home, server) = (with_parent(), ModelServer::start().unwrap());
    for signal in [Signal::INT, Signal::KILL] {
        let gate = Gate::new();
        server.push(Reply::new().text("Never said.").gate(0, &gate));
        let args = ["fork", PARENT, "--run", "Count the ships", "--model", MODEL];
        let child = spawn(&home, &server, &args);
        assert!(gate.wait_reached());
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        gate.release();
        if signal == Signal::INT {
            assert_eq!(code(&output), 130, "{}", stderr(&output));
            assert!(stderr(&output).contains("resume it with"), "{}", stderr(&output));
        }
        let tasks = home.json(&["tasks", "--json", "--status", "interrupted"]);
        let id = tasks[0]["id"].as_str().unwrap_or_else(|| panic!("{signal:?}: {tasks}")).to_owned();
        server.push(Reply::new().text("Three ships."));
        let output = run(&home, &server, &["tasks", "resume", &id, "Go on"]);
        assert_eq!((code(&output), stdout(&output).as_str()), (0, "Three ships.\n"), "{}", stderr(&output));
    }
}

#[test]
fn denials_of_a_task_name_the_flag_that_allows_them() {
    let (home, server) = (with_parent(), ModelServer::start().unwrap());
    let script = || {
        [Reply::new().call("call_1", "bash", json!({ "command": "touch made" })), Reply::new().text("Done.")]
    };
    server.push_all(script());
    let args = ["fork", PARENT, "--run", "Make it", "--model", MODEL];
    let output = run(&home, &server, &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("--allow 'bash:touch made'") || stderr(&output).contains("--allow"),
        "{}",
        stderr(&output)
    );
    assert!(!home.project.join("made").exists());
    server.push_all(script());
    let path = std::env::var("PATH").unwrap();
    let output = command(&home, &server, &[&args[..], &["--allow", "bash:touch *"]].concat())
        .env("PATH", path)
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(home.project.join("made").exists(), "{}", stderr(&output));
}

#[test]
fn usage_errors_about_tasks_suggest_a_correction() {
    let empty = Home::new();
    let before = empty.files();
    let mut page = empty.page(&["tasks", "tasks --json", "tasks show 1e0f", "tasks --watch"]);
    assert_eq!(empty.files(), before, "looking makes no database");
    let home = with_parent();
    page.push_str(&home.page(&[
        "tasks",
        "tasks --all",
        "tasks --session ses_5c",
        "tasks --status done",
        "tasks show 1e0f",
        "tasks cancel 1e0f",
        "tasks clear",
        "fork ses_5c --run hello",
        "fork ses_5c --run hello --agent nobody --model anthropic/claude-sonnet-4-6",
        "fork ses_5c --inherit history",
        "fork nowhere --run hello",
    ]));
    assert_page("wrong", &page);
}

#[test]
fn a_live_list_is_redrawn_in_place_until_the_tasks_have_ended_or_ctrl_c() {
    if is_missing("a_live_list_is_redrawn_in_place_until_the_tasks_have_ended_or_ctrl_c") {
        return;
    }
    let (home, server) = (with_parent(), ModelServer::start().unwrap());
    home.write("project/depth.txt", "nine metres\n");
    let gate = Gate::new();
    server.push_all([
        Reply::new().call("call_1", "read", json!({ "path": "depth.txt" })),
        Reply::new().text("Nine metres.").gate(0, &gate),
    ]);
    let args = ["fork", PARENT, "--run", "How deep is the harbour?", "--model", MODEL, "--agent", "explore"];
    let child = spawn(&home, &server, &args);
    assert!(gate.wait_reached());
    wait_for_status(&home, "running");
    let watching = Tmux::start(&command(&home, &server, &["tasks", "--watch"]), 80, 20);
    let live = Tmux::start(&command(&home, &server, &["tasks"]), 80, 20);
    assert_page("live", &live.wait("read:1"));
    watching.wait("read:1");
    watching.resize(44, 20);
    let narrow =
        watching.wait_until("a narrow page", |seen| seen.lines().all(|line| line.chars().count() <= 44));
    assert_eq!(narrow.matches("DESCRIPTION").count(), 1, "{narrow}");
    gate.release();
    assert_eq!(live.exit_code(), 0);
    let seen = live.wait("1 completed");
    assert_eq!(seen.matches("DESCRIPTION").count(), 1, "it is drawn in one place:\n{seen}");
    watching.wait("1 completed");
    watching.key("C-c");
    assert_eq!(watching.exit_code(), 0);
    assert_eq!(code(&child.wait_with_output().unwrap()), 0);
}

#[test]
fn a_chat_shows_running_tasks_and_continues_when_one_has_ended() {
    if is_missing("a_chat_shows_running_tasks_and_continues_when_one_has_ended") {
        return;
    }
    let home = Home::new();
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request| {
        let said = request.last_user_text();
        if said == "Measure the harbour." {
            return Reply::new().text("It is nine metres deep.").gate(0, &held);
        }
        if request.call_ids().is_empty() {
            let input =
                json!({ "description": "Measure it", "prompt": "Measure the harbour.", "agent": "explore" });
            return Reply::new().call("call_1", "background_task", input);
        }
        if said.contains("Task Progress: 1/1") {
            return Reply::new().text("Nine metres, says the task.");
        }
        Reply::new().text("I have handed it on.")
    })
    .unwrap();
    let tmux = Tmux::start(&command(&home, &server, &["chat", "--model", MODEL]), 80, 30);
    tmux.prompt_after("Ctrl-D quits");
    tmux.line("How deep is it?");
    tmux.wait("I have handed it on.");
    tmux.wait("1 task running: Measure it");
    tmux.line("/tasks");
    let twice = |seen: &str| seen.contains("running  explore") && seen.matches("1 task running").count() == 2;
    assert_page("chat_at_work", &tmux.wait_until("the tasks and a prompt", twice));
    gate.release();
    tmux.wait("task completed: Measure it");
    // Without a key the model has answered, and the prompt is there again.
    let seen = tmux.prompt_after("Nine metres, says the task.");
    assert_page("chat_went_on", &seen);
    tmux.key("C-d");
    assert_eq!(tmux.exit_code(), 0);
}

#[test]
fn a_question_of_a_task_at_an_idle_prompt_names_it_and_keeps_the_typed_text() {
    if is_missing("a_question_of_a_task_at_an_idle_prompt_names_it_and_keeps_the_typed_text") {
        return;
    }
    let home = Home::new();
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request| {
        let said = request.last_user_text();
        if said == "Measure the harbour." {
            return match request.call_ids().is_empty() {
                true => {
                    Reply::new().call("call_2", "bash", json!({ "command": "touch measured" })).gate(0, &held)
                }
                false => Reply::new().text("It is nine metres deep."),
            };
        }
        if request.contains("half a line") {
            return Reply::new().text("That was typed before.");
        }
        if request.call_ids().is_empty() {
            let input =
                json!({ "description": "Measure it", "prompt": "Measure the harbour.", "agent": "general" });
            return Reply::new().call("call_1", "background_task", input);
        }
        Reply::new().text("I have handed it on.")
    })
    .unwrap();
    let tmux = Tmux::start(&command(&home, &server, &["chat", "--model", MODEL]), 80, 30);
    tmux.prompt_after("Ctrl-D quits");
    tmux.line("How deep is it?");
    tmux.wait("1 task running: Measure it");
    tmux.text("half a line");
    tmux.wait("› half a line");
    gate.release();
    tmux.wait_until("a question", |seen| seen.contains("\nallow? [y/a/N]"));
    let short = only_task(&home)["id"].as_str().unwrap()["ses_".len()..].to_owned();
    assert_page("chat_task_asks", &tmux.screen());
    let seen = tmux.screen();
    let line = seen.lines().find(|line| line.contains("asked by task ")).unwrap_or_else(|| panic!("{seen}"));
    let id = line.trim().trim_start_matches("asked by task ").split(':').next().unwrap();
    assert!(!id.is_empty() && short.starts_with(id), "{line}");
    // The answer goes to the question, and the chat continues with the typed text.
    tmux.line("y");
    tmux.wait("task completed: Measure it");
    assert!(home.project.join("measured").exists());
    tmux.wait_until("the line again", |seen| {
        let after = seen.rfind("allow? [y/a/N]").map(|at| &seen[at..]);
        after.is_some_and(|after| after.contains("› half a line"))
    });
    tmux.key("Enter");
    tmux.wait("That was typed before.");
    tmux.key("C-d");
    assert_eq!(tmux.exit_code(), 0);
}

#[test]
fn the_user_continues_a_task_without_disturbing_its_parent() {
    let (home, server) = (with_parent(), ModelServer::start().unwrap());
    let gate = Gate::new();
    server.push(Reply::new().text("Only the tests are missing.").gate(0, &gate));
    let args = ["fork", PARENT, "--run", "What is missing?", "--model", MODEL, "--agent", "explore"];
    let working = spawn(&home, &server, &args);
    assert!(gate.wait_reached());
    let id = wait_for_status(&home, "running")["id"].as_str().unwrap().to_owned();
    let talk = |server: &ModelServer| {
        let mut command = command(&home, server, &["chat", "--session", &id]);
        let mut chat =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut chat.stdin.take().unwrap(), b"Which tests?\n").unwrap();
        chat.wait_with_output().unwrap()
    };
    let refused = talk(&server);
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    assert!(stderr(&refused).contains(&format!("plimsoll tasks steer {id}")), "{}", stderr(&refused));
    let refused = run(&home, &server, &["run", "--session", &id, "Which tests?"]);
    assert!(stderr(&refused).contains(&format!("plimsoll tasks steer {id}")), "{}", stderr(&refused));
    gate.release();
    assert_eq!(code(&working.wait_with_output().unwrap()), 0);
    let (task, parent) = (only_task(&home), home.json(&["sessions", "show", PARENT, "--json"]));
    server.push(Reply::new().text("Those of the cranes."));
    let talked = talk(&server);
    assert_eq!(code(&talked), 0, "{}", stderr(&talked));
    assert!(stdout(&talked).contains("Those of the cranes."), "{}", stdout(&talked));
    let request = server.last().unwrap();
    assert!(request.contains("Only the tests are missing.") && request.last_user_text() == "Which tests?");
    assert!(
        request.system.contains("without changing anything")
            && !request.outline().contains("background_task")
    );
    // A run in its session has the task's agent and bounds too, and no other agent.
    server.push(Reply::new().text("None of the cranes."));
    let ran = run(&home, &server, &["run", "--session", &id, "And else?"]);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    let request = server.last().unwrap();
    assert_eq!(request.last_user_text(), "And else?");
    assert!(
        request.system.contains("without changing anything")
            && !request.outline().contains("background_task")
    );
    let other =
        run(&home, &server, &["run", "--session", &id, "--agent", "build", "--model", MODEL, "And else?"]);
    assert!(
        stderr(&other).contains("is a background task of agent `explore`, not of `build`"),
        "{}",
        stderr(&other)
    );
    assert_eq!(only_task(&home), task);
    assert_eq!(home.json(&["sessions", "show", PARENT, "--json"])["messages"], parent["messages"]);
}

#[test]
fn a_session_that_another_process_runs_can_be_forked() {
    let home = with_parent();
    let gate = Gate::new();
    let held = gate.clone();
    // The parent's last prompt was not answered, so the new one follows it in the same message.
    let server =
        ModelServer::answering(move |request| match request.last_user_text().ends_with("Carry on") {
            true => Reply::new().text("I am still speaking of ships.").piece_size(Some(4)).gate(3, &held),
            false => Reply::new().text("Only the tests are missing."),
        })
        .unwrap();
    let speaking = spawn(&home, &server, &["run", "--model", MODEL, "--session", PARENT, "Carry on"]);
    assert!(gate.wait_reached());
    let mut ids = Vec::new();
    for way in ["digest", "history"] {
        let args = ["fork", PARENT, "--run", "What is missing?", "--model", MODEL, "--inherit", way];
        let output = run(&home, &server, &args);
        assert_eq!(code(&output), 0, "{way}: {}", stderr(&output));
        let request = server.last().unwrap();
        assert!(request.contains("Next 2") && request.contains("Carry on"), "{}", request.outline());
        assert!(!request.contains("I am still"), "what is being said is not known: {}", request.outline());
        let tasks = home.json(&["tasks", "--all", "--json"]);
        let known = |id: &Value| ids.contains(&id.as_str().unwrap().to_owned());
        let task = tasks.as_array().unwrap().iter().find(|task| !known(&task["id"])).unwrap().clone();
        ids.push(task["id"].as_str().unwrap().to_owned());
    }
    gate.release();
    let spoken = speaking.wait_with_output().unwrap();
    assert_eq!(code(&spoken), 0, "it was not disturbed: {}", stderr(&spoken));
    // It answered, and was notified of the tasks only afterwards.
    let log = home.run(&["sessions", "export", PARENT]);
    let said = log.find("I am still speaking of ships.").expect("the answer that was begun");
    assert!(log[said..].contains("Only the tests are missing."), "{log}");

    // Both began within a moment, so that their ids begin alike.
    let (one, other) = (&ids[0]["ses_".len()..], &ids[1]["ses_".len()..]);
    let alike: String =
        one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(one, _)| one).collect();
    assert!(!alike.is_empty(), "{ids:?}");
    for command in ["show", "output", "cancel"] {
        let refused = run(&home, &server, &["tasks", command, &alike]);
        let printed = stderr(&refused);
        assert_eq!(code(&refused), 2, "{printed}");
        assert!(printed.contains(&format!("task id `{alike}` is ambiguous")), "{printed}");
        assert!(ids.iter().all(|id| printed.contains(&id["ses_".len().."ses_".len() + 8])), "{printed}");
        assert!(printed.contains("pass a longer prefix of the id"), "{printed}");
    }
}

#[test]
fn a_task_is_resumed_in_its_own_directory() {
    let (home, server) = (with_parent(), ModelServer::start().unwrap());
    home.write("project/depth.txt", "nine metres\n");
    home.write("elsewhere/other.txt", "another\n");
    server.push(Reply::new().text("Ready."));
    let args = ["fork", PARENT, "--run", "Get ready", "--model", MODEL, "--agent", "explore"];
    assert_eq!(code(&run(&home, &server, &args)), 0);
    let id = only_task(&home)["id"].as_str().unwrap().to_owned();
    let resume = || {
        let mut command = command(&home, &server, &["tasks", "resume", &id, "Look around"]);
        command.current_dir(home.path.join("elsewhere")).output().unwrap()
    };
    server.push_all([Reply::new().call("call_9", "list", json!({})), Reply::new().text("Seen.")]);
    let output = resume();
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "Seen.\n"), "{}", stderr(&output));
    let printed = stderr(&output);
    assert!(printed.contains("note: the task works in `~/project` and continues there"), "{printed}");
    let request = server.last().unwrap();
    let seen = request.result("call_9").unwrap();
    assert!(seen.contains("depth.txt") && !seen.contains("other.txt"), "{seen}");
    std::fs::rename(&home.project, home.path.join("moved")).unwrap();
    let output = resume();
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let printed = stderr(&output);
    assert!(printed.contains("the task works in `~/project`, which does not exist"), "{printed}");
    assert!(printed.contains(&format!("plimsoll run --session {id}")), "{printed}");
}

#[test]
fn machines_watch_tasks_line_by_line_and_a_resume_that_waits_is_dropped() {
    let (home, server) = (with_parent(), ModelServer::start().unwrap());
    let gate = Gate::new();
    server.push(Reply::new().text("Nine metres.").gate(0, &gate));
    let args = ["fork", PARENT, "--run", "How deep?", "--model", MODEL, "--description", "Measure it"];
    let child = spawn(&home, &server, &args);
    assert!(gate.wait_reached());
    wait_for_status(&home, "running");
    let mut watching = spawn(&home, &server, &["tasks", "--watch", "--json"]);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["status"], "running");
    gate.release();
    let last = loop {
        let task = next();
        if task["status"] != "running" {
            break task;
        }
    };
    assert_eq!((&last["status"], &last["result"]), (&json!("completed"), &json!("Nine metres.")));
    assert_eq!(code(&child.wait_with_output().unwrap()), 0);
    kill_process(Pid::from_raw(i32::try_from(watching.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(0));

    let id = last["id"].as_str().unwrap();
    put_in_line(&home, id, "Go on");
    let short = &id["ses_".len().."ses_".len() + 8];
    let dropped = run(&home, &server, &["tasks", "cancel", short]);
    let printed = stdout(&dropped);
    assert_eq!(code(&dropped), 0, "{}", stderr(&dropped));
    assert_eq!(printed, format!("cancelled the queued resume of {short}, which is completed (Measure it)\n"));
    let task = only_task(&home);
    assert_eq!((&task["status"], &task["pending"]), (&json!("completed"), &Value::Null));
}
