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
    command.args(["serve", "--model", "openai-chat/scripted"]).args(args).env_clear();
    if !args.contains(&"--port") {
        command.args(["--port", "0"]);
    }
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

/// Sends a request, and returns the body of the answer; `None` if the server has gone.
fn request(address: &str, method: &str, path: &str, body: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
    Some(body.to_owned())
}

impl Serve {
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Value {
        let answer = request(&self.address, method, path, body).expect("an answer");
        serde_json::from_str(&answer).unwrap_or(Value::Null)
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

/// A client that comes while the server starts is answered, or refused at once.
#[test]
fn requests_during_the_start_are_answered_or_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = command(folder.path(), &model, &["--port", &port.to_string()]);
    let address = format!("127.0.0.1:{port}");
    let begun = Instant::now();
    let child = command.spawn().unwrap();
    let _server = Serve { child, address: address.clone() };
    let (mut refused, mut slowest) = (0, Duration::ZERO);
    loop {
        let asked = Instant::now();
        // A connection that is accepted is answered with 200, or the request fails.
        let answer = request(&address, "GET", "/session", "");
        slowest = slowest.max(asked.elapsed());
        match answer {
            Some(answer) => {
                assert_eq!(answer, "[]");
                break;
            }
            None => refused += 1,
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the server starts");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(
        refused > 0 && slowest < Duration::from_secs(5),
        "{refused} refused, the slowest after {slowest:?}"
    );
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

/// Sessions of the load, clients that prompt them at once, and lives of the server that are ended by a kill.
const SESSIONS: usize = 24;
const CLIENTS: usize = 6;
const KILLS: u64 = 5;

/// A prompt that was sent while the server was killed sooner or later.
struct Sent {
    session: usize,
    text: String,
    is_acknowledged: bool,
}

/// Prompts the sessions of one client in turn, in all ways, until the server is gone.
fn prompt_until_killed(address: &str, ids: &[String], client: usize, round: u64) -> Vec<Sent> {
    let mut sent = Vec::new();
    for number in 0.. {
        let session = client + CLIENTS * (number % (SESSIONS / CLIENTS));
        let text = format!("session {session} round {round} prompt {number}");
        let (path, no_reply) = match number % 3 {
            0 => ("prompt_async", false),
            1 => ("message", true),
            _ => ("message", false),
        };
        let body = json!({ "noReply": no_reply, "parts": [{ "type": "text", "text": text }] }).to_string();
        let answer = request(address, "POST", &format!("/session/{}/{path}", ids[session]), &body);
        // An answer that was cut off is none.
        let is_whole =
            |answer: &String| path == "prompt_async" || serde_json::from_str::<Value>(answer).is_ok();
        let is_acknowledged = answer.as_ref().is_some_and(is_whole);
        sent.push(Sent { session, text, is_acknowledged });
        if answer.is_none() {
            break;
        }
    }
    sent
}

/// Many clients prompt many sessions at once while the process is killed again and again: each prompt that was acknowledged stays,
/// none is there twice, and no session is stuck.
#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::builder()
        .answering(|_| {
            Reply::new().text("an answer in pieces").piece_size(Some(4)).pause(Duration::from_millis(2))
        })
        .start()
        .unwrap();
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    println!("seed {seed}");
    let mut ids: Vec<String> = Vec::new();
    let mut sent: Vec<Sent> = Vec::new();
    for round in 0..KILLS {
        let server = serve(folder.path(), &model);
        while ids.len() < SESSIONS {
            ids.push(server.send("POST", "/session", "")["id"].as_str().unwrap().to_owned());
        }
        // Some kills hit the start of the load, others a busy server.
        let wait = (seed ^ (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(17) % 1_500;
        std::thread::scope(|scope| {
            let (address, ids) = (&server.address, &ids);
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| scope.spawn(move || prompt_until_killed(address, ids, client, round)))
                .collect();
            std::thread::sleep(Duration::from_millis(50 + wait));
            server.signal(rustix::process::Signal::KILL);
            clients.into_iter().for_each(|client| sent.extend(client.join().unwrap()));
        });
    }
    let acknowledged = sent.iter().filter(|sent| sent.is_acknowledged).count();
    assert!(acknowledged > 3 * CLIENTS, "the server was under load: {acknowledged} of {}", sent.len());
    let server = serve(folder.path(), &model);
    let listed: Vec<Value> = std::thread::scope(|scope| {
        let ends: Vec<_> = ids
            .iter()
            .map(|id| {
                let server = &server;
                scope.spawn(move || {
                    let body = json!({ "parts": [{ "type": "text", "text": "END" }] }).to_string();
                    let answer = server.send("POST", &format!("/session/{id}/message"), &body);
                    assert_eq!(answer["info"]["role"], "assistant", "{answer}");
                    server.send("GET", &format!("/session/{id}/message"), "")
                })
            })
            .collect();
        ends.into_iter().map(|end| end.join().unwrap()).collect()
    });
    for Sent { session, text, is_acknowledged } in &sent {
        let messages = listed[*session].as_array().unwrap();
        let of_user = |message: &&Value| {
            message["info"]["role"] == "user" && message["parts"][0]["text"] == json!(text)
        };
        let found = messages.iter().filter(of_user).count();
        assert!(found <= 1, "`{text}` is there {found} times");
        assert!(found == 1 || !is_acknowledged, "`{text}` was acknowledged and is lost");
    }
    for messages in listed.iter().map(|list| list.as_array().unwrap()) {
        let last = messages.last().unwrap();
        assert_eq!(
            (&last["info"]["role"], &last["info"]["finish"]),
            (&json!("assistant"), &json!("stop")),
            "{last}"
        );
        let ids: std::collections::BTreeSet<&str> =
            messages.iter().map(|message| message["info"]["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), messages.len(), "message ids are unique");
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
