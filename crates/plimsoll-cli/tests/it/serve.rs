//! `plimsoll serve` as a process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::Home;

pub(crate) struct Serve {
    child: Child,
    address: String,
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(directory: &std::path::Path, model: &ModelServer, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("plimsoll"));
    command.args(["serve", "--port", "0", "--model", "openai-chat/scripted"]).args(args).env_clear();
    command.env("HOME", directory).env("OPENAI_BASE_URL", model.url()).env("OPENAI_API_KEY", "x");
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn serve(directory: &std::path::Path, model: &ModelServer) -> Serve {
    listening(command(directory, model, &[]).spawn().unwrap())
}

/// Serves the project of a home without a model.
pub(crate) fn serve_without_model(home: &Home) -> Serve {
    let mut command = home.command(&["serve", "--port", "0"], &[]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    listening(command.spawn().unwrap())
}

/// Waits until a server prints its address.
fn listening(mut child: Child) -> Serve {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once("http://").expect("an address").1.to_owned();
    Serve { child, address }
}

impl Serve {
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap_or(Value::Null)
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

#[test]
fn sigterm_drains_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let model = ModelServer::start().unwrap();
    let mut server = serve(directory.path(), &model);
    server.send("POST", "/session", "");
    let begun = Instant::now();
    server.signal(rustix::process::Signal::TERM);
    assert!(server.child.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn other_addresses_need_a_password() {
    let directory = tempfile::tempdir().unwrap();
    let model = ModelServer::start().unwrap();
    let refused = command(directory.path(), &model, &["--hostname", "0.0.0.0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("needs a password") && error.contains("OPENCODE_SERVER_PASSWORD"), "{error}");
}

/// Prompts are acknowledged while the process is killed again and again: each that was stays, once, and no session is stuck.
#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let model =
        ModelServer::builder().answering(|_| Reply::new().text("ok").pause(Duration::from_millis(2))).start();
    let model = model.unwrap();
    let (mut session, mut acknowledged) = (None, Vec::new());
    for round in 0..4 {
        let server = serve(directory.path(), &model);
        let id = session
            .get_or_insert_with(|| server.send("POST", "/session", "")["id"].as_str().unwrap().to_owned());
        for turn in 0..5 {
            let text = format!("round {round} turn {turn}");
            let body = json!({ "parts": [{ "type": "text", "text": text }] }).to_string();
            server.send("POST", &format!("/session/{id}/prompt_async"), &body);
            acknowledged.push(text);
        }
        server.signal(rustix::process::Signal::KILL);
    }
    let server = serve(directory.path(), &model);
    let id = session.unwrap();
    let body = json!({ "parts": [{ "type": "text", "text": "the end" }] }).to_string();
    let answer = server.send("POST", &format!("/session/{id}/message"), &body);
    assert_eq!(answer["info"]["role"], "assistant", "{answer}");
    let list = server.send("GET", &format!("/session/{id}/message"), "");
    let messages = list.as_array().unwrap();
    for text in acknowledged {
        let found = messages.iter().filter(|message| {
            message["info"]["role"] == "user" && message["parts"][0]["text"] == json!(text)
        });
        assert_eq!(found.count(), 1, "{text}");
    }
    assert_eq!(server.send("GET", "/session/status", ""), json!({}));
}

#[test]
fn a_missing_key_and_a_used_port_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let command = |port: &str| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("plimsoll"));
        command.args(["serve", "--model", "anthropic/claude-sonnet-4-6", "--port", port]).env_clear();
        command.env("HOME", directory.path()).current_dir(directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut child = command("0").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once("http://").unwrap().1.to_owned();
    let mut server = Serve { child, address };
    let notes = BufReader::new(server.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let notes: Vec<String> = notes.take(3).collect();
    let problem = "note: no key for provider `anthropic`: sessions can be viewed, but prompts fail";
    assert_eq!(notes[1], problem, "{notes:?}");
    assert!(notes[2].starts_with("hint: set `ANTHROPIC_API_KEY`"), "{notes:?}");

    let refused = command(server.address.rsplit_once(':').unwrap().1).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{error}");
    assert!(error.contains("hint: choose another port with `--port`, or 0 for a free one"), "{error}");
}
