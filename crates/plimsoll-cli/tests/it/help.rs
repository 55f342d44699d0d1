//! What the command says about itself.

use insta::{assert_snapshot, with_settings};

use crate::support::{Home, ok, refused};

const COMMANDS: [&str; 23] = [
    "chat",
    "tasks",
    "sessions",
    "inspect",
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
];

#[test]
fn help_is_worth_reading() {
    assert_snapshot!("plimsoll", ok(&["--help"], ""));
    assert_snapshot!("plimsoll_short", ok(&["-h"], ""));
    for command in COMMANDS {
        assert_snapshot!(command, ok(&[command, "--help"], ""));
    }
    for command in ["list", "show", "output", "cancel", "resume", "steer", "clear"] {
        assert_snapshot!(format!("tasks_{command}"), ok(&["tasks", command, "--help"], ""));
    }
    for command in ["show", "import", "export", "rm", "gc", "check", "purge"] {
        assert_snapshot!(format!("sessions_{command}"), ok(&["sessions", command, "--help"], ""));
    }
}

#[test]
fn the_version_is_told() {
    with_settings!({ filters => [(r"\d+\.\d+\.\d+", "[VERSION]")] }, {
        assert_snapshot!(ok(&["--version"], ""), @"plimsoll [VERSION]");
    });
}

#[test]
fn asking_wrongly_is_answered_with_what_would_be_right() {
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
    assert!(home.run(&["man", "pages"]).ends_with("wrote 41 pages to `pages`\n"));
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
