//! Runs the command like a user: in a directory, with a home, and an otherwise empty environment.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime};

use assert_cmd::Command;
use plimsoll::{Millis, Policy, Tokens};
use plimsoll_store::{Archive, Durability, Filter, PageRequest};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The sample session that is shipped with the project.
pub(crate) fn sample() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/session.json")).unwrap()
}

/// A chat with a long tool output, written here.
pub(crate) fn chat(outputs: usize) -> String {
    let mut messages = vec![json!({ "role": "user", "content": "Look around. Never touch the tests." })];
    for n in 0..outputs {
        let call = json!({ "id": format!("call_{n}"), "type": "function",
            "function": { "name": "read", "arguments": "{\"path\":\"src/lib.rs\",\"a\":1}" } });
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
        messages.push(
            json!({ "role": "tool", "tool_call_id": format!("call_{n}"), "content": "word ".repeat(8_000) }),
        );
    }
    for turn in 0..3 {
        messages.push(json!({ "role": "assistant", "content": "Done." }));
        messages.push(json!({ "role": "user", "content": format!("Next {turn}") }));
    }
    json!({ "messages": messages }).to_string()
}

/// Runs the command; what it works on comes on standard input.
pub(crate) fn plimsoll(args: &[&str], stdin: &str) -> Output {
    let mut command = Command::cargo_bin("plimsoll").unwrap();
    let reads = ["inspect", "window", "convert", "fork", "prune", "compact"];
    let from_stdin = args.first().is_some_and(|name| reads.contains(name)) && !stdin.is_empty();
    command.args(args).args(from_stdin.then_some("-")).env_clear().write_stdin(stdin.to_owned());
    command.output().unwrap()
}

pub(crate) fn ok(args: &[&str], stdin: &str) -> String {
    let output = plimsoll(args, stdin);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn parsed(args: &[&str], stdin: &str) -> Value {
    serde_json::from_str(&ok(args, stdin)).unwrap()
}

pub(crate) fn refused(args: &[&str], stdin: &str) -> (i32, String) {
    let output = plimsoll(args, stdin);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A home with a project in it.
pub(crate) struct Home {
    _dir: TempDir,
    /// The home.
    pub(crate) path: PathBuf,
    /// The project: where the command runs.
    pub(crate) project: PathBuf,
}

impl Home {
    /// An empty one.
    pub(crate) fn new() -> Home {
        let dir = TempDir::new().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let project = path.join("project");
        std::fs::create_dir_all(&project).unwrap();
        Home { _dir: dir, path, project }
    }

    /// With one more file.
    pub(crate) fn with(self, place: &str, text: &str) -> Home {
        self.write(place, text);
        self
    }

    /// Write a file, some hours old.
    pub(crate) fn write_aged(&self, place: &str, text: &str, hours: u64) {
        let path = self.write(place, text);
        let then = SystemTime::now() - Duration::from_secs(hours * 3_600 + 60);
        std::fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
    }

    /// Write a file.
    pub(crate) fn write(&self, place: &str, text: &str) -> PathBuf {
        let path = self.path.join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The command in the project, with this environment and no other.
    pub(crate) fn command(&self, args: &[&str], variables: &[(&str, &str)]) -> std::process::Command {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("plimsoll"));
        command.args(args).env_clear().env("HOME", &self.path).current_dir(&self.project);
        command.envs(variables.iter().copied());
        command
    }

    /// Runs the command and returns all of its output.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        self.run_with(args, &[])
    }

    /// Runs several commands, and returns them with their output like in a terminal.
    pub(crate) fn page(&self, commands: &[&str]) -> String {
        let shown = commands.iter().map(|command| {
            let (variables, args): (Vec<&str>, Vec<&str>) =
                command.split_whitespace().partition(|word| word.contains('='));
            let set: Vec<_> = variables.iter().filter_map(|word| word.split_once('=')).collect();
            let printed = self.run_with(&args, &set).replace("----- stdout -----\n", "");
            let printed = printed.replace("----- stderr -----\n", "");
            let (code, printed) = printed.split_once('\n').unwrap();
            let code = if code == "exit: 0" { String::new() } else { format!("[{code}]\n") };
            let line = variables.into_iter().chain(["plimsoll"]).chain(args).collect::<Vec<_>>().join(" ");
            format!("$ {line}\n{printed}{code}")
        });
        shown.collect::<Vec<_>>().join("\n")
    }

    /// Runs the command with these variables.
    pub(crate) fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> String {
        let output = self.command(args, variables).stdin(std::process::Stdio::null()).output().unwrap();
        self.output_text(&output)
    }

    /// Formats the output of a command, with paths that are the same on every machine.
    pub(crate) fn output_text(&self, output: &Output) -> String {
        let code = output.status.code().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let all = format!("exit: {code}\n----- stdout -----\n{stdout}----- stderr -----\n{stderr}");
        all.replace(self.path.to_str().unwrap(), "[HOME]")
    }

    /// Opens the database like the command does.
    pub(crate) fn archive(&self) -> Archive {
        let path = self.path.join(".local/share/plimsoll/plimsoll.db");
        Archive::open(path, &Policy::default(), Durability::Process).unwrap()
    }

    /// The counts that are stored with the tool outputs of the newest session. A text that comes with its count is not counted
    /// again: the counter remembers.
    pub(crate) fn stored_counts(&self) -> Vec<Option<Tokens>> {
        let archive = self.archive();
        let id = archive.store().sessions(&Filter::default()).unwrap()[0].id.clone();
        let request = PageRequest { from: None, oldest_first: true, most: 1_000 };
        let messages = archive.store().page(&id, &request).unwrap().messages;
        let parts = messages.iter().flat_map(|message| &message.parts);
        let outputs = parts.filter_map(|part| part.as_tool()?.state.output.as_ref());
        outputs.map(|output| output.count_by("o200k")).collect()
    }

    /// Every file and directory below it.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut dirs = vec![self.path.clone()];
        let mut found = Vec::new();
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                dirs.extend(path.is_dir().then(|| path.clone()));
                found.push(path);
            }
        }
        found.sort();
        found
    }

    /// Parses the standard output of the command as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.command(args, &[]).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Codex' record of a session in a directory.
    pub(crate) fn codex(&self, id: &str, directory: &Path, words: &str, hours: u64) {
        let place = format!(".codex/sessions/2026/05/02/rollout-2026-05-02T09-18-36-{id}.jsonl");
        self.write_aged(&place, &codex(id, directory, words), hours);
    }

    /// Claude Code's record of a session in the project.
    pub(crate) fn claude(&self, id: &str, words: &str, hours: u64) {
        let said = json!({ "type": "user", "uuid": "u1", "parentUuid": null, "sessionId": id, "cwd": self.project,
            "timestamp": "2026-05-02T09:18:37.730Z", "message": { "role": "user", "content": words } });
        self.write_aged(&format!(".claude/projects/-project/{id}.jsonl"), &format!("{said}\n"), hours);
    }

    /// pi's record of a session in the project.
    pub(crate) fn pi(&self, id: &str, words: &str, hours: u64) {
        let first = json!({ "type": "session", "id": id, "timestamp": "2026-05-02T09:18:36.730Z", "cwd": self.project });
        let said = json!({ "type": "message", "timestamp": "2026-05-02T09:18:37.730Z",
            "message": { "role": "user", "content": [{ "type": "text", "text": words }] } });
        self.write_aged(
            &format!(".pi/agent/sessions/--project--/2026_{id}.jsonl"),
            &format!("{first}\n{said}\n"),
            hours,
        );
    }

    /// OpenCode's database with sessions of the project: id, title, hours of age, parent.
    pub(crate) fn opencode(&self, place: &str, sessions: &[(&str, &str, u64, Option<&str>)]) -> PathBuf {
        let path = self.path.join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let database = rusqlite::Connection::open(&path).unwrap();
        database
            .execute_batch(
                "CREATE TABLE session (id TEXT, title TEXT, directory TEXT, time_created INTEGER,
                     time_updated INTEGER, parent_id TEXT);
                 CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
                 CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);",
            )
            .unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
        for (id, title, hours, parent) in sessions {
            let at = now - i64::try_from(*hours).unwrap() * 3_600_000 - 60_000;
            let directory = self.project.to_str().unwrap();
            let row = rusqlite::params![id, title, directory, at, at, parent];
            database.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", row).unwrap();
            let message = format!("msg_{id}");
            let info = json!({ "role": "user", "time": { "created": at } }).to_string();
            let row = rusqlite::params![message, id, at, info];
            database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row).unwrap();
            let text = json!({ "type": "text", "text": format!("words of {title}") }).to_string();
            let row = rusqlite::params![format!("prt_{id}"), message, id, text];
            database.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row).unwrap();
        }
        path
    }

    /// A database of goose's with sessions of the project: their ids, names, ages in hours and kinds.
    pub(crate) fn goose(&self, place: &str, sessions: &[(&str, &str, u64, &str)]) -> PathBuf {
        let path = self.path.join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let database = rusqlite::Connection::open(&path).unwrap();
        database
            .execute_batch(
                "CREATE TABLE sessions (id TEXT, name TEXT, session_type TEXT, working_dir TEXT,
                     updated_at TIMESTAMP);
                 CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
                     created_timestamp INTEGER, metadata_json TEXT);",
            )
            .unwrap();
        for (id, name, hours, kind) in sessions {
            let directory = self.project.to_str().unwrap();
            let sql = "INSERT INTO sessions VALUES (?1, ?2, ?3, ?4, datetime('now', '-1 minutes', ?5))";
            let age = format!("-{hours} hours");
            database.execute(sql, rusqlite::params![id, name, kind, directory, age]).unwrap();
            let content = json!([{ "type": "text", "text": format!("words of {name}") }]).to_string();
            let sql = "INSERT INTO messages VALUES (NULL, ?1, 'user', ?2, 1767225600, '{}')";
            database.execute(sql, rusqlite::params![id, content]).unwrap();
        }
        path
    }
}

/// The time it is.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Millis(u64::try_from(since.as_millis()).unwrap())
}

/// An OpenCode export with eight long outputs in a turn long ago, as it has to come back.
pub(crate) fn export(directory: &Path) -> Value {
    let id = "ses_5c1000000001ABCDEFGHIJKLMN";
    let message = |n: u64, role: &str, parts: Vec<Value>, info: Value| {
        let name = format!("msg_fixed{n:07}ABCDEFGHIJKLMN");
        let mut all = json!({ "id": name, "sessionID": id, "role": role, "time": { "created": 1_777_713_516_000 + n } });
        let more = info.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(more);
        let parts = parts.into_iter().enumerate().map(|(at, mut part)| {
            part["id"] = format!("prt_fixed{n:07}{at:02}CDEFGHIJKLMN").into();
            part["sessionID"] = id.into();
            part["messageID"] = name.as_str().into();
            part
        });
        json!({ "info": all, "parts": parts.collect::<Vec<_>>() })
    };
    let text = |text: &str| json!({ "type": "text", "text": text });
    let user = json!({ "agent": "build", "model": { "providerID": "acme", "modelID": "model-1" } });
    let answer = |tokens: u64| {
        json!({ "modelID": "model-1", "providerID": "acme", "mode": "build", "agent": "build", "cost": 0.25,
            "finish": "stop", "parentID": "msg_fixed0000001ABCDEFGHIJKLMN",
            "path": { "cwd": directory, "root": directory },
            "tokens": { "input": tokens, "output": 10, "reasoning": 0, "cache": { "read": 0, "write": 0 } } })
    };
    let mut messages =
        vec![message(1, "user", vec![text("Fix the build. Never touch the tests.")], user.clone())];
    for n in 0..8 {
        let output = format!("output {n}\nwarning: unused\n{}", "word ".repeat(8_000));
        let state = json!({ "status": "completed", "input": { "path": format!("src/{n}.rs") }, "output": output,
            "title": format!("src/{n}.rs"), "metadata": { "lines": 3 }, "time": { "start": 5, "end": 6 } });
        let call = json!({ "type": "tool", "tool": "read", "callID": format!("call_{n}"), "state": state });
        messages.push(message(2 + n, "assistant", vec![call], answer(100 + n)));
    }
    for n in 0..3 {
        messages.push(message(20 + 2 * n, "assistant", vec![text("Done.")], answer(80_000)));
        messages.push(message(21 + 2 * n, "user", vec![text(&format!("Next {n}"))], user.clone()));
    }
    json!({
        "info": { "id": id, "slug": "fix-the-build", "projectID": "global", "directory": directory, "title": "Fix the build", "version": "1.18.33",
            "time": { "created": 1_777_713_516_000_u64, "updated": 1_777_713_599_000_u64 } },
        "messages": messages,
    })
}

fn codex(id: &str, directory: &Path, words: &str) -> String {
    let meta = json!({ "timestamp": "2026-05-02T09:18:36.730Z", "type": "session_meta",
        "payload": { "id": id, "cwd": directory } });
    let said = json!({ "timestamp": "2026-05-02T09:18:37.730Z", "type": "response_item", "payload": {
        "type": "message", "role": "user", "content": [{ "type": "input_text", "text": words }] } });
    format!("{meta}\n{said}\n")
}
