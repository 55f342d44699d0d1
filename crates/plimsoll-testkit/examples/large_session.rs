//! Writes a Claude Code session of so many messages to standard output, the same each time, for measurements of large sessions:
//! `cargo run -q --release -p plimsoll-testkit --example large_session -- 100000 > session.jsonl`.
//!
//! A turn has three messages: a prompt, an answer that reads a file or runs the tests, and an answer in words. The usage that
//! is recorded is that of a window in which nothing was ever reduced.
#![allow(clippy::unwrap_used)]

use std::io::{BufWriter, Write};

use serde_json::{Value, json};

const SESSION: &str = "large-session";
const DEFAULT_MESSAGES: usize = 100_000;
/// What every request carries beside the conversation.
const HIDDEN_TOKENS: usize = 15_000;

fn main() {
    let wanted = std::env::args().nth(1).map_or(DEFAULT_MESSAGES, |count| count.parse().unwrap());
    let mut session = Session { out: BufWriter::new(std::io::stdout().lock()), records: 0, chars: 0 };
    for turn in 0..wanted.div_ceil(3) {
        session.turn(turn);
    }
    session.out.flush().unwrap();
}

struct Session<W> {
    out: W,
    records: usize,
    /// Characters of the conversation so far.
    chars: usize,
}

impl<W: Write> Session<W> {
    fn turn(&mut self, turn: usize) {
        let path = format!("src/module_{:03}/part_{:02}.rs", turn / 40 % 500, turn % 40);
        let (tool, input) = match turn % 3 {
            0 => ("Bash", json!({ "command": format!("cargo test -p store module_{:03}", turn / 40 % 500) })),
            _ => ("Read", json!({ "file_path": format!("/home/user/project/{path}") })),
        };
        let call = format!("toolu_{turn:06}");
        let prompt = format!("Please look at `{path}` and say whether step {turn} is handled there.");
        self.record("user", json!({ "role": "user", "content": prompt }));
        self.answer(turn, 0, json!({ "type": "tool_use", "id": call, "name": tool, "input": input }));
        let result = json!({ "type": "tool_result", "tool_use_id": call, "content": output(turn, &path) });
        self.record("user", json!({ "role": "user", "content": [result] }));
        let said =
            format!("`{path}` handles it: `step_{turn}` returns `Err(StepError::E{:04})`.", turn % 10_000);
        self.answer(turn, 1, json!({ "type": "text", "text": said }));
    }

    fn answer(&mut self, turn: usize, number: usize, block: Value) {
        let usage = json!({ "input_tokens": 4, "cache_creation_input_tokens": 120,
            "cache_read_input_tokens": HIDDEN_TOKENS + self.chars / 4, "output_tokens": 60 });
        self.record(
            "assistant",
            json!({ "id": format!("msg_{turn:06}_{number}"), "role": "assistant", "model": "claude-sonnet-4-5",
                "content": [block], "usage": usage }),
        );
    }

    fn record(&mut self, kind: &str, message: Value) {
        self.chars += message["content"].to_string().len();
        let name = |number: usize| format!("record-{number:08}");
        let parent = self.records.checked_sub(1).map(name);
        let seconds = self.records;
        let time = format!(
            "2026-01-{:02}T{:02}:{:02}:{:02}.000Z",
            1 + seconds / 86_400 % 28,
            seconds / 3_600 % 24,
            seconds / 60 % 60,
            seconds % 60
        );
        let mut record = json!({ "parentUuid": parent, "sessionId": SESSION, "type": kind, "message": message,
            "uuid": name(self.records), "timestamp": time });
        if self.records == 0 {
            record["cwd"] = "/home/user/project".into();
        }
        serde_json::to_writer(&mut self.out, &record).unwrap();
        self.out.write_all(b"\n").unwrap();
        self.records += 1;
    }
}

/// About 300 characters of code or of a test run.
fn output(turn: usize, path: &str) -> String {
    (0..3)
        .map(|line| match turn % 3 {
            0 => format!("test module_{:03}::case_{turn}_{line} ... ok, {path} in {} ms\n", turn / 40 % 500, turn % 97),
            _ => format!(
                "    let value_{turn}_{line} = parse(&input[{}..])?; // see {path}:{}\n    total += value_{turn}_{line};\n",
                turn % 64,
                turn % 900 + line
            ),
        })
        .collect()
}
