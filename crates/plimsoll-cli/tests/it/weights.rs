//! Figures in receipts of stored sessions agree with `inspect` before and after.

use serde_json::{Value, json};

use crate::figures::{ClaudeSession, claude};
use crate::support::{Home, export};

/// A stored session that records usage, most of which is of what the host sends unseen.
struct Weighed {
    home: Home,
    id: String,
}

impl Weighed {
    fn new(made: &ClaudeSession) -> Weighed {
        let home = Home::new().with("project/s.jsonl", &claude(made));
        let printed = home.run(&["sessions", "import", "s.jsonl"]);
        assert!(printed.starts_with("exit: 0"), "{printed}");
        let rows = home.json(&["sessions", "--json", "--all", "--tool", "plimsoll"]);
        let id = rows[0]["id"].as_str().unwrap().to_owned();
        Weighed { home, id }
    }

    fn window(&self) -> u64 {
        self.home.json(&["inspect", "-s", &self.id, "--json"])["window"].as_u64().unwrap()
    }

    /// Runs a command that changes the session, and asserts that its receipt agrees with `inspect` before and after.
    fn check(&self, args: &[&str]) -> Value {
        let before = self.window();
        let printed = self.home.json(args);
        let after = self.window();
        let receipt =
            if printed["receipt"].is_null() { &printed["receipts"][0] } else { &printed["receipt"] };
        for (field, window) in [("before", before), ("after", after)] {
            let tokens = receipt[field].as_u64().unwrap_or_else(|| panic!("{args:?}: {printed}"));
            assert!(
                tokens.abs_diff(window) * 100 <= window,
                "{args:?}: {field} {tokens}, `inspect` {window}: {before} → {after}, receipt {} → {}",
                receipt["before"],
                receipt["after"],
            );
        }
        // The stored receipt equals the printed one.
        let id = receipt["id"].as_str().unwrap();
        let stored = self.home.json(&["receipts", id, "--json"]);
        let sizes = |receipt: &Value| [receipt["before"].clone(), receipt["after"].clone()];
        assert_eq!(sizes(&stored), sizes(receipt), "{args:?}");
        receipt.clone()
    }

    fn undo(&self, receipt: &Value) -> Value {
        self.check(&["undo", receipt["id"].as_str().unwrap(), "--json"])
    }
}

const LONG: ClaudeSession = ClaudeSession { responses: 40, hidden: 30_000 };

#[test]
fn receipts_agree_with_inspect() {
    let session = Weighed::new(&LONG);
    let id = session.id.as_str();
    let whole = session.window();
    let pruned = session.check(&["prune", "--file", "ledger.rs", "--apply", "-s", id, "--json"]);
    let again = session.check(&["prune", "--keep", "4", "--apply", "-s", id, "--json"]);
    let pinned = session.check(&["pin", id, "Find out why", "--json"]);
    session.undo(&pinned);
    let compacted = session.check(&["compact", "--offline", "--apply", "-s", id, "--json"]);
    // The hidden part is still there.
    assert!(session.window() > 29_000, "{}", session.window());
    // Undoing it before the summary brings nothing into the window.
    let hidden = session.undo(&again);
    assert_eq!(hidden["before"], hidden["after"]);
    session.undo(&compacted);
    session.undo(&pruned);
    assert_eq!(session.window(), whole);
    session.check(&["prune", "--tool", "Read", "--apply", "-s", id, "--json"]);
}

#[test]
fn receipts_of_ranges_and_command_summaries_agree_with_inspect() {
    let session = Weighed::new(&LONG);
    let id = session.id.as_str();
    let window = session.home.json(&["window", "-s", id, "--json"]);
    let messages: Vec<&str> = window["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["message"].as_str())
        .collect();
    let answers: Vec<&str> = messages.chunk_by(|a, b| a == b).map(|chunk| chunk[0]).collect();
    let (from, to) = (answers[4], answers[15]);
    let range =
        session.check(&["compact", "--from", from, "--to", to, "--offline", "--apply", "-s", id, "--json"]);
    session.check(&["prune", "--file", "main.rs", "--apply", "-s", id, "--json"]);
    session.undo(&range);
    #[cfg(unix)]
    session.check(&["compact", "--command", "echo '## All of it.'", "--apply", "-s", id, "--json"]);
}

#[cfg(unix)]
#[test]
fn a_compaction_is_planned_on_the_scale_of_the_window_under_every_policy() {
    for policy in ["plimsoll", "opencode", "openfork"] {
        let session = Weighed::new(&LONG);
        let args = ["compact", "--policy", policy, "-s", session.id.as_str()];
        let plan = session.home.run(&[&args[..], &["--plan"]].concat());
        let sizes = plan.lines().find_map(|line| line.trim().strip_prefix("window")).unwrap();
        let number = |text: &str| -> u64 {
            text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
        };
        let (before, after) = sizes.split(" tokens").next().unwrap().split_once(" → ").unwrap();
        assert_eq!(number(before), session.window(), "{plan}");
        // The provider counts half as much again as the documents do. A summary may have 8,000 tokens.
        session.check(&[&args[..], &["--command", "echo '## All of it.'", "--apply", "--json"]].concat());
        let (bound, window) = (number(after), session.window());
        assert!(window <= bound && bound - window <= 9_000, "{policy}: {window} of at most {bound}\n{plan}");
    }
}

#[test]
fn a_prune_to_a_share_frees_enough_on_the_scale_of_usage() {
    let session = Weighed::new(&LONG);
    let id = session.id.as_str();
    let context = (session.window() * 10 / 9).to_string();
    for percent in [70, 60, 50] {
        let to = format!("{percent}%");
        let args = ["prune", "--to", &to, "--context", &context, "-s", id, "--json"];
        let plan = session.home.json(&args);
        let applied = session.check(&[&args[..], &["--apply"]].concat());
        let parts = |plan: &Value| -> Vec<Value> {
            plan["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| json!([item["part"], item["tokens"]]))
                .collect()
        };
        assert_eq!(parts(&plan), parts(&applied["plan"]), "{to}: the plan is what is done");
        let (asked, window) = (context.parse::<u64>().unwrap() * percent / 100, session.window());
        // At most one output more than needed, plus rounding.
        assert!(window <= asked * 101 / 100 && window + 2_500 > asked, "{to}: {window} for {asked}");
        let freed = applied["plan"]["freedTokens"].as_u64().unwrap();
        let less = applied["before"].as_u64().unwrap() - applied["after"].as_u64().unwrap();
        assert!(freed.abs_diff(less) * 50 <= less, "{to}: {freed} cleared, {less} less");
    }
    let enough = session.home.run(&["prune", "--to", "60%", "--context", &context, "--apply", "-s", id]);
    let printed = plimsoll::Tokens(session.window()).to_string();
    assert!(enough.contains("small enough") && enough.contains(&printed), "{printed}: {enough}");
}

#[test]
fn a_session_without_usage_is_weighed_by_one_counter_too() {
    let home = Home::new();
    let mut stored = export(&home.project);
    for message in stored["messages"].as_array_mut().unwrap() {
        message["info"].as_object_mut().unwrap().remove("tokens");
    }
    home.write("project/s.json", &stored.to_string());
    assert!(home.run(&["sessions", "import", "s.json"]).starts_with("exit: 0"));
    let session = Weighed { id: stored["info"]["id"].as_str().unwrap().to_owned(), home };
    let id = session.id.as_str();
    assert_eq!(session.home.json(&["inspect", "-s", id, "--json"])["measured"], "characters");
    let pruned = session.check(&["prune", "--keep", "3", "--apply", "-s", id, "--json"]);
    let compacted = session.check(&["compact", "--offline", "--apply", "-s", id, "--json"]);
    session.undo(&pruned);
    session.undo(&compacted);
}
