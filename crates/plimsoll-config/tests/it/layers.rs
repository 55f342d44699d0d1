//! Five layers, field by field: the preset, the user's file, the project's, the environment, flags.

use std::path::PathBuf;

use plimsoll_config::{Config, Durability, Flags, Origin, SpillAge};

use crate::support::Home;

/// Layers, lowest priority first.
const LAYERS: [&str; 5] = ["preset", "user", "project", "environment", "flags"];

/// Loads a configuration with some of the layers above the preset, each with different values.
fn with_layers(user: bool, project: bool, environment: bool, flags: bool) -> (Home, Config) {
    let home = Home::new();
    let text = |n: u32, policy: &str| {
        format!(
            "policy = \"{policy}\"\ncontext = {n}000\nstore = \"{n}.db\"\ndurability = \"power\"\n\
             [spills]\nmaxBytes = {n}\nage = \"{n}s\"\n[prune]\nprotectTokens = {n}\n\
             [truncate.toolLimits]\nbash = {n}\n"
        )
    };
    if user {
        home.write(".config/plimsoll/config.toml", &text(1, "opencode"));
    }
    if project {
        home.write("project/plimsoll.toml", &text(2, "openfork"));
        home.trust(&home.project);
    }
    let variables = [
        ("PLIMSOLL_POLICY", "opencode-1.18"),
        ("PLIMSOLL_CONTEXT", "3000"),
        ("PLIMSOLL_STORE", "3.db"),
        ("PLIMSOLL_DURABILITY", "process"),
        ("PLIMSOLL_SPILLS_MAX_BYTES", "3"),
        ("PLIMSOLL_SPILLS_AGE", "3s"),
        ("PLIMSOLL_PRUNE_PROTECT_TOKENS", "3"),
        ("PLIMSOLL_TRUNCATE_TOOL_LIMITS", "{\"bash\":3}"),
    ];
    let env = home.env(&home.project, if environment { &variables } else { &[] });
    let asked = Flags {
        policy: Some("plimsoll".to_owned()),
        context: Some(4_000),
        store: Some(PathBuf::from("4.db")),
        ..Flags::default()
    };
    let config = Config::load(&if flags { asked } else { Flags::default() }, &env).unwrap();
    (home, config)
}

#[test]
fn a_context_window_is_written_in_thousands_or_millions() {
    let home = Home::new();
    let env = |text: &str| home.env(&home.project, &[("PLIMSOLL_CONTEXT", text)]);
    for (text, tokens) in [("128k", 128_000), ("1M", 1_000_000), ("64000", 64_000)] {
        assert_eq!(Config::load(&Flags::default(), &env(text)).unwrap().context, tokens);
        home.write("project/plimsoll.toml", &format!("context = \"{text}\"\n"));
        assert_eq!(Config::load(&Flags::default(), &home.env(&home.project, &[])).unwrap().context, tokens);
    }
    for text in ["0", "0k", "many", "1.5", "-1k"] {
        home.write("project/plimsoll.toml", "");
        let output = Config::load(&Flags::default(), &env(text)).unwrap_err().to_string();
        assert!(output.contains("such as 128000 or 128k") && output.contains(text), "{output}");
        home.write("project/plimsoll.toml", &format!("context = \"{text}\"\n"));
        let output = Config::load(&Flags::default(), &home.env(&home.project, &[])).unwrap_err().to_string();
        assert!(
            output.contains("plimsoll.toml:1: `context`: expected a number of tokens above 0"),
            "{output}"
        );
    }
}

fn layer_of(config: &Config, field: &str) -> &'static str {
    match config.origin(field) {
        Origin::BuiltIn | Origin::Preset(_) => LAYERS[0],
        Origin::File { path, .. } if path.ends_with("config.toml") => LAYERS[1],
        Origin::File { .. } => LAYERS[2],
        Origin::Variable(_) => LAYERS[3],
        Origin::Flag(_) => LAYERS[4],
        other => unreachable!("no setting comes from {other}"),
    }
}

#[test]
fn p12_the_highest_layer_that_sets_a_field_wins() {
    for mask in 0..16_u32 {
        let on = [mask & 1 != 0, mask & 2 != 0, mask & 4 != 0, mask & 8 != 0];
        let (home, config) = with_layers(on[0], on[1], on[2], on[3]);
        let heaviest = |most: usize| (1..=most).rev().find(|layer| on[layer - 1]).unwrap_or(0);
        // Flags cannot set these.
        let below_flags = [
            "durability",
            "spills.age",
            "spills.maxBytes",
            "prune.protectTokens",
            "truncate.toolLimits.bash",
        ];
        for field in below_flags {
            assert_eq!(layer_of(&config, field), LAYERS[heaviest(3)], "{field} with {on:?}");
        }
        for field in ["policy", "context", "store"] {
            assert_eq!(layer_of(&config, field), LAYERS[heaviest(4)], "{field} with {on:?}");
        }
        let (all, lower) = (heaviest(4), heaviest(3));
        assert_eq!(config.context, [200_000, 1_000, 2_000, 3_000, 4_000][all]);
        let names = ["plimsoll", "opencode", "openfork", "opencode-1.18", "plimsoll"];
        assert_eq!((config.policy.name.as_str(), config.chosen.as_str()), (names[all], names[all]));
        let directory = |place: &str| Some(home.path.join(place));
        let stores = [
            home.usual_store(),
            directory(".config/plimsoll/1.db"),
            directory("project/2.db"),
            directory("project/3.db"),
            directory("project/4.db"),
        ];
        assert_eq!(config.store.path, stores[all], "{on:?}");
        let number = |own: u64| if lower == 0 { own } else { lower as u64 };
        assert_eq!(config.policy.prune.protect_tokens.0, number(40_000));
        assert_eq!(config.store.spill_bytes, (lower > 0).then_some(lower as u64));
        let age = plimsoll::Millis(lower as u64 * 1_000);
        assert_eq!(
            config.store.spill_age,
            if lower == 0 { SpillAge::Default } else { SpillAge::AtMost(age) }
        );
        let power = matches!(lower, 1 | 2);
        assert_eq!(config.store.durability, if power { Durability::Power } else { Durability::Process });
        assert!(config.left_out.is_empty());
    }
}

#[test]
fn p12_without_trust_a_projects_harmless_settings_win() {
    let home = Home::new()
        .with(
            ".config/plimsoll/config.toml",
            "store = \"mine.db\"\ncontext = 1\n[prune]\nprotectTokens = 1\n",
        )
        .with("project/plimsoll.toml", "store = \"theirs.db\"\ncontext = 2\n[prune]\nprotectTokens = 2\n");
    let config = home.load();
    assert_eq!((config.context, config.policy.prune.protect_tokens.0), (2, 2));
    assert_eq!(config.store.path, Some(home.path.join(".config/plimsoll/mine.db")));
    assert_eq!(layer_of(&config, "store"), "user");
}

#[test]
fn errors_have_the_problem_its_place_and_a_hint() {
    let message = |text: &str| {
        let home = Home::new().with("project/plimsoll.toml", text);
        let error = Config::load(&Flags::default(), &home.env(&home.project, &[])).unwrap_err();
        let output = format!("{error} | {}", error.hint().unwrap_or_default());
        output.replace(home.project.to_str().unwrap(), "[PROJECT]")
    };
    insta::assert_snapshot!(message("[prune]\nprotectToken = 1\n"), @"[PROJECT]/plimsoll.toml:2: unknown setting `prune.protectToken` | did you mean `prune.protectTokens`?");
    insta::assert_snapshot!(message("spills = 1\n"), @"[PROJECT]/plimsoll.toml:1: `spills`: expected a section with fields |");
    insta::assert_snapshot!(message(&"#".repeat(1_000_001)), @"[PROJECT]/plimsoll.toml: larger than 1,000,000 bytes, the maximum for a configuration file |");
    for deep in [format!("{}a = 1", "a.".repeat(300_000)), format!("a = {}", "[".repeat(300_000))] {
        assert!(message(&deep).contains("recurs"), "nesting has its bound");
    }
    insta::assert_snapshot!(message("prune = 5\n"), @"[PROJECT]/plimsoll.toml:1: `prune`: found integer `5`, expected a section with fields | `plimsoll config --schema` describes all fields");
    insta::assert_snapshot!(message("policy = \"missing.json\"\n"), @"[PROJECT]/plimsoll.toml:1: unknown preset `missing.json` (available: `plimsoll`, `opencode`, `opencode-1.18`, `openfork`) | or give the path of a policy file");
}

#[test]
fn an_unknown_variable_is_a_warning_and_the_configuration_still_loads() {
    let home = Home::new();
    let load = |variables: &[(&str, &str)]| {
        Config::load(&Flags::default(), &home.env(&home.project, variables)).unwrap()
    };
    let config = load(&[
        ("PLIMSOLL_CONTEXT", "3000"),
        ("PLIMSOLL_PRUNE_PROTECT_TOKEN", "1"),
        ("PLIMSOLL_XYZZY", "1"),
        ("OTHER_XYZZY", "1"),
    ]);
    assert_eq!(config.context, 3_000, "known variables still count");
    let warnings: Vec<String> =
        config.unknown_variables.iter().map(|unknown| format!("{unknown}; {}", unknown.hint())).collect();
    insta::assert_debug_snapshot!(warnings, @r#"
    [
        "unknown environment variable `PLIMSOLL_PRUNE_PROTECT_TOKEN`; did you mean `PLIMSOLL_PRUNE_PROTECT_TOKENS`?",
        "unknown environment variable `PLIMSOLL_XYZZY`; `plimsoll config` lists all fields; `prune.minTokens` is `PLIMSOLL_PRUNE_MIN_TOKENS`",
    ]
    "#);
    assert!(load(&[("PLIMSOLL_LOG", "debug"), ("PLIMSOLL_BLESS", "1")]).unknown_variables.is_empty());
}
