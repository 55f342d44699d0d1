//! Tests of the rules of access, one per rule.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plimsoll_host::{Environment, Host};
use plimsoll_server::{Server, ServerError, ServerOptions};
use plimsoll_testkit::server::{Fault, Reply};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{KEY, PATIENCE, TestServer, prompt};

#[tokio::test(flavor = "multi_thread")]
async fn other_addresses_than_loopback_need_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().display().to_string();
    let host = Host::new(Environment::new(dir.path().to_owned(), [("HOME".to_owned(), home)]));
    let bind = async |password: Option<&str>| {
        let options = ServerOptions {
            hostname: "0.0.0.0".to_owned(),
            port: 0,
            password: password.map(str::to_owned),
            ..ServerOptions::default()
        };
        Server::bind(host.clone(), options).await.map(drop)
    };
    assert!(matches!(bind(None).await, Err(ServerError::PasswordRequired(_))));
    assert!(matches!(bind(Some("")).await, Err(ServerError::PasswordRequired(_))));
    bind(Some("harbour")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_needs_the_password_once_one_is_set() {
    let server = TestServer::with(|options| options.password = Some("harbour".to_owned())).await;
    for (method, path) in [
        ("GET", "/session"),
        ("POST", "/session"),
        ("GET", "/event"),
        ("GET", "/none"),
        ("OPTIONS", "/session"),
    ] {
        let refused = server.send(method, path, &[], "").await;
        assert_eq!(refused.status, 401, "{method} {path}");
        assert!(refused.header("www-authenticate").unwrap().starts_with("Basic"));
        let wrong = [("authorization", "Basic b3BlbmNvZGU6d3Jvbmc=")];
        assert_eq!(server.send(method, path, &wrong, "").await.status, 401, "{method} {path}");
    }
    let right = [("authorization", "Basic b3BlbmNvZGU6aGFyYm91cg==")];
    assert_eq!(server.send("GET", "/session", &right, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_hosts_and_origins_are_refused_for_every_method() {
    let server = TestServer::start().await;
    let own = server.address.to_string();
    let foreign: [&[(&str, &str)]; 4] = [
        &[("host", "evil.example")],
        &[("host", &own), ("origin", "http://evil.example")],
        &[("host", &own), ("origin", "null")],
        &[("host", &own), ("sec-fetch-site", "cross-site")],
    ];
    for headers in foreign {
        for method in ["GET", "POST", "PATCH", "DELETE", "OPTIONS", "HEAD"] {
            let refused = server.send(method, "/session", headers, "").await;
            assert_eq!(refused.status, 403, "{method} {headers:?}");
            assert_eq!(refused.header("access-control-allow-origin"), None);
        }
    }
    let origin = format!("http://{own}");
    let same = server.send("GET", "/session", &[("host", &own), ("origin", &origin)], "").await;
    assert_eq!(same.status, 200);
    assert_eq!(same.header("access-control-allow-origin"), None, "no CORS at all");
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_outside_of_the_root_are_refused() {
    let server = TestServer::start().await;
    let outside = server.root.parent().unwrap();
    std::os::unix::fs::symlink(outside, server.root.join("link")).unwrap();
    for directory in [
        outside.to_owned(),
        "/".into(),
        server.root.join("../home"),
        server.root.join("link"),
        server.root.join("missing"),
        "relative".into(),
    ] {
        let directory = directory.display().to_string();
        let refused = server.send("GET", "/session", &[("x-opencode-directory", &directory)], "").await;
        assert!([400, 403].contains(&refused.status), "{directory}: {refused:?}");
        let refused = server.get(&format!("/global/event?directory={directory}")).await;
        assert!([400, 403].contains(&refused.status), "{directory}: {refused:?}");
    }
    let below = server.root.join("below").display().to_string();
    let path = server.send("GET", "/path", &[("x-opencode-directory", &below)], "").await.ok();
    assert_eq!(path["directory"], json!(below));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_sees_no_session_of_another() {
    let server = TestServer::start().await;
    let below = server.root.join("below").display().to_string();
    let other = [("x-opencode-directory", below.as_str())];
    let id = server.session().await;
    server.prompt(&id, "hello").await;
    assert_eq!(server.get("/session").await.ok().as_array().unwrap().len(), 1);
    assert_eq!(server.send("GET", "/session", &other, "").await.ok(), json!([]));
    let body = json!({ "parts": [{ "type": "text", "text": "x" }], "title": "x", "providerID": "a", "modelID": "b",
        "messageID": "msg_1" });
    for (method, path) in [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("GET", "/children"),
        ("GET", "/todo"),
        ("GET", "/diff"),
        ("GET", "/message"),
        ("POST", "/message"),
        ("POST", "/prompt_async"),
        ("POST", "/fork"),
        ("POST", "/abort"),
        ("POST", "/summarize"),
        ("POST", "/revert"),
        ("POST", "/unrevert"),
    ] {
        let refused = server.send(method, &format!("/session/{id}{path}"), &other, &body.to_string()).await;
        assert_eq!(refused.status, 404, "{method} {path}: {refused:?}");
        assert_eq!(refused.json()["name"], "NotFoundError");
    }
    let child = json!({ "parentID": id }).to_string();
    assert_eq!(server.send("POST", "/session", &other, &child).await.status, 404);
    assert_eq!(server.get(&format!("/session/{id}/message")).await.ok().as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_and_bodies_have_limits() {
    let server = TestServer::with(|options| options.head_timeout = Duration::from_millis(300)).await;
    let long = "x".repeat(200 * 1024);
    let answer = server.send("GET", "/session", &[("x-long", &long)], "").await;
    assert!([0, 431].contains(&answer.status), "{}", answer.head);

    let announced = format!(
        "POST /session HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: 99999999\r\n\r\n{{",
        server.address
    );
    assert_eq!(server.raw(&announced).await.status, 413);

    // A body without an announced size, sent in chunks.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head =
        format!("POST /session HTTP/1.1\r\nhost: {}\r\ntransfer-encoding: chunked\r\n\r\n", server.address);
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    for _ in 0..34 {
        // The server answers and closes before everything is written.
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut answer = vec![0; 64];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await.expect("an answer in time");
    assert!(String::from_utf8_lossy(&answer[..read.unwrap()]).starts_with("HTTP/1.1 413"));

    // A head that is never complete.
    let begun = Instant::now();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /session HTTP/1.1\r\nhost: ").await.unwrap();
    let mut bytes = Vec::new();
    let _ =
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("it is closed in time");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_arrive_is_given_up() {
    let server = TestServer::with(|options| options.body_timeout = Duration::from_millis(300)).await;
    let begun = Instant::now();
    let half = format!(
        "POST /session HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: 100\r\n\r\n{{",
        server.address
    );
    let answer = server.raw(&half).await;
    assert_eq!((answer.status, &answer.json()["name"]), (408, &json!("TimeoutError")), "{answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_or_parameter_is_refused_in_the_same_shape() {
    let server = TestServer::start().await;
    let wrong = server.send("DELETE", "/plimsoll/tasks", &[], "").await;
    assert_eq!((wrong.status, &wrong.json()["name"]), (405, &json!("MethodNotAllowedError")), "{wrong:?}");
    let query = server.get("/session?limit=x").await;
    assert_eq!((query.status, &query.json()["data"]["kind"]), (400, &json!("Query")), "{query:?}");
    let path = server.get("/session/ses_%ff").await;
    assert_eq!((path.status, &path.json()["data"]["kind"]), (400, &json!("Params")), "{path:?}");
}

/// Neither logs nor answers show what is secret: keys, passwords, words of users and models.
#[test]
fn logs_and_failures_show_no_secrets() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone());
    // Of the whole process, so other tests may write to it too.
    let _ = tracing::subscriber::set_global_default(subscriber.finish());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = TestServer::with(|options| options.password = Some("hunter-two".to_owned())).await;
        let own = ("authorization", format!("Basic {}", STANDARD.encode("opencode:hunter-two")));
        let headers = [(own.0, own.1.as_str())];
        let created = server.send("POST", "/session", &headers, "").await.ok();
        let path = format!("/session/{}/message", created["id"].as_str().unwrap());
        server.model.push(Reply::failing(Fault::status(401)));
        let body = prompt("words-of-the-user").to_string();
        let failed = server.send("POST", &path, &headers, &body).await;
        assert_eq!(failed.status, 502, "{failed:?}");
        server.send("POST", &path, &headers, &body).await.ok();
        let wrong = [("authorization", "Basic b3BlbmNvZGU6Z3Vlc3NlZC1wYXNzd29yZA==")];
        let refused = server.send("GET", "/session", &wrong, "").await;
        assert_eq!(refused.status, 401);
        for answer in [failed, refused] {
            for secret in [KEY, "hunter-two", "guessed", "b3BlbmNvZGU", "panicked", ".rs:"] {
                assert!(!format!("{answer:?}").contains(secret), "{secret}: {answer:?}");
            }
        }
    });
    let text = log.text();
    assert!(text.contains("a request failed") && text.contains("refused a request"), "{text}");
    for secret in [KEY, "hunter-two", "guessed-password", "b3BlbmNvZGU6", "words-of-the-user"] {
        let line = text.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'w> tracing_subscriber::fmt::MakeWriter<'w> for Log {
    type Writer = Log;

    fn make_writer(&'w self) -> Log {
        self.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_are_answered_and_closed() {
    let server = TestServer::with(|options| options.connections = 2).await;
    let _held = (server.events("/event").await, server.events("/event").await);
    let refused = server.get("/session").await;
    assert_eq!(refused.status, 503, "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_opencodes_shape_and_no_detail_of_the_server() {
    let server = TestServer::start().await;
    let missing = server.get("/session/ses_none").await;
    assert_eq!(
        (missing.status, missing.json()),
        (404, json!({ "name": "NotFoundError", "data": { "message": "Session not found: ses_none" } }),)
    );
    let bad = server.send("POST", "/session", &[], "{").await;
    assert_eq!(
        (bad.status, &bad.json()["name"], &bad.json()["data"]["kind"]),
        (400, &json!("BadRequest"), &json!("Payload"))
    );
    let params = server.get("/session/none").await;
    assert_eq!((params.status, &params.json()["data"]["kind"]), (400, &json!("Params")));
    assert_eq!(server.get("/page.html").await.status, 404);
    assert_eq!(server.get("/pty").await.status, 501);
    let id = server.session().await;
    assert_eq!(server.post(&format!("/session/{id}/share"), json!({})).await.status, 501);
    assert_eq!(server.send("PUT", "/session", &[], "").await.status, 501);
}
