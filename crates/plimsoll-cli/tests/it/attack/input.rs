//! Hostile checkouts and hostile model output, tested through the binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::chat::{KEY, MODEL};
use crate::support::Home;
use crate::terminal::on_terminal;

/// Longer than a busy machine needs for any of these commands. Only a command that hangs comes so far.
const PATIENCE: Duration = Duration::from_secs(60);
/// Address space of a command, in kB: one that reads without a bound reaches it, and fails.
const MEMORY: u64 = 4_000_000;

/// Runs a command with a memory limit; `None` if it hangs or is killed.
fn ended(command: &Command) -> Option<Output> {
    let mut bounded = Command::new("sh");
    bounded.arg("-c").arg(format!("ulimit -v {MEMORY}; exec \"$@\"")).arg("sh");
    bounded.arg(command.get_program()).args(command.get_args()).env_clear();
    bounded.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bounded.current_dir(command.get_current_dir().unwrap());
    bounded.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = bounded.spawn().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(child.wait_with_output().unwrap()));
    match receive.recv_timeout(PATIENCE) {
        Ok(output) => output.status.code().is_some_and(|code| code != 134).then_some(output),
        Err(_) => {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            None
        }
    }
}

fn place(path: &Path, kind: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "pipe" => {
            let made = Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }
        // Takes no room on the disk.
        "large" => std::fs::File::create(path).unwrap().set_len(6 << 30).unwrap(),
        device => symlink(device, path).unwrap(),
    }
}

/// Files of a checkout that some command reads without being asked to.
const READ: [&str; 11] = [
    "plimsoll.toml",
    "opencode.json",
    "opencode.jsonc",
    ".opencode/opencode.json",
    ".opencode/agent/helper.md",
    "AGENTS.md",
    "CLAUDE.md",
    ".gitignore",
    ".ignore",
    ".git",
    ".claude/skills/helper/SKILL.md",
];

/// Files that others refer to.
const REFERRED: [(&str, &str); 4] = [
    ("team.toml", "policy = \"team.toml\"\n"),
    ("key.txt", "[providers.x]\napi = \"openai\"\nkey = \"{file:key.txt}\"\n"),
    ("hook.sh", "[[hooks]]\nevent = \"tool.before\"\ncommand = [\"sh\", \"hook.sh\"]\n"),
    ("rules.md", "instructions = [\"*.md\"]\n"),
];

const KINDS: [&str; 6] = ["/dev/zero", "/dev/tty", "/proc/kmsg", "/proc/self/mem", "pipe", "large"];

#[test]
#[ignore = "450 commands; `just attack` runs them"]
fn every_command_ends_in_a_hostile_checkout() {
    let server = ModelServer::answering(|request| {
        if request.result("call_1").is_some() {
            return Reply::new().text("Done.");
        }
        let name = request.last_user_text().rsplit(' ').next().unwrap_or_default().to_owned();
        Reply::new()
            .call("call_1", "list", json!({}))
            .call("call_2", "grep", json!({ "pattern": "needle" }))
            .call("call_3", "glob", json!({ "pattern": "*.rs" }))
            .call("call_4", "read", json!({ "path": name }))
    })
    .unwrap();
    let url = server.url();
    let alone = READ.map(|name| (name, ""));
    let (mut tried, mut failures) = (0, Vec::new());
    for ((name, settings), kind) in alone.iter().chain(&REFERRED).flat_map(|it| KINDS.map(|kind| (*it, kind)))
    {
        let home = Home::new();
        home.write("project/src/main.rs", "fn needle() {}\n");
        if !settings.is_empty() {
            home.write("project/plimsoll.toml", settings);
        }
        place(&home.project.join(name), kind);
        let prompt = format!("Look at {name}");
        let commands: [&[&str]; 5] = [
            &["config"],
            &["config", "check"],
            &["trust", "--dry-run"],
            &["sessions"],
            &["run", "--model", MODEL, &prompt],
        ];
        for args in commands {
            let command = home.command(args, &[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &url)]);
            tried += 1;
            if ended(&command).is_none() {
                failures.push(format!("{args:?}, {name} as {kind}"));
            }
        }
    }
    println!("hostile checkouts: {} of {tried} commands held", tried - failures.len());
    assert!(failures.is_empty(), "{failures:#?}");
}

/// No line of ours, and nothing that a terminal obeys, comes out of a file that is not trusted.
#[test]
fn keys_and_values_of_a_checkout_forge_no_lines() {
    let forged = "x\\nFORGED: trusted\\r\\u001b[2J\\u009b2J\\u202e";
    let files = [
        ("plimsoll.toml", format!("[mcp.\"{forged}\"]\ncommand = [\"{forged}\"]\n")),
        ("plimsoll.toml", format!("[mcp.x.environment]\n\"{forged}\" = \"{forged}\"\n")),
        ("plimsoll.toml", format!("[agents.\"{forged}\"]\nprompt = \"{forged}\"\n")),
        ("plimsoll.toml", format!("[permissions.bash]\n\"{forged}\" = \"allow\"\n")),
        ("plimsoll.toml", format!("[permissions]\n\"{forged}\" = \"deny\"\n")),
        ("plimsoll.toml", format!("\"{forged}\" = 1\n")),
        ("plimsoll.toml", format!("policy = \"{forged}\"\n")),
        ("plimsoll.toml", format!("[prune]\n\"{forged}\" = 1\n")),
        ("plimsoll.toml", format!("instructions = [\"/{forged}\"]\n")),
        (
            "opencode.json",
            format!(
                "{{ \"mcp\": {{ \"{forged}\": {{ \"type\": \"local\", \"command\": [\"{forged}\"] }} }} }}"
            ),
        ),
        ("opencode.json", format!("{{ \"{forged}\": 1, \"plugin\": [\"{forged}\"] }}")),
        (
            "opencode.json",
            format!("{{ \"agent\": {{ \"{forged}\": {{ \"prompt\": \"{forged}\", \"{forged}\": 1 }} }} }}"),
        ),
    ];
    let mut tried = 0;
    for (name, text) in &files {
        let home = Home::new().with(&format!("project/{name}"), text);
        let commands: [&[&str]; 7] = [
            &["trust", "--dry-run"],
            &["trust", "--dry-run", "--json"],
            &["config"],
            &["config", "--json"],
            &["config", "check"],
            &["sessions"],
            &["run", "--model", MODEL, "hello"],
        ];
        for args in commands {
            let output = home.command(args, &[]).stdin(Stdio::null()).output().unwrap();
            for said in [output.stdout, output.stderr] {
                let said = String::from_utf8(said).unwrap();
                let is_forged = |line: &str| line.trim_start().starts_with("FORGED");
                assert!(!said.lines().any(is_forged), "{args:?} {text}: {said}");
                let is_obeyed = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
                assert!(!said.contains(is_obeyed), "{args:?} {text}: {said:?}");
            }
            tried += 1;
        }
    }
    println!("forged keys and values: {tried} of {tried} commands held");
}

#[test]
fn variables_that_decide_what_runs_are_shown_before_they_are_trusted() {
    let shown = [
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "SUDO_ASKPASS",
        "CARGO_REGISTRY_CREDENTIAL_PROVIDER",
        "GOAUTH",
        "SSH_AUTH_SOCK",
        "LD_PRELOAD",
        "PATH",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
        "BASH_ENV",
        "GIT_SSH_COMMAND",
        "PGPASSFILE",
    ];
    let masked = ["API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "CLIENT_SECRET", "BASIC_AUTH", "AWS_CREDENTIALS"];
    let lines: String =
        shown.iter().chain(&masked).map(|name| format!("{name} = \"/tmp/value-of-{name}\"\n")).collect();
    let settings = format!("[mcp.x]\ncommand = [\"server\"]\n[mcp.x.environment]\n{lines}");
    let home = Home::new().with("project/plimsoll.toml", &settings);
    for args in [&["trust", "--dry-run"][..], &["trust", "--dry-run", "--json"], &["config"]] {
        let printed = home.run_with(args, &[("COLUMNS", "200")]);
        for name in shown {
            assert!(printed.contains(&format!("/tmp/value-of-{name}")), "{args:?} {name}: {printed}");
        }
        for name in masked {
            assert!(
                printed.contains(name) && !printed.contains(&format!("value-of-{name}")),
                "{args:?} {name}: {printed}"
            );
        }
    }
}

const HOSTILE: &str = "sure\u{1b}[2J\u{1b}]0;owned\u{7}\u{7f}\u{9b}31m\u{202e}txt\u{2066} done";

fn is_clean(said: &str) -> bool {
    let is_obeyed = |c: char| {
        !matches!(c, '\n' | '\r' | '\t') && (c.is_control() || ('\u{2066}'..='\u{2069}').contains(&c))
    };
    !said.contains(is_obeyed) && !said.contains('\u{202e}')
}

#[test]
fn no_control_characters_of_a_model_reach_a_terminal_or_a_pipe() {
    let server = ModelServer::start().unwrap();
    let home = Home::new();
    let url = server.url();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str()), ("NO_COLOR", "1")];
    let run = ["run", "--model", MODEL, "--json", "hello"];
    server.push(Reply::new().thinking(HOSTILE).text(HOSTILE));
    let seen = on_terminal(&home, &run, &variables);
    assert!(is_clean(&seen) && seen.contains("\\u009b31m\\u202etxt"), "{seen:?}");
    for args in
        [&run[..], &["run", "--model", MODEL, "hello"], &["run", "--model", MODEL, "--thinking", "hello"]]
    {
        server.push(Reply::new().thinking(HOSTILE).text(HOSTILE));
        let output = home.command(args, &variables).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success());
        for said in [&output.stdout, &output.stderr] {
            let said = std::str::from_utf8(said).unwrap();
            assert!(is_clean(said), "{args:?}: {said:?}");
        }
        if args.contains(&"--json") {
            let last = std::str::from_utf8(&output.stdout).unwrap().lines().next_back().unwrap();
            let report: Value = serde_json::from_str(last).unwrap();
            assert_eq!(report["text"], HOSTILE, "what is escaped means the same");
        }
    }
    // A task, by all ways to its words.
    let reply = |request: &plimsoll_testkit::server::Captured| match request.last_user_text().contains("Task")
    {
        true => Reply::new().text(HOSTILE),
        false => Reply::new().text("none"),
    };
    let server = ModelServer::answering(reply).unwrap();
    let url = server.url();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str()), ("NO_COLOR", "1")];
    let session = home.json(&["sessions", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let made =
        home.command(&["fork", &session, "--run", "Task", "--model", MODEL], &variables).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(is_clean(std::str::from_utf8(&made.stdout).unwrap()), "{made:?}");
    let task = home.json(&["tasks", "--all", "--json"])[0]["id"].as_str().unwrap().to_owned();
    for args in [
        &["tasks", "output", &task][..],
        &["tasks", "output", &task, "--full"],
        &["tasks", "output", &task, "--json"],
        &["tasks", "output", &task, "--full", "--json"],
        &["tasks", "show", &task],
        &["tasks", "show", &task, "--json"],
        &["tasks", "--all"],
        &["tasks", "--all", "--json"],
        &["sessions", "--all"],
        &["sessions", "--all", "--json"],
        &["window", &task],
        &["window", &task, "--json"],
    ] {
        let output = home.command(args, &variables).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(is_clean(&said) && !said.is_empty(), "{args:?}: {said:?}");
        assert!(is_clean(&on_terminal(&home, args, &variables)), "{args:?} on a terminal");
    }
}

/// A limit of file sizes is the nearest to a full disk that needs no rights.
#[test]
fn an_output_that_could_not_be_stored_is_reported() {
    let server = ModelServer::start().unwrap();
    let home = Home::new();
    let url = server.url();
    let noise = json!({ "command": "head -c 4000000 /dev/urandom | base64" });
    server.push_all([Reply::new().call("call_1", "bash", noise), Reply::new().text("Done.")]);
    let args = ["run", "--model", MODEL, "--allow", "bash", "--sandbox", "off", "Print noise"];
    let command = home.command(
        &args,
        &[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &url), ("PATH", "/usr/bin:/bin")],
    );
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -f 3000; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    limited.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.current_dir(&home.project).stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "it was not killed: {printed}");
    assert!(printed.contains("could not be stored") && printed.contains("the rest is lost: "), "{printed}");
    assert!(!printed.contains("does not store the full text"), "{printed}");
    let result = server.last().unwrap().result("call_1").unwrap().to_owned();
    assert!(result.contains("is lost"), "the model sees it, too: {result}");
}

#[test]
fn a_tilde_in_the_path_of_a_tool_is_the_users_home() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().with("notes/a.txt", "in the home\n");
    let url = server.url();
    let calls = [
        ("read", json!({ "path": "~/notes/a.txt" })),
        ("list", json!({ "path": "~/notes" })),
        ("grep", json!({ "path": "~/notes", "pattern": "home" })),
        ("glob", json!({ "path": "~/notes", "pattern": "*.txt" })),
        ("write", json!({ "path": "~/notes/b.txt", "content": "new\n" })),
        ("edit", json!({ "path": "~/notes/a.txt", "old": "in", "new": "still in" })),
        ("read", json!({ "path": "~nobody/x" })),
    ];
    let run = |allow: &[&str]| -> Vec<String> {
        let mut replies: Vec<Reply> = Vec::new();
        for (number, (tool, input)) in calls.iter().enumerate() {
            replies.push(Reply::new().call(format!("call_{number}"), *tool, input.clone()));
        }
        replies.push(Reply::new().text("Done."));
        server.push_all(replies);
        let mut args = vec!["run", "--model", MODEL];
        allow.iter().for_each(|rule| args.extend(["--allow", rule]));
        args.push("Look");
        let output = home
            .command(&args, &[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &url)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let last = server.last().unwrap();
        (0..calls.len()).map(|number| last.result(&format!("call_{number}")).unwrap().to_owned()).collect()
    };
    let denied = run(&[]);
    assert!(
        denied[..6].iter().all(|printed| printed.starts_with("Denied:")),
        "the rules see where it leads: {denied:#?}"
    );
    let printed = run(&[
        "read:~/notes/*",
        "list:~/notes",
        "grep:~/notes",
        "glob:~/notes",
        "write:~/notes/*",
        "edit:~/notes/*",
    ]);
    for (number, part) in
        ["in the home", "a.txt", "in the home", "a.txt", "b.txt", "a.txt"].iter().enumerate()
    {
        assert!(
            printed[number].contains(part) && !printed[number].starts_with("Denied"),
            "{number}: {printed:#?}"
        );
    }
    assert!(printed[6].contains("home directories of other users are not resolved"), "{}", printed[6]);
    assert_eq!(std::fs::read_to_string(home.path.join("notes/b.txt")).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(home.path.join("notes/a.txt")).unwrap(), "still in the home\n");
    assert!(!home.project.join("~").exists());
}

/// A chat whose standard input and error are pipes.
struct Piped {
    child: Child,
    said: mpsc::Receiver<String>,
}

impl Piped {
    fn begin(home: &Home, url: &str) -> Piped {
        let args = ["chat", "--model", MODEL];
        let mut command = home.command(&args, &[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url)]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (send, said) = mpsc::channel();
        let ends: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for end in ends {
            let send = send.clone();
            std::thread::spawn(move || {
                BufReader::new(end).lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
            });
        }
        Piped { child, said }
    }

    fn line(&mut self, text: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{text}").unwrap();
    }

    /// The lines up to one that contains this.
    fn wait(&self, part: &str) -> String {
        let mut all = String::new();
        loop {
            let line = self.said.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no `{part}`: {all}"));
            all += &format!("{line}\n");
            if line.contains(part) {
                return all;
            }
        }
    }
}

#[test]
fn a_chat_whose_session_was_taken_says_how_to_take_it_back() {
    let server = ModelServer::start().unwrap();
    let home = Home::new();
    let url = server.url();
    server.push(Reply::new().text("First answer."));
    let mut chat = Piped::begin(&home, &url);
    chat.line("One");
    chat.wait("First answer.");
    let session = home.json(&["sessions", "--json"])[0]["id"].as_str().unwrap().to_owned();
    server.push(Reply::new().text("Second answer."));
    let taken = ["run", "--model", MODEL, "--session", &session, "--force", "Two"];
    let taken =
        home.command(&taken, &[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &url)]).output().unwrap();
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    chat.line("Three");
    let printed = chat.wait("take it back with");
    assert!(printed.contains(&format!("take it back with `/resume {session}`")), "{printed}");
    assert!(!printed.contains("take it again"), "{printed}");
    chat.line(&format!("/resume {session}"));
    chat.wait("Second answer.");
    server.push(Reply::new().text("Fourth answer."));
    chat.line("Four");
    chat.wait("Fourth answer.");
    chat.line("/resume");
    chat.line(&format!("/resume {session}"));
    chat.wait("this session is already open");
    drop(chat.child.stdin.take());
    chat.child.wait().unwrap();
}

#[test]
fn the_mcp_server_rejects_messages_that_are_too_large_and_continues() {
    let home = Home::new();
    let mut command = home.command(&["mcp"], &[]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut answers =
        BufReader::new(output).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let large = "x".repeat(50 << 20);
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    writeln!(input, "{hello}").unwrap();
    assert_eq!(answers.next().unwrap()["id"], 0);
    writeln!(input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
    writeln!(input, r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"recall","arguments":{{"handle":"{large}"}}}}}}"#).unwrap();
    let answer = answers.next().unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32_600)), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("larger than 16 MB"), "{answer}");
    // The id comes too late to be known.
    writeln!(input, r#"{{"jsonrpc":"2.0","method":"tools/call","params":"{large}","id":2}}"#).unwrap();
    let answer = answers.next().unwrap();
    assert_eq!((answer["id"].is_null(), &answer["error"]["code"]), (true, &json!(-32_600)), "{answer}");
    writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/list" })).unwrap();
    let answer = answers.next().unwrap();
    assert_eq!((&answer["id"], answer["result"]["tools"].as_array().unwrap().len()), (&json!(3), 3));
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        println!("100 MB sent in two messages: {peak} kB at most in memory");
        assert!(peak < 100_000, "{peak} kB");
    }
    // The last message has no end, and is answered all the same.
    write!(input, r#"{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":"{large}"#).unwrap();
    drop(input);
    assert_eq!(answers.next().unwrap()["id"], 4);
    assert!(answers.next().is_none());
    assert!(child.wait().unwrap().success());
}
