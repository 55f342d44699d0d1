//! `plimsoll config`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use plimsoll::Millis;
use plimsoll_config::{Config, DistrustReason, LeftOut, Origin, RunConfig, RunField, STORE_FIELDS};
use plimsoll_host::{Host, HostError, StoreSettings, reason};
use plimsoll_store::Durability;
use serde_json::{Value, json};

use super::{short_origin, written};
use crate::args::{ConfigArgs, ConfigCommand};
use crate::error::{CommandResult, print_error};
use crate::output::{Holds, Output, Table, escaped, note};

/// Shows or checks the configuration.
pub(crate) fn run(args: &ConfigArgs, host: &Host, output: &mut Output) -> CommandResult {
    if args.schema {
        let schema = serde_json::to_string_pretty(&Config::schema());
        output.text(&schema.map_err(|error| HostError::failed(error.to_string()))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = match &args.command {
        Some(ConfigCommand::Check { file }) => file.as_deref(),
        None if args.check => None,
        None => {
            let config = host.layers(&args.policy.flags())?;
            host.report_left_out(&config, |_| true);
            show(&config, host, output)?;
            host.report_no_effect(&config);
            if let Ok(run) = &config.run {
                note_unconfined(run);
            }
            if let Err(error) = &config.run {
                return Err(HostError::from(&**error));
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    check(file, args, host, output)
}

/// Prints a note if commands are not fully confined, by configuration or because the system cannot.
fn note_unconfined(run: &RunConfig) {
    let sandbox = plimsoll_agent::Sandbox::new(run.sandbox.clone());
    if !sandbox.confinement().is_whole() {
        note(&format!("note: {}", sandbox.confinement()));
    }
}

/// Validates the configuration; the exit code is the result.
fn check(file: Option<&Path>, args: &ConfigArgs, host: &Host, output: &mut Output) -> CommandResult {
    let config = match file {
        Some(file) => {
            // A missing file is a usage error, not a negative result.
            std::fs::metadata(file).map_err(|error| {
                HostError::usage(format!("cannot open `{}`: {}", file.display(), reason(&error)))
            })?;
            Config::of_file(file, &host.env).map_err(HostError::from)
        }
        None => host.layers(&args.policy.flags()),
    };
    if let Ok(config) = &config {
        host.report_left_out(config, |_| true);
        host.report_no_effect(config);
    }
    // An invalid run section makes the configuration invalid too.
    let config = config.and_then(|config| match &config.run {
        Err(error) => Err(HostError::from(&**error)),
        Ok(_) => Ok(config),
    });
    if output.json {
        let problem = config.as_ref().err().map(HostError::message);
        output.json(&json!({ "consistent": config.is_ok(), "problem": problem }))?;
    }
    match config {
        Ok(config) => {
            if !output.json {
                note(&format!("configuration is valid; policy `{}`", config.policy.name));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            if !output.json {
                print_error(&error);
            }
            Ok(ExitCode::from(1))
        }
    }
}

fn show(config: &Config, host: &Host, output: &mut Output) -> Result<(), HostError> {
    let fields = config.fields();
    let store = StoreSettings::new(&config.store, &config.policy);
    if output.json {
        let names = fields.iter().map(|(field, _)| field.as_str()).chain(["policy", "context"]);
        let names = names.chain(STORE_FIELDS);
        let origins: BTreeMap<&str, Origin> = names.map(|field| (field, config.origin(field))).collect();
        output.json(&json!({
            "policy": config.policy,
            "context": config.context,
            "store": {
                "path": store.path,
                "durability": durability(store.durability),
                "spills": { "age": store.retention.age, "maxBytes": store.retention.max_bytes },
            },
            "origins": origins,
            "run": run_fields(config),
            "leftOut": config.left_out.iter().map(|left_out| json!({
                "why": why(left_out),
                "directory": left_out.directory,
                "settings": left_out.settings,
            })).collect::<Vec<_>>(),
            "notices": config.notices,
        }))?;
        return Ok(());
    }
    let mut table =
        Table::of([("FIELD", Holds::Names), ("VALUE", Holds::Words(20)), ("ORIGIN", Holds::Names)]);
    let own = [("policy", config.chosen.clone()), ("context", config.context.to_string())];
    let own = own.into_iter().chain(STORE_FIELDS.into_iter().zip(shown_store(&store, host)));
    let own = own.map(|(field, value)| (field.to_owned(), value));
    for (field, value) in own.chain(fields.into_iter().map(|(field, value)| (field, shown(&value)))) {
        table.row([field.clone(), value, short_origin(&config.origin(&field), host)]);
    }
    for field in run_fields(config) {
        table.row([escaped(&field.key), shown(&field.value), short_origin(&field.origin, host)]);
    }
    for left_out in &config.left_out {
        for setting in &left_out.settings {
            let origin = format!("{}, left out: {}", short_origin(&setting.origin, host), why(left_out));
            table.row([escaped(&setting.key), written(&setting.value), origin]);
        }
    }
    output.table(&table)?;
    Ok(())
}

/// Settings for runs; empty if that part of the configuration is invalid.
fn run_fields(config: &Config) -> &[RunField] {
    config.run.as_ref().map_or(&[], RunConfig::fields)
}

fn why(left_out: &LeftOut) -> &'static str {
    match left_out.why {
        DistrustReason::NotTrusted | DistrustReason::NoLedger(_) => "not trusted",
        DistrustReason::Changed => "changed since it was trusted",
    }
}

/// Formats the values of [`STORE_FIELDS`].
fn shown_store(store: &StoreSettings, host: &Host) -> [String; 4] {
    let path = store.path.as_deref().map(|path| host.short(path));
    let bytes = store.retention.max_bytes.map(|bytes| bytes.to_string());
    [
        path.unwrap_or_else(|| "none".to_owned()),
        durability(store.durability).to_owned(),
        store.retention.age.map_or_else(|| "any".to_owned(), age),
        bytes.unwrap_or_else(|| "any".to_owned()),
    ]
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => "process",
        Durability::Power => "power",
    }
}

/// Formats an age in its largest whole unit, up to days.
fn age(age: Millis) -> String {
    let units = [('d', 86_400_000), ('h', 3_600_000), ('m', 60_000), ('s', 1_000)];
    let whole = units.iter().find(|(_, millis)| age.0.is_multiple_of(*millis));
    whole.map_or_else(|| format!("{} ms", age.0), |(unit, millis)| format!("{}{unit}", age.0 / millis))
}

/// Formats a value as in a configuration file, without quotes around strings.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::Millis;

    use super::age;

    #[test]
    fn ages_are_shown_in_the_largest_whole_unit() {
        let ages = [604_800_000, 5_400_000, 7_200_000, 5_000, 5_001].map(|millis| age(Millis(millis)));
        assert_eq!(ages, ["7d", "90m", "2h", "5s", "5001 ms"]);
    }
}
