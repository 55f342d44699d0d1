//! The help of the command as a whole: what can be done, by groups.

use clap::builder::StyledStr;
use clap::{CommandFactory, FromArgMatches, Subcommand};

use super::Cli;
use super::groups::{AgentCommand, LookCommand, PassCommand, ReduceCommand, ReturnCommand, SetupCommand};
use crate::wrap::wrap;

/// Longer lines are hard to read, however wide the terminal is.
const WIDEST: usize = 100;
/// Between names and what is said of them, and before names.
const GAP: usize = 2;

/// A group of commands: its heading, and what adds its commands to others.
type Group = (&'static str, fn(clap::Command) -> clap::Command);

/// The groups in the order of the help. A command is a variant of one group's enum, so it cannot be in two.
const GROUPS: [Group; 6] = [
    ("Work with an agent", AgentCommand::augment_subcommands),
    ("Look at sessions", LookCommand::augment_subcommands),
    ("Make room, and say what stays", ReduceCommand::augment_subcommands),
    ("Bring back", ReturnCommand::augment_subcommands),
    ("Pass on", PassCommand::augment_subcommands),
    ("Set up", SetupCommand::augment_subcommands),
];

/// What was asked on the command line; where it was asked wrongly, or for help, the process ends here.
pub(crate) fn parse() -> Cli {
    let mut command = command(width());
    let mut matches = command.clone().get_matches();
    Cli::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

/// The command with its groups in its help, set for this width.
///
/// clap has one heading for all commands of a command. So the groups are written into the template, and clap itself
/// lists only the last of them, to which it adds its own `help`.
fn command(width: usize) -> clap::Command {
    let mut command = Cli::command().term_width(width);
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
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{{all-args}}{{after-help}}");
    command.subcommand_help_heading(last.0).help_template(StyledStr::from(template))
}

/// A command and what it does, as clap sets it.
fn line(command: &clap::Command, styles: &clap::builder::Styles, longest: usize, width: usize) -> String {
    let literal = styles.get_literal();
    let name = command.get_name();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let indent = GAP + longest + GAP;
    let about = wrap(&about, width.saturating_sub(indent), 0).replace('\n', &format!("\n{:indent$}", ""));
    format!("{:GAP$}{literal}{name}{literal:#}{:2$}{about}\n", "", "", longest - name.len() + GAP)
}

/// How wide help is: as the terminal, or as COLUMNS says where there is none.
fn width() -> usize {
    let known = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    known.or_else(said).filter(|columns| *columns > 0).map_or(WIDEST, |columns: usize| columns.min(WIDEST))
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
                let begins = |line: &&str| line.trim_start().starts_with(&format!("{} ", below.get_name()));
                let listed = help.lines().filter(|line| line.starts_with("  ")).filter(begins).count();
                assert_eq!(listed, 1, "{} at {width}:\n{help}", below.get_name());
            }
            let about =
                help.lines().skip_while(|line| !line.ends_with(':')).take_while(|line| *line != "Set up:");
            about.for_each(|line| assert!(line.chars().count() <= width, "{width}: {line}"));
        }
    }

    /// What a letter stands for, over all commands.
    fn letters(command: &clap::Command, found: &mut BTreeMap<char, Vec<String>>) {
        for argument in command.get_arguments() {
            let Some(letter) = argument.get_short() else { continue };
            let long = argument.get_long().unwrap_or_default().to_owned();
            let meanings = found.entry(letter).or_default();
            if !meanings.contains(&long) {
                meanings.push(long);
            }
        }
        command.get_subcommands().for_each(|below| letters(below, found));
    }

    #[test]
    fn a_letter_has_one_meaning_in_all_commands() {
        let mut found = BTreeMap::new();
        let mut all = Cli::command();
        all.build();
        letters(&all, &mut found);
        for (letter, meanings) in &found {
            assert_eq!(meanings.len(), 1, "-{letter}: {meanings:?}");
        }
        for letter in "achjmnopstw".chars() {
            assert!(found.contains_key(&letter), "-{letter} is short for something common");
        }
    }

    /// Whether an option that has a letter anywhere has it everywhere.
    #[test]
    fn a_common_option_has_its_letter_wherever_it_means_the_same() {
        let mut all = Cli::command();
        all.build();
        let mut without = Vec::new();
        fn look(command: &clap::Command, without: &mut Vec<String>) {
            let common = ["session", "model", "policy", "context", "all", "limit", "json"];
            for argument in command.get_arguments() {
                let long = argument.get_long().unwrap_or_default();
                if common.contains(&long) && argument.get_short().is_none() {
                    without.push(format!("{} --{long}", command.get_name()));
                }
            }
            command.get_subcommands().for_each(|below| look(below, without));
        }
        look(&all, &mut without);
        assert!(without.is_empty(), "{without:?}");
    }
}
