//! A line with the distance to the line, for a session that is being written.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::figures::{ClaudeSession, claude};
use crate::support::Home;

const PATIENCE: Duration = Duration::from_secs(20);

/// A watch that runs, and what it says.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    fn start(home: &Home, args: &[&str]) -> Watch {
        let args: Vec<&str> = [&["watch", "--json", "--interval", "0.1"], args].concat();
        let mut child = home.command(&args, &[]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Watch { child, lines }
    }

    /// The first line that fits.
    fn wait(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        let mut last = String::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
            let printed: Value = serde_json::from_str(&line).unwrap();
            if fits(&printed) {
                return printed;
            }
            last = line;
        }
        panic!("{what}: last was {last}")
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(text.as_bytes())).unwrap();
}

/// Wait until the watch says what `inspect` says.
fn agrees(home: &Home, watch: &Watch, file: &str, what: &str) {
    let inspected = home.json(&["inspect", file, "--json"]);
    let printed = watch.wait(what, |printed| printed["messages"] == inspected["messages"]);
    for (ours, theirs) in [("tokens", "window"), ("line", "line"), ("context", "context"), ("model", "model")]
    {
        assert_eq!(printed[ours], inspected[theirs], "{what}: {ours}");
    }
}

#[test]
fn a_growing_session_has_the_figures_of_inspect() {
    let session = claude(&ClaudeSession { responses: 9, hidden: 16_000 });
    let lines: Vec<&str> = session.lines().collect();
    let home = Home::new().with("project/s.jsonl", &format!("{}\n", lines[..4].join("\n")));
    let file = home.project.join("s.jsonl");
    let watch = Watch::start(&home, &["s.jsonl"]);
    agrees(&home, &watch, "s.jsonl", "the beginning");
    for (number, line) in lines.iter().enumerate().skip(4) {
        // A line comes in two pieces, as from a writer that is interrupted.
        let (first, rest) = line.split_at(line.len() / 2);
        append(&file, first);
        std::thread::sleep(Duration::from_millis(150));
        append(&file, &format!("{rest}\n"));
        // A result is not a separate message.
        if line.contains("\"assistant\"") {
            agrees(&home, &watch, "s.jsonl", &format!("line {number}"));
        }
    }
}

#[test]
fn content_that_was_read_is_not_read_again() {
    let session = claude(&ClaudeSession { responses: 6, hidden: 16_000 });
    let (most, last) = session.trim_end().rsplit_once('\n').unwrap();
    let home = Home::new().with("project/s.jsonl", &format!("{most}\n"));
    let file = home.project.join("s.jsonl");
    let watch = Watch::start(&home, &["s.jsonl"]);
    let first = watch.wait("the beginning", |_| true);
    // Blanks the middle: reading from the beginning would find fewer messages.
    let half = most.len() / 2;
    let mut blanked = most.replace(|c: char| c != '\n', " ");
    blanked.replace_range(half.., &most[half..]);
    OpenOptions::new()
        .write(true)
        .open(&file)
        .and_then(|mut file| file.write_all(blanked.as_bytes()))
        .unwrap();
    append(&file, &format!("{last}\n"));
    let printed = watch.wait("the last line", |printed| printed["messages"] != first["messages"]);
    assert_eq!(printed["messages"].as_u64(), first["messages"].as_u64().map(|before| before + 1));
}

#[test]
fn a_session_that_is_cut_replaced_or_compacted_is_read_again() {
    let session = claude(&ClaudeSession { responses: 6, hidden: 16_000 });
    let home = Home::new().with("project/s.jsonl", &session);
    let file = home.project.join("s.jsonl");
    let watch = Watch::start(&home, &["s.jsonl"]);
    agrees(&home, &watch, "s.jsonl", "the beginning");
    // Cut to its first lines.
    let first: String = session.lines().take(4).map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, first).unwrap();
    agrees(&home, &watch, "s.jsonl", "cut");
    // Moved away, and another one in its place.
    std::fs::rename(&file, home.project.join("old.jsonl")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(&file, claude(&ClaudeSession { responses: 8, hidden: 20_000 })).unwrap();
    agrees(&home, &watch, "s.jsonl", "replaced");
    // Compacted: most of it leaves the window.
    let last = "r18";
    let boundary = serde_json::json!({ "type": "system", "subtype": "compact_boundary", "uuid": "b1", "parentUuid": null,
        "logicalParentUuid": last, "compactMetadata": { "trigger": "auto", "preTokens": 30_000 } });
    let summary = serde_json::json!({ "type": "user", "isCompactSummary": true, "uuid": "b2", "parentUuid": "b1",
        "message": { "role": "user", "content": "The ledger adds twice; sums.rs is right." } });
    append(&file, &format!("{boundary}\n{summary}\n"));
    agrees(&home, &watch, "s.jsonl", "compacted");
}

#[test]
fn the_newest_session_of_the_directory_is_followed_and_replaced_by_a_newer_one() {
    let home = Home::new();
    home.claude("5d0c31aa-1111-4222-8333-444455556666", "first", 2);
    let watch = Watch::start(&home, &[]);
    watch.wait("the first", |printed| printed["session"] == "5d0c31aa-1111-4222-8333-444455556666");
    home.codex("019e0000-1111-7222-8333-444455556666", &home.project, "second", 0);
    watch.wait("the second", |printed| printed["session"] == "019e0000-1111-7222-8333-444455556666");
}

#[test]
fn sessions_in_databases_are_watched_too() {
    let home = Home::new();
    home.opencode(".local/share/opencode/opencode.db", &[("ses_1", "Mend it", 0, None)]);
    let printed = home.json(&["watch", "--once", "--json"]);
    assert_eq!((&printed["session"], &printed["title"]), (&"ses_1".into(), &"Mend it".into()));
    home.claude("5d0c31aa-1111-4222-8333-444455556666", "first", 2);
    let imported = home.json(&["sessions", "import", "claude-code:5d0c31aa", "--json"]);
    let id = imported[0]["id"].as_str().unwrap().to_owned();
    let watch = Watch::start(&home, &[&id]);
    watch.wait("as it was stored", |printed| printed["session"] == id.as_str() && printed["messages"] == 1);
    // It continues, and is imported again.
    let more = serde_json::json!({ "type": "user", "uuid": "u2", "parentUuid": "u1", "cwd": home.project,
        "sessionId": "5d0c31aa-1111-4222-8333-444455556666", "message": { "role": "user", "content": "second" } });
    let file = home.path.join(".claude/projects/-project/5d0c31aa-1111-4222-8333-444455556666.jsonl");
    append(&file, &format!("{more}\n"));
    home.run(&["sessions", "import", "claude-code:5d0c31aa"]);
    watch.wait("as it was brought up to date", |printed| printed["messages"] == 2);
}

#[test]
fn one_line_is_enough_for_a_status_bar() {
    let home = Home::new().with("project/s.jsonl", &claude(&ClaudeSession { responses: 9, hidden: 16_000 }));
    let once = home.command(&["watch", "--once", "s.jsonl"], &[]).output().unwrap();
    let line = String::from_utf8(once.stdout).unwrap();
    assert!(once.status.success() && line.ends_with('\n') && line.lines().count() == 1, "{line}");
    let inspected = home.json(&["inspect", "s.jsonl", "--json"]);
    let (window, at) = (inspected["window"].as_u64().unwrap(), inspected["line"].as_u64().unwrap());
    let words = |n| plimsoll::Tokens(n).to_string();
    let printed = format!(
        "{} % of the line, {} of {}, {} left · claude-sonnet-4-6",
        (window * 100 + at / 2) / at,
        words(window),
        words(at),
        words(at - window)
    );
    assert!(line.starts_with(&printed), "{line} is not {printed}");
    let (none, code) = (Home::new(), |output: std::process::Output| output.status.code());
    assert_eq!(code(none.command(&["watch", "--once"], &[]).output().unwrap()), Some(2));
    assert_eq!(code(home.command(&["watch", "--interval", "0", "s.jsonl"], &[]).output().unwrap()), Some(2));
}

#[test]
fn a_watch_ends_when_nothing_reads_it_any_more() {
    let home = Home::new().with("project/s.jsonl", &claude(&ClaudeSession { responses: 2, hidden: 16_000 }));
    let mut child = home
        .command(&["watch", "--interval", "0.1", "s.jsonl"], &[])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("% of the line"), "{line}");
    drop(stdout);
    assert!(ended(&mut child).success());
}

#[test]
fn a_watch_ends_when_its_session_is_gone() {
    let home = Home::new().with("project/s.jsonl", &claude(&ClaudeSession { responses: 2, hidden: 16_000 }));
    let mut command = home.command(&["watch", "--interval", "0.1", "s.jsonl"], &[]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    std::fs::remove_file(home.project.join("s.jsonl")).unwrap();
    let status = ended(&mut child);
    let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("cannot open `s.jsonl`: no such file"), "{said}");
}

/// Wait until it has ended.
fn ended(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status,
            None if begun.elapsed() > PATIENCE => {
                child.kill().unwrap();
                panic!("it goes on");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
