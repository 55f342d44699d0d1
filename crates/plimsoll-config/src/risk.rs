//! Decides which settings a checkout may make without being trusted.
//!
//! A project's file comes with a checkout, and a checkout may be hostile. Before the user trusts it, its settings must
//! not be able to
//!
//! - write or read at a path of its choice, or run anything,
//! - destroy or fail to keep what cannot be restored,
//! - add text that the model reads, or remove text that the user or the host has set,
//! - repeat billed calls without a bound.
//!
//! Numbers and fixed choices that only decide how much of a session the window shows can make work slower or more
//! expensive. They lose nothing: the log keeps everything, and `plimsoll config` shows the origin of each. The name of
//! a preset is harmless too, even if the preset makes a choice that a single field may not: presets are complete,
//! published behaviours.
//!
//! Every key is in [`TABLE`], or in [`RUN`] if it belongs to runs of an agent; tests compare both with the schemas. A
//! key that is missing needs trust, and so does a reference `{env:NAME}` or `{file:PATH}` in any value.

use plimsoll_sandbox::Action;
use serde_json::Value;

use crate::run::InstructionSource;
use Risk::{Harmless, NeedsTrust};

/// Potential harm of a setting in a hostile checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Risk {
    /// None.
    Harmless,
    /// Takes effect only in a trusted project.
    NeedsTrust,
}

/// Every key of a configuration or policy file: its risk, its section (empty for the top level), its names.
///
/// `policy` is harmless as the name of a preset, and as a file inside the project, to which this table applies as well.
/// A file outside needs trust ([`crate::Project`]). The guide's `TokenManagement` section and a named fork policy are
/// expanded into policy fields before they are looked up, so the section itself has no entry.
const TABLE: &[(Risk, &str, &[&str])] = &[
    (Harmless, "", &["policy", "preset", "context", "TokenManagement"]),
    // A path: the user's private sessions would be written into the checkout, or over another file.
    (NeedsTrust, "", &["store"]),
    // The weaker choice loses acknowledged writes in a power cut.
    (NeedsTrust, "", &["durability"]),
    // `gc` destroys what these settings expire, in all projects that share the database; `keep` fills the disk.
    (NeedsTrust, "spills", &["keep", "age", "maxBytes"]),
    // Free text that receipts contain: a policy could pretend to be another one.
    (NeedsTrust, "", &["name"]),
    (Harmless, "count", &["charsPerToken", "rounding", "fileTokens", "resultOverhead"]),
    (
        Harmless,
        "truncate",
        &[
            "maxLines",
            "maxBytes",
            "maxLineChars",
            "shortenLines",
            "toolLimits",
            "defaultLimit",
            "toolLimitOverridesBytes",
            "terminalKeep",
            "headShare",
            "onlyIfShorter",
            "notice",
        ],
    ),
    // Without the spill, the text that is cut from an output is lost; the directory is a path.
    (NeedsTrust, "truncate", &["spill", "spillDirectory", "spillAs"]),
    // A list of free text. It decides which end of an output is cut off, so an error at its end could be hidden.
    (NeedsTrust, "truncate", &["terminalTools"]),
    (
        Harmless,
        "prune",
        &[
            "enabled",
            "afterTurn",
            "protectTokens",
            "measure",
            "minTokens",
            "minInclusive",
            "minOutputChars",
            "activeTurns",
            "order",
            "stopAfterTokens",
            "atCleared",
            "atSummary",
            "view",
            "retainChars",
            "nameHandle",
            "inputs",
            "minInputChars",
            "gateShare",
            "gateHeadroom",
        ],
    ),
    // The protected tools return instructions, such as those of a skill; a shorter list would remove them from the
    // window.
    (NeedsTrust, "prune", &["protectedTools"]),
    (Harmless, "", &["thrift"]),
    (Harmless, "names", &["enabled", "share", "maxTokens", "indexShare", "indexTokens"]),
    (
        Harmless,
        "overflow",
        &[
            "auto",
            "line",
            "share",
            "inclusive",
            "softShare",
            "softWhenFree",
            "usage",
            "detector",
            "maxFactor",
            "maxHiddenShare",
            "refusedMargin",
            "outputCap",
            "inputReserve",
            "maxReserveShare",
            "defaultContext",
            "defaultOutput",
            "models",
        ],
    ),
    (
        Harmless,
        "compact",
        &[
            "scope",
            "splitTurns",
            "tailShare",
            "tailMin",
            "tailMax",
            "askedTailShare",
            "stepShare",
            "promptShare",
            "targetPercent",
            "turnShare",
            "minMessages",
            "minFreedShare",
            "template",
            "request",
            "maxSummaryTokens",
            "inputShare",
            "resultChars",
            "requestHeadShare",
            "requestLeast",
            "hookChars",
            "extractive",
            "extractiveBase",
            "extractiveWindowShare",
            "extractiveTokens",
            "extractiveLineShare",
            "extractiveGainShare",
            "extractiveLeast",
        ],
    ),
    // The model reads this text as the user's.
    (NeedsTrust, "compact", &["continueText"]),
    // As a system message, a summary of the checkout's own files would have the host's authority.
    (NeedsTrust, "compact", &["summaryAs"]),
    // Number and duration of retries of a billed call, which have no upper bound.
    (NeedsTrust, "compact", &["retries", "breaker", "maxSeconds"]),
    (
        Harmless,
        "summary",
        &[
            "evenShare",
            "reportChars",
            "userShare",
            "foundShare",
            "standingShare",
            "filesShare",
            "commandsShare",
            "todosShare",
            "errorsShare",
            "commitShare",
            "stepsShare",
            "namesShare",
            "priorShare",
            "endsWeight",
            "minWords",
            "pasteRun",
            "pastedLines",
            "sentenceChars",
            "turnSentences",
            "duplicateShare",
            "reportHeadShare",
            "lastSteps",
            "lastNames",
            "commandChars",
            "instructionChars",
            "resultChars",
        ],
    ),
    // The contract carries the user's standing instructions into every summary. A budget of 0 also disables it.
    (NeedsTrust, "contract", &["enabled", "maxTokens", "maxShare"]),
    (Harmless, "shed", &["enabled", "minPartChars", "headShare", "rounds"]),
    // A pin over the budget is rejected with an error; existing pins are not lost.
    (Harmless, "pin", &["maxTokens", "maxShare"]),
    (
        Harmless,
        "cache",
        &["maxBreakpoints", "lookBack", "systemFirst", "readPrice", "writePrice", "outputPrice", "minutes"],
    ),
    (Harmless, "recall", &["maxChars", "maxShare", "maxMatches", "contextLines", "maxLineChars"]),
    (
        Harmless,
        "fork",
        &[
            "charBudget",
            "noRemoval",
            "tier1Count",
            "tier2Count",
            "tier2Limit",
            "tier3Limit",
            "paramsTier1",
            "paramsTier2",
            "paramsTier3",
            "headRatio",
            "tailRatio",
            "cutMarker",
            "labelHost",
            "summaryShare",
            "newestRoom",
            "wordsRoom",
            "leastResult",
            "childShare",
            "newestShare",
            "wordsShare",
            "historyShare",
            "rules",
        ],
    ),
    // Lists of free text that decide which part of a result is cut, like `truncate.terminalTools`.
    (NeedsTrust, "fork", &["errorPatterns", "headTailKeywords", "uncutTools"]),
];

/// Every key of a run, with `*` for names that users choose.
///
/// Permission rules, tool switches, instructions and skills are judged by their content ([`of_rule`], [`of_switch`],
/// [`of_instruction`]): forbidding something is harmless and takes effect at once.
///
/// A key that is not listed must need trust: otherwise a new setting would count as harmless until it is reviewed.
pub(crate) const RUN: &[(RunRisk, &str)] = &[
    // Another provider would receive the conversation, and the user pays for a more expensive model.
    (RunRisk::NeedsTrust, "model"),
    (RunRisk::NeedsTrust, "small_model"),
    // Another agent has other rules and another prompt.
    (RunRisk::NeedsTrust, "default_agent"),
    // A checkout that raises these limits spends the user's money.
    (RunRisk::NeedsTrust, "max_steps"),
    (RunRisk::NeedsTrust, "max_cost"),
    (RunRisk::NeedsTrust, "max_tokens"),
    (RunRisk::ByContent, "instructions"),
    (RunRisk::ByContent, "skills"),
    (RunRisk::ByContent, "permissions.*"),
    (RunRisk::ByContent, "permissions.*.*"),
    // These determine who receives the conversation and the key.
    (RunRisk::NeedsTrust, "providers.*.api"),
    (RunRisk::NeedsTrust, "providers.*.base_url"),
    (RunRisk::NeedsTrust, "providers.*.key"),
    (RunRisk::NeedsTrust, "providers.*.headers.*"),
    // Long timeouts block the user, short ones make every request fail and be billed again.
    (RunRisk::NeedsTrust, "providers.*.timeout"),
    (RunRisk::NeedsTrust, "providers.*.idle_timeout"),
    (RunRisk::NeedsTrust, "providers.*.connect_timeout"),
    // A different model than the one that was requested.
    (RunRisk::NeedsTrust, "providers.*.models.*.id"),
    // Free text that is shown in place of the model's own name.
    (RunRisk::NeedsTrust, "providers.*.models.*.name"),
    // Numbers that decide how much of a session the window shows, like `context` and `overflow.models`.
    (RunRisk::Harmless, "providers.*.models.*.context"),
    (RunRisk::Harmless, "providers.*.models.*.input"),
    (RunRisk::Harmless, "providers.*.models.*.output"),
    // `max_cost` is computed from these prices.
    (RunRisk::NeedsTrust, "providers.*.models.*.price.input"),
    (RunRisk::NeedsTrust, "providers.*.models.*.price.output"),
    (RunRisk::NeedsTrust, "providers.*.models.*.price.cache_read"),
    (RunRisk::NeedsTrust, "providers.*.models.*.price.cache_write"),
    // Text for the model, and its tools.
    (RunRisk::NeedsTrust, "agents.*.description"),
    (RunRisk::NeedsTrust, "agents.*.prompt"),
    (RunRisk::NeedsTrust, "agents.*.model"),
    (RunRisk::ByContent, "agents.*.tools.*"),
    (RunRisk::NeedsTrust, "agents.*.steps"),
    (RunRisk::NeedsTrust, "agents.*.output"),
    (RunRisk::NeedsTrust, "agents.*.timeout"),
    (RunRisk::NeedsTrust, "agents.*.temperature"),
    (RunRisk::NeedsTrust, "agents.*.top_p"),
    // Any field of a request, including the provider's own tools.
    (RunRisk::NeedsTrust, "agents.*.options.**"),
    (RunRisk::NeedsTrust, "agents.*.mode"),
    (RunRisk::ByContent, "agents.*.permission.*"),
    (RunRisk::ByContent, "agents.*.permission.*.*"),
    (RunRisk::NeedsTrust, "agents.*.fork"),
    // Could disable an agent that the user has set up as a guard.
    (RunRisk::NeedsTrust, "agents.*.disable"),
    // A prompt that the user sends without reading it, to an agent and a model that the user did not choose.
    (RunRisk::NeedsTrust, "commands.*.description"),
    (RunRisk::NeedsTrust, "commands.*.template"),
    (RunRisk::NeedsTrust, "commands.*.agent"),
    (RunRisk::NeedsTrust, "commands.*.model"),
    (RunRisk::NeedsTrust, "commands.*.subtask"),
    // A command that is run, or a URL that receives data. `enabled` could start a server that the user disabled.
    (RunRisk::NeedsTrust, "mcp.*.command"),
    (RunRisk::NeedsTrust, "mcp.*.environment.*"),
    (RunRisk::NeedsTrust, "mcp.*.cwd"),
    (RunRisk::NeedsTrust, "mcp.*.url"),
    (RunRisk::NeedsTrust, "mcp.*.headers.*"),
    (RunRisk::NeedsTrust, "mcp.*.enabled"),
    (RunRisk::NeedsTrust, "mcp.*.timeout"),
    // Additional permissions of the command. `sandbox` has no effect in a project's file at all.
    (RunRisk::NeedsTrust, "mcp.*.sandbox"),
    (RunRisk::NeedsTrust, "mcp.*.network"),
    (RunRisk::NeedsTrust, "mcp.*.unix_sockets"),
    (RunRisk::NeedsTrust, "mcp.*.write"),
    // More confinement is harmless. With less, an allowed command could do more than the user agreed to.
    (RunRisk::ByContent, "sandbox.mode"),
    (RunRisk::NeedsTrust, "sandbox.write"),
    (RunRisk::ByContent, "sandbox.network"),
    (RunRisk::ByContent, "sandbox.unix_sockets"),
    // Hosts: servers in the user's network trust every request that reaches them. A proxy receives every URL.
    (RunRisk::NeedsTrust, "webfetch.hosts"),
    (RunRisk::NeedsTrust, "webfetch.proxy"),
    // Each task is a separate session that is billed.
    (RunRisk::NeedsTrust, "tasks.at_once"),
    (RunRisk::NeedsTrust, "tasks.depth"),
    (RunRisk::NeedsTrust, "tasks.steps"),
    (RunRisk::NeedsTrust, "tasks.time"),
    (RunRisk::NeedsTrust, "tasks.tokens"),
    (RunRisk::NeedsTrust, "tasks.cost"),
    (RunRisk::NeedsTrust, "tasks.fork"),
    // Commands that are run.
    (RunRisk::NeedsTrust, "hooks"),
];

/// Potential harm of a setting of a run in a hostile checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunRisk {
    /// None.
    Harmless,
    /// Takes effect only in a trusted project.
    NeedsTrust,
    /// Depends on the value.
    ByContent,
}

/// Returns the risk of a setting of a run with this value.
pub(crate) fn of_run(path: &[String], value: &Value) -> Risk {
    let row = RUN.iter().find(|(_, pattern)| fits(pattern, path));
    match row {
        Some((RunRisk::Harmless, _)) if !has_reference(value) => Harmless,
        Some((RunRisk::ByContent, "sandbox.mode")) if value == "require" => Harmless,
        Some((RunRisk::ByContent, "sandbox.network" | "sandbox.unix_sockets")) if value == false => Harmless,
        _ => NeedsTrust,
    }
}

/// Returns the risk of a rule. `deny` never widens permissions.
pub(crate) fn of_rule(action: Action) -> Risk {
    // `ask` is narrower than `allow` and wider than `deny`; which of them it replaces is not known here.
    if action == Action::Deny { Harmless } else { NeedsTrust }
}

/// Returns the risk of a switch. Removing a tool is harmless.
pub(crate) fn of_switch(on: bool) -> Risk {
    if on { NeedsTrust } else { Harmless }
}

/// Returns the risk of instructions. Those in the project are read like its `AGENTS.md`; others are files of the user.
/// Applies to a directory of skills too, whose text the model can load.
pub(crate) fn of_instruction(pattern: &str) -> Risk {
    let is_harmless = InstructionSource::stays_below(pattern) && !has_reference(&pattern.into());
    if is_harmless { Harmless } else { NeedsTrust }
}

/// Whether a path matches a pattern; `**` matches any names to the end.
fn fits(pattern: &str, path: &[String]) -> bool {
    let mut names = path.iter();
    for part in pattern.split('.') {
        match (part, names.next()) {
            ("**", _) => return true,
            (_, None) => return false,
            ("*", Some(_)) => {}
            (part, Some(name)) if part == name => {}
            _ => return false,
        }
    }
    names.next().is_none()
}

/// Returns the names that are allowed at the end of a path; `None` if any name is.
pub(crate) fn run_names(above: &[String]) -> Option<Vec<&'static str>> {
    let mut names = Vec::new();
    for (_, pattern) in RUN {
        let parts: Vec<&str> = pattern.split('.').collect();
        let is_above =
            parts.iter().zip(above).all(|(part, name)| matches!(*part, "*" | "**") || *part == name);
        if parts.contains(&"**") && above.len() + 1 >= parts.len() && is_above {
            return None;
        }
        match parts.get(above.len()) {
            Some(part) if is_above && matches!(*part, "*" | "**") => return None,
            Some(part) if is_above => names.push(*part),
            _ => {}
        }
    }
    Some(names)
}

/// Returns the risk of a key by its section (empty for the top level) and name; `None` if it is not in the table.
pub(crate) fn of_key(section: &str, name: &str) -> Option<Risk> {
    let row = TABLE.iter().find(|(_, of, names)| *of == section && names.contains(&name));
    row.map(|(risk, ..)| *risk)
}

/// Returns the risk of a key with this value. A reference always needs trust: it copies a variable or a file of the
/// user to wherever the value is used.
pub(crate) fn of_value(section: &str, name: &str, value: &Value) -> Risk {
    if has_reference(value) { NeedsTrust } else { of_key(section, name).unwrap_or(NeedsTrust) }
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{env:") || text.contains("{file:"),
        Value::Array(items) => items.iter().any(has_reference),
        Value::Object(fields) => fields.values().any(has_reference),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
#[cfg(feature = "schema")]
mod tests {
    use std::collections::BTreeSet;

    use plimsoll::Policy;
    use plimsoll::policy::Overrides;
    use serde_json::{Map, Value, json};

    use super::{RUN, Risk, RunRisk, TABLE, of_key, of_run, of_value};
    use crate::names::KEYS;
    use crate::store::{SETTINGS, SPILLS};

    /// Returns every key that a file may have: those of the schema, and the additional ones of a configuration file.
    fn keys() -> BTreeSet<(String, String)> {
        let schema = Policy::schema();
        let resolve = |value: &Value| {
            let inner = value.get("anyOf").and_then(|choices| choices.get(0)).unwrap_or(value);
            match inner.get("$ref").and_then(Value::as_str) {
                Some(name) => schema.pointer(name.trim_start_matches('#')).unwrap().clone(),
                None => inner.clone(),
            }
        };
        let mut keys: BTreeSet<(String, String)> = BTreeSet::new();
        for (name, value) in schema["properties"].as_object().unwrap() {
            match resolve(value)["properties"].as_object() {
                Some(fields) if name != "TokenManagement" => {
                    keys.extend(fields.keys().map(|field| (name.clone(), field.clone())));
                }
                _ => drop(keys.insert((String::new(), name.clone()))),
            }
        }
        keys.extend(
            KEYS.iter().filter(|key| **key != "spills").map(|key| (String::new(), (*key).to_owned())),
        );
        keys.extend(SPILLS.iter().map(|key| ("spills".to_owned(), (*key).to_owned())));
        keys
    }

    #[test]
    fn every_key_of_the_schema_is_classified_once() {
        let classified: Vec<(String, String)> = TABLE
            .iter()
            .flat_map(|(_, section, names)| {
                names.iter().map(|name| ((*section).to_owned(), (*name).to_owned()))
            })
            .collect();
        let unique: BTreeSet<_> = classified.iter().cloned().collect();
        assert_eq!(unique.len(), classified.len(), "duplicate key in the table");
        let known = keys();
        assert!(known.len() > 130, "the schema was not read: {known:?}");
        let missing: Vec<_> = known.difference(&unique).collect();
        assert!(missing.is_empty(), "not classified; say in `risk.rs` what a checkout could do: {missing:?}");
        let stale: Vec<_> = unique.difference(&known).collect();
        assert!(stale.is_empty(), "classified, but no key: {stale:?}");
    }

    /// Returns every path in the schema, with `*` for names that users choose.
    fn paths(schema: &Value, at: &Value, path: &str, found: &mut BTreeSet<String>) {
        if let Some(name) = at.get("$ref").and_then(Value::as_str) {
            let inner = schema.pointer(name.trim_start_matches('#')).unwrap();
            return paths(schema, inner, path, found);
        }
        let choices = at.get("anyOf").or_else(|| at.get("oneOf")).and_then(Value::as_array);
        for choice in choices.into_iter().flatten() {
            paths(schema, choice, path, found);
        }
        let below = |name: &str| format!("{path}.{name}").trim_start_matches('.').to_owned();
        let fields = at.get("properties").and_then(Value::as_object);
        for (name, value) in fields.into_iter().flatten() {
            paths(schema, value, &below(name), found);
        }
        match at.get("additionalProperties") {
            Some(value @ Value::Object(_)) => paths(schema, value, &below("*"), found),
            Some(Value::Bool(true)) => drop(found.insert(below("**"))),
            _ if fields.is_none() && choices.is_none() => drop(found.insert(path.to_owned())),
            _ => {}
        }
    }

    #[test]
    fn every_key_about_a_run_is_classified_once() {
        let schema = crate::run::schema();
        let mut known = BTreeSet::new();
        paths(&schema, &schema, "", &mut known);
        // An action for everything is the rule `*` and is judged as such.
        known.remove("permissions");
        known.remove("agents.*.permission");
        let classified: BTreeSet<String> = RUN.iter().map(|(_, path)| (*path).to_owned()).collect();
        assert_eq!(classified.len(), RUN.len(), "duplicate key in the table");
        let missing: Vec<_> = known.difference(&classified).collect();
        assert!(missing.is_empty(), "not classified; say in `risk.rs` what a checkout could do: {missing:?}");
        let stale: Vec<_> = classified.difference(&known).collect();
        assert!(stale.is_empty(), "classified, but no key: {stale:?}");
        let sections: BTreeSet<&str> = RUN.iter().filter_map(|(_, path)| path.split('.').next()).collect();
        assert_eq!(sections, crate::run::SECTIONS.into_iter().collect());
    }

    #[test]
    fn only_numbers_about_a_run_are_harmless() {
        let harmless: Vec<&str> =
            RUN.iter().filter(|(risk, _)| *risk == RunRisk::Harmless).map(|(_, path)| *path).collect();
        assert_eq!(
            harmless,
            ["context", "input", "output"].map(|name| format!("providers.*.models.*.{name}"))
        );
        let path = ["providers", "p", "models", "m", "context"].map(str::to_owned);
        assert_eq!(of_run(&path, &json!(5)), Risk::Harmless);
        assert_eq!(of_run(&path, &json!("{env:X}")), Risk::NeedsTrust);
        assert_eq!(of_run(&["hooks".to_owned()], &json!(5)), Risk::NeedsTrust);
    }

    #[test]
    fn only_numbers_switches_and_fixed_choices_are_harmless() {
        let policy = serde_json::to_value(Policy::default()).unwrap();
        for (section, name) in keys() {
            let value = &policy[&section][&name];
            if of_key(&section, &name) == Some(Risk::Harmless) && !section.is_empty() {
                assert!(!value.is_array(), "{section}.{name} is a list");
                // A fixed choice rejects unknown values; free text accepts any.
                let free = Overrides {
                    preset: None,
                    fields: Map::from_iter([(section.clone(), json!({ &name: "any text at all" }))]),
                };
                assert!(free.policy().is_err(), "{section}.{name} takes any text");
            }
        }
    }

    #[test]
    fn keys_of_the_guides_section_are_classified_by_the_fields_they_set() {
        let schema = Policy::schema();
        let section = schema["properties"]["TokenManagement"]["properties"].as_object().unwrap();
        assert!(section.len() > 10);
        for name in section.keys() {
            let tries = [json!(7), json!(0.5), json!(false), json!("elsewhere"), json!({ "bash": 7 })];
            let set = tries.into_iter().find_map(|value| {
                Overrides::from_value(json!({ "TokenManagement": { name: value } }))
                    .ok()
                    .filter(|set| !set.fields.is_empty())
            });
            let fields = set.unwrap_or_else(|| panic!("nothing can be set by {name}")).fields;
            for (section, value) in fields {
                for field in value.as_object().unwrap().keys() {
                    assert!(of_key(&section, field).is_some(), "{name} sets {section}.{field}");
                }
            }
        }
    }

    #[test]
    fn every_setting_of_the_store_needs_trust() {
        for key in SETTINGS {
            let (section, name) = key.split_once('.').unwrap_or(("", key));
            assert_eq!(of_key(section, name), Some(Risk::NeedsTrust), "{key}");
        }
    }

    #[test]
    fn references_and_unknown_keys_need_trust() {
        for value in [json!("{env:TOKEN}"), json!(["a", "x{file:~/.netrc}"]), json!({ "a": "{env:X}" })] {
            assert_eq!(of_value("prune", "order", &value), Risk::NeedsTrust);
        }
        assert_eq!(of_value("prune", "order", &json!("oldestFirst")), Risk::Harmless);
        assert_eq!(of_value("hooks", "before", &json!(1)), Risk::NeedsTrust);
    }
}
