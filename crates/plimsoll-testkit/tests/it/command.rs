//! The server as a command, and scripts.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use plimsoll_testkit::server::{SCRIPT_HELP, Script};
use serde_json::{Value, json};

/// A child process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(arguments: &[&str]) -> (Running, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_scripted-model"))
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    (Running(child), url.trim().to_owned())
}

fn post(url: &str, path: &str, body: &Value) -> String {
    let mut stream = std::net::TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.0\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn hello() -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": "hello there" }] })
}

#[test]
fn without_a_script_it_repeats_the_users_text() {
    let (_running, url) = start(&[]);
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let answer = post(&url, "/v1/chat/completions", &hello());
    assert!(answer.contains("\"content\":\"hello there\""), "{answer}");
}

#[test]
fn options_set_script_window_and_log() {
    let directory = tempfile::tempdir().unwrap();
    let (script, log) = (directory.path().join("script.json"), directory.path().join("log.jsonl"));
    let replies = json!(["first", { "parts": [{ "text": "again" }], "repeat": true }]);
    std::fs::write(&script, replies.to_string()).unwrap();
    let (_running, url) = start(&[
        "--port",
        "0",
        "--script",
        script.to_str().unwrap(),
        "--window",
        "1000",
        "--log",
        log.to_str().unwrap(),
    ]);
    for expected in ["\"first\"", "\"again\"", "\"again\""] {
        let answer = post(&url, "/chat/completions", &hello());
        assert!(answer.contains(expected), "{answer}");
    }
    let large = json!({ "model": "m", "messages": [{ "role": "user", "content": "x".repeat(5_000) }] });
    assert!(post(&url, "/chat/completions", &large).contains("context_length_exceeded"));
    let lines = std::fs::read_to_string(&log).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((lines.lines().count(), &last["over"]), (4, &json!(1_000)));
}

#[test]
fn invalid_options_are_named_and_help_describes_scripts() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_scripted-model")).args(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, _) = run(&["--help"]);
    assert!(code == Some(0) && out.contains("--window TOKENS") && out.contains("\"repeat\": true"), "{out}");
    assert_eq!(
        run(&["--windw", "1"]),
        (Some(2), "".into(), "error: unknown option `--windw`; see --help\n".into())
    );
    assert_eq!(run(&["--port"]), (Some(2), "".into(), "error: `--port` needs a value\n".into()));
}

#[test]
fn the_script_in_the_help_is_valid() {
    let from = SCRIPT_HELP.find('[').unwrap();
    let to = SCRIPT_HELP.find("\n  ]\n").unwrap() + 4;
    let script = Script::parse(&SCRIPT_HELP[from..to]).unwrap();
    for _ in 0..5 {
        assert!(script.next_reply().is_some());
    }
    // Every fault in it can be used too.
    let faults = SCRIPT_HELP.split_once("Faults: ").unwrap().1;
    let faults =
        faults.split_once(". Events").unwrap().0.replace("(or \"server\", \"rate_limit\", \"overflow\")", "");
    let faults = faults.replace("\"body\": { … }", "\"body\": {}").replace('\n', " ");
    let reply = format!("[{{ \"faults\": [{faults}] }}]").replace("  ", " ");
    Script::parse(&reply).unwrap();
    assert!(Script::parse("[{ \"part\": [] }]").is_err());
}
