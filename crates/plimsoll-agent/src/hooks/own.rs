//! Hooks of the user's configuration in an untrusted project.
//!
//! A hook of the user's configuration runs in the directory of any project. `make check`, `npx eslint` or `sh -c
//! ./check.sh` then run code of the project with the hook's grants. A command line does not show which ones do, so
//! there is no list of programs: a hook counts as the user's own only if all its words are absolute paths outside the
//! project or options. The user is warned about any other hook that has grants or is not confined. It runs
//! nevertheless, because the user configured it for all projects.

use std::path::Path;

use plimsoll::redact::redact;
use plimsoll_config::{HookCommand, Origin, RunConfig};
use plimsoll_sandbox::{Guard, Sandbox};

use crate::untrusted::clean;

/// Returns one notice about all hooks that may run code of an untrusted project with additional rights.
pub(crate) fn hook_notices(run: &RunConfig, project: &Path, sandbox: &Sandbox) -> Option<String> {
    let may_more = |hook: &HookCommand| {
        !hook.grants.is_empty() || !sandbox.granting(&hook.grants).confinement().holds(Guard::Writes)
    };
    let is_meant = |hook: &&HookCommand| {
        !run.is_trusted && is_own(hook, project) && may_run_project(&hook.command, project) && may_more(hook)
    };
    let names: Vec<String> = run
        .hooks
        .iter()
        .filter(is_meant)
        .map(|hook| format!("`{}`", redact(&clean(&hook.command.join(" "), 80)).text))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "this project is not trusted, and hooks of yours may run code of it with more rights than commands have: {}; a \
             hook whose words are all absolute paths outside of the project, or options, is taken to be yours alone",
            names.join(", ")
        )
    })
}

/// Returns whether the hook is not from the project's own configuration, which needs trust.
fn is_own(hook: &HookCommand, project: &Path) -> bool {
    !matches!(&hook.origin, Origin::File { path, .. } if path.starts_with(project))
}

fn may_run_project(command: &[String], project: &Path) -> bool {
    let is_foreign = |word: &String| {
        let path = Path::new(word);
        path.is_absolute() && !path.canonicalize().unwrap_or_else(|_| path.to_owned()).starts_with(project)
    };
    let mut words = command.iter();
    // Options can only follow the program.
    !words.next().is_some_and(is_foreign) || !words.all(|word| word.starts_with('-') || is_foreign(word))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::may_run_project;

    #[test]
    fn only_absolute_paths_outside_are_taken_to_be_the_users_own() {
        let judge = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            may_run_project(&words, Path::new("/project"))
        };
        for words in [
            &["/home/me/guard"][..],
            &["/home/me/guard", "--strict", "-v"],
            &["/usr/bin/python3", "/home/me/guard.py"],
        ] {
            assert!(!judge(words), "{words:?}");
        }
        for words in [
            &["make", "check"][..],
            &["/usr/bin/make", "check"],
            &["sh", "-c", "./check.sh"],
            &["/bin/sh", "-c", "./check.sh"],
            &["./check.sh"],
            &["/project/check.sh"],
            &["/usr/bin/python3", "tools/guard.py"],
            &["guard"],
        ] {
            assert!(judge(words), "{words:?}");
        }
    }
}
