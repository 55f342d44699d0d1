//! Event streams.

use std::time::{Duration, Instant};

use plimsoll::{Message, Millis, SessionId};
use plimsoll_store::NewSession;
use plimsoll_testkit::server::Reply;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{PATIENCE, TestServer, prompt};

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_its_headers_and_a_frame_and_beats() {
    let server = TestServer::with(|options| options.heartbeat = Duration::from_millis(50)).await;
    let mut events = server.events("/event").await;
    let head = events.head.to_lowercase();
    for line in
        ["content-type: text/event-stream", "cache-control: no-cache, no-transform", "x-accel-buffering: no"]
    {
        assert!(head.contains(line), "{head}");
    }
    let first = events.next().await.unwrap();
    assert_eq!((&first["type"], &first["properties"]), (&json!("server.connected"), &json!({})));
    assert!(first["id"].as_str().unwrap().starts_with("evt_"));
    assert_eq!(events.next().await.unwrap()["type"], "server.heartbeat");
    let mut global = server.events("/global/event").await;
    assert_eq!(global.next().await.unwrap()["payload"]["type"], "server.connected");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_reported_in_order() {
    let server = TestServer::start().await;
    let mut events = server.events("/event").await;
    let id = server.session().await;
    let text = "The harbour is nine metres deep. ".repeat(20);
    server.model.push(Reply::new().text(text.clone()).piece_size(Some(40)).pause(Duration::from_millis(8)));
    server.prompt(&id, "how deep?").await;
    let seen = events.until_type("session.idle").await;
    let kinds = kinds(&seen);
    let place = |kind: &str| {
        kinds.iter().position(|known| *known == kind).unwrap_or_else(|| panic!("{kind}: {kinds:?}"))
    };
    assert!(place("session.created") < place("message.updated"));
    assert!(place("message.updated") < place("message.part.updated"));
    assert!(place("message.part.updated") < place("message.part.delta"));
    assert!(place("message.part.delta") < place("session.idle"));
    // Part and deltas together are the text, once.
    let mut shown = String::new();
    for event in &seen {
        let properties = &event["properties"];
        match event["type"].as_str() {
            Some("message.part.updated") if properties["part"]["type"] == "text" => {
                properties["part"]["text"].as_str().unwrap().clone_into(&mut shown);
            }
            Some("message.part.delta") => shown.push_str(properties["delta"].as_str().unwrap()),
            _ => {}
        }
    }
    assert_eq!(shown.trim_end(), text.trim_end());
    // A text that is complete has an end: `opencode run` prints it then.
    let ended = |event: &&Value| event["properties"]["part"]["text"] == json!(text);
    assert!(seen.iter().find(ended).unwrap()["properties"]["part"]["time"]["end"].is_u64(), "{seen:#?}");
    let finished = seen.iter().filter(|event| event["properties"]["info"]["finish"] == "stop").count();
    assert_eq!(finished, 1, "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_the_events_of_its_directory_only() {
    let server = TestServer::start().await;
    let below = server.root.join("below").display().to_string();
    let mut events = server.events(&format!("/event?directory={below}")).await;
    let mut global = server.events(&format!("/global/event?directory={below}")).await;
    let mut all = server.events("/global/event").await;
    server.session().await;
    let other = [("x-opencode-directory", below.as_str())];
    let id = server.send("POST", "/session", &other, "").await.ok()["id"].clone();
    let seen = events.until_type("session.created").await;
    assert_eq!(kinds(&seen), ["server.connected", "session.created"]);
    assert_eq!(seen[1]["properties"]["sessionID"], id);
    let seen = global.until(|event| event["payload"]["type"] == "session.created").await;
    assert_eq!((seen.len(), &seen[1]["directory"]), (2, &json!(below)));
    let created = |event: &Value| event["payload"]["type"] == "session.created";
    let seen = all.until(|event| created(event) && event["directory"] == json!(below)).await;
    assert_eq!(seen.iter().filter(|event| created(event)).count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_other_processes_appear() {
    let server = TestServer::start().await;
    let mut events = server.events("/event").await;
    events.next().await;
    tokio::time::sleep(Duration::from_millis(120)).await;
    let archive = server.archive();
    let directory = Some(server.root.display().to_string());
    let new =
        NewSession { title: "theirs".into(), directory, ..NewSession::new(SessionId::new("ses_theirs")) };
    archive.store().create(new, Millis(1)).unwrap();
    let elsewhere =
        NewSession { directory: Some("/elsewhere".into()), ..NewSession::new(SessionId::new("ses_else")) };
    archive.store().create(elsewhere, Millis(1)).unwrap();
    let seen = events.until_type("session.created").await;
    assert_eq!(seen.last().unwrap()["properties"]["info"]["title"], "theirs");
    let lease = archive.store().lease(&SessionId::new("ses_theirs"), "them", Duration::from_secs(9)).unwrap();
    let message = Message::user("msg_1".into(), "prt_1".into(), "their words").at(Millis(2));
    archive.store().append(&lease.claim(), vec![message], Millis(2)).unwrap();
    let seen = events.until_type("message.part.updated").await;
    assert_eq!(seen.last().unwrap()["properties"]["part"]["text"], "their words");
    assert!(!seen.iter().any(|event| event.to_string().contains("ses_else")), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_other_processes_are_at_most_100_ms_late() {
    let server = TestServer::start().await;
    let mut events = server.events("/event").await;
    let id = server.session().await;
    events.until_type("session.created").await;
    let archive = server.archive();
    let lease = archive.store().lease(&id.as_str().into(), "them", Duration::from_secs(60)).unwrap();
    let mut late = Vec::new();
    for number in 0..15 {
        // At different points of the interval at which the server looks.
        tokio::time::sleep(Duration::from_millis(20 + 7 * number)).await;
        let text = format!("change {number}");
        let (message, part) = (format!("msg_{number:02}"), format!("prt_{number:02}"));
        let message =
            Message::user(message.as_str().into(), part.as_str().into(), text.as_str()).at(Millis(2));
        let begun = Instant::now();
        archive.store().append(&lease.claim(), vec![message], Millis(2)).unwrap();
        events.until(|event| event["properties"]["part"]["text"] == json!(text)).await;
        late.push(begun.elapsed());
    }
    // The median: a busy machine may run this test late now and then.
    late.sort();
    assert!(late[late.len() / 2] <= Duration::from_millis(100), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_vanishes_frees_its_connection() {
    const CONNECTIONS: usize = 4;
    let server = TestServer::with(|options| {
        options.connections = CONNECTIONS;
        options.heartbeat = Duration::from_millis(50);
    });
    let server = server.await;
    for _ in 0..5 {
        // One connection is left for requests.
        let mut readers = Vec::new();
        for _ in 1..CONNECTIONS {
            readers.push(server.events("/event").await);
        }
        server.session().await;
        drop(readers);
        let begun = Instant::now();
        let is_free = async || {
            let requests = (0..CONNECTIONS).map(|_| server.get("/global/health"));
            futures_util::future::join_all(requests).await.iter().all(|answer| answer.status == 200)
        };
        while !is_free().await {
            assert!(begun.elapsed() < PATIENCE, "the connections of readers that have gone are closed");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_is_dropped_and_others_are_not() {
    let server = TestServer::with(|options| options.event_queue = 64).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let request = format!("GET /event HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address);
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut events = server.events("/event").await;
    let id = server.session().await;
    let reading = tokio::spawn(async move {
        events.until(|event| event["properties"]["info"]["title"] == "the last").await.len()
    });
    // More than the buffers of the sockets take and the queue holds.
    let path = format!("/session/{id}/message");
    let mut body = prompt(&"x".repeat(250_000));
    body["noReply"] = json!(true);
    for _ in 0..150 {
        server.post(&path, body.clone()).await.ok();
    }
    server.send("PATCH", &format!("/session/{id}"), &[], r#"{"title":"the last"}"#).await.ok();
    assert!(reading.await.unwrap() > 300, "the other reader has every event");
    let mut received = Vec::new();
    let reading = tokio::io::AsyncReadExt::read_to_end(&mut slow, &mut received);
    tokio::time::timeout(PATIENCE, reading).await.expect("the stream ends").unwrap();
    let received = String::from_utf8_lossy(&received);
    assert!(received.contains("session.created") && !received.contains("the last"), "{}", received.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn large_events_for_a_stalled_reader_are_bounded_by_bytes() {
    let server = TestServer::with(|options| options.event_bytes = 8 << 20).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let request = format!("GET /event HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address);
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut events = server.events("/global/event").await;
    let id = server.session().await;
    let reading = tokio::spawn(async move {
        events.until(|event| event["payload"]["properties"]["info"]["title"] == "the last").await.len()
    });
    // Far fewer events than the queue may hold.
    let path = format!("/session/{id}/message");
    let mut body = prompt(&"x".repeat(1_000_000));
    body["noReply"] = json!(true);
    for _ in 0..30 {
        server.post(&path, body.clone()).await.ok();
    }
    server.send("PATCH", &format!("/session/{id}"), &[], r#"{"title":"the last"}"#).await.ok();
    assert!(reading.await.unwrap() > 60, "the other reader has every event");
    let mut received = Vec::new();
    let reading = tokio::io::AsyncReadExt::read_to_end(&mut slow, &mut received);
    tokio::time::timeout(PATIENCE, reading).await.expect("the stream ends").unwrap();
    assert!(!String::from_utf8_lossy(&received).contains("the last"), "{}", received.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_ends_the_streams() {
    let mut server = TestServer::start().await;
    let mut events = server.events("/event").await;
    let mut global = server.events("/global/event").await;
    let begun = Instant::now();
    server.stop().await;
    while events.next().await.is_some() {}
    while global.next().await.is_some() {}
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_from_before_the_start_are_sent_to_the_first_streams() {
    let mut server = TestServer::start().await;
    let id = server.session().await;
    server.prompt(&id, "before the end").await;
    let other = server.session().await;
    server.stop().await;
    // Another process writes while there is no server.
    let archive = server.archive();
    let lease = archive.store().lease(&id.as_str().into(), "them", Duration::from_secs(9)).unwrap();
    let message = Message::user("msg_zz1".into(), "prt_zz1".into(), "written meanwhile").at(Millis(2));
    archive.store().append(&lease.claim(), vec![message], Millis(2)).unwrap();
    archive.store().release(&lease).unwrap();
    let server = server.again().await;
    for path in ["/event", "/global/event"] {
        let payload = |event: &Value| if path == "/event" { event.clone() } else { event["payload"].clone() };
        let mut events = server.events(path).await;
        let seen =
            events.until(|event| payload(event)["properties"]["part"]["text"] == "written meanwhile").await;
        let seen: Vec<Value> = seen.iter().map(payload).collect();
        assert_eq!(seen[0]["type"], "server.connected");
        let known = |event: &&Value| event["properties"]["part"]["text"] == "before the end";
        assert_eq!(seen.iter().filter(known).count(), 1, "each message is sent once: {seen:#?}");
        let updated = |event: &Value| {
            event["type"] == "session.updated" && event["properties"]["sessionID"] == json!(id)
        };
        assert!(seen.iter().any(updated) && !seen.iter().any(|event| event["type"] == "session.created"));
    }
    let below = server.root.join("below").display().to_string();
    let mut events = server.events(&format!("/event?directory={below}")).await;
    let elsewhere = [("x-opencode-directory", below.as_str())];
    server.send("POST", "/session", &elsewhere, "").await.ok();
    let seen = events.until_type("session.created").await;
    assert_eq!(kinds(&seen), ["server.connected", "session.created"], "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_edits_of_old_messages_are_all_reported() {
    let server = TestServer::start().await;
    let id = server.session().await;
    let path = format!("/session/{id}/message");
    for number in 0..230 {
        let mut note = prompt(&format!("note {number}"));
        note["noReply"] = json!(true);
        server.post(&path, note).await.ok();
    }
    let mut events = server.events("/event").await;
    events.next().await;
    let list = server.get(&path).await.ok();
    let mut changed = Vec::new();
    for message in &list.as_array().unwrap()[..5] {
        let mut part = message["parts"][0].clone();
        part["text"] = json!(format!("changed {}", part["id"]));
        let place = format!(
            "{path}/{}/part/{}",
            message["info"]["id"].as_str().unwrap(),
            part["id"].as_str().unwrap()
        );
        server.send("PATCH", &place, &[], &part.to_string()).await.ok();
        changed.push(part);
    }
    for part in changed {
        events.until(|event| event["properties"]["part"] == part).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_is_reported_as_a_change_of_its_session() {
    let server = TestServer::start().await;
    let id = server.session().await;
    server.prompt(&id, "nine metres").await;
    let list = server.get(&format!("/session/{id}/message")).await.ok();
    let mut events = server.events("/event").await;
    // The stream begins with recent changes.
    events.until(|event| event["properties"]["part"]["text"] == "echo: nine metres").await;
    let pin = json!({ "what": list[0]["info"]["id"] });
    server.post(&format!("/plimsoll/session/{id}/pins"), pin).await.ok();
    let seen = events.until_type("session.updated").await;
    assert_eq!(seen.last().unwrap()["properties"]["sessionID"], json!(id));
}
