//! The command reference in `docs/CLI.md`, generated from the definitions of the commands.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use super::{Cli, GLOBAL};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CLI.md");
const INTRODUCTION: &str = "# Command reference\n\n\
    Every command with its options, as `plimsoll COMMAND --help` shows them. This page is generated: `just reference` \
    updates it.\n";

/// Formats a text whose indented lines are code.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut in_code = false;
    for line in text.lines() {
        let is_code = line.starts_with("  ");
        if is_code != in_code {
            out.push_str(if is_code { "\n```text\n" } else { "```\n" });
            in_code = is_code;
        }
        let _ = writeln!(out, "{}", line.strip_prefix("  ").unwrap_or(line));
    }
    if in_code {
        out.push_str("```\n");
    }
    out
}

fn name_of(arg: &Arg) -> String {
    let values: String = arg
        .get_value_names()
        .filter(|_| arg.get_action().takes_values())
        .map(|names| names.iter().map(|name| format!(" <{name}>")).collect())
        .unwrap_or_default();
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("`-{short}`, `--{long}{values}`"),
        (None, Some(long)) => format!("`--{long}{values}`"),
        _ => format!("`{}`", arg.get_value_names().unwrap_or_default().join(" ")),
    }
}

fn description_of(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.display().to_string()).collect();
    if !defaults.is_empty() && !arg.is_hide_default_value_set() && arg.get_action().takes_values() {
        let _ = write!(text, " [default: {}]", defaults.join(", "));
    }
    let values: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if !arg.is_hide_possible_values_set() && !values.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, " [possible values: {}]", values.join(", "));
    }
    text.replace('|', "\\|").replace('\n', " ")
}

/// Formats the options with one heading as a table; empty if there are none.
fn table(title: &str, args: &[&Arg]) -> String {
    if args.is_empty() {
        return String::new();
    }
    let rows = args
        .iter()
        .map(|arg| format!("| {} | {} |\n", name_of(arg).replace('|', "\\|"), description_of(arg)));
    format!("\n| {} | |\n|---|---|\n{}", title.to_lowercase(), rows.collect::<String>())
}

fn section(command: &Command, path: &str, out: &mut String) {
    let _ = writeln!(out, "\n## {path}\n");
    let _ = writeln!(out, "{}.", command.get_about().map(ToString::to_string).unwrap_or_default());
    let usage = command.clone().render_usage().to_string();
    let _ = writeln!(out, "\n```text\n{}\n```", usage.trim_start_matches("Usage: "));
    if let Some(examples) = command.get_before_help() {
        let _ = write!(out, "\n{}", prose(&examples.to_string()));
    }
    let is_shown = |arg: &&Arg| {
        let id = arg.get_id().as_str();
        !arg.is_hide_set() && id != "help" && id != "version" && arg.get_help_heading() != Some(GLOBAL)
    };
    let args: Vec<&Arg> = command.get_arguments().filter(is_shown).collect();
    let of = |heading: Option<&str>, is_positional: bool| -> Vec<&Arg> {
        let fits = |arg: &&&Arg| {
            arg.is_positional() == is_positional && (is_positional || arg.get_help_heading() == heading)
        };
        args.iter().filter(fits).copied().collect()
    };
    out.push_str(&table("Arguments", &of(None, true)));
    out.push_str(&table("Options", &of(None, false)));
    let mut headings: Vec<&str> = Vec::new();
    for heading in args.iter().filter(|arg| !arg.is_positional()).filter_map(|arg| arg.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        out.push_str(&table(heading, &of(Some(heading), false)));
    }
    if let Some(notes) = command.get_after_help() {
        let _ = write!(out, "\n{}", prose(&notes.to_string()));
    }
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        section(below, &format!("{path} {}", below.get_name()), out);
    }
}

/// Returns the reference of all commands.
fn reference() -> String {
    let mut root = Cli::command();
    root.build();
    let mut out = INTRODUCTION.to_owned();
    let global: Vec<&Arg> =
        root.get_arguments().filter(|arg| arg.get_help_heading() == Some(GLOBAL)).collect();
    out.push_str("\n## Global options\n\nEvery command accepts these.\n");
    out.push_str(&table("Options", &global));
    if let Some(notes) = root.get_after_long_help() {
        let _ = write!(out, "\n{}", prose(&notes.to_string()));
    }
    for below in root.get_subcommands().filter(|below| below.get_name() != "help") {
        section(below, &format!("plimsoll {}", below.get_name()), &mut out);
    }
    out
}

#[test]
fn the_command_reference_is_current() {
    let current = reference();
    if std::env::var("PLIMSOLL_BLESS").is_ok() {
        return std::fs::write(FILE, current).unwrap();
    }
    let written = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(written == current, "docs/CLI.md is out of date: run `just reference`");
}

#[test]
fn the_command_reference_names_every_command_and_option() {
    let text = reference();
    fn check(command: &Command, path: &str, text: &str) {
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            let path = format!("{path} {}", below.get_name());
            let start = text.find(&format!("\n## {path}\n")).unwrap_or_else(|| panic!("no section `{path}`"));
            let own = text[start + 1..].split("\n## ").next().unwrap_or_default();
            for arg in below.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help") {
                let is_global = arg.get_help_heading() == Some(GLOBAL);
                assert!(
                    is_global || own.contains(&name_of(arg).replace('|', "\\|")),
                    "{path}: {}",
                    name_of(arg)
                );
            }
            check(below, &path, text);
        }
    }
    let mut root = Cli::command();
    root.build();
    check(&root, "plimsoll", &text);
}
