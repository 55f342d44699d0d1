//! `plimsoll replay`: comparing policies on recorded sessions.

use serde_json::Value;

use crate::support::{Home, chat, ok, parsed, refused, sample};

/// The session that is shipped with the project.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/session.json");

/// The exit code, and what was said on either side.
fn run(home: &Home, args: &[&str]) -> (i32, String, String) {
    let output = home.command(args, &[]).stdin(std::process::Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_sample_session_makes_every_layer_fire() {
    let replay = parsed(&["replay", "--json", "--context", "200000", "--policy", "plimsoll", SAMPLE], "");
    let report = &replay["total"][0];
    for kind in ["truncate", "prune", "compact"] {
        assert!(report["fired"][kind].as_u64().unwrap() > 0, "{kind}: {}", report["fired"]);
    }
    assert_eq!((report["deaths"].as_u64(), replay["context"].as_u64()), (Some(0), Some(200_000)));
}

#[test]
fn a_table_compares_the_policies() {
    let home = Home::new().with("project/session.json", &sample());
    insta::assert_snapshot!(home.page(&[
        "replay --context 200000 session.json",
        "replay --context 64000 --price-as default session.json"
    ]));
}

#[test]
fn many_sessions_have_a_total() {
    let home = Home::new().with("project/a.json", &chat(6)).with("project/b.json", &chat(12));
    insta::assert_snapshot!(home.page(&[
        "replay --context 80000 --policy none --policy plimsoll --policy mask-3 a.json b.json",
        "replay --context 80000 --policy none --per-session a.json b.json",
    ]));
}

#[test]
fn json_has_every_call_and_every_reduction() {
    let home = Home::new().with("project/a.json", &chat(12));
    let (code, text, _) =
        run(&home, &["replay", "--json", "--context", "80000", "--policy", "plimsoll", "a.json"]);
    let replay: Value = serde_json::from_str(&text).unwrap();
    let report = &replay["sessions"][0]["policies"][0];
    assert_eq!((code, replay["sessions"][0]["name"].as_str()), (0, Some("a.json")));
    assert_eq!(report["windows"].as_array().unwrap().len() as u64, report["calls"].as_u64().unwrap());
    let fired: u64 = report["fired"].as_object().unwrap().values().map(|times| times.as_u64().unwrap()).sum();
    assert_eq!(report["reductions"].as_array().unwrap().len() as u64, fired);
    assert!(report["reductions"][0]["call"].as_u64().unwrap() >= 1);
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let home = Home::new().with("project/a.json", &chat(12)).with("project/<b>.json", &chat(6));
    let asked = ["replay", "--context", "80000", "--html", "page.html", "a.json", "<b>.json"];
    let (code, _, printed) = run(&home, &asked);
    assert!(code == 0 && printed.contains("wrote `page.html`"), "{printed}");
    let page = std::fs::read_to_string(home.project.join("page.html")).unwrap();
    for foreign in ["<script", "<link", "src=", "@import", "url(", "<b>.json"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let addresses: Vec<&str> = page.matches("http").collect();
    assert_eq!(addresses.len(), page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
    for present in [
        "&lt;b&gt;.json",
        "prefers-color-scheme",
        "@media print",
        "max-width:700px",
        "Cost and share in the window",
        "Where the rules come from",
        "sweagent/agent/history_processors.py",
        "<tr class=\"used\"><th scope=\"row\">▸ default</th>",
        "<th scope=\"row\">claude-opus-4-6</th><td>Anthropic</td>",
    ] {
        assert!(page.contains(present), "{present}");
    }
    // A chart for screens and one for phones, for each of two sessions; there is nothing else to draw.
    assert_eq!(page.matches("<figure").count(), 4);
    assert!(page.contains("No call needed anything that only tool outputs mention"));
    let (code, _, printed) = run(&home, &asked);
    assert!(code == 2 && printed.contains("`--force`"), "{printed}");
    let (code, ..) = run(&home, &["replay", "--html", "page.html", "--force", "a.json"]);
    assert_eq!(code, 0);
}

#[test]
fn the_sources_of_rules_are_listed() {
    let home = Home::new();
    insta::assert_snapshot!(
        home.page(&["replay --list-policies", "replay --list-policies --policy mask-3 --json"])
    );
    let replay = parsed(&["replay", "--json", "--policy", "codex", SAMPLE], "");
    assert_eq!(replay["rules"][0]["policy"], "codex");
    assert!(
        replay["rules"][0]["source"].as_str().unwrap().contains("core/src/compact.rs"),
        "{}",
        replay["rules"]
    );
}

#[test]
fn prices_are_listed_and_used_ones_are_marked() {
    let home = Home::new().with("project/session.json", &sample());
    let marked = |args: &[&str]| {
        let printed = home.run_with(&[&["replay", "--list-prices"], args].concat(), &[]);
        assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
        assert!(
            printed.contains("OpenAI") && printed.contains("Anthropic") && printed.contains("Google"),
            "{printed}"
        );
        let headings: Vec<Vec<&str>> = printed
            .lines()
            .filter(|line| line.contains("provider"))
            .map(|line| line.split("  ").map(str::trim).filter(|heading| !heading.is_empty()).collect())
            .collect();
        let expected = ["provider", "model", "input", "read", "written", "for 1 h", "output"];
        assert_eq!(headings, [expected], "a heading for each price");
        let marked = printed.lines().filter_map(|line| line.strip_prefix("▸  "));
        marked.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(marked(&[]), [""; 0]);
    assert_eq!(marked(&["session.json"]), ["Anthropic claude-sonnet-4-5 $3 $0.3 $3.75 $6 $15"]);
    assert_eq!(marked(&["--price-as", "gpt-5.5"]), ["OpenAI gpt-5-5 $5 $0.5 $5 – $30"]);
    let rows = home.json(&["replay", "--list-prices", "--price-as", "gpt-5.5", "--json"]);
    let used = rows.as_array().unwrap().iter().find(|row| row["used"] == true).unwrap();
    assert_eq!((&used["provider"], &used["longPrompt"]["above"]), (&"OpenAI".into(), &272_000.into()));
}

#[test]
fn the_page_draws_what_was_recorded_and_equal_lines_once() {
    let home = Home::new().with("project/session.json", &sample());
    let asked = ["replay", "--context", "200000", "--html", "page.html", "session.json"];
    assert_eq!(run(&home, &asked).0, 0);
    let page = std::fs::read_to_string(home.project.join("page.html")).unwrap();
    assert!(page.contains("<title>anthropic-clear = anthropic-clear-50</title>"));
    assert!(page.contains("<li>") && page.contains(" anthropic-clear = anthropic-clear-50</li>"));
    assert_eq!(
        page.matches("<figure").count(),
        4,
        "what was in the window against cost, and the window, for screens and phones"
    );
    // Every policy has its name at what fired under it.
    assert!(page.matches(">mask-10-by-10</text>").count() >= 4, "lines and rows, wide and narrow");
    let (_, json, _) = run(&home, &["replay", "--json", "--policy", "none", "session.json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let recorded = json["sessions"][0].get("recordedRequests").is_some();
    assert_eq!(page.contains("class=\"recorded\""), recorded);
}

#[test]
fn prices_are_those_of_the_model_or_as_requested() {
    let home = Home::new()
        .with("project/a.json", &chat(3))
        .with("project/prices.json", r#"{ "mine": { "cacheRead": 1, "cacheWrite": 10, "output": 100 } }"#)
        .with("project/bad.json", r#"{ "mine": { "input": 1 } }"#);
    let cost = |more: &[&str]| {
        let asked = [&["replay", "--json", "--policy", "none", "a.json"], more].concat();
        let (code, text, printed) = run(&home, &asked);
        assert_eq!(code, 0, "{printed}");
        let replay: Value = serde_json::from_str(&text).unwrap();
        (
            replay["total"][0]["cost"].as_f64().unwrap(),
            replay["sessions"][0]["price"].as_str().unwrap().to_owned(),
        )
    };
    let (plain, row) = cost(&[]);
    assert_eq!(row, "default");
    let (opus, row) = cost(&["--price-as", "claude-opus-4-6"]);
    assert!(row == "claude-opus-4-6" && (opus / plain - 5.0).abs() < 1e-9);
    let (own, row) = cost(&["--prices", "prices.json", "--price-as", "mine-1"]);
    assert!(row == "mine" && own > plain, "{row} {own}");
    let (code, _, printed) = run(&home, &["replay", "--prices", "bad.json", "a.json"]);
    assert!(code == 2 && printed.contains("cacheRead") && printed.contains("hint: "), "{printed}");
}

#[test]
fn one_bad_file_does_not_cost_the_others() {
    let home = Home::new().with("project/a.json", &chat(3)).with("project/bad.json", "no transcript");
    let (code, table, printed) = run(&home, &["replay", "--policy", "none", "a.json", "bad.json"]);
    assert!(code == 3 && table.contains("none"), "{table}");
    assert!(printed.contains("cannot read `bad.json`"), "{printed}");
    let (code, table, printed) = run(&home, &["replay", "bad.json"]);
    assert!(code == 3 && table.is_empty() && printed.contains("bad.json"), "{printed}");
    let silent = r#"{"messages": [{"role": "user", "content": "hello?"}]}"#;
    let (code, _, printed) = run(&Home::new().with("project/a.json", silent), &["replay", "a.json"]);
    assert!(code == 3 && printed.contains("has no model call to replay"), "{printed}");
}

#[test]
fn a_policy_can_be_a_file_and_is_replayed_once() {
    let home = Home::new()
        .with("project/a.json", &chat(12))
        .with("project/mine.json", r#"{ "name": "mine", "preset": "opencode" }"#);
    let asked =
        ["replay", "--json", "--policy", "mine.json", "--policy", "none", "--policy", "none", "a.json"];
    let (code, text, printed) = run(&home, &asked);
    assert_eq!(code, 0, "{printed}");
    let replay: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> =
        replay["total"].as_array().unwrap().iter().map(|report| report["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["mine", "none"]);
    let (code, printed) = refused(&["replay", "--policy", "msword", SAMPLE], "");
    assert!(code == 2 && printed.contains("msword") && printed.contains("mask-N"), "{printed}");
    assert!(ok(&["replay", "--policy", "mask-2", SAMPLE], "").contains("mask-2"));
}
