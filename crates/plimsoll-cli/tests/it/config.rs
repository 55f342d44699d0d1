//! Layers of configuration, where each value comes from, and what is refused.

use insta::assert_snapshot;

use crate::support::{Home, ok, parsed};

/// The rows of the table that do not come from the preset.
fn set(printed: &str) -> String {
    printed.lines().filter(|line| !line.contains("preset ")).collect::<Vec<_>>().join("\n")
}

fn layered() -> Home {
    Home::new()
        .with(
            "project/plimsoll.toml",
            "policy = \"opencode\"\ncontext = 100000\n\n[prune]\nprotectTokens = 1\nminTokens = 2\n\
             activeTurns = 3\n\n[truncate.toolLimits]\nbash = 4\n",
        )
        .with(
            ".config/plimsoll/config.toml",
            "context = 50000\n[prune]\nminTokens = 20\nminOutputChars = 40\n",
        )
}

#[test]
fn a_layer_of_higher_priority_wins_and_every_value_has_its_origin() {
    let home = layered();
    let environment = [("PLIMSOLL_PRUNE_ACTIVE_TURNS", "300"), ("OPENCODE_DISABLE_AUTOCOMPACT", "1")];
    assert_snapshot!(set(&home.run_with(&["config"], &environment)));
    let json = home.command(&["config", "--json", "--context", "64000"], &environment).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let prune = &json["policy"]["prune"];
    assert_eq!((&prune["protectTokens"], &prune["minTokens"]), (&1.into(), &2.into()));
    assert_eq!(prune["minOutputChars"], 40);
    assert_eq!((&prune["activeTurns"], &json["context"]), (&300.into(), &64_000.into()));
    assert_eq!(json["origins"]["prune.activeTurns"]["variable"], "PLIMSOLL_PRUNE_ACTIVE_TURNS");
    assert_eq!(json["origins"]["prune.minTokens"]["file"]["line"], 6);
    assert_eq!(json["origins"]["prune.minOutputChars"]["file"]["line"], 4);
    assert_eq!(json["origins"]["context"]["flag"], "--context");
    assert_eq!(json["origins"]["fork.charBudget"]["preset"], "opencode");
}

#[test]
fn the_projects_file_is_found_from_below_and_xdg_is_honoured() {
    let home = layered().with("elsewhere/plimsoll/config.toml", "[prune]\nretainChars = 7\n");
    std::fs::create_dir_all(home.project.join("src/deep")).unwrap();
    let elsewhere = home.path.join("elsewhere");
    let mut command = home.command(&["config"], &[("XDG_CONFIG_HOME", elsewhere.to_str().unwrap())]);
    let printed = home.output_text(&command.current_dir(home.project.join("src/deep")).output().unwrap());
    let row = |name: &str| printed.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("prune.retainChars").ends_with("~/elsewhere/plimsoll/config.toml:2"), "{printed}");
    assert!(row("prune.activeTurns").ends_with("~/project/plimsoll.toml:7"), "{printed}");
}

#[test]
fn a_policy_that_is_named_by_a_flag_takes_the_place_of_the_one_below() {
    let home = Home::new()
        .with("project/plimsoll.toml", "policy = \"team.json\"\n[fork]\ntier1Count = 1\n")
        .with(
            "project/team.json",
            r#"{ "preset": "openfork", "prune": { "retainChars": 5 }, "fork": "tiered" }"#,
        )
        .with(
            "project/mine.toml",
            "preset = \"opencode\"\n[prune]\nactiveTurns = 9\n[fork]\ntier1Count = 2\n",
        );
    let rows = |args: &[&str]| {
        let printed = home.run(args);
        let wanted =
            ["policy ", "prune.retainChars", "prune.activeTurns", "fork.tier1Count", "fork.tier2Count"];
        let rows = printed.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name)));
        rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(rows(&["config"]), @r"
    policy team.json ~/project/plimsoll.toml:1
    prune.activeTurns 0 preset openfork
    prune.retainChars 5 ~/project/team.json
    fork.tier1Count 1 ~/project/plimsoll.toml:3
    fork.tier2Count 10 ~/project/team.json
    ");
    assert_snapshot!(rows(&["config", "--policy", "opencode"]), @r"
    policy opencode --policy
    prune.activeTurns 2 preset opencode
    prune.retainChars 2000 preset opencode
    fork.tier1Count 1 ~/project/plimsoll.toml:3
    fork.tier2Count 10 preset opencode
    ");
    assert_snapshot!(rows(&["config", "--policy", "mine.toml"]), @r"
    policy mine.toml --policy
    prune.activeTurns 9 ~/project/mine.toml:3
    prune.retainChars 2000 preset opencode
    fork.tier1Count 2 ~/project/mine.toml:5
    fork.tier2Count 10 preset opencode
    ");
}

#[test]
fn the_environment_chooses_policy_and_context() {
    let home = layered();
    let printed =
        home.run_with(&["config"], &[("PLIMSOLL_POLICY", "openfork"), ("PLIMSOLL_CONTEXT", "9000")]);
    let printed = printed.lines().skip(2).take(3).collect::<Vec<_>>().join("\n");
    assert_snapshot!(printed, @r"
    FIELD                             VALUE                 ORIGIN
    policy                            openfork              PLIMSOLL_POLICY
    context                           9000                  PLIMSOLL_CONTEXT
    ");
}

#[test]
fn configuration_errors_have_a_place_and_a_next_step() {
    let cases = [
        ("unknown_key", "[prune]\nprotectToken = 1\n"),
        ("unknown_section", "[prunes]\nprotectTokens = 1\n"),
        ("no_toml", "[prune\nprotectTokens = 1\n"),
        ("wrong_type", "[prune]\n\nprotectTokens = \"many\"\n"),
        ("no_section", "prune = 5\n"),
        ("nested", "[overflow.models.\"gpt-4.1\"]\ncontext = \"big\"\n"),
        ("wrong_choice", "[prune]\norder = \"sideways\"\n"),
        ("contradiction", "[compact]\ntailMin = 99999\n"),
        ("no_such_preset", "policy = \"opencod\"\n"),
        ("both", "policy = \"opencode\"\npreset = \"opencode\"\n"),
        ("context", "context = -1\n"),
        ("a_date", "context = 2026-01-01\n"),
    ];
    let printed = cases.map(|(name, text)| {
        let home = Home::new().with("project/plimsoll.toml", text);
        format!("# {name}\n{}", home.page(&["prune -"]))
    });
    assert_snapshot!(printed.join("\n"));
}

#[test]
fn unknown_variables_are_warnings_and_wrong_values_are_errors() {
    let home = Home::new();
    assert_snapshot!(home.page(&[
        "PLIMSOLL_PRUNE_PROTECT_TOKEN=1 config check",
        "PLIMSOLL_XYZZY=1 config check",
        "PLIMSOLL_PRUNE_PROTECT_TOKENS=lots config",
        "PLIMSOLL_PRUNE_PROTECT_TOKENS=-1 config",
        "PLIMSOLL_COMPACT_TAIL_MIN=99999 config",
        "PLIMSOLL_CONTEXT=0 config",
        "PLIMSOLL_POLICY=opencod config",
    ]));
    let fine = home.run_with(&["config", "check"], &[("PLIMSOLL_CORPUS", "x"), ("PLIMSOLL_BLESS", "1")]);
    assert!(fine.starts_with("exit: 0"), "{fine}");
}

#[test]
fn check_answers_with_its_exit_code() {
    let home = Home::new()
        .with("project/good.toml", "policy = \"openfork\"\n[prune]\nretainChars = 10\n")
        .with("project/bad.json", "{\n  \"prune\": { \"protectToken\": 1 }\n}\n")
        .with("project/worse.json", "{\n  \"prune\": \n}\n")
        .with("project/guide.json", r#"{ "TokenManagement": { "MaxLines": 1 } }"#);
    assert_snapshot!(home.page(&[
        "config check",
        "config check good.toml",
        "config check bad.json",
        "config check worse.json",
        "config check guide.json",
        "config check missing.toml",
        "config check --json good.toml",
        "config check --json bad.json",
        "config --policy opencod",
    ]));
}

#[test]
fn check_can_still_be_a_flag() {
    let home = Home::new().with("project/bad.json", r#"{ "compact": { "tailMin": 99999 } }"#);
    assert!(home.run(&["config", "--check", "--policy", "bad.json"]).starts_with("exit: 1"));
    assert!(home.run(&["config", "--check"]).starts_with("exit: 0"));
}

#[test]
fn every_preset_is_shown_and_described() {
    for preset in ["plimsoll", "opencode", "opencode-1.18", "openfork"] {
        assert_eq!(parsed(&["config", "--json", "--policy", preset], "")["policy"]["name"], preset);
    }
    assert!(ok(&["config", "--schema"], "").contains("TokenManagement"));
}
