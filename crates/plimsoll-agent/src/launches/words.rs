//! Which files a command would run, as far as its words tell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Launch;

/// A program that runs what a file of its directory says.
struct Runner {
    names: &'static [&'static str],
    /// Files that it reads in its directory, and in a directory that it is given.
    files: &'static [&'static str],
    /// Files that it runs in a directory that it is given, and not in its own.
    given: &'static [&'static str],
    /// Whether its plain words name targets and no files: `make build` does not run `build`, which may come to be.
    takes_targets: bool,
}

const RUNNERS: [Runner; 12] = [
    runner(&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"]).with_targets(),
    runner(&["just"], &["justfile", "Justfile", ".justfile"]).with_targets(),
    runner(&["task"], &["Taskfile.yml", "Taskfile.yaml"]).with_targets(),
    runner(&["rake"], &["Rakefile", "rakefile"]).with_targets(),
    runner(
        &["npm", "pnpm", "yarn"],
        &["package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnp.cjs", ".pnpmfile.cjs"],
    )
    .with_targets(),
    runner(&["npx", "pnpx"], &[".npmrc"]),
    runner(&["bun", "bunx"], &["package.json", "bunfig.toml", ".npmrc"]),
    runner(&["deno"], &["deno.json", "deno.jsonc"]),
    runner(&["cargo"], &[".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain"])
        .with_targets(),
    runner(&["uv", "uvx", "poetry", "pipenv", "hatch"], &["pyproject.toml", "uv.toml"]),
    runner(&["pre-commit"], &[".pre-commit-config.yaml"]).with_targets(),
    Runner {
        names: &["node", "tsx", "ts-node", "python", "python3", "pypy3"],
        files: &[],
        given: &["package.json", "index.js", "index.mjs", "index.cjs", "index.ts", "__main__.py"],
        takes_targets: false,
    },
];

const fn runner(names: &'static [&'static str], files: &'static [&'static str]) -> Runner {
    Runner { names, files, given: &[], takes_targets: false }
}

impl Runner {
    const fn with_targets(mut self) -> Runner {
        self.takes_targets = true;
        self
    }
}

const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "fish"];
/// Programs that run a file that they are given by its name, beside those of [`RUNNERS`].
const INTERPRETERS: [&str; 8] = [".", "source", "perl", "ruby", "php", "lua", "Rscript", "exec"];
/// Programs that look for others in `node_modules/.bin`.
const OF_MODULES: [&str; 7] = ["npx", "pnpx", "npm", "pnpm", "yarn", "bun", "bunx"];

/// What a command is given to work on, by the ends of names. A person who configures a command names no script so, and a
/// server's own database changes all the time.
const DATA: [&str; 14] = [
    "csv", "db", "db3", "duckdb", "jsonl", "log", "md", "ndjson", "parquet", "pid", "sock", "sqlite",
    "sqlite3", "txt",
];

/// The files that the words of a command name, whether they are there or not.
pub(super) fn named_files(launch: Launch<'_>) -> BTreeSet<PathBuf> {
    let mut names = Names { launch, found: BTreeSet::new() };
    let words: Vec<&str> = launch.command.iter().map(String::as_str).collect();
    names.command(&words, Reading::Exact);
    names.found
}

/// How a command is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Word by word, as it will be run. Every word may be a file that is run.
    Exact,
    /// As a line of a shell, split without a shell's rules. It names its own outputs, too, so that only what a program would
    /// run counts.
    Line,
}

struct Names<'a> {
    launch: Launch<'a>,
    found: BTreeSet<PathBuf>,
}

impl Names<'_> {
    fn command(&mut self, words: &[&str], reading: Reading) {
        let Some((program, arguments)) = words.split_first() else { return };
        self.program(program);
        let bare: Vec<&str> = words.iter().map(|word| base_name(word)).collect();
        let has = |names: &[&str]| bare.iter().any(|word| names.contains(word));
        let is_python = bare.iter().any(|word| word.starts_with("python") || word.starts_with("pypy"));
        let runners: Vec<&Runner> = RUNNERS.iter().filter(|runner| has(runner.names)).collect();
        let takes_targets = runners.iter().any(|runner| runner.takes_targets);
        let runs_arguments = reading == Reading::Exact
            || is_python
            || runners.iter().any(|runner| !runner.takes_targets)
            || has(&SHELLS)
            || has(&INTERPRETERS);
        for (at, word) in arguments.iter().enumerate() {
            let before = if at == 0 { program } else { arguments[at - 1] };
            if has(&SHELLS) && before.starts_with('-') && before.ends_with('c') {
                self.line(word);
                continue;
            }
            if is_python && before == "-m" {
                self.module(word);
            }
            if has(&OF_MODULES) && is_plain(word) {
                self.add(Path::new("node_modules/.bin").join(word));
            }
            if runs_arguments && !(takes_targets && is_plain(word)) {
                self.argument(word);
            }
        }
        let directory = self.launch.directory.to_owned();
        let given: Vec<PathBuf> =
            arguments.iter().map(|word| directory.join(word)).filter(|path| path.is_dir()).collect();
        for runner in runners {
            for file in runner.files {
                self.add(directory.join(file));
                given.iter().for_each(|folder| self.add(folder.join(file)));
            }
            for file in runner.given {
                given.iter().for_each(|folder| self.add(folder.join(file)));
            }
        }
    }

    /// A program: a path, or a name that is looked for along `PATH`. What comes first there is run, so a name that is
    /// missing in an earlier folder has to stay missing.
    fn program(&mut self, word: &str) {
        if word.contains('/') {
            return self.add(word);
        }
        let Some(path) = self.launch.path else { return };
        for folder in std::env::split_paths(path) {
            let place = self.launch.directory.join(folder).join(word);
            let is_found = place.is_file();
            self.add(place);
            if is_found {
                break;
            }
        }
    }

    fn argument(&mut self, word: &str) {
        let is_data = |word: &str| {
            let end = Path::new(word).extension().and_then(|end| end.to_str());
            end.is_some_and(|end| DATA.contains(&end.to_ascii_lowercase().as_str()))
        };
        if word.is_empty() || is_data(word) {
            return;
        }
        self.add(word);
        // `env python3 x`, `timeout 5 check`: a word may be a program as well.
        if is_plain(word) {
            self.program(word);
        }
        // `--require=./hook.js`
        if let Some((_, value)) = word.split_once('=').filter(|(_, value)| !value.is_empty()) {
            self.add(value);
        }
    }

    /// A module of Python, which is looked for in the directory first.
    fn module(&mut self, word: &str) {
        let folder = word.replace('.', "/");
        self.add(format!("{folder}.py"));
        let mut above = Path::new(&folder);
        self.add(above.join("__main__.py"));
        while !above.as_os_str().is_empty() {
            self.add(above.join("__init__.py"));
            above = above.parent().unwrap_or(Path::new(""));
        }
    }

    /// The commands of a line for a shell.
    fn line(&mut self, line: &str) {
        for command in line.split([';', '&', '|', '(', ')', '{', '}', '`', '\n']) {
            let mut words = Vec::new();
            let mut is_target = false;
            for word in command.split_whitespace() {
                let bare = word.trim_matches(['"', '\'']);
                // What is written to is no code of this command, and an assignment is no program.
                let is_redirection = word.contains('>');
                let is_assignment = words.is_empty() && bare.contains('=');
                if !is_target && !is_redirection && !is_assignment {
                    words.push(bare.trim_start_matches('<'));
                }
                is_target = word.ends_with('>');
            }
            self.command(&words, Reading::Line);
        }
    }

    fn add(&mut self, path: impl AsRef<Path>) {
        self.found.insert(self.launch.directory.join(path));
    }
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Whether a word is a name and neither a path nor an option.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && !word.starts_with('-') && !word.contains(['/', '.'])
}
