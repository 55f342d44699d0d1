//! `plimsoll config`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use plimsoll::Policy;
use serde_json::{Value, json};

use super::names::leaves;
use super::{Config, Origin};
use crate::args::{ConfigArgs, ConfigCommand};
use crate::error::{CliError, reason};
use crate::output::{Column, Holds, Output, Table, note};
use crate::surroundings::Surroundings;

/// Show or check what is set.
pub(crate) fn run(
    args: &ConfigArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    if args.schema {
        let schema = serde_json::to_string_pretty(&Policy::schema());
        output.text(&schema.map_err(|error| CliError::failed(error.to_string()))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = match &args.command {
        Some(ConfigCommand::Check { file }) => file.as_deref(),
        None if args.check => None,
        None => return show(&Config::load(&args.policy, around)?, around, output),
    };
    check(file, args, around, output)
}

/// Whether what is set holds together; the exit code is the answer.
fn check(
    file: Option<&Path>,
    args: &ConfigArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let config = match file {
        Some(file) => {
            // A file that is not there has no answer.
            std::fs::metadata(file).map_err(|error| {
                CliError::usage(format!("cannot open `{}`: {}", file.display(), reason(&error)))
            })?;
            Config::of_file(file)
        }
        None => Config::load(&args.policy, around),
    };
    if output.json {
        let problem = config.as_ref().err().map(CliError::message);
        output.json(&json!({ "consistent": config.is_ok(), "problem": problem }))?;
    }
    match config {
        Ok(config) => {
            if !output.json {
                note(&format!("policy `{}` is consistent", config.policy.name));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            if !output.json {
                error.tell();
            }
            Ok(ExitCode::from(1))
        }
    }
}

fn show(config: &Config, around: &Surroundings, output: &mut Output) -> Result<ExitCode, CliError> {
    let policy = serde_json::to_value(&config.policy).map_err(|error| CliError::failed(error.to_string()))?;
    let fields = leaves("", &policy);
    if output.json {
        let names = fields.iter().map(|(field, _)| field.as_str()).chain(["policy", "context"]);
        let names = names.chain(super::store::FIELDS);
        let origins: BTreeMap<&str, Origin> = names.map(|field| (field, config.origin(field))).collect();
        output.json(&json!({
            "policy": policy,
            "context": config.context,
            "store": config.store.as_json(),
            "origins": origins,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let column = |heading, holds| Column { heading, holds };
    let columns = [("FIELD", Holds::Names), ("VALUE", Holds::Words(20)), ("ORIGIN", Holds::Names)];
    let mut table = Table::new(columns.map(|(heading, holds)| column(heading, holds)).to_vec());
    let origin = |field: &str| match config.origin(field) {
        Origin::File { path, line } => Origin::File { path: around.short(&path).into(), line }.to_string(),
        other => other.to_string(),
    };
    table.row(["policy".to_owned(), config.chosen.clone(), origin("policy")]);
    table.row(["context".to_owned(), config.context.to_string(), origin("context")]);
    for (field, value) in super::store::FIELDS.into_iter().zip(config.store.shown(around)) {
        table.row([field.to_owned(), value, origin(field)]);
    }
    for (field, value) in fields {
        table.row([field.clone(), shown(&value), origin(&field)]);
    }
    output.table(&table)?;
    Ok(ExitCode::SUCCESS)
}

/// A value as it would be written in a file; texts without their quotes.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
