//! The environment of commands: working directory, branch, variables, and versions of tools.

use std::collections::BTreeMap;

use super::call::{Call, Outcome};
use super::commands::command_lines;
use super::newest::NewestLast;
use super::shell::{self, Program};
use crate::chars::{Chars, head};
use crate::pattern::Regex;
use crate::prose::{Pattern, plain, shorten};
use crate::redact::redact;

/// The environment in which commands ran, as known from the calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Directory in which most commands ran.
    pub directory: Option<String>,
    /// Newest branch of the repository.
    pub branch: Option<String>,
    /// Variables that were set for commands, as `NAME=value`, the newest last.
    pub variables: Vec<String>,
    /// Versions that tools reported, the newest last.
    pub versions: Vec<String>,
}

/// Collects the environment from calls.
#[derive(Default)]
pub(super) struct EnvironmentCollector {
    directories: BTreeMap<String, usize>,
    branch: Option<String>,
    variables: NewestLast,
    versions: NewestLast,
    scan: Chars,
}

/// Maximum length of a line that reports a version.
const LONGEST_VERSION: Chars = Chars(60);
/// Variables of the shell, which say nothing about the project.
const SHELLS_OWN: [&str; 8] = ["PATH", "HOME", "PWD", "OLDPWD", "IFS", "PS1", "EXIT", "STATUS"];

impl EnvironmentCollector {
    /// `scan` is how much of each result is read.
    pub(super) fn new(scan: Chars) -> EnvironmentCollector {
        EnvironmentCollector { scan, ..EnvironmentCollector::default() }
    }

    /// Records the environment of a call.
    pub(super) fn note(&mut self, call: &Call) {
        let lines = command_lines(call);
        if lines.is_empty() || call.outcome == Outcome::Open {
            return;
        }
        let given = call.field(&["workdir", "cwd", "working_directory"]);
        for line in lines {
            let programs = shell::programs(&line);
            for program in &programs {
                let inner = program.directory.as_deref().map(|inner| shell::join(given, inner));
                if let Some(directory) = inner.as_deref().or(given).filter(|path| is_directory(path)) {
                    let directory = directory.trim_end_matches(['/', '\\']).replace('\\', "/");
                    *self.directories.entry(redact(&directory).text).or_default() += 1;
                }
                self.note_variables(program);
            }
            self.note_branch(&programs, call);
            if let [program] = programs.as_slice() {
                self.note_version(program, call);
            }
        }
    }

    fn note_variables(&mut self, program: &Program) {
        let exported = program.operands().filter(|word| program.name() == "export" && word.contains('='));
        let settings = program.settings.iter().map(String::as_str).chain(exported);
        for setting in settings.filter(|setting| setting.len() <= 80) {
            let Some((name, value)) = setting.split_once('=') else { continue };
            // A value that another command computes is not a setting of the environment.
            if name.len() < 3 || SHELLS_OWN.contains(&name) || value.contains("$(") || value.contains('`') {
                continue;
            }
            self.variables.add(name.to_owned(), redact(setting).text);
        }
    }

    fn note_branch(&mut self, programs: &[Program], call: &Call) {
        static BRANCH: Pattern = Pattern::new(|| {
            Regex::new(r"(?m)^On branch ([\w./-]+)|^\[([\w./-]+)(?: \(root-commit\))? [0-9a-f]{7,40}\]|^Switched to (?:a new )?branch '([\w./-]+)'").ok()
        });
        if call.outcome != Outcome::Ended || !programs.iter().any(|program| program.name() == "git") {
            return;
        }
        let found =
            BRANCH.as_ref().and_then(|branch| branch.captures_iter(head(call.result, self.scan)).last());
        let name = found.and_then(|found| (1..=3).find_map(|group| found.get(group)));
        self.branch = name.map(|name| name.as_str().to_owned()).or(self.branch.take());
    }

    fn note_version(&mut self, program: &Program, call: &Call) {
        let asks = program
            .arguments()
            .iter()
            .any(|word| matches!(word.as_str(), "--version" | "-V" | "-v" | "version"));
        let line = call.result.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let is_version = line.chars().any(|c| c.is_ascii_digit()) && Chars::of(line) <= LONGEST_VERSION;
        if call.outcome != Outcome::Ended || !asks || !is_version || program.arguments().len() > 2 {
            return;
        }
        let name = program.name();
        let line = plain(&redact(line).text);
        let line = if line.to_lowercase().starts_with(&name.to_lowercase()) {
            line
        } else {
            format!("{name} {line}")
        };
        let tool = line.split(' ').next().unwrap_or_default().to_owned();
        self.versions.add(tool, shorten(&line, LONGEST_VERSION + Chars(20)));
    }

    /// Returns the environment, with the directory in which most commands ran.
    pub(super) fn finish(self) -> Environment {
        let directory =
            self.directories.into_iter().max_by_key(|(path, count)| (*count, std::cmp::Reverse(path.len())));
        Environment {
            directory: directory.map(|(path, _)| path),
            branch: self.branch,
            variables: self.variables.finish(),
            versions: self.versions.finish(),
        }
    }
}

/// Whether a path names a directory by itself: it is absolute and free of variables.
fn is_directory(path: &str) -> bool {
    let is_absolute = path.starts_with(['/', '~']) || path.get(1..2) == Some(":");
    is_absolute && path.len() > 3 && !path.contains(['$', '*', '\n', '"', '\''])
}
