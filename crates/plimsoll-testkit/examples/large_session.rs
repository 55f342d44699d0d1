//! Writes reproducible Claude Code sessions for measurements: one to standard output, or many into a directory.
//!
//! `large_session 100000 3 > session.jsonl` writes one session of 100,000 messages with outputs of 3 lines.
//! `large_session 6 3 20000 DIR` writes 20,000 sessions of 6 messages each.
//!
//! A turn has three messages: a prompt, an answer that reads a file or runs the tests, and a final answer. The recorded
//! usage is that of a window that was never reduced.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

/// Tokens of each request in addition to the conversation.
const HIDDEN_TOKENS: usize = 15_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<usize>().unwrap();
    let size = (number(0), number(1));
    let Some(directory) = arguments.get(3).map(PathBuf::from) else {
        return Session::write(std::io::stdout().lock(), "large-session".into(), size);
    };
    std::fs::create_dir_all(&directory).unwrap();
    for count in 0..number(2) {
        let id = format!("{count:08x}-0000-4000-8000-000000000000");
        Session::write(File::create(directory.join(format!("{id}.jsonl"))).unwrap(), id, size);
    }
}

struct Session<W: Write> {
    out: BufWriter<W>,
    id: String,
    /// Lines of each output.
    lines: usize,
    records: usize,
    /// Characters of the conversation so far.
    chars: usize,
}

impl<W: Write> Session<W> {
    fn write(out: W, id: String, (messages, lines): (usize, usize)) {
        let mut session = Session { out: BufWriter::new(out), id, lines, records: 0, chars: 0 };
        for turn in 0..messages.div_ceil(3) {
            session.turn(turn);
        }
        session.out.flush().unwrap();
    }

    fn turn(&mut self, turn: usize) {
        let path = format!("src/module_{:03}/part_{:02}.rs", turn / 40 % 500, turn % 40);
        let (tool, input) = match turn % 3 {
            0 => ("Bash", json!({ "command": format!("cargo test -p store module_{:03}", turn / 40 % 500) })),
            _ => ("Read", json!({ "file_path": format!("/home/user/project/{path}") })),
        };
        let call = format!("toolu_{turn:06}");
        let prompt = format!("Please look at `{path}` and say whether step {turn} is handled there.");
        self.record("user", &json!({ "role": "user", "content": prompt }));
        self.answer(turn, 0, &json!({ "type": "tool_use", "id": call, "name": tool, "input": input }));
        let result =
            json!({ "type": "tool_result", "tool_use_id": call, "content": output(turn, &path, self.lines) });
        self.record("user", &json!({ "role": "user", "content": [result] }));
        let said =
            format!("`{path}` handles it: `step_{turn}` returns `Err(StepError::E{:04})`.", turn % 10_000);
        self.answer(turn, 1, &json!({ "type": "text", "text": said }));
    }

    fn answer(&mut self, turn: usize, number: usize, block: &Value) {
        let usage = json!({ "input_tokens": 4, "cache_creation_input_tokens": 120,
            "cache_read_input_tokens": HIDDEN_TOKENS + self.chars / 4, "output_tokens": 60 });
        self.record(
            "assistant",
            &json!({ "id": format!("msg_{turn:06}_{number}"), "role": "assistant", "model": "claude-sonnet-4-5",
                "content": [block], "usage": usage }),
        );
    }

    fn record(&mut self, kind: &str, message: &Value) {
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
        let mut record = json!({ "parentUuid": parent, "sessionId": self.id, "type": kind, "message": message,
            "uuid": name(self.records), "timestamp": time });
        if self.records == 0 {
            record["cwd"] = "/home/user/project".into();
        }
        serde_json::to_writer(&mut self.out, &record).unwrap();
        self.out.write_all(b"\n").unwrap();
        self.records += 1;
    }
}

/// Code or a test run, with 70 to 110 characters per line.
fn output(turn: usize, path: &str, lines: usize) -> String {
    (0..lines)
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
