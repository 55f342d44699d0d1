//! Prints the summary that is made without a model for three kinds of made-up session: many short turns, one long turn,
//! and a user who corrects the agent. `docs/SUMMARY.md` shows its output.

#![allow(clippy::disallowed_methods)] // The engine must not print, but its example may.

use std::io::Write;

use plimsoll::compact::extract;
use plimsoll::{Ids, Message, Millis, Part, Policy, Tokens, ToolState};
use serde_json::{Value, json};

const NOW: Millis = Millis(1_794_775_451_033);

struct Session {
    ids: Ids,
    messages: Vec<Message>,
}

impl Session {
    fn new() -> Session {
        let mut seed = 7u64;
        let ids = Ids::new(move || {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            seed
        });
        Session { ids, messages: Vec::new() }
    }

    fn user(mut self, text: &str) -> Session {
        self.messages.push(Message::user(self.ids.message(NOW), self.ids.part(NOW), text));
        self
    }

    fn say(mut self, text: &str) -> Session {
        let part = Part::text(self.ids.part(NOW), text);
        self.messages.push(Message::assistant(self.ids.message(NOW), vec![part]));
        self
    }

    fn call(mut self, tool: &str, input: Value, output: &str, exit: i64) -> Session {
        let mut state = ToolState::completed(input, output);
        state.extra.insert("metadata".into(), json!({ "exit": exit }));
        let id = self.ids.part(NOW);
        let part = Part::tool(id.clone(), format!("call_{id}"), tool, state);
        self.messages.push(Message::assistant(self.ids.message(NOW), vec![part]));
        self
    }

    fn bash(self, command: &str, output: &str, exit: i64) -> Session {
        self.call("bash", json!({ "command": command }), output, exit)
    }

    fn edit(self, path: &str) -> Session {
        self.call("edit", json!({ "filePath": path, "oldString": "a", "newString": "b" }), "ok", 0)
    }
}

fn short_turns() -> Session {
    Session::new()
        .user("The importer drops rows with a trailing comma. Find out why. Never change the fixtures in tests/data.")
        .call("read", json!({ "filePath": "src/import/csv.rs" }), "fn split(line: &str) { … }", 0)
        .say("The cause is `split_terminator` in `src/import/csv.rs`: it treats a trailing comma as the end of the row, \
              so the last empty field is lost and `validate` rejects the row.")
        .user("ok")
        .user("Then fix it, and add a test for quoted fields as well.")
        .edit("src/import/csv.rs")
        .edit("tests/import.rs")
        .bash("cargo test --test import", "test result: ok. 14 passed", 0)
        .say("Fixed: `split_fields` in `src/import/csv.rs` keeps empty fields and honours quotes. I decided against the \
              `csv` crate because the importer streams from stdin. `cargo test --test import` passes.")
        .user("Great. Next the exporter should write the same dialect, always with CRLF.")
        .edit("src/export/csv.rs")
        .bash("cargo test --test export", "assertion failed: rows.ends_with", 101)
        .say("The exporter writes CRLF now, but `export_empty_table` still fails: it expects no header for an empty \
              table. Open question: should an empty table have a header?")
}

fn long_turn() -> Session {
    let mut session = Session::new().user(
        "Upgrade the service to the new storage API. Requirements: keep the wire format, do not touch the Go client, \
         and all calls must have a timeout of five seconds.",
    );
    for n in 0..6 {
        let path = format!("service/src/handlers/h{n}.rs");
        session = session.call("read", json!({ "filePath": path.as_str() }), "…", 0).edit(&path);
    }
    session
        .call(
            "todowrite",
            json!({ "todos": [
                { "content": "port the handlers", "status": "completed" },
                { "content": "add timeouts to the batch calls", "status": "in_progress" },
                { "content": "update the operator's guide", "status": "pending" } ] }),
            "ok",
            0,
        )
        .bash("cargo build -p service", "Finished", 0)
        .bash("git commit -am 'storage: port the handlers'", "[main 3f2c9ab] storage: port the handlers", 0)
        .say("All six handlers use `Storage::open` now. The batch calls have no timeout yet, because `BatchClient` takes \
              it only in its constructor; I will add it in `service/src/batch.rs` next.")
}

fn corrected() -> Session {
    Session::new()
        .user("Make the settings page load faster.")
        .edit("web/settings.tsx")
        .say("I added a cache to `web/settings.tsx`; the page loads from local storage first.")
        .user("No, don't cache in the browser, settings must never be stale. The slow part is the query, look at the server.")
        .call("read", json!({ "filePath": "server/settings.sql" }), "SELECT …", 0)
        .edit("web/settings.tsx")
        .edit("server/settings.sql")
        .bash("npm test", "Tests: 41 passed", 0)
        .say("Reverted the cache. The query joined `audit_log` without need; without the join it takes 12 ms instead of \
              900 ms. The index on `settings.user_id` was already there.")
        .user("Good. Use the staging database for the benchmark, not the local one.")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    let policy = Policy::default();
    for (name, session) in [
        ("Many short turns", short_turns()),
        ("One long turn", long_turn()),
        ("A user who corrects", corrected()),
    ] {
        let history: Vec<&Message> = session.messages.iter().collect();
        let summary = extract(&history, None, Tokens(600), &policy.summary, &policy.count);
        writeln!(out, "### {name}\n\n```text\n{summary}\n```\n")?;
    }
    Ok(())
}
