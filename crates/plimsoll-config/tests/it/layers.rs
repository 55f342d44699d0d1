//! Five layers, field by field: the preset, the user's file, the project's, the environment, flags.

use std::path::PathBuf;

use plimsoll_config::{Config, Durability, Flags, Origin, SpillAge};

use crate::support::Home;

/// What the layers set, from the lightest to the heaviest.
const LAYERS: [&str; 5] = ["preset", "user", "project", "environment", "flags"];

/// The configuration with these of the layers after the preset, each of which says something else.
fn with_layers(user: bool, project: bool, environment: bool, flags: bool) -> (Home, Config) {
    let home = Home::new();
    let text = |n: u32, policy: &str| {
        format!(
            "policy = \"{policy}\"\ncontext = {n}000\nstore = \"{n}.db\"\ndurability = \"power\"\n\
             [spills]\nmostBytes = {n}\nage = \"{n}s\"\n[prune]\nprotectTokens = {n}\n\
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
        ("PLIMSOLL_SPILLS_MOST_BYTES", "3"),
        ("PLIMSOLL_SPILLS_AGE", "3s"),
        ("PLIMSOLL_PRUNE_PROTECT_TOKENS", "3"),
        ("PLIMSOLL_TRUNCATE_TOOL_LIMITS", "{\"bash\":3}"),
    ];
    let around = home.around(&home.project, if environment { &variables } else { &[] });
    let asked = Flags {
        policy: Some("plimsoll".to_owned()),
        context: Some(4_000),
        store: Some(PathBuf::from("4.db")),
        ..Flags::default()
    };
    let config = Config::load(&if flags { asked } else { Flags::default() }, &around).unwrap();
    (home, config)
}

#[test]
fn a_context_window_is_written_in_thousands_or_millions() {
    let home = Home::new();
    let around = |text: &str| home.around(&home.project, &[("PLIMSOLL_CONTEXT", text)]);
    for (text, tokens) in [("128k", 128_000), ("1M", 1_000_000), ("64000", 64_000)] {
        assert_eq!(Config::load(&Flags::default(), &around(text)).unwrap().context, tokens);
        home.write("project/plimsoll.toml", &format!("context = \"{text}\"\n"));
        assert_eq!(
            Config::load(&Flags::default(), &home.around(&home.project, &[])).unwrap().context,
            tokens
        );
    }
    for text in ["0", "0k", "many", "1.5", "-1k"] {
        home.write("project/plimsoll.toml", "");
        let told = Config::load(&Flags::default(), &around(text)).unwrap_err().to_string();
        assert!(told.contains("such as 128000 or 128k") && told.contains(text), "{told}");
        home.write("project/plimsoll.toml", &format!("context = \"{text}\"\n"));
        let told = Config::load(&Flags::default(), &home.around(&home.project, &[])).unwrap_err().to_string();
        assert!(told.contains("plimsoll.toml:1: `context`: expected a number of tokens above 0"), "{told}");
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
fn p12_the_heaviest_layer_that_says_something_wins_field_by_field() {
    for mask in 0..16_u32 {
        let on = [mask & 1 != 0, mask & 2 != 0, mask & 4 != 0, mask & 8 != 0];
        let (home, config) = with_layers(on[0], on[1], on[2], on[3]);
        let heaviest = |most: usize| (1..=most).rev().find(|layer| on[layer - 1]).unwrap_or(0);
        // Flags say nothing about these.
        let below_flags = [
            "durability",
            "spills.age",
            "spills.mostBytes",
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
        let folder = |place: &str| Some(home.path.join(place));
        let stores = [
            home.usual_store(),
            folder(".config/plimsoll/1.db"),
            folder("project/2.db"),
            folder("project/3.db"),
            folder("project/4.db"),
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
fn p12_without_trust_the_project_wins_where_it_is_harmless() {
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
fn errors_say_what_and_where_and_what_to_do() {
    let told = |text: &str| {
        let home = Home::new().with("project/plimsoll.toml", text);
        let error = Config::load(&Flags::default(), &home.around(&home.project, &[])).unwrap_err();
        let told = format!("{error} | {}", error.hint().unwrap_or_default());
        told.replace(home.project.to_str().unwrap(), "[PROJECT]")
    };
    insta::assert_snapshot!(told("[prune]\nprotectToken = 1\n"), @"[PROJECT]/plimsoll.toml:2: there is no setting `prune.protectToken` | did you mean `prune.protectTokens`?");
    insta::assert_snapshot!(told("spills = 1\n"), @"[PROJECT]/plimsoll.toml:1: `spills`: expected a section with fields |");
    insta::assert_snapshot!(told(&"#".repeat(1_000_001)), @"[PROJECT]/plimsoll.toml: larger than 1,000,000 bytes, which no configuration is |");
    for deep in [format!("{}a = 1", "a.".repeat(300_000)), format!("a = {}", "[".repeat(300_000))] {
        assert!(told(&deep).contains("recurs"), "nesting has its bound");
    }
    insta::assert_snapshot!(told("prune = 5\n"), @"[PROJECT]/plimsoll.toml:1: `prune`: found integer `5`, expected a section with fields | `plimsoll config --schema` describes all fields");
    insta::assert_snapshot!(told("policy = \"missing.json\"\n"), @"[PROJECT]/plimsoll.toml:1: there is no preset `missing.json`; there are `plimsoll`, `opencode`, `opencode-1.18`, `openfork` | or give the path of a policy file");
}
