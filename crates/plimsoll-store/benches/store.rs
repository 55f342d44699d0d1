//! The store compared with a reference: appends with plain rusqlite, windows and forks of long sessions with those of
//! short ones, searches with `grep` on the same bytes. `cargo bench -p plimsoll-store`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;
use std::time::{Duration, Instant};

use grep_regex::RegexMatcher;
use grep_searcher::SearcherBuilder;
use grep_searcher::sinks::Lossy;
use plimsoll::log::CompactionPart;
use plimsoll::{Message, Millis, Part, PartBody, SessionId, ToolState};
use plimsoll_store::{
    Claim, Durability, Logs, MemoryStore, NewSession, Search, Selection, Sessions, SqliteStore, Store, Upkeep,
};
use rusqlite::{Connection, params};
use serde_json::json;

const NOW: Millis = Millis(1_794_775_451_033);
/// Number of measurements of appends.
const ROUNDS: usize = 9;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let sections: [(&str, fn()); 6] = [
        ("appends", appends),
        ("memory", memory),
        ("writers", writers),
        ("streaming", streaming),
        ("sizes", sizes),
        ("searches", searches),
    ];
    for (name, run) in sections {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            run();
        }
    }
}

/// The median of several runs.
fn median(runs: usize, mut run: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..runs).map(|_| run()).collect();
    times.sort();
    times[times.len() / 2]
}

/// A step of an agent: some text, and a tool with an output of two kilobytes.
fn step(n: usize) -> Message {
    let state =
        ToolState::completed(json!({ "filePath": format!("src/file_{n}.rs") }), "let x = 1;\n".repeat(180));
    let parts = vec![
        Part::text(format!("prt_{n:08}a").as_str().into(), format!("I read file {n}.")),
        Part::tool(format!("prt_{n:08}b").as_str().into(), format!("call_{n}"), "read", state),
    ];
    Message::assistant(format!("msg_{n:08}").as_str().into(), parts).at(Millis(NOW.0 + n as u64))
}

fn store(directory: &Path, durability: Durability) -> (SqliteStore, SessionId) {
    let store = SqliteStore::open(directory.join("plimsoll.db"), durability).unwrap();
    let session = store.create(NewSession::new(SessionId::new("ses_1")), NOW).unwrap().id;
    (store, session)
}

fn appends() {
    println!("appends per second, each acknowledged; compared with plain rusqlite with the same durability");
    for (name, durability, synchronous, count) in
        [("process", Durability::Process, "normal", 4_000), ("power", Durability::Power, "full", 1_000)]
    {
        let messages: Vec<Message> = (0..count).map(step).collect();
        let ours = || {
            let directory = tempfile::tempdir().unwrap();
            let (store, session) = store(directory.path(), durability);
            let messages = messages.clone();
            let started = Instant::now();
            for message in messages {
                store.append(&Claim::unleased(&session), vec![message], NOW).unwrap();
            }
            started.elapsed()
        };
        let together = || {
            let directory = tempfile::tempdir().unwrap();
            let (store, _) = store(directory.path(), durability);
            for writer in 0..8 {
                store.create(NewSession::new(SessionId::new(format!("ses_w{writer}"))), NOW).unwrap();
            }
            let started = Instant::now();
            std::thread::scope(|scope| {
                for writer in 0..8 {
                    let (store, messages) = (&store, &messages);
                    scope.spawn(move || {
                        let session = SessionId::new(format!("ses_w{writer}"));
                        for message in messages.iter().skip(writer).step_by(8) {
                            store.append(&Claim::unleased(&session), vec![message.clone()], NOW).unwrap();
                        }
                    });
                }
            });
            started.elapsed()
        };
        // In turns, and the best of each: on a busy machine, runs one after the other would compare the load.
        let mut best = [Duration::MAX; 3];
        for _ in 0..ROUNDS {
            for (best, took) in best.iter_mut().zip([plain(&messages, synchronous), ours(), together()]) {
                *best = took.min(*best);
            }
        }
        let [raw, ours, together] = best;
        let rate = |time: Duration| count as f64 / time.as_secs_f64();
        println!(
            "  {name:<8} plain {:>7.0}   store {:>7.0} ({:.2}×)   eight writers {:>7.0} ({:.2}×)",
            rate(raw),
            rate(ours),
            rate(ours) / rate(raw),
            rate(together),
            rate(together) / rate(raw),
        );
    }
}

/// The store in memory compared with SQLite on a file system in memory. A replay writes to a store as a host does, once
/// per message, and the store is discarded afterwards.
fn memory() {
    let messages: Vec<Message> = (0..4_000).map(step).collect();
    let replay = |store: &dyn Store| {
        let session = store.create(NewSession::new(SessionId::new("ses_1")), NOW).unwrap().id;
        let (messages, started) = (messages.clone(), Instant::now());
        for message in messages {
            store.append(&Claim::unleased(&session), vec![message], NOW).unwrap();
        }
        started.elapsed()
    };
    let [mut in_memory, mut sqlite] = [Duration::MAX; 2];
    let shared = Path::new("/dev/shm");
    for _ in 0..ROUNDS {
        in_memory = in_memory.min(replay(&MemoryStore::new()));
        let directory =
            if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() }.unwrap();
        let store = SqliteStore::open(directory.path().join("plimsoll.db"), Durability::Process).unwrap();
        sqlite = sqlite.min(replay(&store));
    }
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / messages.len() as f64;
    println!("\nµs per append: in memory {:.1}, SQLite in memory {:.1}", micros(in_memory), micros(sqlite));
}

/// Appends of many writers, each in its own session: the total, its distribution, and the latency.
fn writers() {
    println!("\nwriters on separate sessions, 3 s each; appends in all, per writer, and how long one waits");
    for (name, durability) in [("process", Durability::Process), ("power", Durability::Power)] {
        for count in [1, 8, 200] {
            let directory = tempfile::tempdir().unwrap();
            let (store, _) = store(directory.path(), durability);
            let sessions: Vec<SessionId> = (0..count).map(|n| SessionId::new(format!("ses_w{n}"))).collect();
            for session in &sessions {
                store.create(NewSession::new(session.clone()), NOW).unwrap();
            }
            let end = Instant::now() + Duration::from_secs(3);
            let mut took: Vec<Vec<Duration>> = std::thread::scope(|scope| {
                let threads: Vec<_> = sessions
                    .iter()
                    .map(|session| {
                        let store = &store;
                        scope.spawn(move || {
                            let mut took = Vec::new();
                            while Instant::now() < end {
                                let message = step(took.len());
                                let started = Instant::now();
                                store.append(&Claim::unleased(session), vec![message], NOW).unwrap();
                                took.push(started.elapsed());
                            }
                            took
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let (least, most) = (took.iter().map(Vec::len).min(), took.iter().map(Vec::len).max());
            let mut all: Vec<Duration> = took.iter_mut().flat_map(std::mem::take).collect();
            all.sort();
            let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
            println!(
                "  {name:<8} {count:>3} writers   {:>7.0}/s   {} to {} each   p50 {:>7.2} ms   p99 {:>7.2} ms",
                all.len() as f64 / 3.0,
                least.unwrap_or_default(),
                most.unwrap_or_default(),
                at(0.5),
                at(0.99),
            );
        }
    }
}

/// Number of bytes that this process has asked the system to write.
fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or_default()
}

/// An answer of 10 MB, streamed.
fn streaming() {
    println!("\nan answer of 10 MB in deltas of 6 characters, each delta or each hundred of them committed");
    const DELTA: &str = "abcde ";
    let size = if std::env::var_os("PLIMSOLL_SMALL").is_some() { 1_000_000 } else { 10_000_000 };
    for joined in [1, 100] {
        let directory = tempfile::tempdir().unwrap();
        let (store, session) = store(directory.path(), Durability::Process);
        let claim = Claim::unleased(&session);
        let part = Part::text("prt_1".into(), "");
        let message = Message { parts: vec![part].into(), ..Message::begun("msg_1".into(), NOW) };
        store.append(&claim, vec![message], NOW).unwrap();
        let delta = DELTA.repeat(joined);
        let (before, started) = (written(), Instant::now());
        let (mut from, mut slowest) = (0, Duration::ZERO);
        while from < size {
            let begun = Instant::now();
            store.extend(&claim, &"prt_1".into(), from, &delta, NOW).unwrap();
            slowest = slowest.max(begun.elapsed());
            from += delta.len() as u64;
        }
        store.finish(&claim, &"msg_1".into(), "stop", None, NOW).unwrap();
        let took = started.elapsed();
        let commits = size.div_ceil(delta.len() as u64);
        println!(
            "  {joined:>3} deltas a commit   {:>6.1} s   {:>5.1} µs a commit   slowest {:>5.1} ms   {:>6} MB written",
            took.as_secs_f64(),
            took.as_secs_f64() * 1e6 / commits as f64,
            slowest.as_secs_f64() * 1e3,
            (written() - before) / 1_000_000,
        );
        assert_eq!(store.message(&session, &"msg_1".into()).unwrap().text().len() as u64, from);
    }
}

/// Yardstick: the same rows in the same tables, without anything else.
fn plain(messages: &[Message], synchronous: &str) -> Duration {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plain.db");
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.pragma_update(None, "synchronous", synchronous).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE message (session INTEGER, at INTEGER, id TEXT, info TEXT, PRIMARY KEY (session, at, id));
             CREATE UNIQUE INDEX message_id ON message (session, id);
             CREATE TABLE part (seq INTEGER PRIMARY KEY, session INTEGER, at INTEGER, message TEXT, ord INTEGER,
                 id TEXT, data TEXT, text TEXT);
             CREATE UNIQUE INDEX part_order ON part (session, at, message, ord);
             CREATE UNIQUE INDEX part_id ON part (session, id);",
        )
        .unwrap();
    let started = Instant::now();
    for message in messages {
        connection.prepare_cached("BEGIN IMMEDIATE").unwrap().execute([]).unwrap();
        let id = message.info.id.as_str();
        let at = message.info.time.as_ref().unwrap().created.unwrap().0;
        let info = serde_json::to_string(&Message { parts: Vec::new().into(), ..message.clone() }).unwrap();
        let mut insert = connection.prepare_cached("INSERT INTO message VALUES (1, ?1, ?2, ?3)").unwrap();
        insert.execute(params![at, id, info]).unwrap();
        for (ord, part) in message.parts.iter().enumerate() {
            let mut bare = part.clone();
            let text = match &mut bare.body {
                PartBody::Text(text) => std::mem::take(&mut text.text),
                PartBody::Tool(tool) => tool.state.output.take().unwrap(),
                _ => unreachable!(),
            };
            let data = serde_json::to_string(&bare).unwrap();
            connection
                .prepare_cached(
                    "INSERT INTO part (session, at, message, ord, id, data, text) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)",
                )
                .unwrap()
                .execute(params![at, id, ord, part.id.as_str(), data, text.as_str()])
                .unwrap();
        }
        connection.prepare_cached("COMMIT").unwrap().execute([]).unwrap();
    }
    started.elapsed()
}

fn sizes() {
    println!("\nsessions of different sizes, compacted shortly before its end");
    println!(
        "  {:>9}   {:>11}   {:>11}   {:>11}   {:>11}",
        "messages", "window", "outline", "newest page", "fork"
    );
    let mut first: Option<[f64; 4]> = None;
    let sizes = if std::env::var_os("PLIMSOLL_SMALL").is_some() {
        vec![1_000, 10_000]
    } else {
        vec![1_000, 100_000, 1_000_000]
    };
    for size in sizes {
        let directory = tempfile::tempdir().unwrap();
        let (store, session) = store(directory.path(), Durability::Process);
        let mut n = 0;
        while n < size {
            let batch: Vec<Message> = (n..(n + 1_000).min(size)).map(step).collect();
            n += batch.len();
            store.append(&Claim::unleased(&session), batch, NOW).unwrap();
        }
        pivot(&store, &session, size, size - 40);
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let timed = |look: &dyn Fn()| {
            look();
            micros(median(41, || {
                let started = Instant::now();
                look();
                started.elapsed()
            }))
        };
        let window = timed(&|| assert!(store.window(&session).unwrap().len() < 60));
        let outline = timed(&|| assert!(store.outline(&session).unwrap().len() < 60));
        let request = plimsoll_store::PageRequest { most: 50, ..Default::default() };
        let page = timed(&|| assert_eq!(store.page(&session, &request).unwrap().messages.len(), 50));
        let child = std::cell::Cell::new(0);
        let fork = timed(&|| {
            child.set(child.get() + 1);
            let new = NewSession::new(SessionId::new(format!("ses_f{}", child.get())));
            store.fork(&session, None, new, NOW).unwrap();
        });
        let figures = [window, outline, page, fork];
        let base = *first.get_or_insert(figures);
        let cells: Vec<String> = figures
            .iter()
            .zip(base)
            .map(|(now, first)| format!("{now:>5.0} µs {:.2}×", now / first))
            .collect();
        println!("  {size:>9}   {}", cells.join("   "));
    }
}

/// A summary that replaces everything before message `tail`.
fn pivot(store: &SqliteStore, session: &SessionId, size: usize, tail: usize) {
    let marker = CompactionPart {
        auto: Some(true),
        tail_start: Some(format!("msg_{tail:08}").as_str().into()),
        ..CompactionPart::default()
    };
    let at = Millis(NOW.0 + size as u64 + 1);
    let mut asked = Message::user("msg_marker".into(), "prt_x".into(), "").at(at);
    asked.parts = vec![Part::new("prt_marker".into(), PartBody::Compaction(marker))].into();
    let mut summary =
        Message::assistant("msg_summary".into(), vec![Part::text("prt_summary".into(), "What was done.")])
            .at(at);
    summary.info.summary = true;
    summary.info.parent_id = Some("msg_marker".into());
    store.append(&Claim::unleased(session), vec![asked, summary], at).unwrap();
}

fn searches() {
    println!(
        "\nsearch over 100 MB of tool outputs before a summary, compared with grep on the same bytes in one file"
    );
    let directory = tempfile::tempdir().unwrap();
    let (store, session) = store(directory.path(), Durability::Process);
    let count = 4_000;
    let mut all = Vec::new();
    for n in 0..count {
        let mut output = String::new();
        while output.len() < 25_000 {
            let line = (n * 7_919 + output.len() * 31) % 1_000_003;
            output += &format!(
                "crates/engine/src/module_{}.rs:{line}: let value_{line} = compute({n});\n",
                line % 97
            );
        }
        if n == count / 2 {
            output += "the needle_in_the_haystack is here\n";
        }
        all.extend_from_slice(output.as_bytes());
        let state = ToolState::completed(json!({ "command": "make" }), output);
        let part = Part::tool(format!("prt_{n:08}").as_str().into(), format!("call_{n}"), "bash", state);
        let message = Message::assistant(format!("msg_{n:08}").as_str().into(), vec![part]);
        store.append(&Claim::unleased(&session), vec![message.at(Millis(NOW.0 + n as u64))], NOW).unwrap();
    }
    pivot(&store, &session, count, count - 1);
    let file = directory.path().join("all.txt");
    std::fs::write(&file, &all).unwrap();
    println!("  {} MB in {count} outputs", all.len() / 1_000_000);
    let patterns =
        [("needle_in_the_haystack", true), ("value_99991 ", true), (r"needle_\w+_haystack", false)];
    let run = |label: &str| {
        for (pattern, literal) in patterns {
            let grep = median(5, || {
                let matcher = RegexMatcher::new(pattern).unwrap();
                let mut found = 0;
                let started = Instant::now();
                let mut searcher = SearcherBuilder::new().line_number(true).build();
                let sink = Lossy(|_, _| {
                    found += 1;
                    Ok(true)
                });
                searcher.search_path(&matcher, &file, sink).unwrap();
                assert!(found > 0);
                started.elapsed()
            });
            let search = Search { pattern: pattern.into(), literal, ..Search::default() };
            let ask = Selection {
                search: Some(search),
                max_matches: 100_000,
                max_bytes: 100_000_000,
                ..Selection::default()
            };
            let ours = median(5, || {
                let started = Instant::now();
                assert!(!store.search(&session, &ask).unwrap().is_empty());
                started.elapsed()
            });
            println!(
                "  {label:<16} {pattern:<24} grep {:>7.1} ms   search {:>7.1} ms ({:.2}×)",
                grep.as_secs_f64() * 1e3,
                ours.as_secs_f64() * 1e3,
                ours.as_secs_f64() / grep.as_secs_f64()
            );
        }
    };
    run("without index");
    let started = Instant::now();
    let parts = store.index().unwrap();
    println!(
        "  indexing {parts} outputs takes {:.1} s, off the path of any turn",
        started.elapsed().as_secs_f64()
    );
    run("with index");
}
