//! Help: the grouped list of commands, and the order of each page.

use clap::builder::StyledStr;
use clap::{CommandFactory, FromArgMatches, Subcommand};

use super::Cli;
use super::groups::{AgentCommand, ExportCommand, InspectCommand, ReduceCommand, SetupCommand, UndoCommand};
use crate::wrap::wrap;

/// Maximum width of help: longer lines are hard to read even on a wide terminal.
const MAX_WIDTH: usize = 100;
/// Spaces before a command's name, and between its name and description.
const GAP: usize = 2;

/// Order of a command's page: summary, usage, examples, options by group, notes. A command's examples are its
/// `before_help` and its notes its `after_help`, because clap has no other free-text slots.
const PAGE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Heading of a group of commands, and the function that adds its commands to a parent.
type Group = (&'static str, fn(clap::Command) -> clap::Command);

/// The groups in the order of the help page. A command is a variant of one group's enum, so it cannot be in two.
const GROUPS: [Group; 6] = [
    ("Agent", AgentCommand::augment_subcommands),
    ("Inspect", InspectCommand::augment_subcommands),
    ("Reduce", ReduceCommand::augment_subcommands),
    ("Undo and recall", UndoCommand::augment_subcommands),
    ("Export", ExportCommand::augment_subcommands),
    ("Setup", SetupCommand::augment_subcommands),
];

/// Parses the command line. Prints help or a usage error and exits if there is nothing to run.
pub(crate) fn parse() -> Cli {
    let mut command = command(width());
    let mut matches = command.clone().get_matches();
    Cli::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

/// The command with its pages laid out for terminals of this width.
///
/// clap allows one heading for all subcommands of a command. So the groups are written into the template, and clap itself
/// lists only the last one, to which it adds its own `help`.
pub(crate) fn command(width: usize) -> clap::Command {
    let mut command = with_pages(Cli::command()).term_width(width);
    let longest = command.get_subcommands().map(|below| below.get_name().len()).max().unwrap_or_default();
    let Some((last, before)) = GROUPS.split_last() else { return command };
    let mut listed = String::new();
    for (heading, augment) in before {
        let header = command.get_styles().get_header();
        listed.push_str(&format!("{header}{heading}:{header:#}\n"));
        for below in augment(clap::Command::new("")).get_subcommands() {
            listed.push_str(&line(below, command.get_styles(), longest, width));
            command = command.mut_subcommand(below.get_name(), |below| below.hide(true));
        }
        listed.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{{before-help}}{listed}{{all-args}}{{after-help}}"
    );
    command.subcommand_help_heading(last.0).help_template(StyledStr::from(template))
}

/// Sets the page order of every command below this one.
fn with_pages(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|below| with_pages(below.help_template(PAGE)))
}

/// A line of the list of commands, formatted like clap's own.
fn line(command: &clap::Command, styles: &clap::builder::Styles, longest: usize, width: usize) -> String {
    let literal = styles.get_literal();
    let name = command.get_name();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let indent = GAP + longest + GAP;
    let about = wrap(&about, width.saturating_sub(indent), 0).replace('\n', &format!("\n{:indent$}", ""));
    format!("{:GAP$}{literal}{name}{literal:#}{:2$}{about}\n", "", "", longest - name.len() + GAP)
}

/// Width of help: the terminal's, or `COLUMNS` if standard output is not a terminal.
fn width() -> usize {
    let terminal = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    let columns = terminal.or_else(variable).filter(|columns| *columns > 0);
    columns.map_or(MAX_WIDTH, |columns: usize| columns.min(MAX_WIDTH))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory;

    use super::{Cli, GROUPS, command};

    #[test]
    fn each_command_is_in_exactly_one_group() {
        let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (heading, augment) in GROUPS {
            for below in augment(clap::Command::new("")).get_subcommands() {
                groups.entry(below.get_name().to_owned()).or_default().push(heading);
            }
        }
        let all = Cli::command();
        for below in all.get_subcommands() {
            let name = below.get_name();
            assert_eq!(groups.remove(name).map(|groups| groups.len()), Some(1), "{name}");
        }
        assert!(groups.is_empty(), "not commands: {groups:?}");
    }

    #[test]
    fn help_lists_each_command_once_at_any_width() {
        for width in [40, 60, 80, 100] {
            let help = command(width).render_help().to_string();
            for below in Cli::command().get_subcommands() {
                let starts = |line: &&str| line.starts_with(&format!("  {} ", below.get_name()));
                let listed = help.lines().filter(starts).count();
                assert_eq!(listed, 1, "{} at {width}:\n{help}", below.get_name());
            }
            let listed =
                help.lines().skip_while(|line| !line.ends_with(':')).take_while(|line| *line != "Setup:");
            listed.for_each(|line| assert!(line.chars().count() <= width, "{width}: {line}"));
        }
    }

    #[test]
    fn examples_and_tables_of_every_page_fit_80_columns() {
        fn check(command: &clap::Command) {
            let texts = [
                command.get_before_help(),
                command.get_before_long_help(),
                command.get_after_help(),
                command.get_after_long_help(),
            ];
            for line in texts.into_iter().flatten().flat_map(|text| {
                let text = text.to_string();
                text.lines().map(str::to_owned).collect::<Vec<_>>()
            }) {
                // Paragraphs are wrapped; indented lines would break in the middle of a command.
                let fits = line.chars().count() <= 80 || !line.starts_with(' ');
                assert!(fits, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    /// Collects the long names of each short flag, over all commands.
    fn short_flags(command: &clap::Command, found: &mut BTreeMap<char, Vec<String>>) {
        for argument in command.get_arguments() {
            let Some(letter) = argument.get_short() else { continue };
            let long = argument.get_long().unwrap_or_default().to_owned();
            let meanings = found.entry(letter).or_default();
            if !meanings.contains(&long) {
                meanings.push(long);
            }
        }
        command.get_subcommands().for_each(|below| short_flags(below, found));
    }

    #[test]
    fn a_short_flag_has_one_meaning_in_all_commands() {
        let mut found = BTreeMap::new();
        let mut all = Cli::command();
        all.build();
        short_flags(&all, &mut found);
        for (letter, meanings) in &found {
            assert_eq!(meanings.len(), 1, "-{letter}: {meanings:?}");
        }
        for letter in "achjmnopstw".chars() {
            assert!(found.contains_key(&letter), "-{letter} is short for something common");
        }
    }

    #[test]
    fn a_common_option_has_its_short_flag_in_every_command() {
        let mut all = Cli::command();
        all.build();
        let mut without = Vec::new();
        fn collect(command: &clap::Command, without: &mut Vec<String>) {
            let common = ["session", "model", "policy", "context", "all", "limit", "json"];
            for argument in command.get_arguments() {
                let long = argument.get_long().unwrap_or_default();
                if common.contains(&long) && argument.get_short().is_none() {
                    without.push(format!("{} --{long}", command.get_name()));
                }
            }
            command.get_subcommands().for_each(|below| collect(below, without));
        }
        collect(&all, &mut without);
        assert!(without.is_empty(), "{without:?}");
    }
}
