//! Measures how fast transcripts are read, compared with `serde_json` parsing the same bytes into a `Value`.
//!
//! `cargo bench -p plimsoll-formats` writes a session of each format and reads it. With `PLIMSOLL_CORPUS` set, it also
//! reads the transcripts of that directory. Both sides start from a file. The baseline parses each line of a JSONL file
//! and drops it, and a document as a whole. Each figure is the best of several alternating runs. Aider writes Markdown,
//! for which there is no baseline, and is omitted.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod steps;
mod written;

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use plimsoll_formats::database::Database;
use plimsoll_formats::{Format, detect, read, visit};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use written::written;

const RUNS: usize = 25;

fn main() {
    println!("{:<34} {:>8} {:>10} {:>10} {:>10} {:>7}", "", "MB", "Value", "visit", "read", "ratio");
    let only = std::env::args().nth(1).filter(|name| !name.starts_with('-'));
    for format in
        Format::ALL.into_iter().filter(|format| only.as_deref().is_none_or(|name| name == format.name()))
    {
        match format {
            Format::OpencodeDatabase => database(),
            Format::Aider => {}
            _ => {
                let bytes = written(format);
                assert_eq!(
                    detect(&bytes[..bytes.len().min(1 << 16)]),
                    Some(format),
                    "the wrong session was written"
                );
                compare(format.name(), &bytes);
            }
        }
    }
    if let Some(directory) = std::env::var_os("PLIMSOLL_CORPUS") {
        files(Path::new(&directory));
    }
}

fn files(directory: &Path) {
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path);
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let is_json = |format: Format| format != Format::Aider;
        if detect(&bytes[..bytes.len().min(1 << 16)]).is_some_and(is_json) {
            compare(&path.file_name().unwrap().to_string_lossy(), &bytes);
        }
    }
}

/// Returns the CPU time of this thread. Other work on the machine does not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the shortest CPU time of each function. They alternate, so that the machine treats them alike.
fn best<const N: usize>(mut timed: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut best = [Duration::MAX; N];
    for _ in 0..RUNS {
        for (best, run) in best.iter_mut().zip(&mut timed) {
            let start = cpu_time();
            run();
            *best = (cpu_time() - start).min(*best);
        }
    }
    best
}

fn compare(name: &str, bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let open = || BufReader::with_capacity(1 << 16, File::open(file.path()).unwrap());
    // Some formats are read as documents although each record is on one line.
    let is_lines = serde_json::from_slice::<Value>(bytes).is_err();
    let times = best([
        &mut || {
            if is_lines {
                let (mut input, mut line) = (open(), Vec::new());
                while input.read_until(b'\n', &mut line).unwrap() > 0 {
                    black_box(serde_json::from_slice::<Value>(&line)).unwrap();
                    line.clear();
                }
            } else {
                let text = fs::read(file.path()).unwrap();
                black_box(serde_json::from_slice::<Value>(&text)).unwrap();
            }
        },
        &mut || {
            black_box(visit(open(), &mut |_, message| drop(black_box(message))).unwrap());
        },
        &mut || drop(black_box(read(open()).unwrap())),
    ]);
    report(name, bytes.len(), times);
}

fn report(name: &str, bytes: usize, times: [Duration; 3]) {
    let speed = times.map(|time| bytes as f64 / 1e6 / time.as_secs_f64());
    println!(
        "{name:<34} {:>8.1} {:>10.0} {:>10.0} {:>10.0} {:>6.2}×",
        bytes as f64 / 1e6,
        speed[0],
        speed[1],
        speed[2],
        speed[1] / speed[0]
    );
}

/// Compares a database with its rows as values.
fn database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("opencode.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE session (id text PRIMARY KEY, time_updated integer);
            CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, data text);
            CREATE TABLE part (id text PRIMARY KEY, message_id text, data text);
            CREATE INDEX by_time ON message (session_id, time_created, id);
            CREATE INDEX by_message ON part (message_id, id);
            INSERT INTO session VALUES ('s', 1); BEGIN",
        )
        .unwrap();
    let export: Value = serde_json::from_slice(&written(Format::OpencodeExport)).unwrap();
    let mut rows = Vec::new();
    for (number, message) in export["messages"].as_array().unwrap().iter().enumerate() {
        let (id, info) = (message["info"]["id"].as_str().unwrap(), message["info"].to_string());
        let sql = "INSERT INTO message VALUES (?1, 's', ?2, ?3)";
        connection.execute(sql, (id, number as i64, &info)).unwrap();
        rows.push(info);
        for part in message["parts"].as_array().unwrap() {
            let data = part.to_string();
            let sql = "INSERT INTO part VALUES (?1, ?2, ?3)";
            connection.execute(sql, (part["id"].as_str().unwrap(), id, &data)).unwrap();
            rows.push(data);
        }
    }
    connection.execute_batch("COMMIT").unwrap();
    let database = Database::open(&path).unwrap();
    let times = best([
        &mut || rows.iter().for_each(|row| drop(black_box(serde_json::from_str::<Value>(row)))),
        &mut || {
            black_box(database.visit(None, &mut |_, message| drop(black_box(message))).unwrap());
        },
        &mut || drop(black_box(database.read(None).unwrap())),
    ]);
    report("opencode-db", rows.iter().map(String::len).sum(), times);
}
