//! Writes the sample session of `examples/`: an agent that works on this repository.
//!
//! The story is invented; the outputs of its tools are real, because files are read and searched in this checkout. In a
//! window of 200,000 tokens the session is long and varied enough to trigger every layer. `just sample` regenerates it.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll::log::{FilePart, ReasoningPart, ToolTime};
use plimsoll::{Ids, Message, Millis, Part, PartBody, SessionId, Tokens, ToolState, ToolStatus, Usage};
use plimsoll_formats::{Format, SessionInfo, write};
use serde_json::{Value, json};

const MODEL: &str = "claude-sonnet-4-5";
const DIRECTORY: &str = "/home/ada/plimsoll";
/// A red dot.
const PICTURE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let mut session = Session::new(Repository::read(&root)?);
    story(&mut session);
    let info = SessionInfo {
        id: Some(session.id.to_string()),
        parent: None,
        title: Some("Load figures per turn in the window".into()),
        directory: Some(DIRECTORY.into()),
        model: Some(MODEL.into()),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        started: Some(Millis(START)),
        updated: Some(Millis(session.clock)),
        context: None,
        tool: None,
    };
    println!("{}", serde_json::to_string(&write(Format::OpencodeExport, &info, &session.messages)?)?);
    Ok(())
}

const START: u64 = 1_794_733_200_000;

/// The script of the session.
fn story(session: &mut Session) {
    session.user(
        "I want the window to tell how heavy each turn is, so that `plimsoll window --json` can show it. First get \
         to know the code. Never touch the golden vectors under tests, and keep public names as they are.",
    );
    session.step(
        "I start with the lay of the land.",
        &[call("glob", json!({ "pattern": "crates/plimsoll/src/**/*.rs" }))],
    );
    session.think(
        "The window is a pure function of the log, so the weights belong beside it, not in it. Look at window.rs \
         and count.rs first.",
        "The window first, and how tokens are counted.",
        &[read("crates/plimsoll/src/window.rs"), read("crates/plimsoll/src/count.rs")],
    );
    session.step(
        "What the log holds.",
        &[read("crates/plimsoll/src/log/message.rs"), read("crates/plimsoll/src/log/part.rs")],
    );
    session.step("Who builds windows today?", &[grep("Window::of", "crates")]);
    session.say(
        "`Window::of` makes the messages, `window_message_tokens` weighs one. A turn's weight is the sum over the \
         window messages between two that start a turn; `place` leads back to the log. I would add \
         `Window::turns(&self, counter)` and leave everything else alone.",
    );

    session.later(9);
    session.user("Good. Before you write it: does pruning see turns the same way? I do not want two notions of a turn.");
    session.step(
        "Pruning has its own walk.",
        &[read("crates/plimsoll/src/prune.rs"), grep("starts_turn", "crates/plimsoll/src")],
    );
    session.step(
        "The fork looks at turns too.",
        &[
            read("crates/plimsoll/src/fork/tiers.rs"),
            read("crates/plimsoll/src/fork/boundary.rs"),
            read("crates/plimsoll/src/pivot.rs"),
        ],
    );
    session.say("All three ask `Message::starts_turn`. There is one notion of a turn; I will use it.");

    session.user("Then write it, with a test. You must run the tests before you say it is done.");
    session.step(
        "The method, next to `check`.",
        &[edit(
            "crates/plimsoll/src/window.rs",
            "    /// Whether this is a conversation that providers accept.",
            "    /// What each turn weighs, oldest first.\n    pub fn turns(&self, counter: &dyn Counter) -> Vec<Tokens> {\n        todo_turns(self, counter)\n    }\n\n    /// Whether this is a conversation that providers accept.",
        )],
    );
    session.failing("cargo check -p plimsoll", "error[E0425]: cannot find function `todo_turns` in this scope\n   --> crates/plimsoll/src/window.rs:187:9\n    |\n187 |         todo_turns(self, counter)\n    |         ^^^^^^^^^^ not found in this scope\n\nerror: could not compile `plimsoll` (lib) due to 1 previous error");
    session.step(
        "Of course; now the body.",
        &[edit(
            "crates/plimsoll/src/window.rs",
            "        todo_turns(self, counter)",
            "        let starts = |message: &WindowMessage| message.role == WindowRole::User;\n        let turns = self.messages.chunk_by(|_, next| !starts(next));\n        turns.map(|turn| turn.iter().map(|m| window_message_tokens(m, counter)).sum()).collect()",
        )],
    );
    session
        .step("And what the tests of the window look like.", &[read("crates/plimsoll/tests/it/window.rs")]);
    session.step(
        "One test more.",
        &[edit(
            "crates/plimsoll/tests/it/window.rs",
            "fn shape(",
            "#[test]\nfn turns_weigh_what_their_messages_weigh() {\n    let log = History::new().user(\"a\").say(\"b\").user(\"c\").say(\"d\").log();\n    let window = Window::of(&log, &Policy::default());\n    assert_eq!(window.turns(&CharCounter::default()), [Tokens(10), Tokens(10)]);\n}\n\nfn shape(",
        )],
    );
    session.tests(6);
    session.say(
        "The new test passes with all others. The output above was long; the summary line says 0 failed.",
    );

    session.later(31);
    session.user("The command should show it. Where is the table made? Add a column, no new flag.");
    session.step(
        "The command line.",
        &[
            read("crates/plimsoll-cli/src/commands.rs"),
            read("crates/plimsoll-cli/src/output.rs"),
            read("crates/plimsoll-cli/src/args.rs"),
        ],
    );
    session.step(
        "And how `inspect` draws.",
        &[read("crates/plimsoll-cli/src/inspect.rs"), grep("window_message_tokens", "crates")],
    );
    session.step(
        "The heading gets the turn's weight.",
        &[edit(
            "crates/plimsoll-cli/src/commands.rs",
            "fn heading(message: &WindowMessage, policy: &Policy) -> String {",
            "fn heading(message: &WindowMessage, turn: Option<Tokens>, policy: &Policy) -> String {",
        )],
    );
    session.step("Its tests.", &[read("crates/plimsoll-cli/tests/it/main.rs")]);
    session.tests(2);
    session.say("`plimsoll window` now shows the weight of a turn where it starts. No new flag.");

    session.picture(
        "Here is how it looks in my terminal. The numbers do not line up with the roles. Can you see why?",
    );
    session.think(
        "The heading pads the role to nine characters, but the separator is two cells wide in this font.",
        "Let me look at how other headings are padded.",
        &[grep("{:<", "crates"), read("crates/plimsoll-cli/src/inspect.rs")],
    );
    session.step(
        "The role is padded nowhere; the ranking pads its columns.",
        &[edit(
            "crates/plimsoll-cli/src/commands.rs",
            "format!(\"── {role}  {tokens} tokens{from}\")",
            "format!(\"── {role:<9}  {tokens:>9} tokens{from}\")",
        )],
    );
    session.say("Roles are padded to nine, tokens are right-aligned to nine. Both line up now.");

    session.later(14);
    session.user("A user reports that a session with 40,000 messages is slow to show. Measure before you change anything.");
    session.step(
        "The benchmarks there are.",
        &[read("crates/plimsoll/benches/engine.rs"), read("docs/BENCHMARKS.md")],
    );
    session.step(
        "What a window costs is in the walk over the log.",
        &[
            read("crates/plimsoll/src/pivot.rs"),
            read("crates/plimsoll/src/window.rs"),
            read("crates/plimsoll/src/load.rs"),
        ],
    );
    session.task(
        "Find every place that walks the whole log per call, and say how often each is called per turn.",
        "Four walks: `VisibleRange::of` (once per window), `Pivot::newest` (twice per climb), `Load::of` (two windows), and \
         `prune::plan` (once, stops at the newest cleared part). Per turn that is five passes over the log, each linear. \
         None is quadratic. `answers` in pivot.rs allocates a map of all markers; it is small.",
    );
    session.bash("cargo bench -p plimsoll -- window", &bench_table());
    session.say(
        "At 40,000 messages a window takes 9 ms, and a climb builds three. It is linear. The slow part in the report \
         must be elsewhere: reading the transcript. I would not change the engine for this.",
    );

    session.user("Then it is the readers, and not for today. Leave a note in docs/FORMATS.md that the tree formats hold every record.");
    session.step("", &[read("docs/FORMATS.md"), read("crates/plimsoll-formats/src/tree.rs")]);
    session.step(
        "Next to the guarantee about memory.",
        &[edit(
            "docs/FORMATS.md",
            "line by line",
            "line by line (records of tree formats are held until the newest leaf is known)",
        )],
    );
    session.say("Noted, where the promise about memory is made.");

    session.later(48);
    session.user("A sweep before we end: does any test depend on wall-clock time? None may.");
    session.step(
        "Where docs live.",
        &[read("docs/FORMATS.md"), read("ARCHITECTURE.md"), read("CONTRIBUTING.md")],
    );
    session.step(
        "Times in tests.",
        &[grep("SystemTime", "crates"), grep("Instant::now", "crates"), grep("sleep(", "crates")],
    );
    session.bash("./fuzz-night.sh --summary", &fuzz_log());
    session.step(
        "The tests of the ladder use a fixed time; see.",
        &[read("crates/plimsoll/tests/it/ladder.rs")],
    );
    session.say("No test reads the clock. The ladder's tests pass a constant `NOW`; discovery compares file times it sets itself.");

    session.user("Last: audit the whole engine against our rule that nothing is lost. Read everything you need at once, then list what you would check by hand.");
    for files in [
        &[
            "crates/plimsoll/src/compact/ladder.rs",
            "crates/plimsoll/src/compact/select.rs",
            "crates/plimsoll/src/compact/request.rs",
            "crates/plimsoll/src/compact/extract.rs",
            "crates/plimsoll/src/compact/shed.rs",
        ][..],
        &[
            "crates/plimsoll/src/receipt.rs",
            "crates/plimsoll/src/redact.rs",
            "crates/plimsoll/src/truncate.rs",
            "crates/plimsoll/src/chars.rs",
        ],
        &[
            "crates/plimsoll/src/policy/mod.rs",
            "crates/plimsoll/src/policy/presets.rs",
            "crates/plimsoll/src/policy/validate.rs",
            "crates/plimsoll/src/log/tool.rs",
            "crates/plimsoll/src/log/mod.rs",
        ],
        &[
            "crates/plimsoll-formats/src/read/claude_code.rs",
            "crates/plimsoll-formats/src/read/codex.rs",
            "crates/plimsoll-formats/src/read/pi.rs",
            "crates/plimsoll-formats/src/assembly.rs",
            "crates/plimsoll-formats/src/detect.rs",
        ],
        &[
            "crates/plimsoll-formats/src/write/mod.rs",
            "crates/plimsoll-formats/src/write/anthropic.rs",
            "crates/plimsoll-formats/src/write/openai.rs",
            "crates/plimsoll-formats/src/write/opencode.rs",
            "crates/plimsoll-formats/src/blocks.rs",
        ],
        &[
            "crates/plimsoll/tests/it/properties.rs",
            "crates/plimsoll/tests/it/prune.rs",
            "crates/plimsoll/tests/it/truncate.rs",
            "crates/plimsoll/tests/it/receipt.rs",
            "crates/plimsoll/tests/it/compact.rs",
        ],
        &[
            "crates/plimsoll/tests/it/fork.rs",
            "crates/plimsoll/tests/it/load.rs",
            "crates/plimsoll/tests/it/log.rs",
            "crates/plimsoll/tests/it/policy.rs",
            "crates/plimsoll/tests/it/window.rs",
        ],
    ] {
        let calls: Vec<ToolRequest> = files.iter().map(|file| read(file)).collect();
        session.step("", &calls);
    }
    session.step(
        "And once more what I changed.",
        &[read("crates/plimsoll/src/window.rs"), grep("fn turns", "crates/plimsoll/src")],
    );
    session.say(
        "To check by hand: (1) an undo after two compactions, (2) a prune whose receipt is undone while a summary is \
         written, (3) a cut part that is cut again, (4) spills when the directory vanishes between plan and write. The \
         property tests cover the rest: content is never rewritten, and every handle leads back to its part.",
    );
    session.user("Thank you. Do (3) now, as a test in tests/it/receipt.rs.");
    session.step("The existing tests.", &[grep("fn .*cut", "crates/plimsoll/tests/it")]);
    session.tests(1);
    session.say("`a_part_that_is_cut_twice_comes_back_whole` is in and passes.");
}

/// A tool and its input.
type ToolRequest = (&'static str, Value);

fn call(tool: &'static str, input: Value) -> ToolRequest {
    (tool, input)
}

fn read(path: &str) -> ToolRequest {
    ("read", json!({ "filePath": format!("{DIRECTORY}/{path}") }))
}

fn grep(pattern: &str, path: &str) -> ToolRequest {
    ("grep", json!({ "pattern": pattern, "path": path }))
}

fn edit(path: &str, old: &str, new: &str) -> ToolRequest {
    ("edit", json!({ "filePath": format!("{DIRECTORY}/{path}"), "oldString": old, "newString": new }))
}

/// The files of this repository, by path.
struct Repository(Vec<(String, String)>);

impl Repository {
    fn read(root: &Path) -> Result<Repository, Box<dyn Error>> {
        let mut files = Vec::new();
        for place in ["crates", "docs", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
            collect(root, &root.join(place), &mut files)?;
        }
        files.sort();
        Ok(Repository(files))
    }

    fn answer(&self, tool: &str, input: &Value) -> String {
        let text = |key: &str| input[key].as_str().unwrap_or_default();
        let path = |key: &str| text(key).trim_start_matches(DIRECTORY).trim_start_matches('/').to_owned();
        match tool {
            "read" => {
                let path = path("filePath");
                let file = self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_str());
                let lines = file.unwrap_or_default().lines().enumerate();
                let numbered: Vec<String> =
                    lines.map(|(at, line)| format!("{:05}| {line}", at + 1)).collect();
                format!("<file>\n{}\n</file>", numbered.join("\n"))
            }
            "grep" => {
                let (pattern, below) = (text("pattern").replace(".*", ""), path("path"));
                let mut found = Vec::new();
                for (name, file) in self.0.iter().filter(|(name, _)| name.starts_with(&below)) {
                    for (at, line) in file.lines().enumerate().filter(|(_, line)| line.contains(&pattern)) {
                        found.push(format!("{DIRECTORY}/{name}:{}: {}", at + 1, line.trim()));
                    }
                }
                format!("Found {} matches\n{}", found.len(), found.join("\n"))
            }
            "glob" => {
                let names = self
                    .0
                    .iter()
                    .map(|(name, _)| name)
                    .filter(|name| name.starts_with("crates/plimsoll/src"));
                names.map(|name| format!("{DIRECTORY}/{name}")).collect::<Vec<_>>().join("\n")
            }
            _ => format!("Edit applied to {}.", text("filePath")),
        }
    }

    /// Returns output like that of `cargo test -- --nocapture`, with `verbosity` lines per test.
    fn tests(&self, verbosity: usize) -> String {
        let mut out = String::from("   Compiling plimsoll v0.1.0\n    Finished `test` profile in 4.21s\n");
        let mut passed = 0;
        for (name, file) in self.0.iter().filter(|(name, _)| name.contains("plimsoll/tests/it/")) {
            let module = name.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
            let tests = file.lines().zip(file.lines().skip(1)).filter(|(line, _)| line.trim() == "#[test]");
            for test in tests.filter_map(|(_, line)| line.trim().strip_prefix("fn ")?.split('(').next()) {
                passed += 1;
                for line in 1..verbosity {
                    out += &format!(
                        "[{module}::{test}] step {line}: the log has {} messages, the window fits\n",
                        line * 7
                    );
                }
                out += &format!("test {module}::{test} ... ok\n");
            }
        }
        out + &format!("\ntest result: ok. {passed} passed; 0 failed; 1 ignored\n")
    }
}

fn collect(root: &Path, path: &PathBuf, files: &mut Vec<(String, String)>) -> Result<(), Box<dyn Error>> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(root, &entry?.path(), files)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
        let name = path.strip_prefix(root)?.display().to_string();
        files.push((name, fs::read_to_string(path)?));
    }
    Ok(())
}

fn bench_table() -> String {
    let mut out = String::from("engine            fastest       │ median        │ mean\n");
    for (messages, micros) in [(1_000, 221), (10_000, 2_270), (40_000, 9_104), (100_000, 23_360)] {
        out += &format!(
            "├─ window {messages:>7}  {micros} µs        │ {} µs        │ {} µs\n",
            micros + 9,
            micros + 14
        );
    }
    out
}

fn fuzz_log() -> String {
    let targets = ["messages", "policy", "fork", "window", "truncate", "redact", "transcripts"];
    let mut out = String::new();
    for (at, target) in targets.iter().cycle().take(2_800).enumerate() {
        let (runs, edges) = ((at + 1) * 4_096, 1_200 + at / 3);
        out += &format!(
            "#{runs}\tNEW    cov: {edges} ft: {} corp: {} exec/s: {} target: {target}\n",
            edges * 4,
            at / 2 + 1,
            9_000 - at % 700
        );
    }
    out + "all 7 targets done: 0 crashes, 0 timeouts\n"
}

struct Session {
    repository: Repository,
    id: SessionId,
    ids: Ids,
    clock: u64,
    messages: Vec<Message>,
    calls: u64,
    /// Tokens of the session so far.
    size: u64,
}

impl Session {
    fn new(repository: Repository) -> Session {
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut ids = Ids::new(move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        });
        let id = ids.session(Millis(START));
        Session { repository, id, ids, clock: START, messages: Vec::new(), calls: 0, size: 0 }
    }

    fn now(&mut self, seconds: u64) -> Millis {
        self.clock += seconds * 1_000;
        Millis(self.clock)
    }

    /// Lets time pass before the user's next message.
    fn later(&mut self, minutes: u64) {
        self.clock += minutes * 60_000;
    }

    fn push(&mut self, mut message: Message) {
        message.info.session_id = Some(self.id.clone());
        for part in &message.parts {
            self.size += plimsoll::part_tokens(part, &plimsoll::CharCounter::default()).0;
        }
        self.messages.push(message);
    }

    fn user(&mut self, text: &str) {
        let now = self.now(40);
        let message = Message::user(self.ids.message(now), self.ids.part(now), text).at(now);
        self.push(message);
    }

    fn picture(&mut self, text: &str) {
        self.user(text);
        let file = FilePart {
            mime: Some("image/png".into()),
            filename: Some("terminal.png".into()),
            url: Some(PICTURE.into()),
        };
        let part = Part::new(self.ids.part(Millis(self.clock)), PartBody::File(file));
        if let Some(message) = self.messages.last_mut() {
            message.parts.push(part);
        }
    }

    fn say(&mut self, text: &str) {
        self.answer("", text, Vec::new());
    }

    fn step(&mut self, text: &str, calls: &[ToolRequest]) {
        self.think("", text, calls);
    }

    fn think(&mut self, thought: &str, text: &str, calls: &[ToolRequest]) {
        let answered = calls.iter().map(|(tool, input)| {
            (*tool, ToolState::completed(input.clone(), self.repository.answer(tool, input)))
        });
        let answered = answered.collect();
        self.answer(thought, text, answered);
    }

    fn bash(&mut self, command: &str, output: &str) {
        let state = ToolState::completed(json!({ "command": command }), output);
        self.answer("", "", vec![("bash", state)]);
    }

    fn failing(&mut self, command: &str, error: &str) {
        let mut state = ToolState::completed(json!({ "command": command }), "");
        (state.status, state.output, state.error) = (ToolStatus::Error, None, Some(error.into()));
        self.answer("", "", vec![("bash", state)]);
    }

    fn tests(&mut self, verbosity: usize) {
        let output = self.repository.tests(verbosity);
        self.bash("cargo test -p plimsoll -- --nocapture", &output);
    }

    fn task(&mut self, prompt: &str, found: &str) {
        let input =
            json!({ "description": "Find walks over the log", "prompt": prompt, "subagent_type": "explore" });
        let state = ToolState::completed(input, found);
        self.answer("", "This is for a sub-agent; it need not see our conversation.", vec![("task", state)]);
    }

    fn answer(&mut self, thought: &str, text: &str, calls: Vec<(&'static str, ToolState)>) {
        let begun = self.now(6);
        let before = self.size;
        let mut parts = Vec::new();
        if !thought.is_empty() {
            let reasoning = PartBody::Reasoning(ReasoningPart { text: thought.into() });
            parts.push(Part::new(self.ids.part(begun), reasoning));
        }
        if !text.is_empty() {
            parts.push(Part::text(self.ids.part(begun), text));
        }
        let finish = if calls.is_empty() { "stop" } else { "tool-calls" };
        for (tool, mut state) in calls {
            self.calls += 1;
            let started = self.now(1);
            let ended = self.now(1);
            state.time = ToolTime::ran(started, ended);
            parts.push(Part::tool(self.ids.part(started), format!("call_{:04}", self.calls), tool, state));
        }
        let said: u64 = parts.iter().map(spoken).sum();
        let ended = self.now(2);
        let mut message = Message::assistant(self.ids.message(begun), parts).at(begun);
        message.info.time.get_or_insert_default().completed = Some(ended);
        message.info.finish = Some(finish.into());
        message.info.model_id = Some(MODEL.into());
        message.info.parent_id = self.messages.iter().rev().find(|m| m.is_user()).map(|m| m.info.id.clone());
        let mut usage = Usage::new(Tokens(4), Tokens(said));
        usage.cache_read = Tokens(self.cached(begun).min(before));
        usage.cache_write = Tokens(before) - usage.cache_read;
        message.info.tokens = Some(usage);
        self.push(message);
    }
}

impl Session {
    /// Returns the tokens of the last request that are in the cache, which lives for five minutes.
    fn cached(&self, now: Millis) -> u64 {
        let last = self.messages.iter().rev().find_map(|message| {
            let sent = message.info.time.as_ref()?.created?;
            let usage = message.info.tokens.as_ref()?;
            Some((sent, usage.input + usage.cache_read + usage.cache_write))
        });
        last.filter(|(sent, _)| now.0 - sent.0 <= 300_000).map_or(0, |(_, request)| request.0)
    }
}

/// Returns the tokens that the model wrote.
fn spoken(part: &Part) -> u64 {
    let counter = plimsoll::CharCounter::default();
    match part.as_tool().and_then(|tool| tool.state.input.as_ref()) {
        Some(input) => counter.of_chars(input.json().chars()).0,
        None => plimsoll::part_tokens(part, &counter).0,
    }
}
