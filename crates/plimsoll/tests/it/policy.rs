//! Presets, overrides, validation, the guide's section, the schema.

use plimsoll::policy::USER_FIELDS;
use plimsoll::{Chars, Limits, Policy, PolicyError, Preset, Tokens};
use rstest::rstest;
use serde_json::{Value, json};

#[test]
fn every_preset_is_valid() {
    for preset in Preset::ALL {
        let policy = preset.policy();
        assert_eq!(policy.name, preset.name());
        assert_eq!(Policy::new(policy.clone().into_spec()), Ok(policy.clone()));
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy, "{preset} survives JSON");
        assert_eq!(Policy::from_json(&format!("{{\"preset\":\"{preset}\"}}")), Ok(policy));
    }
}

#[test]
fn presets_as_a_table() {
    let dump: Value = Preset::ALL
        .iter()
        .map(|p| (p.name().to_owned(), serde_json::to_value(p.policy()).unwrap()))
        .collect();
    insta::assert_json_snapshot!(dump);
}

#[rstest]
#[case(json!({ "compact": { "tailMin": 80_000 } }), "`compact.tailMin`: 80,000 is more than `compact.tailMax`, which is 60,000")]
#[case(json!({ "fork": { "noRemoval": 300_000 } }), "`fork.noRemoval`: 300,000 is more than `fork.charBudget`, which is 200,000")]
#[case(json!({ "fork": { "charBudget": 10, "noRemoval": 1 } }), "`fork.charBudget`: 10 is too little for a digest (minimum 1,000)")]
#[case(json!({ "fork": { "tailRatio": 0.3 } }), "`fork.tailRatio`: the sum of 0.3 and `fork.headRatio`, which is 0.8, is more than 1")]
#[case(json!({ "truncate": { "maxLines": 0 } }), "`truncate.maxLines`: must be above 0")]
#[case(json!({ "truncate": { "toolLimits": { "read": 0 } } }), "`truncate.toolLimits.read`: must be above 0")]
#[case(json!({ "overflow": { "share": 1.5 } }), "`overflow.share`: 1.5 is not above 0 and at most 1")]
#[case(json!({ "preset": "openfork", "compact": { "targetPercent": 95 } }), "`compact.targetPercent`: 95 is not below the line at 90 percent")]
#[case(json!({ "prune": { "stopAfterTokens": 10 } }), "`prune.stopAfterTokens`: 10 is not above `prune.minTokens`, which is 20,000: nothing would ever be pruned")]
#[case(json!({ "overflow": { "models": { "m": { "context": 10, "input": 20 } } } }), "`overflow.models.m.input`: 20 is more than the context window, which is 10")]
#[case(json!({ "shed": { "minPartChars": 5 } }), "`shed.minPartChars`: 5 leaves no room for the marker (minimum 100)")]
#[case(json!({ "count": { "charsPerToken": 0 } }), "`count.charsPerToken`: must be above 0")]
#[case(json!({ "cache": { "lookBack": 0 } }), "`cache.lookBack`: must be above 0")]
#[case(json!({ "recall": { "maxChars": 500 } }), "`recall.maxChars`: 500 leaves no room for content (minimum 2,000)")]
#[case(json!({ "recall": { "maxLineChars": 15_000 } }), "`recall.maxLineChars`: 15,000 is more than half of `recall.maxChars`, which is 8,000")]
fn a_policy_that_contradicts_itself_is_an_error_that_names_the_field(
    #[case] overrides: Value,
    #[case] message: &str,
) {
    assert_eq!(Policy::from_value(overrides).unwrap_err().to_string(), message);
}

#[rstest]
#[case(json!({ "prun": {} }), "prun")]
#[case(json!({ "prune": { "protect": 1 } }), "prune.protect")]
#[case(json!({ "prune": { "protectTokens": -1 } }), "prune.protectTokens")]
#[case(json!({ "prune": { "protectTokens": "many" } }), "prune.protectTokens")]
#[case(json!({ "prune": { "order": "sideways" } }), "prune.order")]
#[case(json!({ "preset": 5 }), "preset")]
#[case(json!([]), "policy")]
fn unknown_keys_and_wrong_types_are_rejected_with_their_path(#[case] overrides: Value, #[case] field: &str) {
    match Policy::from_value(overrides).unwrap_err() {
        PolicyError::Field { field: found, .. } => assert!(found.starts_with(field), "{found}"),
        other => panic!("{other}"),
    }
}

#[test]
fn an_unknown_preset_lists_the_available_ones() {
    let error = "opencod".parse::<Preset>().unwrap_err();
    let expected =
        "unknown preset `opencod` (available: `plimsoll`, `opencode`, `opencode-1.18`, `openfork`)";
    assert_eq!(error.to_string(), expected);
    assert!(Policy::from_json("{").unwrap_err().to_string().starts_with("not valid JSON: "));
}

#[test]
fn r155_the_guides_section_is_accepted_key_by_key() {
    let policy = Policy::from_value(json!({ "TokenManagement": {
        "MaxOutputLines": 1, "MaxOutputBytes": 2, "MaxLineLength": 3, "PruneProtectTokens": 4,
        "PruneMinimumTokens": 5, "CompactionThreshold": 0.8, "CompactionTargetPercent": 40,
        "EnableDiskSpillover": false, "SpillDirectory": "data/spill", "PruneOutputRetainChars": 9,
        "DefaultContextWindow": 64_000, "DefaultMaxOutputTokens": 8_000, "CharsPerToken": 3,
        "ToolOutputLimits": { "read": 6, "mytool": 7, "default": 8 }
    } }))
    .unwrap();
    assert_eq!(policy.name, "openfork");
    let truncate = &policy.truncate;
    assert_eq!((truncate.max_lines, truncate.max_bytes, truncate.max_line_chars), (1, 2, Chars(3)));
    assert_eq!(policy.prune.protect_tokens, Tokens(4));
    assert_eq!(policy.prune.stop_after_tokens, Some(Tokens(5)));
    assert_eq!(policy.prune.retain_chars, Chars(9));
    assert_eq!(policy.prune.gate_headroom, Some(Tokens(8_000)));
    assert_eq!((policy.overflow.share, policy.compact.target_percent), (0.8, 40));
    assert_eq!((truncate.spill, truncate.spill_directory.as_str()), (false, "data/spill"));
    assert_eq!(policy.overflow.default_context, Tokens(64_000));
    assert_eq!(policy.count.chars_per_token, 3);
    assert_eq!((truncate.tool_limits["read"], truncate.tool_limits["mytool"]), (Chars(6), Chars(7)));
    assert_eq!((truncate.tool_limits["bash"], truncate.default_limit), (Chars(50_000), Chars(8)));
}

#[test]
fn r155_the_guides_own_example_changes_nothing() {
    let section = json!({ "TokenManagement": {
        "MaxOutputLines": 2000, "MaxOutputBytes": 51200, "MaxLineLength": 2000, "PruneProtectTokens": 40000,
        "PruneMinimumTokens": 20000, "CompactionThreshold": 0.90, "CompactionTargetPercent": 50,
        "EnableDiskSpillover": true, "SpillDirectory": "spill",
        "ToolOutputLimits": { "read": 100000, "bash": 50000, "grep": 30000, "glob": 20000, "default": 50000 }
    } });
    assert_eq!(Policy::from_value(section).unwrap(), Preset::Openfork.policy());
}

#[test]
fn the_guides_section_rejects_unknown_keys_and_wrong_types() {
    for (section, field) in [
        (json!({ "MaxLines": 1 }), "TokenManagement.MaxLines"),
        (json!({ "MaxOutputLines": -1 }), "TokenManagement.MaxOutputLines"),
        (json!({ "ToolOutputLimits": { "read": "big" } }), "TokenManagement.ToolOutputLimits.read"),
    ] {
        let error = Policy::from_value(json!({ "TokenManagement": section })).unwrap_err();
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[test]
fn r113_the_output_cap_can_come_from_the_environment() {
    let with = |name: &'static str, value: &'static str, preset: Preset| {
        preset.policy().with_environment(|asked| (asked == name).then(|| value.to_owned()))
    };
    let limits = Limits::new(200_000, 128_000);
    let reserve = |policy: &Policy| policy.overflow.reserve(limits);
    assert_eq!(reserve(&Policy::default()), Tokens(32_000));
    let ours = with("PLIMSOLL_OUTPUT_TOKEN_MAX", "64000", Preset::Plimsoll).unwrap();
    assert_eq!(reserve(&ours), Tokens(64_000));
    let theirs = with("OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX", "64000", Preset::Opencode).unwrap();
    assert_eq!(reserve(&theirs), Tokens(64_000));
    let not_ours = with("OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX", "64000", Preset::Plimsoll).unwrap();
    assert_eq!(reserve(&not_ours), Tokens(32_000));
    let error = with("PLIMSOLL_OUTPUT_TOKEN_MAX", "lots", Preset::Plimsoll).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`PLIMSOLL_OUTPUT_TOKEN_MAX`: expected a whole number above 0, found `lots`"
    );
    assert!(!with("OPENCODE_DISABLE_AUTOCOMPACT", "1", Preset::Opencode).unwrap().overflow.auto);
    assert!(!with("PLIMSOLL_DISABLE_PRUNE", "true", Preset::Plimsoll).unwrap().prune.enabled);
}

#[test]
fn every_field_can_come_from_the_environment() {
    let with = |pairs: &[(&str, &str)]| {
        let pairs: std::collections::BTreeMap<String, String> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Policy::default().with_environment(|asked| pairs.get(asked).cloned())
    };
    let policy = with(&[
        ("PLIMSOLL_PRUNE_PROTECT_TOKENS", "30000"),
        ("PLIMSOLL_PRUNE_ORDER", "oldestFirst"),
        ("PLIMSOLL_PRUNE_PROTECTED_TOOLS", "skill, todo"),
        ("PLIMSOLL_COMPACT_MAX_SUMMARY_TOKENS", "null"),
        ("PLIMSOLL_TRUNCATE_TOOL_LIMITS", r#"{ "bash": 7 }"#),
        ("PLIMSOLL_FORK_TIER1_COUNT", "9"),
        ("PLIMSOLL_OUTPUT_TOKEN_MAX", "1000"),
        ("PLIMSOLL_OVERFLOW_OUTPUT_CAP", "2000"),
    ])
    .unwrap();
    assert_eq!((policy.prune.protect_tokens, policy.fork.tier1_count), (Tokens(30_000), 9));
    assert_eq!(policy.prune.protected_tools, ["skill", "todo"]);
    assert_eq!(policy.compact.max_summary_tokens, None);
    let limits = &policy.truncate.tool_limits;
    assert_eq!((limits["bash"], limits["read"]), (Chars(7), Chars(100_000)), "maps are added to");
    assert_eq!(policy.overflow.output_cap, Tokens(2_000), "a field's own variable wins");

    let names = plimsoll::policy::Setting::variables();
    assert!(names.len() > 70 && names.iter().all(|name| name.starts_with("PLIMSOLL_")), "{names:?}");
    let unique: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());

    for (name, value, message) in [
        ("PLIMSOLL_PRUNE_MIN_TOKENS", "few", "`PLIMSOLL_PRUNE_MIN_TOKENS`: expected a number, found `few`"),
        ("PLIMSOLL_PRUNE_ENABLED", "si", "`PLIMSOLL_PRUNE_ENABLED`: expected `true` or `false`, found `si`"),
    ] {
        assert_eq!(with(&[(name, value)]).unwrap_err().to_string(), message);
    }
}

#[test]
fn r157_unknown_models_have_a_window_of_128000() {
    let policy = Policy::from_value(json!({ "preset": "openfork", "overflow": { "models": {
        "small": { "context": 8_000, "output": 1_000 } } } }))
    .unwrap();
    assert_eq!(policy.limits("unheard-of", None), Limits::new(128_000, 0));
    assert_eq!(policy.overflow.default_output, Tokens(16_384));
    assert_eq!(policy.limits("small", Some(Limits::new(1, 1))), Limits::new(8_000, 1_000));
    assert_eq!(policy.limits("other", Some(Limits::new(9, 1))), Limits::new(9, 1));
}

#[rstest]
#[case::tiny(8_000, 1_200)]
#[case::small(32_000, 1_800)]
#[case::medium(128_000, 4_200)]
#[case::usual(200_000, 6_000)]
#[case::large(1_000_000, 8_000)]
fn the_length_of_a_summary_follows_the_window(#[case] context: u64, #[case] expected: u64) {
    let compact = &Policy::default().compact;
    let context = Tokens(context);
    assert_eq!(compact.summary_budget(context, context), Tokens(expected));
    assert_eq!(compact.summary_budget(context, Tokens(2_000)), Tokens(500), "at most a quarter of the line");
    for preset in [Preset::Opencode, Preset::Opencode118, Preset::Openfork] {
        assert_eq!(preset.policy().compact.summary_budget(context, context), Tokens(2_000), "{preset}");
    }
}

#[test]
fn a_fork_policy_can_be_named() {
    let policy = Policy::from_value(json!({ "fork": "uniform" })).unwrap();
    assert_eq!(policy.fork, plimsoll::ForkPolicy::uniform());
    assert!(Policy::from_value(json!({ "fork": "legacy" })).is_err());
}

#[test]
fn absurd_numbers_do_not_panic() {
    let policy = Policy::from_value(json!({ "compact": { "resultChars": u64::MAX },
        "overflow": { "models": { "m": { "context": u64::MAX } } } }))
    .unwrap();
    let limits = policy.limits("m", None);
    for trigger in [plimsoll::compact::Trigger::Refused, plimsoll::compact::Trigger::Manual] {
        let log = plimsoll_testkit::History::new().user("a").say("b").user("c").log();
        let mut ids = plimsoll_testkit::ids();
        let now = plimsoll::Millis(u64::MAX);
        let _ = (ids.message(now), ids.message(now));
        let context = plimsoll::compact::CompactionContext {
            trigger,
            summariser: Some(plimsoll::compact::Summariser::own(limits)),
            ..plimsoll::compact::CompactionContext::new(&policy, limits, plimsoll::Millis(5))
        };
        let mut ids = plimsoll_testkit::ids();
        let _ = plimsoll::compact::Ladder::new(log, context).climb(&mut ids).unwrap();
    }
}

/// Returns the value of a field, given its path in a policy file.
fn field<'a>(policy: &'a Value, path: &str) -> Option<&'a Value> {
    policy.pointer(&format!("/{}", path.replace('.', "/")))
}

#[test]
fn every_field_for_users_exists() {
    let policy = serde_json::to_value(Policy::default()).unwrap();
    let listed: Vec<&str> = USER_FIELDS.iter().flat_map(|group| group.fields).copied().collect();
    let unknown: Vec<&&str> = listed.iter().filter(|path| field(&policy, path).is_none()).collect();
    assert_eq!(unknown, [&""; 0]);
    assert_eq!(listed.iter().collect::<std::collections::BTreeSet<_>>().len(), listed.len(), "{listed:?}");
}

/// `PLIMSOLL_BLESS=1` writes the table.
#[test]
#[allow(clippy::disallowed_methods)]
fn the_table_of_fields_for_users_is_current() {
    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CONFIGURATION.md");
    const HEAD: &str = "| fields of a policy | what they decide |\n|---|---|\n";
    let row = |group: &plimsoll::policy::FieldGroup| {
        let mut section = "";
        let names = group.fields.iter().map(|path| match path.split_once('.') {
            // The section is named once.
            Some((of, name)) if std::mem::replace(&mut section, of) == of => format!("`{name}`"),
            _ => format!("`{path}`"),
        });
        format!("| {} | {} |\n", names.collect::<Vec<_>>().join(", "), group.purpose)
    };
    let table = format!("{HEAD}{}", USER_FIELDS.iter().map(row).collect::<String>());
    let page = std::fs::read_to_string(PATH).unwrap();
    let start = page.find(HEAD).expect("the table");
    let end = page[start..].find("\n\n").map_or(page.len(), |end| start + end + 1);
    if std::env::var("PLIMSOLL_BLESS").is_ok() {
        std::fs::write(PATH, format!("{}{table}{}", &page[..start], &page[end..])).unwrap();
        return;
    }
    assert_eq!(&page[start..end], table);
}

#[cfg(feature = "schema")]
#[test]
fn the_schema_marks_internal_fields() {
    let schema = Policy::schema();
    let note = |path: &str| {
        schema
            .pointer(path)
            .and_then(|field| field["description"].as_str())
            .unwrap()
            .contains("Internal: may change.")
    };
    assert!(!note("/$defs/PrunePolicy/properties/protectTokens") && !note("/properties/prune"));
    assert!(note("/$defs/PrunePolicy/properties/minInclusive"));
    assert!(note("/properties/cache") && note("/$defs/CachePolicy/properties/lookBack"));
    assert!(!note("/properties/thrift") && !note("/$defs/ForkPolicy/properties/charBudget"));
    assert!(note("/$defs/ForkPolicy/properties/rules"));
}

/// `just schema` regenerates the file.
#[cfg(feature = "schema")]
#[test]
#[allow(clippy::disallowed_methods)]
fn the_schema_in_the_tree_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/policy.schema.json");
    let schema = format!("{}\n", serde_json::to_string_pretty(&Policy::schema()).unwrap());
    if std::env::var("PLIMSOLL_BLESS").is_ok() {
        std::fs::write(path, &schema).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(stored == schema, "schema/policy.schema.json is out of date: run `just schema`");
}

#[rstest]
#[case(json!({ "thrift": { "margin": 4 } }))]
#[case(json!({ "thrift": "thrifty" }))]
#[case(json!({ "thrift": true }))]
fn thrift_has_three_values_and_errors_list_them(#[case] overrides: Value) {
    let error = Policy::from_value(overrides).unwrap_err().to_string();
    assert!(error.contains("thrift") && error.contains("`off`, `careful` or `frugal`"), "{error}");
}
