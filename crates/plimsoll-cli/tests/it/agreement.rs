//! Every command that shows a session's window shows the same figures: size, kinds with their labels, hidden part, line, percent.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use plimsoll::{Tokens, Usage};
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::chat;
use crate::figures::{ClaudeSession, claude};
use crate::mcp::Client;
use crate::serve::{Serve, serve_without_model};
use crate::support::{Home, chat as openai_chat, export};

const HIDDEN: &str = "system prompt and tools (not recorded)";
const UNSEEN: &str = "other content (not recorded)";

/// Figures of a window. `None` if the command does not show a figure.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shown {
    window: Option<u64>,
    is_measured: Option<bool>,
    hidden: Option<u64>,
    unseen: Option<u64>,
    line: Option<u64>,
    percent: Option<u64>,
    /// Tokens by label, the hidden part included.
    kinds: Option<BTreeMap<String, u64>>,
}

impl Shown {
    fn inspect(home: &Home, session: &str) -> Shown {
        let found = home.json(&["inspect", session, "--json"]);
        let rows = found["byKind"].as_array().unwrap().iter();
        let mut kinds: BTreeMap<String, u64> = rows
            .map(|row| (row["name"].as_str().unwrap().to_owned(), row["tokens"].as_u64().unwrap()))
            .collect();
        let (hidden, unseen) = (found["hidden"].as_u64(), found["unseen"].as_u64());
        kinds.extend(hidden.filter(|tokens| *tokens > 0).map(|tokens| (HIDDEN.to_owned(), tokens)));
        kinds.extend(unseen.filter(|tokens| *tokens > 0).map(|tokens| (UNSEEN.to_owned(), tokens)));
        let (window, line) = (found["window"].as_u64().unwrap(), found["line"].as_u64());
        assert_eq!(kinds.values().sum::<u64>(), window, "the kinds add up to the window: {found}");
        Shown {
            window: Some(window),
            is_measured: Some(found["measured"] == "usage"),
            hidden,
            unseen,
            line,
            percent: line.map(|line| (window * 100 + line / 2) / line),
            kinds: Some(kinds),
        }
    }

    fn inspect_text(home: &Home, session: &str) -> Shown {
        let text = home.run_with(&["inspect", session], &[("COLUMNS", "200")]);
        let rows = text.lines().skip_while(|line| *line != "In the window").skip(1);
        let rows = rows.take_while(|line| !line.is_empty() && !line.starts_with('-'));
        let kinds = rows.map(|row| (row.split_once(" × ").unwrap().1.to_owned(), first_number(row)));
        Shown { kinds: Some(kinds.collect()), ..Shown::fullness(&text) }
    }

    fn window(home: &Home, session: &str) -> Shown {
        let found = home.json(&["window", session, "--json"]);
        let text = home.run(&["window", session]);
        let note = text.lines().find(|line| line.starts_with("a request of ")).unwrap();
        let (_, rest) = note.split_once(" message").unwrap();
        let tokens = number_before(rest, " tokens");
        assert_eq!(tokens, found["tokens"].as_u64(), "{note}");
        let (hidden, unseen) = (found["hidden"].as_u64(), found["unseen"].as_u64());
        assert_eq!(
            number_before(rest, " of them not in the file"),
            hidden.map(|hidden| hidden + unseen.unwrap()),
            "{note}"
        );
        Shown {
            window: tokens,
            is_measured: found["measured"].as_bool(),
            hidden,
            unseen,
            line: number_after(note, "line at "),
            percent: number_before(note, " % of "),
            kinds: None,
        }
    }

    fn watch(home: &Home, session: &str) -> Shown {
        let found = home.json(&["watch", "--once", "--json", session]);
        Shown {
            window: found["tokens"].as_u64(),
            is_measured: found["measured"].as_bool(),
            line: found["line"].as_u64(),
            percent: found["percent"].as_u64(),
            ..Shown::default()
        }
    }

    /// The row of a session in the list.
    fn listed(home: &Home, id: &str) -> Shown {
        let rows = home.json(&["sessions", "--all", "--tool", "plimsoll", "--json"]);
        let row = rows.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
        Shown { window: row["window"].as_u64(), is_measured: row["measured"].as_bool(), ..Shown::default() }
    }

    async fn mcp(home: &Home, id: &str) -> Shown {
        let client = Client::connect(home, "a test").await;
        let (text, is_error) = client.call("inspect_session", json!({ "session": id })).await.unwrap();
        assert!(!is_error, "{text}");
        let rows = text.lines().filter_map(|line| line.split_once(" tokens: "));
        let kinds = rows.map(|(tokens, label)| {
            // The count of parts follows the label.
            let label = label.rsplit_once(" × ").map_or(label, |(_, label)| label);
            (label.to_owned(), first_number(tokens))
        });
        let (_, about) = text.split_once("as a request the window has ").unwrap();
        Shown {
            window: number_after(about, "about "),
            line: number_after(about, "line at "),
            percent: number_before(about, " % of "),
            kinds: Some(kinds.collect()),
            ..Shown::default()
        }
    }

    /// Answer of the server's `/plimsoll/session/{id}/window`.
    fn served(found: &Value) -> Shown {
        let rows = found["kinds"].as_array().unwrap().iter();
        let kinds =
            rows.map(|row| (row["name"].as_str().unwrap().to_owned(), row["tokens"].as_u64().unwrap()));
        Shown {
            window: found["window"].as_u64(),
            is_measured: Some(found["measured"] == "usage"),
            hidden: found["hidden"].as_u64(),
            unseen: found["unseen"].as_u64(),
            line: found["line"].as_u64(),
            percent: found["percent"].as_u64(),
            kinds: Some(kinds.collect()),
        }
    }

    /// Row of a session in the server's list.
    fn served_row(row: &Value) -> Shown {
        Shown {
            window: row["window"].as_u64(),
            is_measured: row["isMeasured"].as_bool(),
            line: row["line"].as_u64(),
            percent: row["percent"].as_u64(),
            ..Shown::default()
        }
    }

    /// Contents of `/window`.
    fn chat(seen: &str) -> Shown {
        let text =
            seen.rsplit_once(" tokens in the window").map(|(before, _)| before.rfind('\n').unwrap_or(0));
        let text = &seen[text.unwrap_or_else(|| panic!("no window in:\n{seen}"))..];
        let rows = text.trim_start().lines().skip(1).take_while(|line| !line.trim().is_empty());
        let rows = rows.filter(|row| !row.contains("of it pinned"));
        let kinds = rows.map(|row| {
            let (tokens, label) = row.trim().split_once("  ").unwrap();
            (label.trim().to_owned(), first_number(tokens))
        });
        Shown { kinds: Some(kinds.collect()), ..Shown::fullness(text) }
    }

    /// Reads the sentence that says how full the window is.
    fn fullness(text: &str) -> Shown {
        let start = text.find(" tokens in the window").unwrap_or_else(|| panic!("no window in:\n{text}"));
        let rest = text[start..].lines().next().unwrap();
        let before = text[..start].rsplit([' ', '\n']).next().unwrap();
        Shown {
            window: Some(first_number(before)),
            line: number_after(rest, "line at "),
            percent: number_before(rest, " % of "),
            ..Shown::default()
        }
    }

    /// Asserts that what a command shows is what `inspect --json` shows.
    fn assert_agrees(&self, with: &Shown, what: &str) {
        assert_eq!(self.window, with.window, "{what}: window");
        assert_eq!(self.line, with.line, "{what}: line");
        assert_eq!(self.percent, with.percent, "{what}: percent");
        if self.is_measured.is_some() {
            assert_eq!(self.is_measured, with.is_measured, "{what}: measured");
        }
        if self.kinds.is_some() {
            assert_eq!(self.kinds, with.kinds, "{what}: kinds");
        }
        if self.hidden.is_some() {
            assert_eq!((self.hidden, self.unseen), (with.hidden, with.unseen), "{what}: hidden part");
        }
    }
}

fn first_number(text: &str) -> u64 {
    let digits: String = text.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    digits.replace(',', "").parse().unwrap_or_else(|_| panic!("no number in `{text}`"))
}

fn number_before(text: &str, words: &str) -> Option<u64> {
    text.split_once(words).map(|(before, _)| first_number(before.rsplit(' ').next().unwrap_or(before)))
}

fn number_after(text: &str, words: &str) -> Option<u64> {
    text.split_once(words).map(|(_, after)| first_number(after))
}

/// A sample of each format: files of the tree, and sessions with usage and long outputs that are made here.
fn samples(home: &Home) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut samples: Vec<PathBuf> = ["crates/plimsoll-formats/tests/samples", "fuzz/seeds"]
        .iter()
        .flat_map(|directory| std::fs::read_dir(root.join(directory)).unwrap())
        .map(|entry| entry.unwrap().path().canonicalize().unwrap())
        .filter(|path| {
            // The other seeds are not transcripts, or copies of the samples.
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_copy = name.starts_with("format-") || name.ends_with(".txt");
            !is_copy && !["guide.json", "parts.json", "pivots.json", "policy.json"].contains(&name)
        })
        .collect();
    samples.sort();
    let stored = export(&home.project);
    samples.extend([
        home.write("samples/long-claude.jsonl", &claude(&ClaudeSession { responses: 30, hidden: 20_000 })),
        home.write("samples/chat.json", &openai_chat(4)),
        home.write("samples/export.json", &stored.to_string()),
        home.write("samples/messages.json", &stored["messages"].to_string()),
    ]);
    samples
}

#[tokio::test]
async fn every_command_shows_the_same_window_of_a_session_in_every_format() {
    let places = Home::new();
    let mut formats = BTreeSet::new();
    for sample in samples(&places) {
        let home = Home::new();
        let (path, what) = (sample.to_str().unwrap(), sample.file_name().unwrap().to_str().unwrap());
        let found = Shown::inspect(&home, path);
        formats.insert(home.json(&["inspect", path, "--json"])["format"].as_str().unwrap().to_owned());
        Shown::inspect_text(&home, path).assert_agrees(&found, &format!("{what}: inspect"));
        Shown::window(&home, path).assert_agrees(&found, &format!("{what}: window"));
        Shown::watch(&home, path).assert_agrees(&found, &format!("{what}: watch"));
        let Some(id) = import(&home, path) else { continue };
        let stored = Shown::inspect(&home, &id);
        stored.assert_agrees(&found, &format!("{what}: stored copy"));
        Shown::window(&home, &id).assert_agrees(&stored, &format!("{what}: window of the stored copy"));
        let listed = Shown { line: stored.line, percent: stored.percent, ..Shown::listed(&home, &id) };
        listed.assert_agrees(&stored, &format!("{what}: sessions"));
        Shown::mcp(&home, &id).await.assert_agrees(&stored, &format!("{what}: inspect_session"));
    }
    let all: BTreeSet<String> = plimsoll_formats::Format::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(formats, all, "each format has a sample");
}

/// Stores all samples, serves them, and passes each with its figures by `inspect` to `compare`. The server only shows sessions
/// of its directory, so samples that record another one are left out.
fn with_served_samples(compare: impl Fn(&Serve, &Value, &Shown, &str)) {
    let (places, home) = (Home::new(), Home::new());
    let paths = samples(&places).into_iter().map(|path| path.display().to_string());
    let stored: Vec<(String, String)> =
        paths.filter_map(|path| import(&home, &path).map(|id| (path, id))).collect();
    let server = serve_without_model(&home);
    let listed = server.send("GET", "/plimsoll/sessions", "");
    let listed = listed["sessions"].as_array().unwrap();
    let (mut compared, mut measured) = (0, 0);
    for (path, id) in &stored {
        let Some(row) = listed.iter().find(|row| row["id"] == id.as_str()) else { continue };
        let found = Shown::inspect(&home, id);
        compare(&server, row, &found, path);
        compared += 1;
        measured += usize::from(found.is_measured == Some(true));
    }
    assert!(compared >= 8 && measured >= 3, "{compared} sessions compared, {measured} of them measured");
}

#[test]
fn the_server_lists_sessions_with_the_figures_that_the_command_shows() {
    with_served_samples(|server, row, found, path| {
        Shown::served_row(row).assert_agrees(found, &format!("{path}: served list"));
        let id = row["id"].as_str().unwrap();
        let session = server.send("GET", &format!("/plimsoll/session/{id}"), "");
        Shown::served_row(&session["figures"]).assert_agrees(found, &format!("{path}: served session"));
    });
}

#[test]
fn the_server_shows_the_window_that_the_command_shows() {
    with_served_samples(|server, row, found, path| {
        let id = row["id"].as_str().unwrap();
        let window = server.send("GET", &format!("/plimsoll/session/{id}/window"), "");
        Shown::served(&window).assert_agrees(found, &format!("{path}: served window"));
    });
}

fn import(home: &Home, path: &str) -> Option<String> {
    let output = home.command(&["sessions", "import", path, "--json"], &[]).output().unwrap();
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    reports[0]["id"].as_str().map(str::to_owned)
}

/// A session that this agent continues is shown by the agent as by all others.
#[tokio::test]
async fn a_chat_shows_the_window_that_the_other_commands_show() {
    let (places, mut served_sessions) = (Home::new(), 0);
    for sample in samples(&places) {
        let (home, server) = (Home::new(), ModelServer::start().unwrap());
        let (path, what) = (sample.to_str().unwrap(), sample.file_name().unwrap().to_str().unwrap());
        let Some(id) = import(&home, path) else { continue };
        let read = Reply::new().text("Let me look.").call("call_1", "read", json!({ "path": "depth.txt" }));
        home.write("project/depth.txt", &"nine metres\n".repeat(200));
        let replies = [read, Reply::new().text("Nine metres.")];
        // The scripted model charges a quarter of the bytes. For a long text full of numbers no vocabulary needs that few
        // tokens, so no command would believe it: the agent then estimates the whole window, and the others what was added
        // since the last usage that they believe.
        let is_dense = what == "long-claude.jsonl";
        let charged = |reply: Reply, input, output| match is_dense {
            true => reply.usage(Usage::new(Tokens(input), Tokens(output))),
            false => reply,
        };
        let [read, answer] = replies;
        server.push_all([charged(read, 70_000, 30), charged(answer, 72_000, 22)]);
        let mut command = chat::command(&home, &server, &["--session", &id]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"How deep is it?\n/window\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let seen = home.output_text(&output);
        assert_eq!(output.status.code(), Some(0), "{what}: {seen}");
        let found = Shown::inspect(&home, &id);
        assert_eq!(found.is_measured, Some(true), "{what}");
        Shown::chat(&seen).assert_agrees(&found, &format!("{what}: chat\n{seen}"));
        Shown::window(&home, &id).assert_agrees(&found, &format!("{what}: window"));
        Shown::watch(&home, &id).assert_agrees(&found, &format!("{what}: watch"));
        Shown::mcp(&home, &id).await.assert_agrees(&found, &format!("{what}: inspect_session"));
        // The window that another tool recorded no longer applies, neither here nor there.
        let served = serve_without_model(&home);
        let listed = served.send("GET", "/plimsoll/sessions", "");
        let listed = listed["sessions"].as_array().unwrap();
        let Some(row) = listed.iter().find(|row| row["id"] == id.as_str()) else { continue };
        Shown::served_row(row).assert_agrees(&found, &format!("{what}: served list"));
        let window = served.send("GET", &format!("/plimsoll/session/{id}/window"), "");
        Shown::served(&window).assert_agrees(&found, &format!("{what}: served window"));
        served_sessions += 1;
    }
    assert!(served_sessions >= 8, "{served_sessions} sessions were served");
}
