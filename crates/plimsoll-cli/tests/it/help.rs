//! Help pages, completions and manual pages.

use insta::{assert_snapshot, with_settings};

use crate::support::{Home, ok, refused};

const COMMANDS: [&str; 27] = [
    "run",
    "chat",
    "serve",
    "tasks",
    "sessions",
    "inspect",
    "watch",
    "replay",
    "window",
    "prune",
    "compact",
    "fork",
    "convert",
    "receipts",
    "undo",
    "revert",
    "recall",
    "pin",
    "pins",
    "unpin",
    "truncate",
    "config",
    "trust",
    "untrust",
    "completions",
    "man",
    "mcp",
];

#[test]
fn every_help_page_has_a_snapshot() {
    assert_snapshot!("plimsoll", ok(&["--help"], ""));
    assert_snapshot!("plimsoll_short", ok(&["-h"], ""));
    for command in COMMANDS {
        assert_snapshot!(command, ok(&[command, "--help"], ""));
    }
    for command in ["list", "show", "output", "cancel", "resume", "steer", "clear"] {
        assert_snapshot!(format!("tasks_{command}"), ok(&["tasks", command, "--help"], ""));
    }
    for command in ["list", "show", "import", "export", "handover", "rm", "gc", "check", "purge"] {
        assert_snapshot!(format!("sessions_{command}"), ok(&["sessions", command, "--help"], ""));
    }
    assert_snapshot!("config_check", ok(&["config", "check", "--help"], ""));
}

#[test]
fn help_is_as_wide_as_the_terminal_up_to_a_readable_width() {
    let home = Home::new();
    let help = |columns, args: &[&str]| home.run_with(args, &[("COLUMNS", columns)]);
    for columns in ["60", "80"] {
        assert_snapshot!(format!("plimsoll_short_{columns}"), help(columns, &["-h"]));
    }
    assert_eq!(help("200", &["-h"]), help("100", &["-h"]));
    assert_eq!(help("80", &[]).replace("exit: 2", "exit: 0"), stderr_first(&help("80", &["-h"])));
}

/// Moves the text of standard output to standard error.
fn stderr_first(printed: &str) -> String {
    let (code, rest) = printed.split_once("----- stdout -----\n").unwrap();
    format!("{code}----- stdout -----\n----- stderr -----\n{}", rest.replace("----- stderr -----\n", ""))
}

#[test]
fn short_flags_do_what_the_long_ones_do() {
    let home = Home::new().with("project/s.json", &crate::support::chat(8));
    for (short, long) in [
        ("inspect s.json -w 64000 -p opencode -j", "inspect s.json --context 64000 --policy opencode --json"),
        ("sessions -a -n 5", "sessions --all --limit 5"),
        ("convert s.json -t openai-chat", "convert s.json --to openai-chat"),
        (
            "replay s.json -p none -p opencode -w 64000",
            "replay s.json --policy none --policy opencode --context 64000",
        ),
    ] {
        let run = |line: &str| home.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(run(short), run(long), "{short}");
        assert!(run(short).starts_with("exit: 0"), "{}", run(short));
    }
}

#[test]
fn the_version_is_printed() {
    with_settings!({ filters => [(r"\d+\.\d+\.\d+", "[VERSION]")] }, {
        assert_snapshot!(ok(&["--version"], ""), @"plimsoll [VERSION]");
    });
}

#[test]
fn usage_errors_suggest_a_correction() {
    assert_snapshot!(Home::new().page(&[
        "inspekt",
        "convert --to msword -",
        "window --as opencode-export -",
        "compact --plan --offline -",
        "prune --context 0 -",
        "sessions --tool cobol",
        "prune --session ses_1 -",
    ]));
}

#[test]
fn shells_can_complete_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(ok(&["completions", shell], "").contains("inspect"), "{shell}");
    }
    assert_eq!(refused(&["completions", "cobol"], "").0, 2);
}

#[test]
fn there_is_a_page_for_every_command() {
    let main = ok(&["man"], "");
    assert!(main.contains(".TH plimsoll 1") && main.contains("PLIMSOLL_POLICY"), "{main}");
    let home = Home::new();
    assert!(home.run(&["man", "pages"]).ends_with("wrote 45 pages to `pages`\n"));
    for command in COMMANDS {
        let page = std::fs::read_to_string(home.project.join(format!("pages/plimsoll-{command}.1"))).unwrap();
        assert!(page.contains(&format!(".TH plimsoll-{command} 1")), "{page}");
    }
    assert!(home.project.join("pages/plimsoll-config-check.1").exists());
}

#[test]
fn machines_can_ask_for_scripts_and_pages_too() {
    let script = crate::support::parsed(&["completions", "bash", "--json"], "");
    assert!(script["shell"] == "bash" && script["script"].as_str().unwrap().contains("inspect"));
    let page = crate::support::parsed(&["man", "--json"], "");
    assert!(page["name"] == "plimsoll.1" && page["page"].as_str().unwrap().contains(".TH"));
}
